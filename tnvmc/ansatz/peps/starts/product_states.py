"""Ordered product states, and the one that an imaginary-time evolution starts from."""

from __future__ import annotations

from collections.abc import Sequence
from math import comb
from typing import Any

import numpy as np

from tnvmc.lattice.lattice import Lattice
from tnvmc.operators.term import Operator

Array = Any


def product_starts(lattice: Lattice, local_dim: int = 2) -> dict[str, Array]:
    """Give ordered product states by name, each as one vector per site (N, d).

    Orders "neel", "row stripes", "column stripes" and "uniform" of the rows and columns of the
    grid, with the spins in the plane (along +-x), and the first three along z: "neel x", "neel z",
    ...
    """
    rows, columns = np.divmod(np.array(lattice.places), lattice.n_cols)
    patterns = {
        "neel": (rows + columns) % 2,
        "row stripes": rows % 2,
        "column stripes": columns % 2,
        "uniform": 0 * rows,
    }
    d = local_dim
    coherent = np.sqrt([comb(d - 1, s) / 2 ** (d - 1) for s in range(d)])
    signs = (-1.0) ** np.arange(d)
    in_plane = np.stack([coherent, coherent * signs])
    along_z = np.eye(d)[[0, d - 1]]
    starts = {f"{name} x": in_plane[pattern] for name, pattern in patterns.items()}
    starts |= {f"{n} z": along_z[pattern] for n, pattern in patterns.items() if n != "uniform"}
    return starts


def start_vectors(operator: Operator, start: str | Sequence[Array], seed: int) -> tuple[Array, str]:
    """Give the vectors (N, d) that `start` stands for, and its name; see `simple_update`."""
    d = operator.local_dim
    if not isinstance(start, str):
        vectors = np.asarray(start)
        if vectors.shape != (operator.n_sites, d):
            raise ValueError(
                f"simple update: start has shape {vectors.shape}; a product state is one vector "
                f"per site, ({operator.n_sites}, {d})"
            )
        return vectors, "given"
    starts = product_starts(operator.lattice, d)
    if start == "auto" and not operator.conserves_magnetisation:
        rng = np.random.Generator(np.random.PCG64(seed))
        return 1.0 + 0.1 * rng.uniform(size=(operator.n_sites, d)), "positive"
    if start == "auto":
        # Never along z.  Evolved from it every tensor conserves Sz, and with the few charges that
        # a small bond can carry psi is exactly 0 on many configurations: XXZ on 4x4 at D = 2, 3
        # leaves half of them to rounding.  In the plane projection makes up for what an easy axis
        # loses: Jz = 1.05 starts 1.8e-2 per site lower than along z, 1.2 within 5e-3, 3 equal.
        # Rounding must not decide between orders that symmetry makes equal: the first one is taken.
        in_plane = {name: v for name, v in starts.items() if name.endswith(" x")}
        energies = {name: round(mean_energy(operator, v), 9) for name, v in in_plane.items()}
        start = min(energies, key=energies.__getitem__)
    if start not in starts:
        raise ValueError(
            f"simple update: start {start!r} is not known; choose one of auto, {', '.join(starts)}"
        )
    return starts[start], start


def mean_energy(operator: Operator, vectors: Array) -> float:
    """<H> in the product state of vectors (N, d)."""
    energy = 0.0
    for term in operator.terms:
        state = np.ones(1)
        for site in term.sites:
            state = np.kron(state, vectors[site])
        energy += float(np.real(state.conj() @ term.matrix @ state))
    return energy
