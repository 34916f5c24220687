"""What all tests of commands share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.pictures import composed_only


@pytest.fixture(scope="module", autouse=True)
def pictures_are_composed_only() -> Iterator[None]:
    """Writing figures out is for tests of `report/`."""
    with composed_only():
        yield
