"""Commands of tnvmc, one after another on the same ranks; run as ``mpiexec -n P python tests/ranks/commands.py FOLDER``.

FOLDER/commands.json has the arguments of each.  Every rank writes to FOLDER/RANK.json what each gave: status,
what went to the standard output, what went to the standard error.
"""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

from tests.pictures import composed_only
from tnvmc.app.cli import main
from tnvmc.backend.process import launched


def told(arguments: list[str]) -> tuple[int, str, str]:
    """Status, standard output and standard error of a command."""
    output, errors = StringIO(), StringIO()
    with redirect_stdout(output), redirect_stderr(errors), composed_only():
        status = main(arguments)
    return status, output.getvalue(), errors.getvalue()


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    found = [told(each) for each in json.loads((folder / "commands.json").read_text())]
    (folder / f"{launched()[0]}.json").write_text(json.dumps(found))
    sys.exit(found[-1][0])
