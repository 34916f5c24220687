"""How kernels are compiled: announced, ended where nobody waits, cached in a folder of the user.

The name of the folder holds a hash of the sources of all kernels, of the processor and of Numba's
version: installations with the same sources share what one of them compiled, others never load it.
"""

import contextlib
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import llvmlite.binding
import numba
from numba.core import caching, config, event

from tnvmc.backend import progress
from tnvmc.backend.host.vectors import KernelCompiler
from tnvmc.backend.process import available_cores, launched

MOST_FOLDERS = 8
"""How many folders stay, those that were used last; each holds some MB."""


def kernel(beside: str = "", **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function that Numba compiles at its first call, without Python's lock, and caches.

    `beside` is code for a second process, which compiles others meanwhile: Numba compiles one at a
    time.  `options` are further ones of `numba.njit`.  RuntimeError: the folder cannot be written.
    """

    options["pipeline_class"] = KernelCompiler
    options["no_cfunc_wrapper"] = True  # for code in C, which none of these calls

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        compiled: Callable[..., Any] = numba.njit(nogil=True, **options)(function)
        cache = KernelCache(function)
        cache.beside = beside
        compiled._cache = cache  # type: ignore[attr-defined]
        return compiled

    return decorated


def cache_root() -> Path:
    """Give the folder for all versions: below NUMBA_CACHE_DIR, XDG_CACHE_HOME or ~/.cache."""
    own = os.environ.get("XDG_CACHE_HOME", "")
    base = getattr(config, "CACHE_DIR", "") or (
        own if os.path.isabs(own) else Path.home() / ".cache"
    )
    return Path(base, "tnvmc")


@cache
def kernel_hash() -> str:
    """Hash the sources of the kernels, the processor and Numba's version."""
    features = llvmlite.binding.get_host_cpu_features().flatten()
    parts = [numba.__version__, llvmlite.binding.get_host_cpu_name(), features]
    digest = hashlib.sha256("\n".join(parts).encode())
    for source in sorted(files(__package__).iterdir(), key=lambda each: each.name):
        if source.name.endswith(".py"):
            digest.update(b"\n" + source.name.encode() + b"\n" + source.read_bytes())
    return digest.hexdigest()[:16]


@cache
def cache_folder() -> Path:
    """Give the folder of this version; a new one replaces the oldest of `MOST_FOLDERS`."""
    folder = cache_root() / f"kernels-{kernel_hash()}"
    new = not folder.is_dir()
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(OSError):  # another user's; or another process removes the same
        os.utime(folder)
        if new:
            others = sorted(folder.parent.glob("kernels-*"), key=lambda each: each.stat().st_mtime)
            for old in others[:-MOST_FOLDERS]:
                shutil.rmtree(old, ignore_errors=True)
    return folder


class KernelLocator(caching._CacheLocator):
    """Tells Numba's cache the folder, and what the code in it was made from."""

    def __init__(self, line: int, py_file: str) -> None:
        self._line, self._py_file = line, py_file

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> "KernelLocator | None":
        """Give the locator of a function; None where the folder cannot be written."""
        locator = cls(py_func.__code__.co_firstlineno, py_file)
        try:
            locator.ensure_cache_path()
        except OSError:
            return None
        return locator

    def get_cache_path(self) -> str:
        return str(cache_folder())

    def get_source_stamp(self) -> str:
        """Give what differs between sources: the hash that names the folder as well."""
        return kernel_hash()

    def get_disambiguator(self) -> str:
        """Give what differs between functions of one name in one module."""
        return str(self._line)


class _KernelCacheImpl(caching.CompileResultCacheImpl):
    _locator_classes: list[type[object]] = [KernelLocator]  # noqa: RUF012 - as Numba declares it


class KernelCache(caching.FunctionCache):
    """Numba's cache of a function, in the folder of the user."""

    _impl_class = _KernelCacheImpl
    beside = ""
    _second: list[subprocess.Popen[bytes]] = []  # noqa: RUF012 - one for all kernels

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load compiled code, that of the second process too, which is waited for."""
        found = super().load_overload(sig, target_context)
        if found is None and self.beside and launched()[1] == 1 and available_cores() > 1:
            with contextlib.suppress(OSError, TypeError):  # the work is done here then
                self._second.append(second_process(self.beside.format(numbers_of(sig))))
        elif found is None and self._second:
            begun = perf_counter()
            while self._second[-1].poll() is None:
                progress.raise_if_stopped()
                sleep(0.02)
            progress.add_compilation(perf_counter() - begun)
            found = super().load_overload(sig, target_context)
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save compiled code; where the disk is full it is compiled again in the next process."""
        with contextlib.suppress(OSError):
            super().save_overload(sig, data)


def second_process(code: str) -> "subprocess.Popen[bytes]":
    """Run code beside this process."""
    given, nowhere = {"PYTHONPATH": os.pathsep.join(sys.path)}, subprocess.DEVNULL
    return subprocess.Popen(
        [sys.executable, "-c", code], env=os.environ | given, start_new_session=True,
        stdin=nowhere, stdout=nowhere, stderr=nowhere,
    )  # fmt: skip


class Announcement(event.Listener):
    """Announces, once for each type of numbers, that kernels of a PEPS are compiled; times all."""

    def __init__(self, announce: Callable[[str], None]) -> None:
        self._announce = announce
        self._announced: set[str] = set()
        self._begun: list[float] = []  # one kernel compiles those that it calls; Numba has a lock

    def on_start(self, event: Any) -> None:
        """Announce a kernel that walks over strips or rows; the others take a second or two."""
        self._begun.append(perf_counter())
        kernel, dtype = event.data["dispatcher"].py_func, numbers_of(event.data["args"])
        ours = kernel.__module__.startswith(__package__)
        if ours and dtype is not None and dtype not in self._announced:
            self._announced.add(dtype)
            self._announce(dtype)

    def on_end(self, event: Any) -> None:
        """Note how long it took."""
        progress.add_compilation(perf_counter() - self._begun.pop())


class Ended(event.Listener):
    """Ends a compilation in a thread for which nobody waits: the next call begins it again."""

    def on_start(self, event: Any) -> None:
        """Raise `Stopped` before a pass of the compiler, of which a kernel takes some hundred."""
        progress.raise_if_stopped()

    def on_end(self, event: Any) -> None:
        """Do nothing."""


def numbers_of(arguments: Any) -> str | None:
    """Name the type of the numbers in a `Strip`; None of other arguments."""
    first: Any = arguments[0] if arguments else None
    names = getattr(first, "fields", ())
    return str(first.types[names.index("above")].dtype) if "above" in names else None


def listen(announce: Callable[[str], None]) -> None:
    """Announce what is compiled from here on, and let it be ended."""
    event.register("numba:compile", Announcement(announce))
    event.register("numba:run_pass", Ended())
