"""What each setting means, for `tnvmc settings` and for the page "Settings"."""

from __future__ import annotations

import difflib
import json
import textwrap
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tnvmc.settings.config import MODELS, Settings, StageSettings, couplings_of
from tnvmc.settings.load import ConfigError

_WIDTH = 88


class Described(NamedTuple):
    """One key of a settings file, in words."""

    allowed: str  #: "An integer >= 1."
    default: str  #: "Default: `1`." or "Must be given."
    meaning: str


@cache
def meanings() -> Mapping[str, Mapping[str, Any]]:
    """meanings.toml: by section and key a text, or a text with a default in words; "" is a section."""
    return tomllib.loads((Path(__file__).parent / "meanings.toml").read_text(encoding="utf-8"))


def sections() -> dict[str, Mapping[str, Any]]:
    """Give the fields of each section of a settings file, [[stage]] last."""
    found = {}
    for name, field in Settings.model_fields.items():
        model: Any = StageSettings if name == "stage" else field.annotation
        found[name] = model.model_fields
    return found


def heading(section: str) -> str:
    """Give a section as it stands in a file: [ansatz], [[stage]]."""
    return "[[stage]]" if section == "stage" else f"[{section}]"


def described(section: str, key: str) -> Described:
    """Put what a key may be, its default and its meaning in words."""
    field, meaning = sections()[section][key], meanings().get(section, {}).get(key, "")
    text, default = meaning, "none"
    if isinstance(meaning, Mapping):
        text, default = meaning["meaning"], meaning["default"]
    elif field.default is not None and not field.is_required():
        default = f"`{json.dumps(field.default)}`"
    default = "Must be given." if field.is_required() else f"Default: {default}."
    return Described(f"{field.description[0].upper()}{field.description[1:]}.", default, str(text))


def settings_text(name: str | None = None) -> str:
    """Describe a section, a key ("sampler.power" or "power"), or list all keys for None.

    Raises:
        ConfigError: neither a section nor a key.
    """
    if name is None:
        lines = [f"{heading(s):<14} {', '.join(fields)}" for s, fields in sections().items()]
        told = [textwrap.fill(line, _WIDTH, subsequent_indent=" " * 15) for line in lines]
        return "\n".join([*told, "", "tnvmc settings SECTION, or KEY, tells what they mean."])
    name = name.strip("[]")
    if name in sections():
        return "\n\n".join([_section(name), *(_key(name, key) for key in sections()[name])])
    section, _, key = name.rpartition(".")
    homes = [s for s, fields in sections().items() if key in fields and section in ("", s)]
    if not homes:
        known = [*sections(), *(key for fields in sections().values() for key in fields)]
        close = difflib.get_close_matches(key, known, 1)
        hint = f"; did you mean '{close[0]}'?" if close else ""
        raise ConfigError(f"settings: '{name}' is neither a section nor a key{hint}")
    return "\n\n".join(_key(home, key) for home in homes)


def _section(name: str) -> str:
    text = _plain(meanings().get(name, {}).get("", ""))
    told = [textwrap.fill(f"{heading(name)}  {text}", _WIDTH)]
    if name == "hamiltonian":
        for model in MODELS:
            couplings = ", ".join(f"{k} = {v:g}" for k, v in couplings_of(model).items())
            told.append(f"    {model:<20} {couplings}")
    return "\n".join(told)


def _key(section: str, key: str) -> str:
    found = described(section, key)
    about = f"{found.allowed} {_plain(found.default)}\n{_plain(found.meaning)}"
    lines = [textwrap.fill(part, _WIDTH - 4) for part in about.split("\n") if part]
    return f"{section}.{key}\n" + textwrap.indent("\n".join(lines), "    ")


def _plain(text: str) -> str:
    """Without the marks of the web page: `x`, and links, which lead nowhere in a terminal."""
    while "](" in text:
        before, _, rest = text.partition("](")
        label_from, after = before.rfind("["), rest.partition(")")[2]
        text = before[:label_from] + "docs, " + before[label_from + 1 :] + after
    return text.replace("`", "")
