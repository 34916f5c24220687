"""A file of two sectors, of seconds, that tests share."""

from __future__ import annotations

import tomllib
from typing import Any

SETTINGS = """
[lattice]
shape = [2, 3]

[hamiltonian]
model = "heisenberg"

[ansatz]
D = 2

[sampler]
n_walkers = 16
n_samples = 32

[optimizer]
steps = 4

[measure]
n_samples = 128
n_burn = 1

[run]
threads = 1
seed = 5

[[sector]]
name = "ground"

[[sector]]
name = "triplet"
magnetisation = 2
steps = 6
"""


def data() -> dict[str, Any]:
    return tomllib.loads(SETTINGS)
