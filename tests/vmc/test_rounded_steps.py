"""Steps with log-derivatives in single precision: taken, refused, resumed; runs of before go on in
double.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.session.test_vmc import FEW, OPERATOR, codes, same_state, study
from tnvmc.ansatz.mps import PeriodicMPS
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.lattice import square
from tnvmc.operators.models import heisenberg
from tnvmc.optimize import sr
from tnvmc.optimize.sr import SR
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.direct import DirectSampler
from tnvmc.sampling.enumerate import Enumerate
from tnvmc.session.vmc import VMC

SINGLE = SR(precision="single")


@pytest.fixture(autouse=True)
def small_states(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sr, "LEAST_PARAMETERS", 0)


def single(record: Any) -> bool:
    return record.optimizer.get("log_derivatives") == "single"


@pytest.mark.parametrize(
    "sampler",
    [
        Sampler(8, 32, threads=2, power=1),
        DirectSampler(32, threads=1),
    ],
)
def test_steps_in_single_precision_are_those_of_double_up_to_rounding(sampler: Any) -> None:
    operator = heisenberg(square(2, 3))
    peps, found = PEPS(operator.lattice, 2), []
    theta = np.random.default_rng(3).normal(size=peps.n_params)
    for precision in ("single", "double"):
        rule = SR(precision=precision)  # type: ignore[arg-type]
        vmc = VMC(operator, peps, sampler, rule, theta=theta, seed=3)
        records = vmc.run(2)
        assert [single(record) for record in records] == 2 * [precision == "single"]
        found.append((records, vmc.state.here.theta))
    assert found[0][0][0].energy == found[1][0][0].energy  # the samples are the same
    bounds = [record.optimizer["rounding"] for record in found[0][0]]
    change = np.linalg.norm(found[0][1] - found[1][1]) / np.linalg.norm(found[1][1])
    assert 0 < change < sum(bounds) < 2e-3


def test_what_single_precision_does_not_determine_is_done_again_in_double() -> None:
    refused = study(optimizer=SR(diag_shift=1e-9, precision="single"))
    exact = study(optimizer=SR(diag_shift=1e-9, precision="double"))
    records, expected = refused.run(3), exact.run(3)
    told = [[c for c in codes(record) if c.startswith("log")] for record in records]
    assert told == [["log_derivatives_in_double"], [], []]
    assert not any(map(single, records))
    values = records[0].diagnostics[0].values
    assert values["rounding"] is None or values["rounding"] > values["limit"]
    np.testing.assert_array_equal(refused.state.here.theta, exact.state.here.theta)
    assert [r.energy for r in records] == [r.energy for r in expected]


@pytest.mark.whole
@pytest.mark.parametrize("shift", [1e-2, 1e-9])
def test_a_run_that_was_stopped_goes_on_bit_for_bit(shift: float, tmp_path: Path) -> None:
    def made() -> VMC:
        return study(optimizer=SR(diag_shift=shift, precision="single"))

    whole, first, second = made(), made(), made()
    whole.run(4)
    first.run(2)
    first.save(tmp_path / "state.h5")
    second.restore(tmp_path / "state.h5")
    records = second.run(2)
    assert same_state(whole, second)
    assert all(single(record) == (shift == 1e-2) for record in records)
    assert not any("log_derivatives_in_double" in codes(record) for record in records)


def test_a_run_of_before_goes_on_in_double(tmp_path: Path) -> None:
    path = tmp_path / "state.h5"
    double = study(optimizer=SR(precision="double"))
    double.run(2)
    double.save(path)
    again = study(optimizer=SINGLE)
    again.restore(path)
    assert not any(map(single, again.run(2)))
    double.run(2)
    np.testing.assert_array_equal(again.state.here.theta, double.state.here.theta)


def test_a_run_in_single_precision_can_go_on_in_double(tmp_path: Path) -> None:
    path = tmp_path / "state.h5"
    first, second = study(optimizer=SINGLE), study(optimizer=SR(precision="double"))
    first.run(2)
    first.save(path)
    second.restore(path)
    assert not any(map(single, second.run(1)))


def test_what_has_no_slices_or_no_noise_stays_in_double() -> None:
    assert not any(map(single, study(Enumerate(), optimizer=SINGLE).run(1)))


def test_the_default_rule_keeps_single_precision_through_its_rate() -> None:
    vmc = VMC(OPERATOR, PeriodicMPS(OPERATOR.lattice, D=2), FEW, SINGLE, seed=1)
    assert vmc.state.here.optimizer["rule_single"] == 1
    assert all(map(single, vmc.run(2)))
