"""Reading settings: TOML file and ``--set`` overrides in, checked and completed `Settings` out."""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from tnvmc.backend.limits import Json, choices
from tnvmc.settings.checks import conflicts, set_by_every_stage
from tnvmc.settings.config import SECTIONS, Settings, selector
from tnvmc.settings.defaults import complete
from tnvmc.settings.problems import ConfigError, ConfigProblem, nearest
from tnvmc.settings.section import Section, allowed, properties

_OVERRIDE = re.compile(r"\s*([\w-]+)\s*\.(?:\s*(\w+)\s*\.)?\s*([\w-]+)\s*=\s*(.*?)\s*", re.DOTALL)
_BARE_WORD = re.compile(r"[A-Za-z_~./][\w~./\-]*")


def load(path: Path, overrides: Sequence[str] = ()) -> Settings:
    """Read, check and complete the settings of a TOML file.

    Raises:
        ConfigError: with all problems that were found.
    """
    data = read_toml(path)
    if isinstance(data.get("ansatz"), list):
        told = f"a comparison (it has [[ansatz]]); use tnvmc compare {path}"
        raise ConfigError(ConfigProblem(str(path), "file", told))
    return complete(validate(data, overrides), default_name=path.stem)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file, raising `ConfigError` where it is missing or not TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        told = "no such file"
    except OSError as error:
        told = f"cannot be read ({error.strerror})"
    except UnicodeDecodeError:
        told = "not a text file; settings are TOML in UTF-8"
    except tomllib.TOMLDecodeError as error:
        told = f"not valid TOML: {error}"
    raise ConfigError(ConfigProblem(str(path), "file", told))


def validate(data: Json, overrides: Sequence[str] = ()) -> Settings:
    """Check nested dicts (with ``section.key=value`` overrides) against what is allowed."""
    merged = copy.deepcopy(dict(data))
    for override in overrides:
        apply_override(merged, override)
    try:
        settings = Settings.model_validate(merged)
    except ValidationError as error:
        found = [_problem(each["type"], each["loc"], merged) for each in error.errors()]
        raise ConfigError(*found) from None
    if problems := conflicts(settings):
        raise ConfigError(*problems)
    return settings


def apply_override(data: dict[str, Any], override: str) -> None:
    """Change one key of nested dicts, as ``--set section.key=value`` does.

    A section of several tables ([[stage]], [[ansatz]]) has a number: ``stage.2.key=value``.

    Raises:
        ConfigError: the text is no such thing.
    """

    def refuse(told: str) -> ConfigError:
        return ConfigError(ConfigProblem(f"--set {override}", "override", told))

    form = _OVERRIDE.fullmatch(override)
    section, number, key, text = form.groups("") if form else [""] * 4
    tables = data.get(section, [] if section == "stage" else {})
    if not form or (number and not isinstance(tables, list)):
        raise refuse(
            "must be section.key=value, e.g. ansatz.D=4 (stage.2.D=4 for the second [[stage]])"
        )
    if isinstance(tables, list):
        if number not in map(str, range(1, len(tables) + 1)):
            raise refuse(f"must be {section}.N.key=value, N of {len(tables)} [[{section}]]")
        table = tables[int(number) - 1]
    else:
        table = data.setdefault(section, {})
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        if not _BARE_WORD.fullmatch(text):
            raise refuse(f"{text!r} is not a TOML value") from None
        value = text
    if objection := set_by_every_stage(data.get("stage"), section, key):
        raise refuse(objection)
    if isinstance(table, dict):
        table[key] = value


def _problem(code: str, location: tuple[int | str, ...], data: Json) -> ConfigProblem:
    """Say what one of pydantic's errors means."""
    section, *rest = location
    section = str(section)
    if section not in SECTIONS:
        hint = nearest(section, SECTIONS) or f"known are {', '.join(SECTIONS)}"
        return ConfigProblem(f"[{section}]", "unknown_section", hint=hint)
    where, table = section, data.get(section)
    if section == "stage":
        if not rest:
            what = "one table or more, each headed [[stage]]"
            return ConfigProblem(where, "not_allowed", what, table)
        number = int(rest.pop(0))
        where, table = f"stage.{number + 1}", data[section][number]
    kinds, kind = SECTIONS[section], ""
    if code == "missing" and not rest:
        needed = [k for k, f in next(iter(kinds.values())).model_fields.items() if f.is_required()]
        return ConfigProblem(f"[{section}]", "missing_section", ", ".join(needed))
    if not isinstance(table, Mapping):
        what = "a table, headed [[stage]]" if section == "stage" else f"a section, [{section}]"
        return ConfigProblem(where, "not_allowed", what, table)
    if len(kinds) > 1:
        if not rest:  # of no known kind
            return _of_value(f"{where}.{selector(section)}", table, [*kinds], _one_of(kinds))
        kind = str(rest.pop(0))
    model, key = kinds[kind], str(rest[0])
    if code == "extra_forbidden" and len(rest) == 1:
        return _of_key(f"{where}.{key}", section, kind, model)
    return _of_value(f"{where}.{key}", table, choices(properties(model)[key]), allowed(model, key))


def _of_value(where: str, table: Json, known: Sequence[str], what: str) -> ConfigProblem:
    """Say what may stand where something else or nothing does, and which word was meant."""
    key = where.rsplit(".", 1)[1]
    if key not in table:
        return ConfigProblem(where, "missing", what)
    value = table[key]
    hint = nearest(value, known) if isinstance(value, str) and len(known) > 1 else ""
    return ConfigProblem(where, "not_allowed", what, value, hint)


def _of_key(where: str, section: str, kind: str, model: type[Section]) -> ConfigProblem:
    """Say of a key that is not known here what was meant, or where it belongs."""
    key, fields = where.rsplit(".", 1)[1], model.model_fields
    if any(key in other.model_fields for other in SECTIONS[section].values()):
        chosen = selector(section)
        takes = ", ".join(name for name in fields if name != chosen)
        why = f"{chosen} '{kind}' has no such key; it takes {takes}"
        return ConfigProblem(where, "foreign_key", why)
    homes = [
        name
        for name, kinds in SECTIONS.items()
        if any(key in each.model_fields for each in kinds.values())
    ]
    home = f"it belongs to [{homes[0]}]" if homes else f"known are {', '.join(fields)}"
    return ConfigProblem(where, "unknown_key", hint=nearest(key, fields) or home)


def _one_of(kinds: Json) -> str:
    return f"one of {', '.join(kinds)}"
