"""The documentation: its code runs as printed, its references cover the program.

Blocks of a page are run in order in one folder.  A TOML block with a caption becomes a file of that
name; Python blocks run in one namespace.  A console block after ``<!-- run -->`` runs through
`main`.  What stands behind the colon of ``<!-- run: ... -->`` makes it small: it is added to the
commands, or takes the place of the assignment to the same name.  What a page shows is compared up
to numbers, which are those of its larger run, and energies, which must be near.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import json
import math
import pydoc
import re
import shlex
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import tnvmc
from tests.test_levels import LEVELS
from tnvmc.ansatz.protocol import Ansatz
from tnvmc.app.cli import main
from tnvmc.estimate.diagnostic import UnreliableWarning
from tnvmc.optimize.rule import Rule
from tnvmc.sampling.problem import Samples
from tnvmc.settings.config import SECTIONS, keys
from tnvmc.shown import templates
from tnvmc.vmc.results import Measurement, StepRecord

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("decisions/*.md")])
_BLOCK = re.compile(
    r"(?:<!-- (?P<mark>run|refused|output)(?:: (?P<extra>.*?))? -->\n)?"
    r"^```(?P<kind>python|text|console|\{code-block\} toml)\n"
    r"(?::caption: (?P<name>\S+)\n)?(?P<body>.*?)^```$",
    flags=re.DOTALL | re.MULTILINE,
)
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?:\(\d+\))?")
_ENERGY = re.compile(r"(?:energy per site|E/N)\s+(-\d+\.\d+)")
NEAR = 0.02
"""Of an energy per site: a run of a few steps and samples beside the one that is shown."""


@dataclass(frozen=True)
class Block:
    """A block of code, or of what it prints."""

    kind: str
    body: str
    mark: str | None
    extra: str
    name: str | None

    @property
    def code(self) -> str:
        """Python code, made small."""
        target = self.extra.split("=")[0]
        if not target:
            return self.body
        line = re.compile(rf"^{re.escape(target)}=.*$", flags=re.MULTILINE)
        assert len(line.findall(self.body)) == 1, self.extra
        return line.sub(self.extra, self.body)

    @property
    def commands(self) -> list[tuple[str, str]]:
        """Commands of a console block, each with what it shows."""
        parts = re.split(r"^\$ ", self.body, flags=re.MULTILINE)[1:]
        return [tuple(part.split("\n", 1)) for part in parts]  # type: ignore[misc]


def blocks(page: Path) -> Iterator[Block]:
    for found in _BLOCK.finditer(page.read_text()):
        text = found.groupdict()
        kind = text["kind"].removeprefix("{code-block} ")
        yield Block(kind, text["body"], text["mark"], text["extra"] or "", text["name"])


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    """The module that makes the reference pages."""
    spec = importlib.util.spec_from_file_location("tnvmc_docs_generate", DOCS / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all pages run: later ones look at runs of earlier ones."""
    place = tmp_path_factory.mktemp("docs")
    (place / "scripts").symlink_to(ROOT / "scripts")
    return place


IN_ORDER = [
    "tutorial",
    "reading_runs",
    "conventions",
    "trusting",
    "inside",
    "files",
    "networks",
    "products",
    "sharing",
    "time",
    "own_hamiltonian",
    "own_observable",
    "fermions",
    "lattices",
    "own_lattice",
    "own_ansatz",
    "own_network",
    "own_move",
    "cluster",
    "watching",
    "compare",
    "sectors",
    "starts",
    "scan",
    "overlaps",
]


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("name", IN_ORDER)
def test_the_code_of_a_page_runs(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "120")
    names: dict[str, Any] = {}
    printed = ""
    if name == "own_ansatz":  # what others begin from is to be healthy
        warnings.simplefilter("error", UnreliableWarning)
    for block in blocks(DOCS / f"{name}.md"):
        if block.name is not None:
            Path(block.name).write_text(block.body)
        elif block.kind == "python":
            exec(compile(block.code, f"{name}.md", "exec"), names)  # noqa: S102 - the point of it
            printed = capsys.readouterr().out
        elif block.mark == "output":
            compare(block.body, printed)
        elif block.mark == "run":
            for command, shown in block.commands:
                assert main(shlex.split(f"{command} {block.extra}")[1:]) == 0
                compare(shown, capsys.readouterr().out, "lattice.shape" not in block.extra)
        elif block.mark == "refused":
            for command, shown in block.commands:
                assert main(shlex.split(command)[1:]) == 2
                compare(shown, capsys.readouterr().err)


def compare(shown: str, printed: str, same_energy: bool = True) -> None:
    """Find every line of `shown` in `printed`, in order; "..." leaves lines out."""
    rest, left_out = printed.splitlines(), False
    for line in filter(str.strip, shown.splitlines()):
        if line.strip() == "...":
            left_out = True
            continue
        label = _label(line)
        near = lambda other: not same_energy or _near(line, other)  # noqa: B023 - used at once
        while rest and (_label(rest[0]) != label or (left_out and not near(rest[0]))):
            rest.pop(0)
        assert rest, f"{line!r} is shown, not printed in:\n{printed}"
        assert near(rest.pop(0)), line
        left_out = False


def _near(line: str, other: str) -> bool:
    ours, theirs = _ENERGY.search(line), _ENERGY.search(other)
    return not (ours and theirs) or math.isclose(float(ours[1]), float(theirs[1]), abs_tol=NEAR)


def _label(line: str) -> str:
    """What does not depend on numbers: the words before the first one, up to a colon."""
    before = _NUMBER.split(line, maxsplit=1)[0].split(":")[0].split("/")[0]
    before = re.sub(r"--+", "--", before)  # the rule of a table is as wide as its numbers
    before = re.sub(r"^converged in .*", "verdict", before)
    return re.sub(r"^(QMC|exact)$", "reference", " ".join(before.split()))


def test_all_pages_with_code_are_run() -> None:
    marked = {
        page.stem
        for page in PAGES
        if any(b.kind == "python" or b.mark in ("run", "refused") for b in blocks(page))
    }
    assert marked == set(IN_ORDER)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.stem)
def test_every_file_and_section_that_is_named_exists(page: Path) -> None:
    text = page.read_text()
    for name in re.findall(r"(?:scripts|benchmarks|tests)/[\w./]+\.(?:py|sh|toml)", text):
        assert (ROOT / name).exists(), name
    for name in re.findall(rf"`((?:{'|'.join(LEVELS)})/[\w./]*)`", text):
        assert (ROOT / "tnvmc" / name).exists(), name
    for name in re.findall(r"\{py:\w+\}`([\w.]+)`", text):
        assert pydoc.locate(name) is not None, name
    for included, options in re.findall(r"```\{include\} (\S+)\n((?::.*\n)*)", text):
        held = (DOCS / included).read_text()
        assert all(mark in held for mark in re.findall(r'"(.+?)"', options)), options


@pytest.mark.whole
@pytest.mark.parametrize(
    "script",
    [*ROOT.glob("benchmarks/*.py"), *ROOT.glob("scripts/*.py")],
    ids=lambda path: path.stem,
)
def test_what_a_benchmark_imports_is_there(script: Path) -> None:
    for node in ast.walk(ast.parse(script.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tnvmc"):
            module = importlib.import_module(str(node.module))  # a function may have its name
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                assert hasattr(module, alias.name) or pydoc.locate(name) is not None, name


def test_signatures_that_are_shown_are_those_of_the_code() -> None:
    shown = [b.body for b in blocks(DOCS / "inside.md") if b.kind == "text" and b.mark is None]
    found = re.findall(r"^(\w+)\.(\w+)\((.*?)\) ->", shown[0], flags=re.MULTILINE)
    assert {protocol for protocol, _, _ in found} == {"Ansatz", "Samples", "Rule"}
    for protocol, method, names in found:
        home = {"Ansatz": Ansatz, "Samples": Samples, "Rule": Rule}[protocol]
        arguments = list(inspect.signature(getattr(home, method)).parameters)
        assert arguments == ["self", *names.split(", ")], f"{protocol}.{method}"


def test_every_code_of_a_diagnostic_is_told() -> None:
    told = {code for page in PAGES for code in re.findall(r"`(\w+)`", page.read_text())}
    assert set(templates()["sentences"]) - told == set()


def test_the_reference_explains_every_setting(generate: ModuleType) -> None:
    page = generate.settings_page()
    for section in SECTIONS:
        for key in keys(section):
            assert f"```{{confval}} {section}.{key}\n" in page


def test_the_reference_holds_every_option(generate: ModuleType) -> None:
    page = generate.commands_page()
    assert set(generate.commands()) >= {"run", "exact", "measure", "converge", "plot", "report"}
    for name, (_, parser) in generate.commands().items():
        part = page.split(f"## `tnvmc {name}`")[1].split("\n## ")[0]
        for option in re.findall(r"--[a-z][a-z-]+", parser.format_usage()):
            assert f"{{option}} {option}" in part


@pytest.mark.whole
def test_the_reference_holds_every_public_name(generate: ModuleType) -> None:
    names, pages = generate.public_names(), generate.api_pages()
    held = {name for found in names.values() for name in found}
    assert held >= {name for _, name in tnvmc._HOME.values()} | set(tnvmc._NETWORKS)
    for module in names:
        assert f".. automodule:: {module}\n" in pages[f"{module.split('.')[1]}.rst"]


def test_every_module_has_a_docstring(generate: ModuleType) -> None:
    for name, path in generate.modules().items():
        assert generate._summary(path), name


def test_the_levels_are_those_that_are_tested(generate: ModuleType) -> None:
    assert generate.levels() == LEVELS


TOLD = set(re.findall(r"`(\w+)`", (DOCS / "conventions.md").read_text()))


def test_conventions_explain_every_record() -> None:
    assert {f.name for f in fields(StepRecord)} <= TOLD
    assert {f.name for f in fields(Measurement)} - {"origin"} <= TOLD  # it is in no file


@pytest.mark.slow
@pytest.mark.ci
def test_conventions_explain_every_key(folder: Path) -> None:
    """After the pages have run: the keys of the files that they wrote."""
    run = folder / "runs/first"
    if not run.exists():
        pytest.skip("the pages have not run")
    for name in ("result.json", "observables.json"):
        assert set(json.loads((run / name).read_text())) - TOLD == set(), name
    found = json.loads((run / "result.json").read_text())["convergence"]
    assert set(found["chi"][0]) | set(found) <= TOLD
