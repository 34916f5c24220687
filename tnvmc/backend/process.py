"""Processes that share the work of one program (ranks), and the threads and memory of each.

Rank 0 runs the program; the others wait for what it asks them to do (`tnvmc.backend.mpi`).  So what
looks at a clock, a signal or a file, and what decides, is in one process, and never differs.
"""

import ctypes
import itertools
import math
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar, copy_context
from functools import cache
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from tnvmc.backend import progress

T = TypeVar("T")
R = TypeVar("R")


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

        The first error of any of them is raised, once all have ended.  Each has `threads_in_use`.

        Args:
            task: a picklable function, which does not talk to other ranks.
            arguments: picklable; what is `Resident` elsewhere arrives as itself where it is.
            constant: an object in the arguments that is sent once, and kept.
        """
        return [task(self, *arguments)]

    together = each
    """The same for a task in which ranks talk to each other; an error of one ends them all."""

    def follow(self) -> Any:
        """Do what rank 0 asks for until it ends that, with a value; of other ranks than rank 0."""
        raise NotImplementedError

    def meet(self, call: str) -> None:
        """Wait until all ranks make a call; tell which one it is where that takes long."""

    def end(self, value: Any = None) -> None:
        """Let the other ranks return from `follow` with a value."""

    # --- for tasks of `together`: all ranks call them

    def told(self, value: Any) -> Any:
        """The value of rank 0, on all ranks."""
        return value

    found = told
    """What is `Resident` here, for its `Place`; anything else as it is.  In any task."""

    def collected(self, value: Any) -> list[Any]:
        """The values of all ranks, in their order, on rank 0; nothing elsewhere."""
        return [value]

    def exchange(self, sent: Sequence[np.ndarray], received: Sequence[np.ndarray]) -> None:
        """Send one contiguous array to each rank, and fill one from each; the own one is copied."""
        received[0][...] = sent[0].reshape(received[0].shape)

    def combine(self, array: np.ndarray, how: str, root: int = 0) -> None:
        """Combine contiguous arrays of all ranks, in place.

        Args:
            array: of one shape and type everywhere.
            how: "copy": all become that of `root`; "sum": that of `root` becomes their sum, made in
                any order, so for exact sums; "max": all become the largest, real numbers but NaN.
            root: a rank.
        """


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
        """What rank 0 is told of it; nothing where it knows all."""

    def sent_by(self, store: Any) -> tuple[int, int, Any]:
        """What makes its place elsewhere: rank, key, what is told of it; it is held here then."""
        return store.rank, store.hold(self), self.about()


class Place:
    """Where something `Resident` is; it is freed with the last reference to its place."""

    def __init__(self, rank: int, key: int, about: Any) -> None:
        self.rank, self.key, self.about = rank, key, about

    def sent_by(self, store: Any) -> tuple[int, int, Any]:
        """What makes it elsewhere."""
        return self.rank, self.key, None


_IN_USE: ContextVar[Ranks] = ContextVar("ranks", default=ALONE)


def in_use() -> Ranks:
    """The ranks that large pieces of work are shared by."""
    return _IN_USE.get()


def using_ranks(ranks: Ranks) -> AbstractContextManager[None]:
    """Let large pieces of work be shared by `ranks` inside the block, in this thread."""
    return progress.bound(_IN_USE, ranks)


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
    places = np.cumsum([0, *sizes])
    distances = abs(places[::-1, None] * n - np.arange(n + 1) * places[-1])
    ends = len(sizes) - distances.argmin(axis=0)  # those nearest to k/n of the whole
    return [range(begin, end) for begin, end in itertools.pairwise(ends.tolist())]


def one_blas_thread() -> Any:
    """Give a context in which the BLAS of NumPy and SciPy runs on the thread that calls it."""
    return _controller("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas")


@cache
def _controller(with_scipy: bool) -> ThreadpoolController:
    """The libraries of the process, looked up again only when SciPy has brought its own."""
    return ThreadpoolController()


_SHARE: list[int] = []  # of the cores, of which other ranks have theirs


def available_cores() -> int:
    """Cores this process may run on; where ranks share those of a machine, its part of them."""
    return _SHARE[0] if _SHARE else len(own_cores())


def own_cores() -> list[int]:
    """Numbers of the cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return [*range(os.cpu_count() or 1)]


def share_cores(users: Sequence[Sequence[int]]) -> None:
    """Leave cores to other ranks: `users` are the cores of all that run on this machine."""
    part = sum(1 / sum(core in cores for cores in users) for core in own_cores())
    _SHARE[:] = [max(1, int(part + 1e-9))]


_THREADS: ContextVar[int | None] = ContextVar("threads", default=None)


def using_threads(n: int | None) -> AbstractContextManager[None]:
    """Let `side_by_side` take n threads inside the block; None for as many as there are cores."""
    return progress.bound(_THREADS, n)


def threads_in_use() -> int:
    """Threads that a large piece of work of this process may take."""
    return _THREADS.get() or available_cores()


def side_by_side(
    task: Callable[[T], R], items: Sequence[T], told: progress.Shares | None = None
) -> list[R]:
    """Apply a function to every item of a list, on `threads_in_use` threads: results in order.

    For what leaves the interpreter lock alone.  The first error, in their order, is raised when all
    that has begun has ended, which it does at its next `progress.tell` then.  What tasks tell of
    their shares is shown in this thread, by `told`.
    """
    n_threads, stop = threads_in_use(), threading.Event()
    alone = n_threads == 1 or len(items) < 2
    if alone and told is None:
        return [*map(task, items)]
    with progress.bound(progress.STOP, progress.STOP.get() if alone else stop):
        # A copy of the context each: that of NumPy's floating-point errors is part of it.
        contexts = [copy_context() for _ in items]
    if told is not None:
        for number, context in enumerate(contexts):
            context.run(progress.TELL.set, (told, number))
    calls = zip(contexts, items, strict=True)
    if alone:
        found = []
        for context, item in calls:
            found.append(context.run(task, item))
            context.run(progress.tell, 1.0)
        return found
    pool = _kept_threads(n_threads)
    futures = [pool.submit(context.run, task, item) for context, item in calls]
    try:
        for number, future in enumerate(futures):
            while not future.done():
                wait([future], progress.INTERVAL)
                progress.raise_if_stopped()
                if told is not None:
                    told.show()
            future.result()
            if told is not None:
                contexts[number].run(progress.tell, 1.0)
        return [future.result() for future in futures]
    finally:
        stop.set()
        for future in futures:
            future.cancel()
        wait(futures)


_KEPT_THREADS = threading.local()  # each thread that asks has its own, so that tasks give out tasks


def _kept_threads(n: int) -> ThreadPoolExecutor:
    """Threads that stay: to start them takes longer than the work of a small step."""
    if getattr(_KEPT_THREADS, "n", None) != (n, os.getpid()):  # a fork has no threads
        _KEPT_THREADS.pool = ThreadPoolExecutor(n, thread_name_prefix="side by side")
        _KEPT_THREADS.n = (n, os.getpid())
    pool: ThreadPoolExecutor = _KEPT_THREADS.pool
    return pool


def own_chunks(
    ranks: Ranks, task: Callable[[range], T], chunks: Sequence[range], n_threads: int | None
) -> list[T]:
    """Results of a task for the chunks of this rank, in order, in threads with BLAS at one thread.

    Each rank has some chunks in a row, about as many numbers as any other.
    """
    own = shares([len(chunk) for chunk in chunks], ranks.size)[ranks.rank]
    parts = [chunks[k] for k in own]
    keep_freed_memory()
    with one_blas_thread(), using_threads(n_threads):  # BLAS has one number for the whole process
        return side_by_side(task, parts, progress.Shares([*map(len, parts)]))


_MALLOPT = (  # options of glibc and their values
    (-3, 2**25),  # M_MMAP_THRESHOLD: the most that every version of glibc accepts
    (-1, 2**29),  # M_TRIM_THRESHOLD
    (-2, 2**26),  # M_TOP_PAD
)


@cache
def keep_freed_memory() -> bool:
    """Tell the C allocator to reuse freed arrays; True if it accepted, as that of glibc does.

    Changes the whole process, once: arrays up to 32 MiB come from the heap, up to 512 MiB of
    freed heap stay with the process.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # only glibc has it
        return False
    accepted = [mallopt(option, value) for option, value in _MALLOPT]
    return all(accepted)


def give_back_freed_memory() -> None:
    """Give freed memory that glibc's allocator keeps back to the system."""
    with suppress(AttributeError, OSError, TypeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)


def memory_limit() -> float:
    """Bytes that this process may have, by machine and control group; inf if not known."""
    found = []
    with suppress(AttributeError, OSError, ValueError):  # Windows knows none of it
        found.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for name in ("memory.max", "memory/memory.limit_in_bytes"):  # of version 2, and of version 1
        with suppress(OSError, ValueError), open(f"/sys/fs/cgroup/{name}") as file:
            found.append(int(file.read()))
    return min((each for each in found if each > 0), default=math.inf)
