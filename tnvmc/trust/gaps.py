"""The difference of two measured energies: its error, and what that error does not hold."""

import math
from dataclasses import dataclass
from typing import Any

from tnvmc.backend.arguments import refuse
from tnvmc.estimate.diagnostic import Diagnostic, Status
from tnvmc.operators.fermions import sector_text
from tnvmc.shown import Shown, Table, with_error

SLOPE = 0.15
"""Relative error of an energy over its V-score, typically: for the states of the page "Comparing
states" 0.08 to 0.22 for the Heisenberg model on 6x6 sites, up to 0.35 on 10x10 and for J1-J2, and
up to 1.6 for Rydberg atoms."""

SIGNIFICANT = 3.0
"""Errors of a gap beyond which its sign, or a bias, counts as seen."""

MeasuredEnergy = Any
"""A `Measurement`, or what has its energy, energy_error, variance, v_score, n_sites and units."""

_RELATIVE = 1e-6  # of the energy: what counts as an error where there is none (enumeration)


@dataclass(frozen=True, repr=False)
class Gap(Shown):
    """The energy of one state above that of another; both are totals.

    `error` is that of the samples, the two errors in quadrature.  Each energy lies above the lowest
    one of its sector by a residual, which no number of samples lowers: `residual` and
    `residual_below` estimate them from the V-scores (`residual_energy`); `bias` is what they do to
    the gap.
    """

    energy: float
    error: float
    residual: float
    residual_below: float
    units: str
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def bias(self) -> float:
        """Estimate how far the gap lies above the true one; see `SLOPE`."""
        return self.residual - self.residual_below

    def __repr__(self) -> str:
        told = f"{with_error(self.energy, self.error)} ({self.units} units)"
        told += f", bias about {self.bias:+.1g}"
        return f"<Gap {told}{''.join(f'; {x.status}: {x.code}' for x in self._doubts)}>"

    @property
    def _doubts(self) -> list[Diagnostic]:
        return [each for each in self.diagnostics if each.status in ("warning", "error")]

    def _table(self) -> Table:
        rows = [
            ("gap", with_error(self.energy, self.error)),
            ("residual of the upper energy", f"about {self.residual:.1g}"),
            ("residual of the lower energy", f"about {self.residual_below:.1g}"),
            ("bias of the gap", f"about {self.bias:+.1g}"),
        ]
        return Table(f"gap, {self.units} units", ("", ""), rows, self.diagnostics)


def energy_gap(above: MeasuredEnergy, below: MeasuredEnergy) -> Gap:
    """Give the gap between two measured energies of one Hamiltonian, with its error.

    >>> energy_gap(triplet.measure(), singlet.measure())  # doctest: +SKIP

    Args:
        above: the `Measurement` of the upper state.
        below: that of the lower one, from other samples.

    Returns:
        The gap, with codes: `gap_negative` where it lies below 0 by 3 errors, so that the two are
        the other way round or one of them is not converged; `gap_bias_small`, or `gap_bias` where a
        residual is larger than the error (a warning beyond 3 of them).

    Raises:
        TypeError: no measurement.
        ValueError: energies of different numbers of sites, in different units, of two Hamiltonians,
            or twice of one sector (2 Sz and -2 Sz may be one; with the same characters and states
            it is kept orthogonal to).

    What it cannot tell: that either state is the lowest one of its sector.  Of states that were
    kept orthogonal to approximate ones an energy may also be too low.
    """
    for each in (above, below):
        if not hasattr(each, "energy_error"):
            raise refuse("energy_gap", "each energy", each, "a Measurement, as VMC(...).measure()")
    for name in ("n_sites", "units"):
        one, other = getattr(above, name), getattr(below, name)
        if one != other:
            raise ValueError(
                f"energy_gap: {name} is {one!r} of the upper energy and {other!r} of the "
                "lower one; give two measurements of one Hamiltonian"
            )
    here, there = (getattr(each, "origin", ()) for each in (above, below))
    if here and there and here[0] != there[0]:
        raise ValueError("energy_gap: energies of two Hamiltonians; measure two states of one")
    if here and here == there:
        sector = sector_text(here[1], getattr(above, "particles", None))
        where = f"the sector {sector}" if sector else "the full space"
        if above.magnetisation != below.magnetisation:
            where += f" or {-here[1]}, which H maps on each other"
        raise ValueError(
            f"energy_gap: both energies are of the lowest state of {where}, whose gap is 0; give "
            "one state another magnetisation or other ansatz.characters, or keep it "
            "orthogonal to the other (orthogonal_to)"
        )
    gap = above.energy - below.energy
    error = math.hypot(above.energy_error, below.energy_error)
    residuals = residual_energy(above), residual_energy(below)
    floor = smallest_gap(above, below)
    found = _bias(residuals, floor)
    if gap < -SIGNIFICANT * floor:  # not where one is not finite
        values = {"gap": gap, "sigmas": -gap / floor}
        found = [Diagnostic("gap_negative", "warning", values), *found]
    return Gap(gap, error, *residuals, above.units, tuple(found))


def smallest_gap(above: MeasuredEnergy, below: MeasuredEnergy) -> float:
    """Give one error of a gap; 1e-6 of the energy where it has none (enumeration)."""
    error = math.hypot(above.energy_error, below.energy_error)
    return max(error, _RELATIVE * max(abs(above.energy), abs(below.energy)), 1e-300)


def residual_energy(measured: MeasuredEnergy) -> float:
    """Estimate how far an energy lies above the eigenstate's.

    It is `SLOPE` V |E - E_inf| with the V-score V = N Var / (E - E_inf)^2, to which relative errors
    of variational energies are nearly proportional (Wu et al., Science 386, 296 (2024)).  NaN where
    V or the variance is not finite.
    """
    return SLOPE * math.sqrt(measured.n_sites * measured.variance * measured.v_score)


def _bias(residuals: tuple[float, float], error: float) -> list[Diagnostic]:
    largest = max(residuals)
    values = {
        "residual": residuals[0], "residual_below": residuals[1],
        "bias": residuals[0] - residuals[1], "error": error,
    }  # fmt: skip
    if not all(map(math.isfinite, (*residuals, error))):
        return []
    if largest <= error:
        return [Diagnostic("gap_bias_small", "good", values)]
    status: Status = "warning" if largest > SIGNIFICANT * error else "open"
    return [Diagnostic("gap_bias", status, values)]
