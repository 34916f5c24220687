"""The loop: descent, resuming, guards."""

from __future__ import annotations

import math
import signal
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np
import pytest

import tnvmc
from tnvmc import PEPS
from tnvmc.ansatz.mps import PeriodicMPS
from tnvmc.backend import progress
from tnvmc.backend.device import DeviceError
from tnvmc.exact import exact_ground_state
from tnvmc.lattice import chain, square
from tnvmc.operators.models import heisenberg, tfim
from tnvmc.optimize.rule import Rule
from tnvmc.optimize.sr import SR
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.enumerate import Enumerate
from tnvmc.session.vmc import VMC
from tnvmc.storage.hdf5 import StateFileError
from tnvmc.vmc import guard
from tnvmc.vmc.step import OptimisationFailed, advance

OPERATOR = tfim(chain(4, "periodic"), h=1.0)
ANSATZ = PeriodicMPS(OPERATOR.lattice, D=2)
EXACT = exact_ground_state(OPERATOR).energy
FEW = Sampler(n_walkers=16, n_samples=64, threads=1)
ENOUGH = Sampler(n_walkers=32, n_samples=256, threads=1)  # for a jump to be told from noise


def study(sampler: Any = FEW, optimizer: Any = None, seed: int = 1, **options: Any) -> VMC:
    theta = ANSATZ.random(seed=3)
    return VMC(
        OPERATOR, ANSATZ, theta=theta, sampler=sampler, optimizer=optimizer, seed=seed, **options
    )


def same_state(a: VMC, b: VMC) -> bool:
    here, there = a.state.here, b.state.here
    return (
        a.state.step == b.state.step
        and a.state.guard == b.state.guard
        and np.array_equal(here.theta, there.theta)
        and np.array_equal(here.configs, there.configs)
        and all(np.array_equal(here.optimizer[k], there.optimizer[k]) for k in here.optimizer)
    )


@pytest.fixture
def long_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is shortened."""
    monkeypatch.setattr(guard, "NORM_JUMP", math.inf)
    monkeypatch.setattr(guard, "MAX_RELATIVE_STEP", math.inf)


def codes(reported: Any) -> list[str]:
    return [found.code for found in reported.diagnostics]


@dataclass(frozen=True)
class Sabotage(Rule):
    """SR whose direction is replaced at some steps, undone ones counted."""

    replaced: dict[int, float]
    asked: list[int] = field(default_factory=list)

    def init(self, theta: np.ndarray) -> dict[str, Any]:
        return {"calls": 0}

    def direction(self, theta: np.ndarray, *rest: Any) -> tuple[np.ndarray, dict[str, Any], Any]:
        jacobian, local, weight, state = rest
        rule = SR(diag_shift=1e-2)
        found, _, info = rule.direction(theta, jacobian, local, weight, rule.init(theta))
        calls = {"calls": state["calls"] + 1}
        self.asked.append(step := len(self.asked))
        if step in self.replaced:
            sign = np.where(np.arange(len(theta)) % 2, 1.0, -1.0)
            return self.replaced[step] * sign, calls, info
        return found, calls, info


@pytest.mark.whole
def test_without_noise_the_energy_falls_to_the_exact_one_and_never_below() -> None:
    vmc = study(Enumerate(), learning_rate=0.1, optimizer=SR(diag_shift=1e-3))
    energies = [record.energy for record in vmc.run(100)]
    assert min(energies) > EXACT - 1e-9
    assert energies[-1] == pytest.approx(EXACT, rel=1e-2)
    result = vmc.measure()
    assert result.energy_error == 0
    assert result.energy >= EXACT - 1e-9
    assert (result.tau, result.r_hat, result.acceptance) == (None, None, None)


@pytest.mark.whole
def test_with_noise_the_measured_energy_is_right_within_its_error() -> None:
    vmc = study(learning_rate=0.1)
    seen: list[int] = []
    records = vmc.run(20, callback=lambda record: seen.append(record.step))
    assert str(records[3]).startswith("step 4: total energy -")
    assert seen == list(range(20))
    sampled = vmc.measure(n_samples=2048)
    vmc.method = replace(vmc.method, sampler=Enumerate())
    true = vmc.measure()
    assert abs(sampled.energy - true.energy) < 5 * sampled.energy_error
    assert sampled.n_samples == 2048
    assert sampled.as_dict()["energy_per_site"] == sampled.energy / 4
    assert "energy per site" in str(sampled)


def test_a_step_tells_the_power_that_chains_drew_from() -> None:
    flat = Sampler(n_walkers=16, n_samples=64, power=0.5, threads=1)
    record = study(flat, learning_rate=0.1).step()
    assert record.as_dict()["power"] == 0.5
    assert study(Enumerate(), learning_rate=0.1).step().power is None


@pytest.mark.whole
def test_resuming_equals_going_on_bit_for_bit(tmp_path: Path) -> None:
    whole = study(learning_rate=lambda step: 0.1 / (1 + step))
    whole.run(9)
    first = study(learning_rate=lambda step: 0.1 / (1 + step))
    first.run(4)
    first.save(tmp_path / "c.h5")
    second = study(seed=1, learning_rate=lambda step: 0.1 / (1 + step))
    second.restore(tmp_path / "c.h5")
    second.run(5)
    assert same_state(whole, second)
    assert whole.measure(n_samples=64).energy == second.measure(n_samples=64).energy


def test_the_time_of_a_step_leaves_out_what_it_compiles() -> None:
    def rate(step: int) -> float:  # compiles in the first step
        if step == 0:
            sleep(0.3)
            progress.add_compilation(0.3)
        return 0.1

    first, second = study(learning_rate=rate).run(2)
    rounding = 1e-9  # of differences of clocks
    assert first.compile_seconds >= 0.3 - rounding and second.compile_seconds < 0.3 - rounding
    assert first.as_dict()["compile_seconds"] == first.compile_seconds
    vmc = study(learning_rate=rate)
    before = perf_counter()
    (record,) = vmc.run(1)
    assert 0 <= record.seconds <= perf_counter() - before - 0.3


def test_advance_is_a_function_of_the_state() -> None:
    vmc = study()
    state = vmc.state
    (one, record), (two, again) = (advance(vmc.method, state) for _ in range(2))
    assert np.array_equal(one.here.theta, two.here.theta)
    assert record.energy == again.energy
    assert vmc.state is state


@pytest.mark.whole
@pytest.mark.usefixtures("long_steps")
def test_a_step_that_leads_astray_is_undone_and_retried_smaller() -> None:
    vmc = study(ENOUGH, Sabotage({12: 40.0}), learning_rate=0.05)
    before = vmc.run(12)
    good = vmc.theta
    led_astray, undone, retried = vmc.run(3)
    assert not led_astray.undone
    assert undone.undone
    assert codes(undone) == ["energy_jump"]
    assert undone.energy > before[-1].energy
    assert not retried.undone
    assert retried.learning_rate == pytest.approx(0.025)
    assert abs(retried.energy - before[-1].energy) < 6 * before[-1].energy_error
    vmc.run(10)
    assert vmc.state.guard.scale > 0.5
    assert np.linalg.norm(vmc.theta - good) < 1.0


@pytest.mark.whole
@pytest.mark.usefixtures("long_steps")
def test_after_an_update_that_leads_astray_all_measurements_see_the_state_before_it() -> None:
    """One state, one energy: `expect` used to measure the rejected parameters without a word."""
    vmc = study(ENOUGH, Sabotage({11: 40.0}), learning_rate=0.05)
    last = vmc.run(12)[-1]
    measured = vmc.measure(n_samples=512)
    expected = vmc.expect(OPERATOR, n_samples=512)
    for energy, error in (
        (measured.energy, measured.energy_error),
        (expected.mean, expected.error),
    ):
        assert abs(energy - last.energy) < 6 * math.hypot(error, last.energy_error)
    for told in (measured, expected):
        assert "measured_before_last_update" in codes(told)
    assert measured.diagnostics[0].values["because"] == "energy_jump"
    vmc.method = replace(vmc.method, sampler=Enumerate())
    assert vmc.measure().energy == pytest.approx(vmc.expect(OPERATOR).mean, abs=1e-12)
    symmetric = vmc.measure(symmetries=["spin"])  # whose sign is that of the state before, too
    assert codes(symmetric) == ["measured_before_last_update"]
    assert symmetric.energy < vmc.measure().energy
    following = study(optimizer=Sabotage({}), learning_rate=0.05)
    following.run(12)
    for seen in (following.measure(n_samples=512), following.expect(OPERATOR)):
        assert "measured_before_last_update" not in codes(seen)


@pytest.mark.whole
@pytest.mark.usefixtures("long_steps")
def test_resuming_within_a_retry_is_bit_for_bit_too(tmp_path: Path) -> None:
    whole = study(optimizer=Sabotage({5: 400.0}))
    records = whole.run(10)
    assert records[6].undone
    for stop in (6, 7):
        first, second = study(optimizer=Sabotage({5: 400.0})), study(optimizer=Sabotage({}))
        first.run(stop)
        first.save(tmp_path / "c.h5")
        second.restore(tmp_path / "c.h5")
        second.run(10 - stop)
        assert same_state(whole, second)


def test_a_long_direction_is_shortened() -> None:
    vmc = study(optimizer=Sabotage({8: 1e6}), learning_rate=0.05)
    records = vmc.run(9)
    norms = [record.step_norm for record in records]
    assert norms[8] <= 4.001 * np.median(norms[:8])
    assert codes(records[8]) == ["step_shortened"]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_values_that_are_not_finite_never_reach_theta(bad: float) -> None:
    vmc = study(optimizer=Sabotage({2: bad, 3: bad}))
    records = vmc.run(6)
    assert [record.undone for record in records] == [False, False, True, True, False, False]
    assert np.isfinite(vmc.theta).all()


@pytest.mark.usefixtures("long_steps")
def test_an_update_beyond_the_largest_number_is_undone() -> None:
    """So no checkpoint holds parameters that are not finite, which none would be resumed from."""
    vmc = study(learning_rate=1e308)
    before = vmc.theta.copy()
    (record,) = vmc.run(1)
    assert codes(record) == ["direction_not_finite"]
    assert np.array_equal(vmc.theta, before)


def test_when_nothing_helps_it_says_so() -> None:
    vmc = study(optimizer=Sabotage(dict.fromkeys(range(100), math.nan)))
    with pytest.raises(OptimisationFailed, match="not finite"):
        vmc.run(100)
    assert np.isfinite(vmc.theta).all()


@dataclass(frozen=True)
class Failing(Sampler):
    """Chains whose draw fails at some steps."""

    failing: tuple[int, ...] = ()
    error: Any = None

    def draw(self, problem: Any, point: Any, stream: int, jacobian: bool = True) -> Any:
        if stream in self.failing:
            raise self.error
        return super().draw(problem, point, stream, jacobian)


def test_no_room_on_a_device_is_no_reason_to_undo_a_step() -> None:
    """Smaller steps make no room: the error has to reach the user as it is."""
    full = DeviceError("64 walkers at a time: the GPU has no room for it")
    vmc = study(Failing(16, 64, threads=1, failing=(1,), error=full))
    vmc.run(1)
    with pytest.raises(DeviceError):
        vmc.run(1)


def test_sampling_that_fails_undoes_the_step_that_led_there() -> None:
    error = np.linalg.LinAlgError("SVD did not converge")
    records = study(Failing(16, 64, threads=1, failing=(3,), error=error)).run(6)
    assert [record.undone for record in records] == [False, False, False, True, False, False]
    assert records[3].as_dict()["energy"] is None
    assert codes(records[3]) == ["sampling_failed"]
    assert records[3].diagnostics[0].values == {"reason": "SVD did not converge"}
    with pytest.raises(np.linalg.LinAlgError):
        study(Failing(16, 64, threads=1, failing=(0,), error=error)).run(1)


def test_an_exception_leaves_the_last_finished_step() -> None:
    vmc = study()

    def stop(record: Any) -> None:
        if record.step == 2:
            signal.raise_signal(signal.SIGINT)
            seen.append("the callback comes to its end")

    seen: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        vmc.run(10, callback=stop)
    assert vmc.state.step == 3
    assert seen


def test_parameters_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"theta has shape \(3,\), the ansatz has 32"):
        VMC(OPERATOR, ANSATZ, theta=np.ones(3))
    with pytest.raises(ValueError, match="not finite"):
        VMC(OPERATOR, ANSATZ, theta=np.full(32, np.nan))


def test_magnetisation_of_the_walkers() -> None:
    operator = heisenberg(chain(4))
    vmc = VMC(operator, ANSATZ, FEW, theta=ANSATZ.random(seed=1), magnetisation=2)
    assert (vmc.state.here.configs.sum(axis=1) == 1).all()
    vmc.run(2)
    assert (vmc.state.here.configs.sum(axis=1) == 1).all()


def test_two_lattices_are_refused() -> None:
    with pytest.raises(ValueError, match="heisenberg has 1 x 6 sites, the wave function 1 x 4"):
        VMC(heisenberg(chain(6)), PeriodicMPS(chain(4), 2))


def test_many_shared_tensors_have_momentum_in_place_of_an_average_of_s() -> None:
    operator = heisenberg(square(2, 4))
    shared = PEPS(operator.lattice, 2, sharing=tnvmc.sharing(operator))
    few = SR("auto", memory=0.9, averaged_up_to=shared.n_params - 1)
    for ansatz, rule, momentum in (
        (shared, None, 0.0),
        (shared, few, 0.9),
        (PEPS(operator.lattice, 2, sharing=None), few, 0.0),
    ):
        vmc = VMC(operator, ansatz, Sampler(n_walkers=8, n_samples=16), rule)
        found: Any = vmc.method.rule
        assert found.rule.momentum == momentum
        carried = {f"rule_{name}" for name in found.rule.init(vmc.theta)}
        assert carried == set(vmc.state.here.optimizer) - {"rate", "last"}


@pytest.mark.parametrize("memory", [0.0, 0.9])
@pytest.mark.parametrize(("before", "after"), [(0.0, 0.9), (0.9, 0.0)])
def test_momentum_is_neither_turned_on_nor_off_by_a_checkpoint(
    before: float, after: float, memory: float, tmp_path: Path
) -> None:
    operator = heisenberg(square(2, 2))
    made, other = (
        VMC(operator, PEPS(operator.lattice, 2), Sampler(8, 16), SR("auto", each, memory=memory))
        for each in (before, after)
    )
    made.run(1)
    made.save(tmp_path / "a.h5")
    here = other.state
    with pytest.raises(StateFileError):
        other.restore(tmp_path / "a.h5")
    assert other.state is here


def test_goes_back_to_a_checkpoint_after_steps(tmp_path: Path) -> None:
    operator = heisenberg(square(2, 3))
    vmc = VMC(operator, PEPS(operator.lattice, 2), Sampler(8, 32), SR("auto", memory=0.9))
    vmc.run(1)
    vmc.save(tmp_path / "a.h5")
    expected = vmc.run(1)[-1].energy
    after = vmc.theta
    vmc.restore(tmp_path / "a.h5")
    assert vmc.run(1)[-1].energy == expected
    np.testing.assert_array_equal(vmc.theta, after)
