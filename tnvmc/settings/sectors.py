"""The settings of several sectors: one Hamiltonian, one [[sector]] for each state.

Every table becomes the completed settings of an ordinary run; what is wrong in any of them is told
before the first begins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path
from typing import Any

from tnvmc.limits import Json
from tnvmc.operators.sectors import check_magnetisation
from tnvmc.operators.term import Operator
from tnvmc.settings.build import build_operator
from tnvmc.settings.checks import conflicts
from tnvmc.settings.config import OrthogonalSettings, Settings
from tnvmc.settings.defaults import complete
from tnvmc.settings.load import validate, with_overrides
from tnvmc.settings.named_runs import check_parts, name_problem
from tnvmc.settings.problems import ConfigError, ConfigProblem, conflict
from tnvmc.settings.quantum_numbers import QuantumNumbers, quantum_numbers
from tnvmc.settings.sector_settings import SectorSettings

_LABEL = 'a label such as "triplet"'
_OWN_KEYS = {
    "sampler.magnetisation": "magnetisation", "optimizer.steps": "steps",
    "ansatz.symmetrise": "symmetrise", "ansatz.characters": "characters", "ansatz.init": "init",
}  # fmt: skip
"""Keys of a run that a sector may set, and what they are called there."""


@dataclass(frozen=True)
class Sectors:
    """Sectors whose runs can all be built; gaps count from the first."""

    data: Json  #: of the file, with what was set on the command line
    out: Path
    runs: Mapping[str, Settings]  #: completed, by the name of the sector
    operator: Operator
    numbers: Mapping[str, QuantumNumbers]
    orthogonal_to: Mapping[
        str, tuple[str, ...]
    ]  #: names of the sectors whose states each is kept off


def holds_sectors(data: Json) -> bool:
    """Tell whether the content of a file is that of several sectors."""
    return "sector" in data


def sectors(data: Json, overrides: Sequence[str] = (), default_name: str = "sectors") -> Sectors:
    """Check the content of a file, with ``--set`` overrides, and complete the settings of its runs.

    The runs have seeds of their own, one more for each sector, so that their samples are independent.

    Raises:
        ConfigError: one line for each problem of any sector, with its name.
    """
    merged = with_overrides(data, overrides)
    shared = validate(merged)
    if shared.sector is None:
        told = "one table or more, each headed [[sector]]"
        raise ConfigError(ConfigProblem("sector", "missing", told))
    tables = _named(shared.sector)
    out = Path(shared.run.out or Path("runs") / default_name)
    operator = build_operator(shared)
    runs: dict[str, Settings] = {}
    numbers: dict[str, QuantumNumbers] = {}
    problems: list[ConfigProblem] = []
    for number, (name, own) in enumerate(tables.items()):
        try:
            runs[name] = _as_run(shared, own, number, out / name)
            _check(runs[name], operator)
            numbers[name] = quantum_numbers(runs[name], operator)
        except ConfigError as error:
            problems += [_of_sector(name, problem) for problem in error.problems]
        except ValueError as error:
            problems.append(_of_sector(name, conflict("", str(error))))
    off = {name: own.orthogonal_to for name, own in tables.items()}
    if problems := problems or [*_alike(numbers, off)]:
        raise ConfigError(*problems)
    return Sectors(merged, out, runs, operator, numbers, off)


def _named(tables: Sequence[SectorSettings]) -> dict[str, SectorSettings]:
    """Give the tables by their names, which are those of folders."""
    named: dict[str, SectorSettings] = {}
    problems = []
    for number, table in enumerate(tables, 1):
        name = f"sector-{number}" if table.name is None else table.name
        problem = name_problem(f"sector.{number}.name", name, named, _LABEL)
        if problem is None:
            named[name] = table
        else:
            problems.append(problem)
    if problems:
        raise ConfigError(*problems)
    return named


def _as_run(shared: Settings, own: SectorSettings, number: int, out: Path) -> Settings:
    """Put what a sector has of its own into the settings of one run, and complete them."""
    if own.steps is not None and shared.stage:
        raise ConfigError(conflict("steps", "does not go with [[stage]], which have their own"))
    if own.penalty is not None and not own.orthogonal_to:
        raise ConfigError(conflict("penalty", "goes with orthogonal_to only", own.penalty))
    of_state = {"symmetrise": own.symmetrise, "characters": own.characters}
    if own.symmetrise is None:  # else the characters of [ansatz] are those of other symmetries
        of_state = _given(of_state)
    changes: dict[str, dict[str, Any]] = {
        "run": {"out": str(out), "seed": (shared.run.seed + number) % 2**63},
        "sampler": _given({"magnetisation": own.magnetisation}),
        "optimizer": _given({"steps": own.steps}),
        "ansatz": of_state | _given({"init": own.init}),
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


def _given(keys: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in keys.items() if value is not None}


def _check(run: Settings, operator: Operator) -> None:
    """Refuse a sector that the lattice does not have, and parts that do not fit together."""
    sector = run.sampler.magnetisation
    if sector is not None:
        check_magnetisation(operator.n_sites, operator.local_dim, sector)
    check_parts(run, operator)


def _alike(
    numbers: Mapping[str, QuantumNumbers], orthogonal_to: Mapping[str, Sequence[str]]
) -> Iterator[ConfigProblem]:
    """Refuse sectors that are the same, which would have one state, and names that are of no use."""
    names = list(numbers)
    for place, name in enumerate(names):
        above, off = names[:place], orthogonal_to[name]
        for other in (each for each in off if each not in above):
            why = f"'{other}' is not the name of a sector above this one"
            yield _of_sector(name, conflict("orthogonal_to", why))
        for other in above:
            same = all(one.hold(two) for one, two in permutations((numbers[name], numbers[other])))
            if same and other not in off:
                why = (
                    f"has the quantum numbers of '{other}', so both would have the same state; give it others, "
                    f'or orthogonal_to = ["{other}"] for the next level'
                )
                yield _of_sector(name, conflict("", why))
            if other in off and numbers[name].exclude(numbers[other]):
                why = f"states of '{other}' have other quantum numbers, so they are orthogonal; leave it out"
                yield _of_sector(name, conflict("orthogonal_to", why))


def _of_sector(name: str, problem: ConfigProblem) -> ConfigProblem:
    key = _OWN_KEYS.get(problem.key, problem.key)
    return replace(problem, key=f"sector '{name}'" + (f": {key}" if key else ""))
