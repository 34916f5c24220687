"""Ranks: processes that share the work of one program, on one machine or on many.

Rank 0 runs the program; the others wait for what it asks them to do (`tnvmc.backend.mpi`).  So what
looks at a clock, a signal or a file, and what decides, is in one process, and never differs.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np


class Ranks:
    """All ranks of a program, seen from the one that leads: one process alone."""

    rank = 0
    size = 1
    on_this_machine = 1  #: ranks
    machine = 0  #: its lowest rank
    devices: list[tuple[int, str]] | None = None
    """The GPU of each rank, its machine and address, once they were asked for."""
    cores_here: int | None = None  #: of this machine, for its ranks; None for one process

    def each(self, task: Callable[..., Any], *arguments: Any, constant: object = None) -> list[Any]:
        """Results of ``task(ranks, *arguments)`` on every rank, in their order.

        The first error of any of them is raised, once all have ended.

        Args:
            task: a picklable function, which does not talk to other ranks.
            arguments: picklable; what is `Resident` elsewhere arrives as itself where it is.
            constant: an object in the arguments that is sent once, and kept.
        """
        return [task(self, *arguments)]

    def together(self, task: Callable[..., Any], *arguments: Any) -> list[Any]:
        """The same for a task in which ranks talk to each other; an error of one ends them all."""
        return [task(self, *arguments)]

    def follow(self) -> Any:
        """Do what rank 0 asks for until it ends that, with a value; of other ranks than rank 0."""
        raise NotImplementedError

    def end(self, value: Any = None) -> None:
        """Let the other ranks return from `follow` with a value."""

    def found(self, value: Any) -> Any:
        """What is `Resident` here, for its `Place`; anything else as it is."""
        return value

    # --- for tasks of `together`: all ranks call them

    def told(self, value: Any) -> Any:
        """The value of rank 0, on all ranks."""
        return value

    def collected(self, value: Any) -> list[Any]:
        """The values of all ranks, in their order, on rank 0; nothing elsewhere."""
        return [value]

    def exchange(self, sent: Sequence[np.ndarray], received: Sequence[np.ndarray]) -> None:
        """Send one contiguous array to each rank, and fill one from each; the own one is copied."""
        received[0][...] = sent[0].reshape(received[0].shape)

    def broadcast(self, array: np.ndarray, root: int) -> None:
        """Fill contiguous arrays of all ranks with that of `root`."""

    def add_up(self, array: np.ndarray, root: int = 0) -> None:
        """Sum contiguous arrays of all ranks into that of `root`, in any order: for exact sums."""

    def largest(self, array: np.ndarray) -> None:
        """Replace contiguous arrays of real numbers, none NaN, by the largest of all ranks."""


ALONE = Ranks()


class Here:
    """What only rank 0 has: in the arguments of a task it arrives elsewhere as None."""

    def __init__(self, value: Any = None) -> None:
        self.value = value

    def __reduce__(self) -> tuple[Any, ...]:
        return Here, ()


class Resident:
    """What stays on the rank that made it, while rank 0 gets a `Place` as the result."""

    def about(self) -> Any:
        """What rank 0 is told of it."""


class Place:
    """Where something `Resident` is; it is freed with the last reference to its place."""

    def __init__(self, rank: int, key: int, about: Any) -> None:
        self.rank, self.key, self.about = rank, key, about


_IN_USE: ContextVar[Ranks] = ContextVar("ranks", default=ALONE)


def in_use() -> Ranks:
    """The ranks that large pieces of work are shared by."""
    return _IN_USE.get()


@contextmanager
def using_ranks(ranks: Ranks) -> Iterator[None]:
    """Let large pieces of work be shared by `ranks` inside the block, in this thread."""
    token = _IN_USE.set(ranks)
    try:
        yield
    finally:
        _IN_USE.reset(token)


_LAUNCHERS = (  # names of the number of processes, and of the place among them
    ("PMI_SIZE", "PMI_RANK"),  # MPICH, Intel MPI, Cray MPICH
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),  # Open MPI
    ("MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"),  # MVAPICH2
    ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),  # srun
)


def launched(environment: Mapping[str, str] = os.environ) -> tuple[int, int]:
    """Give (rank, size) of this process, as mpiexec or srun says; (0, 1) without a launcher."""
    for of_size, of_rank in _LAUNCHERS:
        size, rank = environment.get(of_size, ""), environment.get(of_rank, "")
        if size.isdecimal() and rank.isdecimal() and int(size) > 1:
            return int(rank), int(size)
    return 0, 1


def shares(sizes: list[int], n: int) -> list[range]:
    """Deal parts of such sizes out to n ranks: to each some in a row, about equal in sum."""
    places = [0, *itertools.accumulate(sizes)]
    part, ends = 0, list[int]()
    for k in range(1, n + 1):
        distance = [abs(place * n - k * places[-1]) for place in places]
        while part < len(sizes) and distance[part + 1] <= distance[part]:
            part += 1  # to the end that lies nearest to k/n of the whole
        ends.append(len(sizes) if k == n else part)
    return [range(begin, end) for begin, end in zip([0, *ends[:-1]], ends, strict=True)]
