"""The table of a comparison: what its columns mean, and which states stay out of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.compare_files import data
from tnvmc.analysis import comparison as compare_table
from tnvmc.analysis.comparison import (
    Row,
    Table,
    difference,
    headline,
    markdown,
    scientific,
    seconds_per_effective_sample,
    text,
)
from tnvmc.settings.comparison import Comparison, comparison
from tnvmc.settings.config import Settings
from tnvmc.storage.run_files import Run

Json = dict[str, Any]


@pytest.fixture(scope="module")
def compared() -> Comparison:
    return comparison(data())


def finished(settings: Settings) -> Run:
    """A run of four steps, as its files would tell."""
    lines = tuple({"step": n, "seconds": 0.1 * (n + 1), "tau": 2.0 + n} for n in range(4))
    result: Json = {
        "energy": -3.0, "energy_error": 0.01, "variance": 0.2, "v_score": 0.1, "n_samples": 64, "steps": 4,
        "version": compare_table.__version__, "config": settings.as_dict(),
        "effective_samples": None,
    }  # fmt: skip
    return Run(Path("run"), settings.as_dict(), lines, result)


def test_a_state_measured_alike_is_in_the_table(compared: Comparison) -> None:
    for settings in compared.runs.values():
        assert difference(finished(settings), compared) is None


def config(section: str, **keys: Any) -> Callable[[Json], Any]:
    return lambda result: result["config"][section].update(keys)


DIFFERENCES: list[tuple[Callable[[Json], Any], str]] = [
    (lambda r: r.update(n_samples=128), "measured with 128 samples, the others with 64"),
    (lambda r: r.update(energy=None), "not finite"),
    (lambda r: r.update(energy_error=None), "not finite"),
    (lambda r: r.update(v_score=None), "not finite"),
    (lambda r: r.update(steps=3), "not measured after its last step"),
    (lambda r: r.update(version="0.0.1"), "measured by tnvmc 0.0.1"),
    (config("hamiltonian", J=2.0), "another Hamiltonian"),
    (config("lattice", boundary="periodic"), "another Hamiltonian"),
    (config("measure", symmetrise=["spin"]), "symmetries spin, the others with none"),
    (config("sampler", magnetisation=2), "in the sector 2 Sz = 2, the others are in 0"),
    (config("sampler", kind="unheard"), "cannot be read"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "reason"), DIFFERENCES, ids=range(len(DIFFERENCES)))
def test_a_state_measured_differently_is_not(
    change: Callable[[Json], Any], reason: str, compared: Comparison
) -> None:
    run = finished(compared.runs["product"])
    assert run.result is not None
    change(run.result)  # type: ignore[arg-type]
    found = difference(run, compared)
    assert found is not None and reason in found


def test_an_enumeration_is_not_compared_with_samples(compared: Comparison) -> None:
    settings = data()
    settings["ansatz"][0]["sampler"] = {"kind": "enumerate"}
    other = comparison(settings).runs["product"]
    run = finished(other)
    run.result["n_samples"] = 20  # type: ignore[index]
    assert difference(run, compared) == "enumerated: 20 samples, the others with 64"
    settings["sampler"]["kind"] = "enumerate"
    del settings["ansatz"][2]
    assert comparison(settings).n_samples == 20  # all are enumerated: 6 choose 3


def test_seconds_per_effective_sample_of_chains(compared: Comparison) -> None:
    """Steps of 0.1 (n + 1) s with tau = 2 + n: 16 / (2 tau) samples each."""
    settings = compared.runs["product"]
    costs = [0.1 * (n + 1) * 2 * (2 + n) / 16 for n in range(4)]
    found = seconds_per_effective_sample(finished(settings), settings)
    assert found == pytest.approx(np.median(costs))


def test_no_sample_is_worth_more_than_an_independent_one(compared: Comparison) -> None:
    settings = compared.runs["product"]
    run = finished(settings)
    for line in run.history:
        line["tau"] = 0.2  # type: ignore[index]
    assert seconds_per_effective_sample(run, settings) == pytest.approx(0.25 / 16)
    for line in run.history:
        line["tau"] = None  # type: ignore[index]
    assert seconds_per_effective_sample(run, settings) is None


def test_weights_of_chains_count_in_the_cost(compared: Comparison) -> None:
    """As those of sampler.power: a step of 16 samples that are worth 4."""
    settings = compared.runs["product"]
    run = finished(settings)
    plain = seconds_per_effective_sample(run, settings)
    for line in run.history:
        line["effective_samples"] = 4.0  # type: ignore[index]
    assert plain is not None
    assert seconds_per_effective_sample(run, settings) == pytest.approx(4 * plain)


def test_the_measurement_sees_longer_correlations_than_a_step(compared: Comparison) -> None:
    """A step's tau cannot exceed half its draws; where it is larger, it counts all the same."""
    settings = compared.runs["product"]
    run = finished(settings)
    run.result["tau"] = 4.0  # type: ignore[index]
    costs = [0.1 * (n + 1) * 2 * max(2 + n, 4.0) / 16 for n in range(4)]
    assert seconds_per_effective_sample(run, settings) == pytest.approx(np.median(costs))
    for line in run.history:
        line["tau"] = None  # type: ignore[index]
    assert seconds_per_effective_sample(run, settings) == pytest.approx(0.25 * 8 / 16)


@pytest.mark.parametrize(("step", "measurement"), [(1, 3), (4, 2), (2, 2)])
def test_the_tau_of_a_measurement_is_that_of_draws_of_a_step(
    step: int, measurement: int, compared: Comparison
) -> None:
    """One exponential, rho = 0.9 a sweep."""
    settings = compared.runs["product"]
    thinned = settings.model_copy(update={
        "sampler": settings.sampler.model_copy(update={"n_thin": step}),
        "measure": settings.measure.model_copy(update={"n_thin": measurement}),
    })  # fmt: skip
    run = finished(thinned)
    tau = {thin: 0.5 * (1 + 0.9**thin) / (1 - 0.9**thin) for thin in (step, measurement)}
    run.result["tau"] = tau[measurement]  # type: ignore[index]
    for line in run.history:
        line["tau"] = 0.5  # type: ignore[index]
    found = seconds_per_effective_sample(run, thinned)
    assert found == pytest.approx(0.25 * 2 * tau[step] / 16)


def test_seconds_per_effective_sample_of_direct_draws(compared: Comparison) -> None:
    """20 draws a step, worth 48 of 64 in the measurement."""
    settings = compared.runs["drawn"]
    run = finished(settings)
    run.result["effective_samples"] = 48.0  # type: ignore[index]
    assert seconds_per_effective_sample(run, settings) == pytest.approx(0.25 / (20 * 0.75))


@pytest.mark.parametrize(
    ("value", "error", "written"),
    [
        (3.2e-5, 4.9e-6, "3.20(49)e-5"),
        (-1.24e-3, 3e-4, "-1.24(30)e-3"),
        (2e-4, 3e-7, "2.0000(30)e-4"),
        (1e-6, 3e-5, "0.1(30)e-5"),
        (0.02, None, "2.0e-2"),
        (None, None, "-"),
        (0.0, 1e-3, "0.0(10)e-3"),
    ],
)
def test_relative_errors_are_written_short(
    value: float | None, error: float | None, written: str
) -> None:
    assert scientific(value, error) == written


def row(name: str, energy: float, **changes: Any) -> Row:
    values: Json = {
        "kind": "peps", "sampler": "metropolis", "parameters": 96, "steps": 4, "undone": 0,
        "first_energy": None, "energy": energy,
        "energy_error": 0.012, "energy_per_site": energy / 6, "energy_per_site_error": 0.002,
        "relative_error": 1e-3, "relative_error_error": 1e-4, "variance": 0.3, "v_score": 0.02,
        "seconds_per_step": 0.25, "compile_seconds": None, "seconds_per_effective_sample": None, "seconds": 1.0,
        "samples": 64, "note": None,
    }  # fmt: skip
    return Row(name, **values | changes)


ABOUT = {
    "hamiltonian": "heisenberg, J = 1", "lattice": "square, 2 x 3 sites, open", "n_sites": 6,
    "budget": {"samples": 640}, "measured_samples": 64, "symmetrise": [],
    "reference": {"energy": -3.0, "source": "somebody", "method": "QMC"},
}  # fmt: skip


def test_text_and_markdown_say_the_same() -> None:
    rows = (row("PEPS D=2", -3.0), row("x", -2.9, note="R-hat is 1.3"))
    table = Table(rows, (("ViT", "failed: no luck"),), ABOUT)
    shown, page = text(table), markdown(table)
    for part in (shown, page):
        for word in ("-0.5000(20)", "1.00(10)e-3", "5.00e-02", "x: R-hat is 1.3", "distance to QMC",
                     "not in the table: ViT: failed: no luck"):  # fmt: skip
            assert word in part, word
    assert page.startswith(headline(table))
    assert "640 samples for each ansatz" in page and "QMC energy per site -0.5000000000" in page
    lines = shown.splitlines()
    assert len({line.index("-0.") for line in lines[2:4]}) == 1  # columns stand below each other
