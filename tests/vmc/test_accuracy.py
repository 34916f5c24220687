"""Measurements that take as many samples as an error takes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tnvmc import PEPS, VMC, Enumerate, Sampler, heisenberg, square
from tnvmc.vmc import measurement
from tnvmc.vmc.measurement import forgotten
from tnvmc.vmc.observation import Observation, observe

LATTICE = square(2, 3)
pytestmark = pytest.mark.filterwarnings("ignore::tnvmc.UnreliableWarning")


def started(seed: int = 0) -> VMC:
    sampler = Sampler(32, 64, threads=1)
    return VMC(heisenberg(LATTICE), PEPS(LATTICE, 2), sampler, seed=seed)


def test_an_error_that_is_asked_for_comes_out() -> None:
    vmc = started()
    wanted = 0.3 * vmc.measure(n_samples=256).energy_error / 6
    found = vmc.measure(n_samples=256, error=wanted)
    assert found.energy_error / 6 < 1.1 * wanted
    assert found.n_samples > 256 / 0.3**2
    assert vmc.measure(n_samples=256, error=1.0).n_samples == 256


def test_what_is_too_dear_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurement, "MOST_SAMPLES", 512)
    found = started().measure(n_samples=256, error=1e-5)
    assert found.n_samples == 512
    (told,) = [each for each in found.diagnostics if each.code == "error_not_reached"]
    ratio = found.energy_error / 6e-5
    assert told.values["n_samples"] == pytest.approx(512 * ratio**2)
    assert told.values["ratio"] == pytest.approx(ratio)


def test_enumeration_has_no_error() -> None:
    vmc = VMC(heisenberg(LATTICE), PEPS(LATTICE, 2), Enumerate())
    assert vmc.measure(error=1e-9).energy_error == 0


def drifting(vmc: VMC) -> Observation:
    seen = observe(vmc.problem, Sampler(32, 320, threads=1), vmc.state.here, 1, jacobian=False)
    falling = np.repeat(np.linspace(1, 0, 10), 32)  # ten draws of 32 walkers
    return replace(seen, local=np.asarray(seen.local) + 10 * falling)


def test_chains_that_drift_go_on() -> None:
    vmc, sampler = started(), Sampler(32, 320, threads=1)
    found, times = forgotten(first := drifting(vmc), sampler)
    assert times == 1
    assert np.abs(np.asarray(found.local)).max() < np.abs(np.asarray(first.local)).max()
    assert forgotten(found, sampler) == (found, 0)


def test_chains_that_never_forget_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measurement, "_DRIFT", 1e-12)
    assert forgotten(drifting(started()), Sampler(32, 320, threads=1))[1] == 4


@pytest.mark.slow
def test_energies_scatter_as_their_errors_say() -> None:
    exact = VMC(heisenberg(LATTICE), PEPS(LATTICE, 2), Enumerate(), theta=started().theta)
    energy, wanted, pulls = exact.measure().energy, 6e-3, list[float]()
    for seed in range(100):
        vmc = VMC(
            heisenberg(LATTICE), PEPS(LATTICE, 2), Sampler(32, 64, threads=1),
            theta=exact.theta, seed=seed,
        )  # fmt: skip
        found = vmc.measure(n_samples=256, error=wanted)
        pulls.append((found.energy - energy) / found.energy_error)
    # 100 normal numbers: their mean scatters by 0.1, the share within 1 by 0.047.
    assert abs(np.mean(pulls)) < 0.4
    assert np.mean(np.abs(pulls) < 1) > 0.683 - 4 * 0.047
