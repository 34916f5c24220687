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
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tnvmc.operators.term import Operator

Array = Any
Grid = list[list[Array]]  # tensors by row and column
String = Mapping[int, Array]  # a product of one-site matrices, by site

_NEGLIGIBLE = 1e-9  # relative overlap with a turned state below which it is left out


def log_norm(
    tensors: Sequence[Array], shape: tuple[int, int], *, chi: int | None = None, seed: int = 0
) -> float:
    """Give ln <psi|psi>.

    Exactly with `chi=None`: N D^(2 n_cols + 6) operations, D^(2 n_cols + 2) numbers.  Otherwise
    rows are absorbed into a boundary MPO of bond dimension `chi` by successive randomised
    compression (Camano, Epperly and Tropp 2025) with sketches drawn from `seed`:
    chi^3 D^4 + d chi^2 D^6 operations a site.

    Raises:
        ValueError: the number of tensors does not fit the shape.
    """
    kets = _grid(tensors, shape)
    return _log_overlap(kets, _conjugated(kets), chi, seed)[1]


def expectation(
    tensors: Sequence[Array],
    operator: Operator,
    *,
    chi: int | None = None,
    magnetisation: int | None = None,
    seed: int = 0,
) -> float:
    """Give <psi|H|psi> / <psi|psi>: the total, in the operator's units.

    A term is taken as a sum of products of one-site matrices.  `chi=None` contracts the whole
    double layer once per product, so it is for small lattices; otherwise the h rows that a term
    touches are contracted exactly between boundary MPOs of bond dimension `chi`, at
    chi^3 D^(2 h + 2) operations a column.

    `magnetisation` (twice the total Sz) projects psi onto that sector first, which gives the
    state that exchange moves sample.  It sums over N (d - 1) + 1 turns of psi about z, in complex
    arithmetic, and is meant for operators that conserve the magnetisation (not checked).

    Raises:
        ValueError: the number of tensors does not fit the lattice; no such sector.
    """
    kets = _grid(tensors, operator.lattice.shape)
    bras = _conjugated(kets)
    strings = [
        dict(zip(term.sites, matrices, strict=True))
        for term in operator.terms
        for matrices in _products(np.asarray(term.matrix), operator.local_dim)
    ]
    total = norm = 0.0
    reference = _log_overlap(kets, bras, chi, seed)[1]
    for turned, multiplicity in _turns(kets, magnetisation):
        phase, log_abs = _log_overlap(turned, bras, chi, seed)
        weight = multiplicity * phase * math.exp(log_abs - reference)
        if abs(weight) < _NEGLIGIBLE:
            continue
        if chi is None:
            value = sum(_exact_values(turned, bras, strings))
        else:
            value = sum(_values(turned, bras, strings, chi, seed))
        total += (weight * value).real
        norm += weight.real
    return float(total / norm)


def log_amplitude(
    tensors: Sequence[Array], shape: tuple[int, int], configs: Array
) -> tuple[Array, Array]:
    """Give psi(s) exactly as (phase (B,), ln|psi| (B,)) for configurations (B, N).

    Costs N D^(n_cols + 3) operations and D^(n_cols + 1) numbers per configuration.

    Raises:
        ValueError: the number of tensors does not fit the shape.
    """
    configs = np.asarray(configs)
    layer = [
        [tensor[configs[:, r * shape[1] + c]] for c, tensor in enumerate(row)]
        for r, row in enumerate(_grid(tensors, shape))
    ]
    return _contract_exactly(layer)


def _grid(tensors: Sequence[Array], shape: tuple[int, int]) -> Grid:
    n_rows, n_cols = shape
    if len(tensors) != n_rows * n_cols:
        raise ValueError(
            f"double layer: {len(tensors)} tensors do not fill {n_rows} rows of {n_cols} sites; "
            "give one array (d, up, left, down, right) per site, row by row"
        )
    return [[np.asarray(tensors[r * n_cols + c]) for c in range(n_cols)] for r in range(n_rows)]


def _conjugated(grid: Grid) -> Grid:
    return [[tensor.conj() for tensor in row] for row in grid]


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


def _turns(kets: Grid, magnetisation: int | None) -> Iterator[tuple[Grid, int]]:
    """Turned states whose sum is the projection on a sector, up to complex conjugation.

    Yields (state, multiplicity): real parts of overlaps with real states come in equal pairs,
    and for a Hermitian operator those with complex states do so too.
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
    wanted = (largest - magnetisation) / 2 / n_sites  # mean local state
    for m in range(largest // 2 + 1):
        angle = 2 * math.pi * m / (largest + 1)
        turn = np.diag(np.exp(1j * angle * (np.arange(d) - wanted)))
        turned = [[np.tensordot(turn, ket, (1, 0)) for ket in row] for row in kets]
        yield (turned, 2) if m else (kets, 1)
    if largest % 2:
        turn = np.diag(np.exp(1j * math.pi * (np.arange(d) - wanted)))
        del turn


# --- exactly -------------------------------------------------------------------------------
