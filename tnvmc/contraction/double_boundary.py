"""Boundary MPOs of the double layer from below: what rows not yet drawn say about one above them.

Entry r of `double_boundaries` is <psi|psi> of the rows r, r+1, ... with the legs above row r open
on both layers, as an MPO of bond `chi`.  It is made once per theta and serves all walkers.

A row is absorbed from right to left, which leaves behind, beside the new MPO, how its bonds sit in
the uncut ones::

    columns c, c+1, ... of (row r over boundary r+1)  =  expansions[c] @ (the same of boundary r)

so the far side of a cut may be read from the narrow new boundary while the near side still
resolves the row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any

_OVERSAMPLING = 2
"""Width of the sketch in units of chi; what is too much is cut by singular values."""


@dataclass(frozen=True)
class DoubleBoundary:
    """All rows from one on downward, ket and bra, up to a factor.

    `tensors[c]` is (left, ket, bra, right).  `expansions[c]` is (old, ket, bra, new): the bonds
    left of column c before the row was absorbed (boundary below, row ket, row bra), and after.
    """

    tensors: list[Array]
    expansions: list[Array]


def double_boundaries(
    tensors: Sequence[Array], shape: tuple[int, int], chi: int, seed: int = 0
) -> list[DoubleBoundary]:
    """Give the boundary of the rows r, r+1, ... for r = 0 .. n_rows; the last one is empty.

    Site tensors are NumPy arrays (d, up, left, down, right), row by row.  Rows are absorbed by
    successive randomised compression (Camano, Epperly and Tropp 2025) with sketches of width
    2 chi drawn from `seed`, then cut to chi by singular values.  Exact where no bond exceeds chi.
    Cost per site: 2 chi^3 D^4 + 4 d chi^2 D^6, and an SVD of (chi D^2, 2 chi).

    Raises:
        ValueError: chi below 1; the number of tensors does not fit the shape.
    """
    n_rows, n_cols = shape
    if chi < 1:
        raise ValueError(f"double_boundaries: chi must be at least 1, got {chi}")
    if len(tensors) != n_rows * n_cols:
        raise ValueError(
            f"double_boundaries: {len(tensors)} tensors do not fill {n_rows} rows of {n_cols} "
            "sites; give one array (d, up, left, down, right) per site, row by row"
        )
    rng = np.random.Generator(np.random.PCG64(seed))
    empty = np.ones((1, 1, 1, 1))
    found = [DoubleBoundary([empty] * n_cols, [empty] * (n_cols + 1))]
    for row in reversed(range(n_rows)):
        kets = [scaled(ket) for ket in tensors[row * n_cols : (row + 1) * n_cols]]
        found.append(_absorb(found[-1].tensors, kets, chi, rng))
    return found[::-1]


def scaled(tensor: Array) -> Array:
    """Scale an array to largest modulus 1; one of zeros stays as it is."""
    return tensor / (float(np.abs(tensor).max()) or 1.0)


def _absorb(
    below: list[Array], kets: list[Array], chi: int, rng: np.random.Generator
) -> DoubleBoundary:
    """Find the range of each bond from right to left, then cut it from left to right."""
    widest = max(
        tensor.shape[3] * ket.shape[4] ** 2 for tensor, ket in zip(below, kets, strict=True)
    )
    sketches = _sketches(below, kets, min(_OVERSAMPLING * chi, widest), rng)
    carry = np.ones((1, 1, 1, 1))  # (old, ket, bra, new): what is left of later columns
    wide, carries = [], [carry]
    for column in reversed(range(len(kets))):
        x = _opened(below[column], kets[column], carry)
        bond, legs = x.shape[:3], x.shape[3:]
        matrix = x.reshape(math.prod(bond), math.prod(legs))
        basis = _row_space(matrix, sketches[column])
        wide.append(basis.conj().T.reshape(-1, *legs))
        carry = scaled((matrix @ basis).reshape(*bond, -1))
        carries.append(carry)
    return _cut(wide[::-1], carries[::-1], chi)


def _row_space(matrix: Array, sketch: Array) -> Array:
    """An orthonormal basis, as columns, of the rows of `matrix` that the sketch sees."""
    n_rows, n_legs = matrix.shape
    if n_legs <= min(n_rows, sketch.shape[1]):
        return np.eye(n_legs)
    seen = matrix if n_rows <= sketch.shape[1] else sketch.T @ matrix
    return np.linalg.qr(seen.conj().T)[0]


def _cut(wide: list[Array], carries: list[Array], chi: int) -> DoubleBoundary:
    """Keep the chi largest singular values of every bond; `wide` is isometric to the right."""
    turns = [np.ones((1, 1))]  # from each wide bond to what is kept of it
    left = np.ones((1, 1))
    for tensor in wide[:-1]:
        x = np.tensordot(left @ turns[-1], tensor, (1, 0)).reshape(-1, tensor.shape[3])
        turn = np.eye(x.shape[1])
        if x.shape[1] > chi:
            turn = np.linalg.svd(x, full_matrices=False)[2][:chi]
        left = scaled(np.linalg.qr(x @ turn.conj().T)[1])
        turns.append(turn)
    turns.append(np.ones((1, 1)))
    tensors = [
        scaled(np.tensordot(np.tensordot(turns[c], tensor, (1, 0)), turns[c + 1].conj(), (3, 1)))
        for c, tensor in enumerate(wide)
    ]
    tensors[0] = tensors[0] * carries[0].item()  # a sign or a phase
    expansions = [np.ones((1, 1, 1, 1))] + [
        np.tensordot(carry, turn.conj(), (3, 1))
        for carry, turn in zip(carries[1:], turns[1:], strict=True)
    ]
    return DoubleBoundary(tensors, expansions)


def _opened(below: Array, ket: Array, carry: Array) -> Array:
    """One column with all that is right of it: (old, ket, bra, up ket, up bra, new)."""
    x = np.tensordot(below, carry, (3, 0))  # old, down, down', right, right', new
    x = np.tensordot(ket, x, ((3, 4), (1, 3)))  # spin, up, left, old, down', right', new
    x = np.tensordot(ket.conj(), x, ((0, 3, 4), (0, 4, 5)))  # up', left', up, left, old, new
    return x.transpose(4, 3, 1, 2, 0, 5)


def _sketches(
    below: list[Array], kets: list[Array], rank: int, rng: np.random.Generator
) -> list[Array]:
    """Random projections (old * ket * bra, rank) of all that is left of each column."""
    sketch = np.ones((1, 1, 1, rank))
    found = [sketch.reshape(-1, rank)]
    for tensor, ket in zip(below[:-1], kets[:-1], strict=True):
        x = np.tensordot(sketch, tensor, (0, 0))  # ket, bra, rank, down, down', old
        x = np.tensordot(x, ket, ((0, 3), (2, 3)))  # bra, rank, down', old, spin, up, right
        x = np.tensordot(x, ket.conj(), ((0, 2, 4), (2, 3, 0)))  # rank, old, up, right, up', right'
        random = rng.standard_normal((ket.shape[1], ket.shape[1], rank))
        sketch = scaled(np.einsum("romkvb,mvr->okbr", x, random, optimize=True))
        found.append(sketch.reshape(-1, rank))
    return found
