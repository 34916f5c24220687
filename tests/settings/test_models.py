"""The models of the sections: what is derived from them, and what they must agree with."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from flax import nnx

from tnvmc.ansatz.neural import NETWORKS, architectures
from tnvmc.ansatz.neural.flax import FlaxAnsatz
from tnvmc.lattice import square
from tnvmc.limits import allowed, choices, meaning, properties
from tnvmc.operators import models
from tnvmc.settings.ansatz_settings import _ONLY_IN_PYTHON, AutoregressiveSettings, NetworkSettings
from tnvmc.settings.build import build_ansatz
from tnvmc.settings.config import SECTIONS, Settings, build_operator
from tnvmc.settings.defaults import complete, load
from tnvmc.settings.load import validate
from tnvmc.settings.model_settings import COUPLINGS, MODELS


def data(kind: str, model: str = "heisenberg", **keys: Any) -> dict[str, Any]:
    ansatz = {"kind": kind, **keys}
    return {"lattice": {"shape": [4, 4]}, "hamiltonian": {"model": model}, "ansatz": ansatz}


def network(kind: str) -> NetworkSettings:
    model: Any = SECTIONS["ansatz"][kind]
    return model()


def test_every_key_has_a_meaning_and_its_limits_in_words() -> None:
    for section, kinds in SECTIONS.items():
        assert meaning(Settings, section)
        for model in kinds.values():
            for key in model.model_fields:
                assert meaning(model, key) and allowed(model, key), (model, key)


@pytest.mark.parametrize(
    ("section", "kind", "key", "what"),
    [
        ("ansatz", "peps", "D", "an integer >= 1"),
        ("ansatz", "vit", "patch", "an integer >= 1, or [rows, columns]"),
        ("ansatz", "cnn", "features", "a list of integers >= 1, one at least"),
        ("ansatz", "cnn", "dtype", "'float64'"),
        ("ansatz", "vit", "average", "a list of 'translation', 'point', 'spin'"),
        ("ansatz", "vit", "init", "'random', or the path of a run or a checkpoint"),
        ("contraction", "", "scheme", "one of src, zipup, exact"),
        ("hamiltonian", "tfim", "h", "a number, or a list of one number for each site"),
        ("lattice", "square", "shape", "a list of 2 integers >= 1"),
        ("optimizer", "sr", "momentum", "a number >= 0 and < 1"),
        ("optimizer", "sr", "plateau", "0, or an integer >= 5"),
        ("sampler", "", "power", "a number > 0 and <= 1, or 'auto'"),
        ("ansatz", "peps", "sharing", "true or false"),
    ],
)
def test_types_in_words(section: str, kind: str, key: str, what: str) -> None:
    assert allowed(SECTIONS[section][kind], key) == what


@pytest.mark.parametrize("model", MODELS)
def test_couplings_are_the_arguments_of_the_model(model: str) -> None:
    parameters = inspect.signature(getattr(models, model)).parameters
    given = {**data("product"), "hamiltonian": {"model": model}}
    if "particles" in parameters:
        given["sampler"] = {"particles": 2 if model == "tv" else [1, 1]}
    chosen = complete(validate(given))
    others = ("lattice", "particles")
    couplings = {key: each.default for key, each in parameters.items() if key not in others}
    assert chosen.hamiltonian.as_couplings() == couplings
    assert set(couplings) <= set(COUPLINGS)


@pytest.mark.parametrize("kind", NETWORKS)
def test_the_keys_of_a_network_are_arguments_of_its_constructor(kind: str) -> None:
    module = NETWORKS[kind].load()
    parameters = dict(inspect.signature(module.__init__).parameters)
    if parameters.pop("architecture", None):
        config = getattr(architectures, f"{module.__name__}Config")
        parameters |= inspect.signature(config).parameters
    own = {
        name: parameter.default
        for name, parameter in parameters.items()
        if name not in ("self", "lattice", "local_dim", "rngs")
    }
    assert network(kind).given().items() <= own.items()
    assert set(own) - set(network(kind).arguments) - {"magnetisation"} <= _ONLY_IN_PYTHON
    assert {"local_dim", "rngs"} <= set(parameters)
    drawn = isinstance(network(kind), AutoregressiveSettings)
    assert drawn == NETWORKS[kind].autoregressive == hasattr(module, "draw")


@pytest.mark.whole
@pytest.mark.parametrize("kind", NETWORKS)
def test_the_words_of_a_network_are_those_it_knows(kind: str) -> None:
    module, lattice = NETWORKS[kind].load(), square(8, 8)

    def shapes(**keywords: Any) -> Any:
        return nnx.eval_shape(lambda: module(lattice, **keywords, rngs=nnx.Rngs(0)))

    for key, value in network(kind).given().items():
        if isinstance(value, str):
            known = choices(properties(type(network(kind)))[key])
            assert value in known
            for word in known:
                shapes(**{key: word})
            with pytest.raises(ValueError, match=key):
                shapes(**{key: "nonsense"})


@pytest.mark.parametrize("kind", NETWORKS)
def test_completed_settings_say_what_runs(kind: str, tmp_path: Path) -> None:
    first = complete(validate(data(kind))).as_dict()
    section, drawn = first["ansatz"], NETWORKS[kind].autoregressive
    assert section["init"] == "random"
    for key, value in network(kind).given().items():
        if value is not None:
            assert section[key] == json.loads(json.dumps(value))
    assert first["contraction"] == {} and "chi" not in first["measure"]
    assert first["sampler"]["kind"] == ("direct" if drawn else "metropolis")
    assert first["sampler"]["magnetisation"] == 0
    file = tmp_path / "config.toml"
    file.write_text(tomli_w.dumps(first))
    assert load(file).as_dict() == first


@pytest.mark.whole
@pytest.mark.parametrize(
    ("model", "overrides", "magnetisation"),
    [("heisenberg", ["sampler.magnetisation=2"], 2), ("tfim", [], None), ("rydberg", [], None)],
)
def test_the_sector_of_an_autoregressive_network(
    model: str, overrides: list[str], magnetisation: int | None
) -> None:
    settings = complete(validate(data("rnn", model), overrides))
    ansatz = build_ansatz(settings, build_operator(settings))
    assert isinstance(ansatz, FlaxAnsatz)
    assert ansatz.module(ansatz.random(0)).magnetisation == magnetisation
