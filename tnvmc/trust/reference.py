"""Energies that measured ones are compared with: known ones, and levels by diagonalisation.

Without being told otherwise a run solves the sector of the smallest |Sz|.  That holds the ground
state of antiferromagnets; an easy-axis ferromagnet or a magnet in a field may have it elsewhere.
"""

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tnvmc.ansatz.protocol import Ansatz
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.exact import MOST_IMAGES, Sector, exact_ground_state, exact_levels, symmetric_levels
from tnvmc.lattice.grids import chain
from tnvmc.lattice.permutations import SymmetryGroup
from tnvmc.operators.basis import CODE_BITS, smallest_magnetisation
from tnvmc.operators.properties import energy_bound, fingerprint, polarised, rotation_invariant
from tnvmc.operators.reference import KnownEnergy, Method, known_energy
from tnvmc.operators.symmetry import has_ground_state, mirrors_sectors, other_sectors
from tnvmc.operators.term import Operator
from tnvmc.vmc.orthogonal import LowerState, Overlap

DIAGONALISED = 2**16
"""Largest sector that is diagonalised to judge an energy: a second or two, once for an operator."""

_ALL_OF = 4  # times the largest sector: states of all others that are diagonalised (18 spins)
_CLUSTER = 4096  # most states of a cluster that stands for a lattice: 12 spins

DIAGONALISED_AT_ONCE = 400_000
"""Largest sector whose ground state is computed for comparison: a few seconds."""

OVERLAP = 0.01
"""Largest squared overlap with a lower state: a hundredth of their distance is then missing."""

_NEGLIGIBLE = 1e-3
"""The same that is never told, where a measurement has no error to compare with."""

BELOW_EXACT = 4.0
"""Errors below a known energy that chance does not explain: once in 30 000 runs."""

_ROUNDING = 1e-6  # of an energy: what counts as the error of an enumeration
_DEGENERATE = 1e-9  # of the largest energy there can be: two sectors that far apart are alike


@dataclass(frozen=True)
class Reference:
    """The energy a run is compared with; all None where none is known."""

    energy: float | None = None
    source: str | None = None
    method: str | None = None
    error: float | None = None  #: of an energy that is not exact, where it is known

    @property
    def bound(self) -> KnownEnergy | None:
        """The energy where it is one that no state lies below; None where it is not."""
        if self.energy is None or self.method not in ("exact", "QMC"):
            return None
        method: Method = "QMC" if self.method == "QMC" else "exact"
        return KnownEnergy(self.energy, self.error, self.source or method, method)


@dataclass(frozen=True)
class Place:
    """Which level an energy stands for."""

    operator: Operator
    sector: int | None  #: twice the total Sz; None for the full space
    ansatz: Ansatz
    lower: tuple[LowerState, ...] = ()  #: states that it is kept orthogonal to
    at_once = DIAGONALISED_AT_ONCE  #: states of a sector that takes some seconds

    def level(self, most: int) -> KnownEnergy | None:
        """Give the energy of the level, exact or by QMC, where a sector of `most` states has it."""
        group = self.ansatz.group
        if self.lower:
            return None if group else excited_level(self.lower, most)
        return lowest_energy(self.operator, self.sector, most, group)

    def floor(self, most: int) -> KnownEnergy | None:
        """Give an energy that no state of the sector lies below, likewise."""
        return (None if self.lower else self.level(most)) or self.lowest(most)

    def lowest(self, most: int) -> KnownEnergy | None:
        """Give the ground-state energy of the sector, likewise."""
        return lowest_energy(self.operator, self.sector, most)


def find_reference(
    operator: Operator,
    magnetisation: int | None = None,
    group: SymmetryGroup | None = None,
    kept: Sequence[LowerState] = (),
) -> Reference:
    """Find the exact energy: known, else by diagonalisation where that takes a few seconds.

    Published numbers that are not exact (QMC, other variational states) come last.  Of a state that
    is summed over a `group` the lowest energy of its characters, that of the ground state where it
    is proven to have them (`symmetry.has_ground_state`).  Of one beside `kept` states the next
    level (`excited_level`); with a group nothing is known of it.
    """
    if kept:
        level = None if group else excited_level(kept, DIAGONALISED_AT_ONCE)
        return Reference(level.energy_total, level.source, "exact") if level else Reference()
    sector = operator.magnetisation if magnetisation is None else magnetisation
    sector = (sector or 0) if operator.conserves_magnetisation else None
    if group is not None:
        own = lowest_energy(operator, sector, DIAGONALISED_AT_ONCE, group)
        if own is not None and own.method == "exact":
            return Reference(own.energy_total, own.source, own.method)
        if not has_ground_state(operator, group, magnetisation or 0):
            return Reference()
    known = _published(operator, sector)
    if known is None or known.method != "exact":
        known = _diagonalised(operator, sector, DIAGONALISED_AT_ONCE) or known
    if known is None:
        return Reference()
    error = None if known.method == "exact" else known.error
    return Reference(known.energy_total, known.source, known.method, error)


def lowest_energy(
    operator: Operator, sector: int | None, most: int, group: SymmetryGroup | None = None
) -> KnownEnergy | None:
    """Give the exact or QMC ground-state energy of a sector; None where it is not known.

    `sector` is twice the total Sz, None for the full space; one of `most` states is diagonalised; a
    `group` says which characters the state is to have.
    """
    if group is not None:
        return _of_characters(operator, sector, most, group)
    known = None if sector else _published(operator, sector)
    if known is not None and known.method in ("exact", "QMC"):
        return known
    return _diagonalised(operator, sector, most)


def _published(operator: Operator, sector: int | None) -> KnownEnergy | None:
    with contextlib.suppress(OverflowError):  # couplings whose squares are no numbers
        return known_energy(operator, sector)
    return None


def _diagonalised(operator: Operator, sector: int | None, most: int) -> KnownEnergy | None:
    if operator.states(sector).dimension > most:
        return None
    named: Sector = "full" if sector is None else sector
    key = operator.n_sites, fingerprint(operator), sector
    energy = _remembered(key, lambda: exact_ground_state(operator, named).energy)
    return None if energy is None else KnownEnergy(energy, 0.0, "diagonalisation")


def _of_characters(
    operator: Operator, sector: int | None, most: int, group: SymmetryGroup
) -> KnownEnergy | None:
    """The lowest energy with given characters, or that of all where it is proven to have them."""
    if (levels := lowest_levels(operator, sector, 1, most, group)) is not None:
        return KnownEnergy(float(levels[0]), 0.0, "diagonalisation")
    expected = has_ground_state(operator, group, sector or 0)
    return lowest_energy(operator, sector, most) if expected else None


def lowest_levels(
    operator: Operator, sector: int | None, n_levels: int, most: int, group: SymmetryGroup | None
) -> Any:
    """Diagonalise for the lowest levels of a sector, all or those of a group's characters.

    None where they are not found, or the sector has more than `most` states.
    """
    dimension = operator.states(sector).dimension
    if dimension > most or dimension * len(group or (1,)) > MOST_IMAGES:
        return None
    named: Sector = "full" if sector is None else sector
    key = operator.n_sites, fingerprint(operator), sector, group, n_levels
    if group is None:
        return _remembered(key, lambda: exact_levels(operator, n_levels, named))
    return _remembered(key, lambda: symmetric_levels(operator, group, sector, n_levels))


_FOUND: dict[tuple[Any, ...], Any] = {}


def _remembered(key: tuple[Any, ...], diagonalise: Callable[[], Any]) -> Any:
    """Diagonalise once.  What fails (memory, convergence) gives None: no reason to end a run."""
    if key not in _FOUND:
        _FOUND[key] = None
        with contextlib.suppress(ValueError, RuntimeError):
            _FOUND[key] = diagonalise()
    return _FOUND[key]


# --- excited states: lower states, exact levels


def excited_level(lower: Sequence[LowerState], most: int) -> KnownEnergy | None:
    """Give the exact energy of the lowest state beside the lower ones; None where it is not known.

    It is known where the lower states, all of one problem, are by their energies the lowest levels
    of the sector, each once, and no sums over symmetries.  Sectors of `most` states are
    diagonalised.

    Cost: that of as many levels, once for each operator, and `LowerState.energy`.
    """
    levels, n_below = _lowest_levels(lower, most), len(lower)
    if len(levels) <= n_below or any(_not_lowest(lower, levels)):
        return None
    return KnownEnergy(float(levels[n_below]), 0.0, f"diagonalisation, level {n_below + 1}")


def _lowest_levels(lower: Sequence[LowerState], most: int) -> np.ndarray:
    """The lowest levels of the sector, two more than lower states; none where not known."""
    if any(each.problem.ansatz.group is not None for each in lower):
        return np.zeros(0)
    problem = lower[0].problem
    levels = lowest_levels(problem.operator, problem.magnetisation, len(lower) + 2, most, None)
    return np.zeros(0) if levels is None else levels


def _not_lowest(lower: Sequence[LowerState], levels: np.ndarray) -> Iterator[Diagnostic]:
    """Tell which lower states, in the order of their energies, lie nearer to another's level."""
    if len(levels) < len(lower):
        return
    for place, number in enumerate(sorted(range(len(lower)), key=lambda k: lower[k].energy.mean)):
        energy = lower[number].energy.mean
        distances = np.abs(levels - energy)
        # Between copies of a degenerate level.
        slack = _DEGENERATE * energy_bound(lower[number].problem.operator)
        if not distances[place] <= distances.min() * (1 + _ROUNDING) + slack:
            own = {"level": place + 1, "reference": float(levels[place])}
            values = {"number": number + 1, "energy": energy, **own}
            yield Diagnostic("kept_not_lowest", "warning", values)


def of_excited(
    energy: tuple[float, float], lower: Sequence[LowerState], overlaps: Sequence[Overlap], most: int
) -> Iterator[Diagnostic]:
    """Judge whether a state is orthogonal to lower ones, and its energy that of the next level.

    Codes: not_orthogonal, a squared overlap that is above `OVERLAP`, or lowers the energy by more
    than its error, by two errors of its own: the energy is no upper bound of an excited level;
    overlap_unknown, an error of the overlap as large; kept_not_lowest, a lower state that is not,
    by its energy, the level that its place among them stands for: nothing is compared; below_level,
    an energy below the exact level: a lower state is not the exact one.

    `energy` is the total and its error; sectors of `most` states are diagonalised.
    """
    mean, error = energy
    orthogonal = True
    for number, (each, found) in enumerate(zip(lower, overlaps, strict=True), 1):
        distance = abs(mean - each.energy.mean)
        limit = max(_NEGLIGIBLE, min(OVERLAP, error / distance if distance else OVERLAP))
        values = {"number": number, **asdict(found)}
        if found.squared > limit + 2 * found.error:
            orthogonal = False
            yield Diagnostic("not_orthogonal", "warning", {**values, "raise": ["penalty"]})
        elif not found.error <= max(OVERLAP / 2, limit):
            yield Diagnostic("overlap_unknown", "warning", {**values, "raise": ["n_samples"]})
    if lower:
        yield from _not_lowest(lower, _lowest_levels(lower, most))
    known = excited_level(lower, most) if lower and orthogonal else None
    if known is None or not math.isfinite(mean + error):
        return
    below = known.energy_total - mean
    sigma = max(error, _ROUNDING * energy_bound(lower[0].problem.operator))
    if below > BELOW_EXACT * sigma:
        values = {"sigmas": below / sigma, "reference": known.energy_total}
        values["relative"] = below / max(abs(known.energy_total), 1e-300)
        yield Diagnostic("below_level", "warning", values)


# --- other sectors of the total Sz


def elsewhere(
    energy: tuple[float, float], operator: Operator, sector: int | None, most: int = DIAGONALISED
) -> tuple[Diagnostic, ...]:
    """Tell where a lower energy lies in another sector, or may.

    Nothing is told of an operator that commutes with the total spin, whose smallest sector holds
    the ground state, nor of a sector other than the smallest or of the operator's own, which
    somebody has chosen.

    Codes: lower_in_other_sector, where the fully polarised state, or the ground state of another
    sector that is small enough, lies below the energy (below the ground state of this sector, where
    that is known); sector_not_compared, where not all sectors are small enough, and nothing maps M
    on -M (as in a field), or a cluster (`_of_cluster`) is lower in another sector.

    `energy` is the total and its error, `sector` twice the total Sz of the samples; sectors of
    `most` states are diagonalised, once for each operator, and a fourth of all.
    """
    n_sites, d = operator.n_sites, operator.local_dim
    chosen = operator.magnetisation is not None or operator.fermions is not None
    if chosen or sector is None or abs(sector) != smallest_magnetisation(n_sites, d):
        return ()
    if not operator.replacements or not math.isfinite(energy[0]) or rotation_invariant(operator):
        return ()
    here, others = _diagonalised(operator, sector, most), _others(operator, sector, most)
    known = [*polarised(operator)]
    known += [(m, lowest.energy_total) for m, lowest in others.items() if lowest is not None]
    slack = _DEGENERATE * energy_bound(operator)
    # An energy above that of full polarisation may be a bad one of the right sector.
    noise = BELOW_EXACT * energy[1] if math.isfinite(energy[1]) else 0.0
    limit = energy[0] - max(noise, slack) if here is None else here.energy_total - slack
    least = min(lowest for _, lowest in known)
    values: dict[str, Any] = {"magnetisation": sector}
    if d > 2 and not mirrors_sectors(operator):
        values["bosons"] = (n_sites * (d - 1) - sector) // 2
    if least < limit:
        near = [each for each in known if each[1] <= least + slack]
        other = min(near, key=lambda each: abs(each[0] - sector))
        values |= {"other": other[0], "energy_per_site": other[1] / n_sites}
        return (Diagnostic("lower_in_other_sector", "warning", values),)
    if here is not None and None not in others.values():
        return ()
    expected = _of_cluster(operator, most)
    if mirrors_sectors(operator) and abs(expected or 0) <= (d - 1) * n_sites / 4:  # an end effect
        return ()
    values["expected"] = expected
    return (Diagnostic("sector_not_compared", "warning", values),)


def _others(operator: Operator, sector: int, most: int) -> dict[int, KnownEnergy | None]:
    """Ground-state energies of the other sectors, None of those that are too large."""
    found: dict[int, KnownEnergy | None] = dict.fromkeys(other_sectors(operator, sector))
    if operator.local_dim**operator.n_sites > 2**CODE_BITS:
        return found
    left = _ALL_OF * most
    for other in found:
        dimension = operator.states(other).dimension
        if dimension <= min(most, left):
            found[other], left = _diagonalised(operator, other, most), left - dimension
    return found


def _of_cluster(operator: Operator, most: int) -> int | None:
    """Twice the total Sz that a cluster of a dozen sites, without the terms that leave it, has at
    the lowest energy, for all sites; None where `most` is too few states for it."""
    n_sites, d, places = operator.n_sites, operator.local_dim, {operator.n_sites // 2: 0}
    size = min(n_sites, int(math.log(_CLUSTER, d) + 1e-9))
    while len(places) < size:
        joined = [patch for patch in operator.matrices if not places.keys().isdisjoint(patch)]
        beside = Counter(site for patch in joined for site in patch if site not in places)
        if not beside or most < _CLUSTER:
            return None
        places[max(sorted(beside), key=beside.__getitem__)] = len(places)
    terms = [
        ([places[site] for site in patch], matrix)
        for patch, matrix in operator.matrices.items()
        if places.keys() >= set(patch)
    ]
    cluster = Operator.from_terms(chain(size), terms, local_dim=d)
    key = size, fingerprint(cluster), "cluster"
    found, odd = _remembered(key, lambda: exact_ground_state(cluster).sector), n_sites * (d - 1) % 2
    return None if found is None else 2 * round((found * n_sites / size - odd) / 2) + odd
