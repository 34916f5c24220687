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
            shares.done[0] = 1.0
            shares.show()
    assert told == [0, 0, 0.25, 0.25, 0.5, 0.5, 0.75, 0.75, 1]


def test_nothing_is_shown_where_nobody_asks() -> None:
    progress.begin("phase")
    progress.tell(HALF)
    told: list[float | None] = []
    with progress.watched(lambda _, share: told.append(share)), progress.watched(None):
        progress.begin("phase")
        assert own_chunks(ALONE, len, [range(2)], 1) == [2]
    assert told == []


def test_a_share_never_falls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Direct draws are measured in the phase in which they are made; it used to begin anew."""
    monkeypatch.setattr(progress, "INTERVAL", -1.0)
    told: list[float | None] = []
    with progress.watched(lambda phase, share: told.append(share)):
        progress.begin("energy")
        for _ in range(2):
            shares = progress.Shares([1])
            for shares.done[0] in (0.25, 0.5):
                shares.show()
        progress.begin("again")
    assert told == [0.0, 0.25, 0.5, 0.5, 0.5, 0.0]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock of which the only entry is the time."""
    time = [0.0]
    monkeypatch.setattr(progress, "_compilations", [])
    monkeypatch.setattr(progress, "compiled", 0.0)
    monkeypatch.setattr(progress.time, "perf_counter", lambda: time[0])
    return time


def test_what_overlaps_counts_once(clock: list[float]) -> None:
    totals = []
    # Ends and durations: apart; two within the third; one that overlaps with it.
    for clock[0], seconds in [(1.0, 0.5), (3.0, 0.5), (4.0, 0.5), (5.0, 2.5), (6.0, 1.5)]:
        progress.add_compilation(seconds)
        totals.append(progress.compiled)
    assert totals == [0.5, 1.0, 1.5, 3.0, 4.0]


def test_other_events_of_jax_do_not_count(clock: list[float]) -> None:
    clock[0] = 2.0
    progress.on_jax_event("/jax/compilation_cache/cache_retrieval_time_sec", 1.0)
    assert progress.compiled == 0.0
    progress.on_jax_event("/jax/core/compile/backend_compile_duration", 1.0, fun_name="f")
    assert progress.compiled == 1.0


def test_jax_reports_what_it_compiles() -> None:
    jax = pytest.importorskip("jax")
    pytest.importorskip("tnvmc.ansatz.neural.functional")
    before = progress.compiled
    jax.jit(lambda x: 3.25 * x + 1.5)(1.0)
    assert progress.compiled > before
