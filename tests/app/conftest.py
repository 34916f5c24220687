"""What all tests of commands share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.pictures import composed_only
from tnvmc.app import recording


@pytest.fixture(autouse=True)
def checkpoints_are_frequent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of a few steps go on from a checkpoint within them."""
    monkeypatch.setattr(recording, "EVERY", 2)


@pytest.fixture(scope="module", autouse=True)
def pictures_are_composed_only() -> Iterator[None]:
    """Writing figures out is for tests of `report/`."""
    with composed_only():
        yield
