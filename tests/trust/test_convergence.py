"""Extrapolations from stages and steps, as result.json holds them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from tests.trust.results import RESULT
from tnvmc.trust.convergence import convergence
from tnvmc.trust.finished_run import good_lines
from tnvmc.trust.steps import zero_variance

SIGMAS = 4.0
OURS = RESULT | {"energy": -9.9, "energy_error": 1e-3, "n_sites": 16, "exact_method": None}


def stage(number: int, D: int, energy: float, variance: float, **other: Any) -> dict[str, Any]:
    values = {"stage": number, "D": D, "energy": energy, "variance": variance}
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
    """E = -10 + 2/D and E = -10 + variance."""
    stages = [stage(D, D, -10 + 2 / D, 2 / D) for D in (2, 3, 4)]
    found = convergence(OURS | {"stages": stages}, [])
    for name in ("variance", "bond_dimension"):
        assert found[name]["energy"] == pytest.approx(-10)
        assert 0 < found[name]["energy_error"] < 0.01
        assert len(found[name]["points"]) == 3
    assert found["bond_dimension"]["points"][0] == {
        "D": 2, "energy": -9.0, "energy_error": 1e-3,
    }  # fmt: skip
    two = convergence(OURS | {"stages": stages[:2]}, [])
    assert two["bond_dimension"]["energy"] == pytest.approx(-10)
    assert two["bond_dimension"]["energy_error"] is None
    json.dumps(two, allow_nan=False)


def test_a_stage_far_from_the_line_makes_its_end_uncertain() -> None:
    """Heisenberg 3x4, D = 1, 2, 3: the error of D = 1 hides the bend that its place makes (exact: -6.6917)."""
    of_stages = [(-4.961, 0.117, 3.35), (-6.678, 0.014, 0.0736), (-6.6956, 2.9e-3, 0.0257)]
    stages = [
        stage(D, D, energy, variance, energy_error=error)
        for D, (energy, error, variance) in enumerate(of_stages, 1)
    ]
    fit = convergence(OURS | {"stages": stages}, [])["variance"]
    assert fit["chi2_per_dof"] < 1
    assert fit["energy"] == pytest.approx(-6.7093, abs=1e-4)  # 5.9 errors of the plain fit below
    assert -6.6917 - fit["energy"] < 2 * fit["energy_error"]


def test_steps_whose_energy_does_not_fall_give_no_line() -> None:
    """Nor a word: of a run that is as good as exact the noise has any slope."""
    rng = np.random.default_rng(1)
    history = [each | {"energy": -9.9 + 2e-3 * rng.normal()} for each in lines()]
    found = convergence(OURS, history)
    assert found["variance"] is None
    assert zero_variance(history) is None
    assert not any("variance" in each["code"] for each in found["diagnostics"])


def test_the_steps_count_too() -> None:
    assert "optimisation_unstable" not in codes(convergence(OURS, lines()))
    history = [each | {"undone": each["step"] % 3 == 0} for each in lines(20)]
    held = {each["code"]: each["values"] for each in convergence(OURS, history)["diagnostics"]}
    assert held["optimisation_unstable"]["held_back"] == 7
    assert held["steps_too_few"] == {"steps": 13}
