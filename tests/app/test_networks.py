"""Networks by settings: the registry, what goes together, starts, checkpoints, whole runs."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from flax import nnx

from tests.oracles import all_configs
from tnvmc.ansatz.initial import initial_parameters
from tnvmc.ansatz.neural import NETWORKS, Network, architectures
from tnvmc.ansatz.neural.flax import FlaxAnsatz
from tnvmc.app.cli import main
from tnvmc.app.measure import Asked
from tnvmc.lattice import chain, square
from tnvmc.lattice.permutations import checkerboard, translations
from tnvmc.operators.models import heisenberg
from tnvmc.operators.term import Operator
from tnvmc.sampling.enumerate import Enumerate
from tnvmc.session.vmc import VMC
from tnvmc.settings.build import build_ansatz, build_arguments
from tnvmc.settings.config import build_operator
from tnvmc.settings.defaults import complete
from tnvmc.settings.load import validate
from tnvmc.storage.hdf5 import StateFileError
from tnvmc.storage.identity import differences

ROUNDING = 1e-12
"""Of ln psi of a few dozen terms of order 1."""

AUTOREGRESSIVE = [kind for kind, network in NETWORKS.items() if network.autoregressive]


def data(kind: str, model: str = "heisenberg", **keys: Any) -> dict[str, Any]:
    return {
        "lattice": {"shape": [4, 4]},
        "hamiltonian": {"model": model},
        "ansatz": {"kind": kind, **keys},
    }


def built(kind: str, *overrides: str) -> Any:
    """A wave function on a ring of four."""
    ring = {"lattice": {"kind": "chain", "shape": 4, "boundary": "periodic"}}
    settings = complete(validate({**data(kind), **ring}, overrides))
    return build_ansatz(settings, build_operator(settings))


@pytest.mark.whole
@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        (["ansatz.kind=vit", "ansatz.patch=3"], "patches of 3 x 3 sites do not tile"),
        (["ansatz.kind=vit", "ansatz.heads=5"], "5 heads do not divide the width 12"),
        (["ansatz.freeze=['weight']"], "no such group of parameters; it has hidden_bias"),
        (["ansatz.marshall=true", "lattice.shape=[3, 4]", "lattice.boundary=periodic"],
         "ansatz.marshall: sites 0 and 8 of the square lattice are neighbours on one sublattice"),
        (["ansatz.average=['spin']", "hamiltonian.model=rydberg"], "changes under spin inversion"),
        (["ansatz.init=nowhere"], "nowhere: no such file"),
    ],
)  # fmt: skip
def test_what_cannot_be_built_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture, overrides: list[str], text: str
) -> None:
    file = tmp_path / "study.toml"
    file.write_text(tomli_w.dumps(data("rbm")))
    options = [part for override in overrides for part in ("--set", override)]
    assert main(["run", str(file), "--out", str(tmp_path / "run"), *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("tnvmc: ") and text in line
    assert not (tmp_path / "run").exists()


def test_without_jax_it_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "tnvmc.ansatz.neural.flax", raising=False)
    monkeypatch.setitem(sys.modules, "jax", None)
    file = tmp_path / "study.toml"
    file.write_text(tomli_w.dumps(data("vit")))
    assert main(["run", str(file), "--out", str(tmp_path / "run")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("tnvmc: ansatz.kind = 'vit': a network needs JAX and Flax")
    assert "pip install 'jax>" in line and line.endswith("'")


@pytest.mark.whole
def test_marshall_and_average_against_a_sum_by_hand() -> None:
    plain, own = (
        built("rbm", "ansatz.marshall=false", "ansatz.dtype=float64"),
        built("rbm", "ansatz.marshall=true", "ansatz.average=['translation']"),
    )
    theta = 10 * plain.random(3)
    configs = np.array(all_configs(4), dtype=np.int8)
    lattice = chain(4, "periodic")
    images = [
        np.exp(plain.log_amplitude(theta, configs[:, g.sites]).log_abs)
        * plain.log_amplitude(theta, configs[:, g.sites]).phase
        for g in translations(lattice)
    ]
    signs = (-1.0) ** (configs @ checkerboard(lattice))
    found = own.log_amplitude(theta, configs)
    assert np.allclose(
        found.phase * np.exp(found.log_abs), signs * np.mean(images, axis=0), rtol=ROUNDING
    )
    assert own.architecture["marshall"] is True and own.architecture["average"] == ["translation"]


def test_differences_are_named() -> None:
    one = {"architecture": {"kind": "vit", "heads": 10, "patch": [2, 2]}, "n_parameters": 7}
    other = {"architecture": {"kind": "vit", "heads": 5, "patch": [2, 2]}, "n_parameters": 7}
    assert differences(one, other) == ["heads 10 (now 5)"]
    cnn = {"architecture": {"kind": "cnn", "kernel": 3}, "n_parameters": 7}
    assert differences(one, cnn) == ["kind vit (now cnn)"]
    assert differences({"n_parameters": 7}, cnn) == ["architecture None (now cnn)"]


def _vmc(ansatz: FlaxAnsatz, operator: Operator | None = None) -> VMC:
    operator = heisenberg(ansatz.lattice) if operator is None else operator
    return VMC(operator, ansatz, Enumerate(), learning_rate=0.02)


@pytest.mark.whole
def test_another_architecture_is_refused_also_with_as_many_parameters(tmp_path: Path) -> None:
    keys = ["ansatz.patch=[1, 2]", "ansatz.width=4", "ansatz.layers=1"]
    stored = built("patched_transformer", *keys, "ansatz.heads=2")
    other = built("patched_transformer", *keys, "ansatz.heads=4")
    assert stored.n_params == other.n_params
    path = tmp_path / "c.h5"
    _vmc(stored).save(path)
    with pytest.raises(StateFileError, match=r"another problem: heads 2 \(now 4\)"):
        _vmc(other).restore(path)
    operator = heisenberg(chain(4, "periodic"))
    with pytest.raises(StateFileError, match=r"of another architecture: heads 2 \(now 4\)$"):
        initial_parameters(other, operator, 0, str(path))
    with pytest.raises(StateFileError, match="holds a patched_transformer.* wanted is a rnn on"):
        initial_parameters(built("rnn"), operator, 0, str(path))
    treated = built(
        "patched_transformer",
        *keys,
        "ansatz.heads=2",
        "ansatz.marshall=false",
        "ansatz.output=real",
    )
    with pytest.raises(StateFileError, match=r"another problem: marshall True \(now False\)"):
        _vmc(treated).restore(path)
    # Signs leave the parameters what they are.
    assert np.array_equal(initial_parameters(treated, operator, 0, str(path)), _vmc(stored).theta)


@pytest.mark.whole
def test_a_file_of_a_network_that_had_other_parameters_is_refused(tmp_path: Path) -> None:
    """As of a version whose network of the same keywords had fewer."""
    wanted, smaller = built("rbm"), built("rbm", "ansatz.alpha=0.5")
    smaller.architecture, path = wanted.architecture, tmp_path / "c.h5"
    _vmc(smaller).save(path)
    operator = heisenberg(chain(4, "periodic"))
    with pytest.raises(StateFileError, match=f"{smaller.n_params} .* {wanted.n_params}"):
        initial_parameters(wanted, operator, 0, str(path))


@pytest.mark.whole
def test_fine_tuning_with_frozen_groups(tmp_path: Path) -> None:
    """Parameters of another coupling; only the group that is not frozen moves."""
    keys = ["ansatz.alpha=0.5", "ansatz.dtype=float64"]
    first = _vmc(built("rbm", *keys))
    first.save(tmp_path / "checkpoint.h5")
    ansatz = built("rbm", *keys, "ansatz.freeze=['weights', 'visible_bias']")
    operator = 0.5 * heisenberg(chain(4, "periodic"))
    theta = initial_parameters(ansatz, operator, 7, str(tmp_path))
    assert np.array_equal(theta, first.theta) and not np.array_equal(theta, ansatz.random(7))
    vmc = VMC(operator, ansatz, Enumerate(), theta=theta, learning_rate=0.1)
    vmc.run(1)
    before, after = ansatz.module(theta), ansatz.module(vmc.theta)
    assert np.array_equal(before.weights[...], after.weights[...])
    assert np.array_equal(before.visible_bias[...], after.visible_bias[...])
    assert not np.array_equal(before.hidden_bias[...], after.hidden_bias[...])


def test_direct_draws_are_as_many_as_asked_for() -> None:
    settings = complete(validate(data("rnn"), ["measure.n_samples=640"]))
    for asked, n_samples in ((Asked(), 640), (Asked(n_samples=128), 128)):
        assert asked.samples(settings) == n_samples


@pytest.mark.whole
def test_the_documentation_names_the_groups_of_parameters() -> None:
    page = (Path(__file__).parents[2] / "docs/networks.md").read_text()
    for kind, network in NETWORKS.items():
        row, *_ = [line for line in page.splitlines() if line.startswith(f"| `{kind}` |")]
        words = {"output": "complex", "dense": (4,)}
        keys = getattr(architectures, f"{network.name}Config").__dataclass_fields__
        keywords = {key: value for key, value in words.items() if key in keys}

        def state(network: Network = network, keywords: dict[str, Any] = keywords) -> Any:
            module = network.load()(square(4, 4), **keywords, rngs=nnx.Rngs(0))
            return nnx.state(module, nnx.Param)

        groups = {str(path[0]) for path, _ in nnx.to_flat_state(nnx.eval_shape(state))}
        assert set(re.findall(r"`(\w+)`", row.split("|")[4])) == groups


@pytest.mark.parametrize("kind", ["rbm", pytest.param("cnn", marks=pytest.mark.whole)])
def test_by_default_hardly_a_step_is_undone_and_the_signs_are_right(kind: str) -> None:
    frustrated = {**data(kind), "hamiltonian": {"model": "j1j2", "J2": 0.5}}
    settings = complete(validate(frustrated, ["sampler.n_samples=128", "run.threads=1"]))
    operator = build_operator(settings)
    vmc = VMC(operator, build_ansatz(settings, operator), **build_arguments(settings, operator))
    records = vmc.run(25)
    assert 10 * sum(record.undone for record in records) < len(records)
    # Without Marshall's signs they are above -0.38 a site; exact is -0.4691.
    energies = [record.energy / operator.n_sites for record in records[-5:]]
    assert np.mean(energies) < -0.44


SETTINGS = """
[lattice]
kind = "chain"
shape = 4

[hamiltonian]
model = "heisenberg"

[ansatz]
kind = "rbm"
alpha = 0.5
dtype = "float64"
marshall = true

[sampler]
kind = "enumerate"

[measure]
n_samples = 64

[run]
threads = 1

[[stage]]
steps = 2
learning_rate = 0.05

[[stage]]
steps = 1
learning_rate = 0.02
n_samples = 16
"""


@pytest.mark.whole
@pytest.mark.usefixtures("page_without_pictures")
def test_every_command_on_the_run_of_a_network(file: Path, capsys: pytest.CaptureFixture) -> None:
    """In stages of other learning rates and samples, which have no D."""
    assert main(["run", str(file), "--out", "run"]) == 0
    text = capsys.readouterr().out
    assert "stage 2 of 2: all configurations, 1 steps" in text and "None" not in text
    result = json.loads(Path("run/result.json").read_text())
    assert [stage["steps"] for stage in result["stages"]] == [2, 1]
    assert [point["label"] for point in result["convergence"]["variance"]["points"]] == [
        "stage 1", "stage 2",
    ]  # fmt: skip
    for command in (["show", "run"], ["show", "run/checkpoint.h5"], ["report", "run"],
                    ["plot", "run", "--format", "svg"],
                    ["measure", "run"]):  # fmt: skip
        assert main(command) == 0, command
        shown = capsys.readouterr().out
        assert "None" not in shown and "FlaxAnsatz" not in shown, shown
    energy = json.loads(Path("run/observables.json").read_text())["energy"]["mean"]
    assert energy == pytest.approx(result["energy"], rel=1e-9)
    assert ">None<" not in Path("run/report.html").read_text()
    assert main(["converge", "run"]) == 2
    assert capsys.readouterr().err == (
        "tnvmc: converge: rbm is contracted without a boundary bond dimension here, so there is "
        "no chi to converge in\n"
    )
    assert main(["run", "--resume", "run", "--set", "ansatz.alpha=3"]) == 2
    assert "another problem: alpha 0.5 (now 3)" in capsys.readouterr().err
