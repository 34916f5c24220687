"""From one settings file to the settings of several runs: names, and what is wrong with which."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tnvmc.ansatz.protocol import Ansatz
from tnvmc.backend.device import namespace_of
from tnvmc.operators.term import Operator
from tnvmc.series.kind import SeriesKind
from tnvmc.settings.build import build_ansatz, build_sampler, build_theta
from tnvmc.settings.checks import check_symmetries
from tnvmc.settings.config import Settings
from tnvmc.settings.problems import ConfigError, ConfigProblem, conflict

_NAME = re.compile(r"\w[\w .,=+()-]*")
_RESERVED = ("pictures",)


def named(section: str, names: Sequence[Any], label: str) -> list[str]:
    """Check the names of runs, which are those of folders.

    Args:
        section: whose tables have these names.
        names: what they say, None where nothing stands.
        label: what a name should be, with an example.

    Raises:
        ConfigError: names that are missing, cannot be folders, or stand twice.
    """
    problems, taken = [], set()
    for number, name in enumerate(names, 1):
        where = f"{section}.{number}.name"
        if name is None:
            problems.append(ConfigProblem(where, "missing", label))
        elif not isinstance(name, str) or not _NAME.fullmatch(name) or name.lower() in _RESERVED:
            text = f"{label}; this cannot be a folder"
            problems.append(ConfigProblem(where, "not_allowed", text, name))
        elif name.lower() in taken:
            problems.append(conflict(where, "taken by a block before", name))
        else:
            taken.add(name.lower())
    if problems:
        raise ConfigError(*problems)
    return list(names)


def completed(
    kind: SeriesKind, names: Iterable[str], make: Callable[[str], Settings]
) -> dict[str, Settings]:
    """Make the settings of every run, and say of all that cannot be what is wrong with them.

    Raises:
        ConfigError: one line for each problem, with the name of the run.
    """
    runs: dict[str, Settings] = {}
    problems: list[ConfigProblem] = []
    for name in names:
        try:
            runs[name] = make(name)
        except ConfigError as error:
            problems += [of_run(kind, name, problem) for problem in error.problems]
        except ValueError as error:
            problems.append(of_run(kind, name, conflict("", str(error))))
    if problems:
        raise ConfigError(*problems)
    return runs


def of_run(kind: SeriesKind, name: str, problem: ConfigProblem) -> ConfigProblem:
    """Give a problem of one run with its name, and the key as it stands in the file."""
    key = problem.key
    for long, short in kind.own_keys.items():
        if key == long or (long.endswith(".") and key.startswith(long)):
            key = short + key.removeprefix(long)
    return replace(problem, key=f"{kind.run} '{name}'" + (f": {key}" if key else ""))


def given(keys: Mapping[str, Any]) -> dict[str, Any]:
    """Give the keys that are set."""
    return {key: value for key, value in keys.items() if value is not None}


def out_of(settings: Settings, default_name: str) -> Path:
    """Give the folder of all runs."""
    return Path(settings.run.out or Path("runs") / default_name)


def later_seed(settings: Settings, by: int) -> int:
    """Give a seed that is larger by a number, within the limit of seeds."""
    return (settings.run.seed + by) % 2**63


def check_parts(settings: Settings, operator: Operator, with_start: bool = True) -> Ansatz:
    """Build all that a run is made of, and give its wave function.

    The start is left out where it takes its time (simple update, which fits a PEPS or an MPS), and
    where it is not there yet (not `with_start`).

    Raises:
        ValueError: parts that do not fit together.
    """
    namespace_of(settings.run.device)
    ansatz = build_ansatz(settings, operator)
    build_sampler(settings, operator)
    check_symmetries(settings, operator)
    if with_start and settings.ansatz.leading.init != "simple_update":
        build_theta(settings, operator, ansatz)
    return ansatz
