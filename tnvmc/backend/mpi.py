"""Ranks of MPI: rank 0 asks, all do their part, rank 0 gets the results.

Every request is one broadcast, work on each rank, and one message from each rank back; errors are
results too.  So no rank ever waits for one that is elsewhere.  Large messages go in pieces, whose length
fits the 32-bit counts of every MPI.  Arrays of a GPU go through the memory of the host.  A rank that is killed is noticed by the launcher (mpiexec, srun), which
ends the others; an error where ranks talk to each other ends them all by `MPI_Abort`.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import pickle
import socket
import sys
import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn, cast

import numpy as np

from tnvmc.backend import progress
from tnvmc.backend.alarm import Alarm
from tnvmc.backend.collectives import Collectives
from tnvmc.backend.messages import noted_signals, pieces, taken_apart
from tnvmc.backend.namespace import elsewhere, to_host
from tnvmc.backend.own_device import on_own_device, share_devices
from tnvmc.backend.process import Terminated, own_cores, share_cores, uninterrupted
from tnvmc.backend.ranks import ALONE, Place, Ranks, Resident, in_use, launched, using_ranks

_CONSTANTS = 16  # that are kept

_SMALL = 2**12  # bytes of an array that is copied into the message of what holds it

_AT_ONCE = 2**16  # bytes that are broadcast in one message with their sizes


@dataclass(frozen=True)
class _Done:
    value: Any


@dataclass(frozen=True)
class _Failed:
    error: BaseException


@dataclass(frozen=True)
class _End:
    """No more requests: with what the part of the program ended that rank 0 was leading."""

    value: Any
    rang: tuple[int, ...]


@dataclass(frozen=True)
class _Request:
    task: Callable[..., Any]
    arguments: tuple[Any, ...]
    collective: bool
    dropped: tuple[int, ...]  #: keys of what is not wanted any more
    rang: tuple[
        int, ...
    ]  #: ranks that told the others to end in the request before; not all need have heard


class MpiRanks(Collectives, Ranks):
    """The ranks of a communicator of mpi4py.

    Args:
        comm: an intracommunicator; it is duplicated, so that messages of others do not mix with these.

    Traffic so far is told by `sent`, `received` (bytes) and `messages`, of this rank.
    """

    def __init__(self, comm: Any) -> None:
        from mpi4py import MPI

        self.comm = comm.Dup()
        self.rank, self.size = self.comm.Get_rank(), self.comm.Get_size()
        self.sent = self.received = self.messages = 0
        self._alarm, self._rang = Alarm(comm.Dup()), cast(tuple[int, ...], ())
        self._held: dict[int, Any] = {}
        self._next_key = 0
        self._dropped: list[int] = []  # of all ranks: rank + size * number
        self._constants: dict[bytes, Any] = {}
        here = self.comm.Split_type(MPI.COMM_TYPE_SHARED)
        users = here.allgather((self.rank, own_cores()))
        self.machine, self.on_this_machine = users[0][0], len(users)
        self.cores_here = len({core for _, cores in users for core in cores})
        share_cores([cores for _, cores in users])
        share_devices(here.Get_rank())
        here.Free()
        _end_all_with_one(self)

    # --- what rank 0 asks for

    def each(self, task: Callable[..., Any], *arguments: Any, constant: object = None) -> list[Any]:
        """See `Ranks.each`; an interrupt of any rank is one of the whole."""
        return self._asked(_Request(task, arguments, False, self._to_drop(), self._rang), constant)

    def together(self, task: Callable[..., Any], *arguments: Any) -> list[Any]:
        """See `Ranks.together`; signals wait until it is done."""
        return self._asked(_Request(task, arguments, True, self._to_drop(), self._rang), None)

    def _to_drop(self) -> tuple[int, ...]:
        found = tuple(self._dropped)
        del self._dropped[: len(found)]
        return found

    def _asked(self, request: _Request, constant: object) -> list[Any]:
        with uninterrupted() as allowed:
            self._broadcast(self._pickled(request, constant))
            self._alarm.settle(request.rang)
            if request.collective:
                own = self._carried_out(request)
            else:
                try:
                    with allowed():
                        own = self._carried_out(request)
                except BaseException as error:  # noqa: BLE001 (an interrupt: all are heard first)
                    own = _Failed(error)
            outcomes = self._gathered(own)
        errors = [each.error for each in outcomes if isinstance(each, _Failed)]
        if errors:  # the one that stopped the others rather than theirs
            raise min(errors, key=lambda each: isinstance(each, progress.Stopped))
        return [outcome.value for outcome in outcomes]

    def end(self, value: Any = None) -> None:
        """Let the other ranks return from `follow` with a value."""
        with uninterrupted():
            self._broadcast(self._pickled(_End(value, self._rang), None))
            self._alarm.settle(self._rang)
            self._rang = ()

    # --- what the other ranks do

    def follow(self) -> Any:
        """Do what rank 0 asks for until it ends that, with a value."""
        with noted_signals(self._alarm) as noted:
            while True:
                message = self._broadcast(None)
                try:
                    request = self._unpickled(message)
                except Exception as error:  # noqa: BLE001 (rank 0 would wait for an answer)
                    self.abort(error)
                self._alarm.settle(request.rang)
                if isinstance(request, _End):
                    self._alarm.clear()
                    return request.value
                outcome = self._carried_out(request)
                if noted:
                    outcome = _Failed(Terminated(noted[0]))
                self._gathered(outcome)

    def _carried_out(self, request: _Request) -> _Done | _Failed:
        for key in request.dropped:
            if key % self.size == self.rank:
                self._held.pop(key, None)
        try:
            stop = (
                contextlib.nullcontext() if request.collective else progress.stopped_by(self._alarm)
            )
            with using_ranks(ALONE), stop:
                return _Done(request.task(self, *request.arguments))
        except BaseException as error:  # (raised by rank 0)
            if request.collective:
                self.abort(error)
            if isinstance(error, Exception):
                return _Failed(error)
            if self.rank == 0:
                raise
            return _Failed(RuntimeError(f"rank {self.rank} was to end: {error!r}"))

    def abort(self, error: BaseException) -> NoReturn:
        """End all ranks, with one message."""
        told = f"{type(error).__name__}: {error}".rstrip(": ")
        with contextlib.suppress(OSError, ValueError):
            stream = sys.__stderr__ or sys.stderr
            print(
                f"tnvmc: rank {self.rank} of {self.size} on {socket.gethostname()}: {told}; all "
                "ranks are stopped",
                file=stream, flush=True,
            )  # fmt: skip
        self.comm.Abort(1)
        os._exit(1)

    # --- what stays where it is

    def found(self, value: Any) -> Any:
        """See `Ranks.found`."""
        if isinstance(value, Place) and value.rank == self.rank:
            return self._held[value.key]
        return value

    def taken(self, key: int) -> Any:
        """What is kept here by a key, and is not any more."""
        return self._held.pop(key)

    def hold(self, value: Any) -> int:
        """Keep something on this rank; its key, unique over all ranks."""
        key = self.rank + self.size * self._next_key
        self._next_key += 1
        self._held[key] = value
        return key

    def _place(self, rank: int, key: int, about: Any) -> Place:
        """On rank 0: whose end lets what it stands for go."""
        place = Place(rank, key, about)
        weakref.finalize(place, self._dropped.append, key).atexit = False
        return place

    # --- messages

    def _pickled(self, value: Any, constant: object) -> list[Any]:
        import cloudpickle

        ranks = self
        sent: list[bytes] = []  # constants; known elsewhere once all of it is pickled

        class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
            def reducer_override(self, each: Any) -> Any:
                if isinstance(each, BaseException):
                    return taken_apart(each)
                if (xp := elsewhere(each)) is not None:
                    return on_own_device, (xp, to_host(each))
                return super().reducer_override(each)

            def persistent_id(self, each: Any) -> Any:
                if each is constant and constant is not None:
                    return ranks._constant_id(constant, sent)
                if isinstance(each, Place):
                    return "place", each.rank, each.key, None
                if isinstance(each, Resident):
                    return "place", ranks.rank, ranks.hold(each), each.about()
                return None

        buffers: list[Any] = []

        def stays(buffer: Any) -> bool:
            """Whether a buffer stays with the rest of the pickle; the others are messages of their own."""
            small: bool = buffer.raw().nbytes < _SMALL
            if not small:
                buffers.append(buffer)
            return small

        file = io.BytesIO()
        Pickler(file, protocol=5, buffer_callback=stays).dump(value)
        for digest in sent:
            self._keep(digest, None)
        return [file.getbuffer(), *(each.raw() for each in buffers)]

    def _constant_id(self, constant: object, sent: list[bytes]) -> tuple[Any, ...]:
        import cloudpickle

        content = cloudpickle.dumps(constant)
        digest = hashlib.sha256(content).digest()
        known = digest in self._constants
        sent.append(digest)
        return "constant", digest, None if known else content

    def _keep(self, digest: bytes, constant: object) -> None:
        """Keep the constants that were used last, the same ones on every rank."""
        self._constants.pop(digest, None)
        self._constants[digest] = constant
        while len(self._constants) > _CONSTANTS:
            del self._constants[next(iter(self._constants))]

    def _unpickled(self, parts: Sequence[Any]) -> Any:
        ranks = self

        class Unpickler(pickle.Unpickler):
            def persistent_load(self, pid: Any) -> Any:
                kind, *rest = pid
                if kind == "constant":
                    digest, content = rest
                    known = ranks._constants.get(digest)
                    ranks._keep(digest, known if content is None else pickle.loads(content))
                    return ranks._constants[digest]
                rank, key, about = rest
                if ranks.rank == 0:
                    return ranks._place(rank, key, about)
                return ranks._held[key] if rank == ranks.rank else Place(rank, key, about)

        return Unpickler(io.BytesIO(parts[0]), buffers=parts[1:]).load()

    def _broadcast(self, parts: list[Any] | None) -> list[Any]:
        """The parts of a message of rank 0, on all ranks."""
        sizes = None if parts is None else [len(part) for part in parts]
        small = None
        if parts is not None and sum(sizes or ()) <= _AT_ONCE:
            small = [bytes(part) for part in parts]
        sizes, small = self.comm.bcast((sizes, small))
        self._count(sum(sizes), self.rank == 0, self.size - 1)
        if small is not None:
            return [bytearray(part) for part in small]  # arrays in it can be written to
        found: list[Any] = [np.empty(size, np.uint8) for size in sizes] if parts is None else parts
        for part in found:
            for piece in pieces(part):
                self.comm.Bcast(piece)
        return found

    def _gathered(self, outcome: _Done | _Failed) -> list[Any]:
        """Outcomes of all ranks on rank 0; nothing elsewhere.  Where one failed the others need not go on."""
        if isinstance(outcome, _Failed) and not isinstance(outcome.error, progress.Stopped):
            self._alarm.ring()
        try:
            parts = self._pickled(outcome, None)
        except Exception as error:  # noqa: BLE001 (a result that cannot be sent)
            parts = self._pickled(_Failed(RuntimeError(f"rank {self.rank}: {error!r}")), None)
        told = self.comm.gather(([len(part) for part in parts], self._alarm.rang))
        if self.rank:
            self._count(sum(map(len, parts)), True, 1)
            for part in parts:
                for piece in pieces(part):
                    self.comm.Send(piece, 0)
            return []
        messages: list[list[Any]] = [parts]
        sizes = [each for each, _ in told]
        self._rang = tuple(rank for rank, (_, rang) in enumerate(told) if rang)
        for rank in range(1, self.size):
            received = [np.empty(size, np.uint8) for size in sizes[rank]]
            self._count(sum(sizes[rank]), False, 1)
            for part in received:
                for piece in pieces(part):
                    self.comm.Recv(piece, rank)
            messages.append(received)
        return [self._read(rank, message) for rank, message in enumerate(messages)]

    def _read(self, rank: int, message: list[Any]) -> Any:
        """An outcome, once all have come: one that cannot be read leaves no message of others waiting."""
        try:
            return self._unpickled(message)
        except Exception as error:  # noqa: BLE001
            return _Failed(RuntimeError(f"rank {rank}: its answer cannot be read: {error!r}"))

    def _count(self, n_bytes: int, sends: bool, messages: int) -> None:
        if sends:
            self.sent += n_bytes
            self.messages += messages
        else:
            self.received += n_bytes


def _end_all_with_one(ranks: MpiRanks) -> None:
    """Let an exception that nothing catches end all ranks: the others would wait for this one."""
    shown = sys.excepthook

    def end_all(*told: Any) -> None:
        shown(*told)
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
        found = MpiRanks(comm)
        comm.Set_attr(_attribute(), found)
    return cast(MpiRanks, found)


def ranks_of(comm: Any) -> Ranks:
    """The ranks of a communicator of mpi4py; those in use for None.

    Warns where there are none in use though a launcher started several processes, on the first of them.
    """
    if comm is None:
        rank, started = launched()
        if in_use() is ALONE and started > 1 and rank == 0:
            warnings.warn(
                f"VMC: {started} processes were started, and each of them makes this run by itself; to share it "
                "give comm=MPI.COMM_WORLD (from mpi4py import MPI), or use the command tnvmc run",
                stacklevel=4,
            )
        return in_use()
    if comm.Get_size() > 1:
        return of(comm)
    from mpi4py import MPI

    of_all, started = MPI.Comm.Compare(comm, MPI.COMM_WORLD), launched()[1]
    if started > 1 and of_all in (MPI.IDENT, MPI.CONGRUENT) and MPI.COMM_WORLD.Get_size() == 1:
        raise RuntimeError(
            f"VMC: the launcher started {started} processes, of which the MPI of mpi4py sees one; use the mpiexec "
            "or srun that belongs to it, or build mpi4py with the MPI of this cluster"
        )
    return ALONE


def world() -> MpiRanks:
    """All ranks that a launcher started.

    Raises:
        ImportError: mpi4py is missing.
    """
    from mpi4py import MPI

    return of(MPI.COMM_WORLD)
