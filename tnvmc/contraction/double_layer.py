"""Boundary MPOs of the double layer; norms of a PEPS, and amplitudes without truncation.

Three of the four contractions that one can do with a PEPS: (a) <psi|psi> exactly, `log_norm(...)`,
carrying a vector of D^(2 n_cols) numbers down the rows; (b) <psi|psi> with boundary MPOs on the
double layer, `log_norm(..., chi=chi)`; (c) psi(s) exactly at fixed spins, `log_amplitude`, carrying
a vector of D^n_cols numbers.  The fourth, psi(s) with boundary MPS, is what sampling uses; it lives
with the ansatz.  Energies are in `double_expectation.py`.

Entry r of `double_boundaries` is <psi|psi> of the rows r, r+1, ... with the legs above row r open
on both layers, as an MPO of bond `chi`.  It is made once per theta and serves all walkers.

A row is absorbed from right to left, which leaves behind, beside the new MPO, how its bonds sit in
the uncut ones::

    columns c, c+1, ... of (row r over boundary r+1)  =  expansions[c] @ (the same of boundary r)

so the far side of a cut may be read from the narrow new boundary while the near side still
resolves the row.

Letters of the contractions::

    below  m p q n      (left, ket, bra, right)
    ket    s u k p l    (spin, up, left, down, right)
    bra    s w b q r
    x                   the new bond, or the column of a sketch
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tnvmc.backend.linalg import contract

Array = Any
Grid = list[list[Array]]
"""Tensors (d, up, left, down, right) by row and column."""

_EDGE = np.ones((1, 1, 1, 1))


@dataclass(frozen=True)
class DoubleBoundary:
    """All rows from one on downward, ket and bra: exp(log_scale) times the product of `tensors`.

    `tensors[c]` is (left, ket, bra, right).  `expansions[c]` is (old, ket, bra, new), up to a
    factor: the bonds left of column c before the row was absorbed (boundary below, row ket, row
    bra), and after.
    """

    tensors: list[Array]
    expansions: list[Array]
    log_scale: float


@dataclass(frozen=True)
class _Compression:
    """How bonds are cut: a sketch of `width` finds the range, singular values cut it to `chi`."""

    chi: int
    width: int
    rng: np.random.Generator


def double_boundaries(
    tensors: Sequence[Array], shape: tuple[int, int], chi: int, seed: int = 0, *,
    oversampling: int = 2,
) -> list[DoubleBoundary]:  # fmt: skip
    """Give the boundaries of <psi|psi> from below, for direct draws and norms, a row at a time.

    Rows of tensors (d, up, left, down, right) are absorbed by successive randomised compression
    (Camano, Epperly and Tropp 2025) with random sketches of width w = `oversampling` chi, then cut
    to chi by singular values: exact where no bond exceeds chi.  Entry r is that of the rows r, r+1,
    ... for r = 0 .. n_rows; the last one is empty.  Cost per site: chi w^2 D^4 + 2 d chi w D^6, a
    QR of (w, chi D^2), and an SVD of (chi D^2, w) where w exceeds chi.

    Raises:
        ValueError: chi below 1; the number of tensors does not fit the shape.
    """
    if chi < 1:
        raise ValueError(f"double layer: chi must be at least 1, got {chi}")
    cut = _Compression(chi, oversampling * chi, np.random.Generator(np.random.PCG64(seed)))
    n_cols = shape[1]
    found = [DoubleBoundary([_EDGE] * n_cols, [_EDGE] * (n_cols + 1), 0.0)]
    for row in reversed(grid_of(tensors, shape)):
        found.append(_absorb(found[-1], row, cut))
    return found[::-1]


def grid_of(tensors: Sequence[Array], shape: tuple[int, int]) -> Grid:
    """Sort tensors by row and column; ValueError if their number does not fit the shape."""
    n_rows, n_cols = shape
    if len(tensors) != n_rows * n_cols:
        raise ValueError(
            f"double layer: {len(tensors)} tensors do not fill {n_rows} rows of {n_cols} sites; "
            "give one array (d, up, left, down, right) per site, row by row"
        )
    return [[np.asarray(tensors[r * n_cols + c]) for c in range(n_cols)] for r in range(n_rows)]


def scaled(tensor: Array) -> tuple[Array, float]:
    """Scale an array to largest modulus 1; give it with the log of its scale (0 if all zeros)."""
    size = float(np.abs(tensor).max()) or 1.0
    return tensor / size, math.log(size)


def _absorb(below: DoubleBoundary, kets: list[Array], cut: _Compression) -> DoubleBoundary:
    """Find the range of each bond from right to left, then cut it from left to right."""
    log_scale = below.log_scale
    row = []
    for tensor, site in zip(below.tensors, kets, strict=True):
        ket, log = scaled(site)
        log_scale += 2 * log
        row.append((ket.conj(), ket, tensor))
    sketches = _sketches(row, cut)
    carry = _EDGE  # (old, ket, bra, new): what is left of later columns
    wide, carries = [], [carry]
    for column, sketch in zip(reversed(row), reversed(sketches), strict=True):
        x = contract("swbqr,sukpl,mpqn,nlrx->mkbuwx", *column, carry)
        bond, legs = x.shape[:3], x.shape[3:]
        matrix = x.reshape(math.prod(bond), math.prod(legs))
        basis = _row_space(matrix, sketch)
        wide.append(basis.conj().T.reshape(-1, *legs))
        carry, log = scaled((matrix @ basis).reshape(*bond, -1))
        log_scale += log
        carries.append(carry)
    return _cut(wide[::-1], carries[::-1], cut.chi, log_scale)


def _row_space(matrix: Array, sketch: Array) -> Array:
    """An orthonormal basis, as columns, of the rows of `matrix`, or of those of sketch^T matrix."""
    n_rows, n_legs = matrix.shape
    if n_legs <= min(n_rows, sketch.shape[1]):
        return np.eye(n_legs)
    rows = matrix if n_rows <= sketch.shape[1] else sketch.T @ matrix
    return np.linalg.qr(rows.conj().T)[0]


def _cut(wide: list[Array], carries: list[Array], chi: int, log_scale: float) -> DoubleBoundary:
    """Keep the chi largest singular values of every bond; `wide` is isometric to the right."""
    wide[0] = wide[0] * carries[0].item()  # a sign or a phase
    if max(tensor.shape[3] for tensor in wide) <= chi:
        return DoubleBoundary(wide, [_EDGE, *carries[1:]], log_scale)
    kept = [np.ones((1, 1))]  # rows: what is kept of each wide bond
    left = np.ones((1, 1))
    for tensor in wide[:-1]:
        x = np.tensordot(left @ kept[-1], tensor, (1, 0)).reshape(-1, tensor.shape[3])
        rows = np.eye(x.shape[1])
        if x.shape[1] > chi:
            rows = np.linalg.svd(x, full_matrices=False)[2][:chi]
        left = scaled(np.linalg.qr(x @ rows.conj().T)[1])[0]
        kept.append(rows)
    kept.append(np.ones((1, 1)))
    tensors = []
    for tensor, before, after in zip(wide, kept[:-1], kept[1:], strict=True):
        tensor, log = scaled(contract("yx,xuwz,vz->yuwv", before, tensor, after.conj()))
        log_scale += log
        tensors.append(tensor)
    expansions = [_EDGE] + [
        np.tensordot(carry, rows.conj(), (3, 1))
        for carry, rows in zip(carries[1:], kept[1:], strict=True)
    ]
    return DoubleBoundary(tensors, expansions, log_scale)


def _sketches(row: list[tuple[Array, Array, Array]], cut: _Compression) -> list[Array]:
    """Random projections (old * ket * bra, width) of all that is left of each column."""
    widest = max(tensor.shape[3] * ket.shape[4] * bra.shape[4] for bra, ket, tensor in row)
    width = min(cut.width, widest)
    sketch = np.ones((1, 1, 1, width))
    found = [sketch.reshape(-1, width)]
    for bra, ket, tensor in row[:-1]:
        x = contract("swbqr,sukpl,mpqn,mkbx->nlruwx", bra, ket, tensor, sketch)
        random = cut.rng.standard_normal((ket.shape[1], bra.shape[1], width))
        sketch = scaled((x * random).sum(axis=(3, 4)))[0]
        found.append(sketch.reshape(-1, width))
    return found


# --- norms and amplitudes


def log_norm(
    tensors: Sequence[Array], shape: tuple[int, int], *, chi: int | None = None, seed: int = 0
) -> float:
    """Give ln <psi|psi> of tensors (d, up, left, down, right), row by row.

    `chi` is the bond of the boundary MPOs; None for the exact norm.  Cost: exactly N D^(2 n_cols +
    6) operations and D^(2 n_cols + 2) numbers; with chi chi^3 D^4 + 2 d chi^2 D^6 operations a site
    (source: `double_boundaries`).

    Raises:
        ValueError: the number of tensors does not fit the shape.
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
    """Give psi(s) exactly at configurations (B, N): phases and ln|psi|.

    These are 0 and -inf where psi vanishes.  Tensors are (d, up, left, down, right), row by row.
    Cost per configuration: N D^(n_cols + 3) operations and D^(n_cols + 1) numbers.

    Raises:
        ValueError: the number of tensors does not fit the shape.
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
