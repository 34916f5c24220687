"""`tnvmc measure` of an optimised state beside the exact ground state of the 4 x 4 Heisenberg model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tnvmc import exact_ground_state, heisenberg, square
from tnvmc.app.cli import main
from tnvmc.operators.basis import Basis

N = 16
STATE_ERROR = 2e-3
"""Allowed beside 4 sigma: the state has a relative energy error of some 1e-5, so excited states are
mixed in with a weight of some 1e-4."""


def _exact() -> dict[str, np.ndarray]:
    """<Sz_i Sz_j>, <S_i.S_j>, S(q) and M^2 of the exact ground state."""
    operator = heisenberg(square(4, 4))
    vector = np.asarray(exact_ground_state(operator, vector=True).vector)
    basis = Basis(N, 2, 0)
    configs = basis.configs(basis.codes)
    weight = np.abs(vector) ** 2
    spins = 0.5 - configs
    along_z = np.einsum("s,si,sj->ij", weight, spins, spins)
    scalar = 3 * along_z  # a singlet
    signs = (-1.0) ** (np.arange(N) // 4 + np.arange(N) % 4)
    return {"SzSz": along_z, "SS": scalar, "M2": signs @ scalar @ signs / N**2}


@pytest.mark.slow
def test_correlations_within_four_sigma(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = Path(__file__).parents[2] / "scripts" / "heisenberg_4x4.toml"
    monkeypatch.chdir(tmp_path)
    assert main(["run", str(script), "--out", "run"]) == 0
    options = ["--n-samples", "16384", "--pair-samples", "16384"]
    assert main(["measure", "run", *options]) == 0
    found = json.loads(Path("run/observables.json").read_text())
    exact = _exact()
    off = ~np.eye(N, dtype=bool)
    for name in ("SzSz", "SS"):
        mean, error = (np.array(found["correlations"][name][key])[off] for key in ("mean", "error"))
        gap = np.abs(mean - exact[name][off])
        print(f"{name}: largest gap {gap.max():.1e}, {(gap / error).max():.2f} sigma, "
              f"chi^2 {np.mean((gap / error) ** 2):.2f}")  # fmt: skip
        assert np.all(gap < 4 * error + STATE_ERROR)
    square_ = found["staggered_magnetisation_squared"]
    gap = abs(square_["mean"] - exact["M2"])
    print(f"M^2 {square_['mean']:.5f} +- {square_['error']:.5f}, exact {exact['M2']:.5f}")
    assert gap < 4 * square_["error"] + STATE_ERROR
