"""What is compared between numbers of ranks; run as ``mpiexec -n P python tests/ranks/cases.py
GROUP FILE``.

Rank 0 writes to FILE what each case gave: hashes of theta, of the walkers and of all measured
numbers.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from mpi4py import MPI

import tnvmc
from tnvmc import MPS, PEPS, SR, SRC, VMC, Adam, GradientDescent, Sampler
from tnvmc.ansatz.product import ProductState
from tnvmc.ansatz.protocol import chi_of
from tnvmc.estimate.reliability import closure_threshold
from tnvmc.jacobian import dense, gram_operator, pieces, tiles
from tnvmc.optimize.conjugate_gradients import ConjugateGradients
from tnvmc.vmc import controllers

dense.BLOCK_WIDTH = 5  # several blocks of few parameters
pieces.WIDTH, pieces.FORMED = 3, 100  # several pieces of a site, single ones dealt out for MANY
gram_operator._ROWS, gram_operator._BLOCKS_OF_A_PRODUCT = 25, 2  # several blocks of few samples
tiles.TILE = 16  # several rows of tiles of few parameters
controllers.LEAST_CHI = 3
controllers.closure_threshold = lambda *seen: (
    1e-6 * closure_threshold(*seen)
)  # chi grows after a step

STEPS = 2
H = tnvmc.heisenberg(tnvmc.square(3, 4))
TILTED = tnvmc.tfim(tnvmc.square(2, 4), h=1.0)
CHAIN = tnvmc.heisenberg(tnvmc.chain(8, "periodic"))
WALKERS = Sampler(n_walkers=7, n_samples=28)  # which 2, 3 and 4 ranks share unevenly
MANY = Sampler(n_walkers=60, n_samples=240)  # more than parameters


def peps(**options: Any) -> PEPS:
    return PEPS(H.lattice, D=2, scheme=SRC(chi=3), **options)


def ring() -> VMC:
    ansatz: Any = MPS(CHAIN.lattice, D=3)
    return VMC(CHAIN, ansatz, WALKERS, SR(space="samples"), comm=MPI.COMM_WORLD)


def one(optimizer: Any = None, sampler: Any = WALKERS, **options: Any) -> VMC:
    return VMC(H, peps(**options), sampler, optimizer, comm=MPI.COMM_WORLD)


def grows() -> VMC:
    state: Any = PEPS(H.lattice, D=3)
    return VMC(H, state, WALKERS, comm=MPI.COMM_WORLD)


def product(optimizer: Any, sampler: Any) -> VMC:
    state: Any = ProductState(TILTED.lattice)
    return VMC(TILTED, state, sampler, optimizer, comm=MPI.COMM_WORLD)


def small(sampler: Any) -> VMC:
    hamiltonian = tnvmc.heisenberg(tnvmc.square(2, 3))
    return VMC(hamiltonian, PEPS(hamiltonian.lattice, D=2), sampler, SR(), comm=MPI.COMM_WORLD)


def factors() -> VMC:
    """Slices beside dense columns, with weights."""
    state: Any = tnvmc.ProductOfStates(peps(), tnvmc.Jastrow(H.lattice))
    return VMC(H, state, WALKERS, SR(space="samples"), comm=MPI.COMM_WORLD)


def network() -> VMC:
    from flax import nnx

    from tnvmc import RBM, FlaxAnsatz

    state: Any = FlaxAnsatz(H.lattice, RBM(H.lattice, rngs=nnx.Rngs(0)))
    return VMC(H, state, Sampler(16, 64, chunk=4), SR(space="samples"), comm=MPI.COMM_WORLD)


GROUPS: Mapping[str, Mapping[str, Callable[[], VMC]]] = {
    "default": {
        "columns": lambda: one(SR(space="samples", solver=ConjugateGradients(1e-6)), MANY),
        "averaged S, direct draws": lambda: one(sampler=tnvmc.DirectSampler(30)),
        "samples": lambda: one(SR(space="samples")),
        "product": lambda: product(SR(space="samples"), MANY),
        "factors": factors,
        "chi grows": grows,
        "momentum, shared": lambda: one(
            SR("auto", memory=0.9, averaged_up_to=9), sharing=tnvmc.sharing(H)
        ),
    },
    "more": {
        "ring": ring,
        "enumeration": lambda: small(tnvmc.Enumerate()),
        "averaged S": one,
        "averaged S, complex": lambda: one(SR(memory=0.9), MANY, dtype="complex128"),
        "averaged S of a product": lambda: product(SR(memory=0.9), MANY),
        "parameters": lambda: one(SR(space="parameters"), MANY),
        "complex": lambda: one(SR(momentum=0.9), dtype="complex128"),
        "conjugate gradients": lambda: one(SR(solver=ConjugateGradients(1e-6))),
        "columns, complex": lambda: one(
            SR(space="samples", solver=ConjugateGradients(1e-3)), MANY, dtype="complex128"
        ),
        "columns, product": lambda: product(
            SR(space="samples", solver=ConjugateGradients(1e-3)), MANY
        ),
        "groups": lambda: one(SR(space="samples"), MANY),
        "force": lambda: one(GradientDescent()),
        "Adam": lambda: one(Adam()),
        "product, parameters": lambda: product(SR(space="parameters"), MANY),
        "network": network,
    },
}


def digest(*arrays: Any) -> str:
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def results(make: Callable[[], VMC]) -> dict[str, Any]:
    vmc = make()
    history = vmc.run(STEPS)
    measured = vmc.measure(n_samples=40)
    found = {
        "energies": [record.energy for record in history],
        "spreads": [record.closure_spread for record in history],
        "chis": [chi_of(vmc.problem.ansatz), *(record.chi for record in history)],
        "theta": digest(vmc.theta),
        "walkers": digest(vmc.state.here.configs),
        "measured": [measured.energy, measured.energy_error, measured.off_diagonal_energy],
    }
    if isinstance(vmc.ansatz, PEPS) and vmc.method.sampler is WALKERS:
        found["chi"] = [
            point.energy for point in vmc.converge((3, 4), 40, double_layer=False).points
        ]
    found["rule"] = digest(*vmc.state.here.optimizer.values())
    again = pickle.loads(pickle.dumps(vmc.state))  # on each rank by itself
    assert digest(*again.here.optimizer.values()) == found["rule"]
    everywhere = MPI.COMM_WORLD.allgather(json.dumps(found))
    assert len(set(everywhere)) == 1, "ranks have different results"
    return found


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    group, file = sys.argv[1:]
    told = {name: results(make) for name, make in GROUPS[group].items()}
    if MPI.COMM_WORLD.Get_rank() == 0:
        Path(file).write_text(json.dumps(told))
