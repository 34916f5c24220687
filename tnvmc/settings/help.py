"""What each setting means, for `tnvmc settings` and for the page "Settings"."""

import json
import re
import textwrap
from typing import NamedTuple

from tnvmc.limits import Section, allowed, meaning
from tnvmc.settings.config import REPEATED, SECTIONS, Budget, Settings, keys, selector
from tnvmc.settings.problems import ConfigError, ConfigProblem, nearest

_WIDTH = 88


class Described(NamedTuple):
    """One meaning of a key, in words."""

    meaning: str
    allowed: tuple[str, ...]  #: what it may be and its default, one line for each kind that differs


def heading(section: str) -> str:
    """Give a section as it stands in a file: [ansatz], [[stage]]."""
    return f"[[{section}]]" if section in REPEATED else f"[{section}]"


def described(section: str, key: str) -> list[Described]:
    """Put a key in words, one entry for each of its meanings: most have one."""
    models = {kind: m for kind, m in SECTIONS[section].items() if key in m.model_fields}
    if key == selector(section) and len(models) > 1:
        model = next(iter(models.values()))
        text = f"One of {', '.join(models)}.{_default(model, key)}"
        return [Described(meaning(model, key), (text,))]
    kinds: dict[str, dict[str, list[str]]] = {}  # by meaning and by what is allowed
    for kind, model in models.items():
        text = f"{allowed(model, key)}.{_default(model, key)}"
        text = text[0].upper() + text[1:]
        kinds.setdefault(meaning(model, key), {}).setdefault(text, []).append(kind)
    alike = len(models) == len(SECTIONS[section]) and sum(map(len, kinds.values())) == 1
    return [
        Described(
            text, tuple(t if alike else f"{', '.join(which)}: {t}" for t, which in lines.items())
        )
        for text, lines in kinds.items()
    ]


def _default(model: type[Section], key: str) -> str:
    field = model.model_fields[key]
    if field.is_required():
        return " Must be given."
    if field.default is None:
        return "" if "Default: " in meaning(model, key) else " Default: none."
    return f" Default: `{json.dumps(field.default)}`."


BASIC = (
    "lattice.kind", "lattice.shape", "lattice.boundary", "hamiltonian.model", "ansatz.kind",
    "ansatz.D", "contraction.chi", "sampler.n_samples", "sampler.magnetisation", "optimizer.steps",
    "measure.n_samples", "run.out",
)  # fmt: skip
"""Keys that a study needs; the defaults of all others serve."""


def basic_text() -> str:
    """Describe the keys of `BASIC`, each in a few lines."""
    more = "All others have defaults that serve: tnvmc settings lists them."
    return "\n\n".join([*(_key(*name.split(".")) for name in BASIC), more])


def settings_text(name: str | None = None) -> str:
    """Describe a section, a key ("sampler.power" or "power"), or list all keys for None.

    Raises:
        ConfigError: neither a section nor a key.
    """
    if name is None:
        lines = [f"{heading(section):<14} {', '.join(keys(section))}" for section in SECTIONS]
        lines = [textwrap.fill(line, _WIDTH, subsequent_indent=" " * 15) for line in lines]
        more = "tnvmc settings SECTION, or KEY, tells what they mean; --basic those of a study."
        return "\n".join([*lines, "", more])
    name = name.strip("[]")
    if name in SECTIONS:
        first = textwrap.fill(_plain(f"{heading(name)}  {meaning(Settings, name)}"), _WIDTH)
        return "\n\n".join([first, *(_key(name, key) for key in keys(name))])
    if name == "compare":
        budget = [f"compare.{key}  {meaning(Budget, key)}" for key in Budget.model_fields]
        more = """Sections of each [[ansatz]] stand in its table: docs/compare.md.
Networks of your own: kind = "flax", module = "my_nets:ResCNN"; tnvmc settings ansatz.module."""
        return "\n".join(
            ["[compare]  What each state may use, one of two; and its runs.", *budget, more]
        )
    if name == "time":
        own = [key for key in SECTIONS["optimizer"]["time"].model_fields if key != "steps"]
        first = "[time]  The same as [optimizer] with these keys (docs, Time evolution)."
        return "\n\n".join([first, *(_key("optimizer", key) for key in own if key != "kind")])
    section, _, key = name.rpartition(".")
    homes = [home for home in SECTIONS if key in keys(home) and section in ("", home)]
    if not homes:
        hint = nearest(key, [*SECTIONS, *(key for home in SECTIONS for key in keys(home))])
        hint = hint or "tnvmc settings lists all"
        raise ConfigError(ConfigProblem("settings", "unknown_name", f"'{name}'", hint=hint))
    return "\n\n".join(_key(home, key) for home in homes)


def _key(section: str, key: str) -> str:
    parts = [part for each in described(section, key) for part in (*each.allowed, each.meaning)]
    lines = [textwrap.fill(_plain(part), _WIDTH - 4) for part in parts]
    return f"{section}.{key}\n" + textwrap.indent("\n".join(lines), "    ")


def _plain(text: str) -> str:
    """Without the marks of the web page: `x`, and links, which lead nowhere in a terminal."""
    return re.sub(r"\[([^]]+)\]\([^)]+\)", r"docs, \1", text).replace("`", "")
