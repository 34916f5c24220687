"""Reading settings: TOML file and ``--set`` overrides in, checked `Settings` out."""

import copy
import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from tnvmc.limits import Json, Section, allowed, choices, properties
from tnvmc.settings.config import REPEATED, SECTIONS, Settings, keys, kinds_of, selector
from tnvmc.settings.problems import ConfigError, ConfigProblem, conflict, nearest
from tnvmc.settings.rules import conflicts
from tnvmc.settings.stages import set_by_every_stage
from tnvmc.storage.files import read_plain
from tnvmc.storage.run_folder import CONFIG, SERIES

S = TypeVar("S", bound=Section)

_NAME = re.compile(r"[\w-]+")
_WORD = re.compile(r"\s*([\w.-]+)\s*=\s*([A-Za-z_][\w-]*)\s*(?:#.*)?")
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?")
_BARE_WORD = re.compile(r"[A-Za-z_~./][\w~./:\-]*")
_TABLES = ("first", "second", "term")
"""Tables within a section."""


def with_out(overrides: Sequence[str], out: str | Path | None) -> list[str]:
    """Give overrides with the folder that was named, if one was."""
    if out is None:
        return [*overrides]
    if not str(out):
        raise ConfigError(conflict("--out", "is empty; name a folder, or . for the present one"))
    try:
        str(out).encode()
    except UnicodeEncodeError:
        why = "a name that is no UTF-8, which config.toml cannot hold; rename the folder"
        raise ConfigError(conflict("run.out", why, str(out))) from None
    # A JSON string is a TOML string too, whatever quotes and backslashes the path holds.
    return [*overrides, f"run.out={json.dumps(str(out), ensure_ascii=False)}"]


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; raises `ConfigError` where it is missing or not TOML."""
    text = ""
    try:
        text = read_plain(path, anywhere=True).decode("utf-8-sig")  # some editors begin with a mark
        return _with_folder(tomllib.loads(text), path)
    except tomllib.TOMLDecodeError as error:
        why = f"not valid TOML: {error}{_unquoted(text, str(error))}"
    except UnicodeDecodeError:
        why = "not a text file; settings are TOML in UTF-8"
    except RecursionError:
        why = "not valid TOML: nested too deeply"
    except FileNotFoundError:
        why = "no such file"
    except IsADirectoryError:
        why = "is a folder; give a settings file"
        held = [path / name for name in (CONFIG, *SERIES) if (path / name).is_file()]
        why += "".join(f", as {file}" for file in held)
    except OSError as error:
        why = f"cannot be read ({error.strerror})"
    raise ConfigError(ConfigProblem(str(path), "file", why))


def _with_folder(data: dict[str, Any], path: Path) -> dict[str, Any]:
    """Let classes that a file names be looked up in its folder, where it names no other."""
    tables: Any = data.get("ansatz")
    tables = [t for t in (tables if isinstance(tables, list) else [tables]) if hasattr(t, "get")]
    for table in (*tables, *(each.get(key) for each in tables for key in _TABLES)):
        if hasattr(table, "setdefault") and "module" in table:
            table.setdefault("folder", str(path.parent.absolute()))
    return data


def _unquoted(text: str, why: str) -> str:
    """Say how a word is written, where the line of an error of TOML has one without its quotes."""
    line = re.search(r"at line (\d+)", why)
    given = line and _WORD.fullmatch(text.splitlines()[int(line[1]) - 1])
    return f'; words have quotes: {given[1]} = "{given[2]}"' if given else ""


def parse(model: type[S], table: Json, where: str = "") -> S:
    """Check a table against a model, whose problems are named ``where.key``.

    Raises:
        ConfigError: with all problems that were found.
    """
    try:
        return model.model_validate(table)
    except ValidationError as error:
        problems = [_problem(each, each["loc"], table, model, where) for each in error.errors()]
        raise ConfigError(*problems) from None


def validate(data: Json, overrides: Sequence[str] = ()) -> Settings:
    """Check nested dicts (with ``section.key=value`` overrides) against what is allowed."""
    table = with_overrides(data, overrides)
    if hasattr(table.get("time"), "items"):
        table["optimizer"] = {**table.get("optimizer", {}), "kind": "time", **table.pop("time")}
    settings = parse(Settings, table)
    if problems := conflicts(settings):
        raise ConfigError(*problems)
    return settings


def with_overrides(data: Json, overrides: Sequence[str]) -> dict[str, Any]:
    """Give a copy of nested dicts with some keys changed, as ``--set section.key=value`` does.

    One of several tables ([[stage]], [[ansatz]]) has a number: ``stage.2.key=value``.

    Raises:
        ConfigError: the text is no such thing.
    """
    merged = copy.deepcopy(dict(data))
    for override in overrides:
        if objection := _change(merged, override):
            raise ConfigError(ConfigProblem(f"--set {override}", "override", objection))
    return merged


def _with_section(override: str) -> str:
    """Ask for the section of a key that was given without one."""
    key, _, value = (part.strip() for part in override.partition("="))
    homes = [f"{name}.{key}={value}" for name in SECTIONS if value and key in keys(name)]
    return f"; did you mean {' or '.join(homes)}?" if homes else ""


def _change(data: dict[str, Any], override: str) -> str | None:
    """Change one key of nested dicts; or say why that is not possible."""
    names, _, text = override.partition("=")
    *path, key = (name.strip() for name in names.split("."))
    if not path or not text.strip() or not all(map(_NAME.fullmatch, (*path, key))):
        example = "must be section.key=value, as ansatz.D=4 (stage.2.D=4 for the second [[stage]])"
        return example + _with_section(override)
    if (value := _value(text.strip())) is None:
        listed = f"; write {names.strip()}=[{text.strip()}]" if _value(f"[{text}]") else ""
        return f"{text.strip()!r} is not a TOML value{listed}"
    if len(path) == 1 and (why := set_by_every_stage(data.get("stage"), path[0], key)):
        return why
    table: Any = data
    for depth, name in enumerate((*path, key)):
        if isinstance(table, list):
            if name not in map(str, range(1, len(table) + 1)):
                place, n = ".".join(path[:depth]), len(table)
                if not table:
                    return f"there is no [[{place}]] in the file; write one there"
                return f"must be {place}.N.key=value, N a number up to {n}, of [[{place}]]"
            table = table[int(name) - 1]
        elif not isinstance(table, dict):
            return None  # which is told when the whole is checked
        elif depth < len(path):
            table = table.setdefault(name, [] if name in REPEATED else {})
        else:
            table[name] = value
    return None


def _value(text: str) -> Any:
    """Read a value as TOML, else as a bare word; None where it is neither."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text if _BARE_WORD.fullmatch(text) else None


def _problem(
    error: Any, path: Sequence[Any], table: Json, model: type[Section], where: str = ""
) -> ConfigProblem:
    """Say what one of pydantic's errors means: go to the table that it is in, then to the key.

    `path` leads from the table, which has the name `where` (none for the whole file), to the key.
    """
    key, *rest = path
    known = SECTIONS if model is Settings else kinds_of(model) if key in _TABLES else {}
    if key not in known:
        return _of_key(error, path, table, model, where)
    kinds, place, value = known[key], f"{where}.{key}".lstrip("."), table.get(key)
    what = f"a section, [{place}]"
    if error["type"] == "missing" and not rest:
        fields = next(iter(kinds.values())).model_fields.items()
        needed = ", ".join(name for name, field in fields if field.is_required())
        return ConfigProblem(f"[{place}]", "missing_section", needed or selector(key))
    if key in REPEATED and not rest:
        what = f"one table or more, each headed [[{place}]]"
        return ConfigProblem(place, "not_allowed", what, value)
    if key in REPEATED:
        what, number = f"a table, headed [[{place}]]", rest.pop(0)
        place, value = f"{place}.{number + 1}", value[number]  # type: ignore[index]
    if not isinstance(value, Mapping):
        return ConfigProblem(place, "not_allowed", what, value)
    if len(kinds) == 1:
        return _problem(error, rest, value, kinds[""], place)
    if rest:
        return _problem(error, rest[1:], value, kinds[rest[0]], place)
    of_kinds = f"one of {', '.join(kinds)}"  # it is of no known kind
    return _of_value(f"{place}.{selector(key)}", value, [*kinds], of_kinds)


def _of_value(where: str, table: Json, known: Sequence[str], what: str) -> ConfigProblem:
    """Say what may stand where something else or nothing does, and which word was meant."""
    key = where.rsplit(".", 1)[1]
    if key not in table:
        return ConfigProblem(where, "missing", what)
    hint = nearest(str(table[key]), known) if len(known) > 1 else ""
    return ConfigProblem(where, "not_allowed", what, table[key], hint)


def _without_quotes(key: str, given: Any, schema: Json) -> str:
    """Say how a text is written where numbers or a list of texts belong."""
    if not isinstance(given, str):
        return ""
    taken, kinds = schema.get("anyOf", [schema]), json.dumps(schema)
    numbers = _NUMBER.findall(given)
    if len(numbers) == 1 and any(each.get("type") in ("number", "integer") for each in taken):
        return f"write {key} = {numbers[0]}"
    if len(numbers) > 1 and '"array"' in kinds and '"string"' not in kinds:
        return f"write {key} = [{', '.join(numbers)}]"
    texts = '"array"' in kinds and '"string"' in kinds and not numbers
    return f'write {key} = ["{given}"]' if texts else ""


def _of_key(
    error: Any, path: Sequence[Any], table: Json, model: type[Section], where: str
) -> ConfigProblem:
    """Say what is wrong with a key: its value, or that it is not known here, but elsewhere."""
    key, fields, section = str(path[0]), model.model_fields, where.split(".")[0]
    if not where:
        hint = nearest(key, SECTIONS) or f"known are {', '.join(SECTIONS)}"
        return ConfigProblem(f"[{key}]", "unknown_section", hint=hint)
    where = f"{where}.{key}"
    if error["type"] != "extra_forbidden" or len(path) > 1:
        schema = properties(model)[key]
        problem = _of_value(where, table, choices(schema), allowed(model, key))
        hint = _without_quotes(key, table.get(key), schema)
        return replace(problem, hint=hint) if hint else problem
    if where in ("ansatz.first", "ansatz.second"):
        why = "its tables first and second make a product; set ansatz.kind = 'product_of_states'"
        return ConfigProblem(section, "foreign_key", why)
    homes = [name for name in SECTIONS if key in keys(name)]
    if section in homes:
        chosen = selector(section)
        kind = table.get(chosen, next(iter(SECTIONS[section])))
        takes = ", ".join(name for name in fields if name != chosen)
        why = f"{chosen} '{kind}' has no such key; it takes {takes}"
        return ConfigProblem(where, "foreign_key", why)
    home = f"it belongs to [{homes[0]}]" if homes else f"known are {', '.join(fields)}"
    return ConfigProblem(where, "unknown_key", hint=nearest(key, fields) or home)
