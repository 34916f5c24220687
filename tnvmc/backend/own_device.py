"""Which GPU each of several ranks takes: by its place among the ranks of its machine.

A batch system may show a rank one GPU (Slurm: --gpus-per-task=1), or all of the machine: the place modulo the
number of those it sees is right for both.  Nothing is chosen where there is one rank: CuPy's device counts.
"""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any, Protocol

from tnvmc.backend.namespace import is_gpu
from tnvmc.backend.ranks import Ranks


class Devices(Protocol):
    """The GPUs that this process sees."""

    def count(self) -> int:
        """How many."""

    def use(self, number: int) -> None:
        """Let arrays be made, and work be done, on one of them from here on, in this thread."""

    def address(self, number: int) -> str:
        """What names one of them for all processes of the machine."""


class CupyDevices:
    """Those of CuPy."""

    def count(self) -> int:
        """How many."""
        import cupy

        return int(cupy.cuda.runtime.getDeviceCount())

    def use(self, number: int) -> None:
        """Make one of them the current device."""
        import cupy

        cupy.cuda.Device(number).use()

    def address(self, number: int) -> str:
        """Its address on the PCI bus."""
        import cupy

        return str(cupy.cuda.Device(number).pci_bus_id)


DEVICES: Devices = CupyDevices()
"""Tests put others in its place."""

_PLACES: list[int] = []


def share_devices(place: int) -> None:
    """Let this process take a GPU by its place among the ranks of its machine."""
    _PLACES[:] = [place]


def take_own_device(xp: Any) -> None:
    """Go on with the GPU of this rank, where `xp` has its arrays on one, and there are several ranks."""
    if _PLACES and is_gpu(xp):
        DEVICES.use(_PLACES[0] % DEVICES.count())


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
        _warn_of_shared(ranks.devices)
    return max(Counter(ranks.devices).values())


def _own_address(ranks: Ranks) -> tuple[int, str]:
    return ranks.machine, DEVICES.address(_PLACES[0] % DEVICES.count())


def _warn_of_shared(devices: list[tuple[int, str]]) -> None:
    most, n = Counter(devices).most_common(1)[0]
    if n > 1:
        warnings.warn(
            f"{n} of {len(devices)} ranks share the GPU {most[1]} and take turns; start as many ranks on a "
            "machine as it has GPUs (Slurm: --ntasks-per-node, --gpus-per-task=1)",
            stacklevel=2,
        )
