"""What goes wrong on one of several ranks: started through mpiexec by test_failures.py, one case a time."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
from mpi4py import MPI

from tnvmc import PEPS, VMC, Sampler, heisenberg, square
from tnvmc.backend import mpi

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
    theta = run.measured_theta()
    theta *= 2  # writable on every rank
    assert np.isfinite(run.measure(n_samples=12).energy)


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
    globals()[sys.argv[1]]()
    print("good", flush=True)
