"""Ranks with GPUs, of which there are none here: started through mpiexec by test_devices.py.

Arrays are of array_api_strict, which NumPy's functions refuse as they refuse those of CuPy, and the machine
has as many devices as the test says.  Rank 0 writes to FILE what each state gave.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import array_api_strict as xp
import numpy as np
from mpi4py import MPI

from tnvmc import MPS, PEPS, SR, SRC, VMC, Sampler, chain, heisenberg, square
from tnvmc.backend import device
from tnvmc.backend.namespace import array_namespace
from tnvmc.optimize.conjugate_gradients import ConjugateGradients

WORLD = MPI.COMM_WORLD
WALKERS = Sampler(n_walkers=7, n_samples=14)
MANY = Sampler(n_walkers=12, n_samples=36)  # more than parameters of a PEPS of 2 x 2 sites
N_DEVICES, FILE = int(sys.argv[1]), Path(sys.argv[2])


class Device:
    """One of the devices; the one in use is told by `used`."""

    used: int | None = None

    def __init__(self, number: int) -> None:
        self.number, self.pci_bus_id = number, f"bus {number}"

    def use(self) -> None:
        Device.used = self.number


def run(operator: Any, ansatz: Any, sampler: Any, rule: Any) -> VMC:
    """Two steps and a short measurement: arrays of array_api_strict are slow, hence small states."""
    start = np.random.default_rng(1).normal(size=ansatz.n_params)
    imaginary = np.random.default_rng(2).normal(size=ansatz.n_params)
    if "complex" in str(getattr(ansatz, "dtype", "")):
        start = start + 0.1j * imaginary
    theta = xp.asarray(start)
    vmc = VMC(operator, ansatz, sampler, rule, theta=theta, comm=WORLD, learning_rate=0.05)
    vmc.run(2)
    return vmc


def states() -> dict[str, Any]:
    """What is compared between numbers of ranks."""
    operator, closed = heisenberg(square(3, 2)), heisenberg(chain(6, "periodic"))
    plaquette = heisenberg(square(2, 2))
    peps, small = PEPS(operator.lattice, 2, scheme=SRC(3)), PEPS(plaquette.lattice, 2)
    complex_peps = PEPS(plaquette.lattice, 2, dtype="complex128")
    return {
        "slices": (operator, peps, WALKERS, SR(space="samples")),
        "parameters": (plaquette, small, MANY, SR(space="parameters")),
        "iterated": (plaquette, small, WALKERS, SR(solver=ConjugateGradients(1e-8))),
        "complex": (plaquette, complex_peps, WALKERS, SR(space="samples")),
        "ring": (closed, MPS(closed.lattice, D=3), WALKERS, SR(space="samples")),
    }  # fmt: skip


def main() -> None:
    runtime = SimpleNamespace(getDeviceCount=lambda: N_DEVICES)
    cuda: Any = SimpleNamespace(Device=Device, runtime=runtime)
    sys.modules["cupy"] = SimpleNamespace(cuda=cuda)  # type: ignore[assignment]
    device.is_gpu = lambda space: space is xp  # type: ignore[assignment]
    found: dict[str, Any] = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for name, parts in states().items():
            vmc = run(*parts)
            assert array_namespace(vmc.theta) is xp
            found[name] = [*map(float, np.asarray(vmc.theta).real[:50])]
            found[name].append(vmc.measure(n_samples=14, n_burn=2).energy)
    told = [str(each.message) for each in caught if "share the GPU" in str(each.message)]
    found["devices"] = WORLD.gather(Device.used)
    found["told"] = len(told)
    found["known"] = vmc.ranks.devices
    if WORLD.Get_rank() == 0:
        FILE.write_text(json.dumps(found))


if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    main()
