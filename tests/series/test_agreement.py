"""How starts agree, and which of them is the lowest, from tables made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.series.several_starts import WRONG, StartRow, above_lowest, agreement_of
from tnvmc.shown import templates

ONE = StartRow(
    name="start-1", seed=0, energy=-10.0, energy_error=0.01, variance=0.1, v_score=0.1, steps=20,
    n_samples=512, n_sites=16, units="S.S",
)  # fmt: skip


def starts(*energies: float, error: float = 0.01) -> list[StartRow]:
    every = [
        replace(ONE, name=f"start-{k}", energy=energy, energy_error=error)
        for k, energy in enumerate(energies, 1)
    ]
    return above_lowest(every)[0]


@pytest.mark.parametrize(
    ("energies", "code", "near"),
    [
        ((-10.0, -9.98, -9.97), "starts_agree", 3),  # 1.4 and 2.1 errors of both
        ((-10.0, -9.98, -9.9), "starts_differ", 2),
        ((-9.9, -10.0, -9.8), "lowest_alone", 1),
    ],
)
def test_starts_agree_within_three_errors_of_both(
    energies: tuple[float, ...], code: str, near: int
) -> None:
    (found,) = agreement_of(starts(*energies))
    assert (found.code, found.values["near"]) == (code, near)
    spread = max(energies) - min(energies)
    assert found.values["spread_per_site"] == pytest.approx(spread / 16)


def test_energies_without_errors_are_compared_by_their_size() -> None:
    """An enumeration: 1e-6 of the energy counts as an error."""
    (found,) = agreement_of(starts(-10.0, -9.99999, error=0.0))
    assert found.code == "starts_agree"
    (found,) = agreement_of(starts(-10.0, -9.999, error=0.0))
    assert found.code == "lowest_alone"


def test_one_start_says_nothing() -> None:
    assert list(agreement_of(starts(-10.0))) == [] and above_lowest([]) == ([], None)


def test_the_codes_are_those_that_a_result_has() -> None:
    assert WRONG <= set(templates()["sentences"])


def test_an_energy_that_is_wrong_is_not_the_lowest() -> None:
    wrong = replace(ONE, energy=-12.0, diagnostics=(Diagnostic("below_reference", "warning"),))
    doubted = replace(ONE, name="start-2", diagnostics=(Diagnostic("any", "warning"),))
    assert above_lowest([wrong, doubted])[1] == doubted.name
    assert above_lowest([wrong])[1] == wrong.name
    for measured in (True, False):  # or in steps only
        exploded = Diagnostic("local_energies_exploded", "warning", {"measurement": measured})
        high = replace(ONE, energy=-99.0, diagnostics=(exploded,))
        assert above_lowest([high, doubted])[1] == (doubted if measured else high).name


def test_an_energy_that_is_wrong_does_not_count_as_agreeing() -> None:
    wrong = replace(ONE, name="start-9", energy=-12.0, above=-100.0)
    wrong = replace(wrong, diagnostics=(Diagnostic("below_reference", "warning"),))
    (found,) = agreement_of([*starts(-10.0, -9.98), wrong])
    assert (found.code, found.values["near"], found.values["n_starts"]) == ("starts_agree", 2, 2)


def test_the_same_energy_to_the_last_digit_is_one_start() -> None:
    assert next(agreement_of(starts(-10.0, -10.0))).code == "starts_identical"
