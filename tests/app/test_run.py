"""What a run that has begun cannot change: refused in one line, and nothing is written."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tnvmc import (
    MPS,
    PEPS,
    SR,
    VMC,
    Adam,
    GradientDescent,
    Sampler,
    Symmetrised,
    chain,
    heisenberg,
    j1j2,
    square,
    symmetry_group,
    tfim,
)
from tnvmc.app import command_line
from tnvmc.app.cli import main
from tnvmc.backend.arguments import ArgumentWarning
from tnvmc.storage.hdf5 import StateFileError

SETTINGS = """
lattice = { shape = [2, 2] }
hamiltonian = { model = "heisenberg" }
ansatz = { D = 2 }
sampler = { n_walkers = 8, n_samples = 8 }
optimizer = { steps = 1 }
measure = { n_samples = 8, n_burn = 1 }
run = { threads = 1 }
"""


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("begun")
    file = path / "study.toml"
    file.write_text(SETTINGS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert main(["run", str(file), "--out", str(path / "run")]) == 0
    return path / "run"


@pytest.mark.parametrize(
    "changes",
    [
        ["ansatz.D=3"],
        ["ansatz.kind=jastrow"],
        ["ansatz.dtype=complex128"],
        ["ansatz.sharing=true"],
        ['ansatz.symmetrise=["point"]'],
        ["ansatz.init=random"],
        ["hamiltonian.model=tfim"],
        ["hamiltonian.J=2"],
        ["lattice.shape=[2,3]"],
        ["lattice.boundary=cylinder"],
        ["lattice.kind=triangular"],
        ["optimizer.kind=adam"],
        ["optimizer.learning_rate=0.1"],
        ["sampler.kind=direct"],
        ["sampler.n_walkers=4"],
        ["sampler.magnetisation=2"],
        ["optimizer.steps=0"],
    ],
    ids=str,
)
def test_what_a_run_cannot_change_is_refused(
    begun: Path, tmp_path: Path, changes: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(begun, tmp_path / "run")
    before = contents(tmp_path)
    given = [part for each in changes for part in ("--set", each)]
    assert main(["run", "--resume", str(tmp_path / "run"), *given]) == 2
    out, err = capsys.readouterr()
    lines = [line for line in err.splitlines() if "counts once" not in line]  # of short rings
    assert out == "" and len(lines) == 1 and len(set(err.splitlines())) == err.count("\n")
    assert contents(tmp_path) == before


LATTICE = square(2, 2)


def made(**other: Any) -> VMC:
    operator = other.pop("operator", heisenberg(LATTICE))
    state = other.pop("state", None) or PEPS(operator.lattice, 2, sharing=None)
    return VMC(operator, state, other.pop("sampler", Sampler(8, 8)), **other)


PARTS: dict[str, Callable[[], VMC]] = {
    "D": lambda: made(state=PEPS(LATTICE, 3, sharing=None)),
    "kind": lambda: made(operator=heisenberg(chain(4)), state=MPS(chain(4), 2)),
    "symmetrised": lambda: made(
        state=Symmetrised(
            PEPS(LATTICE, 2, sharing=None), symmetry_group(heisenberg(LATTICE), ["point"])
        )
    ),
    "dtype": lambda: made(state=PEPS(LATTICE, 2, "complex128", sharing=None)),
    "model": lambda: made(operator=tfim(LATTICE)),
    "terms": lambda: made(operator=j1j2(LATTICE)),
    "coupling": lambda: made(operator=heisenberg(LATTICE, 2.0)),
    "lattice": lambda: made(operator=heisenberg(square(2, 3))),
    "optimizer": lambda: made(optimizer=Adam()),
    "descent": lambda: made(optimizer=GradientDescent(), learning_rate=0.1),
    "rate": lambda: made(learning_rate=0.1),
    "momentum": lambda: made(optimizer=SR(momentum=0.5), learning_rate=0.1),
    "walkers": lambda: made(sampler=Sampler(4, 8)),
    "sector": lambda: made(magnetisation=2),
}


@pytest.mark.parametrize("part", PARTS)
def test_a_state_of_another_run_is_refused_in_python(part: str, tmp_path: Path) -> None:
    """And what refuses stays as it was."""
    path = tmp_path / "state.h5"
    made().save(path)
    other = PARTS[part]()
    theta, step = other.theta.copy(), other.state.step
    with pytest.raises((StateFileError, ValueError)) as refused:
        other.restore(path)
    assert "\n" not in str(refused.value)
    assert (other.theta == theta).all() and other.state.step == step
    made().restore(path)


def test_a_warning_is_told_once_for_each_command() -> None:
    told = command_line.warning_line(ArgumentWarning("twice"), ArgumentWarning)
    again = command_line.warning_line(ArgumentWarning("twice"), ArgumentWarning)
    assert told.count("\n") == 1 and again == ""
    assert main(["settings"]) == 0
    assert command_line.warning_line(ArgumentWarning("twice"), ArgumentWarning) == told
