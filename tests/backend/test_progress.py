"""Shares of work: from threads, in parts, and nothing where nobody asks."""

from __future__ import annotations

import time

import pytest

from tnvmc.backend import progress
from tnvmc.backend.process import ALONE, own_chunks

HALF = 0.5


def _slow(chunk: range) -> int:
    time.sleep(2 * progress.INTERVAL)
    progress.tell(HALF)
    time.sleep(2 * progress.INTERVAL)
    return len(chunk)


@pytest.mark.whole
@pytest.mark.parametrize("workers", [1, 2])
def test_shares_of_workers(workers: int) -> None:
    told: list[tuple[str, float]] = []
    with progress.watched(lambda *found: told.append(found)):
        progress.begin("phase")
        assert own_chunks(ALONE, _slow, [range(1), range(3)], workers) == [1, 3]
    assert told[0] == ("phase", 0.0)
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert any(0 < share < 1 for share in shares)
    if workers == 1:  # half of the second, after the first
        assert 0.25 + HALF * 0.75 in shares


def test_parts_follow_each_other() -> None:
    told: list[float] = []
    with progress.watched(lambda _, share: told.append(share)):
        progress.begin("phase")
        for _ in progress.in_turn("abcd"):
            shares = progress.Shares([1])
            time.sleep(1.1 * progress.INTERVAL)
            with shares.of(0):
                pass
    assert told == [0, 0, 0.25, 0.25, 0.5, 0.5, 0.75, 0.75, 1]


def test_nothing_is_shown_where_nobody_asks() -> None:
    progress.begin("phase")
    progress.tell(HALF)
    told: list[float | None] = []
    with progress.watched(lambda _, share: told.append(share)), progress.watched(None):
        progress.begin("phase")
        assert own_chunks(ALONE, len, [range(2)], 1) == [2]
    assert told == []
