"""Where arrays live: the host, or a GPU through CuPy; which GPU each of several ranks takes.

A batch system may show a rank one GPU (Slurm: --gpus-per-task=1), or all of the machine: the place
of a rank on its machine modulo the number of GPUs it sees is right for both.
"""

import warnings
from collections import Counter
from typing import Any

import numpy as np

from tnvmc.backend.namespace import is_gpu
from tnvmc.backend.process import Ranks

_INSTALL = "pip install cupy-cuda13x for CUDA 13, pip install cupy-cuda12x for CUDA 12"

_SHARE = 0.6
"""Part of the free memory for a chunk of walkers; log-derivatives and solver need some."""


class DeviceError(ValueError):
    """There is no such device, or no room on it."""


def namespace_of(device: str) -> Any:
    """Give `numpy` or `cupy`, of "cpu", "gpu" or "auto" (a GPU if there is one).

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
    """Say in words where arrays of this device live, and why not on a GPU."""
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


def out_of_room(what: str, hint: str) -> DeviceError:
    """Make the error to raise when the GPU's memory did not suffice for `what`, with what to do."""
    import cupy

    free, total = cupy.cuda.runtime.memGetInfo()
    return DeviceError(
        f"{what}: the GPU has no room for it ({free / 2**30:.1f} of {total / 2**30:.1f} GiB are "
        f"free); {hint}"
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


_PLACES: list[int] = []  # of this rank on its machine, where there are several


def share_devices(place: int) -> None:
    """Let this process take a GPU by its place among the ranks of its machine."""
    _PLACES[:] = [place]


def take_own_device(xp: Any) -> None:
    """Go on with the GPU of this rank, if there are several ranks and `xp` has arrays on one.

    In this thread.
    """
    if _PLACES and is_gpu(xp):
        _own_device().use()


def on_own_device(xp: Any, array: Any) -> Any:
    """An array of the host in the namespace of its sender, on the GPU of this rank."""
    take_own_device(xp)
    return xp.asarray(array)


def ranks_per_device(ranks: Ranks, xp: Any) -> int:
    """Ranks on the GPU that most of them share; 1 where arrays are not on one.

    Asks once, and warns then of ranks that share one: on rank 0, which the others follow.
    """
    if ranks.size == 1 or not is_gpu(xp):
        return 1
    if ranks.devices is None:
        ranks.devices = ranks.each(_own_address)
        most, n = Counter(ranks.devices).most_common(1)[0]
        if n > 1:
            warnings.warn(
                f"{n} of {len(ranks.devices)} ranks share the GPU {most[1]} and take turns; start "
                "as many ranks on a machine as it has GPUs (Slurm: --ntasks-per-node, "
                "--gpus-per-task=1)",
                stacklevel=2,
            )
    return max(Counter(ranks.devices).values())


def _own_address(ranks: Ranks) -> tuple[int, str]:
    """Machine, and address on its PCI bus, alike for all of its processes."""
    return ranks.machine, str(_own_device().pci_bus_id)


def _own_device() -> Any:
    import cupy

    return cupy.cuda.Device(_PLACES[0] % cupy.cuda.runtime.getDeviceCount())
