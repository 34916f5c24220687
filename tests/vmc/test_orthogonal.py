"""Excited states: overlaps and penalties against dense vectors, levels against diagonalisation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.oracles import dense_sector, finite_difference
from tnvmc.ansatz.jastrow import Jastrow
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.peps.symmetries import sharing
from tnvmc.ansatz.wrappers.symmetrised import Symmetrised
from tnvmc.exact import exact_levels
from tnvmc.lattice import chain, square
from tnvmc.operators.models import heisenberg, tfim
from tnvmc.operators.symmetry import symmetry_group
from tnvmc.operators.term import Operator
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.enumerate import Enumerate
from tnvmc.sampling.problem import Point, Problem
from tnvmc.session.arguments import lower_states
from tnvmc.session.vmc import VMC
from tnvmc.trust.energies import DIAGONALISED
from tnvmc.trust.reference import _not_lowest, excited_level, find_reference, of_excited
from tnvmc.vmc.observation import observe
from tnvmc.vmc.orthogonal import (
    LowerState,
    Overlap,
    SampledState,
    largest_change_by_a_site,
    overlap,
    penalties,
)

ROUNDING = 1e-10
"""Of sums over some tens of configurations, amplitudes through logarithms."""

FOUR_SIGMA = 4.0  # by chance once in 16 000

PENALTY = 1.7

H = heisenberg(square(2, 3))


def random_theta(ansatz: Any, seed: int) -> np.ndarray:
    """Parameters that have no symmetry."""
    rng = np.random.default_rng(seed)
    parts: np.ndarray = 0.4 + rng.normal(size=(2, ansatz.n_params))
    return parts[0] + 1j * parts[1] if ansatz.dtype == "complex128" else parts[0]


def states(dtype: str, sampler: Any) -> tuple[Any, np.ndarray, LowerState]:
    """A state psi with its parameters, and another one that it is kept orthogonal to."""
    psi, phi = PEPS(H.lattice, 2, dtype=dtype), PEPS(H.lattice, 2)
    theta = random_theta(psi, 1)
    problem = Problem.of(H, phi, magnetisation=0)
    configs = VMC(H, phi, Sampler(64, 64)).state.here.configs
    kept = LowerState(problem, Point(random_theta(phi, 2), configs), sampler, PENALTY)
    return psi, theta, kept


def vector(ansatz: Any, theta: np.ndarray, configs: np.ndarray) -> np.ndarray:
    """psi of all configurations, normalised."""
    found = ansatz.log_amplitude(theta, configs)
    psi = found.phase * np.exp(found.log_abs - found.log_abs.max())
    normalised: np.ndarray = psi / np.linalg.norm(psi)
    return normalised


def enumerated(psi: Any, theta: np.ndarray) -> Any:
    """All configurations of the sector, with log-derivatives."""
    configs = np.zeros((1, H.n_sites), dtype=np.int8)
    return observe(Problem.of(H, psi, magnetisation=0), Enumerate(), Point(theta, configs), 0)


def test_an_excited_state_shares_no_tensors() -> None:
    """The triplet of 2x4 sites is odd under reflections that the ground state is even under."""
    operator = heisenberg(square(2, 4))
    alike = PEPS(operator.lattice, 2, sharing=sharing(operator))
    ground = VMC(operator, alike, Enumerate(threads=1))
    with pytest.raises(ValueError, match="without sharing"):
        VMC(operator, alike, Enumerate(threads=1), orthogonal_to=ground)
    plain = PEPS(operator.lattice, 2)
    assert VMC(operator, plain, Enumerate(threads=1), orthogonal_to=ground).method.orthogonal_to
    odd = symmetry_group(operator, "point", {"left-right reflection": -1})
    with pytest.raises(ValueError, match="without sharing"):
        VMC(operator, Symmetrised(alike, odd), Enumerate(threads=1))


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_penalties_are_those_of_the_projector_on_the_kept_state(dtype: str) -> None:
    psi, theta, kept = states(dtype, Enumerate())
    found = enumerated(psi, theta)
    configs = found.snapshot.configs
    one, other = vector(psi, theta, configs), vector(kept.problem.ansatz, kept.point.theta, configs)
    local, (seen,) = penalties([kept], SampledState(psi, theta, found.snapshot, found.info), 0)
    assert local is not None
    assert np.allclose(local, PENALTY * other * np.vdot(other, one) / one, rtol=ROUNDING)
    assert seen.squared == pytest.approx(abs(np.vdot(other, one)) ** 2, rel=ROUNDING)
    assert seen.error == 0


@pytest.mark.whole
def test_a_step_goes_down_the_gradient_of_energy_and_penalty() -> None:
    psi, theta, kept = states("float64", Enumerate())
    found = enumerated(psi, theta)
    local, _ = penalties([kept], SampledState(psi, theta, found.snapshot, found.info), 0)
    lowered, weight = found.local + local, found.snapshot.weight
    rows = found.snapshot.jacobian.dense()
    gradient = 2 * np.einsum("m,m,mp->p", weight, lowered - weight @ lowered, rows)

    configs = found.snapshot.configs
    other = vector(kept.problem.ansatz, kept.point.theta, configs)
    dense = dense_sector(H, 0) + PENALTY * np.outer(other, other)

    def cost(at: np.ndarray) -> float:
        one = vector(psi, at, configs)
        return float(one @ dense @ one)

    assert np.allclose(gradient, finite_difference(cost, theta), atol=1e-6)


@pytest.mark.whole
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_sampled_overlaps_and_their_errors_hold(dtype: str) -> None:
    psi, theta, kept = states(dtype, Sampler(64, 64))
    exact = enumerated(psi, theta)
    configs = exact.snapshot.configs
    one, other = vector(psi, theta, configs), vector(kept.problem.ansatz, kept.point.theta, configs)
    dense = abs(np.vdot(other, one)) ** 2
    sampler = Sampler(64, 2048, n_burn=50, power=1.0)
    vmc = VMC(H, psi, sampler, theta=theta)
    problem = replace(vmc.problem, targets={})
    snapshot, _, info = sampler.draw(problem, vmc.state.here, 7, jacobian=False)
    seen = SampledState(psi, theta, snapshot, info)
    for found in (overlap(kept, seen), penalties([kept], seen, 3)[1][0]):
        assert 0 < found.error < 0.1
        assert abs(found.squared - dense) < FOUR_SIGMA * found.error


@pytest.mark.whole
def test_steps_take_their_samples_in_turn() -> None:
    _, _, kept = states("float64", Sampler(64, 64))
    everything, info = kept.samples
    parts = [kept.part(1024, number)[0].configs for number in range(4)]
    assert np.array_equal(np.concatenate(parts), everything.configs)
    assert np.array_equal(kept.part(1024, 4)[0].configs, parts[0])
    assert kept.part(10**6, 1)[1] == info


def test_norms_of_any_size_cancel() -> None:
    psi, theta, kept = states("float64", Enumerate())
    found = enumerated(psi, theta)
    seen = SampledState(psi, theta, found.snapshot, found.info)
    before = penalties([kept], seen, 0)[1][0]
    larger = replace(kept, point=replace(kept.point, theta=1e60 * kept.point.theta))
    assert penalties([larger], seen, 0)[1][0].squared == pytest.approx(before.squared, rel=1e-9)


@pytest.mark.whole
def test_penalties_find_the_lowest_state_beside_the_kept_one() -> None:
    """From a start next to the ground state."""
    ground = VMC(H, PEPS(H.lattice, 3), Enumerate())
    ground.run(25)
    excited = VMC(H, PEPS(H.lattice, 3), Enumerate(), orthogonal_to=[ground], seed=3)
    excited.run(70)
    found = excited.measure()
    assert found.energy == pytest.approx(exact_levels(H, 2)[1], rel=1e-4)
    assert found.overlaps[0].squared < 1e-3
    assert not found.diagnostics or {d.code for d in found.diagnostics} == {"measured_mean"}


def test_states_of_another_kind_can_be_kept() -> None:
    ground = VMC(H, PEPS(H.lattice, 2), Enumerate())
    excited = VMC(H, Jastrow(H.lattice), Enumerate(), orthogonal_to=ground)
    (record,) = excited.run(1)
    assert 0 < record.overlaps[0].squared < 1


@pytest.mark.whole
def test_a_penalty_below_the_gap_is_told() -> None:
    ground = VMC(H, PEPS(H.lattice, 2), Enumerate())
    ground.run(20)
    excited = VMC(H, PEPS(H.lattice, 2), Enumerate(), orthogonal_to=ground, penalty=0.05)
    excited.run(10)
    with pytest.warns(UserWarning, match="not_orthogonal"):
        found = excited.measure()
    assert "not_orthogonal" in [each.code for each in found.diagnostics]


def excited_codes(
    ground: VMC, squared: float, error: float, energy: tuple[float, float]
) -> list[str]:
    """What is told of a state with such an overlap."""
    kept = lower_states(ground, None, ground.problem)
    found = [Overlap(squared, error, 1.0)]
    return [each.code for each in of_excited(energy, kept, found, DIAGONALISED)]


@pytest.mark.whole
def test_an_overlap_is_judged_by_what_it_does_to_the_energy() -> None:
    ground = VMC(H, PEPS(H.lattice, 3), Enumerate())
    ground.run(25)
    level = exact_levels(H, 2)[1]  # 0.82 above the ground state

    def codes(squared: float, error: float, of_energy: float = 0.0, off: float = 0.0) -> list[str]:
        return excited_codes(ground, squared, error, (level + off, of_energy))

    assert codes(5e-4, 0.0) == []
    assert codes(5e-3, 1e-4) == ["not_orthogonal"]
    assert codes(5e-3, 1e-4, of_energy=0.02) == []
    assert codes(2e-2, 1e-3, of_energy=1.0) == ["not_orthogonal"]
    assert codes(0.0, 0.02) == ["overlap_unknown"]
    assert codes(0.0, float("nan")) == ["overlap_unknown"]
    assert codes(0.0, 1e-4, of_energy=0.01, off=-0.05) == ["below_level"]


@pytest.mark.whole
def test_a_kept_state_that_is_no_eigenstate_is_told() -> None:
    ground = VMC(H, PEPS(H.lattice, 3, sharing=None), Enumerate())
    ground.run(25)
    noise = np.random.default_rng(1).normal(size=ground.theta.shape)
    rough = VMC(H, ground.ansatz, Enumerate(), theta=ground.theta + 0.1 * noise)
    excited = VMC(H, ground.ansatz, Enumerate(), orthogonal_to=rough, seed=3)
    excited.run(70)
    with pytest.warns(UserWarning, match="below_level|not_orthogonal"):
        found = excited.measure()
    assert found.energy < exact_levels(H, 2)[1] - 1e-4


@pytest.mark.whole
def test_only_kept_states_that_are_the_lowest_levels_have_a_next_one() -> None:
    ground = VMC(H, PEPS(H.lattice, 3), Enumerate())
    ground.run(25)
    excited = VMC(H, PEPS(H.lattice, 3), Enumerate(), orthogonal_to=ground, seed=3)
    excited.run(70)
    levels = exact_levels(H, 3)
    (one,), (other,) = (lower_states(each, None, each.problem) for each in (ground, excited))
    for kept, level in (([one], 1), ([other, one], 2)):
        known = excited_level(kept, DIAGONALISED)
        assert known is not None
        assert known.energy_total == pytest.approx(levels[level], rel=1e-9)
        reference = find_reference(H, 0, kept=kept)
        assert reference.energy == pytest.approx(levels[level], rel=1e-9)
    assert excited_level([other], DIAGONALISED) is None
    assert excited_level([one, one], DIAGONALISED) is None
    assert find_reference(H, 0, kept=[other]).energy is None
    for kept, told in (([one], []), ([other, one], []), ([other], [1]), ([one, one], [2])):
        overlaps = [Overlap(0.0, 0.0, 1.0)] * len(kept)
        found = of_excited((float(levels[2]), 0.0), kept, overlaps, DIAGONALISED)
        numbers = [each.values["number"] for each in found if each.code == "kept_not_lowest"]
        assert numbers == told


@pytest.mark.parametrize(
    ("operator", "change"), [(H, 3.0), (heisenberg(chain(4)), 2.0), (tfim(chain(4), h=3.0), 10.0)]
)
def test_the_penalty_is_what_a_site_can_change(operator: Operator, change: float) -> None:
    assert largest_change_by_a_site(operator) == pytest.approx(change)


def refused() -> Sequence[Any]:
    """Arguments that make no excited state."""
    ground = VMC(H, PEPS(H.lattice, 2), Enumerate())
    other = heisenberg(square(2, 3), J=0.5)
    return [
        (ValueError, {"orthogonal_to": ground, "magnetisation": 2}),
        (ValueError, {"orthogonal_to": VMC(other, PEPS(H.lattice, 2), Enumerate())}),
        (ValueError, {"orthogonal_to": ground, "penalty": 0}),
        (ValueError, {"penalty": 2.0}),
        (ValueError, {"orthogonal_to": [ground, ground]}),
        (TypeError, {"orthogonal_to": "ground"}),
    ]


@pytest.mark.whole
@pytest.mark.parametrize(("error", "given"), refused())
def test_what_makes_no_excited_state_is_refused(error: type[Exception], given: Any) -> None:
    with pytest.raises(error):
        VMC(H, PEPS(H.lattice, 2), Enumerate(), **given)


def test_copies_of_a_degenerate_level_are_not_told_apart_by_rounding() -> None:
    levels = np.array([-1.5, -0.5 - 1e-15, -0.5, 0.25])
    kept: Any = [
        SimpleNamespace(energy=SimpleNamespace(mean=mean), problem=SimpleNamespace(operator=H))
        for mean in (-1.5 + 1e-10, -0.5 + 1e-10, -0.5 + 2e-10)
    ]
    assert list(_not_lowest(kept, levels)) == []
    assert [each.values["number"] for each in _not_lowest(kept[1:], levels)] == [1]
