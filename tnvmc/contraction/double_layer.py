"""Norms of a PEPS without sampling, amplitudes without truncation.

Three of the four contractions that one can do with a PEPS:

(a) <psi|psi> exactly: `log_norm(...)`, carrying a vector of D^(2 n_cols) numbers down the rows;
(b) <psi|psi> with boundary MPOs on the double layer: `log_norm(..., chi=chi)`;
(c) psi(s) exactly at fixed spins: `log_amplitude`, carrying a vector of D^n_cols numbers.

The fourth, psi(s) with boundary MPS, is what sampling uses; it lives with the ansatz.  Energies
are in `double_expectation.py`.

Site tensors are (d, up, left, down, right), sites row by row, legs of the rim of size 1.
Boundary tensors are (left, ket, bra, right).  Logarithms are carried along, so that no lattice
is too large for a float.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tnvmc.backend.linalg import contract
from tnvmc.contraction.double_boundary import Grid, double_boundaries, grid_of

Array = Any


def log_norm(
    tensors: Sequence[Array], shape: tuple[int, int], *, chi: int | None = None, seed: int = 0
) -> float:
    """Give ln <psi|psi>.

    Args:
        tensors: site tensors (d, up, left, down, right), row by row.
        shape: rows and columns of the grid.
        chi: bond of the boundary MPOs; None for the exact norm.
        seed: of the sketches.

    Raises:
        ValueError: the number of tensors does not fit the shape.

    Cost: exactly N D^(2 n_cols + 6) operations and D^(2 n_cols + 2) numbers; with chi
    chi^3 D^4 + 2 d chi^2 D^6 operations a site (source: `double_boundaries`).
    """
    if chi is None:
        return float(_contract_exactly(_double(grid_of(tensors, shape)))[1][0])
    everything = double_boundaries(tensors, shape, chi, seed, oversampling=1)[0]
    value = np.ones((1, 1))
    for tensor in everything.tensors:
        value = value @ tensor[:, 0, 0, :]
    modulus = abs(value.item())
    return math.log(modulus) + everything.log_scale if modulus else -math.inf


def log_amplitude(
    tensors: Sequence[Array], shape: tuple[int, int], configs: Array
) -> tuple[Array, Array]:
    """Give psi(s) exactly.

    Args:
        tensors: site tensors (d, up, left, down, right), row by row.
        shape: rows and columns of the grid.
        configs: configurations (B, N).

    Returns:
        Phases (B,) and ln|psi| (B,), 0 and -inf where psi vanishes.

    Raises:
        ValueError: the number of tensors does not fit the shape.

    Cost per configuration: N D^(n_cols + 3) operations and D^(n_cols + 1) numbers.
    """
    configs = np.asarray(configs)
    layer = [
        [tensor[configs[:, r * shape[1] + c]] for c, tensor in enumerate(row)]
        for r, row in enumerate(grid_of(tensors, shape))
    ]
    return _contract_exactly(layer)


def _double(kets: Grid) -> Grid:
    """Sum over spins: tensors (1, u, l, d, r) with ket and bra legs fused pairwise."""
    return [
        [
            contract("sukpl,swbqr->uwkbpqlr", ket, ket.conj()).reshape(
                1, *(leg**2 for leg in ket.shape[1:])
            )
            for ket in row
        ]
        for row in kets
    ]


def _contract_exactly(layer: Grid) -> tuple[Array, Array]:
    """Contract a grid of tensors (B, u, l, d, r): phases and ln|.|, both (B,).

    The open legs are kept as one vector, ordered (horizontal leg, vertical legs of this column,
    of later ones, of earlier ones), so that each site is one matrix product.  In this order none
    of the large vectors is transposed: the cheaper ket-then-bra order is slower (2x at D = 3).
    """
    batch = layer[0][0].shape[0]
    vector = np.ones((batch, 1, 1))
    logs = np.zeros(batch)
    for row in layer:
        for tensor in row:
            _, up, left, down, right = tensor.shape
            matrix = tensor.transpose(0, 4, 3, 2, 1).reshape(batch, right * down, left * up)
            others = math.prod(vector.shape[1:]) // (left * up)
            vector = matrix @ vector.reshape(batch, left * up, others)
            vector = vector.reshape(batch, right, down, others).swapaxes(2, 3)
            size = np.abs(vector).max(axis=(1, 2, 3))
            size = np.where(size > 0, size, 1.0)
            vector = vector / size[:, None, None, None]
            logs = logs + np.log(size)
    values = vector.reshape(batch)
    modulus = np.abs(values)
    phases = np.divide(values, modulus, out=np.zeros_like(values), where=modulus != 0)
    return phases, logs + np.log(modulus, out=np.full(batch, -np.inf), where=modulus != 0)
