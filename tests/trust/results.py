"""A made-up result.json that no check has anything against."""

from __future__ import annotations

from typing import Any

from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.shown import sentence
from tnvmc.trust.finished_run import diagnose

Json = dict[str, Any]

SIGMA = 7.2e-4
RESULT: Json = {
    "energy": -21.726,
    "energy_error": SIGMA,  # 2e-5 per site
    "variance": 0.36,
    "n_sites": 36,
    "chi": 16,
    "energy_bound": 45.0,
    "n_samples": 8192,
    "tau": 0.7,
    "r_hat": 1.001,
    "closure_spread": 1e-6,
    "exact_method": "exact",
    "signed_error": 3.6e-5,
    "relative_error_error": 3.3e-5,
    "config": {
        "sampler": {"n_walkers": 64}, "ansatz": {"kind": "peps", "D": 4},
    },
}  # fmt: skip
NOTHING: Json = {"chi": [], "double_layer": None, "variance": None, "bond_dimension": None}


def line(step: int, energy: float | None = -21.0, **other: Any) -> Json:
    """One step of history.jsonl."""
    told: Json = {"step": step, "energy": energy, "energy_error": 0.05, "variance": 0.4}
    return told | {"undone": False, "diagnostics": []} | other


def found(
    *codes: str, history: list[Json] | None = None, part: Json | None = None, **changed: Any
) -> list[Diagnostic]:
    """Diagnostics of these codes; of all codes where none is named."""
    every = diagnose(RESULT | changed, history or [], NOTHING | (part or {}))
    assert not any(
        sentence(each).startswith(each.code) for each in every
    )  # the values fit the texts
    return [each for each in every if not codes or each.code in codes]


def warnings(history: list[Json] | None = None, part: Json | None = None, **changed: Any) -> Any:
    """Codes of the warnings and errors, with their values."""
    every = found(history=history, part=part, **changed)
    return {each.code: each.values for each in every if each.status in ("warning", "error")}
