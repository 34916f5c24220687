"""Where arrays live: the host, or a GPU through CuPy."""

from __future__ import annotations

from typing import Any

import numpy as np

_INSTALL = "pip install cupy-cuda13x for CUDA 13, pip install cupy-cuda12x for CUDA 12"

_SHARE = 0.6
"""Part of the free memory that a chunk of walkers may take; the rest is for the log-derivatives of
the chunks before it, and for the solver."""


class DeviceError(ValueError):
    """There is no such device, or no room on it."""


def namespace_of(device: str) -> Any:
    """Give the array namespace of a device.

    Args:
        device: "cpu", "gpu" or "auto" (a GPU if there is one).

    Returns:
        `numpy` or `cupy`.

    Raises:
        DeviceError: "gpu" where CuPy is missing or finds no GPU; anything else than these three.
    """
    if device == "cpu":
        return np
    if device not in ("gpu", "auto"):
        raise DeviceError(f"device = {device!r}: must be 'cpu', 'gpu' or 'auto'")
    obstacle = _obstacle()
    if obstacle is None:
        import cupy

        return cupy
    if device == "auto":
        return np
    raise DeviceError(f"device = 'gpu': {obstacle}; or take device = 'cpu'")


def describe(device: str) -> str:
    """Say in words where arrays of this device live, and why not on a GPU for "auto" without one.

    Raises:
        DeviceError: as `namespace_of`.
    """
    xp = namespace_of(device)
    if xp is not np:
        properties = xp.cuda.runtime.getDeviceProperties(xp.cuda.runtime.getDevice())
        return f"on the GPU ({properties['name'].decode()})"
    return f"on the CPU ({_obstacle()})" if device == "auto" else "on the CPU"


def walkers_that_fit(walker_bytes: int) -> int:
    """Give how many walkers of `walker_bytes` the free memory of the GPU holds, at least 1."""
    import cupy

    free, _ = cupy.cuda.runtime.memGetInfo()
    pool = cupy.get_default_memory_pool()
    free += pool.total_bytes() - pool.used_bytes()
    return max(1, int(_SHARE * free / walker_bytes))


def out_of_room(what: str) -> DeviceError:
    """Make the error to raise when the GPU's memory did not suffice for `what`."""
    import cupy

    free, total = cupy.cuda.runtime.memGetInfo()
    return DeviceError(
        f"{what}: the GPU has no room for it ({free / 2**30:.1f} of {total / 2**30:.1f} GiB are "
        "free); lower sampler.chunk (walkers at a time), sampler.n_samples (log-derivatives) or "
        "contraction.chi"
    )


def _obstacle() -> str | None:
    """What stands between this process and a GPU; None if nothing does."""
    try:
        import cupy
    except ImportError as error:
        return f"CuPy cannot be imported ({error}); {_INSTALL}"
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"CuPy finds no GPU ({error})"
    return None if count else "CuPy finds no GPU"
