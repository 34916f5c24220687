"""What all tests of commands share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tnvmc.report.figures.style import MADE_BY


@pytest.fixture(scope="module", autouse=True)
def pictures_are_composed_only() -> Iterator[None]:
    """Figures are made of what a run left; writing them out, a second each, is for tests of `report/`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tnvmc.report.figures.style.encode", lambda *_: MADE_BY.encode())
        patch.setattr("tnvmc.report.figures.style.inline_svg", lambda *_: "<svg></svg>")
        patch.setattr("tnvmc.app.results.energy_picture", lambda *_, **__: b"")
        yield
