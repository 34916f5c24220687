"""`tnvmc measure`: observables.json against dense expectation values, and what bad input is told."""

from __future__ import annotations

import io
import sys
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import oracles
from tests.run_files import read_json
from tnvmc import plot
from tnvmc.app import run as session
from tnvmc.app.cli import main
from tnvmc.app.measure import Asked, measure_run
from tnvmc.operators.spin import kron, spin_matrices
from tnvmc.sampling.chains import Sampler
from tnvmc.session import observables
from tnvmc.shown import templates
from tnvmc.storage.hdf5 import read_parameters
from tnvmc.storage.run_files import read_run
from tnvmc.vmc.measurement import FRESH_BURN, collect

EXACT = 1e-10  # sums of a few hundred local values of order one
SX, SY, SZ = spin_matrices()
DOT = np.sum([kron(s, s) for s in (SX, SY, SZ)], axis=0).real

SETTINGS = """
[lattice]
shape = [{shape}]
[hamiltonian]
model = "{model}"
[ansatz]
D = 2
init = "random"
[contraction]
scheme = "exact"
[sampler]
{sampler}
[optimizer]
steps = 0
[measure]
n_samples = 64
[run]
threads = 1
"""
ENUMERATE = 'kind = "enumerate"'
CHAINS = "n_walkers = 64\nn_samples = 64"
BOTH_FLIPPED = """
name = "both flipped"
[[term]]
sites = [0, 5]
ops = "Sx Sx"
coupling = 2
[[term]]
sites = [1]
ops = "2 Sz"
"""


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function that makes a run without steps, in a folder called "run"."""
    monkeypatch.chdir(tmp_path)

    def run(model: str = "heisenberg", shape: str = "2, 3", sampler: str = ENUMERATE) -> Path:
        text = SETTINGS.format(model=model, shape=shape, sampler=sampler)
        (tmp_path / "study.toml").write_text(text)
        assert main(["run", "study.toml", "--out", "run"]) == 0
        return tmp_path / "run"

    return run


def strict(folder: Path) -> Any:
    return read_json(folder / "observables.json")


class Dense:
    """Expectation values in the state of a run, in the sector that it samples."""

    def __init__(self, folder: Path, sector: int | None) -> None:
        from tnvmc.settings.build import build_ansatz
        from tnvmc.settings.config import build_operator
        from tnvmc.settings.defaults import load

        settings = load(folder / "config.toml")
        self.operator = build_operator(settings)
        _, theta = read_parameters(folder / "checkpoint.h5")
        peps: Any = build_ansatz(settings, self.operator)
        self.n = self.operator.n_sites
        configs = oracles.all_configs(self.n, magnetisation=sector)
        amplitudes = oracles.dense_state(peps.tensors(theta), self.operator.lattice.shape, configs)
        self.psi = np.zeros(2**self.n)
        self.psi[[oracles.config_index(c) for c in configs]] = amplitudes
        self.psi /= np.linalg.norm(self.psi)

    def __call__(self, matrix: np.ndarray, *sites: int) -> float:
        return float(self.psi @ (oracles.embed(matrix, sites, self.n) @ self.psi).real)

    def matrix(self, pair: np.ndarray, square: np.ndarray) -> np.ndarray:
        found = np.diag([self(square, site) for site in range(self.n)])
        for i, j in combinations(range(self.n), 2):
            found[i, j] = found[j, i] = self(pair, i, j)
        return found


def close(found: Any, expected: Any) -> bool:
    return bool(np.abs(np.array(found) - np.array(expected)).max() < EXACT)


@pytest.mark.whole
@pytest.mark.parametrize(("model", "sector"), [("heisenberg", 0), ("tfim", None), ("j1j2", 0)])
def test_everything_under_enumeration(make: Any, model: str, sector: int | None) -> None:
    folder = make(model)
    (folder.parent / "own.toml").write_text(BOTH_FLIPPED)
    assert main(["measure", "run", "--operator", "own.toml"]) == 0
    found, dense = strict(folder), Dense(folder, sector)
    n, lattice = dense.n, dense.operator.lattice
    hamiltonian = oracles.dense_hamiltonian(dense.operator)
    energy = dense.psi @ hamiltonian @ dense.psi
    variance = dense.psi @ hamiltonian @ hamiltonian @ dense.psi - energy**2
    assert close(found["energy"]["mean"], energy)
    assert close(found["variance"], variance)
    assert found["drawn"] == "enumerate"
    assert found["n_samples"] == (2**n if sector is None else 20)
    for bond in found["bonds"]:
        terms = [t for t in dense.operator.terms if list(t.sites) == bond["sites"]]
        assert close(bond["mean"], sum(dense(t.matrix, *t.sites) for t in terms))
        assert tuple(bond["sites"]) in lattice.bonds[bond["kind"]]
        assert bond["error"] == 0
    assert len(found["bonds"]) == len({t.sites for t in dense.operator.terms if len(t.sites) == 2})
    for name, matrix in (("Sz", SZ), ("Sx", SX)):
        assert close(found["sites"][name]["mean"], [dense(matrix, site) for site in range(n)])
    spins = dense.matrix(DOT, 0.75 * np.eye(2))
    assert close(found["correlations"]["SS"]["mean"], spins)
    assert close(found["correlations"]["SzSz"]["mean"], dense.matrix(kron(SZ, SZ), np.eye(2) / 4))
    factor = found["structure_factor"]["SS"]
    assert factor["n"] == found["shape"] == [2, 3]
    waves = np.exp(1j * np.array(factor["q"]) @ np.array(found["coordinates"]).T)
    expected = [(wave @ spins @ wave.conj()).real / n for wave in waves]
    assert close(factor["mean"], expected)
    sign = (-1.0) ** lattice.coordinates.sum(axis=1)
    assert close(found["staggered_magnetisation_squared"]["mean"], sign @ spins @ sign / n**2)
    dimers = found["dimers"]
    i, j = dimers["reference"]
    for (k, l), mean in zip(dimers["bonds"], dimers["mean"], strict=True):
        z = [oracles.embed(SZ, (site,), n) for site in (i, j, k, l)]
        both = dense.psi @ (z[0] @ z[1] @ z[2] @ z[3]) @ dense.psi
        apart = dense(kron(SZ, SZ), i, j) * dense(kron(SZ, SZ), k, l)
        assert close(mean, both - apart)
    own = 2 * dense(kron(SX, SX), 0, 5) + dense(2 * SZ, 1)
    assert close(found["operators"]["both flipped"]["mean"], own)


def test_atoms(make: Any) -> None:
    folder = make("rydberg")
    measure_run(folder)
    found, dense = strict(folder), Dense(folder, None)
    number = np.diag([0.0, 1.0])
    atoms = dense.matrix(kron(number, number), number)
    assert close(found["sites"]["n"]["mean"], np.diag(atoms))
    assert close(found["correlations"]["nn"]["mean"], atoms)
    assert set(found["sites"]) == {"n"}
    assert found["dimers"] is found["staggered_magnetisation_squared"] is None
    waves = np.exp(
        1j * np.array(found["structure_factor"]["nn"]["q"]) @ np.array(found["coordinates"]).T
    )
    expected = [(wave @ atoms @ wave.conj()).real / 6 for wave in waves]
    assert close(found["structure_factor"]["nn"]["mean"], expected)


@pytest.mark.whole
def test_chains_give_errors_and_can_be_read_again(
    make: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same numbers twice; each within 5 sigma of its dense value, chi^2 of all near 1."""
    folder = make("tfim", sampler=CHAINS)
    capsys.readouterr()
    arguments = ["measure", "run", "--n-samples", "1000", "--pair-samples", "512"]
    assert main([*arguments, "--set", "measure.n_thin=2"]) == 0
    shown = capsys.readouterr().out
    found, dense = strict(folder), Dense(folder, None)
    assert (found["n_samples"], found["pair_samples"], found["drawn"]) == (1024, 512, "chains")
    assert "S.S of all pairs on 512" in shown
    assert "observables.json" in shown
    for name, expected in (
        ("SS", dense.matrix(DOT, 0.75 * np.eye(2))),
        ("SzSz", dense.matrix(kron(SZ, SZ), np.eye(2) / 4)),
    ):
        mean, error = (np.array(found["correlations"][name][key]) for key in ("mean", "error"))
        upper = np.triu_indices(6, k=1)
        gap = (mean - expected)[upper] / error[upper]
        assert np.abs(gap).max() < 5
        assert 0.1 < np.mean(gap**2) < 4
        assert error.diagonal().max() < 1e-12
    assert read_run(folder).observables == found
    again = measure_run(folder, Asked(1000, pair_samples=512, overrides=("measure.n_thin=2",)))
    assert {**again, "seconds": 0} == {**found, "seconds": 0}


@pytest.mark.whole
def test_all_configurations_instead_of_chains(make: Any) -> None:
    folder = make(sampler=CHAINS)
    exact = measure_run(folder, Asked(enumerate=True))
    assert exact["drawn"] == exact["measured"]["samples"]["drawn"] == "enumerate"
    assert close(
        exact["correlations"]["SS"]["mean"], Dense(folder, 0).matrix(DOT, 0.75 * np.eye(2))
    )
    drawn = measure_run(folder, Asked(192))
    assert drawn["n_samples"] == 192
    gap = drawn["energy"]["mean"] - exact["energy"]["mean"]
    assert 0 < abs(gap) < 5 * drawn["energy"]["error"]


@pytest.mark.whole
def test_walkers_that_have_not_moved_walk_first(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    n_burn = []
    draw = Sampler.draw

    def counted(self: Sampler, *args: Any, **more: Any) -> Any:
        n_burn.append(self.n_burn)
        return draw(self, *args, **more)

    run = make("heisenberg", "2, 2", CHAINS)
    monkeypatch.setattr(Sampler, "draw", counted)
    measure_run(run, Asked(pair_samples=0))
    assert n_burn[0] == FRESH_BURN


@pytest.mark.whole
@pytest.mark.parametrize(("steps", "n_burn"), [(0, FRESH_BURN), (1, FRESH_BURN - 1)])
def test_a_run_without_steps_burns_in_as_in_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int, n_burn: int
) -> None:
    """It took 10 sweeps for both."""
    drawn = []
    draw = Sampler.draw

    def counted(self: Sampler, *args: Any, **more: Any) -> Any:
        drawn.append(self.n_burn)
        return draw(self, *args, **more)

    file = tmp_path / "run.toml"
    file.write_text(
        '[lattice]\nshape = [2, 2]\n[hamiltonian]\nmodel = "heisenberg"\n[ansatz]\nD = 2\n'
        f"[sampler]\nn_walkers = 16\nn_samples = 16\n[optimizer]\nsteps = {steps}\n"
        "[run]\nthreads = 1\n"
    )
    monkeypatch.setattr(Sampler, "draw", counted)
    session.run_file(file, tmp_path / "run")
    assert drawn[-1] == n_burn


@pytest.mark.whole
def test_direct_draws_and_symmetries(make: Any) -> None:
    """Weighted samples: within 5 sigma of the dense values; symmetries are those of the lattice."""
    folder = make(sampler=CHAINS)
    dense = Dense(folder, 0).matrix(DOT, 0.75 * np.eye(2))
    drawn = measure_run(folder, Asked(512, direct=True))
    assert drawn["drawn"] == "direct"
    assert drawn["effective_samples"] < 512
    mean, error = (np.array(drawn["correlations"]["SS"][key]) for key in ("mean", "error"))
    gap = ((mean - dense) / np.maximum(error, 1e-12))[np.triu_indices(6, k=1)]
    assert np.abs(gap).max() < 5
    exact = measure_run(folder, Asked(enumerate=True, overrides=("measure.symmetrise=['spin']",)))
    assert exact["symmetry"] == ["spin"]
    assert np.abs(exact["sites"]["Sz"]["mean"]).max() < EXACT


RBM = 'kind = "rbm"\nalpha = 0.5\ndtype = "float64"\nmarshall = true'
NETWORK = SETTINGS.replace('D = 2\ninit = "random"', RBM).replace(
    '[contraction]\nscheme = "exact"\n', ""
)


@pytest.mark.whole
def test_a_network_is_symmetrised(make: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Chains within 5 sigma of the enumeration, where spin inversion leaves no magnetisation."""
    text = NETWORK.format(model="heisenberg", shape="2, 3", sampler=CHAINS)
    Path("rbm.toml").write_text(text)
    symmetric = ["--set", "measure.symmetrise=['spin']"]
    assert main(["run", "rbm.toml", "--out", "run", *symmetric]) == 0
    assert main(["measure", "run", "--n-samples", "512"]) == 0
    drawn = strict(Path("run"))
    assert drawn["symmetry"] == ["spin"] and drawn["drawn"] == "chains"
    exact = measure_run("run", Asked(enumerate=True))
    assert np.abs(exact["sites"]["Sz"]["mean"]).max() < EXACT
    gap = drawn["energy"]["mean"] - exact["energy"]["mean"]
    assert 0 < abs(gap) < 5 * drawn["energy"]["error"]
    assert "leave out --direct" in complaint(capsys, "run", "--direct")


@pytest.mark.whole
def test_without_pairs(make: Any) -> None:
    folder = make(sampler=CHAINS)
    assert main(["measure", "run", "--no-pairs", "--n-samples", "64"]) == 0
    found = strict(folder)
    assert set(found["correlations"]) == set(found["structure_factor"]) == {"SzSz"}
    assert found["pair_samples"] == 0
    assert found["pair_chi"] is found["staggered_magnetisation_squared"] is None


def test_a_chain_is_a_lattice_of_one_row(make: Any) -> None:
    text = SETTINGS.replace("shape = [{shape}]", 'kind = "chain"\nshape = 6')
    text = text.format(model="heisenberg", sampler=ENUMERATE).replace(
        "D = 2", 'D = 2\nkind = "mps"'
    )
    Path("chain.toml").write_text(text)
    assert main(["run", "chain.toml", "--out", "run"]) == 0
    found, dense = measure_run("run"), Dense(Path("run"), 0)
    spins = dense.matrix(DOT, 0.75 * np.eye(2))
    assert close(found["correlations"]["SS"]["mean"], spins)
    assert found["structure_factor"]["SS"]["n"] == [1, 6]


BAD_OPERATORS = {
    "name = ": "not valid TOML",
    "name = 'x'": "own.toml.term: missing",
    "[[term]]\nsites = [0]": "ops: missing",
    "[[term]]\nsites = [0, 99]\nops = 'Sz Sz'": "the lattice has sites 0..5",
    "[[term]]\nsites = [0]\nops = 'Sq'": "column 1",
    "[[term]]\nsites = [0]\nmatrix = [[0, 1], [1, 0]]": "matrix: unknown key",
    "[[term]]\nsites = [0, 0]\nops = 'Sz Sz'": "different sites",
    "[[term]]\nsites = '0'\nops = 'Sz'": "a list of site indices",
    "[[term]]\nsite = [0]\nops = 'Sz'": "site: unknown key",
    "[[term]]\nsites = [0]\nops = 'Sz'\ncoupling = 'a'": "must be a number",
    "term = [3]": "list of tables",
    "terms = [3]": "terms: unknown key",
}


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run, expect a line for each problem on stderr and exit status 2."""
    capsys.readouterr()
    assert main(["measure", *arguments]) == 2
    error = capsys.readouterr().err
    assert all(line.startswith("tnvmc: ") for line in error.splitlines())
    return error


@pytest.mark.whole
def test_bad_input(make: Any, capsys: pytest.CaptureFixture[str]) -> None:
    folder = make()
    measure_run(folder)
    before = (folder / "observables.json").read_bytes()
    own = Path("own.toml")
    for text, expected in BAD_OPERATORS.items():
        own.write_text(text)
        error = complaint(capsys, "run", "--operator", "own.toml")
        assert expected in error, error
        assert "own.toml" in error
    own.write_text(BOTH_FLIPPED)
    twice = ("--operator", "own.toml") * 2
    assert "two operators are named 'both flipped'" in complaint(capsys, "run", *twice)
    assert "no such file" in complaint(capsys, "run", "--operator", "absent.toml")
    assert "no such folder" in complaint(capsys, "absent")
    assert "is a file" in complaint(capsys, "own.toml")
    assert "must be at least 1" in complaint(capsys, "run", "--n-samples", "0")
    assert "must be at least 1" in complaint(capsys, "run", "--chi", "-3")
    assert "did you mean" in complaint(capsys, "run", "--set", "measure.n_sample=3")
    for other in ("ansatz.D=3", "lattice.shape=[3, 3]", "sampler.n_walkers=8"):
        assert "changes of [measure]" in complaint(capsys, "run", "--set", other)
    assert "--n-samples" in complaint(capsys, "run", "--set", "measure.error=1e-4")
    image = (folder / "checkpoint.h5").read_bytes()
    (folder / "checkpoint.h5").write_bytes(image[: len(image) // 2])
    assert "damaged" in complaint(capsys, "run")
    (folder / "checkpoint.h5").unlink()
    assert "checkpoint.h5 is missing" in complaint(capsys, "run")
    (folder / "config.toml").unlink()
    assert "holds no run" in complaint(capsys, "run")
    assert (folder / "observables.json").read_bytes() == before


@pytest.mark.slow
def test_4x4_heisenberg_within_four_sigma_of_its_exact_values(make: Any, tmp_path: Path) -> None:
    """A simple-update state, D = 4: chains against the enumeration of its 12870 configurations."""
    text = SETTINGS.format(model="heisenberg", shape="4, 4", sampler=CHAINS).replace(
        "D = 2", "D = 4"
    )
    text = text.replace('"random"', '"simple_update"').replace('scheme = "exact"', "chi = 16")
    Path("long.toml").write_text(text.replace("n_samples = 64\n[run]", "n_samples = 4096\n[run]"))
    assert main(["run", "long.toml", "--out", "run"]) == 0
    drawn = measure_run("run", Asked(pair_samples=2048))
    exact = measure_run("run", Asked(enumerate=True))
    assert exact["n_samples"] == 12870
    gaps = []
    for path in (
        ("energy",), ("staggered_magnetisation_squared",), ("correlations", "SS"),
        ("correlations", "SzSz"), ("structure_factor", "SS"), ("structure_factor", "SzSz"),
        ("sites", "Sz"), ("dimers",),
    ):  # fmt: skip
        one, other = drawn, exact
        for key in path:
            one, other = one[key], other[key]
        mean, error, expected = (np.ravel(x) for x in (one["mean"], one["error"], other["mean"]))
        seen = error > 1e-12
        gap = (mean - expected)[seen] / error[seen]
        print(path, f"largest {np.abs(gap).max():.2f} sigma, chi^2 {np.mean(gap**2):.2f}")
        gaps.append(np.abs(gap).max())
        assert np.abs(mean - expected)[~seen].max(initial=0) < EXACT
    # 400 values, correlated: four sigma is the largest of 16000 independent ones
    assert max(gaps) < 4


@pytest.mark.whole
def test_a_terminal_shows_how_far_it_is(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(sampler=CHAINS)
    assert main(["measure", str(folder)]) == 0
    silent, terminal = strict(folder), io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    assert main(["measure", str(folder)]) == 0
    assert templates()["phases"]["pairs"] in terminal.getvalue()
    changing = {"seconds", "check", "provenance"}
    shown = {key: value for key, value in strict(folder).items() if key not in changing}
    assert shown == {key: value for key, value in silent.items() if key not in changing}


HEXAGON = [[1, 0], [1, 2], [2, 5], [5, 4], [4, 3], [3, 0]]
CORNERS = [[-0.87, 0.5], [0.0, 1.0], [0.87, 0.5], [-0.87, -0.5], [0.0, -1.0], [0.87, -0.5]]
BOND_LIST = SETTINGS.replace("shape = [{shape}]", "kind = 'bonds'\nshape = [2, 3]\n{shape}")


def measured_patch(bonds: Any, coordinates: Any = None) -> Any:
    told = f"bonds = {bonds}" + ("" if coordinates is None else f"\ncoordinates = {coordinates}")
    text = BOND_LIST.format(model="heisenberg", shape=told, sampler=ENUMERATE)
    Path("patch.toml").write_text(text)
    assert main(["run", "patch.toml", "--out", "run"]) == 0
    return measure_run("run")


def left_out(found: Any) -> dict[str, Any]:
    told = [each for each in found["diagnostics"] if each["code"] == "observable_left_out"]
    return {each["values"]["observable"]: each["values"]["reason"] for each in told}


def test_a_list_of_bonds_with_coordinates(make: Any) -> None:
    """A hexagon is bipartite by its bonds, where the checkerboard of its rows would be wrong."""
    found = measured_patch(HEXAGON, CORNERS)
    spins = Dense(Path("run"), 0).matrix(DOT, 0.75 * np.eye(2))
    assert found["coordinates"] == CORNERS and left_out(found) == {}
    sign = np.array([1, -1, 1, -1, 1, -1])
    assert close(found["staggered_magnetisation_squared"]["mean"], sign @ spins @ sign / 36)
    factor = found["structure_factor"]["SS"]
    assert factor["zone"] == "plane" and np.prod(factor["n"]) == len(factor["q"])
    waves = np.exp(1j * np.array(factor["q"]) @ np.array(CORNERS).T)
    assert close(factor["mean"], [(wave @ spins @ wave.conj()).real / 6 for wave in waves])
    assert np.abs(factor["q"]).max() >= 4 * np.pi / 3  # where a Neel state of a honeycomb peaks
    bonds = [bond["mean"] for bond in found["bonds"]]
    assert close(found["averages"]["bonds"]["nearest"]["mean"], np.mean(bonds))
    assert close(found["averages"]["sites"]["Sz"]["mean"], 0)


@pytest.mark.whole
def test_what_a_list_of_bonds_cannot_tell_is_left_out(
    make: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    nearest = [[0, 1], [1, 2], [0, 2], [2, 5], [5, 4], [4, 3]]
    triangles = f"{{ nearest = {nearest}, far = [[0, 3]] }}"
    found = measured_patch(triangles)
    assert found["coordinates"] is None and found["structure_factor"] == {}
    assert found["staggered_magnetisation_squared"] is None
    assert left_out(found) == {
        "structure_factor": "coordinates", "staggered_magnetisation_squared": "bipartite",
    }  # fmt: skip
    assert {bond["kind"] for bond in found["bonds"]} == {"nearest"}  # the model acts on these
    assert found["dimers"]["reference"] == [2, 5]  # the middle one of the list
    for picture in (plot.lattice, plot.correlations, plot.correlation_map, plot.structure_factor):
        with pytest.raises(ValueError, match="no coordinates"):
            picture("run")
    assert main(["measure", "run"]) == 0
    shown = capsys.readouterr().out
    assert "S(q) is left out" in shown and "staggered M^2 is left out" in shown
    assert main(["report", "run"]) == 0
    assert "no coordinates" in Path("run/report.html").read_text()


def test_a_chain_has_one_momentum(make: Any) -> None:
    found = measured_patch([[0, 1], [1, 2], [2, 3], [3, 4], [4, 5]], [[k, 0.0] for k in range(6)])
    assert found["structure_factor"]["SS"]["zone"] == "chain"
    assert {q[1] for q in found["structure_factor"]["SS"]["q"]} == {0.0}


@pytest.mark.whole
def test_operators_later_keep_the_correlations(make: Any) -> None:
    """S.S of all pairs is measured once, and stays when other things are measured."""
    folder, told = make(sampler=CHAINS), []
    first = measure_run(folder, Asked(pair_samples=128))
    Path("own.toml").write_text(BOTH_FLIPPED)
    again = measure_run(folder, Asked(operators=("own.toml",)), told.append)
    assert strict(folder) == again
    for key in ("correlations", "structure_factor", "staggered_magnetisation_squared"):
        assert again[key] == first[key]
    assert again["measured"]["pairs"] == first["measured"]["pairs"]
    assert [each.code for each in told] == ["observables_kept"]
    assert again["measured"]["operators"]["both flipped"]["seed"] == 0
    last = measure_run(folder, Asked(pair_samples=0), told.append)
    assert last["operators"] == again["operators"] and last["correlations"] == first["correlations"]
    assert [each.values["observable"] for each in told[1:]] == ["SS", "both flipped"]
    assert [path.name for path in folder.glob("observables*")] == ["observables.json"]


@pytest.mark.whole
def test_what_another_measurement_would_lose_is_set_aside(make: Any) -> None:
    folder, told = make(sampler=CHAINS), []
    many = measure_run(folder, Asked(256))
    few = measure_run(folder, Asked(64), told.append)
    assert few["n_samples"] == 64 and [each.values["reason"] for each in told] == ["better"]
    kept = folder / "observables-step-0.json"
    assert told[0].values["file"] == kept.name
    assert {k: v for k, v in read_json(kept).items() if k != "seconds"} == {
        k: v for k, v in many.items() if k != "seconds"
    }
    even = ("measure.symmetrise=['spin']",)
    other = measure_run(folder, Asked(64, pair_samples=0, overrides=even), told.append)
    assert told[-1].values["reason"] == "symmetry"
    assert set(other["correlations"]) == {"SzSz"}  # those of the other state are not taken over
    assert (folder / "observables-step-0-2.json").exists()


@pytest.mark.whole
def test_each_part_tells_the_chi_it_was_measured_at(make: Any) -> None:
    """Pairs at the chi of the steps, the rest at that of the measurement, both at --chi."""
    text = SETTINGS.format(model="heisenberg", shape="2, 3", sampler=CHAINS)
    text = text.replace('scheme = "exact"', "chi = 2").replace("[measure]", "[measure]\nchi = 4")
    Path("chi.toml").write_text(text)
    assert main(["run", "chi.toml", "--out", "run"]) == 0
    for asked, chi, pair_chi in (
        (Asked(), 4, 2),
        (Asked(chi=3), 3, 3),
        (Asked(overrides=("measure.symmetrise=['spin']",)), 4, 2),
    ):
        drawn: list[int | None] = []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(observables, "collect", partial(seen, drawn))
            found = measure_run("run", asked)
        assert (found["chi"], found["pair_chi"]) == (chi, pair_chi) == tuple(drawn)
        record = found["measured"]
        assert (record["samples"]["chi"], record["pairs"]["chi"]) == (chi, pair_chi)


def seen(drawn: list[int | None], method: Any, *rest: Any) -> Any:
    """Note the chi of the scheme that amplitudes are contracted by."""
    state = method.problem.ansatz
    while not hasattr(state, "scheme"):
        state = state.ansatz
    drawn.append(state.scheme.chi)
    return collect(method, *rest)
