"""Reading settings: TOML file and ``--set`` overrides in, checked and completed `Settings` out.

Every problem becomes one short line: key, value given, what is allowed, nearest known key.
"""

from __future__ import annotations

import copy
import difflib
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from tnvmc.settings.config import OptimizerSettings, Settings, StageSettings, couplings_of
from tnvmc.settings.network_settings import (
    ansatz_problems,
    completed_ansatz,
    completed_contraction,
    completed_sampler,
    keys_of,
    sector_problems,
)
from tnvmc.settings.stages import (
    LEARNING_RATE,
    complete_stages,
    set_by_every_stage,
    stage_problems,
)

_BARE_WORD = re.compile(r"[A-Za-z_~./][\w~./\-]*")
_LITERAL_KINDS = ("literal_error", "enum")


class ConfigError(ValueError):
    """Settings that cannot run; `lines` holds one short line for each problem."""

    def __init__(self, *lines: str) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines


def load(path: Path, overrides: Sequence[str] = ()) -> Settings:
    """Read, check and complete the settings of a TOML file.

    Raises `ConfigError`, with one line for each problem.
    """
    data = read_toml(path)
    if isinstance(data.get("ansatz"), list):
        raise ConfigError(f"{path}: a comparison (it has [[ansatz]]); use tnvmc compare {path}")
    return complete(validate(data, overrides), default_name=path.stem)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file, raising `ConfigError` where it is missing or not TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path}: not a text file; settings are TOML in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: not valid TOML: {error}") from None


def validate(data: Mapping[str, Any], overrides: Sequence[str] = ()) -> Settings:
    """Check nested dicts (with ``section.key=value`` overrides) against what is allowed."""
    merged = copy.deepcopy(dict(data))
    for override in overrides:
        apply_override(merged, override)
    try:
        settings = Settings.model_validate(merged)
    except ValidationError as error:
        lines = [_explain(problem["type"], problem["loc"], merged) for problem in error.errors()]
        raise ConfigError(*dict.fromkeys(lines)) from None
    problems = _inconsistencies(settings)
    if problems:
        raise ConfigError(*problems)
    return settings


def apply_override(data: dict[str, Any], override: str) -> None:
    """Change one key of nested dicts, as ``--set section.key=value`` does.

    Raises `ConfigError` where the text is no such thing.
    """
    path, equals, text = override.partition("=")
    keys = [key.strip() for key in path.split(".")]
    if not equals or len(keys) != (3 if keys[0] == "stage" else 2) or not all(keys):
        raise ConfigError(
            f"--set {override}: must be section.key=value, e.g. ansatz.D=4 (stage.2.D=4 for the "
            "second [[stage]])"
        )
    text = text.strip()
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        if not _BARE_WORD.fullmatch(text):
            raise ConfigError(f"--set {override}: {text!r} is not a TOML value") from None
        value = text
    if len(keys) == 3:
        section = _stage(data, keys[1], override)
    else:
        section = data.setdefault(keys[0], {})
        if objection := set_by_every_stage(data.get("stage"), *keys):
            raise ConfigError(f"--set {override}: {objection}")
    if isinstance(section, dict):
        section[keys[-1]] = value


def _stage(data: Mapping[str, Any], number: str, override: str) -> Any:
    stages = data.get("stage")
    n_stages = len(stages) if isinstance(stages, list) else 0
    if not stages or not number.isdecimal() or not 1 <= int(number) <= n_stages:
        raise ConfigError(f"--set {override}: no stage {number}; the settings have {n_stages}")
    return stages[int(number) - 1]


def _explain(kind: str, location: tuple[int | str, ...], data: Mapping[str, Any]) -> str:
    """Turn one of pydantic's errors into a line for a person."""
    section, *rest = (str(part) for part in location)
    if section not in Settings.model_fields:
        return f"[{section}]: unknown section{_nearest(section, Settings.model_fields)}"
    if section == "stage":
        return _explain_stage(kind, rest, data[section])
    fields = _fields(section)
    if not rest:
        if kind == "missing":
            needed = [key for key, field in fields.items() if field.is_required()]
            return f"[{section}]: section missing; it must hold {', '.join(needed)}"
        return f"{section} = {_show(data[section])}: must be a section, [{section}]"
    return _explain_key(kind, section, section, rest, data[section])


def _explain_stage(kind: str, rest: Sequence[str], stages: Any) -> str:
    if not rest:
        return f"stage = {_show(stages)}: must be one table or more, each headed [[stage]]"
    index = int(rest[0])
    where = f"stage.{index + 1}"
    if len(rest) == 1:
        return f"{where} = {_show(stages[index])}: must be a table, headed [[stage]]"
    return _explain_key(kind, "stage", where, rest[1:], stages[index])


def _explain_key(
    kind: str, section: str, where: str, rest: Sequence[str], table: Mapping[str, Any]
) -> str:
    fields, key = _fields(section), rest[0]
    if kind == "extra_forbidden" and len(rest) == 1:
        known = {key: fields[key] for key in _ansatz_keys(table)} if section == "ansatz" else fields
        return f"{where}.{key}: unknown key{_nearest(key, known, section)}"
    allowed = fields[key].description
    if kind == "missing" and len(rest) == 1:
        return f"{where}.{key}: missing; must be {allowed}"
    value = table[key]
    hint = ""
    if kind in _LITERAL_KINDS and isinstance(value, str):
        close = difflib.get_close_matches(value.lower(), re.findall(r"\w+", allowed or ""), 1)
        hint = f"; did you mean '{close[0]}'?" if close else ""
    return f"{where}.{key} = {_show(value)}: must be {allowed}{hint}"


def _ansatz_keys(table: Mapping[str, Any]) -> tuple[str, ...]:
    return ("kind", *keys_of(str(table.get("kind", "peps"))))


def _fields(section: str) -> Mapping[str, Any]:
    if section == "stage":
        return StageSettings.model_fields
    model = Settings.model_fields[section].annotation
    assert isinstance(model, type) and issubclass(model, BaseModel)
    return model.model_fields


def _nearest(name: str, known: Mapping[str, Any], section: str | None = None) -> str:
    """Name the closest known key: of this section, else the same key of another one."""
    lowered = {key.lower(): key for key in known}
    close = difflib.get_close_matches(name.lower(), lowered, 1, cutoff=0.6)
    if close:
        return f"; did you mean '{lowered[close[0]]}'?"
    if section is not None:
        homes = [other for other in Settings.model_fields if name in _fields(other)]
        if homes:
            return f"; it belongs to [{homes[0]}]"
    return f"; known are {', '.join(known)}"


def _show(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _inconsistencies(settings: Settings) -> list[str]:
    """Find settings that are allowed one by one, and not together."""
    problems: list[str] = []
    lattice, optimizer = settings.lattice, settings.optimizer
    model = settings.hamiltonian.model
    couplings = couplings_of(model)
    for key, value in settings.hamiltonian.model_dump(exclude={"model"}).items():
        if value is not None and key not in couplings:
            problems.append(
                f"hamiltonian.{key}: model '{model}' has no such coupling; "
                f"it takes {', '.join(couplings)}"
            )
    if lattice.bonds is None and lattice.kind == "bonds":
        problems.append("kind = 'bonds' needs lattice.bonds, a list like [[0, 1], [1, 2]]")
    if lattice.bonds is not None and lattice.kind != "bonds":
        problems.append("lattice.bonds: goes with kind = 'bonds', and only with it")
    if lattice.kind in ("square", "shastry_sutherland") and _n_dims(lattice.shape) != 2:
        problems.append(
            f"lattice.shape = {_show(lattice.shape)}: kind '{lattice.kind}' needs [n_rows, n_cols]"
        )
    if lattice.kind == "chain" and _n_dims(lattice.shape) != 1:
        problems.append(
            f"lattice.shape = {_show(lattice.shape)}: a chain needs one integer, its length"
        )
    problems += ansatz_problems(settings)
    return problems + _optimizer_problems(optimizer) + stage_problems(settings)


def _n_dims(shape: int | list[int]) -> int:
    return 1 if isinstance(shape, int) else len(shape)


def _optimizer_problems(optimizer: OptimizerSettings) -> list[str]:
    only_sr = [] if optimizer.kind == "sr" else ["diag_shift", "momentum"]
    return [
        f"optimizer.{key}: goes with kind = 'sr' only"
        for key in only_sr
        if getattr(optimizer, key) is not None
    ] + _schedule_problems(optimizer)


def _schedule_problems(optimizer: OptimizerSettings) -> list[str]:
    rates, schedule = optimizer.learning_rate, optimizer.schedule
    if isinstance(rates, list):
        if schedule not in (None, "stages"):
            return [f"optimizer.schedule = '{schedule}': a list of learning rates makes 'stages'"]
        if optimizer.stages is not None and len(optimizer.stages) != len(rates):
            given = f"{len(optimizer.stages)} lengths for {len(rates)} learning rates"
            return [f"optimizer.stages: {given}; give one for each"]
        return []
    if schedule == "stages" or optimizer.stages is not None:
        return ["optimizer.learning_rate: stages need a list, one learning rate for each"]
    if optimizer.final_learning_rate is not None and schedule == "constant":
        return ["optimizer.final_learning_rate: goes with schedule 'exponential' or 'cosine' only"]
    return []


def complete(settings: Settings, default_name: str = "run") -> Settings:
    """Fill in every default that depends on other settings or on the machine.

    Raises:
        ConfigError: no D for an ansatz that needs one; a magnetisation that does not go with
            another, or with the Hamiltonian.
    """
    if problems := sector_problems(settings):
        raise ConfigError(*problems)
    settings = complete_stages(settings, default_chi)
    if settings.ansatz.kind in ("peps", "mps", "periodic_mps") and settings.ansatz.D is None:
        raise ConfigError("ansatz.D: missing; must be the bond dimension, an integer >= 1")
    model = settings.hamiltonian.model
    hamiltonian = {
        key: value
        for key, value in couplings_of(model).items()
        if getattr(settings.hamiltonian, key) is None
    }
    chi = settings.contraction.chi
    if chi is None and settings.ansatz.kind == "peps" and settings.contraction.scheme != "exact":
        chi = default_chi(settings.ansatz.D or 1)
    measure = settings.measure
    return settings.model_copy(
        update={
            "hamiltonian": settings.hamiltonian.model_copy(update=hamiltonian),
            "ansatz": settings.ansatz.model_copy(update=completed_ansatz(settings)),
            "contraction": settings.contraction.model_copy(
                update={**completed_contraction(settings), "chi": chi}
            ),
            "sampler": settings.sampler.model_copy(update=completed_sampler(settings)),
            "optimizer": settings.optimizer.model_copy(
                update=_complete_optimizer(settings.optimizer)
            ),
            "measure": measure.model_copy(
                update={
                    "n_samples": measure.n_samples or 8 * settings.sampler.n_samples,
                    "n_thin": measure.n_thin or settings.sampler.n_thin,
                    "chi": measure.chi or (chi and 2 * chi),
                }
            ),
            "run": settings.run.model_copy(
                # threads stay unset: a run that is resumed elsewhere has other cores
                update={"out": settings.run.out or os.path.join("runs", default_name)}
            ),
        }
    )


def _complete_optimizer(optimizer: OptimizerSettings) -> dict[str, Any]:
    rates, steps = optimizer.learning_rate or LEARNING_RATE[optimizer.kind], optimizer.steps
    filled: dict[str, Any] = {"learning_rate": rates}
    if optimizer.kind == "sr":
        filled["diag_shift"] = 1e-2 if optimizer.diag_shift is None else optimizer.diag_shift
        filled["momentum"] = optimizer.momentum or 0.0
    if isinstance(rates, list):
        filled["schedule"] = "stages"
        filled["stages"] = optimizer.stages or [max(1, steps // len(rates))] * len(rates)
        return filled
    filled["schedule"] = optimizer.schedule or "cosine"
    if filled["schedule"] in ("exponential", "cosine"):
        filled["final_learning_rate"] = optimizer.final_learning_rate or rates / 10
    return filled


def default_chi(D: int) -> int:
    """Give the boundary bond dimension used where none is set: 2 D, at least 4."""
    return max(4, 2 * D)
