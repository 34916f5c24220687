"""Pictures that nobody looks at: figures are made of what a run left, and not written out, a second each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from tnvmc.report.figures.style import MADE_BY

_INSTEAD = {
    "tnvmc.report.figures.style.encode": lambda *_: MADE_BY.encode(),
    "tnvmc.report.figures.style.inline_svg": lambda *_: "<svg></svg>",
    "tnvmc.report.plots.energy_picture": lambda *_, **__: b"",
}


@contextmanager
def composed_only() -> Iterator[None]:
    """Commands inside write empty pictures."""
    with ExitStack() as stack:
        for name, instead in _INSTEAD.items():
            stack.enter_context(patch(name, instead))
        yield
