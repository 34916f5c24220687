"""Shares of work: from threads and processes, in parts, and nothing where nobody asks."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pytest

from tnvmc.backend import progress
from tnvmc.sampling.workers import in_workers

HALF = 0.5


def _slow(chunk: range) -> int:
    time.sleep(2 * progress.BETWEEN_LOOKS)
    progress.tell(HALF)
    time.sleep(2 * progress.BETWEEN_LOOKS)
    return len(chunk)


@pytest.mark.whole
@pytest.mark.parametrize(("workers", "processes"), [(1, False), (2, False), (2, True)])
def test_shares_of_workers(
    workers: int, processes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    told: list[tuple[str, float]] = []
    with progress.watched(lambda *found: told.append(found)):
        progress.begin("phase")
        assert in_workers(_slow, [range(1), range(3)], workers, processes=processes) == [1, 3]
    assert told[0] == ("phase", 0.0)
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert any(0 < share < 1 for share in shares)
    if workers == 1:  # half of the second, after the first
        assert 0.25 + HALF * 0.75 in shares
    assert not [*tmp_path.iterdir()]


def test_parts_follow_each_other() -> None:
    told: list[float] = []
    with progress.watched(lambda _, share: told.append(share)):
        progress.begin("phase")
        for _ in progress.in_turn("abcd"):
            with progress.tally([1]) as tally:
                assert tally is not None
                time.sleep(1.1 * progress.BETWEEN_LOOKS)
                tally.task(len, 0, look=True)(range(1))
    assert told == [0, 0, 0.25, 0.25, 0.5, 0.5, 0.75, 0.75, 1]


def test_nothing_is_done_where_nobody_asks() -> None:
    progress.begin("phase")
    progress.tell(HALF)
    with progress.tally([1, 2]) as tally:
        assert tally is None
    with progress.watched(None), progress.tally([1]) as tally:
        assert tally is None


def test_no_room_for_what_is_told_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with progress.watched(lambda *found: None):
        progress.begin("phase")
        assert in_workers(len, [range(2)], 1) == [2]
