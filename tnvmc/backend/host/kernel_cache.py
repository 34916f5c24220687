"""Where compiled kernels are cached: a folder of the user, named after what the code depends on.

The name holds a hash of the sources of all kernels, of the processor and of Numba's version.  So a
clone, an editable installation and a wheel with the same sources share what one of them compiled, a
new installation finds it again, and two checkouts with different kernels never load each other's
code.  Nothing is written beside the package.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import llvmlite.binding
import numba
from numba.core import caching, config

MOST_FOLDERS = 8
"""How many folders stay, those that were used last; each holds some MB."""


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function that Numba compiles at its first call, without Python's lock, and caches.

    Args:
        options: further ones of `numba.njit`.

    Raises:
        RuntimeError: the folder of the cache cannot be written.
    """

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        compiled: Callable[..., Any] = numba.njit(nogil=True, **options)(function)
        compiled._cache = KernelCache(function)  # type: ignore[attr-defined]
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
    """Give the folder of this version, and make it where it is missing.

    Then the folders that were not used for longest are removed, all but `MOST_FOLDERS`.

    Raises:
        OSError: it cannot be made.
    """
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
    def from_function(cls, py_func: Any, py_file: str) -> KernelLocator | None:
        """Give the locator of a function; None where the folder cannot be written."""
        locator = cls(py_func.__code__.co_firstlineno, py_file)
        try:
            locator.ensure_cache_path()
        except OSError:
            return None
        return locator

    def get_cache_path(self) -> str:
        """Give the folder."""
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

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save compiled code; where the disk is full it is compiled again in the next process."""
        with contextlib.suppress(OSError):
            super().save_overload(sig, data)
