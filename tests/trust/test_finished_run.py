"""Every diagnostic of a result, provoked once on a made-up one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.trust.results import NOTHING, RESULT, SIGMA, found, warnings
from tests.trust.results import line as line_of
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.trust.finished_run import diagnostics_of, to_heed, verdict


def point(chi: int, difference: float, error: float = 7e-5, **other: Any) -> dict[str, Any]:
    """One of a chi scan; differences in units of the error of the measured energy."""
    values = {"chi": chi, "energy": -21.7, "energy_error": 3 * SIGMA, "closure_spread": 1e-6}
    values |= {"difference": difference * SIGMA, "difference_error": error}
    return values | {"effective_samples": 2000.0, "drawn_at": 16, "n_samples": 2048} | other


def of_chi(*points: dict[str, Any], **changed: Any) -> list[Diagnostic]:
    every = found(part={"chi": points}, **changed)
    return [each for each in every if each.code.startswith("chi_")]


def test_chi_too_small_and_enough() -> None:
    (enough,) = of_chi(point(8, 3.2), point(12, 0.1), point(16, 0, 0))
    assert (enough.code, enough.status) == ("chi_enough", "good")
    assert enough.values["chi"] == 12 and enough.values["largest_chi"] == 16
    assert enough.values["sigmas"] == pytest.approx(0.1)
    assert enough.values["per_site"] == pytest.approx(0.1 * SIGMA / 36)
    (small,) = enough.values["too_small"]
    assert small["chi"] == 8 and small["sigmas"] == pytest.approx(3.2)
    (enough,) = of_chi(point(16, -0.3), point(24, 0.9), point(32, 0, 0))
    assert enough.values["chi"] == 16 and enough.values["too_small"] == []


def test_chi_that_is_never_enough() -> None:
    (never,) = of_chi(point(8, 30), point(12, -4), point(16, 0, 0))
    assert (never.code, never.status) == ("chi_not_enough", "open")
    assert never.values["next_chi"] == 24
    assert [small["chi"] for small in never.values["too_small"]] == [8, 12]


@pytest.mark.parametrize(("difference", "error"), [(2.0, 6e-4), (0.1, 9e-4)])
def test_chi_with_too_few_samples(difference: float, error: float) -> None:
    (undecided,) = of_chi(point(8, difference, error), point(16, 0, 0))
    assert (undecided.code, undecided.status) == ("chi_undecided", "open")
    assert undecided.values["change_per_site"] == pytest.approx(-difference * SIGMA / 36)
    assert undecided.values["error_per_site"] == pytest.approx(error / 36)


def test_a_change_by_rounding_is_none() -> None:
    (enough,) = of_chi(point(8, 1e-12, 1e-17), point(16, 0, 0))
    assert (enough.code, enough.values["per_site"], enough.values["sigmas"]) == ("chi_enough", 0, 0)


GOOD = [
    Diagnostic("chi_enough", "good"), Diagnostic("samples_measured", "good"),
    Diagnostic("steps_settled", "good"), Diagnostic("bond_dimension_single", "open"),
]  # fmt: skip
ALL = {"converged": ["chi", "samples", "steps"], "short": [], "undecided": [], "unchecked": ["D"]}


@pytest.mark.parametrize(
    ("diagnostics", "status", "values", "heeded"),
    [
        (GOOD, "open", ALL, []),
        (GOOD[:3], "good", ALL | {"unchecked": []}, []),
        (
            [
                Diagnostic("heavy_tail", "warning"), Diagnostic("chi_undecided", "open"),
                Diagnostic("energy_still_falls", "open"), Diagnostic("samples_measured", "open"),
                Diagnostic("bond_dimension_enough", "good"), Diagnostic("measured_mean", "good"),
            ],
            "warning",
            {"converged": ["D"], "short": ["samples", "steps"], "undecided": ["chi"], "unchecked": [],
             "warnings": 1},
            ["heavy_tail", "chi_undecided", "energy_still_falls", "samples_measured"],
        ),
        (
            [Diagnostic("measured_energy_not_finite", "error"), Diagnostic("heavy_tail", "warning")],
            "error",
            {"converged": [], "errors": 1, "warnings": 1},
            ["measured_energy_not_finite", "heavy_tail"],
        ),
        (
            [*GOOD[:3], Diagnostic("bond_dimension_enough", "good"),
             Diagnostic("above_reference", "warning")],
            "warning",
            {"converged": ["chi", "samples"], "short": [], "undecided": ["steps", "D"]},
            ["above_reference"],
        ),
        ([], "good", {"converged": [], "unchecked": [], "warnings": 0}, []),
    ],
)  # fmt: skip
def test_one_verdict_and_all_that_is_wrong(
    diagnostics: list[Diagnostic], status: str, values: dict[str, Any], heeded: list[str]
) -> None:
    told = verdict(diagnostics)
    assert (told.code, told.status) == ("verdict", status)
    assert {key: told.values[key] for key in values} == values
    assert [each.code for each in to_heed(diagnostics)] == heeded


def test_chi_of_an_enumeration_has_no_sigma() -> None:
    (never,) = of_chi(point(2, 10, 0), point(3, 0, 0), energy_error=0.0)
    assert never.code == "chi_not_enough"
    assert never.values["too_small"][0]["sigmas"] is None


def test_chi_says_nothing_where_nothing_is_known() -> None:
    assert of_chi() == []
    assert of_chi(point(8, 0), {**point(16, 0), "difference": None}) == []


def test_the_double_layer_is_compared_with_the_measured_energy() -> None:
    layers = {
        "energy": -21.726 + 0.5 * SIGMA, "truncation": 0.01 * SIGMA, "magnetisation": 0,
        "sector_weight": 0.2, "seconds": 1.0, "points": [{"chi": 8}], "left_out": None,
    }  # fmt: skip
    for shift, code in ((0.0, "agrees"), (20 * SIGMA, "disagrees")):
        part = {"double_layer": layers | {"energy": layers["energy"] + shift}}
        (told,) = [d for d in found(part=part) if d.code.startswith("double_layer")]
        assert told.code == f"double_layer_{code}"
    assert told.values["sampled_per_site"] == -21.726 / 36
    part = {"double_layer": layers | {"left_out": {"reason": "state", "state": "vit"}}}
    (told,) = [d for d in found(part=part) if d.code.startswith("double_layer")]
    assert (told.code, told.status) == ("double_layer_left_out", "open")


def test_samples() -> None:
    (samples,) = found("samples_measured")
    assert samples.status == "good"
    assert samples.values == {
        "n_samples": 8192, "error_per_site": SIGMA / 36, "draws": 128.0, "tau": 0.7, "r_hat": 1.001
    }  # fmt: skip
    told = Diagnostic("walkers_disagree", "warning", {"r_hat": 1.2, "limit": 1.1})
    (doubtful,) = found("samples_measured", diagnostics=[told.as_dict()])
    assert doubtful.status == "open"
    assert not found("samples_measured", energy_error=0.0, tau=None, r_hat=None)


def fit(*energies: float, error: float | None = 0.02) -> dict[str, Any]:
    points = [
        {"D": D, "energy": energy, "energy_error": 7e-4} for D, energy in enumerate(energies, 2)
    ]
    return {"points": points, "energy": -21.76, "energy_error": error}


@pytest.mark.parametrize(
    ("line", "code", "status"),
    [
        (None, "single", "open"),
        (fit(-21.5, -21.7, -21.726), "not_enough", "open"),
        (fit(-21.7, -21.726, error=None), "not_enough", "open"),
        (fit(-21.7, -21.7259, -21.726), "enough", "good"),
        (fit(-21.7, -21.7245, -21.726), "undecided", "open"),
        (fit(-21.7, -21.726, -21.7), "worse", "open"),
    ],
)
def test_bond_dimension(line: dict[str, Any] | None, code: str, status: str) -> None:
    every = found(part={"bond_dimension": line})
    (told,) = [each for each in every if each.code.startswith("bond_dimension")]
    assert (told.code, told.status) == (f"bond_dimension_{code}", status)
    if line is None:
        assert told.values == {"D": 4}
        return
    before, last = line["points"][-2:]
    gain = before["energy"] - last["energy"]
    assert (told.values["smaller_D"], told.values["D"]) == (before["D"], last["D"])
    assert told.values["gain_per_site"] == pytest.approx(gain / 36)
    assert told.values["sigmas"] == pytest.approx(abs(gain) / SIGMA)
    error = told.values["extrapolated_error_per_site"]
    assert error is None if line["energy_error"] is None else error == pytest.approx(0.02 / 36)


def test_a_state_that_was_cut_is_not_judged_by_the_larger_one() -> None:
    line = fit(-21.5, -21.7)
    stages = [{"D": 3}, {"D": 2}]
    every = found(part={"bond_dimension": line}, stages=stages, energy=-21.5, energy_error=7e-4)
    (told,) = [each for each in every if each.code.startswith("bond_dimension")]
    assert (told.code, told.status) == ("bond_dimension_cut", "open")
    assert (told.values["D"], told.values["larger_D"]) == (2, 3)
    assert told.values["lower_per_site"] == pytest.approx(0.2 / 36)
    assert told.values["error_per_site"] == pytest.approx(7e-4 * 2**0.5 / 36)


def test_steps_of_a_larger_D_are_no_start_of_a_state_that_was_cut() -> None:
    stages = [{"D": 3}, {"D": 2}]
    large = [line_of(step, energy=-22.5, stage=1, D=3) for step in range(3)]
    small = [line_of(step, energy=-21.0, stage=2, D=2) for step in range(3, 6)]
    told = {each.code for each in found(history=large + small, stages=stages)}
    assert "worse_than_at_start" not in told
    worse = [line_of(step, energy=-22.5, stage=2, D=2) for step in range(3, 6)]
    told = {each.code for each in found(history=large + worse, stages=stages)}
    assert "worse_than_at_start" in told


def test_the_extrapolation_in_the_variance() -> None:
    (told,) = found("zero_variance_energy", part={"variance": fit(-21.7, -21.72, -21.726)})
    assert told.values["points"] == 3
    assert told.values["below_per_site"] == pytest.approx((21.76 - 21.726) / 36)
    assert told.values["extrapolated_per_site"] == pytest.approx(-21.76 / 36)


def test_an_extrapolation_below_the_exact_energy() -> None:
    line = fit(-21.7, -21.72, -21.726)
    error = line["energy_error"]
    codes = ("zero_variance_energy", "zero_variance_below_reference")
    (told,) = found(*codes, part={"variance": line}, exact_energy=line["energy"] + 4 * error)
    assert (told.code, told.status) == ("zero_variance_below_reference", "open")
    assert told.values["sigmas"] == pytest.approx(4)
    (told,) = found(*codes, part={"variance": line}, exact_energy=line["energy"] + 2 * error)
    assert told.code == "zero_variance_energy"
    bound = {"exact_energy": line["energy"] + 4 * error, "exact_method": "variational"}
    (told,) = found(*codes, part={"variance": line}, **bound)
    assert told.code == "zero_variance_energy"


def test_an_energy_that_is_not_finite_has_nothing_to_compare() -> None:
    assert found(energy=None) == []


def test_no_warning_without_reason() -> None:
    assert not warnings()
    unknown = dict.fromkeys(("tau", "r_hat", "closure_spread", "exact_method", "signed_error"))
    assert not warnings(**unknown, relative_error_error=None)


@pytest.mark.parametrize(
    ("low", "code", "values"),
    [
        ({"chi": 16, "difference": 5e-3}, "measured_chi_too_small", {"chi": 16, "largest_chi": 24}),
        ({"chi": 8, "effective_samples": 900.0}, "uneven_weights", {"drawn_at": 16, "chi": 8}),
    ],
)
def test_warnings_of_a_chi_scan(low: dict[str, Any], code: str, values: dict[str, Any]) -> None:
    told = warnings(part={"chi": [{**point(8, 0), **low}, point(24, 0, 0)]})
    assert list(told) == [code]
    assert values.items() <= told[code].items()


def test_diagnostics_of_a_result() -> None:
    """Those of the measurement stand before those of the convergence."""
    first = Diagnostic("measured_before_last_update", "warning", {"because": "energy_not_finite"})
    second = Diagnostic("walkers_disagree", "warning", {"r_hat": 1.2})
    held = {"diagnostics": [second.as_dict()], **NOTHING}
    result = {**RESULT, "diagnostics": [first.as_dict()], "convergence": held}
    assert diagnostics_of(result) == [first, second]
    assert diagnostics_of({}) == []
