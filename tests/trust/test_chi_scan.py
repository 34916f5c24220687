"""Energies at several chi on the same configurations, against exact sums."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from tests.oracles import all_configs
from tnvmc.ansatz.mps import PeriodicMPS
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.peps.symmetries import sharing
from tnvmc.contraction.schemes import SRC
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.estimate.observables import local_energy
from tnvmc.lattice import chain, square
from tnvmc.operators.models import heisenberg
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.enumerate import Enumerate
from tnvmc.sampling.workers import measure_configs
from tnvmc.session.vmc import VMC
from tnvmc.trust.chi_scan import default_chis, scan_chi
from tnvmc.vmc.measurement import Measured, MeasurementPlan, measure

OPERATOR = heisenberg(square(3, 4))
UNCUT = 9  # two rows of D = 3 lie above the last one
SIGMAS = 4.0
ROUNDING = 1e-11


def peps(chi: int = 2) -> PEPS:
    return PEPS(OPERATOR.lattice, D=3, scheme=SRC(chi))


def parameters() -> np.ndarray:
    """Tensors without structure: chi = 2 cuts them hard."""
    rng = np.random.default_rng(8)
    return 1.0 + 0.6 * rng.normal(size=peps().n_params)


def measured_by(vmc: VMC, **plan: Any) -> Measured:
    return measure(vmc.method, vmc.state, MeasurementPlan(**plan))


def study(sampler: Any, chi: int = 2) -> VMC:
    return VMC(OPERATOR, peps(chi), sampler, theta=parameters(), seed=3)


@cache
def truncated(chi: int) -> tuple[np.ndarray, np.ndarray]:
    """Amplitudes (up to a factor) and local energies at one chi, of every configuration."""
    ansatz, configs = peps(chi), all_configs(12, magnetisation=0)
    walkers = ansatz.start(parameters(), configs)
    _, snapshot = ansatz.measure(parameters(), walkers, OPERATOR.targets, jacobian=False)
    log_abs = snapshot.amplitude.log_abs
    psi = snapshot.amplitude.phase * np.exp(log_abs - log_abs.max())
    return psi, local_energy(OPERATOR, snapshot)


def exact_energy(chi: int) -> float:
    psi, local = truncated(chi)
    return float(psi**2 @ local / (psi @ psi))


def test_enumerated_points_are_exact_expectations_of_the_truncated_amplitudes() -> None:
    scan = study(Enumerate(threads=1)).converge((2, 3, UNCUT), double_layer=False)
    assert [point.chi for point in scan.points] == [2, 3, UNCUT]
    for point in scan.points:
        assert point.energy == pytest.approx(exact_energy(point.chi), abs=ROUNDING)
        assert point.difference == pytest.approx(
            exact_energy(point.chi) - exact_energy(UNCUT), abs=ROUNDING
        )
        assert (point.energy_error, point.difference_error) == (0, 0)
    psi, _ = truncated(UNCUT)
    whole = float(psi @ (OPERATOR.sparse(0) @ psi) / (psi @ psi))
    assert scan.points[-1].energy == pytest.approx(whole, abs=ROUNDING)
    assert abs(scan.points[0].difference) > 1e-4  # else nothing was tested
    assert str(scan).splitlines()[-1].startswith(f"{UNCUT} ")


@pytest.mark.whole
def test_drawn_at_one_chi_the_energies_at_others_are_right_within_errors() -> None:
    sampler = Sampler(n_walkers=64, n_samples=64, threads=1)
    measured = measured_by(study(sampler), n_samples=2048, chi=3)
    scan = scan_chi(measured, (2, 5, UNCUT))
    assert [point.chi for point in scan.points] == [2, 3, 5, UNCUT]
    assert (scan.drawn_at, scan.n_samples) == (3, 512)
    for point in scan.points:
        assert abs(point.energy - exact_energy(point.chi)) < SIGMAS * point.energy_error
        gap = exact_energy(point.chi) - exact_energy(UNCUT)
        # Where two points agree to all digits the error is 0, and so must the gap be.
        assert abs(point.difference - gap) <= SIGMAS * point.difference_error + ROUNDING
        assert point.difference_error < point.energy_error
        assert 1 < point.effective_samples <= scan.n_samples * (1 + ROUNDING)


def test_few_samples_are_all_in_the_scan() -> None:
    vmc = study(Sampler(n_walkers=16, n_samples=64, threads=1))
    measured = measured_by(vmc, chi=3)
    scan = scan_chi(measured, (2,))
    assert scan.n_samples == 64
    assert scan.points[-1].energy == pytest.approx(measured.measurement.energy, abs=ROUNDING)


def test_the_same_configurations_tell_a_difference_that_others_do_not() -> None:
    """4x4, D = 3: E(4) - E(9) has under a tenth of the error of two measurements as long."""
    operator = heisenberg(square(4, 4))
    ansatz = PEPS(operator.lattice, D=3, scheme=SRC(4))
    vmc = VMC(operator, ansatz, Sampler(64, 128, threads=1), seed=1)
    found = vmc.converge((4, 9), n_samples=256, n_burn=2, double_layer=False)
    low, high = found.points
    apart = math.hypot(low.energy_error, high.energy_error)
    assert 0 < low.difference_error < 0.1 * apart
    assert (high.difference, high.difference_error) == (0, 0)


def test_revisited_configurations_are_measured_in_their_order() -> None:
    configs = all_configs(12, magnetisation=0)[:101]
    snapshot = measure_configs(peps(3), parameters(), configs, OPERATOR.targets, threads=1)
    assert np.array_equal(snapshot.configs, configs)
    assert snapshot.amplitude.log_abs == pytest.approx(
        peps(3).measure(parameters(), peps(3).start(parameters(), configs), {})[1].amplitude.log_abs
    )


def test_points_that_cannot_be() -> None:
    vmc = study(Enumerate())
    assert default_chis(vmc.ansatz) == (2, 3, 4)
    with pytest.raises(ValueError, match="two different"):
        vmc.converge((4, 4))
    with pytest.raises(ValueError, match="at least 1"):
        vmc.converge((0, 4))
    ring = heisenberg(chain(4, "periodic"))
    without = VMC(ring, PeriodicMPS(ring.lattice, D=2), theta=np.ones(32))
    assert default_chis(without.ansatz) == ()
    with pytest.raises(ValueError, match="no chi to converge in"):
        without.converge((4, 8))


def test_a_scan_says_what_its_measurement_said() -> None:
    vmc = VMC(OPERATOR, peps(), Sampler(4, 4, threads=1), theta=parameters())
    measured = measure(vmc.method, vmc.state, MeasurementPlan())
    led_astray = (Diagnostic("measured_before_last_update", "warning"),)
    told = replace(measured.measurement, diagnostics=led_astray)
    scan = scan_chi(replace(measured, measurement=told), (2, 3))
    assert scan.diagnostics == led_astray
    assert "measured_before_last_update" in str(scan)


def test_an_enumeration_by_orbits_is_scanned_over_all_configurations() -> None:
    operator = heisenberg(square(3, 3))
    psi = PEPS(operator.lattice, 2, scheme=SRC(4), sharing=sharing(operator))
    theta = psi.initial(operator, 1, "random")
    theta = theta + 0.3 * np.random.default_rng(0).normal(size=theta.shape)
    one = {"theta": theta, "magnetisation": 1}
    found = [
        VMC(operator, psi, Enumerate(by_orbit=by), **one).converge([2, 4, 6], double_layer=False)
        for by in (True, False)
    ]
    energies = [[point.energy for point in each.points] for each in found]
    np.testing.assert_allclose(*energies, rtol=1e-10)
