"""How numbers and results look."""

from __future__ import annotations

import io
import math
from typing import Any

import pytest
from rich.console import Console

from tnvmc.run.screen import result_table, stage_line, with_error

RESULT: dict[str, Any] = {
    "energy_per_site": -0.6035,
    "energy_per_site_error": 2e-5,
    "units": "S.S",
    "exact_energy_per_site": -0.6035218345,
    "exact_source": "somewhere",
    "exact_method": "exact",
    "relative_error": 3.6e-5,
    "relative_error_error": 3.3e-5,
    "signed_error": 3.6e-5,
    "variance": 0.36,
    "n_sites": 36,
    "v_score": 1e-3,
    "tau": 0.7,
    "r_hat": 1.001,
    "acceptance": 0.3,
    "closure_spread": 1e-6,
    "n_samples": 8192,
    "wall_time_s": 75.0,
    "config": {"sampler": {"n_walkers": 64}},
}


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (-0.603521, 0.000123, "-0.60352(12)"),
        (-0.603521, 0.0995, "-0.60(10)"),
        (-21.7, 1.4, "-21.7(14)"),
        (-217.3, 14.0, "-217(14)"),
        (-2173.0, 140.0, "-2173(140)"),
        (-0.5, 0.0, "-0.50000000"),
        (-0.5, math.inf, "-0.5 +- inf"),
        (math.nan, 0.1, "nan +- 0.1"),
    ],
)
def test_numbers_with_errors(value: float, error: float, text: str) -> None:
    assert with_error(value, error) == text


def shown(result: dict[str, Any]) -> str:
    console = Console(file=io.StringIO(), width=80)
    console.print(result_table(result))
    return console.file.getvalue()  # type: ignore[attr-defined]


def test_the_table_has_what_a_reader_needs() -> None:
    text = shown(RESULT)
    for words in (
        "-0.60350000 +- 2.0e-05", "-0.6035218345  (somewhere)", "3.60e-05 +- 3.3e-05",
        "variance per site   1.000e-02", "V-score", "1.0010", "0.300", "1.0e-06", "1 min 15.0 s",
    ):  # fmt: skip
        assert words in text


def test_what_is_not_known_is_left_out_or_said() -> None:
    unknown = {
        **RESULT,
        **dict.fromkeys(("exact_energy_per_site", "exact_source", "exact_method")),
        **dict.fromkeys(("relative_error", "relative_error_error", "signed_error")),
        **dict.fromkeys(("tau", "r_hat", "acceptance", "closure_spread")),
    }
    text = shown(unknown)
    assert "not known" in text
    assert "R-hat" not in text
    assert "QMC" in shown({**RESULT, "exact_method": "QMC"})


def test_how_a_stage_ended() -> None:
    record = {"stage": 2, "stopped": "plateau", "steps": 31, "energy": -21.7, "energy_error": 0.036,
              "variance": 0.72}  # fmt: skip
    assert stage_line(record, 36) == (
        "stage 2 ended on its plateau, after 31 steps: E/N -0.6028(10), var/N 0.02"
    )
    record |= {"stopped": "steps", "energy": None}
    assert stage_line(record, 36) == (
        "stage 2 ended with its last step, after 31 steps: energy not finite"
    )
