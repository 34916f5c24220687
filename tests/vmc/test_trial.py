"""The start of a run: tried, chosen, told, and the same run as from the start by name."""

from __future__ import annotations

import numpy as np
import pytest

from tnvmc import PEPS, VMC, Enumerate, Sampler, exact_ground_state, heisenberg, kagome, square
from tnvmc.ansatz.initial import WITH_NOISE, initial_parameters, starts_to_try
from tnvmc.sampling.configurations import in_sector
from tnvmc.vmc.trial import LEAST_STEPS, STAGE, STEPS

MAGNET = heisenberg(square(2, 3))
SAMPLER = Sampler(64, 256, threads=1)


def run_of(operator=MAGNET, sampler=SAMPLER, steps=LEAST_STEPS, **given):
    vmc = VMC(operator, PEPS(operator.lattice, 2, sharing=None), sampler, **given)
    return vmc, vmc.run(steps)


def told(history):
    return [each for each in history[0].diagnostics if each.code == "starts_tried"]


def test_what_was_tried_stands_in_the_first_record():
    _, history = run_of()
    (found,) = told(history)
    names = [each["start"] for each in found.values["tried"]]
    assert names == ["simple_update", WITH_NOISE, "random", "product"]
    after = [each["steps"] for each in found.values["tried"]]
    assert sorted(after) == [STAGE, 2 * STAGE, STEPS, STEPS]
    assert found.values["start"] in names
    assert not any(told(history[k:]) for k in range(1, 3))


def test_the_steps_are_those_of_the_start_by_name():
    vmc, history = run_of(seed=3)
    (found,) = told(history)
    operator, peps = vmc.operator, vmc.ansatz
    first = initial_parameters(peps, operator, 3)
    theta = starts_to_try(peps, operator, 3, first)[found.values["start"]]
    again, plain = run_of(seed=3, theta=theta)
    assert told(plain) == []
    assert [record.energy for record in plain] == [record.energy for record in history]
    assert np.array_equal(again.theta, vmc.theta)


@pytest.mark.parametrize("given", ["theta", "few steps"])
def test_nothing_is_tried(given):
    if given == "theta":
        theta = initial_parameters(PEPS(MAGNET.lattice, 2, sharing=None), MAGNET, 0)
        assert told(run_of(theta=theta)[1]) == []
    else:
        assert told(run_of(steps=LEAST_STEPS - 1)[1]) == []


def test_a_start_that_is_stuck_is_left():
    """The uniform state of a magnet with couplings of both signs was an eigenstate: no gradient."""
    lattice = square(3, 4)
    signs = np.random.default_rng(7).normal(size=len(lattice.bonds["nearest"]))
    operator = heisenberg(lattice, J=[float(J) for J in signs])
    vmc, _ = run_of(operator, Enumerate(threads=1), 60)
    exact = exact_ground_state(operator, 0).energy
    assert vmc.measure().energy == pytest.approx(exact, rel=1e-2)


@pytest.mark.parametrize("sector", [4, 8])
def test_a_start_knows_its_sector(sector):
    """Energy of the start in its sector, by enumeration: it was half of the exact one."""
    operator = heisenberg(kagome(4, 4))
    peps = PEPS(operator.lattice, 3, sharing=None)
    exact = exact_ground_state(operator, sector).energy_per_site
    there = VMC(operator, peps, Enumerate(threads=1), magnetisation=sector).measure()
    of_zero = initial_parameters(peps, in_sector(operator, 0), 0)
    blind = VMC(operator, peps, Enumerate(threads=1), magnetisation=sector, theta=of_zero).measure()
    n_sites = operator.n_sites
    assert there.energy / n_sites < exact + 0.01
    assert blind.energy / n_sites > exact + 0.1


def test_a_checkpoint_tells_nothing_of_starts_tried_before_it(tmp_path):
    vmc, _ = run_of(steps=2)
    vmc.save(tmp_path / "checkpoint.h5")
    other = VMC(MAGNET, PEPS(MAGNET.lattice, 2, sharing=None), SAMPLER)
    other.choose_start()
    other.restore(tmp_path / "checkpoint.h5")
    assert told([other.step()]) == []
