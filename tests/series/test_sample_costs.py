"""What the columns of a comparison mean, and which states stay out of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.compare_files import data
from tnvmc._version import __version__
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.series.expansion import seconds_per_effective_sample
from tnvmc.series.kind import Series
from tnvmc.series.machine import COMPARISON, tabulated
from tnvmc.settings.config import Settings
from tnvmc.storage.run_files import Run
from tnvmc.trust.reference import Reference

Json = dict[str, Any]


@pytest.fixture(scope="module")
def compared() -> Series:
    return COMPARISON.expand(data(), "comparison")


def finished(settings: Settings) -> Run:
    """A run of four steps, as its files would tell."""
    lines = tuple({"step": n, "seconds": 0.1 * (n + 1), "tau": 2.0 + n} for n in range(4))
    result: Json = {
        "energy": -3.0, "energy_error": 0.01, "variance": 0.2, "v_score": 0.1, "n_samples": 64,
        "steps": 4,
        "version": __version__, "config": settings.as_dict(),
        "effective_samples": None,
    }  # fmt: skip
    return Run(Path(str(settings.run.out)), settings.as_dict(), lines, result)


def test_a_state_measured_alike_is_in_the_table(compared: Series) -> None:
    for settings in compared.runs.values():
        assert COMPARISON.reason_against(compared, finished(settings)) is None


def config(section: str, **keys: Any) -> Callable[[Json], Any]:
    return lambda result: result["config"][section].update(keys)


REASONS: list[tuple[Callable[[Json], Any], str]] = [
    (lambda r: r.update(energy=None), "numbers_not_finite"),
    (lambda r: r.update(energy_error=None), "numbers_not_finite"),
    (lambda r: r.update(v_score=None), "numbers_not_finite"),
    (lambda r: r.update(steps=3), "run_unfinished"),
    (config("sampler", kind="unheard"), "settings_unreadable"),
]
DIFFERENCES: list[tuple[Callable[[Json], Any], str, Any, Any]] = [
    (lambda r: r.update(n_samples=128), "n_samples", 128, 64),
    (lambda r: r.update(version="0.0.1"), "version", "0.0.1", __version__),
    (config("optimizer", steps=3), "steps", 3, 4),
    (config("hamiltonian", J=2.0), "hamiltonian", None, None),
    (config("lattice", boundary="periodic"), "hamiltonian", None, None),
    (config("measure", symmetrise=["spin"]), "symmetrise", ["spin"], []),
    (config("sampler", magnetisation=2), "magnetisation", 2, 0),
]


def changed(change: Callable[[Json], Any], compared: Series) -> Diagnostic:
    """The reason against a run whose result was changed."""
    run = finished(compared.runs["product"])
    change(run.result)  # type: ignore[arg-type]
    found = COMPARISON.reason_against(compared, run)
    assert found is not None and found.status == "error"
    return found


@pytest.mark.parametrize(("change", "code"), REASONS, ids=range(len(REASONS)))
def test_a_run_without_a_good_measurement_is_left_out(
    change: Callable[[Json], Any], code: str, compared: Series
) -> None:
    assert changed(change, compared).code == code


@pytest.mark.parametrize(
    ("change", "key", "this", "others"), DIFFERENCES, ids=range(len(DIFFERENCES))
)
def test_a_state_measured_differently_is_left_out(
    change: Callable[[Json], Any], key: str, this: Any, others: Any, compared: Series
) -> None:
    found = changed(change, compared)
    assert (found.code, found.values["key"]) == ("measured_differently", key)
    assert found.values["this"] != found.values["others"]
    if this is not None:  # not of a fingerprint
        assert (found.values["this"], found.values["others"]) == (this, others)


def test_runs_that_failed_or_left_nothing(compared: Series, tmp_path: Path) -> None:
    references = dict.fromkeys(compared.runs, Reference())
    (tmp_path / "PEPS D=2").mkdir()
    table = tabulated(replace(compared, out=tmp_path), references, {"drawn": "no luck"})
    assert table.rows == ()
    assert [(name, found.code) for name, found in table.left_out] == [
        ("product", "run_not_begun"), ("PEPS D=2", "run_unreadable"), ("drawn", "run_failed"),
    ]  # fmt: skip
    held = table.as_dict()["left_out"][2]
    assert held == {
        "name": "drawn", "code": "run_failed", "status": "error", "values": {"reason": "no luck"}
    }  # fmt: skip


def test_an_enumeration_is_not_compared_with_samples(compared: Series) -> None:
    settings = data()
    settings["ansatz"][0]["sampler"] = {"kind": "enumerate"}
    other = COMPARISON.expand(settings, "").runs["product"]
    run = finished(other)
    run.result["n_samples"] = 20  # type: ignore[index]
    values = {"key": "n_samples", "this": 20, "others": 64}
    assert COMPARISON.reason_against(compared, run) == Diagnostic(
        "measured_differently", "error", values
    )
    settings["sampler"]["kind"] = "enumerate"
    del settings["ansatz"][2]
    assert COMPARISON.expand(settings, "").details.n_samples == 20  # all are enumerated: 6 choose 3


def test_seconds_per_effective_sample_of_chains(compared: Series) -> None:
    """Steps of 0.1 (n + 1) s with tau = 2 + n: 16 / (2 tau) samples each."""
    settings = compared.runs["product"]
    costs = [0.1 * (n + 1) * 2 * (2 + n) / 16 for n in range(4)]
    found = seconds_per_effective_sample(finished(settings), settings)
    assert found == pytest.approx(np.median(costs))


def test_no_sample_is_worth_more_than_an_independent_one(compared: Series) -> None:
    settings = compared.runs["product"]
    run = finished(settings)
    for line in run.history:
        line["tau"] = 0.2  # type: ignore[index]
    assert seconds_per_effective_sample(run, settings) == pytest.approx(0.25 / 16)
    for line in run.history:
        line["tau"] = None  # type: ignore[index]
    assert seconds_per_effective_sample(run, settings) is None


def test_weights_of_chains_count_in_the_cost(compared: Series) -> None:
    """As those of sampler.power: a step of 16 samples that are worth 4."""
    settings = compared.runs["product"]
    run = finished(settings)
    plain = seconds_per_effective_sample(run, settings)
    for line in run.history:
        line["effective_samples"] = 4.0  # type: ignore[index]
    assert plain is not None
    assert seconds_per_effective_sample(run, settings) == pytest.approx(4 * plain)


def test_the_measurement_sees_longer_correlations_than_a_step(compared: Series) -> None:
    """A step's tau cannot exceed half its draws; where it is larger, it counts all the same."""
    settings = compared.runs["product"]
    run = finished(settings)
    run.result["tau"] = 4.0  # type: ignore[index]
    costs = [0.1 * (n + 1) * 2 * max(2 + n, 4.0) / 16 for n in range(4)]
    assert seconds_per_effective_sample(run, settings) == pytest.approx(np.median(costs))
    for line in run.history:
        line["tau"] = None  # type: ignore[index]
    assert seconds_per_effective_sample(run, settings) == pytest.approx(0.25 * 8 / 16)


@pytest.mark.parametrize("measurement", [1, 3])
def test_the_tau_of_a_measurement_is_that_of_draws_of_a_step(
    measurement: int, compared: Series
) -> None:
    """One exponential, rho = 0.9 a sweep."""
    settings = compared.runs["product"]
    thinned = settings.model_copy(update={
        "measure": settings.measure.model_copy(update={"n_thin": measurement}),
    })  # fmt: skip
    run = finished(thinned)
    tau = {thin: 0.5 * (1 + 0.9**thin) / (1 - 0.9**thin) for thin in (1, measurement)}
    run.result["tau"] = tau[measurement]  # type: ignore[index]
    for line in run.history:
        line["tau"] = 0.5  # type: ignore[index]
    found = seconds_per_effective_sample(run, thinned)
    assert found == pytest.approx(0.25 * 2 * tau[1] / 16)


def test_seconds_per_effective_sample_of_direct_draws(compared: Series) -> None:
    """20 draws a step, worth 48 of 64 in the measurement."""
    settings = compared.runs["drawn"]
    run = finished(settings)
    run.result["effective_samples"] = 48.0  # type: ignore[index]
    assert seconds_per_effective_sample(run, settings) == pytest.approx(0.25 / (20 * 0.75))
