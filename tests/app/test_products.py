"""Products of states by settings: nested tables, files, whole runs that go on bit for bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

from tests.settings.complaints import problems, told
from tnvmc import PEPS, SRC, VMC, Jastrow, ProductOfStates, Sampler, load_state
from tnvmc.ansatz.mps import PeriodicMPS
from tnvmc.app.cli import main
from tnvmc.lattice import square
from tnvmc.operators.models import heisenberg
from tnvmc.settings.build import build_ansatz, build_theta
from tnvmc.settings.config import Settings, build_operator
from tnvmc.settings.defaults import complete, load
from tnvmc.settings.described import described
from tnvmc.settings.load import validate
from tnvmc.settings.problems import ConfigError
from tnvmc.settings.rules import check_symmetries
from tnvmc.storage.hdf5 import StateFileError

LATTICE = square(2, 3)


def data(first: Any = None, second: Any = None, **keys: Any) -> dict[str, Any]:
    first, second = first or {"kind": "peps", "D": 2}, second or {"kind": "jastrow"}
    ansatz = {"kind": "product_of_states", "first": first, "second": second, **keys}
    short = {"n_walkers": 16, "n_samples": 32}
    return {
        "lattice": {"shape": [2, 3]}, "hamiltonian": {"model": "heisenberg"}, "ansatz": ansatz,
        "sampler": short, "optimizer": {"steps": 4}, "measure": {"n_samples": 64},
    }  # fmt: skip


def completed(*overrides: str, **keys: Any) -> Settings:
    return complete(validate(data(**keys), overrides))


def built(settings: Settings) -> tuple[Any, np.ndarray]:
    operator = build_operator(settings)
    ansatz = build_ansatz(settings, operator)
    return ansatz, build_theta(settings, operator, ansatz)


def test_completed_settings_say_what_runs(tmp_path: Path) -> None:
    settings = completed("ansatz.first.D=3", second={"kind": "cnn", "features": [2]})
    found = settings.as_dict()
    assert found["ansatz"]["first"] == {
        "kind": "peps", "D": 3, "dtype": "float64", "init": "simple_update", "bonds": "open"
    }  # fmt: skip
    assert found["ansatz"]["dtype"] == found["ansatz"]["second"]["dtype"] == "float64"
    assert found["contraction"] == {"scheme": "src", "chi": 6} and found["measure"]["chi"] == 12
    file = tmp_path / "config.toml"
    file.write_text(tomli_w.dumps(found))
    assert load(file).as_dict() == found


@pytest.mark.parametrize(
    ("keys", "overrides", "where"),
    [
        ({"first": {"kind": "peps"}}, [], "ansatz.first.D"),
        ({"first": {"kind": "peps", "D": 0}}, [], "ansatz.first.D"),
        ({"second": {"kind": "jastrow", "alpha": 1}}, [], "ansatz.second.alpha"),
        ({"second": {"kind": "peps", "D": 2}}, [], "ansatz.second"),
        ({}, ["ansatz.third.D=2"], "ansatz.third"),
        ({"first": {"kind": "jastrow"}}, ["contraction.chi=4"], "contraction.chi"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(keys: Any, overrides: Any, where: str) -> None:
    with pytest.raises(ConfigError) as refused:
        completed(*overrides, **keys)
    assert refused.value.problems[0].key.startswith(where)


@pytest.mark.parametrize(
    ("ansatz", "found"),
    [
        ({"second": {"kind": "peps", "D": 2}}, ("ansatz.second.kind", "not_allowed", "peps")),
        ({"second": {"kind": "mps"}}, ("ansatz.second.kind", "not_allowed", "mps")),
        ({"second": {"kind": "jastro"}}, ("ansatz.second.kind", "not_allowed", "jastro")),
        ({"first": {"kind": "pepss"}}, ("ansatz.first.kind", "not_allowed", "pepss")),
        ({"second": {"dtype": "float64"}}, ("ansatz.second.kind", "missing")),
        ({"third": {"kind": "jastrow"}}, ("ansatz.third", "unknown_key")),
        ({"kind": "peps"}, ("ansatz", "foreign_key")),
        ({"kind": "product"}, ("ansatz", "foreign_key")),
    ],
)
def test_a_product_is_told_once_and_where_it_is_wrong(ansatz: Any, found: Any) -> None:
    settings = data()
    settings["ansatz"] = {**settings["ansatz"], **ansatz}
    assert told(settings) == [found]


def test_tables_without_a_kind_make_a_product_of_states() -> None:
    settings = data()
    del settings["ansatz"]["kind"]
    (found,) = problems(settings)
    assert (found.key, found.code) == ("ansatz", "foreign_key")
    assert "product_of_states" in str(found)


def test_a_word_that_is_nearly_a_kind_is_named() -> None:
    (found,) = problems(data(second={"kind": "jastro"}))
    assert "'jastrow'" in found.hint
    (found,) = problems(data(), ["ansatz.secnd.kind=rbm"])
    assert (found.key, found.code) == ("ansatz.secnd", "unknown_key") and "'second'" in str(found)
    (found,) = problems(data(), ["ansatz.third.kind=rbm"])
    assert (found.key, found.code) == ("ansatz.third", "unknown_key")
    (found,) = problems({**data(), "ansatz": 3}, ["ansatz.first.D=3"])
    assert (found.key, found.code) == ("ansatz", "not_allowed")


def test_symmetries_go_with_chains_of_both_only() -> None:
    with pytest.raises(ConfigError, match="sweeps = 'both'"):
        completed("measure.symmetrise=['spin']")
    both = completed("measure.symmetrise=['spin']", sweeps="both")
    check_symmetries(both, build_operator(both))


@pytest.mark.whole
def test_types_that_differ_are_refused() -> None:
    with pytest.raises(ValueError, match="one type"):
        built(completed(second={"kind": "rbm", "dtype": "complex128"}))
    ansatz, theta = built(
        completed(second={"kind": "rbm", "dtype": "complex128"}, dtype="complex128")
    )
    assert ansatz.first.dtype == theta.dtype == np.complex128


@pytest.mark.whole
def test_a_run_goes_on_bit_for_bit_and_gives_its_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("whole.toml").write_text(tomli_w.dumps(data()))
    assert main(["run", "whole.toml", "--out", "whole"]) == 0
    assert main(["run", "whole.toml", "--out", "parts", "--set", "optimizer.steps=2"]) == 0
    assert main(["run", "--resume", "parts", "--set", "optimizer.steps=4"]) == 0
    whole, parts = (
        json.loads(Path(name, "result.json").read_text()) for name in ("whole", "parts")
    )
    assert whole["energy"] == parts["energy"] and 0 < whole["effective_samples"] < 64
    assert main(["measure", "whole"]) == 0
    ansatz, theta = built(completed(init="whole"))
    again, other = built(completed(init="parts"))
    assert (theta == other).all() and again.n_params == ansatz.n_params
    with pytest.raises(StateFileError, match="another architecture"):
        built(completed(init="whole", second={"kind": "rbm", "dtype": "float64"}))


def test_the_first_state_starts_from_a_file(tmp_path: Path) -> None:
    peps = PEPS(LATTICE, 2)
    theta = np.random.default_rng(0).normal(size=peps.n_params)
    peps.save(tmp_path / "first.h5", theta)
    first = {"kind": "peps", "D": 2, "init": str(tmp_path / "first.h5")}
    ansatz, found = built(completed(first=first))
    np.testing.assert_array_equal(ansatz.split(found)[0], theta)


@pytest.mark.whole
def test_a_determinant_times_a_network() -> None:
    given = data({"kind": "slater"}, {"kind": "rbm", "dtype": "float64"})
    given |= {"hamiltonian": {"model": "hubbard"}}
    given["sampler"] = {**given["sampler"], "particles": [3, 3]}
    settings = complete(validate(given))
    ansatz, theta = built(settings)
    assert ansatz.first.numbers == (3, 3) and ansatz.sweeps == "both"
    assert theta.shape == (ansatz.n_params,) == (36 + 12 * 12 + 12 + 12,)
    vmc = VMC(build_operator(settings), ansatz, Sampler(8, 16), theta=theta)
    found = described(vmc, "runs/x", 5)
    assert "python" not in found and found["ansatz"]["first"]["kind"] == "slater"
    assert built(complete(validate(found)))[0].description() == ansatz.description()


STATES = {
    "PEPS, Jastrow": ProductOfStates(PEPS(LATTICE, 2, "float64", SRC(3)), Jastrow(LATTICE)),
    "ring": ProductOfStates(PeriodicMPS(LATTICE, 2), Jastrow(LATTICE), "first"),
}


@pytest.mark.parametrize("name", STATES)
def test_what_is_saved_is_made_again(tmp_path: Path, name: str) -> None:
    state = STATES[name]
    theta = np.random.default_rng(1).normal(size=state.n_params)
    state.save(tmp_path / "state.h5", theta)
    again, found = load_state(tmp_path / "state.h5")
    assert isinstance(again, ProductOfStates) and again.sweeps == state.sweeps
    assert again.description() == state.description()
    np.testing.assert_array_equal(found, theta)


@pytest.mark.whole
@pytest.mark.parametrize("name", ("PEPS, Jastrow", "ring"))
def test_a_run_in_python_is_described(name: str) -> None:
    vmc = VMC(heisenberg(LATTICE), STATES[name], Sampler(8, 16))
    found = described(vmc, "runs/x", 5)
    assert "python" not in found and found["ansatz"]["kind"] == "product_of_states"
    ansatz, _ = built(complete(validate(found)))
    assert ansatz.description() == STATES[name].description()
