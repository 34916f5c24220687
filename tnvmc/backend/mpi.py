"""Ranks of MPI: rank 0 asks, all do their part, rank 0 gets the results.

Every request is one broadcast, work on each rank, and one message from each rank back; errors are
results too.  So no rank ever waits for one that is elsewhere.  Objects go by `mpi4py.util.pkl5`,
whose large buffers are not copied.  Arrays of a GPU go through the memory of the host.  A rank that
is killed is noticed by the launcher (mpiexec, srun), which ends the others; an error where ranks
talk to each other ends them all by `MPI_Abort`.
"""

import contextlib
import os
import pickle
import socket
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn, cast

import numpy as np

from tnvmc.backend import progress
from tnvmc.backend.device import share_devices
from tnvmc.backend.messages import Alarm, Store, noted_signals, writable
from tnvmc.backend.process import (
    ALONE,
    Place,
    Ranks,
    in_use,
    launched,
    own_cores,
    share_cores,
    threads_in_use,
    using_ranks,
    using_threads,
)
from tnvmc.backend.progress import Terminated, uninterrupted

PATIENCE = 20.0  # seconds after which a rank tells that it waits for others to make its call

PIECE = 2**28
"""Most bytes of an array in one message: counts of some MPI have 32 bits."""


@dataclass(frozen=True)
class _Outcome:
    value: Any = None
    error: BaseException | None = None


@dataclass(frozen=True)
class _Request:
    task: Callable[..., Any] | None  #: None ends the requests, with the only argument
    arguments: tuple[Any, ...]
    collective: bool
    threads: int  #: that each rank may take
    dropped: tuple[int, ...]  #: keys of what is not wanted any more
    rang: tuple[int, ...]  #: ranks that told the others to end the request before this one


class MpiRanks(Ranks):
    """The ranks of an intracommunicator of mpi4py, which is duplicated."""

    def __init__(self, comm: Any) -> None:
        from mpi4py import MPI
        from mpi4py.util import pkl5

        self.comm = comm.Dup()
        self._objects = pkl5.Intracomm(self.comm)
        self.rank, self.size = self.comm.Get_rank(), self.comm.Get_size()
        self._alarm, self._rang = Alarm(comm.Dup()), cast(tuple[int, ...], ())
        self._store = Store(self.rank, self.size)
        here = self.comm.Split_type(MPI.COMM_TYPE_SHARED)
        users = here.allgather((self.rank, own_cores()))
        self.machine, self.on_this_machine = users[0][0], len(users)
        self.cores_here = len({core for _, cores in users for core in cores})
        share_cores([cores for _, cores in users])
        share_devices(here.Get_rank())
        here.Free()
        _end_all_with_one(self)

    def meet(self, call: str) -> None:
        """See `Ranks.meet`."""
        _meet(self.comm, call)

    # --- what rank 0 asks for

    def each(self, task: Callable[..., Any], *arguments: Any, constant: object = None) -> list[Any]:
        """See `Ranks.each`; an interrupt of any rank is one of the whole."""
        return self._asked(task, arguments, False, constant)

    def together(
        self, task: Callable[..., Any], *arguments: Any, constant: object = None
    ) -> list[Any]:
        """See `Ranks.together`; signals wait until it is done."""
        return self._asked(task, arguments, True, constant)

    def _asked(
        self, task: Any, arguments: tuple[Any, ...], collective: bool, constant: object
    ) -> list[Any]:
        dropped, threads = self._store.to_drop(), threads_in_use()
        request = _Request(task, arguments, collective, threads, dropped, self._rang)
        with uninterrupted() as allowed:
            self._broadcast(self._store.pickled(request, constant))
            self._alarm.settle(request.rang)
            try:
                with contextlib.nullcontext() if collective else allowed():
                    own = self._carried_out(request)
            except BaseException as error:  # noqa: BLE001 (an interrupt: all are heard first)
                own = _Outcome(error=error)
            outcomes = self._gathered(own)
        errors = [each.error for each in outcomes if each.error is not None]
        if errors:  # the one that stopped the others rather than theirs
            raise min(errors, key=lambda each: type(each) is progress.Stopped)
        return [outcome.value for outcome in outcomes]

    def end(self, value: Any = None) -> None:
        """Let the other ranks return from `follow` with a value."""
        with uninterrupted():
            last = _Request(None, (value,), False, 1, (), self._rang)
            self._broadcast(self._store.pickled(last, None))
            self._alarm.settle(self._rang)
            self._rang = ()

    # --- what the other ranks do

    def follow(self) -> Any:
        """Do what rank 0 asks for until it ends that, with a value."""
        with noted_signals(self._alarm) as noted:
            while True:
                message = self._broadcast(None)
                try:
                    request = self._store.unpickled(message)
                except Exception as error:  # noqa: BLE001 (rank 0 would wait for an answer)
                    self.abort(error)
                self._alarm.settle(request.rang)
                if request.task is None:
                    self._alarm.clear()
                    return request.arguments[0]
                outcome = self._carried_out(request)
                if noted:
                    outcome = _Outcome(error=Terminated(noted[0]))
                self._gathered(outcome)

    def _carried_out(self, request: Any) -> _Outcome:
        self._store.drop(request.dropped)
        stop = contextlib.nullcontext() if request.collective else progress.stopped_by(self._alarm)
        try:
            with using_ranks(ALONE), using_threads(request.threads), stop:
                return _Outcome(request.task(self, *request.arguments))
        except Exception as error:  # noqa: BLE001 (raised by rank 0)
            if request.collective:
                self.abort(error)
            return _Outcome(error=error)
        except BaseException as error:
            if request.collective:
                self.abort(error)
            if self.rank == 0:
                raise
            return _Outcome(error=RuntimeError(f"rank {self.rank} was to end: {error!r}"))

    def abort(self, error: BaseException) -> NoReturn:
        """End all ranks, with one message."""
        why = f"{type(error).__name__}: {error}".rstrip(": ")
        where = f"rank {self.rank} of {self.size} on {socket.gethostname()}"
        with contextlib.suppress(OSError, ValueError):
            stream = sys.__stderr__ or sys.stderr
            print(f"tnvmc: {where}: {why}; all ranks are stopped", file=stream, flush=True)
        self.comm.Abort(1)
        os._exit(1)

    # --- what ranks do together, in tasks of `together`

    def exchange(self, sent: Sequence[np.ndarray], received: Sequence[np.ndarray]) -> None:
        """See `Ranks.exchange`."""
        waiting = []
        for step in range(1, self.size):
            source, target = (self.rank - step) % self.size, (self.rank + step) % self.size
            into, out_of = _pieces(received[source], np.uint8), _pieces(sent[target], np.uint8)
            waiting += [self.comm.Irecv(piece, source) for piece in into]
            waiting += [self.comm.Isend(piece, target) for piece in out_of]
        received[self.rank][...] = sent[self.rank].reshape(received[self.rank].shape)
        for each in waiting:
            each.Wait()

    def told(self, value: Any) -> Any:
        """See `Ranks.told`."""
        sent = pickle.dumps(value, protocol=5) if self.rank == 0 else None
        received = self.comm.bcast(sent)
        return value if self.rank == 0 else pickle.loads(received)

    def collected(self, value: Any) -> list[Any]:
        """See `Ranks.collected`."""
        return self.comm.gather(value) or []

    def combine(self, array: np.ndarray, how: str, root: int = 0) -> None:
        """See `Ranks.combine`."""
        from mpi4py import MPI

        for piece in _pieces(array, array.real.dtype):
            if how == "copy":
                self.comm.Bcast(piece, root=root)
            elif how == "max":
                self.comm.Allreduce(MPI.IN_PLACE, piece, op=MPI.MAX)
            elif self.rank == root:
                self.comm.Reduce(MPI.IN_PLACE, piece, root=root)
            else:
                self.comm.Reduce(piece, None, root=root)

    # --- what stays where it is

    def found(self, value: Any) -> Any:
        """See `Ranks.found`."""
        return self._store.held[value.key] if type(value) is Place else value

    def taken(self, key: int) -> Any:
        """What is kept here by a key, and is not any more."""
        return self._store.held.pop(key)

    # --- messages of objects

    def _broadcast(self, parts: list[Any] | None) -> list[Any]:
        """The parts of a message of rank 0, on all ranks."""
        received = self._objects.bcast(parts)
        return writable(received) if parts is None else parts

    def _gathered(self, outcome: _Outcome) -> list[Any]:
        """Outcomes of all ranks on rank 0, nothing elsewhere; a failure rings the alarm."""
        if outcome.error is not None and type(outcome.error) is not progress.Stopped:
            self._alarm.ring()
        try:
            parts = self._store.pickled(outcome, None)
        except Exception as error:  # noqa: BLE001 (a result that cannot be sent)
            failed = _Outcome(error=RuntimeError(f"rank {self.rank}: {error!r}"))
            parts = self._store.pickled(failed, None)
        if self.rank:
            self._objects.send((parts, self._alarm.rang), 0)  # its gather is ten times slower
            return []
        messages, rang = [parts], [self._alarm.rang]
        for rank in range(1, self.size):
            received, its_own = self._objects.recv(source=rank)
            messages.append(writable(received))
            rang.append(its_own)
        self._rang = tuple(rank for rank, told in enumerate(rang) if told)
        return [self._read(rank, message) for rank, message in enumerate(messages)]

    def _read(self, rank: int, message: list[Any]) -> Any:
        """An outcome, once all have come: one that cannot be read leaves no message waiting."""
        try:
            return self._store.unpickled(message)
        except Exception as error:  # noqa: BLE001
            why = f"rank {rank}: its answer cannot be read: {error!r}"
            return _Outcome(error=RuntimeError(why))


def _pieces(array: np.ndarray, dtype: Any) -> Iterator[np.ndarray]:
    """A contiguous array as numbers of a type, in pieces that MPI can count."""
    flat = array.reshape(-1).view(dtype)
    step = PIECE // flat.itemsize
    return (flat[begin : begin + step] for begin in range(0, flat.size, step))


def _meet(comm: Any, call: str) -> None:
    """Wait for all ranks of a communicator, and tell where that takes long."""
    waiting, since, told = comm.Ibarrier(), time.monotonic(), False
    while not waiting.Test():
        waited = time.monotonic() - since
        if waited > PATIENCE and not told:
            told = True
            text = f"has waited {waited:.0f} s in {call} for others, which do not make this call"
            where = f"rank {comm.Get_rank()} of {comm.Get_size()} on {socket.gethostname()}"
            print(f"tnvmc: {where} {text}; all ranks make the same calls", file=sys.stderr)
        time.sleep(min(waited / 20, 0.05))


def _end_all_with_one(ranks: MpiRanks) -> None:
    """Let an exception that nothing catches end all ranks: the others would wait for this one."""
    shown = sys.excepthook

    def end_all(*error: Any) -> None:
        shown(*error)
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        ranks.comm.Abort(1)

    sys.excepthook = end_all


@cache
def _attribute() -> int:
    """What the ranks of a communicator are kept by, as long as it lives."""
    from mpi4py import MPI

    return int(MPI.Comm.Create_keyval())


def of(comm: Any) -> MpiRanks:
    """The ranks of a communicator: the same ones each time."""
    found = comm.Get_attr(_attribute())
    if found is None:
        _meet(comm, "VMC(..., comm)")
        found = MpiRanks(comm)
        comm.Set_attr(_attribute(), found)
    return cast(MpiRanks, found)


def ranks_of(comm: Any) -> Ranks:
    """The ranks of a communicator of mpi4py; those in use for None.

    Warns where there are none in use though a launcher started several processes, on the first.
    """
    if comm is None:
        rank, started = launched()
        if in_use() is ALONE and started > 1 and rank == 0:
            warnings.warn(
                f"{started} processes were started, and each of them makes this run by "
                "itself; to share it give comm=MPI.COMM_WORLD (from mpi4py import MPI), or use "
                "the command tnvmc run",
                stacklevel=4,
            )
        return in_use()
    if comm.Get_size() > 1:
        return of(comm)
    from mpi4py import MPI

    of_all, started = MPI.Comm.Compare(comm, MPI.COMM_WORLD), launched()[1]
    if started > 1 and of_all in (MPI.IDENT, MPI.CONGRUENT) and MPI.COMM_WORLD.Get_size() == 1:
        raise RuntimeError(
            f"the launcher started {started} processes, of which the MPI of mpi4py sees one; "
            "use the mpiexec or srun that belongs to it, or build mpi4py with the MPI of this "
            "cluster"
        )
    return ALONE
