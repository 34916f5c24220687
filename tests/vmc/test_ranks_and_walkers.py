"""Warnings of ranks without work, and of more threads than cores; without MPI."""

from __future__ import annotations

import warnings

import pytest

from tnvmc import MPS, PEPS, Sampler, chain, square
from tnvmc.ansatz.protocol import Ansatz
from tnvmc.backend.process import Ranks
from tnvmc.session.arguments import check_sampler


def some_ranks(size: int, cores: int) -> Ranks:
    ranks = Ranks()
    ranks.size = ranks.on_this_machine = size
    ranks.cores_here = cores
    return ranks


def warned(sampler: Sampler, ansatz: Ansatz, ranks: Ranks) -> int:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        check_sampler(sampler, ansatz, ranks, None)
    return len(found)


PEPS_2 = PEPS(square(2, 2), D=2)


@pytest.mark.parametrize(
    ("threads", "size", "cores", "expected"),
    [(1, 2, 2, 0), (2, 2, 2, 1), (1, 3, 2, 1), (2, 2, 4, 0)],
)
def test_threads_beyond_cores_are_told(threads: int, size: int, cores: int, expected: int) -> None:
    sampler = Sampler(n_walkers=64, threads=threads)
    assert warned(sampler, PEPS_2, some_ranks(size, cores)) == expected


def test_ranks_without_walkers_are_told() -> None:
    whole = Sampler(n_walkers=64, threads=1)
    assert warned(whole, PEPS_2, some_ranks(4, 8)) == 0  # its chunks become smaller
    mps = MPS(chain(6), D=2)
    assert warned(Sampler(n_walkers=64, threads=1, chunk=32), mps, some_ranks(4, 8)) == 1
    assert warned(Sampler(n_walkers=64, threads=1, chunk=16), mps, some_ranks(4, 8)) == 0


def test_one_process_is_told_nothing() -> None:
    assert warned(Sampler(n_walkers=4, threads=64), PEPS_2, Ranks()) == 0


def test_more_ranks_than_walkers_are_refused() -> None:
    with pytest.raises(ValueError, match="4 walkers for 5 ranks"):
        check_sampler(Sampler(n_walkers=4), PEPS_2, some_ranks(5, 8), None)
