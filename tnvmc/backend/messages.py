"""What ranks send each other: pickles, with constants that go once, and alarms."""

import hashlib
import io
import pickle
import signal
import sys
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from operator import attrgetter
from threading import Event, current_thread, main_thread
from typing import Any

from tnvmc.backend.device import on_own_device
from tnvmc.backend.namespace import elsewhere, to_host
from tnvmc.backend.process import Place
from tnvmc.backend.progress import SIGNALS

_CONSTANTS = 16  # that are kept
_BETWEEN_LOOKS = 0.05  # seconds


class Store:
    """What a rank keeps: what stays on it, and constants that were sent to it."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size
        self.held: dict[int, Any] = {}
        self._next_key = 0
        self._dropped: list[int] = []  # of all ranks: rank + size * number
        self._constants: dict[bytes, Any] = {}

    def hold(self, value: Any) -> int:
        """Keep something on this rank; its key, unique over all ranks."""
        key = self.rank + self.size * self._next_key
        self._next_key += 1
        self.held[key] = value
        return key

    def place(self, rank: int, key: int, about: Any) -> Any:
        """What stands for something that is held: itself where that is, a `Place` elsewhere.

        On rank 0, the end of the place lets what is held go.
        """
        if rank == self.rank != 0:
            return self.held[key]
        place = Place(rank, key, about)
        if self.rank == 0:
            weakref.finalize(place, self._dropped.append, key).atexit = False
        return place

    def to_drop(self) -> tuple[int, ...]:
        """Keys of what is not wanted any more, on any rank; each is given once."""
        found = tuple(self._dropped)
        del self._dropped[: len(found)]
        return found

    def drop(self, keys: Sequence[int]) -> None:
        """Let go of those that are held here."""
        for key in keys:
            self.held.pop(key, None)

    def keep(self, digest: bytes, constant: object) -> None:
        """Keep the constants that were used last, the same ones on every rank."""
        self._constants.pop(digest, None)
        self._constants[digest] = constant
        while len(self._constants) > _CONSTANTS:
            del self._constants[next(iter(self._constants))]

    def constant_id(self, constant: object) -> tuple[str, bytes, bytes | None]:
        """What a constant is sent as: its hash, and its content where it is new."""
        import cloudpickle

        content = cloudpickle.dumps(constant)
        digest = hashlib.sha256(content).digest()
        return "constant", digest, None if digest in self._constants else content

    def constant(self, digest: bytes, content: bytes | None) -> Any:
        """Something that was sent once, by its hash; the content where it is new here."""
        known = self._constants.get(digest) if content is None else pickle.loads(content)
        self.keep(digest, known)
        return known

    def pickled(self, value: Any, constant: object) -> list[Any]:
        """A pickle and its buffers; constants are known elsewhere once all of it is pickled."""
        file, buffers = io.BytesIO(), list[Any]()
        pickler = _pickler()(file, buffers.append, self, constant)
        pickler.dump(value)
        for digest in pickler.digests:
            self.keep(digest, None)
        return [pickle.PickleBuffer(file.getbuffer()), *buffers]

    def unpickled(self, parts: Sequence[Any]) -> Any:
        """What was pickled, from its parts."""
        unpickler = _Unpickler(io.BytesIO(parts[0]), buffers=parts[1:])
        unpickler.store = self
        return unpickler.load()


def writable(parts: list[Any]) -> list[Any]:
    """Buffers that were received, for arrays that can be written to."""
    return [bytearray(part) if memoryview(part).readonly else part for part in parts]


@cache
def _pickler() -> Any:
    """The class that pickles messages; here, because cloudpickle is there only with ranks."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def __init__(self, file: Any, keep: Any, store: Store, constant: object) -> None:
            super().__init__(file, protocol=5, buffer_callback=keep)
            self.store, self.constant, self.digests = store, constant, list[bytes]()

        def reducer_override(self, value: Any) -> Any:
            if isinstance(value, BaseException):
                kind = type(value)
                name = kind.__module__, kind.__qualname__
                return _exception, (*name, kind, value.args, value.__dict__)
            if (xp := elsewhere(value)) is not None:
                return on_own_device, (xp, to_host(value))
            return super().reducer_override(value)

        def persistent_id(self, value: Any) -> Any:
            if value is self.constant and value is not None:
                found = self.store.constant_id(value)
                self.digests.append(found[1])
                return found
            sent = getattr(type(value), "sent_by", None)  # of Resident and Place
            return None if sent is None else ("place", *sent(value, self.store))

    return Pickler


class _Unpickler(pickle.Unpickler):
    store: Store

    def persistent_load(self, pid: Any) -> Any:
        kind, *rest = pid
        return self.store.constant(*rest) if kind == "constant" else self.store.place(*rest)


def _exception(
    module: str, name: str, kind: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]
) -> BaseException:
    """An exception without a call of its __init__, of the class of that name here.

    The class of a script is sent as another one.
    """
    with suppress(AttributeError):
        kind = attrgetter(name)(sys.modules.get(module))
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class Alarm(Event):
    """An event that is set on all ranks when one rings; messages are received in `is_set`.

    It stands for one request at a time.  `settle` begins the next, once it is known who rang in the
    last: so a message is never taken for one of another request.  It has its own communicator.
    """

    def __init__(self, comm: Any) -> None:
        super().__init__()
        self._comm = comm
        self.rang = False  #: whether this rank told the others
        self._heard: set[int] = set()  # ranks
        self._sending: list[Any] = []
        self._looked_at = -float("inf")

    def ring(self) -> None:
        """Tell the other ranks, once, unless another rank did."""
        if self.rang or self._heard:
            return
        self.rang = True
        others = (rank for rank in range(self._comm.Get_size()) if rank != self._comm.Get_rank())
        self._sending += [self._comm.isend(self._comm.Get_rank(), rank) for rank in others]

    def is_set(self) -> bool:
        """Whether it was set here, of which the others are told then, or another rank rang."""
        if current_thread() is not main_thread():
            return super().is_set()
        if super().is_set():
            self.ring()
            return True
        if time.monotonic() - self._looked_at < _BETWEEN_LOOKS:
            return bool(self._heard)
        self._looked_at = time.monotonic()
        while self._comm.iprobe():
            self._heard.add(self._comm.recv())
        return bool(self._heard)

    def settle(self, rang: Iterable[int]) -> None:
        """Begin the next request, after one in which these ranks rang."""
        for rank in set(rang) - self._heard - {self._comm.Get_rank()}:
            self._comm.recv(source=rank)
        for sending in self._sending:
            sending.wait()
        self._sending.clear()
        self._heard.clear()
        self.rang = False


@contextmanager
def noted_signals(stop: Event) -> Iterator[list[int]]:
    """Note signals by which this process is asked to end, instead of ending: rank 0 decides.

    What this rank does ends early then: rank 0 has the signal too, or gets it with the answer.
    """
    noted: list[int] = []
    if current_thread() is not main_thread():
        yield noted
        return

    def note(number: int, frame: object) -> None:
        noted.append(number)
        stop.set()

    before = {number: signal.signal(number, note) for number in SIGNALS}
    try:
        yield noted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
