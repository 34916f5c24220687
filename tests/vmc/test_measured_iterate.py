"""Which point of an optimisation is measured, and what the automatic learning rate leaves behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tnvmc import PEPS, SR, SRC, VMC, Enumerate, Sampler, heisenberg, square, tfim
from tnvmc.vmc.controllers import MeanOfIterates
from tnvmc.vmc.measured_iterate import ENOUGH, FEWEST, _error_between, measured_iterate
from tnvmc.vmc.observation import Reweighted, observe

LATTICE = square(2, 3)


def automatic(seed: int = 0) -> VMC:
    ansatz = PEPS(LATTICE, 2, scheme=SRC(4))
    return VMC(
        heisenberg(LATTICE), ansatz, Sampler(32, 64, threads=1), learning_rate="auto", seed=seed
    )


def test_the_mean_forgets_the_way_down() -> None:
    points = np.random.default_rng(0).normal(size=(40, 3))
    found = MeanOfIterates(points[0], points[0])
    for point in points:
        seen: Any = SimpleNamespace(point=SimpleNamespace(theta=point))
        found = found.after(seen, {})
    # Shamir and Zhang: the share of the newest of t points is (POWER + 1) / (t + POWER).
    weights = np.array([(k + 1) * (k + 2) * (k + 3) for k in range(40)], dtype=float)
    assert found.mean == pytest.approx(weights @ points / weights.sum())
    assert found.count == 40


@pytest.mark.whole
@pytest.mark.parametrize(
    ("point", "taken", "told"),
    [
        ("mean", "mean", ["measured_mean"]),
        ("last", "last", []),
        ("first", "first", ["measured_first"]),
    ],
)
def test_the_lowest_is_measured(point: str, taken: str, told: list[str]) -> None:
    vmc = VMC(
        heisenberg(LATTICE),
        PEPS(LATTICE, 2, scheme=SRC(4)),
        Enumerate(threads=1),
        learning_rate="auto",
    )
    worse = vmc.theta + np.random.default_rng(1).normal(size=vmc.theta.shape)
    points = {
        name: vmc.theta if name == point else worse * (1 + i)
        for i, name in enumerate(("last", "mean", "first"))
    }
    iterates = MeanOfIterates(points["first"], points["mean"], FEWEST)
    here = replace(vmc.state.here, theta=points["last"])
    state = replace(vmc.state, here=here, controllers=(iterates,))
    found, diagnostics = measured_iterate(vmc.method, state)
    assert np.array_equal(found.theta, points[taken])
    assert [d.code for d in diagnostics] == told


def test_the_mean_is_compared_by_the_samples_that_judged_the_last_update(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Draws of their own took as long as ten steps, and left the difference less certain."""
    ansatz = PEPS(LATTICE, 2, scheme=SRC(4))
    sampler = Sampler(128, ENOUGH, threads=1)
    vmc = VMC(heisenberg(LATTICE), ansatz, sampler, learning_rate="auto")
    for _ in range(FEWEST):
        vmc.step()
    drawn: list[int] = []
    draw = Sampler.draw

    def counted(self: Sampler, *args: Any) -> Any:
        drawn.append(self.n_walkers * (self.n_burn + self.n_draws))
        return draw(self, *args)

    monkeypatch.setattr(Sampler, "draw", counted)
    measured_iterate(vmc.method, vmc.state)
    assert drawn[0] == 5 * 128  # as a step
    assert sum(drawn[1:]) <= 5 * 128  # the first parameters, by a few walkers
    assert len(drawn) == 2


def test_a_difference_is_known_better_than_its_parts() -> None:
    vmc = automatic()
    for _ in range(3):
        vmc.step()
    here = vmc.state.here
    near = replace(here, theta=here.theta + 1e-3)
    seen = observe(vmc.problem, vmc.method.sampler, here, 1, jacobian=False)
    other = observe(vmc.problem, Reweighted(seen.snapshot, seen.info), near, 1, jacobian=False)
    exact = [
        observe(vmc.problem, Enumerate(threads=1), each, 1, jacobian=False).cost.mean
        for each in (here, near)
    ]
    error = _error_between(other, seen)
    assert error < 0.2 * min(seen.cost.error, other.cost.error)
    assert abs(other.cost.mean - seen.cost.mean - (exact[1] - exact[0])) < 4 * error


def test_few_steps_have_no_mean() -> None:
    vmc = automatic()
    vmc.run(FEWEST - 1)
    assert measured_iterate(vmc.method, vmc.state)[0] is vmc.state.here


@pytest.mark.whole
def test_resumed_is_bit_for_bit(tmp_path: Path) -> None:
    through, first, second = automatic(), automatic(), automatic()
    for _ in range(10):
        through.step()
    for _ in range(4):
        first.step()
    first.save(tmp_path / "c.h5")
    second.restore(tmp_path / "c.h5")
    for _ in range(6):
        second.step()
    assert np.array_equal(through.theta, second.theta)
    a, b = (vmc.state.controller(MeanOfIterates) for vmc in (through, second))
    assert a is not None
    assert b is not None
    assert np.array_equal(a.mean, b.mean)
    assert np.array_equal(a.first, b.first)
    assert (a.count, b.count) == (10, 10)


def test_a_checkpoint_without_a_trail_is_refused(tmp_path: Path) -> None:
    """The mean was then never measured, without a word."""
    vmc = automatic()
    vmc.save(tmp_path / "with.h5")
    fixed = VMC(
        vmc.operator,
        vmc.ansatz,
        vmc.method.sampler,
        vmc.method.rule,
        learning_rate=1.0,
        theta=vmc.theta,
    )
    fixed.save(tmp_path / "without.h5")
    for one, file in ((vmc, "without.h5"), (fixed, "with.h5")):
        with pytest.raises(ValueError, match="learning_rate='auto'"):
            one.restore(tmp_path / file)


def test_the_record_tells_the_rate() -> None:
    vmc = automatic()
    records = [vmc.step() for _ in range(4)]
    rates = [record.learning_rate for record in records]
    assert len(set(rates)) == 4
    assert [record.optimizer["paced_rate"] for record in records] == rates


def test_the_first_rate_scales_with_the_energies() -> None:
    def first(h: float) -> float:
        operator = tfim(LATTICE, J=h / 3, h=h)
        return VMC(
            operator, PEPS(LATTICE, 2), Enumerate(), learning_rate="auto"
        ).state.here.optimizer["rate"]  # type: ignore[no-any-return]

    assert first(3.0) == pytest.approx(10 * first(30.0))


@pytest.mark.whole
def test_few_samples_do_not_end_above_the_start() -> None:
    """Plain SR at a falling rate of 0.1 climbs here, from 7e-3 to 1.1e-2 above the best such state."""
    lattice = square(3, 4)
    hamiltonian, ansatz = heisenberg(lattice), PEPS(lattice, 2, scheme=SRC(4))
    vmc = VMC(hamiltonian, ansatz, Sampler(192, 192, threads=1), learning_rate="auto")
    start = vmc.theta
    for _ in range(25):
        vmc.step()
    point, _ = measured_iterate(vmc.method, vmc.state)

    def energy(theta: np.ndarray) -> float:
        return VMC(hamiltonian, ansatz, Enumerate(threads=1), theta=theta).measure().energy

    assert energy(point.theta) < energy(start)


def test_a_rule_of_ones_own_is_paced() -> None:
    vmc = VMC(
        heisenberg(LATTICE), PEPS(LATTICE, 2), Enumerate(threads=1), SR(1e-3), learning_rate="auto"
    )
    energies = [vmc.step().energy for _ in range(12)]
    assert energies[-1] < energies[0]


def test_what_is_measured_can_be_had() -> None:
    vmc = automatic()
    worse = vmc.theta + 0.1 * np.random.default_rng(1).normal(size=vmc.theta.shape)
    here = replace(vmc.state.here, theta=worse)
    iterates = MeanOfIterates(2 * worse, vmc.theta, FEWEST)
    vmc.state = replace(vmc.state, here=here, controllers=(iterates,))
    found = vmc.measure(1024)
    assert "measured_mean" in [d.code for d in found.diagnostics]
    assert np.array_equal(vmc.measured_theta(), iterates.mean)
    assert not np.array_equal(vmc.theta, vmc.measured_theta())
