"""A comparison of seconds that the tests of `tnvmc compare` share."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

SETTINGS = """
[lattice]
shape = [2, 3]

[hamiltonian]
model = "heisenberg"

[sampler]
n_walkers = 8
n_samples = 16
chunk = 8

[measure]
n_samples = 64
n_burn = 1

[run]
threads = 1

[compare]
steps = 4

[[ansatz]]
name = "product"
kind = "product"

[[ansatz]]
name = "PEPS D=2"
D = 2
chi = 4

[[ansatz]]
name = "drawn"
D = 2
scheme = "exact"
sampler = {kind = "direct", n_samples = 20}
"""


def data() -> dict[str, Any]:
    return tomllib.loads(SETTINGS)


def strict_json(path: Path) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    return json.loads(path.read_text(), parse_constant=refuse)


def history(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
