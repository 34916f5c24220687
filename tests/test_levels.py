"""The levels of the packages; `test_structure.py` checks that imports go to lower ones."""

from __future__ import annotations

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "tnvmc"
LEVELS = {
    "backend": 0,
    "shown": 0,
    "limits": 0,
    "storage": 1,
    "lattice": 1,
    "operators": 1,
    "contraction": 2,
    "exact": 2,
    "jacobian": 3,
    "ansatz": 4,
    "sampling": 5,
    "estimate": 6,
    "optimize": 6,
    "vmc": 7,
    "settings": 8,
    "trust": 8,
    "series": 9,
    "report": 10,
    "plot": 10,
    "session": 11,
    "app": 11,
}


def _imports(path: Path) -> set[str]:
    """Packages of tnvmc that a file imports, at any depth of the file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("tnvmc.")}
    return found & set(LEVELS)


def test_optimisers_do_not_use_lattices_and_samplers() -> None:
    for path in (PACKAGE / "optimize").glob("*.py"):
        assert _imports(path) <= {"backend", "jacobian", "ansatz", "optimize"}, path.name
