"""Few configurations, drawn again and again: what their neighbours add to the error."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from tnvmc import (
    PEPS,
    VMC,
    DirectSampler,
    Enumerate,
    Exact,
    Sampler,
    UnreliableWarning,
    heisenberg,
    square,
    tfim,
    xxz,
)
from tnvmc.estimate.observables import energy_terms
from tnvmc.estimate.reliability import changed_part
from tnvmc.estimate.statistics import Estimate
from tnvmc.sampling import streams
from tnvmc.sampling.problem import SampleInfo
from tnvmc.vmc.measurement import Total
from tnvmc.vmc.neighbours import (
    energy_with_neighbours,
    flatter,
    of_both,
    widened,
    with_rare,
    within_drawn,
)
from tnvmc.vmc.observation import Observation, observe

EASY = xxz(square(2, 3), Jz=5.0)
SIGMAS = 4.0  # of an error that is itself uncertain by a tenth
TOLD = 2.0
"""Errors that the mean may be off by; with neighbours the energy of 20 configurations is all but
exact.
"""


def easy_axis(n_walkers: int, n_samples: int) -> VMC:
    """A magnet with 0.8 of its weight on one configuration."""
    return VMC(
        EASY,
        PEPS(EASY.lattice, 2, scheme=Exact()),
        Sampler(n_walkers, n_samples, n_burn=50, threads=1),
    )


def seen(vmc: VMC) -> Observation:
    return observe(vmc.problem, vmc.method.sampler, vmc.state.here, streams.MEASURE, jacobian=False)


def exact(vmc: VMC) -> float:
    other = VMC(EASY, vmc.ansatz, Enumerate(threads=1), theta=vmc.theta)
    return other.measure().energy


def test_chains_that_begin_at_direct_draws_are_few() -> None:
    vmc = easy_axis(8, 64)
    snapshot = seen(vmc).snapshot
    for n_draws, n_chains in ((100, 100), (20000, 512)):
        info = SampleInfo(n_draws, 1, 0.0)
        assert flatter(DirectSampler(n_draws), snapshot, info).n_walkers == n_chains


def test_all_configurations_give_the_exact_energy() -> None:
    vmc = easy_axis(8, 64)
    found = VMC(EASY, vmc.ansatz, Enumerate(threads=1, by_orbit=False), theta=vmc.theta)
    every = seen(found)
    assert energy_with_neighbours(
        vmc.problem, vmc.theta, np.asarray(every.snapshot.configs), 20
    ) == pytest.approx(every.energy.mean, rel=1e-12)


def test_draws_of_one_configuration_have_an_error_bar() -> None:
    """Before, all draws alike had an error of 0 and an energy that is 0.1 off."""
    vmc = easy_axis(8, 64)
    drawn = seen(vmc)
    configs = np.asarray(drawn.snapshot.configs)
    often = configs[(configs[:, None] == configs).all(axis=2).sum(axis=1).argmax()]
    alike = np.flatnonzero((configs == often).all(axis=1))
    rows = np.resize(alike[:1], 64)
    local = float(np.asarray(drawn.local).real[alike[0]])
    energy = replace(drawn.energy, mean=local, error=0.0)
    found, moved = widened(energy, 0.0, configs[rows], vmc.problem, vmc.theta)
    off = abs(local - exact(vmc))
    assert moved == np.inf
    assert off / TOLD < found.error < TOLD * off


def test_a_measurement_of_few_samples_is_within_its_error() -> None:
    vmc = easy_axis(8, 64)
    with pytest.warns(UnreliableWarning):
        found = vmc.measure(64)
    assert abs(found.energy - exact(vmc)) < TOLD * found.energy_error


def test_samples_that_are_all_different_are_left_alone() -> None:
    operator = heisenberg(square(2, 3))
    vmc = VMC(operator, PEPS(operator.lattice, 2), Sampler(64, 256, threads=1))
    drawn = seen(vmc)
    configs = np.asarray(drawn.snapshot.configs)
    changed = changed_part(configs, drawn.info.n_walkers)
    assert widened(drawn.energy, changed, configs, vmc.problem, vmc.theta) == (drawn.energy, None)


@pytest.mark.parametrize("direct", [False, True])
def test_variance_that_rare_configurations_hide_is_found(direct: bool) -> None:
    """A ferromagnet in a weak field: configurations of a hundredth of the weight make it."""
    operator = tfim(square(2, 3), h=0.3)
    peps = PEPS(operator.lattice, 1, scheme=Exact())
    drawn = DirectSampler(512, threads=1) if direct else Sampler(64, 512, threads=1)
    vmc = VMC(operator, peps, drawn, seed=2)
    known = VMC(operator, peps, Enumerate(threads=1), theta=vmc.theta).measure()
    first = seen(vmc)
    again = with_rare(first, drawn)
    assert first.energy.variance < known.variance / 4
    assert known.variance / 2 < again.energy.variance < 2 * known.variance
    assert abs(again.energy.mean - known.energy) < SIGMAS * again.energy.error
    assert again.energy.error < first.energy.error
    with warnings.catch_warnings(action="ignore", category=UnreliableWarning):
        measured = vmc.measure()
    assert "measured_again" in [each.code for each in measured.diagnostics]
    assert 50 < (measured.effective_samples or 0) < 400


def test_a_variance_that_all_samples_show_is_not_looked_for_twice() -> None:
    operator = heisenberg(square(2, 3))
    vmc = VMC(operator, PEPS(operator.lattice, 2), Sampler(64, 512, threads=1))
    drawn = seen(vmc)
    assert with_rare(drawn, vmc.method.sampler) is drawn
    every = observe(vmc.problem, Enumerate(threads=1), vmc.state.here, 0, jacobian=False)
    assert with_rare(every, Enumerate(threads=1)) is every


def test_of_two_looks_the_larger_variance_counts() -> None:
    one, other = (Estimate(-1.0, 0.1, v, 0.5, 1.0, 512) for v in (1.0, 4.0))
    assert of_both(one, other).error == pytest.approx(0.2)
    assert of_both(other, one).error == 0.1


@pytest.mark.whole
def test_the_heaviest_neighbours_are_taken_where_there_are_many() -> None:
    """Two samples, so two neighbours at most: fewer than the first one has."""
    vmc = easy_axis(2, 2)
    drawn = seen(vmc)
    more = np.asarray(seen(easy_axis(8, 512)).snapshot.configs)
    all_of_them = energy_with_neighbours(vmc.problem, vmc.theta, more, 20)
    few = energy_with_neighbours(vmc.problem, vmc.theta, np.asarray(drawn.snapshot.configs), 2)
    assert np.isfinite(few)
    assert few != all_of_them


def test_a_measurement_in_parts_has_the_same_error() -> None:
    """As `tnvmc measure` makes it."""
    vmc = easy_axis(8, 64)
    drawn = seen(vmc)
    terms = energy_terms(EASY)
    total = Total(EASY)
    for half in (slice(0, 32), slice(32, 64)):
        part = replace(
            drawn.snapshot,
            configs=drawn.snapshot.configs[half],
            ratios={patch: found[half] for patch, found in drawn.snapshot.ratios.items()},
        )
        total.add(terms.values(part, terms.targets), part, replace(drawn.info, n_draws=4))
    configs = np.asarray(drawn.snapshot.configs)
    at_once, _ = widened(drawn.energy, 0.0, configs, vmc.problem, vmc.theta)
    found = total.estimate((vmc.method, vmc.state.here))
    assert found.error == pytest.approx(at_once.error)
    assert found.error > drawn.energy.error


def test_the_energy_of_all_that_was_drawn_lies_within_the_error() -> None:
    """Where draws repeat each other; where none does, they are a small part of the weight."""
    vmc = VMC(EASY, PEPS(EASY.lattice, 2, scheme=Exact()), Enumerate(threads=1, by_orbit=False))
    every = seen(vmc)
    configs, known = np.asarray(every.snapshot.configs), every.energy.mean
    energy = replace(every.energy, mean=known + 1.0, error=1e-3)
    widely = within_drawn(energy, vmc.problem, vmc.theta, [configs, configs])
    assert 1.0 < widely.error < TOLD
    assert within_drawn(energy, vmc.problem, vmc.theta, [configs, configs[:0]]) is energy


def test_a_heavy_configuration_that_no_draw_had_is_within_the_error() -> None:
    """The one with most of the weight is left out: its neighbours were drawn, and lead to it."""
    vmc = VMC(EASY, PEPS(EASY.lattice, 2, scheme=Exact()), Enumerate(threads=1, by_orbit=False))
    every = seen(vmc)
    heaviest = int(np.argmax(np.asarray(every.snapshot.weight)))
    configs = np.delete(np.asarray(every.snapshot.configs), heaviest, axis=0)
    energy = replace(every.energy, mean=every.energy.mean + 1.0, error=1e-3)
    found = within_drawn(energy, vmc.problem, vmc.theta, [configs, configs])
    assert found.error == pytest.approx(1.1, rel=1e-6)
