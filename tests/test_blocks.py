"""Every block of code in README and documentation is run or checked by a test.

Which blocks run, and how, is told in `test_docs`; the others are checked here.  A page that comes
anew needs nothing here: its Python runs once its name stands in `IN_ORDER`, its TOML files have a
caption, its console blocks name files and runs that exist, and one that shows output is marked
``<!-- run -->`` (or ``<!-- refused -->``, exit status 2) and runs too.
"""

from __future__ import annotations

import argparse
import itertools
import re
import shlex
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.test_docs import DOCS, IN_ORDER, PAGES, ROOT, Block, blocks
from tnvmc.app import cli  # noqa: F401  registers the commands
from tnvmc.app.command_line import make_parser
from tnvmc.lattice import GRIDS
from tnvmc.report.live import step_numbers
from tnvmc.series.machine import KINDS
from tnvmc.settings.defaults import complete
from tnvmc.settings.load import read_toml, validate, with_overrides
from tnvmc.settings.model_settings import build_lattice
from tnvmc.settings.operator_file import read_operator

BESIDE = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "records/README.md")]
ALL_PAGES = [*BESIDE, *PAGES, *sorted(DOCS.glob("gallery/*.md"))]
STANDING_ALONE = ["README", "CONTRIBUTING", "index"]
"""Pages that do not go on with the runs of other pages."""

SHELL = ("python3", "source", "pip", "cd", "git", "bash")
TEXTS = {
    "inside": "test_signatures_that_are_shown_are_those_of_the_code",
    "lattices": "test_the_figure_of_lattices_shows_their_bonds",
    "watching": "test_the_live_line_is_as_shown",
}
"""Pages with a text block that is not the output of the block before it, and its test."""

_FENCE = re.compile(r"^(`{3,}|:{3,}|~{3,})([^\n]*)\n.*?^\1$", flags=re.DOTALL | re.MULTILINE)


def kinds_of(page: Path) -> list[str]:
    """Kinds of the fenced blocks of a page; of the directives only those that hold code."""
    kinds = [found[2].strip() for found in _FENCE.finditer(page.read_text())]
    return [kind for kind in kinds if not kind.startswith("{") or kind.startswith("{code")]


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.stem)
def test_every_block_is_one_that_a_test_knows(page: Path) -> None:
    """Not one in another language, without language, or in another notation."""
    known = [
        f"{{code-block}} {block.kind}" if block.kind == "toml" else block.kind
        for block in blocks(page)
    ]
    assert kinds_of(page) == known


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.stem)
def test_every_block_is_run_or_checked(page: Path) -> None:
    run = page.stem in IN_ORDER
    for block in blocks(page):
        if block.kind == "python":
            assert run or page.stem == "README"
        elif block.kind == "toml":
            assert block.name is not None, f"a file needs a caption:\n{block.body}"
        elif block.kind == "console" and block.mark in ("run", "refused"):
            assert run, f"{page.stem} is not in IN_ORDER"
        elif block.kind == "console":
            shown = "".join(shown for _, shown in block.commands)
            assert not shown.strip(), f"output that no test compares:\n{block.body}"
        else:
            assert block.mark == "output" or page.stem in TEXTS, block.body
            assert run or block.mark != "output"


@pytest.mark.whole
def test_toml_files_can_be_loaded(tmp_path: Path) -> None:
    names = []
    for page in ALL_PAGES:
        for block in blocks(page):
            if block.kind == "toml":
                assert block.name is not None
                file = tmp_path / block.name
                file.write_text(block.body)
                load_any(file)
                names.append(block.name)
    assert len(names) >= 8


def load_any(file: Path, overrides: tuple[str, ...] = ()) -> None:
    """Check a file of settings, of a comparison, or of an operator (on the lattice of 2 x 3 sites)."""
    data = read_toml(file)
    if "term" in data:
        small = {"lattice": {"shape": [2, 3]}, "hamiltonian": {"model": "heisenberg"}}
        lattice = build_lattice(validate({**small, "ansatz": {"D": 2}}).lattice)
        read_operator(file, lattice)
    elif kinds := [kind for kind in KINDS if kind.requested(data)]:
        kinds[0].expand(with_overrides(data, overrides), "block")
    else:
        complete(validate(data, overrides))


@pytest.mark.whole
def test_commands_name_files_and_runs_that_exist(tmp_path: Path) -> None:
    """Pages are read in the order in which they are run; a run is there once a command makes it."""
    order = {name: position for position, name in enumerate(IN_ORDER)}
    shared: set[str] = set()
    for page in sorted(ALL_PAGES, key=lambda page: order.get(page.stem, len(order))):
        runs = set() if page.stem in STANDING_ALONE else shared
        for block in blocks(page):
            if block.name is not None:
                (tmp_path / block.name).write_text(block.body)
            elif block.kind == "console":
                check(block, tmp_path, runs)
            elif block.kind == "python":
                runs |= set(re.findall(r"\"(runs/\w+)\"", block.body))


def check(block: Block, folder: Path, runs: set[str]) -> None:
    for command, _ in block.commands:
        program, *arguments = shlex.split(command, comments=True)
        if program != "tnvmc":
            assert program in SHELL, command
            named = [each for each in arguments if each.startswith(("scripts/", "tests/"))]
            assert all((ROOT / name).exists() for name in named), command
            continue
        options = vars(make_parser().parse_args(arguments))
        for run in {options.get("folder"), options.get("resume"), *options.get("others", ())}:
            assert run is None or run in runs or arguments[0] == "examples", command
        if (name := options.get("file")) is not None and block.mark != "refused":
            file = folder / name if (folder / name).exists() else ROOT / name
            load_any(file, tuple(options["overrides"]))
        if arguments[0] in ("run", "compare") and name is not None:
            runs.add(options["out"] or f"runs/{Path(name).stem}")
        if arguments[0] == "archive":
            runs.add(options["archive"])


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.stem)
def test_commands_in_the_text_are_commands(page: Path) -> None:
    """What stands in a sentence as `tnvmc ...`, with or without its arguments."""
    (group,) = [a for a in make_parser()._actions if isinstance(a, argparse._SubParsersAction)]
    for command in re.findall(r"`(tnvmc [^`]+)`", " ".join(page.read_text().split())):
        name, *rest = command.split()[1:]
        if not name.startswith("-"):
            options = group.choices[name]._option_string_actions
            assert all(each in options for each in rest if each.startswith("--")), command


def test_the_tests_of_texts_exist() -> None:
    code = "".join((ROOT / f"tests/test_{name}.py").read_text() for name in ("docs", "blocks"))
    assert all(f"def {test}(" in code for test in TEXTS.values())


def test_the_live_line_is_as_shown() -> None:
    (shown,) = [b.body for b in blocks(DOCS / "watching.md") if b.kind == "text" and not b.mark]
    n = 6
    record = SimpleNamespace(
        energy=-0.52021 * n, energy_error=0.00094 * n, variance=0.0021 * n,
        acceptance=0.61, effective_samples=None, n_samples=512, overlaps=(), optimizer={},
    )  # fmt: skip
    assert " ".join(step_numbers(record, n)) in shown  # type: ignore[arg-type]


def test_the_figure_of_lattices_shows_their_bonds() -> None:
    """Each line of a picture that joins two sites is a bond, and there are no others."""
    (figure,) = (
        block.body
        for block in blocks(DOCS / "lattices.md")
        if block.kind == "text" and block.mark is None
    )
    names, *lines = figure.rstrip("\n").split("\n")
    for kind in names.split():
        begin = names.index(kind)
        picture = [line[begin : begin + 13].ljust(13) for line in lines]
        lattice = GRIDS[kind](3, 4, "open")
        site_at = {divmod(place, 4): site for site, place in enumerate(lattice.places)}
        seen = {spot for spot in itertools.product(range(3), range(4))
                if picture[2 * spot[0]][4 * spot[1]] not in " ."}  # fmt: skip
        assert seen == set(site_at)
        found = set()
        for row, column in itertools.product(range(3), range(4)):
            drawn = {(0, 1): ("-", 0, 2), (1, 0): ("|", 1, 0), (1, -1): ("/", 1, -2)}
            for (down, right), (mark, below, beside) in drawn.items():
                y, x = 2 * row + below, 4 * column + beside
                if y < len(picture) and 0 <= x < 13 and picture[y][x] == mark:
                    ends = site_at[row, column], site_at[row + down, column + right]
                    found.add((min(ends), max(ends)))
        assert found == set(lattice.bonds["nearest"]), kind
