"""Every verdict and every warning, provoked once on a made-up result."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tnvmc.run.verdicts import closure_threshold, sentences, short, verdicts, warnings

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
    assert of_steps(-1e-3, n=20) == []


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
