"""What was measured beside the energy, from observables.json: rows for the console and the page."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np

from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.estimate.statistics import of_many
from tnvmc.operators.order import ORDERS
from tnvmc.report.console import rows_table
from tnvmc.report.describe import sector_text
from tnvmc.shown import fixed, line, sentence, told_of, with_error
from tnvmc.storage.run_files import OBSERVABLES, Json, as_array
from tnvmc.trust.finished_run import diagnostics_of, to_heed, verdict

_NOTHING = 1e-12  # what rounding leaves of a mean that vanishes


@dataclass(frozen=True)
class Observed:
    """One row: a value and its error, or the mean over sites or bonds with its `extremes`."""

    name: str
    mean: float  #: NaN where it is not finite
    error: float = math.inf  #: inf where it is not known
    where: str = ""  #: of what the value is, as "at q = (π, π)"
    extremes: "tuple[Extreme, Extreme] | None" = None  #: lowest and highest, with their errors
    unit: float = 1.0  #: beside which it may be nothing

    @property
    def value(self) -> str:
        """The number."""
        if not math.isfinite(self.mean):
            return "not finite"
        if math.isfinite(self.error) or self.extremes is None:
            return written(self.mean, self.error, self.unit)
        error = max(error for _, error in self.extremes)
        if error <= _NOTHING * self.unit:
            return written(self.mean, 0.0, self.unit)
        return fixed(
            self.mean, max(0, 1 - math.floor(math.log10(error))) if error < math.inf else 5
        )

    @property
    def detail(self) -> str:
        """Where it was measured, or between which values it lies."""
        if self.extremes is None or not math.isfinite(self.mean):
            return self.where
        low, high = (written(*each, self.unit) for each in self.extremes)
        return f"on average, {f'from {low} to {high}' if low != high else f'all {low}'}{self.where}"


Extreme = tuple[float, float]


def written(mean: float, error: float, unit: float = 1.0) -> str:
    """Write a number with its error; "0" where it vanishes but for rounding, no error either."""
    if abs(mean) < _NOTHING * unit and not error > _NOTHING * unit:
        return "0"
    return with_error(mean, 0.0 if error <= _NOTHING * unit else error)


def observed(held: Json) -> Iterator[Observed]:
    """Yield a row for everything that was measured beside the energy."""
    if squared := held.get("staggered_magnetisation_squared"):
        yield _single("M^2, staggered", squared)
    for name, factor in (held.get("structure_factor") or {}).items():
        top = maximum(factor)
        yield Observed(f"largest S(q), {name}", *(top or (math.nan,)))
    averages, evened = held.get("averages") or {}, held.get("orbits")
    places, pauli = evened or held, held.get("units") == "Pauli"  # of energies; spins have S = 1/2
    unit = min(1.0, abs((held.get("energy") or {}).get("mean") or 1.0))  # of energies
    kinds: dict[str, list[Json]] = {}
    for bond in places.get("bonds") or ():
        kinds.setdefault(str(bond.get("kind") or ""), []).append(bond)
    for kind, bonds in kinds.items():
        of_kind = f"a {kind} bond" if len(kinds) > 1 else "a bond"
        of_kind += " (Pauli units)" if pauli else ""
        values = {key: [bond.get(key) for bond in bonds] for key in ("mean", "error")}
        mean = (averages.get("bonds") or {}).get(kind)
        yield replace(_mean_of(f"energy of {of_kind}", values, mean, bool(evened)), unit=unit)
    for name, values in (places.get("sites") or {}).items():
        mean = (averages.get("sites") or {}).get(name)
        of_site = f"<{name}> of a site" + (" (S = 1/2)" if pauli else "")
        yield _mean_of(of_site, values, mean, bool(evened))
    if held.get("dimers"):
        yield _largest_dimer(held["dimers"])
    for name, value in (held.get("operators") or {}).items():
        yield replace(_single(str(name), value, "is m^2" if name in ORDERS else ""), unit=unit)


def _single(name: str, value: Json, where: str = "") -> Observed:
    mean, error = value["mean"], value.get("error")
    unknown = math.inf if error is None else error
    return Observed(name, math.nan if mean is None else mean, unknown, where)


def _mean_of(name: str, values: Json, average: Json | None, evened: bool) -> Observed:
    means, errors = as_array(values["mean"]), as_array(values["error"])
    if not np.isfinite(means).all():
        return Observed(name, math.nan)
    errors = np.where(np.isfinite(errors), errors, math.inf)
    ends = [(float(means[at]), float(errors[at])) for at in (means.argmin(), means.argmax())]
    found = _single("", average or {"mean": float(means.mean()), "error": None})
    noise = errors.max() > _NOTHING and (np.abs(means) <= of_many(_SEEN, means.size) * errors).all()
    where = ", averaged over symmetry" if evened else ""
    where += ", none told from 0" if noise else ""
    return Observed(name, found.mean, found.error, where, (ends[0], ends[1]))


def maximum(factor: Json) -> tuple[float, float, str] | None:
    """Give value, error and place of the largest S(q), or None where none is finite."""
    mean, error = (as_array(factor[key]) for key in ("mean", "error"))
    if not np.isfinite(mean).any():
        return None
    top = int(np.nanargmax(mean))
    return float(mean[top]), float(error[top]), f"at q = {_where(factor, peak(factor) / np.pi)}"


def peak(factor: Json) -> np.ndarray:
    """Give the q (2,) of the largest S(q); of equal ones not on a grid the rightmost."""
    q, mean = as_array(factor["q"]), as_array(factor["mean"])
    top = int(np.nanargmax(mean))
    if factor.get("zone") in ("plane", "hexagon"):
        equal = np.abs(mean - mean[top]) <= _EQUAL * np.abs(mean[top])
        top = int(np.flatnonzero(equal)[np.lexsort(q[equal].round(9).T[::-1])[-1]])
    return q[top] + 0.0  # no -0


_EQUAL = 1e-9  # relative: S(q) at points that a vector of the reciprocal lattice, or -1, leads to


def _where(factor: Json, q: np.ndarray) -> str:
    """Write q / pi (2,): fractions on a grid, one along a chain, name and decimals elsewhere."""
    zone = factor.get("zone", "square")
    if zone == "chain":
        return f"{_part(q[np.argmax(np.abs(q))])} along the chain"
    if zone == "square":
        return f"({_part(q[0])}, {_part(q[1])})"
    x, y = q.round(2) + 0.0
    names = [
        name
        for name, places in (factor.get("points") or {}).items()
        if np.isclose(as_array(places) / np.pi, q, atol=1e-6).all(axis=1).any()
    ]
    name = names[0] if names else ""
    if name.startswith("extended "):
        name = f"{name.removeprefix('extended ')} of the extended zone"
    return f"{name} ({x:.2f}π, {y:.2f}π)".replace("-", "−").strip()


def _part(value: float) -> str:
    fraction = Fraction(value).limit_denominator(64)
    top, bottom = abs(fraction.numerator), fraction.denominator
    if not top:
        return "0"
    size = ("" if top == 1 else str(top)) + "π" + ("" if bottom == 1 else f"/{bottom}")
    return ("−" if fraction < 0 else "") + size


def _largest_dimer(dimers: Json) -> Observed:
    """The strongest correlation with a bond that shares no site with the reference."""
    name, reference = "largest dimer, z", tuple(dimers["reference"])
    apart = [
        (abs(mean), {"mean": mean, "error": error}, tuple(bond))
        for bond, mean, error in zip(*(dimers[k] for k in ("bonds", "mean", "error")), strict=True)
        if mean is not None and not {*bond} & {*reference}
    ]
    if not apart:
        return Observed(name, math.nan, where="no bonds apart")
    size, value, bond = max(apart, key=lambda each: each[0])
    where = f"between bonds {reference} and {bond}"
    if size <= of_many(_SEEN, len(apart)) * (value["error"] or 0.0):
        where += ", not told from 0"  # the largest of many
    return _single(name, value, where)


_SEEN = 2.0  # errors that a value lies from 0 at least, to be one that is not 0; of many `of_many`


def samples_text(held: Json) -> str:
    """Write what the observables are means of."""
    return told_of("lines", "samples", {"held": held})


def print_observables(found: Json, folder: str | Path, told: Sequence[Diagnostic] = ()) -> None:
    """Print a verdict, the table of ``tnvmc measure``, its diagnostics, those `told`, the place."""
    from rich.console import Console

    console, own = Console(highlight=False), diagnostics_of(found)
    console.print(sentence(verdict(own)), markup=False, soft_wrap=True)
    console.print(rows_table(_table_rows(found)))
    lines = map(line, (*to_heed(own), *told))
    for text in (*lines, f"written to {Path(folder) / OBSERVABLES}"):
        console.print(text, markup=False, soft_wrap=True)


def _table_rows(found: Json) -> Iterator[tuple[str, str]]:
    n, energy = found["n_sites"], _single("", found["energy"])
    energy = Observed("energy per site", energy.mean / n, energy.error / n, unit=abs(energy.mean))
    yield energy.name, f"{energy.value}  ({found['units']} units)"
    if sector := sector_text(found):
        yield "sector", sector
    if found["variance"] is not None:
        yield "variance per site", f"{found['variance'] / n:.3e}"
    for row in observed(found):
        text = f"{row.value} {row.detail}".rstrip()
        yield row.name, text.replace("π", "pi").replace("−", "-")
    yield "samples", samples_text(found)
    yield "time", f"{found['seconds']:.1f} s"
