"""Every verdict and every warning, provoked once on a made-up result."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tnvmc.analysis.verdicts import closure_threshold, leaves_open, sentences, verdicts, warnings
from tnvmc.report.numbers import short

RESULT: dict[str, Any] = {
    "energy": -21.726,
    "energy_error": 7.2e-4,  # 2e-5 per site
    "variance": 0.36,
    "n_sites": 36,
    "n_samples": 8192,
    "tau": 0.7,
    "r_hat": 1.001,
    "closure_spread": 1e-6,
    "exact_method": "exact",
    "signed_error": 3.6e-5,
    "relative_error_error": 3.3e-5,
    "config": {
        "sampler": {"n_walkers": 64}, "measure": {"chi": 16}, "ansatz": {"kind": "peps", "D": 4},
    },
}  # fmt: skip
NOTHING: dict[str, Any] = {"chi": [], "variance": None, "bond_dimension": None}


def rung(chi: int, difference: float, error: float = 7e-5, **other: Any) -> dict[str, Any]:
    """One of a ladder; differences in units of the error of the measured energy."""
    sigma = RESULT["energy_error"]
    values = {"chi": chi, "energy": -21.7, "energy_error": 3 * sigma, "closure_spread": 1e-6}
    values |= {"difference": difference * sigma, "difference_error": error}
    return values | {"effective_samples": 2000.0, "drawn_at": 16, "n_samples": 2048} | other


def of_chi(*ladder: dict[str, Any], **changed: Any) -> list[str]:
    found = verdicts({**RESULT, **changed}, [], {**NOTHING, "chi": ladder})
    return [text for text in found if text.startswith("chi")]


def test_chi_too_small_and_enough() -> None:
    assert of_chi(rung(8, 3.2), rung(12, 0.1), rung(16, 0, 0)) == [
        "chi 8 is too small: the energy moves by 3.2 sigma (6.4e-5 per site) at 16",
        "chi 12 is enough: going to 16 moves the energy by 0.1 sigma (2e-6 per site)",
    ]
    assert of_chi(rung(16, -0.3), rung(24, 0.9), rung(32, 0, 0)) == [
        "chi 16 is enough: going to 32 moves the energy by 0.3 sigma (6e-6 per site)"
    ]


def test_chi_that_is_never_enough() -> None:
    *_, last = of_chi(rung(8, 30), rung(12, -4), rung(16, 0, 0))
    assert last == "chi 16 is not shown to be enough: measure at 24 as well"


@pytest.mark.parametrize(("difference", "error"), [(2.0, 6e-4), (0.1, 9e-4)])
def test_chi_with_too_few_samples(difference: float, error: float) -> None:
    (text,) = of_chi(rung(8, difference, error), rung(16, 0, 0))
    assert "too few samples to tell" in text
    assert "+-" in text


def test_chi_of_an_enumeration_has_no_sigma() -> None:
    small, last = of_chi(rung(2, 10, 0), rung(3, 0, 0), energy_error=0.0)
    assert small == "chi 2 is too small: the energy moves by 2e-4 per site at 3"
    assert "not shown" in last


def test_chi_says_nothing_where_nothing_is_known() -> None:
    assert of_chi() == []
    assert of_chi(rung(8, 0), {**rung(16, 0), "difference": None}) == []


def of_steps(slope: float, error: float = 1e-3, n: int = 80) -> list[str]:
    """Steps whose energy scatters by its error (as a comb: no slope of its own)."""
    lines = [
        {"energy": -21.7 + slope * k + error * (-1) ** k, "energy_error": error} for k in range(n)
    ]
    return [text for text in verdicts(RESULT, lines, NOTHING) if text.startswith("steps")]


def test_steps() -> None:
    (falls,) = of_steps(-1e-3)
    assert falls.startswith("steps: the energy still falls: by 27.8 sigma (5.6e-4 per site) over")
    assert "last quarter (20 steps)" in falls
    assert "rises" in of_steps(1e-3)[0]
    assert "enough" in of_steps(-1e-5)[0]
    assert "no change of the energy is seen" in of_steps(-5e-4, error=2e-2)[0]
    assert of_steps(-1e-3, n=20) == ["steps: 20 are too few to tell whether the energy has settled"]
    assert of_steps(-1e-3, n=0) == []


def of(word: str, result: dict[str, Any], found: dict[str, Any] = NOTHING) -> str:
    (text,) = [text for text in verdicts(result, [], found) if text.startswith(word)]
    return text


def test_samples() -> None:
    assert of("samples", RESULT) == (
        "samples: 8192 give an error of 2e-5 per site, tau 0.7 of 128 draws, R-hat 1.001"
    )
    assert "see the warnings" in of("samples", {**RESULT, "r_hat": 1.2})
    enumerated = {**RESULT, "energy_error": 0.0, "tau": None, "r_hat": None}
    assert not any(text.startswith("samples") for text in verdicts(enumerated, [], NOTHING))


def fit(*energies: float, error: float | None = 0.02) -> dict[str, Any]:
    points = [
        {"D": D, "energy": energy, "energy_error": 7e-4} for D, energy in enumerate(energies, 2)
    ]
    return {"points": points, "energy": -21.76, "energy_error": error}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (None, "D = 4 is the only one here"),
        (fit(-21.5, -21.7, -21.726),
         "4 is not the end: going from D = 3 to 4 lowered the energy by 36.1 sigma"),
        (fit(-21.7, -21.726, error=None), "(two points: no error)"),
        (fit(-21.7, -21.7259, -21.726), "D: 3 is enough: going from D = 3 to 4"),
        (fit(-21.7, -21.7245, -21.726), "D: too few samples to tell whether 3 is enough: going"),
        (fit(-21.7, -21.726, -21.7), "that stage is not converged"),
    ],
)  # fmt: skip
def test_bond_dimension(line: dict[str, Any] | None, words: str) -> None:
    assert words in of("D:", RESULT, {**NOTHING, "bond_dimension": line})


def test_the_extrapolation_in_the_variance_is_called_one() -> None:
    text = of("variance", RESULT, {**NOTHING, "variance": fit(-21.7, -21.72, -21.726)})
    assert "through 3 points ends at -0.60444(56) per site, 9.4e-4 below" in text
    assert "an extrapolation and no bound" in text


def test_an_energy_that_is_not_finite() -> None:
    (text,) = verdicts({**RESULT, "energy": None}, [], NOTHING)
    assert "not finite" in text
    (text,) = warnings({**RESULT, "energy": None})
    assert "not finite" in text


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"r_hat": 1.2}, "R-hat is 1.200: the walkers disagree"),
        ({"tau": 10.0}, "tau is 10.0 draws and the chains have 128"),
        ({"closure_spread": 0.1}, "closure spread is 1e-1, above 5.8e-3"),
        ({"signed_error": -1e-3}, "30.3 error bars below the exact one"),
        ({"signed_error": -1e-3, "exact_method": "QMC"}, "below the one of QMC"),
        ({"effective_samples": 300.0}, "8192 weighted samples are worth 300"),
    ],
)
def test_warnings(changed: dict[str, Any], words: str) -> None:
    (text,) = warnings({**RESULT, **changed})
    assert words in text


def above(error: float, part: float = 4.9e-2, **changed: Any) -> dict[str, Any]:
    told = {"signed_error": part, "relative_error_error": error, "energy_error": error * 21.7}
    return {**RESULT, **told, **changed}


@pytest.mark.parametrize(
    ("ansatz", "advice"),
    [
        ({"kind": "peps", "D": 2}, "more steps, a larger D or another start"),
        ({"kind": "vit"}, "more steps, a larger network or another start"),
        ({"kind": "product", "D": 1}, "more steps, another kind of ansatz or another start"),
    ],
)
def test_an_energy_far_above_the_exact_one(ansatz: dict[str, Any], advice: str) -> None:
    config = {**RESULT["config"], "ansatz": ansatz}
    (text,) = warnings(above(4.9e-2 / 68.7, config=config))
    assert text == (
        "the energy lies 68.7 error bars above the exact one (4.9e-2 of it): not converged; take "
        + advice
    )


def test_how_far_above_counts() -> None:
    (text,) = warnings(above(1e-3, exact_method="QMC"))
    assert "above the one of QMC" in text
    (text,) = warnings(above(0.0))  # an enumeration
    assert "lies 4.9e-2 (relative) above the exact one" in text
    assert not warnings(above(1e-2))  # 4.9 errors
    assert not warnings(above(1e-4, 9e-3))
    assert not warnings(above(1e-3, exact_method="variational"))


def test_an_energy_without_error() -> None:
    """None: not finite.  Nothing can be counted in it."""
    (text,) = warnings({**RESULT, "energy_error": None, "signed_error": 0.5})
    assert "no error bar" in text
    (text,) = warnings({**RESULT, "energy_error": None, "signed_error": -0.5})
    assert "no error bar" in text


def line(step: int, energy: float | None = -21.0, **other: Any) -> dict[str, Any]:
    told = {"step": step, "energy": energy, "energy_error": 0.05, "undone": False, "note": None}
    return told | other


def on_the_way(*lines: dict[str, Any], **changed: Any) -> list[str]:
    return warnings({**RESULT, **changed}, None, lines)


def test_an_energy_above_that_of_the_first_step() -> None:
    (text,) = on_the_way(line(0, -22.0), line(1, -21.8))
    assert text.startswith("the energy lies 5.5 sigma (7.6e-3 per site) above that of step 1: the ")
    assert not on_the_way(line(0, -21.9), line(1, -21.8))  # 3.5 sigma
    assert not on_the_way(line(0, -22.0, energy_error=None), line(1))
    (text,) = on_the_way(line(0, stage=1), line(7, -22.0, stage=2), line(8, stage=2))
    assert "above that of step 8, the first of the last stage: the steps made it worse" in text


def test_steps_that_were_undone_or_shortened() -> None:
    held = [line(0, undone=True), line(1, note="step shortened to 0.3 of its length")]
    assert not on_the_way(*held, *map(line, range(2, 8)))  # a quarter
    (text,) = on_the_way(*held, line(2, undone=True), *map(line, range(3, 8)))
    assert text.startswith("3 of 8 steps were undone or shortened: the optimisation is unstable")
    assert "diag_shift" not in text
    config = {**RESULT["config"], "optimizer": {"kind": "sr"}}
    (text,) = on_the_way(*held, line(2, undone=True), *map(line, range(3, 8)), config=config)
    assert text.endswith("or optimizer.diag_shift")
    assert not on_the_way(*held, line(2, undone=True))  # too few to tell
    behind = [{**line(step, undone=True), "stage": 1} for step in range(8)]
    assert not on_the_way(*behind, *(line(step, stage=2) for step in range(8, 16)))


def test_energies_that_no_state_has() -> None:
    lines = [line(0), line(1, -2.3e9), line(2, None), line(3, 4e3)]
    (text,) = on_the_way(*lines)
    assert "exploded in step 2, step 4: up to 6.4e7 per site, over 100 times the" in text
    assert "psi nearly vanishes" in text
    (text,) = on_the_way(line(0), line(1, 80.0), energy_bound=45.0)
    assert "exploded in step 2: up to 2.2e0 per site, no state has more than 1.2e0" in text
    assert not on_the_way(line(0), line(1, 60.0), energy_bound=45.0)
    (text, *_) = on_the_way(line(0), energy_bound=10.0)
    assert "exploded in step 1, the measurement" in text
    (_, text) = on_the_way(line(0, 80.0), energy=None, energy_bound=45.0)
    assert "exploded in step 1:" in text


def test_verdicts_that_leave_something_open() -> None:
    enough = (*of_chi(rung(8, 3.2), rung(12, 0.1), rung(16, 0, 0)), *of_steps(-1e-5))
    assert not any(map(leaves_open, enough))
    *_, chi = of_chi(rung(8, 30), rung(12, -4), rung(16, 0, 0))
    for text in (chi, *of_steps(-1e-3), *of_steps(1e-3), *of_steps(-1e-3, n=20)):
        assert leaves_open(text)
    for ladder in (fit(-21.5, -21.7, -21.726), fit(-21.7, -21.726, -21.7)):
        assert leaves_open(of("D:", RESULT, {**NOTHING, "bond_dimension": ladder}))


def test_no_warning_without_reason() -> None:
    assert not warnings(RESULT)
    unknown = dict.fromkeys(("tau", "r_hat", "closure_spread", "exact_method", "signed_error"))
    assert not warnings({**RESULT, **unknown, "relative_error_error": None})
    # 3.9 errors below an exact energy; any number of them below a variational one.
    assert not warnings({**RESULT, "signed_error": -3.9 * 3.3e-5})
    assert not warnings({**RESULT, "signed_error": -1.0, "exact_method": "variational"})
    # A few draws say nothing about mixing.
    assert not warnings({**RESULT, "r_hat": 1.2, "tau": 1.0, "n_samples": 128})


@pytest.mark.parametrize(
    ("low", "words"),
    [
        ({"chi": 16, "difference": 5e-3}, "was measured at chi 16 and moves by 6.9 sigma"),
        ({"chi": 8, "effective_samples": 900.0}, "2048 configurations drawn at chi 16 are worth"),
    ],
)
def test_warnings_of_the_ladder(low: dict[str, Any], words: str) -> None:
    (text,) = warnings(RESULT, {**NOTHING, "chi": [{**rung(8, 0), **low}, rung(24, 0, 0)]})
    assert words in text


def test_the_threshold_of_the_closure_spread_is_the_root_of_the_relative_error() -> None:
    assert closure_threshold(RESULT) == pytest.approx(math.sqrt(7.2e-4 / 21.726))
    assert closure_threshold({**RESULT, "energy_error": 0.0}) == pytest.approx(1e-3)


def test_sentences_of_a_result() -> None:
    """Those that stand in it; an older one has none, and is looked at."""
    found = {"verdicts": ["a"], "warnings": ["b"]}
    assert sentences({**RESULT, "convergence": found}) == ["a", "warning: b"]
    (text,) = sentences({**RESULT, "r_hat": 1.2})
    assert text.startswith("warning: R-hat")


@pytest.mark.parametrize(
    ("value", "text"), [(1.1e-4, "1.1e-4"), (2e-6, "2e-6"), (0.5, "5e-1"), (0.0, "0")]
)
def test_small_numbers(value: float, text: str) -> None:
    assert short(value) == text
