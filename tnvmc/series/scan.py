"""Scans: a coupling, a field or the size runs through the values of ``[scan]``.

Each run starts from the state of the one before it, or from a start of its own where the size
changes and the state has no bulk (`ansatz.edge`) that fits another lattice.
"""

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.estimate.observable_set import ObservableSet
from tnvmc.estimate.statistics import of_many
from tnvmc.limits import Json
from tnvmc.operators.order import ORDERS, order_parameter, order_parts
from tnvmc.operators.term import Operator
from tnvmc.series import kind as base
from tnvmc.series.expansion import check_parts, completed, later_seed, out_of
from tnvmc.settings.config import ScanSettings, Settings, build_operator
from tnvmc.settings.defaults import complete
from tnvmc.settings.load import parse, validate
from tnvmc.settings.problems import ConfigError, ConfigProblem, conflict
from tnvmc.shown import with_error
from tnvmc.storage.run_files import Run, is_outdated
from tnvmc.trust.gaps import SIGNIFICANT
from tnvmc.trust.reference import Reference

SIZE = "lattice.shape"
_OF_SITES = ("Sz", "Sx", "n", "nupdn")


@dataclass(frozen=True, kw_only=True)
class ScanRow(base.Row):
    """The energy at one value."""

    value: Any  #: a number, or the shape of a lattice
    exact_energy_per_site: float | None = None
    exact_method: str | None = None  #: as "exact" or "QMC"
    exact_error: float | None = None  #: of the total
    observables: Mapping[str, Any] = field(default_factory=dict)  #: mean and error by name

    def as_dict(self) -> dict[str, Any]:
        """The content of the table's file, with the sites of each."""
        return super().as_dict() | {"n_sites": self.n_sites}

    @property
    def place(self) -> float:
        """Where it stands on the axis; a lattice at its number of sites."""
        return float(self.n_sites if isinstance(self.value, list) else self.value)

    @property
    def off(self) -> float | None:
        """Energy less the exact one, in errors."""
        known, (energy, error) = self.exact_energy_per_site, self.per_site
        error = math.hypot(error, (self.exact_error or 0.0) / self.n_sites)
        return None if known is None or not error else (energy - known) / error


class ScanKind(base.SeriesKind):
    """One run for each value of a key, in the order of the file."""

    name, title, chained = "scan", "a scan", True

    def requested(self, data: Json) -> bool:
        return "scan" in data

    def expand(self, data: Json, default_name: str) -> base.Series:
        """The runs have seeds of their own, so that their samples are independent."""
        if not isinstance(content := data.get("scan"), Mapping):
            raise ConfigError(ConfigProblem("scan", "not_allowed", "a section, [scan]", content))
        scan = parse(ScanSettings, content, "scan")
        values, plain = _values(scan), {k: part for k, part in data.items() if k != "scan"}
        names = list(values)
        shared = validate(changed(plain, scan.key, values[names[0]]))
        refuse_others(shared)
        out = out_of(shared, default_name)
        made: list[Settings] = []

        def make(name: str) -> Settings:
            own = validate(changed(plain, scan.key, values[name]))
            place = {"out": str(out / name), "seed": later_seed(shared, names.index(name))}
            made.append(_as_run(own.changed({"run": place}), made[-1] if made else None, scan.key))
            check_parts(made[-1], build_operator(made[-1]), with_start=len(made) == 1)
            return made[-1]

        runs = completed(self, names, make)
        operator = build_operator(made[0])
        observables = checked_observables(scan.observables, operator, "scan")
        return base.Series(self, data, out, runs, operator, (scan.key, values), observables)

    def _fixed(self, run: Json) -> dict[str, Any]:
        start = Path(str(run["ansatz"].get("init")))  # all runs may have been moved together
        return {**super()._fixed(run), "ansatz.init": start.name}

    def row(self, series: base.Series, run: Run, reference: Reference) -> ScanRow:
        values = base.row_values(run, ScanRow)
        held = {} if is_outdated(run) else run.observables or {}
        found = {name: observed_value(held, name) for name in series.observables}
        return ScanRow(**values | {
            "value": series.details[1][run.path.name],
            "observables": {name: value for name, value in found.items() if value is not None},
        })  # fmt: skip

    def table(self, series: base.Series, rows: Any, left_out: Any, known: Any) -> base.SeriesTable:
        key, values = series.details
        section, *names = key.split(".")
        content = base.about(series)
        content[section] = {k: v for k, v in content[section].items() if names != [k]}
        content |= {"key": key, "values": list(values.values())}
        return base.SeriesTable(self, rows if key == SIZE else concave(rows), left_out, content)

    def columns(self, table: base.SeriesTable) -> tuple[base.Column, ...]:
        names = dict.fromkeys(name for row in table.rows for name in row.observables)
        spin = " (S = 1/2)" if table.about["units"] == "Pauli" else ""  # energies are not
        return (
            base.Column(table.about["key"].split(".")[-1], lambda row: _written(row.value)),
            base.Column("energy per site", lambda row: with_error(*row.per_site)),
            base.Column(
                "exact",
                lambda r: base.or_dash(r.exact_energy_per_site, "{:.6f}".format),
                optional=True,
            ),
            base.Column(
                "errors off", lambda row: base.or_dash(row.off, "{:+.1f}".format), optional=True
            ),
            base.Column("V-score", lambda row: f"{row.v_score:.1e}"),
            base.Column("steps", lambda row: str(row.steps)),
            *(base.Column(name + spin, partial(_observable, name)) for name in names),
        )

    def headline(self, table: base.SeriesTable) -> str:
        first, *_, last = map(_written, table.about["values"])
        return f"{table.about['key']} from {first} to {last}; {super().headline(table)}"

    def notes(self, table: base.SeriesTable) -> Iterator[tuple[str, str | Diagnostic]]:
        if others := sorted({r.exact_method for r in table.rows} - {None, "exact"}):
            yield "", f'"exact" is from {", ".join(others)} where no exact energy is known'
        yield from super().notes(table)

    def picture(self, series: base.Series, table: base.SeriesTable) -> base.Curves:
        """Energy per site and every observable against the value."""
        key = table.about["key"]
        rows = sorted(table.rows, key=lambda row: row.place)
        energies = [row.per_site for row in rows]
        exact = [row.exact_energy_per_site for row in rows]
        units = table.about["units"]
        curves = [_curve(f"energy per site ({units} units)", rows, energies, exact)]
        for name in series.observables:
            some = [row for row in rows if name in row.observables]
            values = [tuple(row.observables[name].values()) for row in some]
            curves += [_curve(_axis(name), some, values)] if some else []
        axis = "number of sites" if key == SIZE else key.removeprefix("hamiltonian.")
        return base.Curves(curves, axis, self.name)


def checked_observables(names: Sequence[str], operator: Operator, section: str) -> tuple[str, ...]:
    """Give the names, each once; refuse what is not measured of this model."""
    for each in names:
        if each in ORDERS:
            about = each, operator.lattice, operator.local_dim, operator.fermions
            try:
                order_parts(*about) or order_parameter(*about)
            except ValueError as error:
                raise ConfigError(conflict(f"{section}.observables", str(error))) from None
        elif each not in (measured := ObservableSet(operator).names):
            why = f"is not measured of this model, as {', '.join(sorted(measured))} are"
            raise ConfigError(conflict(f"{section}.observables", why, each))
    return tuple(dict.fromkeys(names))


def observed_value(held: Json, name: str) -> dict[str, float] | None:
    """Give "mean" and "error" of one observable; None where observables.json does not have it."""
    found = (held.get("operators") or {}).get(name) if name in ORDERS else held.get(name)
    if name in _OF_SITES:
        found = ((held.get("averages") or {}).get("sites") or {}).get(name)
    elif factor := (held.get("structure_factor") or {}).get(name):
        means = [-math.inf if mean is None else mean for mean in factor["mean"]]
        largest = means.index(max(means))
        found = {key: factor[key][largest] for key in ("mean", "error")}
    if not found or None in (found["mean"], found["error"]):
        return None
    return {key: found[key] for key in ("mean", "error")}


def _curve(
    axis: str, rows: Sequence[ScanRow], values: Any, exact: Sequence[Any] = ()
) -> base.Curve:
    means, errors = zip(*values, strict=True)
    return base.Curve(axis, [row.place for row in rows], means, errors, exact)


def _axis(name: str) -> str:
    if name in ORDERS:
        return f"m² of {name}"
    of_pairs = "M², staggered" if name.startswith("staggered") else f"largest S(q) of {name}"
    return f"mean {name} of a site" if name in _OF_SITES else of_pairs


def _observable(name: str, row: ScanRow) -> str:
    return base.or_dash(row.observables.get(name), lambda found: with_error(*found.values()))


def _written(value: Any) -> str:
    """Write a value as in the name of its run: "0.5", "4x4"; a mean by its name."""
    if value == "mean":
        return "mean"
    return "x".join(map(str, value)) if isinstance(value, list) else f"{value:.12g}"


def _values(scan: ScanSettings) -> dict[str, Any]:
    """Give the values by the names of their runs; refuse one value, or one that stands twice."""
    section, _, name = scan.key.partition(".")
    if scan.key != SIZE and (section != "hamiltonian" or name in ("", "model")):
        why = "must be a coupling or a field, as hamiltonian.h, or lattice.shape"
        raise ConfigError(conflict("scan.key", why, scan.key))
    values: Any = scan.values
    if len(values) < 2:
        raise ConfigError(conflict("scan.values", "must be two values or more", values))
    label = name.split(".")[-1]
    named = {f"{label}={_written(value)}": value for value in values}
    if len(named) < len(values):
        raise ConfigError(conflict("scan.values", "holds a value twice", values))
    return named


def changed(data: Json, key: str, value: Any) -> dict[str, Any]:
    """Give the content of a file with one key changed; tables of a list have numbers from 1 on."""
    changed = copy.deepcopy(dict(data))
    *path, last = key.split(".")
    place: Any = changed
    try:
        for part in path:
            listed = dict(enumerate(place, 1)) if isinstance(place, list) else None
            place = listed[int(part)] if listed else place.setdefault(part, {})
        place[last] = value
    except (AttributeError, LookupError, TypeError, ValueError):
        raise ConfigError(conflict("scan.key", "names nothing in this file", key)) from None
    return changed


def refuse_others(shared: Settings, section: str = "scan") -> None:
    """Refuse what makes several runs, or stages, of each value."""
    held = [f"[[{name}]]" for name in ("stage", "sector", "orthogonal") if getattr(shared, name)]
    held += ["[scan]"] if section != "scan" and shared.scan else []
    held += ["run.starts"] if (shared.run.starts or 1) > 1 else []
    if held:
        raise ConfigError(*(conflict(name, f"does not go with [{section}]") for name in held))


def _as_run(own: Settings, before: Settings | None, key: str) -> Settings:
    """Complete the settings at one value, which starts from the state of the run before it."""
    state = own.ansatz
    if before is None or (key == SIZE and getattr(state, "edge", None) is None):
        return complete(own)
    start: dict[str, Any] = {"init": str(before.run.out), "init_noise": None}
    if state.has_bonds:  # as the state before shares its tensors
        shares = ("sharing", "edge", "period")
        start |= {name: getattr(before.ansatz, name) for name in shares}
    return complete(own.changed({"ansatz": start}))


def concave(rows: Sequence[ScanRow]) -> tuple[ScanRow, ...]:
    """Give rows with a warning at each energy below the line between its two neighbours.

    The Hamiltonian is linear in its couplings, so that exact ground-state energies are concave:
    there one of the two neighbours lies too high.
    """
    ordered = sorted(rows, key=lambda row: row.place)
    judged = {row.name: row for row in rows}
    limit = of_many(SIGNIFICANT, len(rows) - 2)
    for left, row, right in zip(ordered, ordered[1:], ordered[2:], strict=False):
        part = (row.place - left.place) / (right.place - left.place)
        distance = (1 - part) * left.energy + part * right.energy - row.energy
        errors = row.energy_error, (1 - part) * left.energy_error, part * right.energy_error
        error = max(math.hypot(*errors), 1e-6 * abs(row.energy))
        if distance > limit * error:
            values = {"left": left.name, "right": right.name, "sigmas": distance / error}
            values |= {"distance": distance / row.n_sites}
            found = Diagnostic("not_concave", "warning", values)
            judged[row.name] = replace(row, diagnostics=(*row.diagnostics, found))
    return tuple(judged.values())
