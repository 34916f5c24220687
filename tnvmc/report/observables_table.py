"""What `tnvmc measure` shows: a table of a few lines, from the content of observables.json."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.report.numbers import LARGE, with_error
from tnvmc.storage.run_files import OBSERVABLES

Json = Mapping[str, Any]


def show_observables(found: Json, folder: str | Path) -> None:
    """Print the table, and where everything is."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    table = Table(box=box.SIMPLE_HEAD, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    for name, text in rows(found):
        table.add_row(name, text)
    console.print(table)
    for each in found["diagnostics"]:
        console.print(str(Diagnostic.from_dict(each)), markup=False, soft_wrap=True)
    console.print(f"written to {Path(folder) / OBSERVABLES}", markup=False, soft_wrap=True)


def rows(found: Json) -> Iterator[tuple[str, str]]:
    """Yield names and values, both as text."""
    n, energy = found["n_sites"], found["energy"]
    yield "energy per site", f"{_number(energy, 1 / n)}  ({found['units']} units)"
    if found["variance"] is not None:
        yield "variance per site", f"{found['variance'] / n:.3e}"
    if found["staggered_magnetisation_squared"] is not None:
        yield "M^2, staggered", _number(found["staggered_magnetisation_squared"])
    for name, factor in found["structure_factor"].items():
        yield f"largest S(q), {name}", _peak(factor)
    if found["bonds"]:
        yield "energy of a bond", _spread([bond["mean"] for bond in found["bonds"]])
    for name, values in found["sites"].items():
        yield f"<{name}> of a site", _spread(values["mean"])
    if found["dimers"]:
        yield "largest dimer, z", _largest_dimer(found["dimers"])
    for name, value in found["operators"].items():
        yield name, _number(value)
    yield "samples", _samples(found)
    yield "time", f"{found['seconds']:.1f} s"


def _number(value: Json, factor: float = 1.0) -> str:
    mean, error = value["mean"], value["error"]
    if mean is None:
        return "not finite"
    return with_error(mean * factor, math.inf if error is None else error * factor)


def _spread(values: list[float | None]) -> str:
    """Mean and extremes."""
    known = np.array(values, dtype=float)
    if not np.isfinite(known).all():
        return "not finite"
    low, mean, high = (round(float(x), 10) + 0.0 for x in (known.min(), known.mean(), known.max()))
    form = ".5f" if max(-low, high) < LARGE else ".5e"
    return f"{mean:{form}} on average, from {low:{form}} to {high:{form}}"


def _peak(factor: Json) -> str:
    means = np.array(factor["mean"], dtype=float)
    if not np.isfinite(means).all():
        return "not finite"
    place = int(means.argmax())
    value = {"mean": factor["mean"][place], "error": factor["error"][place]}
    qx, qy = (_in_pi(q) for q in factor["q"][place])
    return f"{_number(value)} at q = ({qx}, {qy})"


def _in_pi(q: float) -> str:
    part = q / math.pi
    return "pi" if part == 1 else "0" if part == 0 else f"{part:.3g} pi"


def _largest_dimer(dimers: Json) -> str:
    """The strongest correlation with a bond that shares no site with the reference."""
    reference = dimers["reference"]
    apart = [
        (abs(mean), place)
        for place, (bond, mean) in enumerate(zip(dimers["bonds"], dimers["mean"], strict=True))
        if mean is not None and not {*bond} & {*reference}
    ]
    if not apart:
        return "no bonds apart"
    place = max(apart)[1]
    value = {"mean": dimers["mean"][place], "error": dimers["error"][place]}
    return f"{_number(value)} between bonds {tuple(reference)} and {tuple(dimers['bonds'][place])}"


def _samples(found: Json) -> str:
    if found["drawn"] == "enumerate":
        return f"all {found['n_samples']} configurations"
    text = f"{found['n_samples']}"
    if found["effective_samples"] < 0.999 * found["n_samples"]:
        text += f" (worth {found['effective_samples']:.0f})"
    if found["chi"]:
        text += f" at chi = {found['chi']}"
    if found["pair_samples"]:
        text += f"; S.S of all pairs on {found['pair_samples']}"
        text += f" at chi = {found['pair_chi']}" if found["pair_chi"] else ""
    return text
