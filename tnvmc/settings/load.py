"""Reading settings: TOML file and ``--set`` overrides in, checked and completed `Settings` out."""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from tnvmc.limits import Json, choices
from tnvmc.settings.checks import conflicts
from tnvmc.settings.config import REPEATED, SECTIONS, Settings, keys, selector
from tnvmc.settings.defaults import complete
from tnvmc.settings.problems import ConfigError, ConfigProblem, conflict, nearest
from tnvmc.settings.section import Section, allowed, properties
from tnvmc.settings.stage_checks import set_by_every_stage
from tnvmc.settings.term_settings import TermSettings
from tnvmc.storage.files import read_plain
from tnvmc.storage.run_files import in_place, only_in_python, own_parts
from tnvmc.storage.run_folder import CONFIG, SERIES

S = TypeVar("S", bound=Section)

_OVERRIDE = re.compile(r"\s*([\w-]+)\s*\.(?:\s*(\w+)\s*\.)?\s*([\w-]+)\s*=\s*(.*?)\s*", re.DOTALL)
_WORD = re.compile(r"\s*([\w.-]+)\s*=\s*([A-Za-z_][\w-]*)\s*(?:#.*)?")
_BARE_WORD = re.compile(r"[A-Za-z_~./][\w~./\-]*")
_STATES = ("first", "second")
"""Tables of a product of two states."""


def load(path: Path, overrides: Sequence[str] = ()) -> Settings:
    """Read, check and complete the settings of a TOML file.

    Raises:
        ConfigError: with all problems that were found.
    """
    return complete(_one_run(validate(_of_one_run(path), overrides)), default_name=path.stem)


def load_in_place(folder: Path, overrides: Sequence[str] = ()) -> Settings:
    """Read, check and complete the settings of the run in a folder, wherever that lies now; raises as `load`."""
    path = folder / CONFIG
    return complete(
        _one_run(validate(in_place(_of_one_run(path), folder), with_out(overrides, folder)))
    )


def _one_run(settings: Settings) -> Settings:
    """Refuse settings that ask for several starts."""
    if (settings.run.starts or 1) == 1:
        return settings
    why = (
        "makes several runs; use tnvmc run FILE with a folder of its own, or tnvmc.series_file in "
        "Python"
    )
    raise ConfigError(conflict("run.starts", why, settings.run.starts))


def with_out(overrides: Sequence[str], out: str | Path | None) -> list[str]:
    """Give overrides with the folder that was named, if one was."""
    # A JSON string is a TOML string too, whatever quotes and backslashes the path holds.
    return [*overrides, *([f"run.out={json.dumps(str(out))}"] if out is not None else [])]


def _of_one_run(path: Path) -> dict[str, Any]:
    """Read a file, refusing that of several runs, or of one that only Python can make."""
    data = read_toml(path)
    if isinstance(data.get("ansatz"), list):
        told = f"a comparison (it has [[ansatz]]); use tnvmc compare {path}"
        raise ConfigError(ConfigProblem(str(path), "file", told))
    for name, heading in {"sector": "[[sector]]", "scan": "[scan]"}.items():
        if name in data:
            text = f"{heading} asks for several runs; use tnvmc run FILE, or tnvmc.series_file in Python"
            raise ConfigError(ConfigProblem(str(path), "file", text))
    if own := own_parts(data):
        raise ConfigError(ConfigProblem(str(path), "file", only_in_python(path.parent, own)))
    return data


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file, raising `ConfigError` where it is missing or not TOML."""
    text = ""
    try:
        text = read_plain(path, anywhere=True).decode()
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        told = f"not valid TOML: {error}{_unquoted(text, str(error))}"
    except UnicodeDecodeError:
        told = "not a text file; settings are TOML in UTF-8"
    except RecursionError:
        told = "not valid TOML: nested too deeply"
    except FileNotFoundError:
        told = "no such file"
    except IsADirectoryError:
        told = "is a folder; give a settings file"
        held = [path / name for name in (CONFIG, *SERIES) if (path / name).is_file()]
        told += "".join(f", as {file}" for file in held)
    except OSError as error:
        told = f"cannot be read ({error.strerror})"
    raise ConfigError(ConfigProblem(str(path), "file", told))


def _unquoted(text: str, told: str) -> str:
    """Say how a word is written, where the line of an error of TOML has one without its quotes."""
    line = re.search(r"at line (\d+)", told)
    given = line and _WORD.fullmatch(text.splitlines()[int(line[1]) - 1])
    return f'; words have quotes: {given[1]} = "{given[2]}"' if given else ""


def parse(model: type[S], table: Json, where: str) -> S:
    """Check a table against a model, of which problems are told as ``where.key``.

    Raises:
        ConfigError: with all problems that were found.
    """
    try:
        return model.model_validate(table)
    except ValidationError as error:
        found = [_of_key(each, where, model, table) for each in error.errors()]
        raise ConfigError(*found) from None


def validate(data: Json, overrides: Sequence[str] = ()) -> Settings:
    """Check nested dicts (with ``section.key=value`` overrides) against what is allowed."""
    merged = with_overrides(data, overrides)
    try:
        settings = Settings.model_validate(merged)
    except ValidationError as error:
        found = [_problem(each, merged) for each in error.errors()]
        raise ConfigError(*_without_foreign_keys(merged, found), *found) from None
    if problems := conflicts(settings):
        raise ConfigError(*problems)
    return settings


def _without_foreign_keys(data: Json, found: Sequence[ConfigProblem]) -> list[ConfigProblem]:
    """Give the problems of a state that keys of another kind hide, such as a lattice it cannot be on."""
    own = [each.key.removeprefix("ansatz.") for each in found if each.code == "foreign_key"]
    if len(own) < len(found) or not isinstance(table := data.get("ansatz"), dict):
        return []
    left = {key: value for key, value in table.items() if key not in own}
    try:
        settings = Settings.model_validate({**data, "ansatz": left})
    except ValidationError:
        return []
    return [each for each in conflicts(settings) if each.key == "ansatz.kind"]


def with_overrides(data: Json, overrides: Sequence[str]) -> dict[str, Any]:
    """Give a copy of nested dicts with some keys changed."""
    merged = copy.deepcopy(dict(data))
    for override in overrides:
        apply_override(merged, override)
    return merged


def _with_section(override: str) -> str:
    """Ask for the section of a key that was given without one."""
    key, _, value = (part.strip() for part in override.partition("="))
    homes = [f"{name}.{key}={value}" for name in SECTIONS if value and key in keys(name)]
    return f"; did you mean {' or '.join(homes)}?" if homes else ""


def apply_override(data: dict[str, Any], override: str) -> None:
    """Change one key of nested dicts, as ``--set section.key=value`` does.

    A section of several tables ([[stage]], [[ansatz]]) has a number: ``stage.2.key=value``.

    Raises:
        ConfigError: the text is no such thing.
    """

    form = _OVERRIDE.fullmatch(override)
    section, number, key, text = form.groups("") if form else [""] * 4
    tables = data.get(section, [] if section in REPEATED else {})
    several = isinstance(tables, list)
    of_product = section == "ansatz" and not several and not number.isdigit()
    value, objection = _value(text), set_by_every_stage(data.get("stage"), section, key)
    if not form or (number and not several and not of_product):
        objection = (
            "must be section.key=value, e.g. ansatz.D=4 (stage.2.D=4 for the second [[stage]])"
            + _with_section(override)
        )
    elif number and of_product and number not in _STATES:
        hint = nearest(number, _STATES) or f"known are {', '.join(_STATES)}"
        objection = f"unknown table '{number}'; {hint}"
    elif several and number not in map(str, range(1, len(tables) + 1)):
        count = f"N a number up to {len(tables)}, of [[{section}]]"
        objection = f"must be {section}.N.key=value, {count}"
    elif value is None:
        objection = f"{text!r} is not a TOML value"
    if objection:
        raise ConfigError(ConfigProblem(f"--set {override}", "override", objection))
    table = tables[int(number) - 1] if several else data.setdefault(section, {})
    if number and not several and isinstance(table, dict):
        table = table.setdefault(number, {})
    if isinstance(table, dict):
        table[key] = value


def _value(text: str) -> Any:
    """Read a value as TOML, else as a bare word; None where it is neither."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text if _BARE_WORD.fullmatch(text) else None


def _problem(error: Any, data: Json) -> ConfigProblem:
    """Say what one of pydantic's errors means."""
    section, *rest = map(str, error["loc"])
    if section not in SECTIONS:
        hint = nearest(section, SECTIONS) or f"known are {', '.join(SECTIONS)}"
        return ConfigProblem(f"[{section}]", "unknown_section", hint=hint)
    where, table, what = section, data.get(section), f"a section, [{section}]"
    if section in REPEATED:
        if not rest:
            what = f"one table or more, each headed [[{section}]]"
            return ConfigProblem(where, "not_allowed", what, table)
        number, what = int(rest.pop(0)), f"a table, headed [[{section}]]"
        where, table = f"{section}.{number + 1}", data[section][number]
    kinds = SECTIONS[section]
    if error["type"] == "missing" and not rest:
        fields = next(iter(kinds.values())).model_fields
        needed = [key for key, field in fields.items() if field.is_required()]
        return ConfigProblem(f"[{section}]", "missing_section", ", ".join(needed))
    if not isinstance(table, Mapping):
        return ConfigProblem(where, "not_allowed", what, table)
    kind = ""
    if len(kinds) > 1:
        if not rest:  # of no known kind
            what = f"one of {', '.join(kinds)}"
            return _of_value(f"{where}.{selector(section)}", table, [*kinds], what)
        kind = rest.pop(0)
    product = kind == "product_of_states" and rest[0] in _STATES
    if product and isinstance(table.get(rest[0]), Mapping):
        return _of_state({**error, "loc": rest}, where, kinds, table[rest[0]])
    if kind == "terms" and rest[0] == "term" and len(rest) > 1:
        number, rest = int(rest[1]), rest[2:]
        where, table = f"{where}.term.{number + 1}", table["term"][number]
        if not rest:
            what = "a table, headed [[hamiltonian.term]]"
            return ConfigProblem(where, "not_allowed", what, table)
        return _of_key({**error, "loc": rest}, where, TermSettings, table)
    return _of_key({**error, "loc": rest}, where, kinds[kind], table, section)


def _of_state(
    error: Any, where: str, kinds: Mapping[str, type[Section]], table: Json
) -> ConfigProblem:
    """Say what is wrong with the table of a state in a product: its kind, or one of its keys."""
    which, *rest = error["loc"]
    where = f"{where}.{which}"
    if rest:
        return _of_key({**error, "loc": rest[1:] or ["kind"]}, where, kinds[rest[0]], table)
    kind, contracted = table.get("kind"), ("peps", "mps")
    if which == "second" and kind in contracted:
        return conflict(f"{where}.kind", "a PEPS or MPS can only be ansatz.first", kind)
    others = ("product_of_states", *(contracted if which == "second" else ()))
    known = [name for name in kinds if name not in others]
    return _of_value(f"{where}.kind", table, known, f"one of {', '.join(known)}")


def _of_value(where: str, table: Json, known: Sequence[str], what: str) -> ConfigProblem:
    """Say what may stand where something else or nothing does, and which word was meant."""
    key = where.rsplit(".", 1)[1]
    if key not in table:
        return ConfigProblem(where, "missing", what)
    value = table[key]
    hint = nearest(value, known) if isinstance(value, str) and len(known) > 1 else ""
    return ConfigProblem(where, "not_allowed", what, value, hint)


def _of_key(
    error: Any, where: str, model: type[Section], table: Json, section: str = ""
) -> ConfigProblem:
    """Say what is wrong with a key: its value, or that it is not known here, but elsewhere."""
    key, fields = str(error["loc"][0]), model.model_fields
    where = f"{where}.{key}"
    if error["type"] != "extra_forbidden" or len(error["loc"]) > 1:
        schema = properties(model)[key]
        problem = _of_value(where, table, choices(schema), allowed(model, key))
        lists = isinstance(table.get(key), str) and '"array"' in json.dumps(schema)
        return replace(problem, hint=f'write {key} = ["{table[key]}"]') if lists else problem
    homes = [name for name in SECTIONS if section and key in keys(name)]
    if section == "ansatz" and key in _STATES:
        why = "[ansatz.first] and [ansatz.second] make a product; set ansatz.kind = 'product_of_states'"
        return ConfigProblem(section, "foreign_key", why)
    if section in homes:
        chosen = selector(section)
        kind = table.get(chosen, next(iter(SECTIONS[section])))
        takes = ", ".join(name for name in fields if name != chosen)
        why = f"{chosen} '{kind}' has no such key; it takes {takes}"
        return ConfigProblem(where, "foreign_key", why)
    home = f"it belongs to [{homes[0]}]" if homes else f"known are {', '.join(fields)}"
    return ConfigProblem(where, "unknown_key", hint=nearest(key, fields) or home)
