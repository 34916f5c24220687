"""Run the notebooks of docs/gallery in place; what changes from one run to the next is not kept.

.venv-dev/bin/python scripts/notebooks.py                  all of them: some minutes
.venv-dev/bin/python scripts/notebooks.py first_energy     one

A notebook is its own source: change its cells in Jupyter, or in an editor, and run it here before
it is committed.  Each runs in an empty folder.  Outputs stay; times, machine and kernel do not.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
GALLERY = ROOT / "docs/gallery"

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
"""Of every notebook, whoever ran it."""

SECONDS = 300
"""For one cell at most; a notebook takes less than a minute on one core."""


def execute(notebook: Any) -> Any:
    """Run a notebook in a new kernel, in an empty folder; gives it with its outputs.

    Raises:
        CellExecutionError: a cell that fails.
    """
    environment = os.environ | {"OMP_NUM_THREADS": "1", "MPLBACKEND": _INLINE}
    paths = filter(None, [str(ROOT), os.getenv("PYTHONPATH")])
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    with tempfile.TemporaryDirectory() as folder:
        here = {"metadata": {"path": folder}}
        client = NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources=here)
        client.execute(env=environment)
    return notebook


_INLINE = "module://matplotlib_inline.backend_inline"


_DURATION = re.compile(r"<td>[\d.]+ s</td>")
"""In the table of a measurement."""

_COMPILED = re.compile(r"step \d+: compiling took ")
"""A line that comes where kernels are not there yet."""


def cleaned(notebook: Any) -> Any:
    """Take out of a notebook what tells when and where it ran; gives the same notebook.

    Cells are numbered, pieces of one stream joined.
    """
    notebook.metadata = nbformat.from_dict(METADATA)
    notebook.nbformat_minor = 5
    count = 0
    for place, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{place:02d}", nbformat.from_dict({})
        if cell.cell_type != "code":
            continue
        count += 1
        cell.execution_count = count
        cell.outputs = _joined(cell.outputs)
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = count
            if "metadata" in output:
                output.metadata = nbformat.from_dict({})
            if html := output.get("data", {}).get("text/html"):
                output.data["text/html"] = _DURATION.sub("<td></td>", html)
    return notebook


def _joined(outputs: list[Any]) -> list[Any]:
    """Outputs with pieces of one stream in one, without lines of compilation."""
    kept: list[Any] = []
    for output in outputs:
        if _COMPILED.match(output.get("data", {}).get("text/plain", "")):
            continue
        last = kept[-1] if kept else None
        both_streams = last is not None and output.output_type == last.output_type == "stream"
        if both_streams and output.name == last.name:
            last.text += output.text
        else:
            kept.append(output)
    return kept


def main() -> None:
    """Run the notebooks that are named, or all."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", help="of notebooks; all by default")
    names = parser.parse_args().names or sorted(path.stem for path in GALLERY.glob("*.ipynb"))
    for name in names:
        path = GALLERY / f"{name}.ipynb"
        if not path.is_file():
            parser.error(f"{path} is not there")
        notebook = cleaned(execute(nbformat.read(path, as_version=4)))
        nbformat.validate(notebook)
        nbformat.write(notebook, path)
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
