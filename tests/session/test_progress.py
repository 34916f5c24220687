"""Showing progress: what is shown, when nothing is, and that no number depends on it."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tnvmc import PEPS, VMC, DirectSampler, Sampler, heisenberg, square
from tnvmc.backend.progress import watched
from tnvmc.sampling.problem import Samples
from tnvmc.shown import templates
from tnvmc.vmc.results import StepRecord

OPERATOR = heisenberg(square(2, 3))
PEPS_2 = PEPS(OPERATOR.lattice, D=2)


class Terminal(io.StringIO):
    """What is written to a terminal."""

    def isatty(self) -> bool:
        return True


def study(sampler: Samples | None = None) -> VMC:
    return VMC(OPERATOR, PEPS_2, sampler or Sampler(16, 64, threads=1), learning_rate=0.1, seed=3)


def without_seconds(record: StepRecord) -> dict[str, Any]:
    return {name: value for name, value in record.as_dict().items() if "seconds" not in name}


@pytest.mark.whole
def test_no_number_depends_on_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    silent, shown, terminal = study(), study(), Terminal()
    records = silent.run(4)
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    told = shown.run(4, progress=True)
    assert [*map(without_seconds, records)] == [*map(without_seconds, told)]
    assert np.array_equal(silent.theta, shown.theta)
    assert np.array_equal(silent.state.here.configs, shown.state.here.configs)
    text = terminal.getvalue()
    assert all(part in text for part in ("4/4", "E/N", "var/N", "acc"))
    one, other = silent.measure(n_samples=128), shown.measure(n_samples=128, progress=True)
    assert (one.energy, one.energy_error) == (other.energy, other.energy_error)
    assert "0:00:0" in terminal.getvalue().removeprefix(text)


def test_expect_and_converge_show_what_measure_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    vmc = study()
    silent = vmc.expect(OPERATOR, 64), vmc.converge([2, 4], 64, double_layer=False)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    mean = vmc.expect(OPERATOR, 64, progress=True).mean
    assert templates()["phases"]["operator"] in terminal.getvalue()
    before = len(terminal.getvalue())
    found = vmc.converge([2, 4], 64, double_layer=False, progress=True)
    assert "0:00:0" in terminal.getvalue()[before:]
    assert (mean, found.as_dicts()) == (silent[0].mean, silent[1].as_dicts())


def test_nothing_is_shown_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    vmc = study()
    vmc.run(2, progress=True)
    vmc.measure(n_samples=64, progress=True)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_that_is_lost_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    vmc = study()
    vmc.run(3, lambda record: terminal.close(), progress=True)
    assert vmc.state.step == 3


@pytest.mark.whole
@pytest.mark.parametrize(
    "sampler",
    [
        Sampler(16, 256, threads=1, chunk=4),
        Sampler(16, 256, threads=2, chunk=4),
        DirectSampler(256, threads=2, chunk=32),
    ],
    ids=["one", "threads", "direct"],
)
def test_measurements_tell_how_far_they_are(sampler: Samples, tmp_path: Path) -> None:
    told: list[tuple[str, float]] = []
    vmc = study()
    vmc.run(1)
    before = vmc.measure(sampler=sampler)
    with watched(lambda phase, share: told.append((phase, share))):
        after = vmc.measure(sampler=sampler)
    assert before.energy == after.energy
    phases = dict.fromkeys(phase for phase, _ in told)
    assert {"last_update", "energy"} <= {*phases} <= {*templates()["phases"]}
    for each in phases:
        shares = [share for phase, share in told if phase == each]
        assert shares == sorted(shares)
        assert shares[0] == 0
        assert shares[-1] <= 1
