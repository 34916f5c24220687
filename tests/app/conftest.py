"""What all tests of commands share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module", autouse=True)
def energy_picture_left_out() -> Iterator[None]:
    """Runs draw a picture at their end, for a second or two; tests of it put it back."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tnvmc.app.results.energy_picture", lambda *_, **__: b"")
        yield
