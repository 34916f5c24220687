"""A number of samples that grows: when, how it is told, and that it goes on bit for bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tnvmc.ansatz.mps import PeriodicMPS
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.lattice import chain, square
from tnvmc.operators.models import tfim
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.direct import DirectSampler
from tnvmc.sampling.enumerate import Enumerate
from tnvmc.session.vmc import VMC
from tnvmc.vmc import controllers
from tnvmc.vmc.controllers import AGAINST, MOST_SAMPLES, GrowingSamples, first_n_samples

OPERATOR = tfim(chain(4, "periodic"), h=1.0)
ANSATZ = PeriodicMPS(OPERATOR.lattice, D=2)
SAMPLER = Sampler(n_walkers=16, threads=1)


def study(sampler: Any = SAMPLER, **options: Any) -> VMC:
    return VMC(OPERATOR, ANSATZ, sampler, theta=ANSATZ.random(seed=3), seed=1, **options)


def growing(threads: int = 1) -> VMC:
    return study(replace(SAMPLER, threads=threads), n_samples="auto")


def drawn(vmc: VMC, steps: int) -> list[int | None]:
    return [record.n_samples for record in vmc.run(steps)]


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples grow within a few steps, twice at most."""
    monkeypatch.setattr(controllers, "AGAINST", 0.01)
    monkeypatch.setattr(controllers, "FEWEST_SAMPLES", 16)
    monkeypatch.setattr(controllers, "MOST_SAMPLES", 64)


def after(found: GrowingSamples, correlation: float) -> GrowingSamples:
    return found.after(None, {"correlation": correlation})


def test_only_what_speaks_against_the_rate_counts() -> None:
    found = after(GrowingSamples(128), 0.5)
    assert found == GrowingSamples(128, 0.0)
    for correlation in (-0.7, -0.5, 0.2):
        found = after(found, correlation)
    assert found == GrowingSamples(128, pytest.approx(1.0))
    assert found.after(None, None) == found.after(None, {}) == found
    assert after(found, 1.0 - AGAINST - 1e-9) == GrowingSamples(256, 0.0)
    assert after(found, 1.0 - AGAINST + 1e-9).n_samples == 128


def test_they_end_at_the_most() -> None:
    found = after(GrowingSamples(MOST_SAMPLES), -9.0)
    assert found.n_samples == MOST_SAMPLES
    assert found.diagnostics(GrowingSamples(MOST_SAMPLES)) == ()


def test_the_first_n_samples_follows_parameters_and_walkers() -> None:
    assert first_n_samples(42, 128) == 128
    assert first_n_samples(10, 16) == 128
    assert first_n_samples(10, 200) == 200
    assert first_n_samples(10, 100) == 200  # two draws of each
    assert first_n_samples(128 * 20, 128) == 128
    assert first_n_samples(128 * 20 + 1, 128) == 256
    assert first_n_samples(10**9, 128) == MOST_SAMPLES


@pytest.mark.usefixtures("soon")
def test_steps_draw_more_and_tell_of_it() -> None:
    vmc = growing()
    records = vmc.run(12)
    numbers = [record.n_samples for record in records]
    assert numbers[0] == 16 and numbers[-1] == 64
    changes = [k for k in range(11) if numbers[k + 1] != numbers[k]]
    told = [k for k in range(12) if "samples_grown" in [d.code for d in records[k].diagnostics]]
    assert told == changes and len(told) == 2
    (found,) = (d for d in records[told[0]].diagnostics if d.code == "samples_grown")
    assert found.values == {"before": 16, "n_samples": 32}


@pytest.mark.usefixtures("soon")
def test_direct_draws_grow_from_their_own_number() -> None:
    operator = tfim(square(2, 2), h=1.0)
    vmc = VMC(operator, PEPS(operator.lattice, 2), DirectSampler(32, threads=1), n_samples="auto")
    numbers = drawn(vmc, 12)
    assert (numbers[0], numbers[-1]) == (32, 64)


def test_a_number_that_has_not_grown_changes_nothing() -> None:
    vmc, plain = growing(), study(Sampler(16, 128, threads=1))
    vmc.run(4), plain.run(4)
    assert np.array_equal(vmc.theta, plain.theta)


@pytest.mark.whole
@pytest.mark.usefixtures("soon")
def test_the_rule_is_the_same_for_any_workers_and_goes_on_bit_for_bit(tmp_path: Path) -> None:
    whole, shared = growing(), growing(threads=2)
    numbers = drawn(whole, 12)
    assert drawn(shared, 12) == numbers
    for stop in (numbers.index(32), numbers.index(64) + 1):
        first, second = growing(), growing()
        first.run(stop)
        first.save(tmp_path / "c.h5")
        second.restore(tmp_path / "c.h5")
        assert drawn(second, 12 - stop) == numbers[stop:]
        assert (
            np.array_equal(second.theta, whole.theta)
            and second.state.controllers[1] == whole.state.controllers[1]
        )
    assert np.array_equal(whole.theta, shared.theta)


@pytest.mark.usefixtures("soon")
def test_a_checkpoint_goes_on_with_or_without_it(tmp_path: Path) -> None:
    grown, plain = growing(), study()
    grown.run(12)
    grown.save(tmp_path / "grown.h5")
    plain.restore(tmp_path / "grown.h5")
    assert drawn(plain, 1) == [512] and plain.state.controller(GrowingSamples) is None
    plain = study(Sampler(16, 16, threads=1))
    plain.run(1)
    plain.save(tmp_path / "plain.h5")
    grown.restore(tmp_path / "plain.h5")
    assert drawn(grown, 1) == [64]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"n_samples": 256}, "Sampler"),
        ({"n_samples": "auto", "learning_rate": 0.1}, "learning_rate"),
        ({"n_samples": "auto", "sampler": Enumerate()}, "Enumerate"),
    ],
)
def test_what_it_does_not_go_with(options: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        study(**options)
