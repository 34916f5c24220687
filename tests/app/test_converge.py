"""Energies at several chi on the same configurations, extrapolations, and ``tnvmc converge``."""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.oracles import all_configs
from tnvmc.analysis.convergence import ladder_chis
from tnvmc.analysis.diagnostics import diagnostics_of
from tnvmc.ansatz.mps import PeriodicMPS
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.app.cli import main
from tnvmc.contraction.schemes import SRC
from tnvmc.estimate.local import local_energy
from tnvmc.lattice import chain, square
from tnvmc.operators.basis import Basis
from tnvmc.operators.models import heisenberg
from tnvmc.operators.sparse import sparse_matrix
from tnvmc.report.texts import line
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.enumerate import Enumerate
from tnvmc.sampling.snapshots import measure_configs
from tnvmc.vmc.driver import VMC

OPERATOR = heisenberg(square(3, 4))
UNCUT = 9  # two rows of D = 3 lie above the last one
SIGMAS = 4.0
ROUNDING = 1e-11


def peps(chi: int = 2) -> PEPS:
    return PEPS(OPERATOR.lattice, D=3, scheme=SRC(chi))


def parameters() -> np.ndarray:
    """Tensors without structure: chi = 2 cuts them hard."""
    rng = np.random.default_rng(8)
    return 1.0 + 0.6 * rng.normal(size=peps().n_params)


def study(sampler: Any, chi: int = 2) -> VMC:
    return VMC(OPERATOR, peps(chi), sampler, theta=parameters(), seed=3)


@cache
def truncated(chi: int) -> tuple[np.ndarray, np.ndarray]:
    """Amplitudes (up to a factor) and local energies at one chi, of every configuration."""
    ansatz, configs = peps(chi), all_configs(12, magnetisation=0)
    walkers = ansatz.start(parameters(), configs)
    _, snapshot = ansatz.measure(parameters(), walkers, OPERATOR.targets, jacobian=False)
    log_abs = snapshot.amplitude.log_abs
    psi = snapshot.amplitude.phase * np.exp(log_abs - log_abs.max())
    return psi, local_energy(OPERATOR, snapshot)


def exact_energy(chi: int) -> float:
    psi, local = truncated(chi)
    return float(psi**2 @ local / (psi @ psi))


def test_enumerated_rungs_are_exact_expectations_of_the_truncated_amplitudes() -> None:
    ladder = study(Enumerate(threads=1)).converge((2, 3, UNCUT))
    assert [rung.chi for rung in ladder.rungs] == [2, 3, UNCUT]
    for rung in ladder.rungs:
        assert rung.energy == pytest.approx(exact_energy(rung.chi), abs=ROUNDING)
        assert rung.difference == pytest.approx(
            exact_energy(rung.chi) - exact_energy(UNCUT), abs=ROUNDING
        )
        assert (rung.energy_error, rung.difference_error) == (0, 0)
    psi, _ = truncated(UNCUT)
    whole = float(psi @ (sparse_matrix(OPERATOR, Basis(12, 2, 0)) @ psi) / (psi @ psi))
    assert ladder.rungs[-1].energy == pytest.approx(whole, abs=ROUNDING)
    assert abs(ladder.rungs[0].difference) > 1e-4  # else nothing was tested
    assert f"chi {UNCUT:>4}" in str(ladder)


def test_drawn_at_one_chi_the_energies_at_others_are_right_within_errors() -> None:
    sampler = Sampler(n_walkers=64, n_samples=64, threads=1)
    measured = study(sampler).measure(n_samples=2048, chi=3, chis=(2, 5, UNCUT))
    ladder = measured.ladder
    assert ladder is not None
    assert [rung.chi for rung in ladder.rungs] == [2, 3, 5, UNCUT]
    assert (ladder.drawn_at, ladder.n_samples) == (3, 512)
    for rung in ladder.rungs:
        assert abs(rung.energy - exact_energy(rung.chi)) < SIGMAS * rung.energy_error
        gap = exact_energy(rung.chi) - exact_energy(UNCUT)
        # Where two rungs agree to all digits the error is 0, and so must the gap be.
        assert abs(rung.difference - gap) <= SIGMAS * rung.difference_error + ROUNDING
        assert rung.difference_error < rung.energy_error
        assert 1 < rung.effective_samples <= ladder.n_samples * (1 + ROUNDING)


def test_the_ladder_does_not_touch_the_measurement() -> None:
    vmc = study(Sampler(n_walkers=16, n_samples=64, threads=1))
    alone, measured = vmc.measure(chi=3), vmc.measure(chi=3, chis=(2,))
    assert alone.ladder is None
    assert measured.ladder is not None
    assert (alone.energy, alone.closure_spread) == (measured.energy, measured.closure_spread)
    assert measured.ladder.n_samples == 64  # few: all of them
    assert measured.ladder.rungs[-1].energy == pytest.approx(measured.energy, abs=ROUNDING)
    assert "ladder" not in measured.as_dict()


def test_the_same_configurations_tell_a_difference_that_others_do_not() -> None:
    """4x4, D = 3: E(4) - E(9) has under a tenth of the error of two measurements as long."""
    operator = heisenberg(square(4, 4))
    ansatz = PEPS(operator.lattice, D=3, scheme=SRC(4))
    vmc = VMC(operator, ansatz, Sampler(64, 128, threads=1), seed=1)
    low, high = vmc.converge((4, 9), n_samples=256, n_burn=2).rungs
    apart = math.hypot(low.energy_error, high.energy_error)
    assert 0 < low.difference_error < 0.1 * apart
    assert (high.difference, high.difference_error) == (0, 0)


def test_revisited_configurations_are_measured_in_their_order() -> None:
    configs = all_configs(12, magnetisation=0)[:101]
    snapshot = measure_configs(peps(3), parameters(), configs, OPERATOR.targets, threads=1)
    assert np.array_equal(snapshot.configs, configs)
    assert snapshot.amplitude.log_abs == pytest.approx(
        peps(3).measure(parameters(), peps(3).start(parameters(), configs), {})[1].amplitude.log_abs
    )


def test_rungs_that_cannot_be() -> None:
    vmc = study(Enumerate())
    assert ladder_chis(vmc.ansatz) == (2, 3, 4)
    with pytest.raises(ValueError, match="two different"):
        vmc.converge((4, 4))
    with pytest.raises(ValueError, match="1 or larger"):
        vmc.converge((0, 4))
    ring = heisenberg(chain(4, "periodic"))
    without = VMC(ring, PeriodicMPS(ring.lattice, D=2), theta=np.ones(32))
    assert ladder_chis(without.ansatz) == ()
    with pytest.raises(ValueError, match="no chi to converge in"):
        without.converge((4, 8))


SETTINGS = """
[lattice]
shape = [3, 2]
[hamiltonian]
model = "heisenberg"
[ansatz]
D = 2
[contraction]
chi = 2
[sampler]
n_walkers = 8
n_samples = 16
[optimizer]
steps = 2
[measure]
n_samples = 64
[run]
threads = 1
"""


def result_of(folder: str) -> dict[str, Any]:
    return json.loads((Path(folder) / "result.json").read_text())


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 2
    error = capsys.readouterr().err
    assert error.startswith("tnvmc: ")
    assert error.count("\n") == 1
    return error


def test_a_run_has_a_ladder_and_converge_replaces_it_and_nothing_else(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", str(file), "--out", "r"]) == 0
    assert "chi 2" in capsys.readouterr().out
    before = result_of("r")
    history = Path("r/history.jsonl").read_bytes()
    assert [rung["chi"] for rung in before["convergence"]["chi"]] == [2, 3, 4]
    assert set(before["convergence"]) == {
        "chi", "variance", "bond_dimension", "diagnostics",
    }  # fmt: skip
    assert main(["converge", "r", "--chi", "2", "--chi", "6", "--n-samples", "32"]) == 0
    shown = capsys.readouterr().out
    after = result_of("r")
    assert "32 samples drawn at chi 6" in shown
    assert [rung["chi"] for rung in after["convergence"]["chi"]] == [2, 4, 6]
    for diagnostic in diagnostics_of(after):
        assert line(diagnostic) in shown
    assert {**after, "convergence": 0} == {**before, "convergence": 0}
    assert Path("r/history.jsonl").read_bytes() == history
    assert main(["converge", "r"]) == 0
    assert [rung["chi"] for rung in result_of("r")["convergence"]["chi"]] == [2, 3, 4]


def test_a_run_without_a_ladder(file: Path) -> None:
    assert main(["run", str(file), "--out", "r", "--set", "measure.ladder=false"]) == 0
    assert result_of("r")["convergence"]["chi"] == []


def test_folders_that_cannot_converge(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no such folder" in complaint(capsys, "converge", "nowhere")
    assert "is a file" in complaint(capsys, "converge", str(file))
    Path("empty").mkdir()
    assert "holds no run" in complaint(capsys, "converge", "empty")
    assert main(["run", str(file), "--out", "r"]) == 0
    capsys.readouterr()
    content = Path("r/result.json").read_bytes()
    assert "1 or larger" in complaint(capsys, "converge", "r", "--chi", "0")
    assert "n_samples is 0" in complaint(capsys, "converge", "r", "--n-samples", "0")
    assert "two different" in complaint(capsys, "converge", "r", "--chi", "4")
    assert Path("r/result.json").read_bytes() == content
    Path("r/checkpoint.h5").rename("kept")
    assert "no such file" in complaint(capsys, "converge", "r")
    Path("r/result.json").write_text("[1")
    assert "damaged" in complaint(capsys, "converge", "r")
    Path("r/result.json").unlink()
    assert "tnvmc run --resume r" in complaint(capsys, "converge", "r")


def test_a_state_without_chi_cannot_converge_in_it(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ["run", str(file), "--out", "r", "--set", "contraction.scheme=exact"]
    assert main(run) == 0
    capsys.readouterr()
    assert "no chi to converge in" in complaint(capsys, "converge", "r", "--chi", "4")
