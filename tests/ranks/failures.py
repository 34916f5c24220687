"""What goes wrong on one of several ranks: started through mpiexec by test_failures.py.

The cases named are tried one after another; what ends the program is tried alone.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from typing import Any

import numpy as np
from mpi4py import MPI

from tnvmc import PEPS, VMC, Sampler, heisenberg, square
from tnvmc.backend import mpi, progress
from tnvmc.backend.process import ALONE, own_chunks

WORLD = MPI.COMM_WORLD
H = heisenberg(square(2, 2))


class Odd(Exception):
    """Its arguments are not those of its __init__."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__(first + second)


class Unreadable:
    """Can be sent, and not be read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return int, ("no number",)


def vmc() -> VMC:
    return VMC(H, PEPS(H.lattice, D=2), Sampler(n_walkers=6, n_samples=12, threads=1), comm=WORLD)


def answer(ranks: Any, number: int, trouble: str) -> Any:
    if ranks.rank == 1 and trouble == "odd":
        raise Odd(1, 2)
    if ranks.rank == 1 and trouble == "unreadable":
        return Unreadable()
    if ranks.rank == 1 and trouble == "exit":
        raise SystemExit(3)
    return 10 * number + ranks.rank


def answers() -> None:
    """After an error each answer still belongs to its question."""
    ranks = mpi.of(WORLD)
    if ranks.rank:
        ranks.follow()
        return
    caught = []
    for number, trouble in enumerate(["odd", "", "unreadable", "", "exit", ""]):
        try:
            assert ranks.each(answer, number, trouble) == [
                10 * number + r for r in range(ranks.size)
            ]
        except (Odd, RuntimeError) as error:
            caught.append(type(error).__name__)
    ranks.end()
    assert caught == ["Odd", "RuntimeError", "RuntimeError"], caught


def busy(ranks: Any, rank: int, number: int) -> float:
    """A measurement of a minute, in which one rank is told to end."""
    began = time.monotonic()
    if ranks.rank == rank:
        threading.Timer(0.3, os.kill, (os.getpid(), number)).start()

    def chunk(part: range) -> None:
        while time.monotonic() < began + 60:
            progress.tell(0.5)
            time.sleep(0.01)

    own_chunks(ALONE, chunk, [range(1)] if ranks.rank % 2 else [range(1), range(1, 2)], 2)
    return time.monotonic() - began


def signals() -> None:
    """A signal to one rank, whichever, ends what all are at; then work goes on."""
    ranks = mpi.of(WORLD)
    rounds = 2 * [*range(ranks.size)]
    if ranks.rank:
        for _ in [*rounds, None]:
            ranks.follow()
        return
    for rank in rounds:
        began = time.monotonic()
        try:
            ranks.each(busy, rank, signal.SIGTERM if rank else signal.SIGINT)
        except KeyboardInterrupt:
            ranks.end()
        else:
            raise AssertionError
        assert time.monotonic() < began + 20, rank
    assert ranks.each(answer, 1, "") == [10 + rank for rank in range(ranks.size)]
    ranks.end()


def callback() -> None:
    """An exception of a callback on rank 0 comes to all; so does one that cannot be sent."""
    run = vmc()

    def fails(record: Any) -> None:
        raise Odd(1, 2)

    def fails_with_lock(record: Any) -> None:
        error = ValueError("held")
        error.lock = threading.Lock()  # type: ignore[attr-defined]
        raise error

    for step, kind in ((fails, Odd), (fails_with_lock, (ValueError, RuntimeError))):
        try:
            run.run(1, callback=step)
        except kind:
            pass
        else:
            raise AssertionError
    theta = 2 * run.measured_theta()
    assert np.isfinite(theta).all()
    assert np.isfinite(run.measure(n_samples=12).energy)


def late() -> None:
    """One rank makes a call much later than the others, and a new VMC."""
    mpi.PATIENCE = 0.5
    run = vmc()
    if WORLD.rank == 1:
        time.sleep(2)
    run.run(1)
    other = WORLD.Dup()
    if WORLD.rank == 0:
        time.sleep(2)
    VMC(H, PEPS(H.lattice, D=2), Sampler(6, 12, threads=1), comm=other)


def other_call() -> None:
    run = vmc()
    if WORLD.rank:
        run.measure()
    else:
        run.run(1)
        run.run(1)


def wrong_argument() -> None:
    VMC(H, PEPS(H.lattice, D=2), Sampler(6, 12), seed=-WORLD.rank, comm=WORLD).run(1)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        globals()[name]()
        print(f"good {name}", flush=True)
