"""Sectors: one ``[[sector]]`` for each set of quantum numbers, and the gaps above the first."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path
from typing import Any

from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.limits import Json
from tnvmc.operators.basis import check_magnetisation
from tnvmc.operators.properties import rotation_invariant
from tnvmc.operators.symmetry import same_levels
from tnvmc.operators.term import Operator
from tnvmc.series import kind as base
from tnvmc.series.expansion import check_parts, completed, given, later_seed, named, of_run, out_of
from tnvmc.series.level_checks import (
    SectorRow,
    changed_since,
    judged,
    sector_references,
    sigmas_off,
    with_key,
)
from tnvmc.settings.build import QuantumNumbers, quantum_numbers
from tnvmc.settings.config import OrthogonalSettings, SectorSettings, Settings, build_operator
from tnvmc.settings.defaults import complete
from tnvmc.settings.load import validate
from tnvmc.settings.problems import ConfigError, ConfigProblem, conflict
from tnvmc.settings.rules import conflicts
from tnvmc.shown import fixed, with_error
from tnvmc.storage.run_files import Run
from tnvmc.trust.reference import Reference


@dataclass(frozen=True)
class Sectors:
    """The quantum numbers of each sector, and the sectors that it is kept orthogonal to."""

    numbers: Mapping[str, QuantumNumbers]
    orthogonal_to: Mapping[str, tuple[str, ...]]


class SectorsKind(base.SeriesKind):
    """The lowest states of several sectors; gaps count from the first in the file."""

    name, title, run, rows = "sectors", "several sectors", "sector", "levels"
    unfinished = Diagnostic("sector_unfinished", "error")
    not_begun = Diagnostic("sector_not_begun", "error")
    own_keys = {  # noqa: RUF012
        "sampler.magnetisation": "magnetisation", "optimizer.steps": "steps",
        "ansatz.symmetrise": "symmetrise", "ansatz.characters": "characters",
        "ansatz.init": "init",
    }  # fmt: skip

    def requested(self, data: Json) -> bool:
        return "sector" in data

    def expand(self, data: Json, default_name: str) -> base.Series:
        """The runs have seeds of their own, so that their samples are independent."""
        shared = validate(data)
        if shared.sector is None:
            text = "one table or more, each headed [[sector]]"
            raise ConfigError(ConfigProblem("sector", "missing", text))
        own = [f"sector-{n}" if t.name is None else t.name for n, t in enumerate(shared.sector, 1)]
        names = named("sector", own, 'a label such as "triplet"')
        tables = dict(zip(names, shared.sector, strict=True))
        out, operator = out_of(shared, default_name), build_operator(shared)
        numbers: dict[str, QuantumNumbers] = {}

        def make(name: str) -> Settings:
            run = _as_run(shared, tables[name], names.index(name), out / name)
            if (sector := run.sampler.magnetisation) is not None:
                check_magnetisation(operator.n_sites, operator.local_dim, sector)
            check_parts(run, operator)
            numbers[name] = quantum_numbers(run, operator)
            return run

        runs = completed(self, names, make)
        sectors = Sectors(numbers, {name: own.orthogonal_to for name, own in tables.items()})
        if problems := [*self._alike(sectors, operator)]:
            raise ConfigError(*problems)
        return base.Series(self, data, out, runs, operator, sectors)

    def _fixed(self, run: Json) -> dict[str, Any]:
        state, kept = run["ansatz"], run.get("orthogonal", ())
        return super()._fixed(run) | {
            "magnetisation": run["sampler"].get("magnetisation"),
            **{key: state.get(key) for key in ("symmetrise", "characters")},
            "orthogonal_to": [Path(each["run"]).name for each in kept],
            "penalty": [each.get("penalty") for each in kept],
        }

    def refuse_changes(self, series: base.Series, before: Json) -> None:
        """Refuse also more steps of a state that another is orthogonal to."""
        super().refuse_changes(series, before)
        begun = base.begun_runs(series)
        for name, config in begun.items():
            off = series.details.orthogonal_to
            dependent = [each for each in begun if name in off[each]]
            if dependent and not base.asks_no_more(config, series.runs[name].as_dict()):
                raise ConfigError(
                    f"sector '{name}': would go on with other settings, and '{dependent[0]}' is "
                    "kept orthogonal to its state as it is; choose another --out, or change "
                    "settings of that one only (sector.N.steps)"
                )

    def references(self, series: base.Series, before: Json) -> Mapping[str, Reference]:
        return sector_references(series)

    def row(self, series: base.Series, run: Run, reference: Reference) -> SectorRow:
        name, result = run.path.name, run.result
        assert result is not None
        values, state = base.row_values(run, SectorRow), series.runs[name].ansatz
        told = [with_key(series, name, each) for each in values["diagnostics"]]
        return SectorRow(**values | {
            "exact": reference,
            "sigmas": sigmas_off(result["energy"], result["energy_error"], reference),
            "diagnostics": (*told, *changed_since(series, name)),
            "symmetrise": tuple(state.symmetrise or ()),
            "characters": dict(state.characters or {}),
            "orthogonal_to": series.details.orthogonal_to[name],
            "overlaps": tuple(result.get("overlaps") or ()),
        })  # fmt: skip

    def table(self, series: base.Series, rows: Any, left_out: Any, known: Any) -> base.SeriesTable:
        first, numbers = next(iter(series.runs)), series.details.numbers
        rows = judged(rows, first, numbers, rotation_invariant(series.operator))
        return base.SeriesTable(self, rows, left_out, base.about(series) | {"first": first})

    def columns(self, table: base.SeriesTable) -> tuple[base.Column, ...]:
        return tuple(
            base.Column(title, text, optional=True)
            for title, text in {
                "sector": lambda row: row.name,
                "2 Sz": lambda row: base.or_dash(row.magnetisation, str),
                "symmetry": _symmetry,
                "orthogonal to": lambda row: ", ".join(row.orthogonal_to) or "-",
                "energy": lambda row: with_error(row.energy, row.energy_error),
                "V-score": lambda row: f"{row.v_score:.1e}",
                "exact": lambda row: base.or_dash(row.exact.energy, lambda x: fixed(x, 6)),
                "E: errors off": lambda row: base.or_dash(row.sigmas, "{:+.1f}".format),
                "gap": lambda row: base.or_dash(row.gap, lambda g: with_error(g.energy, g.error)),
                "exact gap": lambda row: base.or_dash(row.exact_gap, lambda x: fixed(x, 6)),
                "gap: errors off": lambda row: base.or_dash(row.gap_sigmas, "{:+.1f}".format),
            }.items()
        )

    def headline(self, table: base.SeriesTable) -> str:
        about = table.about
        return f"energies are totals in {about['units']} units, gaps count from '{about['first']}'"

    def notes(self, table: base.SeriesTable) -> Iterator[tuple[str, str | Diagnostic]]:
        for row in table.rows:
            overlaps = row.overlaps[-len(row.orthogonal_to) :]
            for other, each in zip(row.orthogonal_to, overlaps, strict=False):
                squared = with_error(each["squared"], each["error"])
                yield row.name, f"squared overlap with {other}: {squared}"
            if row.exact.energy is not None and row.exact.method != "exact":
                value = with_error(row.exact.energy, row.exact.error or 0.0)
                yield row.name, f'"exact" is {row.exact.method}: {value} ({row.exact.source})'
            yield from ((row.name, each) for each in row.diagnostics)
            for each in row.gap.diagnostics if row.gap is not None else ():
                if each.status != "good":
                    yield f"{row.name}: gap", each

    def picture(self, series: base.Series, table: base.SeriesTable) -> base.Curves:
        """The first is drawn with the error of its energy, others with that of a gap they have."""
        first = table.rows[0]
        rows = [row for row in table.rows if row is first or row.gap is not None]
        methods = {row.exact.method for row in rows if row.exact.energy is not None}
        known = any(row.exact_gap is not None for row in rows)
        levels = base.Curve(
            f"E − E({first.name}) ({first.units} units)",
            range(len(rows)),
            [0.0 if row.gap is None else row.gap.energy for row in rows],
            [row.energy_error if row.gap is None else row.gap.error for row in rows],
            [0.0 if row is first and known else row.exact_gap for row in rows],
        )
        exact = "exact" if methods == {"exact"} else "reference"
        return base.Curves([levels], "", "levels", list(map(_labels, rows)), exact)

    def _alike(self, sectors: Sectors, operator: Operator) -> Iterator[ConfigProblem]:
        """Yield sectors that are the same, or have the same energies, and names of no use."""
        numbers, names = sectors.numbers, list(sectors.numbers)
        levels = {}
        for name, own in numbers.items():
            same = same_levels(operator, own.magnetisation, bool(own.group))
            levels[name] = replace(own, magnetisation=same)
        for place, name in enumerate(names):
            above, off = names[:place], sectors.orthogonal_to[name]
            for other in (each for each in off if each not in above):
                why = f"'{other}' is not the name of a sector above this one"
                yield of_run(self, name, conflict("orthogonal_to", why))
            for other in above:
                pairs = permutations((levels[name], levels[other]))
                if other not in off and all(one.hold(two) for one, two in pairs):
                    hint = f'others, or orthogonal_to = ["{other}"] for the next level'
                    if numbers[name].exclude(numbers[other]):
                        hint = "others: this Hamiltonian maps 2 Sz on -2 Sz"
                    why = f"has the energies of '{other}', and the same lowest one; give it {hint}"
                    yield of_run(self, name, conflict("", why))
                if other in off and numbers[name].exclude(numbers[other]):
                    why = f"states of '{other}' have other quantum numbers: leave it out"
                    yield of_run(self, name, conflict("orthogonal_to", why))


def _as_run(shared: Settings, own: SectorSettings, number: int, out: Path) -> Settings:
    """Put what a sector has of its own into the settings of one run, and complete them."""
    if own.steps is not None and shared.stage:
        raise ConfigError(conflict("steps", "does not go with [[stage]], which have their own"))
    if own.penalty is not None and not own.orthogonal_to:
        raise ConfigError(conflict("penalty", "goes with orthogonal_to only", own.penalty))
    of_state = {"symmetrise": own.symmetrise, "characters": own.characters}
    if own.symmetrise is None:  # else the characters of [ansatz] are those of other symmetries
        of_state = given(of_state)
    changes: dict[str, dict[str, Any]] = {
        "run": {"out": str(out), "seed": later_seed(shared, number)},
        "sampler": given({"magnetisation": own.magnetisation}),
        "optimizer": given({"steps": own.steps}),
        "ansatz": of_state | given({"init": own.init}),
    }
    kept = [
        OrthogonalSettings(run=str(out.parent / name), penalty=own.penalty)
        for name in own.orthogonal_to
    ]
    orthogonal = (*(shared.orthogonal or ()), *kept) or None
    run = shared.model_copy(update={"sector": None, "orthogonal": orthogonal}).changed(changes)
    if problems := conflicts(run):
        raise ConfigError(*problems)
    return complete(run)


def _signs(characters: Mapping[str, int], minus: str = "-") -> list[str]:
    return [f"{name} {'+' if sign > 0 else minus}1" for name, sign in characters.items()]


def _symmetry(row: SectorRow) -> str:
    """Write which symmetries a state has: "spin", "spin (spin inversion -1)"."""
    signs = ", ".join(_signs(row.characters))
    return ", ".join(row.symmetrise) + (f" ({signs})" if signs else "") or "-"


def _labels(row: SectorRow) -> tuple[str, ...]:
    """Write on lines of its own what tells a sector from the others."""
    lines = [row.name, *([] if row.magnetisation is None else [f"2 Sz = {row.magnetisation}"])]
    lines += _signs(row.characters, "−")
    if row.symmetrise and not row.characters:
        lines.append("summed over " + ", ".join(row.symmetrise))
    if row.orthogonal_to:
        lines.append("orthogonal to " + ", ".join(row.orthogonal_to))
    return tuple(lines)
