"""Expectation values of a PEPS by boundary MPS of its double layer: no sampling, no noise.

<psi|H|psi> / <psi|psi> of all terms of H together, between boundaries of bond chi (Verstraete and
Cirac, cond-mat/0407066; Lubasch, Cirac and Banuls, PRB 90, 064425 (2014)).  In a sector of total
Sz the state is projected first::

    P_M = 1/K sum_m exp(i phi_m (sum_j s_j - n)),    phi_m = 2 pi m / K,    K = N (d - 1) + 1

with n the sum of local states in the sector.  Every angle is one element of a batch, and opposite
ones are conjugate.  The angles get an imaginary part tau, where <exp(tau (sum_j s_j - n))> is
smallest: it leaves the sum as it is and makes the sector large in it, so that no digits are lost
where it is rare in psi.  <R> at all angles costs little and tells the share of every sector; where
those K' apart have none, K' angles are enough for the rest.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from tnvmc.backend.linalg import split_scale
from tnvmc.contraction.double_closures import Closed, DoubleNetwork, close_strip, closures
from tnvmc.contraction.double_layer import Grid, grid_of
from tnvmc.contraction.double_terms import StripTerms, View, views
from tnvmc.operators.basis import check_magnetisation
from tnvmc.operators.term import Operator

Array = Any

CHUNK_BYTES = 2**24
"""What the largest arrays of the angles that are contracted together may take, about."""

_EMPTY = 1e-7  # share of a sector of which rounding, 1e-15, would leave too few digits
_CLEAR = 10.0  # shares of noise above which a share is one
_FOREIGN, _MOST_FOREIGN = 1e-9, 1e-4  # share of other sectors, relative to the one wanted
_TILTS = np.linspace(-4.0, 4.0, 9)
_RATE = 2.5e10  # multiplications and additions a second, of one core
_PER_CALL = 1e-4  # seconds that a column takes however small


class EmptySector(ValueError):
    """A norm that is not positive: no component in the sector asked for, or chi too small."""


@dataclass(frozen=True)
class DoubleLayerValue:
    """An expectation value, and what it is worth."""

    value: float  #: total, in the operator's units
    chi: int
    magnetisation: int | None  #: of the sector that psi was projected on
    sector_weight: float | None  #: of that sector in |psi|^2
    closure_spread: float
    """Largest minus smallest ln <psi|psi> over the closures, in rows and columns: what truncation
    does to the norm; 0 to rounding where nothing is cut."""
    uncut: bool  #: no bond exceeds chi, so the value is exact
    n_angles: int
    seconds: float


def boundary_expectation(
    tensors: Sequence[Array], operator: Operator, chi: int, *, magnetisation: int | None = None
) -> DoubleLayerValue:
    """Give <psi|H|psi> / <psi|psi> by boundary MPS of the double layer, at `estimated_cost`.

    Terms in one row or column, or within two rows or two columns, are contracted exactly between
    the boundaries; pairs of sites farther apart are carried through compressed rows.  All terms of
    a strip share its environments, and its norm has the same ones.

    Args:
        tensors: NumPy arrays (d, up, left, down, right), row by row, legs of the rim of size 1.
        chi: largest bond of the boundaries.
        magnetisation: twice the total Sz of the sector that psi is projected on, for operators that
            conserve it (not checked).

    Raises:
        TermsDoNotFit: terms on three or four sites over more than two rows and two columns.
        EmptySector: psi has no component in the sector.
        ValueError: the number of tensors does not fit the lattice; no such sector; chi below 1.
    """
    started = perf_counter()
    if chi < 1:
        raise ValueError(f"double layer: chi must be at least 1, got {chi}")
    grid = grid_of(tensors, operator.lattice.shape)
    plan = [view for view in views(operator) if not view.empty]
    rotations = _Rotations(np.ones((1, operator.local_dim)), np.ones(1), None)
    if magnetisation is not None:
        n_sites, d = operator.n_sites, operator.local_dim
        check_magnetisation(n_sites, d, magnetisation)
        rotations = _rotations(grid, (n_sites * (d - 1) - magnetisation) // 2, chi)
    parts: list[Closed] = []
    for view in plan:
        parts += _parts(_reflected(grid) if view.by_columns else grid, view, rotations, chi)
    if any(part.norm <= 0 for part in parts):
        raise EmptySector(
            f"double layer: <psi|psi> is not positive at chi = {chi}, which is much too small"
        )
    logs = [math.log(part.norm) + part.log_scale for part in parts]
    return DoubleLayerValue(
        float(sum(part.total / part.norm for part in parts)),
        chi,
        magnetisation,
        None if rotations.log_whole is None else math.exp(np.mean(logs) - rotations.log_whole),
        max(logs) - min(logs),
        chi >= _bond_dimension(grid) ** max(view.largest_bond for view in plan),
        len(rotations.factors),
        perf_counter() - started,
    )


def boundary_overlap(
    bra: Sequence[Array], ket: Sequence[Array], shape: tuple[int, int], chi: int,
    total: int | None = None,
) -> tuple[complex, bool]:  # fmt: skip
    """Give <a|P|b> / sqrt(<a|P|a> <b|P|b>) of two PEPS without samples, and whether it is exact.

    P projects on the sector whose local states sum to `total`; None: all of both states is meant.
    Exact is it where no bond exceeds chi.  Cost: three norms by boundaries, each for one angle, or
    for the N (d - 1) + 1 of a sector (half of them for real states).

    Raises:
        EmptySector: one of them has no component in the sector, or chi is too small to see it.
        ValueError: the number of tensors does not fit the shape.
    """
    grids = grid_of(bra, shape), grid_of(ket, shape)
    factors, complex_ = np.ones((1, len(bra[0]))), np.result_type(*bra, *ket).kind == "c"
    if total is not None:
        logs = sum(_norms(grid, _factors(grid, total, _TILTS), chi)[1] for grid in grids)
        angles = 1j * _angles(_n_angles(grids[0]), whole=complex_)
        factors = _factors(grids[0], total, _lowest(_TILTS, logs) + angles)
    found = [_shares(*pair, factors, chi) for pair in (grids[::-1], grids[:1] * 2, grids[1:] * 2)]
    (value, log), *norms = ((shares[0], log) for shares, log in found)
    size = math.exp(log - sum(each for _, each in norms) / 2)
    size /= math.sqrt(math.prod(norm.real for norm, _ in norms))
    largest = max(map(_bond_dimension, grids)) ** (2 * min(shape[0] - 1, shape[1] // 2))
    return complex((value if complex_ else value.real) * size), chi >= largest


@dataclass(frozen=True)
class _Rotations:
    """What ket is contracted with: a sum over rotations, or psi itself."""

    factors: Array  #: (B, d)
    multiplicity: Array  #: (B,)
    log_whole: float | None  #: ln <psi|psi> of psi itself; None where that is all


def _parts(grid: Grid, view: View, rotations: _Rotations, chi: int) -> Iterator[Closed]:
    """Close everything of a view, a chunk of rotations at a time, and sum over all rotations."""
    chunks = _chunks(len(rotations.factors), grid, chi)
    found = [closures(DoubleNetwork(grid, rotations.factors[some], chi), view) for some in chunks]
    for closed in zip(*found, strict=True):
        log_scale = max(each.log_scale for each in closed)
        norm = total = 0.0
        for some, each in zip(chunks, closed, strict=True):
            weight = rotations.multiplicity[some] * math.exp(each.log_scale - log_scale)
            norm += float((weight * each.norm).sum().real)
            total += float((weight * each.total).sum().real)
        yield Closed(norm, total, log_scale)


def _rotations(grid: Grid, n: int, chi: int) -> _Rotations:
    """Choose the imaginary part of the angles, and how many are enough, for the sector of sum n."""
    logs = _norms(grid, _factors(grid, n, _TILTS), chi)[1]
    tilt = _lowest(_TILTS, logs)
    all_angles = _factors(grid, n, tilt + 1j * _angles(_n_angles(grid)))
    n_angles = _enough(np.roll(_shares(grid, grid, all_angles, chi)[0].real, n), n)
    angles = _angles(n_angles)
    chosen = _factors(grid, n, tilt + 1j * angles if n_angles > 1 else tilt + angles)
    multiplicity = np.where(2 * np.arange(len(angles)) % n_angles == 0, 1, 2) / n_angles
    return _Rotations(chosen, multiplicity, float(logs[_TILTS == 0][0]))


def _n_angles(grid: Grid) -> int:
    """How many tell all sectors apart."""
    return sum(map(len, grid)) * (len(grid[0][0]) - 1) + 1


def _factors(grid: Grid, n: int, exponents: Array) -> Array:
    """Factors (B, d) of the local states of a site; of all sites 1 in the sector of sum n."""
    steps = np.arange(len(grid[0][0])) - n / sum(map(len, grid))
    return np.exp(np.multiply.outer(exponents, steps))


def _shares(ket: Grid, bra: Grid, factors: Array, chi: int) -> tuple[Array, float]:
    """Shares of the sectors in <bra|ket>, the wanted one first, and the log of their scale.

    Factors are of all angles, or of those up to pi where the others are conjugate.
    """
    phases, logs = _norms(ket, factors, chi, bra)
    log, n = float(logs.max()), _n_angles(ket) if len(factors) > 1 else 1
    found = phases * np.exp(logs - (log if phases.any() else 0.0))
    found = np.concatenate([found, found[1 : n - len(found) + 1][::-1].conj()])
    shares = np.fft.fft(found) / n
    if bra is ket and not shares[0].real > max(_EMPTY, -_CLEAR * shares.real.min()):
        raise EmptySector(f"double layer: the sector is too rare at chi {chi}; raise it or sample")
    return shares, log


def _angles(n: int, whole: bool = False) -> Array:
    """Angles 2 pi m / n from 0 to pi, or all n of them."""
    return 2 * math.pi * np.arange(n if whole else n // 2 + 1) / n


def _enough(share: Array, n: int) -> int:
    """Fewest angles that tell sector n from all that have any share of the (tilted) state.

    With K angles the sectors n + K, n - K, n + 2 K, ... are added to sector n.  Shares cannot be
    negative: the most negative one tells how large those are that truncation makes up.
    """
    allowed = share[n] * min(max(_FOREIGN, -2 * share.min() / share[n]), _MOST_FOREIGN)
    for n_angles in range(1, len(share)):
        others = np.arange(n % n_angles, len(share), n_angles)
        if np.abs(share[others[others != n]]).sum() <= allowed:
            return n_angles
    return len(share)


def _norms(grid: Grid, factors: Array, chi: int, bra: Grid | None = None) -> tuple[Array, Array]:
    """Phases and logarithms of <R> (B,), or <bra| R |psi>, closed at the first row."""
    found = []
    for some in _chunks(len(factors), grid, chi):
        network = DoubleNetwork(grid, factors[some], chi, bra=bra)
        closed = close_strip(network, StripTerms(0, 1), (None, network.boundaries("up")[0]))
        found.append(split_scale(closed.norm, np.full(len(closed.norm), closed.log_scale)))
    phases, logs = zip(*found, strict=True)
    return np.concatenate(phases), np.concatenate(logs)


def _lowest(x: Array, y: Array) -> float:
    """Where a convex function has its minimum, from its values on an even grid."""
    k = int(np.clip(np.argmin(y), 1, len(x) - 2))
    before, here, after = y[k - 1 : k + 2]
    bend = before + after - 2 * here
    shift = (before - after) / (2 * bend) if bend > 0 else 0.0
    return float(x[k] + np.clip(shift, -1, 1) * (x[1] - x[0]))


def _chunks(n: int, grid: Grid, chi: int) -> list[slice]:
    """Rotations that are contracted together, so that what they take fits the cache."""
    size = _bond_dimension(grid) ** 2
    per_rotation = 16 * (chi**2 * size**2 + len(grid[0]) * size**4)
    at_once = int(max(1, CHUNK_BYTES // per_rotation))
    return [slice(k, min(k + at_once, n)) for k in range(0, n, at_once)]


def _bond_dimension(grid: Grid) -> int:
    return int(max(max(tensor.shape[1:]) for row in grid for tensor in row))


def _reflected(grid: Grid) -> Grid:
    """The grid with rows and columns exchanged."""
    return [[tensor.transpose(0, 2, 1, 4, 3) for tensor in column] for column in zip(*grid)]


@dataclass(frozen=True)
class Cost:
    """Time of one core, to a factor of three or so, and memory."""

    seconds: float
    n_bytes: float


def estimated_cost(operator: Operator, D: int, chi: int, *, sector: bool = False) -> Cost:
    """Estimate what `boundary_expectation` takes, of an operator on the grid of the state.

    With k = 1 or 2 rows in a strip, an absorbed column costs 2 chi^3 D^(2k + 2) + k chi^2 D^(2k +
    6) multiplications, and absorbing a site into a boundary twice that at k = 1.  Strips have about
    2 + 2 d^2 columns for each of theirs, a pair of distant sites d^2 boundaries of its own.  A
    sector multiplies this by about sqrt(N) + 2 angles in complex arithmetic.

    Raises:
        TermsDoNotFit: terms that the double layer does not serve.
    """
    n = operator.n_sites
    n_angles = min(n * (operator.local_dim - 1) // 2 + 1, 2 + math.isqrt(n)) if sector else 1
    work, n_columns, arrays = 0.0, 0.0, 0.0
    for view in views(operator):
        if view.empty:
            continue
        narrow = min(chi, D**view.largest_bond)
        one, two = _column(narrow, D, 1), _column(narrow, D, 2)
        n_absorbed = _absorbed(view)
        copies = max(map(len, view.pairs.values()), default=1)  # of the network, carried at a time
        work += 2 * one * n_absorbed
        n_columns += 4 * n_absorbed
        for strip in view.strips.values():
            n_transfers = strip.n_transfers(view.shape[1])
            work += n_transfers * (one if strip.n_rows == 1 else two)
            n_columns += n_transfers
        rows = 2 if any(strip.n_rows == 2 for strip in view.strips.values()) else 1
        carried = copies * (3 * narrow**2 * D ** (2 * rows + 2) + 2 * view.shape[1] * D**8)
        arrays = max(arrays, 2 * n_angles * n * narrow**2 * D**2 + carried)
    arithmetic = 4 * n_angles if sector else 1
    return Cost(2 * work * arithmetic / _RATE + n_columns * _PER_CALL, 16.0 * arrays)


def _column(chi: int, D: int, n_rows: int) -> float:
    """Multiplications of one transfer."""
    return float(2 * chi**3 * D ** (2 * n_rows + 2) + n_rows * chi**2 * D ** (2 * n_rows + 6))


def _absorbed(view: View) -> int:
    """Sites that are absorbed into boundaries, those of sources too."""
    n_rows, n_cols = view.shape
    found = 2 * n_rows * n_cols
    for row, sources in view.pairs.items():
        lowest = max(r for targets in sources.values() for r in targets)
        found += 3 * len(sources) * (lowest - row) * n_cols
    return found
