"""Signs measured from samples, refusals, and measuring with symmetries restored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tnvmc.ansatz.initial.parameters import initial_parameters
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.wrappers.symmetrised import Symmetrised
from tnvmc.app.run import run_file
from tnvmc.estimate.local import local_energy
from tnvmc.estimate.statistics import estimate
from tnvmc.lattice import chain, square
from tnvmc.operators.models import heisenberg, j1j2, rydberg, tfim
from tnvmc.operators.symmetry import NotSymmetric, symmetry_group
from tnvmc.operators.term import Operator
from tnvmc.optimize.sr import SR
from tnvmc.sampling.chains import Sampler, initial_configs
from tnvmc.sampling.enumerate import enumerate_samples
from tnvmc.settings.load import ConfigError
from tnvmc.vmc.characters import measured_characters, symmetrised
from tnvmc.vmc.driver import VMC, Enumerate
from tnvmc.vmc.segments import segments


def rough(operator: Operator, D: int, noise: float, seed: int = 0) -> tuple[PEPS, np.ndarray]:
    """A state from simple update, with noise that breaks what it had of symmetry."""
    peps = PEPS(operator.lattice, D)
    start = initial_parameters(peps, operator)
    rng = np.random.default_rng(seed)
    return peps, start + noise * np.abs(start).max() * rng.normal(size=start.shape)


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
    state = symmetrised(peps, operator, ["spin", "point"], theta=theta, threads=1)
    columns = operator.lattice.n_cols
    colour = np.array([sum(divmod(i, columns)) % 2 for i in range(operator.n_sites)])
    for g in state.group.elements:
        exchanges = bool((colour != colour[list(g.sites)]).any()) != g.inverts
        assert g.character == (-1 if odd and exchanges else 1), g.name


def test_overlaps_against_enumeration() -> None:
    operator = heisenberg(chain(6))
    peps, theta = rough(operator, 2, 0.2, seed=3)
    group = symmetry_group(operator, ["spin", "point"])
    found = measured_characters(peps, theta, operator, group, threads=1)
    assert (found[0].mean, found[0].error) == (1.0, 0.0)
    everywhere = enumerate_samples(peps, theta, operator, jacobian=False, threads=1)
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
    with pytest.raises(NotSymmetric, match=r"no definite sign.*spin inversion: -?0\.0"):
        symmetrised(peps, operator, ["spin"], theta=up, threads=1)
    state = symmetrised(peps, operator, ["spin"], theta=up, characters={"spin inversion": 1})
    assert [g.character for g in state.group.elements] == [1, 1]


def test_sectors_and_hamiltonians_are_refused() -> None:
    operator = heisenberg(chain(6))
    peps, theta = rough(operator, 2, 0.0)
    configs = initial_configs(operator, 64, 0, magnetisation=2)
    with pytest.raises(NotSymmetric, match="2 Sz = 2"):
        symmetrised(peps, operator, ["spin"], theta=theta, configs=configs)
    assert len(symmetrised(peps, operator, ["point"], theta=theta, configs=configs).group) == 2
    odd = heisenberg(chain(5))
    peps, theta = rough(odd, 2, 0.0)
    with pytest.raises(NotSymmetric, match="2 Sz = 1"):
        symmetrised(peps, odd, ["spin"], theta=theta)
    atoms = rydberg(square(2, 2))
    peps, theta = rough(atoms, 2, 0.0)
    with pytest.raises(NotSymmetric, match="changes under spin inversion"):
        symmetrised(peps, atoms, ["spin"], theta=theta)


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


def test_measuring_with_symmetries_restored() -> None:
    """Sampled in processes with error bars, against the enumerated energy of the same sum."""
    operator = j1j2(square(2, 3), J2=0.3)
    peps, theta = rough(operator, 2, 0.1, seed=1)
    sampler = Sampler(n_walkers=64, n_samples=64, threads=2)
    vmc = VMC(operator, peps, sampler, theta=theta)
    found = vmc.measure(n_samples=512, n_burn=20, symmetries=("spin", "point"))
    state = symmetrised(peps, operator, ("spin", "point"), theta=theta, threads=1)
    exact = enumerate_samples(state, theta, operator, jacobian=False, threads=1)
    expected = estimate(local_energy(operator, exact), weight=exact.weight)
    assert found.energy == pytest.approx(expected.mean, abs=4 * found.energy_error)
    assert 0 < found.energy_error < 0.02 * abs(expected.mean)
    assert found.tau is not None and found.acceptance is not None
    assert found.energy + 4 * found.energy_error < vmc.measure(512, n_burn=20).energy
    enumerated = VMC(operator, peps, Enumerate(threads=1), theta=theta)
    both = enumerated.measure(symmetries=("point", "spin"))
    assert (both.energy, both.energy_error) == (pytest.approx(expected.mean), 0.0)


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
    assert history[-1].energy < history[0].energy - 4 * history[0].energy_error


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
    state = symmetrised(
        peps, operator, ["spin"], theta=theta, threads=1, characters={"spin inversion": -1}
    )
    sampler = Sampler(1, 24, threads=1)
    vmc = VMC(operator, peps, sampler, theta=theta)
    parts = list(segments(vmc, vmc.state.here, sampler, state, operator.targets, 2**31))
    weight = np.concatenate([part.weight for part in parts])
    configs = np.concatenate([part.configs for part in parts])
    amplitudes = [state.log_amplitude(theta, configs), *state.image_amplitudes(theta, configs)]
    total, *images = (np.exp(2 * amplitude.log_abs) for amplitude in amplitudes)
    assert len(parts) > 1
    np.testing.assert_allclose(weight, total / (2 * sum(images)), rtol=1e-9)
