"""Tensors to start a PEPS from without a Hamiltonian: random, ordered, grown from others, with
noise.

All functions give a list of arrays (d, up, left, down, right), one per site, with legs of size 1 at
the rim and where the lattice joins no neighbours, and D elsewhere.  Simple update, which does need
the Hamiltonian, has its own file.
"""

import itertools
from collections.abc import Sequence
from math import comb
from typing import Any

import numpy as np

from tnvmc.lattice.embedding import DOWN, LEFT, RIGHT, UP, Bonds, Embedding, embedding
from tnvmc.lattice.lattice import Lattice, Patch
from tnvmc.operators.spin import kron
from tnvmc.operators.term import Operator

Array = Any

NOISE = 0.02
"""Of the largest entry of a tensor: enough to open bonds that a start leaves unused."""


def bond_sizes(found: Embedding, D: int) -> list[tuple[int, int, int, int]]:
    """Give the sizes (up, left, down, right) of each site's bonds: D along those of the embedding.

    1 at the rim and along all others.
    """
    if D < 1:
        raise ValueError(f"starts: bond dimension D must be at least 1, got {D}")
    legs = (UP, LEFT, DOWN, RIGHT)
    return [
        tuple(D if found.joins(place, leg) else 1 for leg in legs)  # type: ignore[misc]
        for place in found.places
    ]


def random_positive(
    lattice: Lattice,
    D: int,
    dtype: Any = "float64",
    seed: int = 0,
    local_dim: int = 2,
    bonds: Bonds = "open",
) -> list[Array]:
    """Give tensors with entries uniform in [0, 1), scaled to norm 1; all amplitudes are positive.

    A complex dtype gets random phases of up to +-pi/4 as well, which keep amplitudes from
    vanishing by accident on small lattices, but no longer positive.

    Raises:
        ValueError: D below 1.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    tensors = []
    for sizes in bond_sizes(embedding(lattice, bonds), D):
        tensor = rng.uniform(size=(local_dim, *sizes))
        if np.issubdtype(np.dtype(dtype), np.complexfloating):
            tensor = tensor * np.exp(0.25j * np.pi * rng.uniform(-1, 1, size=tensor.shape))
        tensors.append((tensor / np.linalg.norm(tensor)).astype(dtype))
    return tensors


def grow(
    tensors: Sequence[Array], found: Embedding, D: int, noise: float = 1e-2, seed: int = 0
) -> list[Array]:
    """Give the same state with bonds of size D: old entries kept, new ones small and random.

    `noise` is the norm of a tensor's new entries relative to that of the tensor; with none they
    have no gradient either and stay zero.

    Raises:
        ValueError: a bond is larger than D already; tensors that do not fit the lattice.
    """
    sizes_by_site = bond_sizes(found, D)
    if len(tensors) != len(sizes_by_site):
        raise ValueError(f"starts: {len(tensors)} tensors for {len(found.places)} sites")
    rng = np.random.Generator(np.random.PCG64(seed))
    grown = []
    for site, (tensor, sizes) in enumerate(zip(tensors, sizes_by_site, strict=True)):
        old = np.asarray(tensor)
        if any(have > room for have, room in zip(old.shape[1:], sizes, strict=True)):
            raise ValueError(
                f"starts: site {site} has bonds (up, left, down, right) of {old.shape[1:]}, but "
                f"D = {D} leaves room for {sizes}; a state that grows is not cut"
            )
        inside = tuple(slice(0, size) for size in old.shape)
        new = np.zeros((old.shape[0], *sizes), old.dtype)
        if old.shape != new.shape and noise:
            deviates: Array = rng.standard_normal(new.shape)
            if np.iscomplexobj(new):
                deviates = deviates + 1j * rng.standard_normal(new.shape)
            new += (deviates / np.linalg.norm(deviates)).astype(new.dtype)
            new[inside] = 0
            new *= noise * np.linalg.norm(old) / np.linalg.norm(new)
        new[inside] = old
        grown.append(new)
    return grown


def noisy(tensor: Array, rng: np.random.Generator, noise: float = NOISE) -> Array:
    """Put noise on the entries that are exactly zero, relative to the largest entry."""
    deviates = noise * np.abs(tensor).max() * rng.normal(size=tensor.shape)
    return np.where(tensor == 0, deviates, tensor)


def product_starts(
    lattice: Lattice, local_dim: int = 2, magnetisation: int = 0
) -> dict[str, Array]:
    """Give ordered product states by name, each as one vector per site (N, d).

    Orders "neel", "row stripes", "column stripes" and "uniform" of the grid with the spins in the
    plane (along +-x), and the first three along z: "neel x", "neel z", ... Those in the plane are
    canted towards z by as much as gives the mean 2 Sz = magnetisation.
    """
    rows, columns = np.divmod(np.array(lattice.places), lattice.n_cols)
    patterns = {
        "neel": (rows + columns) % 2,
        "row stripes": rows % 2,
        "column stripes": columns % 2,
        "uniform": 0 * rows,
    }
    d = local_dim
    up = (1 + magnetisation / (lattice.n_sites * (d - 1))) / 2  # of each half spin
    coherent = np.sqrt([comb(d - 1, s) * up ** (d - 1 - s) * (1 - up) ** s for s in range(d)])
    signs = (-1.0) ** np.arange(d)
    in_plane = np.stack([coherent, coherent * signs])
    along_z = np.eye(d)[[0, d - 1]]
    return {
        **{f"{name} x": in_plane[pattern] for name, pattern in patterns.items()},
        **{f"{n} z": along_z[pattern] for n, pattern in patterns.items() if n != "uniform"},
    }


def start_vectors(operator: Operator, seed: int = 0) -> tuple[Array, str]:
    """Give the vectors (N, d) of the product state of `simple_update`, and its name."""
    vectors, name = pattern_vectors(operator, seed)
    if not operator.conserves_magnetisation:
        return vectors, name
    uniform = product_starts(operator.lattice, operator.local_dim, operator.magnetisation or 0)
    searched = _lowest_signs(operator, vectors, uniform["uniform x"][0])
    lower = round(mean_energy(operator, searched) - mean_energy(operator, vectors), 9) < 0
    return (searched, "signs x") if lower else (vectors, name)


def pattern_vectors(operator: Operator, seed: int = 0) -> tuple[Array, str]:
    """Give the same of the orders of rows and columns alone, which tensors can share."""
    d = operator.local_dim
    if not operator.conserves_magnetisation:
        rng = np.random.Generator(np.random.PCG64(seed))
        return 1.0 + 0.1 * rng.uniform(size=(operator.n_sites, d)), "positive"
    # Never along z.  Evolved from it every tensor conserves Sz, and with the few charges that a
    # small bond can carry psi is exactly 0 on many configurations: XXZ on 4x4 at D = 2, 3 leaves
    # half of them to rounding.  In the plane projection makes up for what an easy axis loses:
    # Jz = 1.05 starts 1.8e-2 per site lower than along z, 1.2 within 5e-3, 3 equal.
    # Rounding must not decide between orders that symmetry makes equal: the first one is taken.
    starts = product_starts(operator.lattice, d, operator.magnetisation or 0)
    starts = {name: vectors for name, vectors in starts.items() if name.endswith(" x")}
    energies = {name: round(mean_energy(operator, v), 9) for name, v in starts.items()}
    name = min(energies, key=energies.__getitem__)
    return starts[name], name


_DESCENTS = 8  # from random signs


def _lowest_signs(operator: Operator, vectors: Array, up: Array) -> Array:
    """Give the vectors (N, d), each `up` (d,) or its mirror image, of lowest energy that is found.

    For lists of bonds and mixed couplings: signs are turned one by one while the energy falls.
    """
    both = np.stack([up, up * (-1.0) ** np.arange(len(up))])
    tables: list[tuple[Patch, Array]] = []
    at: list[list[int]] = [[] for _ in range(operator.n_sites)]
    for term in operator.terms:
        states = [kron(*pair) for pair in itertools.product(both, repeat=len(term.sites))]
        table = np.array([np.real(x.conj() @ term.matrix @ x) for x in states])
        for site in term.sites:
            at[site].append(len(tables))
        tables.append((term.sites, table.reshape((2,) * len(term.sites))))

    def energy(signs: Array, which: Sequence[int]) -> float:
        return float(sum(tables[k][1][tuple(signs[list(tables[k][0])])] for k in which))

    def descended(signs: Array) -> Array:
        lowered = True
        while lowered:
            lowered = False
            for site in range(operator.n_sites):
                before = energy(signs, at[site])
                signs[site] ^= 1
                if energy(signs, at[site]) < before - 1e-9:
                    lowered = True
                else:
                    signs[site] ^= 1
        return signs

    here = (np.abs(vectors - up) > 0).any(axis=1).astype(int)
    every = range(len(tables))
    if energy(here, every) <= sum(table.min() for _, table in tables) + 1e-9:
        return vectors  # no term is frustrated
    rng = np.random.Generator(np.random.PCG64(0))
    draws = [rng.integers(2, size=operator.n_sites) for _ in range(_DESCENTS)]
    return both[min((descended(x) for x in (here, *draws)), key=lambda x: energy(x, every))]


def mean_energy(operator: Operator, vectors: Array) -> float:
    """<H> in the product state of vectors (N, d)."""
    energy = 0.0
    for term in operator.terms:
        state = kron(*(vectors[site] for site in term.sites))
        energy += float(np.real(state.conj() @ term.matrix @ state))
    return energy
