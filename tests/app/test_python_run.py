"""Runs from Python in a folder: the files of the command line, for all that read them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tnvmc import (
    MPS,
    PEPS,
    SR,
    SRC,
    VMC,
    Adam,
    Cosine,
    DirectSampler,
    Enumerate,
    Exact,
    FolderError,
    GenericAnsatz,
    LogAmplitude,
    Operator,
    ProductState,
    Sampler,
    chain,
    from_bonds,
    heisenberg,
    kagome,
    load_run,
    rydberg,
    square,
    tfim,
    xxz,
)
from tnvmc.app import recording
from tnvmc.app.cli import main
from tnvmc.app.run import resume_run, run_file
from tnvmc.optimize.solve import Eigen
from tnvmc.settings.described import described
from tnvmc.storage.run_files import read_run
from tnvmc.storage.run_folder import FolderInUse
from tnvmc.vmc.measurement import MeasurementPlan, measure

H = heisenberg(square(2, 3))
FEW = Sampler(n_walkers=8, n_samples=16, threads=1)
FREE = ("seconds", "compile_seconds", "run_id", "check")  # of a line: what two equal runs differ in


def made(**changes: Any) -> VMC:
    return VMC(H, PEPS(H.lattice, 2), FEW, **{"seed": 3, **changes})


def lines(path: Path) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in (path / "history.jsonl").read_text().splitlines()]
    return [{key: value for key, value in line.items() if key not in FREE} for line in found]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two calls, measured."""
    path = tmp_path_factory.mktemp("runs") / "mine"
    vmc = made()
    vmc.run(3, out=path)
    vmc.run(2, out=path)
    vmc.measure(n_samples=64, chi=8, out=path)
    return path


@pytest.mark.whole
def test_the_command_line_repeats_the_run_bit_for_bit(kept: Path, tmp_path: Path) -> None:
    shutil.copy(kept / "config.toml", tmp_path / "again.toml")
    result = run_file(tmp_path / "again.toml", tmp_path / "again")
    assert lines(tmp_path / "again") == lines(kept)
    own = read_run(kept).result
    assert own is not None
    for key in ("energy", "energy_error", "variance", "chi", "steps", "stopped", "exact_energy"):
        assert own.get(key) == result.get(key)
    assert own["convergence"]["chi"] == result["convergence"]["chi"]
    assert not read_run(kept).damage


@pytest.mark.whole
@pytest.mark.usefixtures("page_without_pictures")
def test_all_commands_read_the_folder(
    kept: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "copy"
    shutil.copytree(kept, path)
    for command in (["show"], ["report"], ["plot", "--format", "png"], ["measure"]):
        assert main([command[0], str(path), *command[1:]]) == 0
    assert {"report.html", "pictures", "observables.json"} <= {p.name for p in path.iterdir()}
    run = load_run(path)
    assert run.finished
    assert run.vmc.measure(n_samples=64, chi=8).energy == run.result["energy"]  # type: ignore[index]
    capsys.readouterr()


@pytest.mark.whole
def test_it_goes_on_in_python_and_on_the_command_line_alike(kept: Path, tmp_path: Path) -> None:
    for name in ("one", "other", "third"):
        shutil.copytree(kept, tmp_path / name)
    load_run(tmp_path / "one").vmc.run(2, out=tmp_path / "one")
    resume_run(tmp_path / "other", ["optimizer.steps=7"])
    again = made()
    again.restore(tmp_path / "third" / "checkpoint.h5")
    again.run(2, out=tmp_path / "third")
    assert len(lines(tmp_path / "one")) == 7
    assert lines(tmp_path / "one") == lines(tmp_path / "other") == lines(tmp_path / "third")
    assert load_run(tmp_path / "one").settings.optimizer.steps == 7  # type: ignore[union-attr]


@pytest.mark.whole
def test_another_run_is_never_overwritten(kept: Path, tmp_path: Path) -> None:
    before = {file.name: file.read_bytes() for file in kept.iterdir() if file.is_file()}
    moved_on = made()
    moved_on.run(1)
    other_numbers = made(seed=4)
    other_numbers.run(5)
    wrong = [made(), moved_on, other_numbers, VMC(H, PEPS(H.lattice, 3), FEW)]
    for vmc in wrong:
        with pytest.raises(FolderError, match="choose another out="):
            vmc.run(1, out=kept)
        with pytest.raises(FolderError):
            vmc.measure(16, out=kept)
    restored = made()
    restored.restore(kept / "checkpoint.h5")
    with pytest.raises(FolderError, match="records"):
        restored.run(1, out=tmp_path / "new")
    (tmp_path / "file").write_text("text")
    with pytest.raises(FolderError, match="no folder"):
        made().run(1, out=tmp_path / "file")
    with pytest.raises(FolderError, match="keep its steps first"):
        made().measure(16, out=tmp_path / "nothing")
    with pytest.raises(ValueError, match="sampler="):
        made().measure(16, sampler=FEW, out=kept)
    assert before == {file.name: file.read_bytes() for file in kept.iterdir() if file.is_file()}


@pytest.mark.whole
def test_what_another_process_adds_meanwhile_stays(kept: Path, tmp_path: Path) -> None:
    path = tmp_path / "run"
    shutil.copytree(kept, path)
    slow, other = load_run(path).vmc, load_run(path).vmc
    before = (path / "result.json").read_bytes()
    plan = MeasurementPlan(16)
    with recording.recorded_result(slow, path, plan) as keep:
        found = measure(slow.method, slow.state, plan)
        other.run(1, out=path)
        with pytest.raises(FolderInUse):
            keep(found)
    assert len(lines(path)) == 6
    assert (path / "result.json").read_bytes() == before
    with recording.recorded_steps(other, path, 1), pytest.raises(FolderInUse):
        other.run(1, out=path)


@pytest.mark.whole
def test_steps_before_an_exception_are_kept(tmp_path: Path) -> None:
    def stumble(record: Any) -> None:
        if record.step == 2:
            raise RuntimeError("of the user")

    vmc = made()
    with pytest.raises(RuntimeError, match="of the user"):
        vmc.run(5, stumble, out=tmp_path / "run")
    assert len(lines(tmp_path / "run")) == 3
    assert load_run(tmp_path / "run").vmc.state.step == 3
    vmc.run(2, out=tmp_path / "run")
    straight = made()
    straight.run(5, out=tmp_path / "straight")
    assert lines(tmp_path / "run") == lines(tmp_path / "straight")


@pytest.mark.whole
def test_what_no_object_tells_stays_in_the_file(kept: Path, tmp_path: Path) -> None:
    shutil.copy(kept / "config.toml", tmp_path / "again.toml")
    path = tmp_path / "run"
    changes = ["ansatz.init=random", "optimizer.plateau=9", "optimizer.steps=2"]
    run_file(tmp_path / "again.toml", path, changes)
    vmc = load_run(path).vmc
    vmc.run(1, out=path)
    vmc.measure(16, out=path)
    settings = load_run(path).settings
    assert settings is not None
    assert (settings.ansatz.init, settings.optimizer.plateau) == ("random", 9)
    assert (settings.optimizer.steps, settings.measure.n_samples) == (3, 16)


@pytest.mark.whole
def test_a_folder_that_comes_later_gets_the_steps_before(tmp_path: Path) -> None:
    theta = np.random.Generator(np.random.PCG64(0)).normal(size=PEPS(H.lattice, 2).n_params)
    vmc = made(theta=theta)
    vmc.run(2)
    vmc.run(1, out=tmp_path / "late")
    vmc.run(0, out=tmp_path / "twice")
    made(theta=theta).run(3, out=tmp_path / "early")
    assert lines(tmp_path / "late") == lines(tmp_path / "early") == lines(tmp_path / "twice")
    run_file(tmp_path / "late" / "config.toml", tmp_path / "again")
    assert lines(tmp_path / "again") == lines(tmp_path / "late")
    assert not read_run(tmp_path / "late").damage


def test_the_parameters_of_the_start_are_kept(tmp_path: Path) -> None:
    theta = np.random.Generator(np.random.PCG64(0)).normal(size=PEPS(H.lattice, 2).n_params)
    made(theta=theta).run(2, out=tmp_path / "run")
    run_file(tmp_path / "run" / "config.toml", tmp_path / "again")
    assert lines(tmp_path / "run") == lines(tmp_path / "again")


class Own(GenericAnsatz):
    """An ansatz of one's own: a product of equal factors."""

    def log_amplitude(self, theta: Any, configs: Any) -> LogAmplitude:
        logs = np.where(configs == 0, theta[0], theta[1]).sum(axis=1)
        return LogAmplitude(np.ones(len(configs)), logs)

    def random(self, seed: int = 0) -> Any:
        return np.random.Generator(np.random.PCG64(seed)).normal(size=2)


@pytest.mark.whole
@pytest.mark.usefixtures("page_without_pictures")
def test_a_run_with_parts_of_ones_own_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "own"
    operator = Operator.from_products(H.lattice, [("Sz Sz", (0, 1)), ("Sx", (2,))], units="S")

    def again() -> VMC:
        return VMC(operator, Own(H.lattice), FEW, learning_rate=0.05)

    vmc = again()
    vmc.run(3, out=path)
    vmc.measure(64, out=path)
    run = load_run(path)
    assert set(run.own) >= {"hamiltonian", "ansatz"}
    assert run.settings is None
    assert run.result is not None
    assert (len(run.history), run.history.n_sites, run.history.units) == (3, 6, "S")
    assert "Own" in repr(run)
    run.plot()
    with pytest.raises(FolderError, match=r"vmc\.restore"):
        _ = run.vmc
    for command in ("show", "plot", "report"):
        assert main([command, str(path)]) == 0
    capsys.readouterr()
    for refused in (
        ["measure", str(path)],
        ["converge", str(path)],
        ["run", "--resume", str(path)],
    ):
        assert main(refused) == 2
        told = capsys.readouterr().err.strip()
        assert "vmc.restore" in told
        assert "\n" not in told
    restored = again()
    restored.restore(path / "checkpoint.h5")
    restored.run(1, out=path)
    assert len(lines(path)) == 4


HOLE = from_bonds((2, 3), [(0, 1), (2, 3), (0, 2), (1, 3)], vacant=[2, 5])
PLACED = from_bonds((2, 2), [(0, 1), (1, 3), (3, 2)], [(0, 1), (2, 1), (0, 0), (2, 0)])
DISORDER = np.random.Generator(np.random.PCG64(7)).normal(size=7)

RINGS = square(2, 3, "cylinder")

DESCRIBED: dict[str, Callable[[], VMC]] = {
    "zip-up": lambda: VMC(H, PEPS(H.lattice, 2, scheme=Exact()), FEW),
    "chi": lambda: VMC(H, PEPS(H.lattice, 2, scheme=SRC(6)), FEW),
    "complex": lambda: VMC(H, PEPS(H.lattice, 2, "complex128"), FEW),
    "periodic bonds": lambda: VMC(
        heisenberg(RINGS), PEPS(RINGS, 2, bonds="periodic"), FEW, learning_rate=0.1
    ),
    "product": lambda: VMC(H, ProductState(H.lattice), FEW, Adam(), learning_rate=0.01),
    "MPS": lambda: VMC(tfim(chain(6), h=0.5), MPS(chain(6), 2), FEW, SR(memory=0.5)),
    "ring": lambda: VMC(tfim(chain(6, "periodic")), MPS(chain(6, "periodic"), 2), FEW),
    "direct": lambda: VMC(H, PEPS(H.lattice, 2), DirectSampler(16, threads=1)),
    "all": lambda: VMC(H, PEPS(H.lattice, 2), Enumerate(threads=1), SR(memory=0.0)),
    "constant": lambda: made(learning_rate=0.1),
    "cosine": lambda: made(learning_rate=Cosine(0.1, 0.01, 5)),
    "sector": lambda: made(magnetisation=2),
    "kinds": lambda: VMC(
        heisenberg(from_bonds((2, 2), {"nearest": [(1, 0), (1, 2), (2, 3)], "far": [(0, 3)]})),
        PEPS(square(2, 2), 2),
        FEW,
    ),
    "vacant": lambda: VMC(heisenberg(HOLE), PEPS(HOLE, 2), FEW),
    "kagome": lambda: VMC(heisenberg(kagome(3, 3)), PEPS(kagome(3, 3), 2), FEW),
    "places": lambda: VMC(heisenberg(PLACED), PEPS(PLACED, 2), FEW),
    "bonds": lambda: VMC(heisenberg(H.lattice, DISORDER), PEPS(H.lattice, 2), FEW),
    "xxz": lambda: VMC(xxz(H.lattice, DISORDER, 0.3), PEPS(H.lattice, 2), FEW),
    "fields": lambda: VMC(tfim(H.lattice, 1.0, DISORDER[:6]), PEPS(H.lattice, 2), FEW),
    "atoms": lambda: VMC(rydberg(H.lattice, 7.0, DISORDER[:6]), PEPS(H.lattice, 2), FEW),
}
OWN: dict[str, tuple[Callable[[], VMC], list[str]]] = {
    "scheme": (lambda: VMC(H, PEPS(H.lattice, 2, scheme=SRC(4, seed=2)), FEW), ["ansatz"]),
    "solver": (lambda: VMC(H, PEPS(H.lattice, 2), FEW, SR(solver=Eigen())), ["optimizer"]),
    "function": (lambda: made(learning_rate=lambda step: 0.1), ["learning_rate"]),
    "shorter": (lambda: made(learning_rate=Cosine(0.1, 0.01, 4)), ["learning_rate"]),
    "walkers": (lambda: made(configs=made().state.here.configs), ["configs"]),
    "moves": (lambda: made(moves=["exchanges"]), ["moves"]),
    "limit": (lambda: VMC(H, PEPS(H.lattice, 2, scheme=SRC(7)), FEW, chi="auto"), ["ansatz"]),
    "sum": (lambda: VMC(H + H, PEPS(H.lattice, 2), FEW), ["hamiltonian"]),
}


@pytest.mark.whole
@pytest.mark.parametrize("name", DESCRIBED)
def test_what_settings_can_say_is_said(name: str) -> None:
    assert "python" not in described(DESCRIBED[name](), "runs/x", 5)


@pytest.mark.whole
def test_couplings_of_each_place_come_out_to_the_last_bit() -> None:
    found = described(DESCRIBED["bonds"](), "runs/x", 5)["hamiltonian"]
    assert found["J"] == DISORDER.tolist()
    found = described(DESCRIBED["atoms"](), "runs/x", 5)["hamiltonian"]
    assert (found["V"], found["delta"], found["Omega"]) == (7.0, DISORDER[:6].tolist(), 1.0)


@pytest.mark.whole
@pytest.mark.parametrize("name", OWN)
def test_what_settings_cannot_say_is_named(name: str) -> None:
    make, own = OWN[name]
    vmc = make()
    found = described(vmc, "runs/x", 5)["python"]
    assert found["own"] == own
    assert (found["n_sites"], found["units"]) == (vmc.operator.n_sites, "S.S")
