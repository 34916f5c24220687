"""States from elsewhere, with their parameters: from a file of `save`, or of quimb."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tnvmc.ansatz.files import REBUILD, InFiles, lattice_in, scheme_of
from tnvmc.ansatz.jastrow import Jastrow
from tnvmc.ansatz.mps import PeriodicMPS
from tnvmc.ansatz.neural import NETWORKS
from tnvmc.ansatz.peps.fermions import fermions_in
from tnvmc.ansatz.peps.sharing import sharing_in
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.product import ProductState
from tnvmc.ansatz.protocol import Ansatz
from tnvmc.ansatz.quimb import grid_from_quimb, ring_from_quimb
from tnvmc.ansatz.slater import Slater
from tnvmc.ansatz.wrappers.product_of_states import ProductOfStates
from tnvmc.backend.arguments import as_path
from tnvmc.lattice.grids import chain
from tnvmc.lattice.lattice import Lattice
from tnvmc.lattice.permutations import Symmetry, SymmetryGroup
from tnvmc.operators.foreign import hamiltonian_of, is_hamiltonian
from tnvmc.operators.term import NonHermitian, Operator
from tnvmc.storage.hdf5 import StateFileError, attribute, opened, parameters_in

_PLAIN = {kind.__name__: kind for kind in (PeriodicMPS, ProductState, Jastrow, Slater)}


def load_state(path: str | Path) -> tuple[Ansatz, np.ndarray]:
    """Read a wave function and its parameters theta (P,), on the host, from a file of `save`.

    >>> ansatz, theta = tnvmc.load_state("state.h5")  # doctest: +SKIP
    >>> vmc = VMC(hamiltonian, ansatz, theta=theta)  # doctest: +SKIP

    A PEPS (from a checkpoint too, with the default scheme, and of a lattice from a list of bonds
    its grid alone), `PeriodicMPS`, `ProductState`, `Jastrow`, `Slater`, the networks of
    `tnvmc.ansatz.neural`, with their signs and symmetries, and `ProductOfStates` of these.

    Raises:
        StateFileError: no such file; damaged, or of another program or version; a wave function of
            your own, for which the message says what to write; a network that gives another psi
            now.
        ImportError: a network without JAX and Flax.
    """
    path = as_path("load_state", path)
    with opened(path) as file:
        described, theta = parameters_in(file)
        kind, found = described["ansatz"], attribute(file, REBUILD)
        lattice = lattice_in(described["lattice"], file)
        if kind == "PEPS":
            found = {**described, "dtype": theta.dtype.name, "scheme": attribute(file, "scheme")}
    if found is None:
        raise StateFileError(
            f"{path}: holds the parameters of a {kind}, which no file makes again; make it as it "
            "was, then theta = ansatz.load_theta(path), or vmc.restore(path) for a checkpoint"
        )
    try:
        ansatz = _made(kind, lattice, described["local_dim"], found)
    except (TypeError, KeyError) as error:
        raise StateFileError(
            f"{path}: a {kind} with settings that this version of tnvmc does not know ({error}); "
            "read it with the version that wrote it"
        ) from None
    if kind != "PEPS":
        return ansatz, ansatz.load_theta(path)
    if theta.shape != (ansatz.n_params,):
        raise StateFileError(
            f"{path}: damaged: {theta.size} parameters, but D={ansatz.D} on {lattice.shape} has "
            f"{ansatz.n_params}"
        )
    return ansatz, theta


def _made(kind: str, lattice: Lattice, local_dim: int, found: Mapping[str, Any]) -> Any:
    if kind == "ProductOfStates":
        first, second = (
            _made(part["kind"], lattice, local_dim, part["of"])
            for part in (found["first"], found["second"])
        )
        return ProductOfStates(first, second, found["sweeps"])
    if kind == "PEPS":
        scheme, bonds = scheme_of(found["scheme"]), found.get("bonds", "open")
        about = found["D"], found["dtype"], scheme, local_dim, bonds
        return PEPS(lattice, *about, sharing_in(found), fermions_in(found))
    if kind in _PLAIN:
        return _PLAIN[kind](lattice, **found, local_dim=local_dim)
    return _network(lattice, local_dim, found)


def _network(lattice: Lattice, local_dim: int, found: Mapping[str, Any]) -> InFiles:
    from tnvmc.ansatz.neural.flax import FlaxAnsatz

    module, keywords = NETWORKS[found["network"]].load(), found["keywords"]
    elements = tuple(
        Symmetry(name, tuple(sites), inverts, character)
        for sites, inverts, character, name in found["group"]
    )
    return FlaxAnsatz(
        lattice,
        lambda rngs: module(lattice, **keywords, rngs=rngs),
        local_dim=local_dim,
        inputs=found["inputs"],
        holomorphic=found["holomorphic"],
        signs=found["signs"],
        group=SymmetryGroup(elements) if elements else None,
        freeze=found["freeze"],
        architecture=found["architecture"],
    )


def from_quimb(
    value: Any, lattice: Any = None
) -> tuple[PEPS | PeriodicMPS, np.ndarray] | Operator | NonHermitian:
    """Take a state or a Hamiltonian of quimb.

    >>> peps, theta = from_quimb(qtn.PEPS.rand(4, 4, bond_dim=2))  # doctest: +SKIP

    Args:
        value: a PEPS or MatrixProductState (periodic ones too); a Hamiltonian, see
            `operators.foreign.hamiltonian_of`.
        lattice: of a Hamiltonian.

    Returns:
        A state and its theta (P,): a `PEPS`, of one row for an open MPS, or a `PeriodicMPS`; of a
        Hamiltonian an `Operator` or a `NonHermitian`.

    Raises:
        TypeError, ValueError: what is not served; see `quimb.grid_from_quimb`.
    """
    if is_hamiltonian(value):
        return hamiltonian_of(value, lattice)
    if getattr(value, "cyclic", False) and hasattr(value, "L"):
        matrices = ring_from_quimb(value)
        n_sites, local_dim, D = matrices.shape[:3]
        ring = PeriodicMPS(chain(n_sites, "periodic"), D, matrices.dtype.name, local_dim)
        return ring, np.asarray(ring.flatten(matrices))
    grid, tensors = grid_from_quimb(value)
    D = max(max(tensor.shape[1:]) for tensor in tensors)
    dtype = np.result_type(np.float32, *tensors).name
    peps = PEPS(grid, D, dtype, local_dim=tensors[0].shape[0], sharing=None)
    return peps, np.asarray(peps.flatten(tensors))
