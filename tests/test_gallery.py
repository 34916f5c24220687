"""The notebooks of docs/gallery: clean as committed, and running.

They are executed by `scripts/notebooks.py`, which also says what is kept of a run.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")

ROOT = Path(__file__).parents[1]
GALLERY = ROOT / "docs/gallery"
NOTEBOOKS = sorted(GALLERY.glob("*.ipynb"))

LARGEST = 200_000
"""Bytes of a notebook."""

LINES = 25
"""Of code, from nothing to a plotted and trusted energy of a Hamiltonian of one's own."""

HELD = {
    "first_energy": "assert -4 * result.energy_per_site_error < above < 5e-3",
    "own_hamiltonian": "assert -4 * error < above < 5e-3",
    "correlations": "assert abs(square - exact_square) < 4 * error + 0.01",
    "networks": """
assert all(r.energy_per_site - exact > -4 * r.energy_per_site_error for r in results.values())
assert all(r.energy_per_site - exact < 0.05 * abs(exact) for r in results.values())""",
    "convergence": """
assert abs(line.intercept - exact) < 4 * line.intercept_error + 1e-3
assert results[4].variance < results[3].variance < results[2].variance""",
    "own_wave_function": """
assert exact.energy_per_site < result.energy_per_site < 0.98 * exact.energy_per_site
both = (result.energy_per_site_error**2 + turned.energy_per_site_error**2) ** 0.5
assert abs(result.energy_per_site - turned.energy_per_site) < 4 * both""",
}
"""What a notebook has computed, whatever the rounding of a machine made of its chains."""


@pytest.fixture(scope="module")
def notebooks() -> ModuleType:
    """The script that runs them."""
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "scripts/notebooks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)


def code_of(path: Path) -> list[Any]:
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


def outputs_of(path: Path) -> list[Any]:
    return [output for cell in code_of(path) for output in cell.outputs]


def test_all_are_known() -> None:
    assert {path.stem for path in NOTEBOOKS} == set(HELD)
    index = (GALLERY / "index.md").read_text()
    assert all(f"{name}.ipynb" in index for name in HELD)
    assert all(re.search(rf"^{name}$", index, flags=re.MULTILINE) for name in HELD)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_committed_as_the_script_leaves_it(path: Path, notebooks: ModuleType) -> None:
    nbformat.validate(read(path))
    assert notebooks.cleaned(read(path)) == read(path)
    assert path.stat().st_size < LARGEST


def test_lines_of_compilation_are_not_kept(notebooks: ModuleType) -> None:
    texts = [
        "step 2: step shortened to 0.85 of its length\n",
        "step 1: compiling took 5.4 s, ...\n",
    ]
    outputs = [nbformat.v4.new_output("display_data", {"text/plain": text}) for text in texts]
    cell = nbformat.v4.new_code_cell("vmc.run(40)", outputs=outputs)
    (cell,) = notebooks.cleaned(nbformat.v4.new_notebook(cells=[cell])).cells
    assert [output.data["text/plain"] for output in cell.outputs] == texts[:1]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_outputs_and_nothing_went_wrong(path: Path) -> None:
    outputs = outputs_of(path)
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert [output for output in outputs if output.output_type == "error"] == []
    assert [output.text for output in outputs if output.get("name") == "stderr"] == []
    assert re.search(r"(/home|/tmp|/work|/root|site-packages|:\\\\)", path.read_text()) is None


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_code_compiles_and_needs_the_front_door_only(path: Path) -> None:
    for cell in code_of(path):
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.ImportFrom):
                assert not (node.module or "").startswith("tnvmc."), node.module
            elif isinstance(node, ast.Import):
                assert not any(alias.name.startswith("tnvmc.") for alias in node.names)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_says_what_one_learns_and_what_comes_next(path: Path) -> None:
    first, *_, last = [cell.source for cell in read(path).cells if cell.cell_type == "markdown"]
    title, text = first.split("\n\n")
    assert title.startswith("# ") and text.startswith("You learn")
    assert len(re.findall(r"\.(?:\s|$)", text)) == 2 or path.stem == "own_hamiltonian"
    assert last.startswith("## What to try next")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_links_lead_somewhere(path: Path) -> None:
    texts = [cell.source for cell in read(path).cells if cell.cell_type == "markdown"]
    for link in re.findall(r"\]\(([^)#]+)", "\n".join(texts)):
        assert link.startswith("http") or (GALLERY / link).is_file(), link


def test_an_energy_of_ones_own_hamiltonian_takes_few_lines() -> None:
    lines = [
        line
        for cell in code_of(GALLERY / "own_hamiltonian.ipynb")
        for line in cell.source.splitlines()
        if line.strip()
    ]
    assert len(lines) <= LINES


@pytest.mark.slow
@pytest.mark.ci
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, notebooks: ModuleType) -> None:
    pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    if path.stem == "networks":
        pytest.importorskip("flax")
    before, notebook = read(path), read(path)
    notebook.cells.append(nbformat.v4.new_code_cell(HELD[path.stem]))
    after = notebooks.execute(notebook)
    assert kinds(after.cells[:-1]) == kinds(before.cells)


def kinds(cells: list[Any]) -> list[list[str]]:
    """What each cell puts out: streams by name, and pictures and tables by type.

    Streams and displays come in the order of the machine's moods, so they are sorted.
    """
    return [
        sorted({kind for output in cell.get("outputs", ()) for kind in _kinds(output)})
        for cell in cells
    ]


def _kinds(output: Any) -> list[str]:
    return [output.name] if output.output_type == "stream" else sorted(output.get("data", {}))
