"""Norm and expectation values of a PEPS without sampling, and amplitudes without truncation.

Three of the four contractions that one can do with a PEPS:

(a) <psi|psi> exactly, row by row: `chi=None`, memory D^(2 n_cols);
(b) <psi|psi> with a boundary MPO of bond dimension `chi` on the double layer;
(c) psi(s) exactly at fixed spins: `log_amplitude`, memory D^n_cols.

The fourth, psi(s) with a boundary MPS, is what sampling uses and lives with the ansatz.  These
three serve as references and for the energies of starting states; nothing here is batched over
walkers except (c), and nothing is differentiated.

Site tensors are (d, up, left, down, right) with rim legs of size 1, sites in row-major order.
Boundary tensors are (left, ket, bra, right), columns left to right.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import opt_einsum

if TYPE_CHECKING:
    from tnvmc.operators.term import Operator

Array = Any
Rows = list[list[Array]]  # tensors by row and column


def log_norm(
    tensors: Sequence[Array], shape: tuple[int, int], *, chi: int | None = None, seed: int = 0
) -> float:
    """Give ln <psi|psi>.

    With `chi=None` exactly, at a cost of N D^(2 n_cols + 4) operations and D^(2 n_cols + 2)
    numbers of memory; else with a boundary MPO compressed by successive randomised compression
    (Camano, Epperly and Tropp 2025; the sketch is drawn from `seed`), chi^3 D^4 per site.
    """
    kets = _rows(tensors, shape)
    if chi is None:
        layer = [[_double(t, t)[None] for t in row] for row in kets]
        phase, log_abs = _contract_exactly(layer)
        return float(log_abs[0])
    below = _boundaries(kets, chi, seed, from_below=True)[0]
    value = below.tensors[0]
    for t in below.tensors[1:]:
        value = np.tensordot(value, t, (3, 0)).reshape(1, 1, 1, -1)
    return math.log(abs(value.item())) + below.log_scale


def expectation(
    tensors: Sequence[Array], operator: Operator, *, chi: int | None = None, seed: int = 0
) -> float:
    """Give <psi|H|psi> / <psi|psi>, in the operator's units (total, not per site).

    Each term is written as a sum of products of one-site matrices.  `chi=None` contracts the
    whole double layer exactly once per product (small lattices only); otherwise the rows that a
    term touches are contracted exactly between boundary MPOs of bond dimension `chi`, which
    costs chi^2 D^(2 h + 2) (chi + D^2 d) per column for a term that is h rows high.
    """
    shape = operator.lattice.shape
    kets = _rows(tensors, shape)
    d = operator.local_dim
    strings = [
        dict(zip(term.sites, ops, strict=True))
        for term in operator.terms
        for ops in _products(np.asarray(term.matrix), d)
    ]
    values = _expect_exactly(kets, strings) if chi is None else _expect(kets, strings, chi, seed)
    return float(np.real(sum(values)))


def log_amplitude(
    tensors: Sequence[Array], shape: tuple[int, int], configs: Array
) -> tuple[Array, Array]:
    """Give psi(s) exactly as (phase (B,), ln|psi| (B,)) for configurations (B, N).

    Costs N D^(n_cols + 2) operations and D^(n_cols + 1) numbers per configuration.
    """
    configs = np.asarray(configs)
    n_cols = shape[1]
    layer = [
        [t[configs[:, r * n_cols + c]] for c, t in enumerate(row)]
        for r, row in enumerate(_rows(tensors, shape))
    ]
    return _contract_exactly(layer)


# --- exactly -------------------------------------------------------------------------------


def _rows(tensors: Sequence[Array], shape: tuple[int, int]) -> Rows:
    n_rows, n_cols = shape
    if len(tensors) != n_rows * n_cols:
        raise ValueError(
            f"{len(tensors)} tensors do not fill a {n_rows} x {n_cols} lattice; "
            "give one array (d, up, left, down, right) per site, row by row"
        )
    return [[np.asarray(tensors[r * n_cols + c]) for c in range(n_cols)] for r in range(n_rows)]


def _double(ket: Array, bra: Array) -> Array:
    """Sum over the physical leg: (u, l, d, r) with ket and bra legs fused pairwise."""
    x = np.tensordot(ket, bra.conj(), (0, 0)).transpose(0, 4, 1, 5, 2, 6, 3, 7)
    return x.reshape([x.shape[i] * x.shape[i + 1] for i in range(0, 8, 2)])


def _contract_exactly(layer: Rows) -> tuple[Array, Array]:
    """Contract (B, u, l, d, r) tensors, carrying all vertical legs of a row as one vector.

    The vector's legs are kept as (horizontal, this column's, later columns', earlier columns'),
    so that every site is one matrix product.
    """
    batch = layer[0][0].shape[0]
    vector = np.ones((batch, 1, 1))
    log_abs = np.zeros(batch)
    for row in layer:
        for t in row:
            _, u, l, d, r = t.shape
            matrix = t.transpose(0, 4, 3, 2, 1).reshape(batch, r * d, l * u)
            vector = matrix @ vector.reshape(batch, l * u, -1)
            vector = vector.reshape(batch, r, d, -1).swapaxes(2, 3)
            scale = np.abs(vector).max(axis=(1, 2, 3))
            scale = np.where(scale > 0, scale, 1.0)
            vector = vector / scale[:, None, None, None]
            log_abs = log_abs + np.log(scale)
    value = vector.reshape(batch)
    modulus = np.abs(value)
    phase = np.divide(value, modulus, out=np.zeros_like(value), where=modulus > 0)
    return phase, log_abs + np.log(modulus, out=np.full(batch, -np.inf), where=modulus > 0)


def _products(matrix: Array, d: int) -> Iterator[tuple[Array, ...]]:
    """Write a (d^k, d^k) matrix as a sum of products of k matrices (d, d)."""
    rest = matrix.shape[0] // d
    if rest == 1:
        yield (matrix,)
        return
    x = matrix.reshape(d, rest, d, rest).transpose(0, 2, 1, 3).reshape(d * d, rest * rest)
    u, s, v = np.linalg.svd(x, full_matrices=False)
    for m in np.flatnonzero(s > 1e-14 * max(s[0], 1e-300)):
        for tail in _products(s[m] * v[m].reshape(rest, rest), d):
            yield (u[:, m].reshape(d, d), *tail)


def _act(matrix: Array, ket: Array) -> Array:
    return np.tensordot(matrix, ket, (1, 0))


def _expect_exactly(kets: Rows, strings: list[dict[int, Array]]) -> Iterator[complex]:
    n_cols = len(kets[0])
    layer = [[_double(t, t)[None] for t in row] for row in kets]
    _, log_norm_ = _contract_exactly(layer)
    for string in strings:
        changed = [list(row) for row in layer]
        for site, matrix in string.items():
            r, c = divmod(site, n_cols)
            changed[r][c] = _double(_act(matrix, kets[r][c]), kets[r][c])[None]
        phase, log_abs = _contract_exactly(changed)
        yield complex(phase[0] * np.exp(log_abs[0] - log_norm_[0]))


# --- with a boundary MPO -------------------------------------------------------------------


@dataclass(frozen=True)
class _Boundary:
    tensors: list[Array]  # (left, ket, bra, right) by column
    log_scale: float


def _boundaries(kets: Rows, chi: int, seed: int, *, from_below: bool = False) -> list[_Boundary]:
    """Boundary MPOs: entry r holds the rows above r (or, from below, r and all rows beneath)."""
    dtype = np.result_type(*[t.dtype for row in kets for t in row])
    out = [_Boundary([np.ones((1, 1, 1, 1), dtype) for _ in kets[0]], 0.0)]
    rng = np.random.default_rng(seed)
    for row in reversed(kets) if from_below else kets:
        facing = [t.swapaxes(1, 3) for t in row] if from_below else row
        out.append(_absorb(out[-1], facing, chi, rng))
    return out[::-1] if from_below else out


def _absorb(above: _Boundary, row: list[Array], chi: int, rng: np.random.Generator) -> _Boundary:
    """Absorb a row and compress (successive randomised compression)."""
    sketches: list[Array] = [np.ones((1, 1, 1, 1))]  # (boundary bond, ket, bra, chi), right to left
    for t, ket in zip(above.tensors[:0:-1], row[:0:-1], strict=True):
        down = ket.shape[3]
        omega = rng.standard_normal((down, down, chi))
        x = np.tensordot(t, sketches[-1], (3, 0))  # l k b p q K
        x = np.tensordot(x, ket, ((1, 3), (1, 4)))  # l b q K s x m
        x = np.tensordot(x, ket.conj(), ((1, 2, 4), (1, 4, 0)))  # l K x m y n
        x = (
            np.einsum(
                "lKxmyn,mnK->lxyK",
                x,
                np.broadcast_to(omega, (down, down, x.shape[1])) if x.shape[1] == chi else omega,
            )
            if x.shape[1] == chi
            else np.einsum("lkxmyn,mnK->lxyK", x, omega)
        )
        sketches.append(x / np.abs(x).max())
    sketches.reverse()
    carry = np.ones((1, 1, 1, 1))  # (new bond, old bond, ket, bra)
    tensors = []
    log_scale = above.log_scale
    for c, (t, ket) in enumerate(zip(above.tensors, row, strict=True)):
        x = np.tensordot(carry, t, (1, 0))  # a x y k b r
        x = np.tensordot(x, ket, ((1, 3), (2, 1)))  # a y b r s m p
        x = np.tensordot(x, ket.conj(), ((1, 2, 4), (2, 1, 0)))  # a r m p n q
        x = x.transpose(0, 2, 4, 1, 3, 5)  # a m n | r p q
        rest = x.shape[3:]
        x = x.reshape(-1, math.prod(rest))
        if c == len(row) - 1:
            q, new = x, np.ones((1, 1))
        else:
            s = sketches[c].reshape(-1, sketches[c].shape[-1])
            q, _ = np.linalg.qr(x if x.shape[1] <= chi else x @ s)
            new = q.conj().T @ x
        scale = float(np.abs(new).max()) if c < len(row) - 1 else float(np.abs(q).max())
        if c == len(row) - 1:
            q = q / scale
        else:
            new = new / scale
        log_scale += math.log(scale)
        down = ket.shape[3]
        tensors.append(q.reshape(-1, down, down, q.shape[1]))
        carry = new.reshape(-1, *rest)
    return _Boundary(tensors, log_scale)


def _expect(kets: Rows, strings: list[dict[int, Array]], chi: int, seed: int) -> Iterator[complex]:
    n_cols = len(kets[0])
    above = _boundaries(kets, chi, seed)
    below = _boundaries(kets, chi, seed + 1, from_below=True)
    by_rows: dict[tuple[int, int], list[Mapping[int, Array]]] = defaultdict(list)
    for string in strings:
        rows = [site // n_cols for site in string]
        by_rows[min(rows), max(rows)].append(string)
    for (r0, r1), members in by_rows.items():
        columns = [
            (
                above[r0].tensors[c],
                [kets[r][c] for r in range(r0, r1 + 1)],
                below[r1 + 1].tensors[c],
            )
            for c in range(n_cols)
        ]
        lefts = _environments(columns)
        rights = _environments([_mirror(col) for col in reversed(columns)])[::-1]
        for string in members:
            cols = [site % n_cols for site in string]
            x = lefts[min(cols)]
            y = lefts[min(cols)]
            for c in range(min(cols), max(cols) + 1):
                top, ket, bottom = columns[c]
                new = list(ket)
                for site, matrix in string.items():
                    if site % n_cols == c:
                        new[site // n_cols - r0] = _act(matrix, new[site // n_cols - r0])
                x = _step(x, top, new, ket, bottom)
                y = _step(y, top, ket, ket, bottom)
            yield complex(
                np.vdot(rights[max(cols)].conj(), x) / np.vdot(rights[max(cols)].conj(), y)
            )


def _mirror(column):
    top, kets, bottom = column
    return (
        top.swapaxes(0, 3),
        [t.swapaxes(2, 4) for t in kets],
        bottom.swapaxes(0, 3),
    )


def _environments(columns):
    """entry c: all columns before c. (normalised)"""
    h = len(columns[0][1])
    out = [np.ones([1] * (2 * h + 2))]
    for top, kets, bottom in columns[:-1]:
        x = _step(out[-1], top, kets, kets, bottom)
        out.append(x / np.abs(x).max())
    return out


def _step(env, top, kets, bras, bottom):
    """(top, ket, bra, ket, bra, ..., bottom) -> same, one column further."""
    h = len(kets)
    fresh = iter(range(1000))
    left = [next(fresh) for _ in range(2 * h + 2)]
    right = [next(fresh) for _ in range(2 * h + 2)]
    k, b = next(fresh), next(fresh)
    args = [env, left, top, [left[0], k, b, right[0]]]
    for i, (ket, bra) in enumerate(zip(kets, bras, strict=True)):
        s, k2, b2 = next(fresh), next(fresh), next(fresh)
        args += [ket, [s, k, left[1 + 2 * i], k2, right[1 + 2 * i]]]
        args += [bra.conj(), [s, b, left[2 + 2 * i], b2, right[2 + 2 * i]]]
        k, b = k2, b2
    args += [bottom, [left[-1], k, b, right[-1]]]
    return opt_einsum.contract(*args, right)
