"""What the ranks of scaling.py do: steps of a VMC whose messages and times are counted by phase.

Started by scaling.py through mpiexec; rank 0 prints one line of JSON.
"""

from __future__ import annotations

import argparse
import json
import pickle
import resource
import statistics
import sys
import time
from collections import defaultdict
from typing import Any

import numpy as np
from mpi4py import MPI

from states import heisenberg_state
from tnvmc import SR, SRC, VMC, Sampler, heisenberg, square
from tnvmc.backend import mpi

Counts = dict[str, float]


class Counted(mpi.MpiRanks):
    """Ranks that count bytes, messages and seconds by phase: the name of what is asked for."""

    def __init__(self, comm: Any) -> None:
        self.phases: dict[str, Counts] = defaultdict(lambda: defaultdict(float))
        self._phase = ""
        super().__init__(comm)
        self._objects = Objects(self._objects, self)

    def end(self, value: Any = None) -> None:
        self._phase = "end"
        super().end(value)

    def _asked(self, task: Any, arguments: Any, collective: bool, constant: object) -> list[Any]:
        self._phase, began = phase_of(task, arguments), time.perf_counter()
        try:
            return super()._asked(task, arguments, collective, constant)
        finally:
            self.phases[self._phase]["seconds"] += time.perf_counter() - began
            self.phases[self._phase]["calls"] += 1

    def _carried_out(self, request: Any) -> Any:
        self._phase, began = phase_of(request.task, request.arguments), time.perf_counter()
        outcome = super()._carried_out(request)
        self.phases[self._phase]["busy"] += time.perf_counter() - began
        return outcome

    def exchange(self, sent: Any, received: Any) -> None:
        super().exchange(sent, received)
        others = [rank for rank in range(self.size) if rank != self.rank]
        for rank in others:
            self._count(sent[rank].nbytes, True, 1 if sent[rank].nbytes else 0)
            self._count(received[rank].nbytes, False)

    def told(self, value: Any) -> Any:
        found = super().told(value)
        self._count(len(pickle.dumps(found, 5)), self.rank == 0, self.size - 1)
        return found

    def collected(self, value: Any) -> list[Any]:
        self._count(len(pickle.dumps(value, 5)), self.rank != 0)
        return super().collected(value)

    def combine(self, array: np.ndarray, how: str, root: int = 0) -> None:
        super().combine(array, how, root)
        sends = how == "max" or (self.rank == root) == (how == "copy")
        self._count(array.nbytes, sends, self.size - 1 if how == "copy" else 1)

    def _count(self, n_bytes: int, sends: bool, messages: int = 1) -> None:
        self.phases[self._phase]["sent" if sends else "received"] += n_bytes
        self.phases[self._phase]["messages"] += messages if sends else 0


class Objects:
    """Messages of objects, counted."""

    def __init__(self, inner: Any, ranks: Counted) -> None:
        self.inner, self.ranks = inner, ranks

    def bcast(self, parts: Any) -> Any:
        """All ranks get what rank 0 gives."""
        found = self.inner.bcast(parts)
        sent = found if parts is None else parts
        self.ranks._count(size_of(sent), self.ranks.rank == 0, self.ranks.size - 1)
        return found

    def send(self, message: Any, dest: int) -> None:
        """Parts of an answer, and a flag."""
        self.ranks._count(size_of(message[0]), True)
        self.inner.send(message, dest)

    def recv(self, source: int) -> Any:
        """The same."""
        message = self.inner.recv(source=source)
        self.ranks._count(size_of(message[0]), False)
        return message


def size_of(parts: Any) -> int:
    """Bytes of a pickle and its buffers."""
    return sum(memoryview(part).nbytes for part in parts)


def phase_of(task: Any, arguments: Any) -> str:
    """Name what a request asks for: a method of the spread Jacobian, or a function."""
    name = getattr(task, "__name__", type(task).__name__)
    if name == "_sum":
        return str(arguments[2].method.__name__)
    return getattr(arguments[2], "__name__", name) if name == "_of_share" else name


def made(args: argparse.Namespace, comm: Any) -> VMC:
    """A run on the ranks of a communicator."""
    peps, theta = heisenberg_state(args.L, args.D)
    sampler = Sampler(n_walkers=args.walkers, n_samples=args.samples, threads=1)
    return VMC(
        heisenberg(square(args.L, args.L)), peps.with_scheme(SRC(args.chi)), sampler, SR(1e-2), theta=theta,
        learning_rate=0.02, comm=comm,
    )  # fmt: skip


def ratio(args: argparse.Namespace) -> dict[str, Any]:
    """Seconds of steps by rank 0 alone, by all ranks together, and by each rank apart at the same time, in turn.

    What else runs on the machine slows all three.  Ranks apart send nothing: that the last of them
    takes longer than rank 0 alone is the machine's doing, and bounds what ranks together can gain.
    """
    comm = MPI.COMM_WORLD
    alone, shared = made(args, MPI.COMM_SELF), made(args, comm)
    found: dict[str, list[float]] = {"alone": [], "shared": [], "apart": []}
    for counted in [False] + [True] * args.steps:  # the first ones compile, and warm up
        if comm.rank == 0:
            of_one = alone.run(1)[0].seconds
        asleep(comm)
        of_all = shared.run(1)[0].seconds
        asleep(comm)
        of_last = comm.allreduce(alone.run(1)[0].seconds, MPI.MAX)
        if comm.rank == 0 and counted:
            for name, seconds in (("alone", of_one), ("shared", of_all), ("apart", of_last)):
                found[name].append(seconds)
    return found


def asleep(comm: Any) -> None:
    """Wait for all ranks without taking a core, as MPI's own waiting does."""
    request = comm.Ibarrier()
    while not request.Test():
        time.sleep(0.002)


def steps(args: argparse.Namespace) -> dict[str, Any]:
    """Make steps on all ranks; seconds and traffic of one, by rank and phase."""
    comm = MPI.COMM_WORLD
    vmc = made(args, comm)
    vmc.run(1)  # compiles, and warms up
    counted = getattr(vmc.ranks, "phases", {})  # one rank alone sends nothing
    counted.clear()
    began = time.process_time()
    records = vmc.run(args.steps)
    seconds, spent = [r.seconds for r in records], (time.process_time() - began) / args.steps
    phases = {
        name: {key: value / args.steps for key, value in counts.items()}
        for name, counts in counted.items()
    }
    found = {
        "phases": phases,
        "processor": spent,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
    of_ranks = comm.gather(found)
    return {"seconds": statistics.median(seconds), "ranks": of_ranks}


def messages(repeats: int = 30) -> list[tuple[int, float]]:
    """Seconds of messages of several sizes from rank 0 to rank 1 and back, halved."""
    comm, found = MPI.COMM_WORLD, []
    for size in (8, 2**10, 2**14, 2**18, 2**22, 2**25):
        data, times = np.zeros(size, np.uint8), []
        for _ in range(repeats):
            comm.Barrier()
            began = time.perf_counter()
            if comm.rank == 0:
                comm.Send(data, 1)
                comm.Recv(data, 1)
            elif comm.rank == 1:
                comm.Recv(data, 0)
                comm.Send(data, 0)
            times.append((time.perf_counter() - began) / 2)
        found.append((size, statistics.median(times)))
    return found


def main() -> None:
    """Do what scaling.py asked for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("what", choices=("steps", "ratio", "messages"))
    for name in ("L", "D", "chi", "walkers", "samples", "steps"):
        parser.add_argument(f"--{name}", type=int, default=1)
    args = parser.parse_args()
    mpi.MpiRanks = Counted  # type: ignore[misc]
    found = {"steps": steps, "ratio": ratio, "messages": lambda _: messages()}[args.what](args)
    if MPI.COMM_WORLD.rank == 0:
        json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
