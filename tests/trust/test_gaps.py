"""The gap between two energies: its error, its estimated bias, and what is said of it."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tnvmc import (
    PEPS,
    VMC,
    Enumerate,
    Operator,
    Symmetrised,
    chain,
    exact_ground_state,
    heisenberg,
    square,
    symmetry_group,
)  # fmt: skip
from tnvmc.estimate.statistics import v_score
from tnvmc.operators.models import tv
from tnvmc.trust.gaps import SLOPE, Gap, energy_gap, residual_energy


@dataclass
class Energy:
    energy: float
    energy_error: float
    variance: float
    n_sites: int = 16
    units: str = "S.S"
    e_inf: float = 0.0

    @property
    def v_score(self) -> float:
        return v_score(self.energy, self.variance, self.n_sites, self.e_inf)


def codes(gap: Gap) -> list[tuple[str, str]]:
    return [(found.code, found.status) for found in gap.diagnostics]


def test_errors_add_in_quadrature() -> None:
    gap = energy_gap(Energy(-8.7, 0.003, 1e-5), Energy(-9.2, 0.004, 1e-5))
    assert gap.energy == pytest.approx(0.5) and gap.error == pytest.approx(0.005)
    assert codes(gap) == [("gap_bias_small", "good")]


@pytest.mark.parametrize("e_inf", [0.0, 3.0])
def test_a_residual_is_a_part_of_the_v_score(e_inf: float) -> None:
    """A relative error of `SLOPE` times the V-score, counted from the energy at infinite temperature."""
    energy = Energy(-9.0, 0.01, 0.2, e_inf=e_inf)
    expected = SLOPE * energy.v_score * (e_inf - energy.energy)
    assert residual_energy(energy) == pytest.approx(expected)


def test_residuals_of_the_states_on_the_page_of_comparisons() -> None:
    """Relative errors and V-scores of docs/compare.md: within a factor of two of `SLOPE`."""
    j1j2 = [(4.8e-4, 2.08e-3), (9.9e-4, 7.53e-3), (4.95e-3, 5.03e-2), (6.77e-3, 4.0e-2)]
    heisenberg = [(1.42e-4, 1.77e-3), (5.58e-3, 3.76e-2), (5.75e-3, 4.10e-2), (4.59e-2, 2.84e-1)]
    slopes = [error / score for error, score in j1j2 + heisenberg]
    assert SLOPE / 2 < min(slopes) and max(slopes) < 2 * SLOPE


@pytest.mark.parametrize(
    ("variance", "code"),
    [
        (1e-4, ("gap_bias_small", "good")),
        (0.1, ("gap_bias", "open")),
        (1.0, ("gap_bias", "warning")),
    ],
)
def test_a_residual_beyond_the_error_is_told(variance: float, code: tuple[str, str]) -> None:
    """0.15 Var N / |E|: 3e-2 at a variance of 0.1, beside an error of 1.4e-2."""
    gap = energy_gap(Energy(-8.7, 0.01, variance), Energy(-9.2, 0.01, 0.0))
    assert codes(gap) == [code]
    assert gap.bias == gap.residual > 0 == gap.residual_below


def test_a_gap_below_zero_is_told() -> None:
    upper, lower = Energy(-9.2, 0.003, 1e-5), Energy(-9.1, 0.004, 1e-5)
    assert ("gap_negative", "warning") in codes(energy_gap(upper, lower))
    assert ("gap_negative", "warning") not in codes(energy_gap(Energy(-9.11, 0.003, 1e-5), lower))


def test_without_noise_any_residual_is_more_than_the_error() -> None:
    gap = energy_gap(Energy(-8.7, 0.0, 0.1), Energy(-9.2, 0.0, 0.0))
    assert gap.error == 0 and codes(gap) == [("gap_bias", "warning")]
    assert codes(energy_gap(Energy(-8.7, 0.0, 1e-18), Energy(-9.2, 0.0, 0.0)))[0][1] == "good"


@pytest.mark.parametrize("other", [{"n_sites": 12}, {"units": "Pauli"}])
def test_energies_of_two_systems_have_no_gap(other: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="energy_gap"):
        energy_gap(Energy(-8.7, 0.01, 0.1), Energy(-9.2, 0.01, 0.1, **other))


def measured(magnetisation: int, J: float = 1.0, **given: Any) -> Any:
    operator = heisenberg(square(2, 2), J)
    return of(operator, magnetisation, **given)


def of(operator: Operator, magnetisation: int, dtype: Any = float, **given: Any) -> Any:
    state = PEPS(operator.lattice, 2, dtype=dtype)
    run = VMC(operator, state, Enumerate(), magnetisation=magnetisation, **given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no step was made
        return run.measure()


def test_two_hamiltonians_and_one_sector_twice_have_no_gap() -> None:
    singlet, triplet = measured(0), measured(2)
    assert energy_gap(triplet, singlet).units == "S.S"
    for upper in (measured(2, 1.1), measured(0, seed=3), singlet):
        with pytest.raises(ValueError, match="energy_gap"):
            energy_gap(upper, singlet)
    halves = 0.5 * heisenberg(square(2, 2)) + 0.5 * heisenberg(square(2, 2))
    assert energy_gap(replace(of(halves, 2), units="S.S"), singlet).energy > 0
    assert "origin" not in singlet.as_dict()


def in_a_field(sign: float) -> Operator:
    """Fields on both ends of a chain, which a reflection with all spins turned over keeps."""
    ends = Operator.from_products(chain(4), [("Sz", [0], 0.3), ("Sz", [3], sign * 0.3)])
    return heisenberg(chain(4)) + ends


def twisted() -> Operator:
    """S_i x S_j along z, that turning all spins over keeps with complex conjugation only."""
    products = [("Sx Sy - Sy Sx", "nearest", 0.4)]
    return heisenberg(chain(4)) + Operator.from_products(chain(4), products)


@pytest.mark.parametrize(
    ("operator", "same"),
    [
        (heisenberg(chain(4)), True),
        (in_a_field(-1), True),
        (in_a_field(1), False),
        (twisted(), True),
    ],
)
def test_sectors_that_mirror_each_other_have_no_gap(operator: Operator, same: bool) -> None:
    dtype = complex if operator.is_complex else float
    up, down = (of(operator, sector, dtype=dtype) for sector in (2, -2))
    levels = [exact_ground_state(operator, sector).energy for sector in (2, -2)]
    assert (levels[0] == pytest.approx(levels[1])) == same
    if not same:
        assert math.isfinite(energy_gap(up, down).energy)
        return
    for upper, lower in ((up, down), (down, up)):
        with pytest.raises(ValueError, match="energy_gap"):
            energy_gap(upper, lower)


def test_a_sector_twice_is_known_by_its_signs_whatever_their_order() -> None:
    operator = heisenberg(chain(4))
    one, two = (
        Symmetrised(PEPS(operator.lattice, 2), symmetry_group(operator, names))
        for names in (["spin", "point"], ["point", "spin"])
    )
    runs = [VMC(operator, state, Enumerate(), magnetisation=m) for state, m in ((one, 0), (two, 0))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        measured = [run.measure() for run in runs]
    with pytest.raises(ValueError, match="energy_gap"):
        energy_gap(*measured)


def test_a_gap_of_numbers_is_refused() -> None:
    with pytest.raises(TypeError, match="Measurement"):
        energy_gap(1, 2)


def test_an_energy_that_is_not_finite_is_not_called_good() -> None:
    gap = energy_gap(Energy(-8.7, math.nan, math.nan), Energy(-9.2, 0.01, 0.1))
    assert codes(gap) == []


def test_energies_of_zero_have_a_gap() -> None:
    found = []
    for n in (1, 0):
        model = tv(chain(4), particles=n)
        found.append(VMC(model, PEPS(model.lattice, 2), Enumerate()).measure())
    assert math.isfinite(energy_gap(*found).energy)
