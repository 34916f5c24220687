"""Classes that a settings file names: looked up, made, run, measured, resumed, refused."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flax")

import tnvmc
from tnvmc.app.cli import main
from tnvmc.settings.build import build_ansatz
from tnvmc.settings.config import build_operator
from tnvmc.settings.defaults import load

NETS = """
import jax.numpy as jnp
import numpy as np
from flax import linen, nnx

from tnvmc import GenericAnsatz, LogAmplitude


class Pairs(nnx.Module):
    def __init__(self, n_sites, scale=0.01, *, rngs):
        self.pairs = nnx.Param(scale * rngs.params.normal((n_sites, n_sites), jnp.float64))

    def __call__(self, configs):
        z = 1.0 - 2.0 * configs
        return jnp.einsum("bi,ij,bj->b", z, self.pairs[...], z)


class Dense(linen.Module):
    features: tuple = (4,)
    param_dtype: str = "float64"

    @linen.compact
    def __call__(self, x):
        for n in self.features:
            x = jnp.tanh(linen.Dense(n, param_dtype=self.param_dtype, dtype=self.param_dtype)(x))
        return x.sum(axis=-1)


class Jastrow(GenericAnsatz):
    def __init__(self, lattice, scale=0.1):
        super().__init__(lattice)
        self.i, self.j = np.triu_indices(lattice.n_sites, k=1)
        self.scale = scale

    def random(self, seed):
        return self.scale * np.random.default_rng(seed).normal(size=len(self.i))

    def log_amplitude(self, theta, configs):
        spins = 1.0 - 2.0 * configs
        return LogAmplitude(np.ones(len(configs)), (spins[:, self.i] * spins[:, self.j]) @ theta)


class Mixed(Jastrow):
    def log_amplitude(self, theta, configs):
        found = super().log_amplitude(theta, configs)
        return LogAmplitude(found.phase, found.log_abs + np.arange(len(configs)))


class Unseeded(Jastrow):
    def __init__(self, lattice):
        super().__init__(lattice)
        self.angles = np.random.default_rng().normal(size=lattice.n_sites)

    def log_amplitude(self, theta, configs):
        found = super().log_amplitude(theta, configs)
        return LogAmplitude(np.exp(1j * configs @ self.angles), found.log_abs)


class Masked(Pairs):
    def __init__(self, n_sites, *, rngs):
        super().__init__(n_sites, rngs=rngs)
        self.mask = nnx.Variable(jnp.asarray(np.random.default_rng().normal(size=n_sites)))

    def __call__(self, configs):
        return super().__call__(configs) + configs @ self.mask[...]


class Undefined(Jastrow):
    def log_amplitude(self, theta, configs):
        found = super().log_amplitude(theta, configs)
        log_abs = np.where(configs.sum(1) % 3 == 0, np.nan, found.log_abs)
        return LogAmplitude(found.phase, log_abs)


class Moody(Jastrow):
    def random(self, seed):
        return {0: np.full(6, 0.01)}[seed]


class Lost(Moody):
    def log_amplitude(self, theta, configs):
        return super().log_amplitude({0.0: theta}[float(np.ptp(theta))], configs)


class Listed(Jastrow):
    def random(self, seed):
        return [0, 0, 0, 0, 0, 0]


class Empty(nnx.Module):
    def __call__(self, configs):
        return 0.1 * configs.sum(axis=1)


class Broken(Pairs):
    def __call__(self, configs):
        raise RuntimeError("one line\\nand another")


def make():
    return Pairs
"""

HEAD = """
[lattice]
shape = [2, 2]
[hamiltonian]
model = "heisenberg"
[sampler]
n_samples = 128
[optimizer]
steps = 2
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "study"
    place.mkdir()
    (place / "my_nets.py").write_text(NETS)
    yield place
    sys.modules.pop("my_nets", None)


def _file(folder: Path, ansatz: str, name: str = "a.toml") -> Path:
    path = folder / name
    path.write_text(f"{HEAD}[ansatz]\n{ansatz}\n")
    return path


def _built(folder: Path, ansatz: str) -> Any:
    settings = load(_file(folder, ansatz))
    return build_ansatz(settings, build_operator(settings))


FLAX, OWN = 'kind = "flax"\nmodule = "my_nets:%s"\n', 'kind = "own"\nmodule = "my_nets:%s"\n'
KEYS = "keywords = { features = [3, 2], param_dtype = 'complex128' }"


def test_arguments_and_types_of_the_class_decide(folder: Path) -> None:
    pairs = _built(folder, FLAX % "Pairs" + "keywords = { scale = 0.5 }\nmarshall = true")
    assert pairs.n_params == 16 and pairs.dtype == np.float64
    assert 0.2 < pairs.random(1).std() < 1 and not np.array_equal(pairs.random(0), pairs.random(1))
    assert pairs.architecture["marshall"] is True
    split, whole = (
        _built(folder, FLAX % "Dense" + KEYS + more) for more in ("", "\nholomorphic = true")
    )
    assert split.n_params == 2 * whole.n_params and whole.dtype == np.complex128
    own = _built(folder, OWN % "Jastrow" + "keywords = { scale = 2.0 }")
    assert own.n_params == 6 and own.scale == 2.0


def test_the_folder_of_the_file_comes_first(folder: Path, tmp_path: Path) -> None:
    """Also after a module of the same name from another folder; then the Python path."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "my_nets.py").write_text(NETS.replace("scale=0.1", "scale=7.0"))
    assert _built(folder, OWN % "Jastrow").scale == 0.1
    assert _built(other, OWN % "Jastrow").scale == 7.0
    assert str(folder) not in sys.path
    (other / "my_nets.py").unlink()
    assert _built(other, OWN % "Jastrow").scale == 7.0  # what Python has


REFUSED = [
    (FLAX % "Pair", "did you mean 'Pairs'"),
    (FLAX % "make", "no class"),
    ('kind = "flax"\nmodule = "no_such_nets:A"', "no module no_such_nets in "),
    ('kind = "flax"\nmodule = "bad_nets:A"', "cannot be imported (ZeroDivisionError"),
    ('kind = "flax"\nmodule = "Pairs"', "cannot be imported"),
    (FLAX % "Pairs" + "keywords = { scael = 1.0 }", "scael"),
    (FLAX % "Broken", "RuntimeError: one line"),
    (FLAX % "Empty", "Empty has no parameters"),
    (OWN % "Jastrow" + "marshall = true", "ansatz.marshall"),
    (OWN % "Mixed", "depends on the others"),
    (OWN % "Unseeded", "another psi each time"),
    (FLAX % "Masked", "another psi each time"),
    (OWN % "Undefined", "no finite psi of the configuration ["),
    (OWN % "Listed", "must give an array"),
    (FLAX % "Pairs" + 'dtype = "complex128"', "ansatz.dtype"),
    ('kind = "flax"', "ansatz.module: missing"),
]


@pytest.mark.parametrize(("ansatz", "text"), REFUSED)
def test_what_cannot_be_made_is_refused_in_a_line(
    ansatz: str, text: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "bad_nets.py").write_text("1 / 0")
    assert main(["run", str(_file(folder, ansatz)), "--out", str(folder / "run")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert text in line and not (folder / "run").exists()


def test_a_module_is_named_on_the_command_line_without_quotes(folder: Path, tmp_path: Path) -> None:
    file, out = str(_file(folder, FLAX % "Pairs")), str(tmp_path / "two words")
    keys = ["--set", "ansatz.module=my_nets:Dense", "--set", "ansatz.keywords={features=[2]}"]
    assert main(["run", file, "--out", out, *keys]) == 0
    assert json.loads((Path(out) / "result.json").read_text())["n_parameters"] > 6


@pytest.mark.whole
@pytest.mark.parametrize("ansatz", [FLAX % "Dense" + KEYS, OWN % "Jastrow"])
def test_a_run_goes_on_and_is_read_from_anywhere(
    ansatz: str,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file, run, small = _file(folder, ansatz), str(tmp_path / "run"), str(tmp_path / "small")
    assert main(["run", str(file), "--out", run]) == 0
    sys.modules.pop("my_nets")
    (tmp_path / "away").mkdir()
    monkeypatch.chdir(tmp_path / "away")
    assert main(["run", "--resume", run, "--set", "optimizer.steps=3"]) == 0
    assert main(["measure", run, "--n-samples", "128"]) == 0
    assert main(["archive", run, small]) == 0
    capsys.readouterr()
    assert main(["show", small]) == 0
    assert "my_nets:" in (shown := capsys.readouterr().out) and "jastrow" not in shown
    result = json.loads((Path(run) / "result.json").read_text())
    for place in (run, small):
        vmc = tnvmc.load_run(place).vmc
        with pytest.warns(tnvmc.UnreliableWarning):
            energy = vmc.measure(n_samples=1024).energy
        assert energy == pytest.approx(result["energy"])
    for way in (["measure", run], ["run", "--resume", run, "--set", "optimizer.steps=4"]):
        (folder / "my_nets.py").write_text(
            NETS.replace("spins[:, self.j])", "3 * spins[:, self.j])")
        )
        sys.modules.pop("my_nets")
        capsys.readouterr()
        assert main(way) == 2
        err = capsys.readouterr().err
        assert " code " in err and "has changed since" in err
    (folder / "my_nets.py").unlink()
    sys.modules.pop("my_nets")
    capsys.readouterr()
    assert main(["measure", run]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(folder) in line and "PYTHONPATH" in line


@pytest.mark.whole
def test_what_a_class_imports_makes_another_psi(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A helper that has changed, or numbers drawn at import: the class itself is as it was."""
    helper = folder / "my_helper.py"
    helper.write_text("factor = 1.0")
    imported = NETS.replace(") @ theta)", ") @ (factor * theta))")
    (folder / "my_nets.py").write_text(f"from my_helper import factor\n{imported}")
    file, run = _file(folder, OWN % "Jastrow"), str(folder / "run")
    assert main(["run", str(file), "--out", run]) == 0
    for way in (["measure", run], ["run", "--resume", run, "--set", "optimizer.steps=4"]):
        helper.write_text(f"factor = {len(way)}.5")
        sys.modules.pop("my_nets")
        sys.modules.pop("my_helper")
        capsys.readouterr()
        assert main(way) == 2
        assert "gives another psi" in capsys.readouterr().err
    sys.modules.pop("my_helper")


@pytest.mark.whole
def test_a_comparison_and_a_product_take_them(folder: Path) -> None:
    """With what is shared of contractions, which is for the PEPS alone."""
    second = 'second = { kind = "flax", module = "my_nets:Pairs" }'
    blocks = [
        'name = "PEPS"\nD = 2',
        f'name = "own"\n{OWN % "Jastrow"}',
        f'name = "flax"\n{FLAX % "Pairs"}',
        f'name = "product"\nkind = "product_of_states"\nfirst.kind = "peps"\nfirst.D = 2\n{second}',
    ]
    shared = HEAD.replace("[optimizer]\nsteps = 2", "[compare]\nsteps = 2\n[contraction]\nchi = 4")
    file, out = folder / "c.toml", folder / "out"
    file.write_text(shared + "".join(f"[[ansatz]]\n{block}\n" for block in blocks))
    assert main(["compare", str(file), "--out", str(out)]) == 0
    table = json.loads((out / "comparison.json").read_text())
    assert {row["name"]: row["parameters"] for row in table["rows"]}.items() >= {
        ("own", 6), ("flax", 16),
    }  # fmt: skip
    assert len(table["rows"]) == 4


def test_a_seed_that_a_class_has_no_parameters_for_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(_file(folder, OWN % "Moody"))
    assert main(["run", file, "--out", str(folder / "run"), "--set", "run.seed=1"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "my_nets:Moody" in line and "run.seed = 1 (KeyError: 1)" in line


@pytest.mark.whole
def test_a_comparison_goes_on_behind_a_class_that_fails(folder: Path) -> None:
    """With whatever error, once theta has moved."""
    shared = HEAD.replace("[optimizer]\nsteps = 2", "[compare]\nsteps = 2")
    blocks = [f'[[ansatz]]\nname = "{name}"\n{OWN % name}' for name in ("Lost", "Jastrow")]
    (folder / "c.toml").write_text(shared + "".join(blocks))
    assert main(["compare", str(folder / "c.toml"), "--out", str(folder / "out")]) == 1
    table = json.loads((folder / "out" / "comparison.json").read_text())
    (left,) = table["left_out"]
    assert (left["name"], left["code"]) == ("Lost", "run_failed")
    assert left["values"]["reason"].startswith("KeyError ") and len(table["rows"]) == 1


@pytest.mark.whole
def test_models_of_netket_see_spins(folder: Path) -> None:
    """ln psi of the RBM of NetKet at spins +1 and -1, with complex parameters."""
    nk = pytest.importorskip("netket")
    keys = "holomorphic = true\nkeywords = { alpha = 2, param_dtype = 'complex128' }"
    found = _built(folder, f'kind = "flax"\nmodule = "netket.models.RBM"\n{keys}')
    theta, configs = found.random(3), np.array([[0, 1, 1, 0], [1, 1, 0, 0]], np.int8)
    model = nk.models.RBM(alpha=2, param_dtype=complex)
    tree = found.functional.unflatten(theta)
    expected = np.asarray(model.apply({"params": tree}, 1.0 - 2.0 * configs))
    amplitude = found.log_amplitude(theta, configs)
    np.testing.assert_allclose(amplitude.log_abs, expected.real, rtol=1e-12)
    np.testing.assert_allclose(amplitude.phase, np.exp(1j * expected.imag), rtol=1e-12)
