"""Between NumPy or CuPy and JAX: arrays, and what to do without room."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import numpy as np

from tnvmc.backend.device import DeviceError
from tnvmc.backend.namespace import array_namespace, is_cupy, is_gpu, to_host, to_namespace

Array = Any

_ALIGNMENT = 256
"""Bytes at whose multiples CuPy allocates; XLA takes arrays that begin in between for broken."""


def to_jax(array: Array) -> Array:
    """Give an array of any namespace as an argument of a function compiled for its device.

    One of the host stays a NumPy array where JAX has no other device: the call takes it in 5
    microseconds, and to put it there first takes 120.
    """
    if is_cupy(array):
        if not _sees_a_gpu():
            raise DeviceError(
                "device = 'gpu': this JAX sees no GPU, and networks run by it; pip install "
                "'jax[cuda13]>=0.10,<0.11' (cuda12 for CUDA 12), or take device = 'cpu'"
            )
        array = array_namespace(array).ascontiguousarray(array)
        if array.data.ptr % _ALIGNMENT:
            array = array.copy()
        return jax.dlpack.from_dlpack(array)
    return beside(to_host(array), array)


def from_jax(array: Array, xp: Any) -> Array:
    """A JAX array in a namespace; on a GPU without a copy, on the host as it lies there too."""
    if is_gpu(xp):
        return xp.from_dlpack(array)
    return to_namespace(np.asarray(array), xp)


def beside(tree: Any, array: Array) -> Any:
    """NumPy arrays of a tree as arguments of a compiled function that runs where `array` lies."""
    if _sees_the_host_alone():
        return tree
    kind = "gpu" if is_cupy(array) else "cpu"
    return jax.device_put(tree, jax.devices(kind)[0])


def called(run: Callable[..., Any], *arrays: Any) -> Any:
    """Call `run`; without room on a GPU once more, after CuPy gave back what it only keeps.

    Raises:
        MemoryError: no room.
    """
    try:
        return run(*arrays)
    except jax.errors.JaxRuntimeError as error:
        if not _no_room(error):
            raise
        if "cupy" not in sys.modules:
            raise MemoryError(str(error)) from error
    sys.modules["cupy"].get_default_memory_pool().free_all_blocks()
    try:
        return run(*arrays)
    except jax.errors.JaxRuntimeError as error:
        if _no_room(error):
            raise MemoryError(str(error)) from error
        raise


def _no_room(error: Exception) -> bool:
    return "RESOURCE_EXHAUSTED" in str(error)


@cache
def _sees_the_host_alone() -> bool:
    return jax.default_backend() == "cpu"


@cache
def _sees_a_gpu() -> bool:
    try:
        return bool(jax.devices("gpu"))
    except RuntimeError:  # so JAX says that it has no such backend
        return False
