"""The states that benchmarks run on: Heisenberg from simple update, kept in a folder for reuse."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tnvmc import PEPS, heisenberg, square
from tnvmc.ansatz.initial.simple_update import simple_update

CACHE = Path(__file__).parent / "results" / "states"


def heisenberg_state(L: int, D: int, dtype: str = "float64") -> tuple[PEPS, np.ndarray]:
    """A PEPS (default scheme) and its theta for the open L x L Heisenberg model.

    For a complex dtype every tensor gets random phases on its bonds that cancel, so psi(s)
    is the same but no product can be cheaper for being real.
    """
    path = CACHE / f"heisenberg_{L}x{L}_D{D}.npy"
    peps = PEPS(square(L, L), D)
    if path.exists():
        theta = np.load(path)
    else:
        tensors, _ = simple_update(heisenberg(square(L, L)), D, seed=0)
        theta = peps.flatten(tensors)
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, theta)
    peps = PEPS(square(L, L), D, dtype)
    if np.dtype(dtype).kind == "c":
        theta = peps.flatten(_with_phases(PEPS(square(L, L), D).tensors(theta), (L, L)))
    return peps, theta.astype(dtype)


def _with_phases(tensors: list[np.ndarray], shape: tuple[int, int]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    turned = [tensor.astype(complex) for tensor in tensors]
    n_rows, n_cols = shape
    for site in range(n_rows * n_cols):
        row, column = divmod(site, n_cols)
        for inside, other, axis, back in (
            (column < n_cols - 1, site + 1, 4, 2),
            (row < n_rows - 1, site + n_cols, 3, 1),
        ):
            if inside:
                phase = np.exp(2j * np.pi * rng.uniform(size=turned[site].shape[axis]))
                turned[site] = turned[site] * phase.reshape(
                    [-1 if a == axis else 1 for a in range(5)]
                )
                shape_back = [-1 if a == back else 1 for a in range(5)]
                turned[other] = turned[other] / phase.reshape(shape_back)
    return turned
