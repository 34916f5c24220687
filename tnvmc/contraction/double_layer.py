"""Norms and expectation values of a PEPS without sampling, amplitudes without truncation.

Three of the four contractions that one can do with a PEPS:

(a) <psi|psi> exactly: `log_norm(...)`, carrying a vector of D^(2 n_cols) numbers down the rows;
(b) <psi|psi> with boundary MPOs on the double layer: `log_norm(..., chi=chi)`;
(c) psi(s) exactly at fixed spins: `log_amplitude`, carrying a vector of D^n_cols numbers.

The fourth, psi(s) with boundary MPS, is what sampling uses; it lives with the ansatz.  These
three are references, and price the starting states of an optimisation.

Site tensors are (d, up, left, down, right), sites row by row, legs of the rim of size 1.
Boundary tensors are (left, ket, bra, right).  Logarithms are carried along, so that no lattice
is too large for a float.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tnvmc.backend.contract import contract
from tnvmc.contraction.double_boundary import (
    Grid,
    boundaries,
    conjugated,
    grid_of,
)
from tnvmc.operators.term import Operator

Array = Any
String = Mapping[int, Array]  # a product of one-site matrices, by site

_NEGLIGIBLE = 1e-9  # relative overlap with a rotated state below which it is left out


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
    chi^3 D^4 + 2 d chi^2 D^6 operations a site (source: `double_boundary.boundaries`).
    """
    kets = grid_of(tensors, shape)
    return _log_overlap(kets, conjugated(kets), chi, seed)[1]


def expectation(
    tensors: Sequence[Array], operator: Operator, *, magnetisation: int | None = None
) -> float:
    """Give <psi|H|psi> / <psi|psi> exactly: the total, in the operator's units.

    A term is taken as a sum of products of one-site matrices, and the whole double layer contracted
    once for each: a reference for small lattices, see `boundary_expectation` for others.

    Args:
        tensors: site tensors (d, up, left, down, right), row by row.
        operator: on the grid of the tensors.
        magnetisation: twice the total Sz of a sector onto which psi is projected first, which
            gives the state that exchange moves sample.  It sums over N (d - 1) + 1 rotations of
            psi about z, in complex arithmetic, and is meant for operators that conserve the
            magnetisation (not checked).

    Raises:
        ValueError: the number of tensors does not fit the lattice; no such sector.

    Cost: that of `log_norm` for each product.
    """
    kets = grid_of(tensors, operator.lattice.shape)
    bras = conjugated(kets)
    strings = [
        dict(zip(term.sites, matrices, strict=True))
        for term in operator.terms
        for matrices in _products(np.asarray(term.matrix), operator.local_dim)
    ]
    total = norm = 0.0
    reference = _log_overlap(kets, bras, None, 0)[1]
    for rotated, multiplicity in _rotations(kets, magnetisation):
        phase, log_abs = _log_overlap(rotated, bras, None, 0)
        weight = multiplicity * phase * math.exp(log_abs - reference)
        if abs(weight) < _NEGLIGIBLE:
            continue
        value = sum(_exact_values(rotated, bras, strings))
        total += (weight * value).real
        norm += weight.real
    return float(total / norm)


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


def _products(matrix: Array, d: int) -> Iterator[tuple[Array, ...]]:
    """Write a (d^k, d^k) matrix as a sum of products of k matrices (d, d)."""
    rest = matrix.shape[0] // d
    if rest == 1:
        yield (matrix,)
        return
    x = matrix.reshape(d, rest, d, rest).transpose(0, 2, 1, 3).reshape(d * d, rest * rest)
    u, s, v = np.linalg.svd(x, full_matrices=False)
    for m in np.flatnonzero(s > 1e-14 * s[0]):
        for tail in _products(s[m] * v[m].reshape(rest, rest), d):
            yield (u[:, m].reshape(d, d), *tail)


def _acted_on(kets: Grid, string: String) -> Grid:
    """Apply one-site matrices; what they do not touch is shared, not copied."""
    changed = [list(row) for row in kets]
    for site, matrix in string.items():
        r, c = divmod(site, len(kets[0]))
        changed[r][c] = np.tensordot(matrix, kets[r][c], (1, 0))
    return changed


def _rotations(kets: Grid, magnetisation: int | None) -> Iterator[tuple[Grid, int]]:
    """Yield states rotated about z that add up to the projection on a sector, and how often.

    Rotations by opposite angles have conjugate overlaps, so one of each two is left out.
    """
    if magnetisation is None:
        yield kets, 1
        return
    n_sites, d = len(kets) * len(kets[0]), kets[0][0].shape[0]
    largest = n_sites * (d - 1)
    if abs(magnetisation) > largest or (largest - magnetisation) % 2:
        raise ValueError(
            f"double layer: {n_sites} sites with local dimension {d} have no sector of "
            f"magnetisation {magnetisation}; twice the total Sz goes from {-largest} to {largest} "
            "in steps of 2"
        )
    mean_state = (largest - magnetisation) / 2 / n_sites
    n_angles = largest + 1
    for m in range(n_angles // 2 + 1):
        angles = 2 * math.pi * m / n_angles * (np.arange(d) - mean_state)
        rotation = np.diag(np.exp(1j * angles)) if m else np.eye(d)
        rotated = [[np.tensordot(rotation, ket, (1, 0)) for ket in row] for row in kets]
        yield rotated, 1 if 2 * m % n_angles == 0 else 2


def _log_overlap(kets: Grid, bras: Grid, chi: int | None, seed: int) -> tuple[complex, float]:
    """Phase and ln|.| of sum_s ket(s) bra(s)."""
    if chi is None:
        phases, logs = _contract_exactly(_double(kets, bras))
        return complex(phases[0]), float(logs[0])
    everything = boundaries(kets, bras, chi, seed)[0]
    value = np.ones((1, 1))
    for tensor in everything.tensors:
        value = value @ tensor[:, 0, 0, :]
    modulus = abs(value.item())
    if modulus == 0:
        return 0j, -math.inf
    return complex(value.item()) / modulus, math.log(modulus) + everything.log_scale


# --- exactly -------------------------------------------------------------------------------


def _double(kets: Grid, bras: Grid) -> Grid:
    """Sum over spins: tensors (1, u, l, d, r) with ket and bra legs fused pairwise."""
    found: Grid = []
    for rows in zip(kets, bras, strict=True):
        found.append([])
        for ket, bra in zip(*rows, strict=True):
            sizes = [1, *(k * b for k, b in zip(ket.shape[1:], bra.shape[1:], strict=True))]
            found[-1].append(contract("sukpl,swbqr->uwkbpqlr", ket, bra).reshape(sizes))
    return found


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


def _exact_values(kets: Grid, bras: Grid, strings: Sequence[String]) -> Iterator[complex]:
    """Expectation values of products of one-site matrices, each by a full contraction."""
    phase, log_abs = _log_overlap(kets, bras, None, 0)
    for string in strings:
        phase_string, log_string = _log_overlap(_acted_on(kets, string), bras, None, 0)
        if phase_string:
            yield phase_string / phase * math.exp(log_string - log_abs)
