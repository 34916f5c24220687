"""Live lines: on a terminal, in a notebook, and their names."""

from __future__ import annotations

import ast
import io
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console

import tnvmc
from tnvmc.backend import progress
from tnvmc.report import live
from tnvmc.report.texts import PHASES, phase_name


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


def test_phases_have_a_bar_each() -> None:
    console = Console(force_terminal=True, file=io.StringIO(), width=80)
    with live.working(console):
        progress.begin("iterates")
        progress.begin("energy")
    assert PHASES["energy"] in console.file.getvalue()  # type: ignore[attr-defined]


def test_nothing_on_what_is_neither() -> None:
    console = Console(force_terminal=False, file=io.StringIO())
    with live.working(console):
        progress.begin("energy")
        with progress.tally([1]) as tally:
            assert tally is None
    assert console.file.getvalue() == ""  # type: ignore[attr-defined]


def test_every_phase_has_a_name() -> None:
    begun = set()
    for path in Path(tnvmc.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "progress.begin":
                begun.add(ast.literal_eval(node.args[0]))
    assert begun == {*PHASES}
    assert phase_name("new") == "new"
