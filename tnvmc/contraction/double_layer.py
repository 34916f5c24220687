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
    """Yield states turned about z that add up to the projection on a sector, and how often.

    Turns by opposite angles have conjugate overlaps, so one of each two is left out.
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
    n_turns = largest + 1
    for m in range(n_turns // 2 + 1):
        angles = 2 * math.pi * m / n_turns * (np.arange(d) - mean_state)
        turn = np.diag(np.exp(1j * angles)) if m else np.eye(d)
        turned = [[np.tensordot(turn, ket, (1, 0)) for ket in row] for row in kets]
        yield turned, 1 if 2 * m % n_turns == 0 else 2


def _log_overlap(kets: Grid, bras: Grid, chi: int | None, seed: int) -> tuple[complex, float]:
    """Phase and ln|.| of sum_s ket(s) bra(s)."""
    if chi is None:
        phases, logs = _contract_exactly(_double(kets, bras))
        return complex(phases[0]), float(logs[0])
    everything = _boundaries(kets, bras, chi, seed, from_below=True)[0]
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
    return [
        [_fused(np.tensordot(ket, bra, (0, 0))) for ket, bra in zip(*rows, strict=True)]
        for rows in zip(kets, bras, strict=True)
    ]


def _fused(x: Array) -> Array:
    x = x.transpose(0, 4, 1, 5, 2, 6, 3, 7)
    return x.reshape(1, *(x.shape[i] * x.shape[i + 1] for i in range(0, 8, 2)))


def _contract_exactly(layer: Grid) -> tuple[Array, Array]:
    """Contract a grid of tensors (B, u, l, d, r): phases and ln|.|, both (B,).

    The open legs are kept as one vector, ordered (horizontal leg, vertical legs of this column,
    of later ones, of earlier ones), so that each site is one matrix product.
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
    phases = np.divide(values, modulus, out=np.zeros_like(values), where=modulus > 0)
    return phases, logs + np.log(modulus, out=np.full(batch, -np.inf), where=modulus > 0)


def _exact_values(kets: Grid, bras: Grid, strings: Sequence[String]) -> Iterator[complex]:
    """Expectation values of products of one-site matrices, each by a full contraction."""
    phase, log_abs = _log_overlap(kets, bras, None, 0)
    for string in strings:
        phase_string, log_string = _log_overlap(_acted_on(kets, string), bras, None, 0)
        if phase_string:
            yield phase_string / phase * math.exp(log_string - log_abs)


# --- with boundary MPOs --------------------------------------------------------------------


@dataclass(frozen=True)
class _Boundary:
    """A boundary MPO: tensors (left, ket, bra, right) by column, times exp(log_scale)."""

    tensors: list[Array]
    log_scale: float


def _boundaries(
    kets: Grid, bras: Grid, chi: int, seed: int, *, from_below: bool = False
) -> list[_Boundary]:
    """Entry r holds the rows above r; from below, r and all rows beneath it."""
    rng = np.random.Generator(np.random.PCG64(seed))
    found = [_Boundary([np.ones((1, 1, 1, 1))] * len(kets[0]), 0.0)]
    for row_kets, row_bras in list(zip(kets, bras, strict=True))[:: -1 if from_below else 1]:
        row = list(zip(row_kets, row_bras, strict=True))
        if from_below:
            row = [(ket.swapaxes(1, 3), bra.swapaxes(1, 3)) for ket, bra in row]
        found.append(_absorb(found[-1], row, chi, rng))
    return found[::-1] if from_below else found


def _absorb(
    above: _Boundary, row: list[tuple[Array, Array]], chi: int, rng: np.random.Generator
) -> _Boundary:
    """Absorb a row (ket, bra) from above by successive randomised compression."""
    sketches = _sketches(above, row, chi, rng)
    carry = np.ones((1, 1, 1, 1))  # (new bond, old bond, ket, bra): what is left of earlier columns
    tensors, log_scale = [], above.log_scale
    for tensor, (ket, bra), sketch in zip(above.tensors, row, sketches, strict=True):
        x = np.tensordot(carry, tensor, (1, 0))  # new, left ket, left bra, up ket, up bra, old
        x = np.tensordot(x, ket, ((1, 3), (2, 1)))  # new, left bra, up bra, old, spin, down, right
        x = np.tensordot(x, bra, ((1, 2, 4), (2, 1, 0)))  # new, old, ket: down, right, bra: same
        x = x.transpose(0, 2, 4, 1, 3, 5)
        down, bond = x.shape[1], x.shape[3:]
        x = x.reshape(x.shape[0] * down**2, math.prod(bond))
        basis, _ = np.linalg.qr(x if x.shape[1] <= chi else x @ sketch)
        tensors.append(basis.reshape(-1, down, down, basis.shape[1]))
        carry = basis.conj().T @ x
        size = float(np.abs(carry).max()) or 1.0
        carry = carry.reshape(-1, *bond) / size
        log_scale += math.log(size)
    tensors[-1] = tensors[-1] * carry.item()  # a sign or a phase
    return _Boundary(tensors, log_scale)


def _sketches(
    above: _Boundary, row: list[tuple[Array, Array]], chi: int, rng: np.random.Generator
) -> list[Array]:
    """Random projections (old bond * ket * bra, chi) of all that is right of each column."""
    sketch = np.ones((1, 1, 1, chi))  # old bond, ket, bra, chi
    found = [sketch.reshape(-1, chi)]
    for tensor, (ket, bra) in list(zip(above.tensors, row, strict=True))[:0:-1]:
        x = np.tensordot(tensor, sketch, (3, 0))  # left, up ket, up bra, right ket, right bra, chi
        x = np.tensordot(x, ket, ((1, 3), (1, 4)))  # left, up bra, right bra, chi, spin, left, down
        x = np.tensordot(x, bra, ((1, 2, 4), (1, 4, 0)))  # left, chi, ket: left, down, bra: same
        random = rng.standard_normal((ket.shape[3], bra.shape[3], chi))
        sketch = np.einsum("xclmko,moc->xlkc", x, random, optimize=True)
        sketch = sketch / (np.abs(sketch).max() or 1.0)
        found.append(sketch.reshape(-1, chi))
    return found[::-1]


@dataclass(frozen=True)
class _Column:
    """One column of a strip of h rows between two boundaries."""

    above: Array
    kets: list[Array]
    bras: list[Array]
    below: Array

    def mirrored(self) -> _Column:
        """The column as seen from the right."""
        return _Column(
            self.above.swapaxes(0, 3),
            [tensor.swapaxes(2, 4) for tensor in self.kets],
            [tensor.swapaxes(2, 4) for tensor in self.bras],
            self.below.swapaxes(0, 3),
        )

    def moved(self, environment: Array) -> Array:
        """Take an environment (above, ket, bra, ket, bra, ..., below) across the column."""
        x = np.tensordot(environment, self.above.transpose(0, 3, 1, 2), (0, 0))
        # axes: legs of the rows to come, below, above', legs of the rows done, up ket, up bra
        for ket, bra in zip(self.kets, self.bras, strict=True):
            x = np.tensordot(x, ket, ((0, -2), (2, 1)))
            x = np.tensordot(x, bra, ((0, -4, -3), (2, 1, 0)))
            x = x.swapaxes(-4, -3)  # right ket, down ket, down bra, right bra
            x = np.moveaxis(x, -1, -3)
        n_rows = len(self.kets)
        x = np.tensordot(x, self.below, ((0, 2 * n_rows + 2, 2 * n_rows + 3), (0, 1, 2)))
        return x


def _values(
    kets: Grid, bras: Grid, strings: Sequence[String], chi: int, seed: int
) -> Iterator[complex]:
    """Expectation values of products of one-site matrices, between boundary MPOs."""
    n_cols = len(kets[0])
    above = _boundaries(kets, bras, chi, seed)
    below = _boundaries(kets, bras, chi, seed + 1, from_below=True)
    by_rows: dict[tuple[int, int], list[String]] = defaultdict(list)
    for string in strings:
        by_rows[min(string) // n_cols, max(string) // n_cols].append(string)
    for (first, last), members in by_rows.items():
        rows = range(first, last + 1)

        def column(c: int, grid: Grid, rows: range = rows) -> _Column:
            return _Column(
                above[rows[0]].tensors[c],
                [grid[r][c] for r in rows],
                [bras[r][c] for r in rows],
                below[rows[-1] + 1].tensors[c],
            )

        columns = [column(c, kets) for c in range(n_cols)]
        lefts = _environments(columns)
        rights = _environments([each.mirrored() for each in columns[::-1]])[::-1]
        for string in members:
            changed = _acted_on(kets, string)
            begin = min(site % n_cols for site in string)
            end = max(site % n_cols for site in string)
            x = y = lefts[begin]
            for c in range(begin, end + 1):
                x, y = column(c, changed).moved(x), columns[c].moved(y)
            yield complex((x * rights[end]).sum() / (y * rights[end]).sum())


def _environments(columns: list[_Column]) -> list[Array]:
    """Entry c: the columns left of c, scaled to largest entry 1."""
    found = [np.ones([1] * (2 * len(columns[0].kets) + 2))]
    for column in columns[:-1]:
        x = column.moved(found[-1])
        found.append(x / (np.abs(x).max() or 1.0))
    return found
