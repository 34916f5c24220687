"""Extrapolations from stages and steps, as result.json holds them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.analysis.results import RESULT
from tnvmc.analysis.convergence import convergence
from tnvmc.analysis.diagnostics import good_lines

SIGMAS = 4.0
OURS = RESULT | {"energy": -9.9, "energy_error": 1e-3, "n_sites": 16, "exact_method": None}


def stage(number: int, D: int, energy: float, variance: float, **other: Any) -> dict[str, Any]:
    values = {"stage": number, "kind": "optimise", "D": D, "energy": energy, "variance": variance}
    return values | {"energy_error": 1e-3} | other


def lines(n: int = 160) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    variance = 0.3 + 0.8 * np.exp(-np.arange(n) / 30)
    energy = -10 + 0.3 * variance + 2e-3 * rng.normal(size=n)
    return [
        {"step": k, "energy": e, "energy_error": 2e-3, "variance": v, "undone": False}
        for k, (e, v) in enumerate(zip(energy.tolist(), variance.tolist(), strict=True))
    ]


def codes(found: dict[str, Any]) -> set[str]:
    return {each["code"] for each in found["diagnostics"]}


def test_an_extrapolation_from_the_steps() -> None:
    history = lines()
    history[80] |= {"undone": True, "energy": 100.0}
    history[90] |= {"energy": None, "energy_error": None, "variance": None}
    assert len(good_lines(history)) == 158
    found = convergence(OURS, history)
    fit = found["variance"]
    assert abs(fit["energy"] + 10) < SIGMAS * fit["energy_error"] < 5e-3
    assert fit["points"][-1]["label"].endswith("to 160")
    assert found["bond_dimension"] is None
    assert found["chi"] == []
    assert "zero_variance_energy" in codes(found)
    json.dumps(found, allow_nan=False)


def test_extrapolations_from_the_stages() -> None:
    """E = -10 + 2/D and E = -10 + variance, and a stage of simple update that lies elsewhere."""
    stages = [
        stage(1, 2, -8.0, 5.0, kind="simple_update"),
        *(stage(D, D, -10 + 2 / D, 2 / D) for D in (2, 3, 4)),
    ]
    found = convergence(OURS | {"stages": stages}, [])
    for name in ("variance", "bond_dimension"):
        assert found[name]["energy"] == pytest.approx(-10)
        assert 0 < found[name]["energy_error"] < 0.01
        assert len(found[name]["points"]) == 3
    assert found["bond_dimension"]["points"][0] == {
        "D": 2, "energy": -9.0, "energy_error": 1e-3,
    }  # fmt: skip
    two = convergence(OURS | {"stages": stages[:3]}, [])
    assert two["bond_dimension"]["energy"] == pytest.approx(-10)
    assert two["bond_dimension"]["energy_error"] is None
    json.dumps(two, allow_nan=False)


def test_the_steps_count_too() -> None:
    assert "optimisation_unstable" not in codes(convergence(OURS, lines()))
    history = [each | {"undone": each["step"] % 3 == 0} for each in lines(20)]
    held = {each["code"]: each["values"] for each in convergence(OURS, history)["diagnostics"]}
    assert held["optimisation_unstable"]["held_back"] == 7
    assert held["steps_too_few"] == {"steps": 13}
