"""Errors of one rank reach all of them, or end them all; no answer is taken for another."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ranks.test_ranks import finished, needs_mpiexec

pytest.importorskip("mpi4py")
SCRIPT = str(Path(__file__).parent / "failures.py")


@pytest.mark.whole
@needs_mpiexec
def test_an_error_comes_to_all_ranks_and_work_goes_on() -> None:
    """With the same ranks from case to case."""
    cases = ("answers", "callback", "signals")
    done = finished(3, "-W", "ignore", SCRIPT, *cases)
    assert done.returncode == 0, done.stderr
    assert [done.stdout.count(f"good {case}") for case in cases] == [3, 3, 3]


@pytest.mark.whole
@needs_mpiexec
def test_who_waits_for_a_call_of_others_tells_so() -> None:
    """A rank that skipped a call let the others wait without a word."""
    done = finished(3, "-W", "ignore", SCRIPT, "late")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("good late") == 3
    for rank, call in ((0, "VMC.run"), (2, "VMC.run"), (1, "VMC(..., comm)")):
        told = [line for line in done.stderr.splitlines() if f"rank {rank} of 3" in line]
        assert sum(f"in {call} for" in line for line in told) == 1, done.stderr


@pytest.mark.whole
@needs_mpiexec
@pytest.mark.parametrize("case", ["other_call", "wrong_argument"])
def test_a_rank_that_does_something_else_ends_all(case: str) -> None:
    done = finished(2, "-W", "ignore", SCRIPT, case)
    assert done.returncode != 0
    assert "good" not in done.stdout
