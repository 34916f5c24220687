"""The history that `VMC.run` gives: a list, with columns, a table and per-site values."""

from __future__ import annotations

import copy
import pickle
import sys
from dataclasses import replace
from types import ModuleType

import numpy as np
import pytest

from tnvmc.ansatz.mps import MPS
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.lattice.grids import chain, square
from tnvmc.operators.models import heisenberg
from tnvmc.sampling.enumerate import Enumerate
from tnvmc.session.vmc import VMC
from tnvmc.vmc.history import History
from tnvmc.vmc.results import StepRecord

N = 4


def record(step: int, energy: float = -6.0, undone: bool = False) -> StepRecord:
    return StepRecord(
        step, energy, 0.02, 0.5, 1.0, 1.01, 0.4, None, 0.05, 0.2, undone, (), {}, seconds=0.1
    )


@pytest.fixture
def history() -> History:
    steps = [record(n, -6.0 - 0.01 * n, undone=n == 3) for n in range(20)]
    return History(steps, N, "S.S")


def test_it_is_a_list(history: History) -> None:
    assert isinstance(history, list) and len(history) == 20
    assert history == list(history)
    part = history[5:8]
    assert isinstance(part, History) and part.n_sites == N
    assert [found.step for found in part] == [5, 6, 7]
    both = history[:2] + history[2:]
    assert isinstance(both, History) and both == history
    assert type([] + list(history)) is list
    assert type(history + [record(20)]) is list
    for other in (copy.copy(history), copy.deepcopy(history), pickle.loads(pickle.dumps(history))):
        assert other == history and other.n_sites == N


def test_histories_of_two_hamiltonians_are_not_joined(history: History) -> None:
    with pytest.raises(ValueError, match="4 sites"):
        history + History(list(history), 9, "S.S")


def test_columns_hold_totals_and_values_per_site(history: History) -> None:
    columns = history.columns
    assert np.array_equal(columns["energy"], [found.energy for found in history])
    assert np.array_equal(columns["energy_per_site"], columns["energy"] / N)
    assert np.array_equal(columns["energy_per_site_error"], columns["energy_error"] / N)
    assert columns["undone"].dtype == bool and columns["undone"].sum() == 1
    assert columns["step"].tolist() == list(range(20))
    assert np.isnan(columns["closure_spread"]).all()
    with pytest.raises(KeyError, match="energy_per_site"):
        history.column("energie")
    assert all(len(column) == 0 for column in history[:0].columns.values())


def test_lines_of_a_file_are_read_back(history: History) -> None:
    history[4] = replace(
        record(4), energy=float("nan"), diagnostics=(Diagnostic("energy_jump", "warning"),)
    )
    lines = [{**found.as_dict(), "stage": 1 + found.step // 10} for found in history]
    found = History.from_lines(lines, N, "S.S")
    assert np.isnan(found[4].energy) and found[4].diagnostics == history[4].diagnostics
    assert found[5:] == history[5:]
    assert found.column("stage").tolist() == [1] * 10 + [2] * 10
    assert found[12:].column("stage").tolist() == [2] * 8
    assert np.isnan((found[:1] + history[1:])[0].energy) is np.False_
    with pytest.raises(KeyError):
        History.from_lines([{"step": 0}], N, "S.S")


def test_it_shows_itself(history: History) -> None:
    history[19] = record(19, 1e5, undone=True)  # the last step is not where the run stands
    text = repr(history)
    assert str(history) == text and len(text) < 120
    assert "20 steps, 2 undone" in text and "-1.5450(50)" in text
    html = history._repr_html_()
    assert html.count("<tr>") == 12 and "-6.180(20)" in html and "-1.5450(50)" in html
    assert repr(history[:0])


def test_a_run_gives_one() -> None:
    hamiltonian = heisenberg(chain(N))
    vmc = VMC(hamiltonian, MPS(hamiltonian.lattice, D=2), Enumerate())
    history = vmc.run(2)
    assert isinstance(history, History) and history.n_sites == N
    assert history.units == hamiltonian.units
    found = vmc.measure()
    html = found._repr_html_()
    for name in ("energy", "energy_per_site", "v_score"):
        assert f"<td>{name}</td>" in html
    assert f"{found.energy_per_site:.8f}" in repr(found)
    assert f"{found.energy_per_site:.8f}" in str(found)


def test_an_expectation_has_total_and_value_per_site() -> None:
    hamiltonian = heisenberg(chain(N))
    vmc = VMC(hamiltonian, MPS(hamiltonian.lattice, D=2), Enumerate())
    found, energy = vmc.expect(hamiltonian), vmc.measure().energy
    assert found.mean == pytest.approx(energy, rel=1e-12)
    assert found.mean_per_site == found.mean / N and found.error_per_site == 0
    assert f"per site {found.mean_per_site:.8f}" in repr(found) and "per site" in str(found)
    html = found._repr_html_()
    assert "<td>mean</td>" in html and "<td>mean_per_site</td>" in html


def test_a_data_frame_has_a_row_for_each_step(
    history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    pandas = ModuleType("pandas")
    pandas.DataFrame = dict  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    frame = history.to_dataframe()
    assert set(frame) == set(history.columns)
    assert {len(column) for column in frame.values()} == {len(history)}
    scan = VMC(heisenberg(square(2, 2)), PEPS(square(2, 2), D=2), Enumerate()).converge(
        (1, 2), double_layer=False
    )
    assert [point.chi for point in scan.points] == [1, 2]
    for shown in (repr(scan), scan._repr_html_()):
        assert f"{scan.points[-1].energy / 4:.8f}" in shown
