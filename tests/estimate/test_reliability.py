"""What is told of an error bar: one sample that provokes each code, and one that has none."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.estimate.test_statistics import ar1
from tnvmc.estimate.blocks import Blocks
from tnvmc.estimate.diagnostic import Diagnostic, UnreliableWarning, warn_of
from tnvmc.estimate.reliability import LARGEST_SPREAD, changed_part, closure_threshold, doubts
from tnvmc.estimate.statistics import Estimate, estimate
from tnvmc.shown import sentence

RNG = np.random.default_rng


def codes(values: np.ndarray, **known: float) -> list[str]:
    return [found.code for found in doubts(estimate(values), values.shape[1], **known)]


@pytest.mark.parametrize("shape", [(4, 64), (32, 8), (1, 1024), (512, 4), (4096, 1), (1, 16)])
def test_healthy_samples(shape: tuple[int, int]) -> None:
    assert codes(RNG(1).normal(size=shape), changed=0.9, effective=shape[0] * shape[1]) == []


@pytest.mark.parametrize(("shape", "tau"), [((8, 2), 0.5), ((4, 4), 0.5), ((1024, 1), 1024.0)])
def test_few_walkers(shape: tuple[int, int], tau: float) -> None:
    rho = (2 * tau - 1) / (2 * tau + 1)
    assert "few_walkers" in codes(ar1(*shape, rho, seed=3)[0])


def test_walkers_that_stay_apart() -> None:
    assert codes(RNG(2).normal(size=(4, 64)) + 9.0 * (np.arange(64) % 2)) == ["walkers_disagree"]
    (found,) = doubts(Estimate(0.0, 0.1, 1.0, 2.0, np.inf, 256), 64)
    assert found.values["r_hat"] is None  # as JSON holds it


@pytest.mark.parametrize(("scatter", "told"), [(1e-6, False), (1e-4, True)])
def test_walkers_that_stay_apart_by_less_than_matters(scatter: float, told: bool) -> None:
    apart = RNG(2).normal(size=(4, 64)) + 9.0 * (np.arange(64) % 2)
    values = 8.0 * (1 + scatter * apart / apart.std())
    assert codes(values) == ["walkers_disagree"] * told
    blocks = Blocks()
    blocks.add(values.reshape(-1, 1), None, 64)
    assert [each.code for each in blocks.diagnostics()] == ["walkers_disagree"] * told


def test_a_heavy_tail() -> None:
    values = RNG(3).normal(size=(1, 1024))
    values[0, 7] = 100.0
    assert codes(values) == ["heavy_tail"]


@pytest.mark.parametrize(("n_samples", "worth"), [(8192, 300.0), (256, 9.0)])
def test_few_effective_samples(n_samples: int, worth: float) -> None:
    (found,) = doubts(Estimate(0.0, 0.1, 1.0, 0.5, 1.0, n_samples), 64, effective=worth)
    assert found.code == "few_effective_samples"


def test_draws_that_hardly_change() -> None:
    configs = np.zeros((8, 4, 5), dtype=np.int8)
    configs[3:, 0] = 1
    assert changed_part(configs.reshape(32, 5), 4) == pytest.approx(1 / 28)
    assert changed_part(np.eye(5, dtype=np.int8), 5) == 1.0  # independent draws
    assert changed_part(np.zeros((1, 5)), 1) is None
    assert codes(RNG(4).normal(size=(8, 8)), changed=0.1) == ["few_configurations"]


def test_blocks_tell_of_the_term_whose_walkers_disagree() -> None:
    values = RNG(5).normal(size=(4, 64, 3))
    values[:, :, 1] += 9.0 * (np.arange(64) % 2)
    blocks, healthy = Blocks(), Blocks()
    blocks.add(values.reshape(-1, 3), None, 64)
    healthy.add(values.reshape(-1, 3)[:, [0, 2]], None, 64)
    (found,) = blocks.diagnostics()
    assert (found.code, found.values["term"]) == ("walkers_disagree", 1)
    assert healthy.diagnostics() == ()


def test_blocks_of_few_walkers_take_the_scatter_of_walkers_that_stay_apart() -> None:
    blocks, places = Blocks(), np.array([0.0, 0.0, 1.0, 1.0])
    for part in 0.01 * RNG(6).normal(size=(32, 8, 4)) + places:
        blocks.add(part.reshape(-1, 1), None, 4)
    _, (error,) = blocks.derive()
    assert error > places.std(ddof=1) / 2


def test_python_warns_of_what_a_command_would_print() -> None:
    known = Diagnostic("overlap_unknown", "warning", {"number": 1, "squared": 0.1, "error": 0.2})
    told = [Diagnostic("a", "good"), Diagnostic("b", "open"), Diagnostic("c", "warning", {"x": 1})]
    with pytest.warns(UnreliableWarning) as seen:
        warn_of([*told, Diagnostic("d", "error"), known], "VMC.measure")
    messages = [str(each.message) for each in seen]
    assert messages[:2] == ["VMC.measure: c (x = 1)", "VMC.measure: d"]  # of another version
    assert messages[2] == f"VMC.measure: overlap_unknown: {sentence(known)}"


@pytest.mark.parametrize(
    ("off_diagonal", "error", "threshold"),
    [(-10.0, 0.025, 0.05), (0.0, 0.025, LARGEST_SPREAD), (-10.0, math.inf, LARGEST_SPREAD), (-10.0, 0.0, 1e-9)],
)  # fmt: skip
def test_the_closure_spread_that_an_energy_allows(
    off_diagonal: float, error: float, threshold: float
) -> None:
    assert closure_threshold(off_diagonal, error) == pytest.approx(threshold)
    assert math.isnan(closure_threshold(math.nan, error))
