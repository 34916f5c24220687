"""Live lines: on a terminal, in a notebook, and their names."""

from __future__ import annotations

import ast
import io
import itertools
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

import tnvmc
from tests.terminal import in_terminal
from tnvmc.backend import progress
from tnvmc.report import live
from tnvmc.shown import phase_name, templates


class Notebook(ModuleType):
    """What a notebook shows: outputs, each with the texts that were drawn into it."""

    def __init__(self) -> None:
        super().__init__("IPython.display")
        self.outputs: list[list[str]] = []

    def display(self, shown: Any, display_id: bool) -> Any:
        assert display_id
        self.outputs.append([])
        return Output(self.outputs[-1]).update(shown)


class Output:
    def __init__(self, texts: list[str]) -> None:
        self._texts = texts

    def update(self, shown: Any) -> Output:
        self._texts.append(shown._repr_mimebundle_([], [])["text/html"])
        return self


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    found = Notebook()
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", found)
    return found


def test_a_bar_in_a_notebook_is_one_output(notebook: Notebook) -> None:
    with live.Bar(Console(force_jupyter=True), 3) as bar:
        bar.update(1, "E/N -0.5")
        bar.update(2, "E/N -0.6")
        bar.update(3, "E/N -0.7")
    (texts,) = notebook.outputs
    assert "E/N -0.5" in texts[0]
    assert "1/3" in texts[0]
    assert "E/N -0.7" in texts[-1]
    assert len(texts) == 2  # not more often than one can see


RUN = """
[lattice]
kind = "chain"
shape = 6
[hamiltonian]
model = "heisenberg"
[ansatz]
kind = "mps"
D = 2
[sampler]
n_walkers = 4
n_samples = 16
power = 0.5
[optimizer]
steps = 110
[measure]
n_samples = 16
[run]
threads = 1
"""
NUMBERS = ["E/N -0.59912(123)", "var/N 0.0021", "rel.err 2.3e-02", "acc 0.61", "worth 812 of 1024"]


@pytest.mark.parametrize(("columns", "n_shown"), [(60, 2), (80, 3), (90, 4), (100, 5)])
def test_a_narrow_terminal_leaves_out_the_least_important(columns: int, n_shown: int) -> None:
    file = io.StringIO()
    with live.Bar(Console(force_terminal=True, file=file, width=columns), 1100) as bar:
        bar.update(17, *NUMBERS)
    last = re.sub(r"\x1b[^A-Za-z]*[A-Za-z]", "", file.getvalue()).splitlines()[-1]
    by_importance = [NUMBERS[i] for i in (0, 1, 3, 2, 4)]
    assert [each for each in by_importance if each in last] == by_importance[:n_shown]
    assert re.match(r" *17/1100 .* (-?-:--(:--)?|\d+:\d\d(:\d\d)?) *$", last), last


@pytest.mark.slow
@pytest.mark.parametrize("columns", [60, 80, 100, 120])
def test_a_run_in_a_narrow_terminal_shows_number_and_time(columns: int, tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(RUN)
    status, lines = in_terminal(["-m", "tnvmc", "run", "study.toml"], tmp_path, columns)
    assert status == 0, lines
    steps = [line for line in lines if "E/N" in line and "ended" not in line]
    assert steps
    for line in steps:
        assert re.match(r" *\d+/110 .* E/N .* (--:--|\d\d:\d\d)$", line), line


def test_phases_have_a_bar_each() -> None:
    console = Console(force_terminal=True, file=io.StringIO(), width=80)
    with live.working(console):
        progress.begin("iterates")
        progress.begin("energy")
    assert templates()["phases"]["energy"] in console.file.getvalue()  # type: ignore[attr-defined]


def test_a_phase_of_unknown_length_shows_seconds() -> None:
    console = Console(force_terminal=True, file=io.StringIO(), width=80)
    with live.working(console):
        progress.begin("matrix", known=False)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "0:00:00" in shown and templates()["phases"]["matrix"] in shown


def test_nothing_on_what_is_neither() -> None:
    console = Console(force_terminal=False, file=io.StringIO())
    with live.working(console):
        progress.begin("energy")
        progress.Shares([1]).show()
    assert console.file.getvalue() == ""  # type: ignore[attr-defined]


def test_a_log_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first at once, unless one said already what begins; then after longer and longer intervals."""
    clock = [0.0]
    monkeypatch.setattr(live.time, "monotonic", lambda: clock[0])
    shown = {}
    for begun in (False, True):
        console, clock[0] = Console(force_terminal=False, file=io.StringIO()), 0.0
        with live.told_in_logs(), live.working(console, begun=begun):
            progress.begin("energy")
            for done in progress.in_turn(range(101)):
                clock[0] = float(done)
        shown[begun] = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    name = templates()["phases"]["energy"]
    assert shown[False][0] == name
    for lines in (shown[False][1:], shown[True]):
        shares = [int(re.fullmatch(rf"{name}  (\d+)%", line)[1]) for line in lines]  # type: ignore[index]
        assert 4 <= len(shares) <= 5 and shares[0] == pytest.approx(live._FIRST_LINES, abs=2)
        gaps = [after - before for before, after in itertools.pairwise(shares)]
        assert gaps == sorted(gaps)


@pytest.mark.whole
def test_every_phase_has_a_name() -> None:
    begun = set()
    for path in Path(tnvmc.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "progress.begin":
                told = (getattr(each, "value", None) for each in ast.walk(node.args[0]))
                begun |= {each for each in told if isinstance(each, str)}
    assert begun | {"lanczos"} == {*templates()["phases"]}  # which tells the time it takes
    assert phase_name("new") == "new"
