"""How numbers are written."""

from __future__ import annotations

import math

import pytest

from tnvmc.report.numbers import per_site
from tnvmc.shown import duration, fixed, scientific, short, signed, with_error


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
        (-5.215e-13, 0.0, "-5.21500000e-13"),
        (0.0, 0.0, "0.00000000"),
        (-1.0, 2.9e-16, "-1.00000000"),  # no digits beyond those of double precision
        (-0.50000000000000122, 9.2e-16, "-0.50000000"),
        (-0.5, 1.2e-13, "-0.50000000000000(12)"),
        (0.0, 1e-17, "0.0(10)e-17"),
        (3e-17, 1e-17, "3.0(10)e-17"),
        (-4.986e299, 0.0, "-4.98600000e+299"),
        (-4.986e299, 1.2e297, "-4.986000e+299 +- 1.2e+297"),
    ],
)
def test_numbers_with_errors(value: float, error: float, text: str) -> None:
    assert with_error(value, error) == text


def test_nothing_but_zero_is_written_as_zero() -> None:
    """Of couplings of 1e-6 and less a fixed number of decimals leaves nothing."""
    assert fixed(-5.215e-13, 10) == "-5.2150000000e-13"
    assert fixed(-0.5, 10) == "-0.5000000000"
    assert per_site({"energy": -5e-12, "energy_error": None}, 10) == "-5.000000e-13 +- unknown"


@pytest.mark.parametrize(
    ("value", "text"), [(1.1e-4, "1.1e-4"), (2e-6, "2e-6"), (0.5, "5e-1"), (0.0, "0")]
)
def test_small_numbers(value: float, text: str) -> None:
    assert short(value) == text


@pytest.mark.parametrize(
    ("value", "error", "written"),
    [
        (3.2e-5, 4.9e-6, "3.20(49)e-5"),
        (-1.24e-3, 3e-4, "-1.24(30)e-3"),
        (2e-4, 3e-7, "2.0000(30)e-4"),
        (1e-6, 3e-5, "0.1(30)e-5"),
        (0.02, None, "2.0e-2"),
        (None, None, "-"),
        (0.0, 1e-3, "0.0(10)e-3"),
    ],
)
def test_relative_errors_are_written_short(
    value: float | None, error: float | None, written: str
) -> None:
    assert scientific(value, error) == written


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (1.6e-4, 5e-5, "+1.60(50)e-4"),
        (-2e-3, None, "-2.0e-3"),
        (0.0, 0.0, "0"),
        (1e-6, 2e-4, "+0.0(20)e-4"),
    ],
)
def test_differences_have_a_sign(value: float, error: float | None, text: str) -> None:
    assert signed(value, error) == text


@pytest.mark.parametrize(("of", "text"), [(-0.6, "0"), (1e-6, "-5.4(30)e-18")])
def test_differences_by_rounding_are_none(of: float, text: str) -> None:
    assert signed(-5.4e-18, 3e-18, of) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(3.14, "3.1 s"), (125, "2 min 5 s"), (3800, "1 h 3 min")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
