"""What of the settings of a run that was begun may change, and what may not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tnvmc.limits import Json
from tnvmc.series.kind import Series
from tnvmc.settings.load import read_toml
from tnvmc.settings.problems import ConfigError
from tnvmc.storage.identity import differences
from tnvmc.storage.run_files import asks_the_same
from tnvmc.storage.run_folder import CONFIG

Setting = Callable[[Json], Any]
"""Gives one setting of the content of config.toml."""


def begun_runs(series: Series) -> dict[str, Json]:
    """Give the settings of the runs that were begun, by their names."""
    files = {name: series.out / name / CONFIG for name in series.runs}
    return {name: read_toml(file) for name, file in files.items() if file.is_file()}


def refuse_other_problem(series: Series, own: Mapping[str, Setting]) -> None:
    """Refuse runs that would go on with another Hamiltonian, state or seed.

    Args:
        series: with the settings that are asked for now.
        own: more settings that a run keeps, by the names under which they are told.

    Raises:
        ConfigError: the first setting that is another one.
    """
    for name, before in begun_runs(series).items():
        now, place = series.runs[name].as_dict(), series.out / name
        for key, of_run in {**own, "seed": _seed, **_of_problem(now)}.items():
            if of_run(before) != of_run(now):
                raise ConfigError(
                    f"{series.kind.run} '{name}': {key} = {_text(of_run(now))}: the run in {place} "
                    f"was begun with {_text(of_run(before))}; choose another --out"
                )


def asks_no_more(before: Json, now: Json) -> bool:
    """Tell whether a run with the settings `before` has done what is asked `now`, or more."""
    made, asked = before["optimizer"]["steps"], now["optimizer"]["steps"]
    steps = {**now["optimizer"], "steps": made}
    after = {**now, "optimizer": steps, "ansatz": _with_start_moved(before, now)}
    return bool(asked <= made) and asks_the_same(before, after)


def unlike(one: Json, other: Json) -> list[str]:
    """Give the settings in which two runs differ that have an influence on the result."""
    if asks_the_same(one, other):
        return []

    def relevant(config: Json) -> Json:
        rest = {name: part for name, part in config.items() if name != "run"}
        return {**rest, "run.seed": _seed(config)}

    return differences(relevant(one), relevant(other))


def _with_start_moved(before: Json, now: Json) -> Json:
    """Give [ansatz] with the path of its start as it was, where all runs were moved together."""
    old, new = (Path(str(each["ansatz"].get("init"))) for each in (before, now))
    own = Path(str(now["run"].get("out"))).parent
    return (
        {**now["ansatz"], "init": str(old)}
        if (new.parent, new.name) == (own, old.name)
        else now["ansatz"]
    )


def _of_problem(now: Json) -> dict[str, Setting]:
    keys = {"lattice": now["lattice"], "hamiltonian": now["hamiltonian"], "ansatz": ("kind", "D")}
    return {
        f"{section}.{key}": partial(_setting, section, key)
        for section, names in keys.items()
        for key in names
    }


def _setting(section: str, key: str, run: Json) -> Any:
    return run[section].get(key)


def _seed(config: Json) -> Any:
    return (config.get("run") or {}).get("seed")


def _text(value: Any) -> str:
    """Write a setting: what is not set is the default."""
    if isinstance(value, list):
        return ", ".join(map(_text, value)) or "none"
    return "the default" if value is None else str(value)
