"""Where the parameters start: simple update, random numbers, a product state, a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tnvmc.ansatz.initial.simple_update import SimpleUpdateInfo, evolved, simple_update
from tnvmc.ansatz.initial.tensors import grow, random_positive
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.product import ProductState
from tnvmc.ansatz.protocol import Ansatz
from tnvmc.ansatz.wrappers.symmetrised import Symmetrised
from tnvmc.backend.namespace import array_namespace, to_host, to_namespace
from tnvmc.operators.term import Operator
from tnvmc.storage.checkpoint import (
    CheckpointError,
    differences,
    kind_in,
    name_of,
    plain,
    read_parameters,
)
from tnvmc.storage.run_folder import CHECKPOINT

Array = Any

KINDS = ("simple_update", "random", "product")

_NOISE = 0.02
"""Of the largest entry of a tensor: enough to open bonds that a start leaves unused."""


def initial_parameters(
    ansatz: Ansatz, operator: Operator, seed: int = 0, kind: str | None = None
) -> Array:
    """Make parameters (P,) to start from.

    `kind` is "simple_update" (PEPS and open MPS), "random" (positive for a PEPS), "product" (the
    ordered product state of lowest energy, with a little noise on a PEPS) or the path of a run or
    a checkpoint of the same kind of state on the same lattice, with the same or a smaller D, or
    of a network of the same architecture.

    Raises:
        ValueError: a start that this wave function does not have.
        CheckpointError: a damaged checkpoint, or one of another kind of state.
    """
    if isinstance(ansatz, Symmetrised):
        return initial_parameters(ansatz.ansatz, operator, seed, kind)
    if kind is None:
        kind = "simple_update" if isinstance(ansatz, PEPS) else "random"
    if kind not in KINDS:
        return _from_checkpoint(ansatz, Path(kind), seed)
    if isinstance(ansatz, PEPS):
        if kind == "random":
            options = (ansatz.lattice, ansatz.D, ansatz.dtype, seed, ansatz.local_dim)
            return ansatz.flatten(random_positive(*options))
        return from_simple_update(ansatz, operator, seed, 0 if kind == "product" else 200)[0]
    if kind == "product" and isinstance(ansatz, ProductState):
        tensors, _ = simple_update(operator, 1, seed=seed, max_steps=0)
        return np.concatenate([tensor.ravel() for tensor in tensors]).astype(ansatz.dtype)
    if kind == "random":
        state: Any = ansatz
        return state.random(seed).astype(state.dtype)
    raise ValueError(
        f"ansatz.init = '{kind}': a {type(ansatz).__name__} has no such start; take 'random'"
    )


def from_simple_update(
    ansatz: PEPS, operator: Operator, seed: int = 0, max_steps: int = 200
) -> tuple[Array, SimpleUpdateInfo]:
    """Give parameters (P,) after at most `max_steps` of each time step, and how it went."""
    tensors, info = simple_update(operator, ansatz.D, seed=seed, max_steps=max_steps)
    rng = np.random.Generator(np.random.PCG64(seed))
    return ansatz.flatten([_noisy(tensor, rng) for tensor in tensors]), info


def grown(
    small: PEPS,
    theta: Array,
    large: PEPS,
    operator: Operator,
    *,
    evolve: int = 0,
    noise: float = _NOISE,
    seed: int = 0,
) -> Array:
    """Give the state of `small` as parameters of `large`.

    New bonds are opened by `evolve` steps of simple update.  Entries that are still zero, all new
    ones without any step, get noise of this deviation relative to the tensor's largest entry.

    Raises:
        ValueError: `large` has the smaller D.
    """
    xp = array_namespace(theta)
    tensors = [to_host(tensor) for tensor in small.tensors(theta)]
    shape = large.lattice.shape
    if evolve:
        rng = np.random.Generator(np.random.PCG64(seed))
        wide = evolved(operator, tensors, large.D, evolve)
        wide = [_noisy(tensor, rng, noise) for tensor in wide]
    else:
        wide = grow(tensors, shape, large.D, noise, seed, per_entry=True)
    return to_namespace(large.flatten(wide), xp)


def _noisy(tensor: Array, rng: np.random.Generator, noise: float = _NOISE) -> Array:
    """Put noise on the entries that are exactly zero."""
    deviates = noise * np.abs(tensor).max() * rng.normal(size=tensor.shape)
    return np.where(tensor == 0, deviates, tensor)


_TREATMENT = ("marshall", "average", "magnetisation")
"""Of a network, without influence on its parameters: may differ from where they come from."""


def _shaping(architecture: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in architecture.items() if key not in _TREATMENT}


def _from_checkpoint(ansatz: Ansatz, path: Path, seed: int) -> Array:
    """Read parameters; those of a PEPS with a smaller D are grown, with noise on the new bonds."""
    described, theta = read_parameters(path / CHECKPOINT if path.is_dir() else path)
    dtype = np.dtype(ansatz.dtype)  # type: ignore[attr-defined]
    shape = [int(length) for length in ansatz.lattice.shape]
    found = (kind_in(described), described["lattice"][1:3], described["local_dim"])
    wanted = (name_of(ansatz), shape, ansatz.local_dim)
    if found != wanted:
        raise CheckpointError(
            f"ansatz.init = '{path}': it holds a {found[0]} on {found[1]} with local dimension "
            f"{found[2]}, wanted is a {wanted[0]} on {wanted[1]} with {wanted[2]}"
        )
    if hasattr(ansatz, "architecture"):
        stored = described.get("architecture") or {}
        differing = differences(_shaping(stored), _shaping(plain(ansatz.architecture)))
        if differing:
            raise CheckpointError(
                f"ansatz.init = '{path}': it holds a network of another architecture: "
                f"{', '.join(differing)}"
            )
    if theta.dtype.kind == "c" and dtype.kind != "c":
        raise CheckpointError(
            f"ansatz.init = '{path}': it is {theta.dtype}, a real state cannot hold it; take "
            "ansatz.dtype = 'complex128'"
        )
    if described["n_parameters"] == ansatz.n_params:
        return theta.astype(dtype)
    if not isinstance(ansatz, PEPS) or described["D"] > ansatz.D:
        raise CheckpointError(
            f"ansatz.init = '{path}': it has D = {described['D']}, which cannot be turned into "
            f"D = {getattr(ansatz, 'D', None)}; only a PEPS grows, and none shrinks"
        )
    small = PEPS(ansatz.lattice, described["D"], theta.dtype.name, local_dim=ansatz.local_dim)
    return ansatz.flatten(grow(small.tensors(theta), ansatz.lattice.shape, ansatz.D, seed=seed))


def check_lattices(operator: Operator, ansatz: Ansatz) -> None:
    """Raise ValueError where the two have different numbers of sites."""
    if operator.n_sites != ansatz.lattice.n_sites:
        there, here = (" x ".join(map(str, x.lattice.shape)) for x in (operator, ansatz))
        raise ValueError(
            f"VMC: the Hamiltonian lives on {there} sites, the wave function on {here}; make both "
            "from one lattice"
        )
