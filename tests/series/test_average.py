"""Averages: random couplings of each run, the mean and its error, what speaks against it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.sector_files import SETTINGS as WITH_SECTORS
from tnvmc.app.cli import main
from tnvmc.series.average import AverageKind, mean_of
from tnvmc.series.kind import Series
from tnvmc.series.machine import AVERAGE
from tnvmc.series.scan import ScanRow
from tnvmc.settings.config import build_operator
from tnvmc.settings.problems import ConfigError

SETTINGS = WITH_SECTORS[: WITH_SECTORS.index("[[sector]]")]
ISING = """
lattice.shape = [2, 3]
ansatz.D = 2
hamiltonian.model = "tfim"
"""


def expanded(average: dict[str, Any], text: str = ISING) -> Series:
    return AVERAGE.expand(tomllib.loads(text) | {"average": average}, "study")


def row(name: str, energy: float, error: float = 0.1, exact: float | None = None) -> ScanRow:
    numbers = {"variance": 1.0, "v_score": 1e-3, "steps": 3, "n_samples": 100, "n_sites": 2}
    return ScanRow(
        name=name, value=0, energy=energy, energy_error=error, units="S.S",
        exact_energy_per_site=exact, exact_method=exact and "exact", **numbers,
    )  # fmt: skip


def test_each_run_lists_the_numbers_of_its_seed() -> None:
    asked = {"runs": 3, "random": {"J": [0.5, 1.5], "h": [2, 3]}}
    runs = [each.as_dict()["hamiltonian"] for each in expanded(asked).runs.values()]
    bonds, fields = (np.array([each[key] for each in runs]) for key in ("J", "h"))
    assert bonds.shape == (3, 7) and fields.shape == (3, 6)
    assert 0.5 <= bonds.min() < bonds.max() <= 1.5 and 2 <= fields.min() < fields.max() <= 3
    assert len(np.unique(bonds)) == 21 and len(np.unique(fields)) == 18
    again = expanded(asked | {"runs": 2, "random": {"J": [0.5, 1.5]}})
    for run, before in zip(again.runs.values(), runs, strict=False):
        assert run.as_dict()["hamiltonian"]["J"] == before["J"]
        assert run.as_dict()["hamiltonian"]["h"] == 1.0
    assert [run.run.seed for run in again.runs.values()] == [0, 1]


def test_the_numbers_are_evenly_distributed() -> None:
    """Their means: 0 and 1/12 within five errors of 7 x 1000 numbers."""
    runs = expanded({"runs": 1000, "random": {"J": [-0.5, 0.5]}}).runs.values()
    drawn = np.array([run.as_dict()["hamiltonian"]["J"] for run in runs])
    assert abs(drawn.mean()) < 5 * np.sqrt(1 / 12 / drawn.size)
    assert abs((drawn**2).mean() - 1 / 12) < 5 * np.sqrt(1 / 180 / drawn.size)


@pytest.mark.parametrize(("bonds", "n"), [('bonds = "nearest"', 7), ("sites = 'all'", 6)])
def test_terms_of_ones_own_are_random_too(bonds: str, n: int) -> None:
    ops = "X X" if "bonds" in bonds else "X"
    text = ISING.replace("tfim", "terms") + (
        f'[[hamiltonian.term]]\nops = "Z Z"\nbonds = "nearest"\n[[hamiltonian.term]]\nops = "{ops}"\n{bonds}\n'
    )
    series = expanded({"runs": 2, "random": {"term.2.coupling": [1, 2]}}, text)
    terms = [run.as_dict()["hamiltonian"]["term"] for run in series.runs.values()]
    assert [np.shape(each[1]["coupling"]) for each in terms] == [(n,), (n,)]
    assert [each[0]["coupling"] for each in terms] == [1.0, 1.0]
    assert len({build_operator(run).terms[-1].matrix[0, -1] for run in series.runs.values()}) == 2


@pytest.mark.parametrize(
    ("average", "key"),
    [
        ({"runs": 1}, "average.runs"),
        ({}, "average.runs"),
        ({"runs": 2, "random": {"V": [0, 1]}}, "average.random.V"),
        ({"runs": 2, "random": {"model": [0, 1]}}, "average.random.model"),
        ({"runs": 2, "random": {"term.1.coupling": [0, 1]}}, "average.random.term.1.coupling"),
        ({"runs": 2, "random": {"J": [1]}}, "average.random"),
        ({"runs": 2, "observables": ["n"]}, "average.observables"),
    ],
)
def test_what_cannot_be_averaged_is_refused(average: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError) as raised:
        expanded(average)
    assert [each.key for each in raised.value.problems] == [key]


@pytest.mark.parametrize("section", ["run.starts = 2", "[[stage]]\nD = 2", "[[sector]]\nsteps = 1"])
def test_other_kinds_of_several_runs_do_not_go_with_it(section: str) -> None:
    with pytest.raises(ConfigError, match=r"\[average\]"):
        expanded({"runs": 2}, ISING + section)


def test_the_error_of_the_mean_is_that_over_runs() -> None:
    """Energies 1, 2, 6: mean 3, variance 7, error sqrt(7 / 3) and 1.6 of it for so few; of two
    it was the plain one, and half of the means of two runs were off by more than two errors."""
    mean = mean_of([row("a", 1.0, exact=0.4), row("b", 2.0, exact=1.1), row("c", 6.0, exact=2.9)])
    assert mean.energy == 3 and mean.energy_error == pytest.approx(1.6 * np.sqrt(7 / 3))
    assert mean.sampling_error == pytest.approx(0.1 / np.sqrt(3))
    assert mean.exact_energy_per_site == pytest.approx(4.4 / 3) and mean.exact_method == "exact"
    assert mean.off == pytest.approx((3 / 2 - 4.4 / 3) / (0.1 / np.sqrt(3) / 2))
    some = mean_of([row("a", 1.0, exact=0.4), row("b", 2.0)])
    assert some.energy_error == pytest.approx(3.7 / 2)
    assert some.exact_energy_per_site is None and some.off is None


@pytest.mark.parametrize(
    ("random", "energies", "codes"),
    [
        ({}, [1.0, 1.1, 0.9], ["averaged"]),
        ({}, [1.0, 1.1, 2.9], ["averaged", "runs_differ"]),
        ({"J": [0.5, 1.5]}, [1.0, 1.1, 2.9], ["averaged"]),
        ({}, [1.0, 1.1], ["averaged", "runs_missing"]),
        ({}, [1.0], []),
    ],
)
def test_scatter_beyond_the_errors_is_told(
    random: dict[str, Any], energies: list[float], codes: list[str]
) -> None:
    series = expanded({"runs": 3, "random": random})
    rows = tuple(row(f"seed={k}", energy) for k, energy in enumerate(energies))
    table = AverageKind().table(series, rows, (), {})
    assert [found.code for found in table.diagnostics] == codes
    assert (table.mean is None) == (len(rows) == 1)
    assert ("J" in table.about["hamiltonian"]) != bool(random)


def test_energies_without_errors_are_not_weighed_by_them() -> None:
    rows = tuple(row(f"seed={k}", 1 + 1e-9 * k, 0.0) for k in range(3))
    table = AverageKind().table(expanded({"runs": 3}), rows, (), {})
    assert [found.code for found in table.diagnostics] == ["averaged"]
    table = AverageKind().table(expanded({"runs": 4}), (*rows, row("seed=3", 2.0)), (), {})
    assert [found.code for found in table.diagnostics] == ["averaged", "runs_differ"]


@pytest.mark.parametrize("change", ["average.runs=2", "run.seed=1"])
def test_no_run_that_was_made_is_left_out(change: str, tmp_path: Path) -> None:
    file, out = tmp_path / "a.toml", str(tmp_path / "out")
    file.write_text(ISING + "[optimizer]\nsteps = 1\n[average]\nruns = 3\n")
    assert main(["run", str(file), "--out", out, "--set", "measure.n_samples=128"]) == 0
    assert main(["run", "--resume", out, "--set", change]) == 2
    assert json.loads((tmp_path / "out" / "average.json").read_text())["values"] == [0, 1, 2]


def test_the_errors_cover_as_often_as_they_should() -> None:
    """Of 1000 averages of ten: 68 and 95 % of samples, Student's 66 and 92 % of runs, within 4
    standard deviations of such fractions (0.06 and 0.034).
    """
    random = np.random.default_rng(3)
    over, alone = [], []
    for _ in range(1000):
        exact = random.uniform(-1, 1, 10)
        found = exact + 0.1 * random.normal(size=10)
        mean = mean_of([row("a", e, 0.1, x / 2) for e, x in zip(found, exact, strict=True)])
        over.append(abs(mean.energy) / mean.energy_error)
        alone.append(abs(mean.off or 0.0))
    for off, one, two in ((over, 0.657, 0.923), (alone, 0.683, 0.954)):
        assert abs(np.mean(np.array(off) < 1) - one) < 0.06
        assert abs(np.mean(np.array(off) < 2) - two) < 0.034
