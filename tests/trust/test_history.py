"""What the steps tell of a result: diagnostics made from history.jsonl."""

from __future__ import annotations

import pytest

from tests.trust.results import SIGMA, Json, found, line, warnings
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.trust.steps import good_lines


def of_steps(slope: float, error: float = 1e-3, n: int = 80) -> list[Diagnostic]:
    """Steps whose energy scatters by its error (as a comb: no slope of its own)."""
    lines = [line(k, -21.7 + slope * k + error * (-1) ** k, energy_error=error) for k in range(n)]
    return found(
        "steps_too_few", "steps_settled", "steps_undecided", "energy_still_falls",
        "energy_rises", history=lines,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("slope", "error", "n", "code", "status"),
    [
        (-1e-3, 1e-3, 80, "energy_still_falls", "open"),
        (1e-3, 1e-3, 80, "energy_rises", "open"),
        (-1e-5, 1e-3, 80, "steps_settled", "good"),
        (-5e-4, 2e-2, 80, "steps_undecided", "open"),  # by 14 sigma, less than an error
        (0.0, 2e-2, 80, "steps_undecided", "open"),
        (-1e-3, 1e-3, 20, "steps_too_few", "open"),
    ],
)
def test_steps(slope: float, error: float, n: int, code: str, status: str) -> None:
    (told,) = of_steps(slope, error, n)
    assert (told.code, told.status) == (code, status)
    assert told.values["steps"] == (n if code == "steps_too_few" else n // 4)


def test_the_change_over_the_last_quarter_is_in_the_values() -> None:
    (falls,) = of_steps(-1e-3)
    assert falls.values["change_per_site"] == pytest.approx(-20e-3 / 36, rel=0.01)
    assert falls.values["sigmas"] == pytest.approx(20e-3 / SIGMA, rel=0.01)
    assert of_steps(-1e-3, n=0) == []


@pytest.mark.parametrize(("still", "code"), [(True, "steps_settled"), (False, "steps_undecided")])
def test_a_quarter_of_noisy_steps_is_settled_where_the_half_is(still: bool, code: str) -> None:
    """The noise of a quarter, 4 sigma, hides a change; that of the half, 1.4 sigma, does not."""
    lines = [
        line(k, -21.7 + (0.0 if still else 3 * SIGMA * (k < 60)), energy_error=5 * SIGMA)
        for k in range(80)
    ]
    told = found("steps_settled", "steps_undecided", history=lines)
    assert [each.code for each in told] == [code]


def test_an_energy_above_that_of_the_first_step() -> None:
    told = warnings([line(0, -22.0), line(1, -21.8)])
    assert list(told) == ["worse_than_at_start"]
    values = told["worse_than_at_start"]
    assert (values["step"], values["of_last_stage"]) == (0, False)
    assert values["sigmas"] == pytest.approx(0.274 / 0.05, rel=1e-3)
    assert values["per_site"] == pytest.approx(0.274 / 36)
    assert not warnings([line(0, -21.9), line(1, -21.8)])  # 3.5 sigma
    assert not warnings([line(0, -22.0, energy_error=None), line(1)])
    staged = [line(0, stage=1), line(7, -22.0, stage=2), line(8, stage=2)]
    values = warnings(staged)["worse_than_at_start"]
    assert (values["step"], values["of_last_stage"]) == (7, True)


def test_steps_that_change_nothing() -> None:
    still = [line(k, step_norm=0.0) for k in range(3)]
    assert warnings(still)["parameters_unchanged"]["steps"] == 3
    assert "parameters_unchanged" not in warnings([*still, line(3, step_norm=0.1)])


SHORTENED = {"code": "step_shortened", "status": "open", "values": {"factor": 0.3}}


def test_steps_that_were_undone_or_shortened() -> None:
    held = [line(0, undone=True), line(1, diagnostics=[SHORTENED])]
    assert not warnings([*held, *map(line, range(2, 8))])  # a quarter
    many = [*held, line(2, undone=True), *map(line, range(3, 8))]
    assert warnings(many) == {
        "optimisation_unstable": {"held_back": 3, "steps": 8, "raise": ["sampler.n_samples"]}
    }
    of_sr = [each | {"optimizer": {"shift": 0.01}} for each in many]
    assert warnings(of_sr)["optimisation_unstable"]["raise"][-1] == "optimizer.diag_shift"
    assert not warnings([*held, line(2, undone=True)])  # too few to tell
    behind: list[Json] = [{**line(step, undone=True), "stage": 1} for step in range(8)]
    assert not warnings([*behind, *(line(step, stage=2) for step in range(8, 16))])


def test_short_steps_from_small_parameters_are_no_instability() -> None:
    """A network of NetKet that converged to 1e-13 was "unstable", and had no row."""
    values = {"factor": 0.01, "limit": "size of theta"}
    first = [line(k, diagnostics=[{**SHORTENED, "values": values}]) for k in range(6)]
    assert not warnings([*first, *map(line, range(6, 12))])
    always = [line(k, diagnostics=first[0]["diagnostics"]) for k in range(8)]
    assert "optimisation_unstable" in warnings(always)  # a large learning rate
    others = [line(k, diagnostics=[SHORTENED]) for k in range(6)]
    assert "optimisation_unstable" in warnings([*others, line(6), line(7)])


def test_energies_that_no_state_has() -> None:
    told = warnings([line(0), line(1, -2.3e9), line(2, None), line(3, 80.0)])
    assert told == {
        "local_energies_exploded": {
            "steps": [1, 3], "n_steps": 2, "measurement": False, "largest_per_site": 2.3e9 / 36,
            "bound_per_site": 45.0 / 36,
        }
    }  # fmt: skip
    assert not warnings([line(0), line(1, 60.0)])
    told = warnings([line(0)], energy_bound=10.0)["local_energies_exploded"]
    assert (told["steps"], told["measurement"]) == ([0], True)
    told = warnings([line(0, 80.0)], energy=None)
    assert list(told) == ["local_energies_exploded"]
    many = warnings([line(step, 1e9) for step in range(5)])["local_energies_exploded"]
    assert (many["steps"], many["n_steps"]) == ([0, 1, 2], 5)


def test_only_good_lines_of_the_last_stage_count() -> None:
    history = [line(step, stage=1 + (step >= 10)) for step in range(16)]
    history[12] |= {"undone": True}
    history[13] |= {"variance": None}
    assert [each["step"] for each in good_lines(history)] == [10, 11, 14, 15]
    assert good_lines([]) == []
