"""Fidelities of the states at successive values of a scan, and chi_F per site between them.

python scripts/fidelity_susceptibility.py runs/field [samples]
"""

import json
import math
import sys
from itertools import pairwise
from pathlib import Path

import tnvmc

folder = Path(sys.argv[1])
n_samples = int(sys.argv[2]) if len(sys.argv) > 2 else 2048
table = json.loads((folder / "scan.json").read_text())
rows = sorted(table["rows"], key=lambda row: row["value"])
print("from, to, fidelity, error, chi_F / N, error")
for one, other in pairwise(rows):
    found = tnvmc.overlap(folder / one["name"], folder / other["name"], n_samples)
    scale = table["n_sites"] * (other["value"] - one["value"]) ** 2
    chi, error = -math.log(found.fidelity) / scale, found.error / found.fidelity / scale
    values = f"{found.fidelity:.6f}, {found.error:.6f}, {chi:.5f}, {error:.5f}"
    print(f"{one['value']}, {other['value']}, {values}")
