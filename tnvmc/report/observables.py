"""What was measured beside the energy, from observables.json: rows for the console and the page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

from tnvmc.analysis.diagnostics import diagnostics_of
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.report.console import rows_table
from tnvmc.report.describe import sector_text
from tnvmc.report.texts import line
from tnvmc.shown import fixed, with_error
from tnvmc.storage.run_files import OBSERVABLES, Json, as_array

_NOTHING = 1e-12  # what rounding leaves of a mean that vanishes


@dataclass(frozen=True)
class Observed:
    """One row: a value and its error, or the mean over sites or bonds with its `extremes`."""

    name: str
    mean: float  #: NaN where it is not finite
    error: float = math.inf  #: inf where it is not known
    where: str = ""  #: of what the value is, as "at q = (π, π)"
    extremes: tuple[float, float] | None = None  #: lowest and highest

    @property
    def value(self) -> str:
        """The number."""
        if not math.isfinite(self.mean):
            return "not finite"
        return with_error(self.mean, self.error) if self.extremes is None else _plain(self.mean)

    @property
    def detail(self) -> str:
        """Where it was measured, or between which values it lies."""
        if self.extremes is None or not math.isfinite(self.mean):
            return self.where
        low, high = map(_plain, self.extremes)
        return f"on average, from {low} to {high}"


def observed(held: Json) -> Iterator[Observed]:
    """Yield a row for everything that was measured beside the energy."""
    if squared := held.get("staggered_magnetisation_squared"):
        yield _single("M^2, staggered", squared)
    for name, factor in (held.get("structure_factor") or {}).items():
        top = maximum(factor)
        yield Observed(f"largest S(q), {name}", *(top or (math.nan,)))
    kinds: dict[str, list[float]] = {}
    for bond in held.get("bonds") or ():
        kinds.setdefault(str(bond.get("kind") or ""), []).append(bond["mean"])
    for kind, means in kinds.items():
        of_kind = f"a {kind} bond" if len(kinds) > 1 else "a bond"
        yield _mean_of(f"energy of {of_kind}", means)
    for name, values in (held.get("sites") or {}).items():
        yield _mean_of(f"<{name}> of a site", values["mean"])
    if held.get("dimers"):
        yield _largest_dimer(held["dimers"])
    for name, value in (held.get("operators") or {}).items():
        yield _single(str(name), value)


def _single(name: str, value: Json, where: str = "") -> Observed:
    mean, error = value["mean"], value.get("error")
    unknown = math.inf if error is None else error
    return Observed(name, math.nan if mean is None else mean, unknown, where)


def _mean_of(name: str, values: Sequence[float | None]) -> Observed:
    known = as_array(values)  # NaN makes all three NaN
    return Observed(name, float(known.mean()), extremes=(float(known.min()), float(known.max())))


def _plain(value: float) -> str:
    return fixed(0.0 if abs(value) < _NOTHING else value, 5)


def maximum(factor: Json) -> tuple[float, float, str] | None:
    """Give value, error and place of the largest S(q), or None where none is finite."""
    mean, error, q = (as_array(factor[key]) for key in ("mean", "error", "q"))
    if not np.isfinite(mean).any():
        return None
    top = int(np.nanargmax(mean))
    return float(mean[top]), float(error[top]), f"at q = {place(q[top] / np.pi)}"


def place(q: np.ndarray) -> str:
    """Write a point q / pi (2,) of the zone, as (π, π/2)."""
    return f"({_part(q[0])}, {_part(q[1])})"


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
    _, value, bond = max(apart, key=lambda each: each[0])
    return _single(name, value, f"between bonds {reference} and {bond}")


def samples_text(held: Json) -> str:
    """Write what the observables are means of."""
    count, worth = held.get("n_samples"), held.get("effective_samples")
    if held.get("drawn") == "enumerate":
        return f"all {count} configurations"
    text = f"{count}"
    if worth and count and worth < 0.999 * count:
        text += f" (worth {worth:.0f})"
    text += f" at chi = {held['chi']}" if held.get("chi") else ""
    if pairs := held.get("pair_samples"):
        text += f"; S.S of all pairs on {pairs}"
        text += f" at chi = {held['pair_chi']}" if held.get("pair_chi") else ""
    return text


def print_observables(found: Json, folder: str | Path, told: Sequence[Diagnostic] = ()) -> None:
    """Print the table of ``tnvmc measure``, what is to be known of it, and where everything is.

    `told` is what became of earlier measurements.
    """
    from rich.console import Console

    console = Console(highlight=False)
    console.print(rows_table(_table_rows(found)))
    for text in (
        *map(line, (*diagnostics_of(found), *told)),
        f"written to {Path(folder) / OBSERVABLES}",
    ):
        console.print(text, markup=False, soft_wrap=True)


def _table_rows(found: Json) -> Iterator[tuple[str, str]]:
    n, energy = found["n_sites"], _single("", found["energy"])
    energy = Observed("energy per site", energy.mean / n, energy.error / n)
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
