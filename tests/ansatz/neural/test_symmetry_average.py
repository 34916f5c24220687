"""Averages over a group: images that a network does not tell apart, and orbits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tnvmc.ansatz.checks.case import all_configs
from tnvmc.lattice import square
from tnvmc.lattice.permutations import SymmetryGroup, checkerboard
from tnvmc.operators.models import j1j2, tfim
from tnvmc.operators.symmetry import symmetry_group
from tnvmc.operators.term import Operator
from tnvmc.optimize.first_order import GradientDescent
from tnvmc.sampling.direct import DirectSampler
from tnvmc.sampling.enumerate import Enumerate
from tnvmc.session.vmc import VMC

pytest.importorskip("flax")

from tnvmc.ansatz.neural.flax import FlaxAnsatz
from tnvmc.ansatz.neural.layers import shifts
from tnvmc.ansatz.neural.rbm import RBM
from tnvmc.ansatz.neural.rnn import RNN
from tnvmc.ansatz.neural.symmetry_average import Orbits, SymmetryAverage
from tnvmc.ansatz.neural.vit import ViT

LATTICE = square(2, 4, "periodic")
OPERATOR = j1j2(LATTICE, J2=0.5)
GROUP = symmetry_group(OPERATOR, ["translation", "point", "spin"])
ROUNDING = 1e-12


def vit(rngs: Any) -> ViT:
    return ViT(LATTICE, width=4, heads=2, layers=1, patch=(1, 2), rngs=rngs)


@pytest.fixture(scope="module")
def ansatz() -> FlaxAnsatz:
    return FlaxAnsatz(LATTICE, vit, group=GROUP, signs=checkerboard(LATTICE))


def by_hand(ansatz: FlaxAnsatz, theta: np.ndarray, configs: np.ndarray) -> np.ndarray:
    """psi as a loop over all elements of the group."""
    module = ansatz.module(theta)
    total = np.zeros(len(configs), dtype=complex)
    for g in GROUP.elements:
        image = configs[:, list(g.sites)]
        total += np.exp(np.asarray(module(1 - image if g.inverts else image)))
    marshall = (-1.0) ** (configs @ checkerboard(LATTICE))
    return marshall * total / len(GROUP)


@pytest.mark.whole
def test_images_that_the_network_takes_for_one_are_evaluated_once(ansatz: FlaxAnsatz) -> None:
    assert len(ansatz.averaging.places) == len(GROUP)
    assert ansatz.averaging.n_images * 4 == len(GROUP)  # four translations by patches of 1 x 2


@pytest.mark.whole
def test_an_average_by_orbits_is_the_sum_over_the_group(ansatz: FlaxAnsatz) -> None:
    theta, configs = ansatz.random(1), all_configs(8, 2)
    assert ansatz.orbits.useful
    amplitude = ansatz.log_amplitude(theta, configs)
    found = amplitude.phase * np.exp(amplitude.log_abs)
    np.testing.assert_allclose(found, by_hand(ansatz, theta, configs), rtol=ROUNDING, atol=1e-14)


@pytest.mark.whole
def test_enumeration_by_orbits_gives_the_energy_of_all_configurations(
    ansatz: FlaxAnsatz, monkeypatch: pytest.MonkeyPatch
) -> None:
    theta = ansatz.random(2)
    found = []
    for useful in (True, False):
        monkeypatch.setattr(Orbits, "useful", useful)
        vmc = VMC(OPERATOR, ansatz, Enumerate(), GradientDescent(), theta=theta, learning_rate=0.1)
        (record,) = vmc.run(1)
        found.append((record.energy, record.variance, record.step_norm))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)


def test_steps_by_orbits_of_direct_draws_are_those_of_all_draws() -> None:
    operator = tfim(square(2, 4), h=1.0)
    group = symmetry_group(operator, ["point", "spin"])
    state = FlaxAnsatz(
        operator.lattice, lambda rngs: RNN(operator.lattice, hidden=4, rngs=rngs), group=group
    )
    found = []
    for by_orbit in (True, False):
        sampler = DirectSampler(128, by_orbit=by_orbit)
        vmc = VMC(operator, state, sampler, GradientDescent(), learning_rate=0.1)
        (record,) = vmc.run(1)
        found.append((record.energy, record.energy_error, record.variance, record.step_norm))
        assert record.n_samples == 128
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)


def test_a_hamiltonian_without_the_symmetry_is_enumerated_in_full(ansatz: FlaxAnsatz) -> None:
    broken = j1j2(LATTICE, J1=list(np.linspace(0.5, 1.5, len(LATTICE.bonds["nearest"]))))
    assert ansatz.orbits.classes(all_configs(8, 2), broken) is None
    members, which = ansatz.orbits.classes(all_configs(8, 2), OPERATOR)  # type: ignore[misc]
    assert len(which) == 2**8 and len(members) == max(which) + 1 < 2**8 / 4


def test_invariances_outside_the_group_change_nothing() -> None:
    point = symmetry_group(OPERATOR, ["point"])
    images = SymmetryAverage(point, None, 2, 8, False, shifts((2, 4), (True, True), (1, 1)))
    assert 1 <= images.n_images <= len(point)
    identity = SymmetryGroup(point.elements[:1])
    assert (
        SymmetryAverage(identity, None, 2, 8, False, shifts((2, 4), (True, True), (1, 1))).n_images
        == 1
    )


def test_signs_that_a_symmetry_breaks_are_seen() -> None:
    signs = np.array([1, 0, 0, 0, 0, 0, 0, 0])
    assert not SymmetryAverage(GROUP, signs, 2, 8, False).keep_modulus
    assert SymmetryAverage(GROUP, checkerboard(LATTICE), 2, 8, False).keep_modulus


def test_signs_that_are_alike_in_one_sector_alone_make_no_orbits() -> None:
    lattice = square(2, 3)
    terms = [("Sx Sx + Sy Sy + Sz Sz", "nearest", 1.0), ("Sx", "all", 0.7)]
    field = Operator.from_products(lattice, terms)
    psi = FlaxAnsatz(
        lattice,
        lambda rngs: RBM(lattice, rngs=rngs),
        signs=checkerboard(lattice),
        group=symmetry_group(field, ["point"]),
    )
    theta = psi.random(1)
    theta = theta + 0.5 * np.random.default_rng(0).normal(size=theta.shape)
    by, all_of_them = (
        VMC(field, psi, Enumerate(by_orbit=by), theta=theta).measure() for by in (True, False)
    )
    assert by.energy == pytest.approx(all_of_them.energy, abs=ROUNDING)
