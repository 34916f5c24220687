"""Signs measured from samples, refusals, and measuring with symmetries restored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.drawing import enumerated
from tnvmc.ansatz.initial import initial_parameters
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.wrappers.symmetrised import Symmetrised
from tnvmc.app.run import run_file
from tnvmc.estimate.observables import local_energy
from tnvmc.estimate.statistics import exact_estimate
from tnvmc.exact import symmetric_levels
from tnvmc.lattice import chain, square
from tnvmc.lattice.permutations import NotSymmetric
from tnvmc.operators.models import heisenberg, j1j2, rydberg, tfim
from tnvmc.operators.symmetry import symmetry_group
from tnvmc.operators.term import Operator
from tnvmc.optimize.sr import SR
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.configurations import initial_configs
from tnvmc.sampling.enumerate import Enumerate
from tnvmc.sampling.problem import Point, Problem
from tnvmc.session.vmc import VMC
from tnvmc.settings.problems import ConfigError
from tnvmc.vmc.characters import measured_characters, symmetrised
from tnvmc.vmc.measurement import in_parts

FALL = 0.05
"""Of an enumerated energy in seven steps, without noise; the first error bar is 0.026."""

FOUR_SIGMA = 4.0  # by chance once in 16 000


def at(theta: np.ndarray, operator: Operator, magnetisation: int = 0, n: int = 1) -> Point:
    """A point with walkers in one sector; few of them, so that others are drawn for signs."""
    odd = operator.n_sites % 2 if operator.conserves_magnetisation else 0
    return Point(theta, initial_configs(operator, n, 0, magnetisation or odd or None))


def rough(operator: Operator, D: int, noise: float, seed: int = 0) -> tuple[PEPS, np.ndarray]:
    """A state from simple update, with noise that breaks what it had of symmetry."""
    peps = PEPS(operator.lattice, D)
    start = initial_parameters(peps, operator)
    rng = np.random.default_rng(seed)
    return peps, start + noise * np.abs(start).max() * rng.normal(size=start.shape)


def test_signs_are_of_psi_squared_whatever_power_the_steps_had() -> None:
    operator = heisenberg(square(2, 3))
    peps, theta = rough(operator, 2, 0.3)
    group = symmetry_group(operator, ("point",))
    problem = Problem.of(operator, peps)
    point = at(theta, operator, n=64)
    of_one, of_other = (
        [each.mean for each in measured_characters(problem, replace(point, power=p), group, 1)]
        for p in (1.0, 0.2)
    )
    assert of_one == of_other


@pytest.mark.whole
@pytest.mark.parametrize(
    ("operator", "odd"),
    [
        (heisenberg(chain(4)), False),
        (heisenberg(chain(6)), True),
        (heisenberg(square(2, 3)), True),
        (heisenberg(square(2, 4)), False),
    ],
)
def test_signs_of_heisenberg_ground_states(operator: Operator, odd: bool) -> None:
    """What exchanges the sublattices changes the sign of an odd number of singlets (Marshall)."""
    peps, theta = rough(operator, 2, 0.02)
    state = symmetrised(
        Problem.of(operator, peps), at(theta, operator), ["spin", "point"], threads=1
    )
    columns = operator.lattice.n_cols
    colour = np.array([sum(divmod(i, columns)) % 2 for i in range(operator.n_sites)])
    for g in state.group.elements:
        exchanges = bool((colour != colour[list(g.sites)]).any()) != g.inverts
        assert g.character == (-1 if odd and exchanges else 1), g.name


def test_overlaps_against_enumeration() -> None:
    operator = heisenberg(chain(6))
    peps, theta = rough(operator, 2, 0.2, seed=3)
    group = symmetry_group(operator, ["spin", "point"])
    found = measured_characters(Problem.of(operator, peps), at(theta, operator), group, 1)
    assert (found[0].mean, found[0].error) == (1.0, 0.0)
    everywhere = enumerated(peps, theta, operator, jacobian=False, threads=1)
    images = Symmetrised(peps, group).image_amplitudes(theta, everywhere.configs)
    psi = np.array([image.phase * np.exp(image.log_abs) for image in images])
    for each, image in zip(found, psi, strict=True):
        overlap = image @ psi[0] / (psi[0] @ psi[0])
        assert each.mean == pytest.approx(overlap, abs=5 * each.error + 1e-9)
        assert each.error < 0.1


def test_a_state_without_the_symmetry_is_refused() -> None:
    operator = tfim(square(3, 3), h=0.5)
    peps = PEPS(operator.lattice, 1)
    up = peps.flatten([np.array([1.0, 0.05]).reshape(2, 1, 1, 1, 1)] * 9)
    problem = Problem.of(operator, peps)
    with pytest.raises(NotSymmetric, match=r"no definite sign.*spin inversion: -?0\.0"):
        symmetrised(problem, at(up, operator), ["spin"], threads=1)


@pytest.mark.whole
def test_sectors_and_hamiltonians_are_refused() -> None:
    operator = heisenberg(chain(6))
    peps, theta = rough(operator, 2, 0.0)
    problem, up = Problem.of(operator, peps), at(theta, operator, magnetisation=2, n=64)
    with pytest.raises(NotSymmetric, match="2 Sz = 2"):
        symmetrised(problem, up, ["spin"])
    assert len(symmetrised(problem, up, ["point"]).group) == 2
    odd = heisenberg(chain(5))
    peps, theta = rough(odd, 2, 0.0)
    with pytest.raises(NotSymmetric, match="2 Sz = 1"):
        symmetrised(Problem.of(odd, peps), at(theta, odd), ["spin"])
    atoms = rydberg(square(2, 2))
    peps, theta = rough(atoms, 2, 0.0)
    with pytest.raises(NotSymmetric, match="changes under spin inversion"):
        symmetrised(Problem.of(atoms, peps), at(theta, atoms), ["spin"])


def test_only_broken_symmetries_are_named() -> None:
    atoms = rydberg(square(2, 2))
    with pytest.raises(NotSymmetric, match="so spin cannot be a symmetry of its"):
        symmetry_group(atoms, ["spin", "point"])
    uneven = heisenberg(chain(4), J=[1.0, 1.0, 2.0])
    with pytest.raises(NotSymmetric, match="so point cannot be a symmetry of its"):
        symmetry_group(uneven, ["spin", "point"])
    both = rydberg(chain(4), delta=[1.0, 1.0, 2.0, 1.0])
    with pytest.raises(NotSymmetric, match="so spin and point cannot be symmetries of its"):
        symmetry_group(both, ["spin", "point"])


@pytest.mark.whole
def test_measuring_with_symmetries_restored() -> None:
    """Sampled in processes with error bars, against the enumerated energy of the same sum."""
    operator = j1j2(square(2, 3), J2=0.3)
    peps, theta = rough(operator, 2, 0.1, seed=1)
    sampler = Sampler(n_walkers=64, n_samples=64, threads=2)
    vmc = VMC(operator, peps, sampler, theta=theta)
    found = vmc.measure(n_samples=512, n_burn=20, symmetries=("spin", "point"))
    state = symmetrised(vmc.problem, vmc.state.here, ("spin", "point"), threads=1)
    exact = enumerated(state, theta, operator, jacobian=False, threads=1)
    expected = exact_estimate(local_energy(operator, exact), exact.weight)
    assert found.energy == pytest.approx(expected.mean, abs=4 * found.energy_error)
    assert 0 < found.energy_error < 0.02 * abs(expected.mean)
    assert found.tau is not None and found.acceptance is not None
    assert found.energy + 4 * found.energy_error < vmc.measure(512, n_burn=20).energy
    by_enumeration = VMC(operator, peps, Enumerate(threads=1), theta=theta)
    both = by_enumeration.measure(symmetries=("point", "spin"))
    assert (both.energy, both.energy_error) == (pytest.approx(expected.mean), 0.0)


@pytest.mark.whole
def test_optimising_on_reweighted_samples() -> None:
    """SR takes the weights: the energy of a spoilt state falls, with an honest error."""
    operator = heisenberg(chain(6))
    peps, theta = rough(operator, 2, 0.5, seed=2)
    odd = {"left-right reflection": -1, "spin inversion": -1}
    state: Any = Symmetrised(peps, symmetry_group(operator, ["spin", "point"], odd))
    assert np.array_equal(initial_parameters(state, operator), initial_parameters(peps, operator))
    vmc = VMC(operator, state, Sampler(64, 256, n_burn=5, threads=1), SR(1e-2), theta=theta)
    history = vmc.run(7)
    assert all(record.energy_error > 0 and record.tau is not None for record in history)
    before, after = (
        VMC(operator, state, Enumerate(threads=1), theta=there).measure().energy
        for there in (theta, vmc.theta)
    )
    assert after < before - FALL
    assert abs(history[0].energy - before) < FOUR_SIGMA * history[0].energy_error


SETTINGS = """
[lattice]
kind = "chain"
shape = 6
[hamiltonian]
model = "heisenberg"
[ansatz]
D = 2
[sampler]
n_walkers = 16
n_samples = 32
[optimizer]
steps = 1
[measure]
n_samples = 64
symmetrise = ["spin", "point"]
[run]
threads = 1
"""


@pytest.mark.whole
def test_a_run_measures_as_its_file_says(tmp_path: Path) -> None:
    file, out = tmp_path / "run.toml", tmp_path / "run"
    file.write_text(SETTINGS)
    result = run_file(file, out)
    assert result["config"]["measure"]["symmetrise"] == ["spin", "point"]
    assert result["energy_error"] > 0
    with pytest.raises(ConfigError, match=r"measure\.symmetrise"):
        run_file(file, tmp_path / "other", ['measure.symmetrise=["spni"]'])
    with pytest.raises(NotSymmetric, match="changes under"):
        run_file(file, tmp_path / "other", ["hamiltonian.J=[1.0, 1.0, 1.0, 1.0, 2.0]"])
    assert not (tmp_path / "other").exists()


def test_what_cannot_be_drawn_directly_is_refused_before_the_run(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(
        '[lattice]\nshape = [2, 2]\n[hamiltonian]\nmodel = "heisenberg"\n[ansatz]\nD = 2\n'
        '[sampler]\nkind = "direct"\n[measure]\nsymmetrise = ["spin"]\n'
    )
    with pytest.raises(ConfigError, match=r"measure\.symmetrise: .* cannot be drawn directly"):
        run_file(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_weights_of_segments_are_on_one_scale() -> None:
    """One walker, one sample a segment: weights made to average 1 in each would all be 1."""
    operator = heisenberg(square(2, 3))
    peps, theta = rough(operator, 2, 0.5, seed=2)
    sampler = Sampler(1, 24, threads=1)
    vmc = VMC(operator, peps, sampler, theta=theta)
    state = Symmetrised(peps, symmetry_group(operator, ["spin"], {"spin inversion": -1}))
    method = replace(vmc.method, problem=replace(vmc.problem, ansatz=state))
    drawn = in_parts(method, vmc.state.here, operator.targets, 2**31)
    parts = [snapshot for snapshot, _ in drawn]
    weight = np.concatenate([part.weight for part in parts])
    configs = np.concatenate([part.configs for part in parts])
    amplitudes = [state.log_amplitude(theta, configs), *state.image_amplitudes(theta, configs)]
    total, *images = (np.exp(2 * amplitude.log_abs) for amplitude in amplitudes)
    assert len(parts) > 1
    expected = total / sum(images)
    np.testing.assert_allclose(weight / weight[0], expected / expected[0], rtol=1e-9)


def test_translations_of_a_state_that_was_optimised_without_them() -> None:
    """An open MPS on a ring: its energy falls when it is summed over the ring, and stays above the
    exact one.
    """
    operator = heisenberg(chain(8, "periodic"))
    peps, theta = rough(operator, 3, 0.0)
    vmc = VMC(operator, peps, Enumerate(threads=1), theta=theta)
    vmc.run(10)
    plain, summed = (vmc.measure(symmetries=names).energy for names in ((), ("translation",)))
    exact = symmetric_levels(operator, symmetry_group(operator, ["translation"]), 0)[0]
    assert exact - 1e-9 < summed < plain - 5e-3  # of 1.5e-2 between the state and the exact one


def test_one_configuration_without_psi_is_no_reason_to_refuse() -> None:
    """An enumeration has one walker, which may stand where a character of -1 makes psi vanish."""
    operator = tfim(square(3, 3))
    group = symmetry_group(operator, ["point"], {"diagonal reflection": -1})
    peps = PEPS(operator.lattice, 2)
    state = Symmetrised(peps, group)
    for seed in range(8):
        theta = np.random.default_rng(seed).normal(size=peps.n_params)
        VMC(operator, state, Enumerate(threads=1), theta=theta, seed=seed)
