"""Pages that are made from the program itself: settings, commands, modules.

Settings come from `tnvmc.settings.help`, commands and options from the parser of
`tnvmc.app.command_line`.  Needs nothing but tnvmc: tests look at the pages without Sphinx.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import tnvmc
from tnvmc.app import cli  # noqa: F401  registers the commands
from tnvmc.app.command_line import make_parser
from tnvmc.limits import meaning
from tnvmc.settings.config import SECTIONS, Settings, keys
from tnvmc.settings.help import described, heading

HERE = Path(__file__).parent
PACKAGE = Path(tnvmc.__file__).parent
_ROLE = re.compile(r"\{py:(\w+)\}`([\w.]+)`")
_NEURAL = "tnvmc.ansatz.neural"

_ABOUT_SETTINGS = """\
A settings file is TOML. Only `lattice.shape`, `hamiltonian.model` and a bond dimension are
required; an unknown key is refused with the nearest known one. Any key can be given on the command
line as `--set section.key=value`, and a key of the second stage as `--set stage.2.key=value`. The
`config.toml` of a run has all settings, with their defaults.
"""
_ABOUT_COMMANDS = """\
Exit status 0: done; 1: the run failed, or a file is damaged; 2: wrong input: one line on stderr,
which starts with `tnvmc:`, and nothing is overwritten; 130 or 143: stopped by Ctrl-C or SIGTERM,
and a checkpoint was written.
"""


def settings_page() -> str:
    """All sections and keys, with what they may be, their defaults and what they mean."""
    parts = ["# Settings\n", _ABOUT_SETTINGS]
    for section in SECTIONS:
        parts.append(f"## `{heading(section)}`\n\n{meaning(Settings, section)}\n")
        parts += [_setting(section, key) for key in keys(section)]
    return "\n".join(parts)


def _setting(section: str, key: str) -> str:
    found = described(section, key)
    # A paragraph for each kind of section where the meanings differ, else one for each sentence.
    between = "\n\n" if len(found) == 1 else " "
    told = [between.join([*each.allowed, each.meaning]) + "\n" for each in found]
    told = [re.sub(r"\]\((\w+\.md)", r"](../\1", text) for text in told]  # pages are one folder up
    return f"```{{confval}} {section}.{key}\n" + "\n".join(told) + "```\n"


def commands() -> dict[str, tuple[str, argparse.ArgumentParser]]:
    """Give the commands of the program: a line of help and the parser of each."""
    (group,) = [a for a in make_parser()._actions if isinstance(a, argparse._SubParsersAction)]
    return {
        choice.dest: (str(choice.help), group.choices[choice.dest])
        for choice in group._choices_actions
    }


def commands_page() -> str:
    """All commands with their options."""
    parts, shown = ["# Command line\n", _ABOUT_COMMANDS], list[str]()
    for name, (_, parser) in commands().items():
        parts += [f"## `tnvmc {name}`\n", f"{parser.description}\n", "```text"]
        usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
        parts += [_wrapped(usage), "```\n", f"```{{program}} tnvmc {name}\n```\n"]
        parts += list(_options(parser))
        if parser.epilog and parser.epilog not in shown:
            shown.append(parser.epilog)
            parts += ["```text", parser.epilog.rstrip(), "```\n"]
    return "\n".join(parts)


def _wrapped(usage: str) -> str:
    words, lines, depth = usage.split(" "), [""], 0
    for word in words:
        if depth == 0 and len(lines[-1]) + len(word) > 84:
            lines.append("   ")
        lines[-1] += (" " if lines[-1] else "") + word
        depth += word.count("[") - word.count("]")
    return "\n".join(lines)


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        if isinstance(action, argparse._HelpAction):
            continue
        metavar = str(action.metavar or action.dest.upper())
        names = action.option_strings or [metavar]
        value = f" {metavar}" if action.option_strings and action.nargs != 0 else ""
        yield f"```{{option}} {', '.join(name + value for name in names)}\n{action.help}\n```\n"


def modules() -> dict[str, Path]:
    """Give the modules of the package by their dotted names."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(part for part in parts if part != "__init__")] = path
    return dict(sorted(found.items()))


def public_names() -> dict[str, list[str]]:
    """Give what the reference holds, by module: names in `tnvmc`, and those that a page links to.

    A module that a page links to is there with its docstring.
    """
    pages = [*HERE.glob("*.md"), *HERE.glob("decisions/*.md"), *HERE.glob("gallery/*.md")]
    linked = {found for page in pages for found in _ROLE.findall(page.read_text())}
    wanted = {(role, target) for role, target in linked if target.startswith("tnvmc.")}
    wanted |= {("obj", f"{home}.{name}") for home, name in tnvmc._HOME.values()}
    wanted |= {("obj", f"{_NEURAL}.{home}.{name}") for name, home in tnvmc._NETWORKS.items()}
    names: dict[str, list[str]] = {}
    for role, target in sorted(wanted):
        home, _, name = target.rpartition(".")
        if role == "mod":
            names.setdefault(target, [])
        elif home.startswith(_NEURAL):  # known without JAX
            names.setdefault(home, []).append(name)
        else:
            origin = getattr(importlib.import_module(home), name).__module__
            names.setdefault(origin, []).append(name)
    return {home: sorted(set(found)) for home, found in sorted(names.items())}


def api_pages() -> dict[str, str]:
    """One page for each package with public names, and an index of them."""
    modules_of: dict[str, list[str]] = {}
    names, level, known = public_names(), levels(), modules()
    for module, found in names.items():
        modules_of.setdefault(module.split(".")[1], []).append(_section(module, found))
    lines = ["# Python reference\n", _names(), "## Packages\n"]
    lines.append(
        "A module imports only from lower levels or from its own.\n\n"
        "| level | package | holds |\n|---|---|---|"
    )
    for package in sorted(level, key=lambda name: level[name]):
        shown = f"[`{package}`]({package}.rst)" if package in modules_of else f"`{package}`"
        lines.append(f"| {level[package]} | {shown} | {_summary(known[f'tnvmc.{package}'])} |")
    lines += ["", "```{toctree}", ":hidden:", "", *modules_of, "```", ""]
    pages = {f"{name}.rst": _package_page(name, found) for name, found in modules_of.items()}
    return {"index.md": "\n".join(lines), **pages}


def levels() -> dict[str, int]:
    """Levels of the packages, as their docstrings say."""
    texts = {n: path.read_text() for n, path in modules().items() if n.count(".") == 1}
    found = {n: re.match(r'"""Level (\d+):', text) for n, text in texts.items()}
    return {n.split(".")[1]: int(match[1]) for n, match in found.items() if match}


def _names() -> str:
    rows = []
    for home, names in tnvmc._NAMES_OF.items():
        links = [f"{{py:obj}}`{n} <{getattr(tnvmc, n).__module__}.{n}>`" for n in names]
        rows.append(f"| {', '.join(links)} | `{home.removeprefix('tnvmc.')}` |")
    for name, home in tnvmc._NETWORKS.items():
        rows.append(f"| {{py:obj}}`{name} <{_NEURAL}.{home}.{name}>` | `ansatz.neural.{home}` |")
    text = (
        "The names that a script needs are in `tnvmc` itself, as in "
        "`from tnvmc import PEPS, VMC, heisenberg, square`; the lattice of Shastry and Sutherland "
        "is `shastry_sutherland_lattice`, and its model is `shastry_sutherland`.\n"
    )
    return "\n".join(["## Names in `tnvmc`\n", text, "| name | module |", "|---|---|", *rows, ""])


def _package_page(package: str, sections: list[str]) -> str:
    return "\n".join([f"``tnvmc.{package}``", "=" * (len(package) + 10), "", *sections])


def _section(module: str, names: list[str]) -> str:
    heading = f"``{module}``"
    lines = [heading, "-" * len(heading), "", f".. automodule:: {module}", "   :ignore-module-all:"]
    if names:
        lines.append(f"   :members: {', '.join(names)}")
    return "\n".join([*lines, "", ""])


def _summary(path: Path) -> str:
    """First paragraph of a module's docstring, in one line, without its level."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    line = re.sub(r"^Level \d+: ", "", " ".join(text.split("\n\n")[0].split()))
    return line[:1].upper() + line[1:]


def pages() -> dict[str, str]:
    """Give all pages by their names below docs/generated."""
    return {
        "settings.md": settings_page(),
        "commands.md": commands_page(),
        **{f"api/{name}": text for name, text in api_pages().items()},
    }


def write(folder: Path) -> None:
    """Write the pages that have changed, and take away those of modules that are gone."""
    wanted = {folder / name: text for name, text in pages().items()}
    for path in [*folder.rglob("*.md"), *folder.rglob("*.rst")]:
        if path not in wanted:
            path.unlink()
    for path, text in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
