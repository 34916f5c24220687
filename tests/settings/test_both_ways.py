"""A file and the Python objects that it describes make the same run: defaults are one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tnvmc import (
    MPS,
    PEPS,
    SRC,
    VMC,
    Jastrow,
    Operator,
    PeriodicMPS,
    ProductOfStates,
    ProductState,
    Slater,
    Symmetrised,
    chain,
    checkerboard,
    initial_parameters,
    sharing,
    symmetry_group,
)
from tnvmc.ansatz.initial import noise_on_all
from tnvmc.ansatz.neural import NETWORKS
from tnvmc.lattice import GRIDS
from tnvmc.operators import models
from tnvmc.operators.symmetry import known_signs
from tnvmc.sampling.configurations import in_sector
from tnvmc.series.machine import KINDS
from tnvmc.session import vmc as session
from tnvmc.settings.build import SAMPLERS, build_ansatz, build_sampler, build_theta
from tnvmc.settings.config import DEFAULT_SAMPLES, Settings, build_operator
from tnvmc.settings.defaults import complete
from tnvmc.settings.load import read_toml, validate
from tnvmc.settings.stages import stages_of

FILES = [  # classes that a file names: tests/settings/test_own_state.py
    path
    for path in sorted((Path(__file__).parents[2] / "scripts").glob("*.toml"))
    if "module =" not in path.read_text(encoding="utf-8")
]
SLOW_STARTS = 500
"""Parameters without sharing above which simple update takes its time: theta is zero then."""

Table = Mapping[str, Any]


def runs_in(path: Path) -> Iterator[tuple[str, Table, Settings]]:
    """What a file says of each of its runs, and the settings that are made of it.

    Of stages the last one; of a scan and of several starts or seeds the first run.
    """
    data = read_toml(path)
    data.setdefault("run", {})["device"] = "cpu"
    kind = next((kind for kind in KINDS if kind.requested(data)), None)
    if kind is None:
        last = data.get("stage", [{}])[-1]
        asked = {**data, "ansatz": {**data.get("ansatz", {}), **last}}
        yield path.stem, asked, complete(validate(data))
        return
    series = kind.expand(data, path.stem)
    own = data.get("sector", data.get("ansatz"))
    own = own if isinstance(own, list) else [{}]
    runs = ((name, run) for name, run in series.runs.items() if ", seed=" not in name)
    for (name, settings), table in zip(runs, own, strict=False):
        shared = data["ansatz"] if isinstance(data.get("ansatz"), dict) else {}
        last = data.get("stage", [{}])[-1]
        own = {"scan", "average"} & set(data)
        couplings = settings.as_dict()["hamiltonian"] if own else data["hamiltonian"]
        asked = {**data, "ansatz": {**shared, **last, **table}, "hamiltonian": couplings}
        yield f"{path.stem}: {name}", asked, settings


def operator_of(data: Table) -> Operator:
    about, couplings = dict(data["lattice"]), dict(data["hamiltonian"])
    kind, shape = about.pop("kind", "square"), np.ravel(about.pop("shape"))
    lattice = (chain if kind == "chain" else GRIDS[kind])(*map(int, shape), **about)
    sampler = data.get("sampler", {})
    couplings |= {key: sampler[key] for key in ("particles",) if key in sampler}
    model: Operator = getattr(models, couplings.pop("model"))(lattice, **couplings)
    return model


def state_of(asked: Table, operator: Operator, **scheme: Any) -> Any:
    """The wave function of a table, by what a user of Python writes."""
    lattice, asked = operator.lattice, dict(asked)
    kind, symmetrise = asked.pop("kind", "peps"), asked.pop("symmetrise", None)
    if symmetrise:
        inner = state_of({"kind": kind, **asked}, operator, **scheme)
        group = symmetry_group(operator, symmetrise, asked.get("characters"))
        return Symmetrised(inner, group)
    if kind == "product_of_states":
        first = {"dtype": asked["dtype"], **asked["first"]} if "dtype" in asked else asked["first"]
        second = asked["second"]
        second = {"marshall": False, **second} if second["kind"] in NETWORKS else second
        second = {"sharing": False, **second} if second["kind"] == "rbm" else second
        return ProductOfStates(state_of(first, operator), state_of(second, operator))
    if kind == "slater":
        particles = operator.strings.particles(operator.magnetisation)  # type: ignore[union-attr,arg-type]
        return Slater(lattice, particles, asked.get("dtype", "float64"))
    if kind == "jastrow":
        return Jastrow(lattice)
    if kind in NETWORKS:
        return network_of(kind, asked, operator)
    if kind == "mps":
        return MPS(lattice, asked["D"])
    given = {key: asked[key] for key in ("bonds",) if key in asked}
    if asked.get("sharing") or "edge" in asked:
        given["sharing"] = sharing(
            operator, bonds=asked.get("bonds", "open"), edge=asked.get("edge")
        )
    elif "sharing" in asked or "init" in asked:
        given["sharing"] = None
    return PEPS(lattice, D=asked["D"], local_dim=operator.local_dim, **scheme, **given)


def network_of(kind: str, asked: Mapping[str, Any], operator: Operator) -> Any:
    from tnvmc.ansatz.neural.flax import FlaxAnsatz

    asked, make = dict(asked), NETWORKS[kind].load()
    lattice, average = operator.lattice, asked.pop("average", None)
    marshall, positive = known_signs(operator)
    signs = checkerboard(lattice) if asked.pop("marshall", marshall) else None
    if kind == "rbm":
        asked.setdefault("dtype", "float64" if positive else "complex128")
        n_images = len(symmetry_group(operator, ("point", "translation")))
        shares = positive and not average and 1 < n_images <= lattice.n_sites
        few = lattice.n_sites <= 36
        asked.setdefault("alpha", 4 if asked.setdefault("sharing", shares) and few else 2)
    else:
        asked.setdefault("output", "real" if positive else "complex")
    group = symmetry_group(operator, average) if average else None
    of_stages = {"steps", "n_samples", "learning_rate", "final_learning_rate", "momentum"}
    of_stages.add("diag_shift")
    for key in ("name", "freeze", *of_stages):
        asked.pop(key, None)
    if NETWORKS[kind].autoregressive and operator.conserves_magnetisation:
        asked["magnetisation"] = 0
    return FlaxAnsatz(
        lattice, lambda rngs: make(lattice, **asked, rngs=rngs), signs=signs, group=group
    )


def vmc_of(data: Table) -> VMC:
    """The run of a file by what a user of Python writes: what it leaves out is left out."""
    operator, asked = operator_of(data), data["ansatz"]
    chi = asked.get("chi") or data.get("contraction", {}).get("chi")
    state = state_of(asked, operator, **({"scheme": SRC(chi)} if chi else {}))
    drawn = dict(data.get("sampler", {}))
    drawn |= {"n_samples": asked["n_samples"]} if "n_samples" in asked else {}
    if drawn.get("n_samples") == "auto":
        drawn["n_samples"] = DEFAULT_SAMPLES
    kind = NETWORKS.get(asked.get("kind", "peps"))
    default = "direct" if kind is not None and kind.autoregressive else "metropolis"
    sampler: Any = SAMPLERS[drawn.pop("kind", default)]
    drawn = {key: value for key, value in drawn.items() if key in sampler.__dataclass_fields__}
    return VMC(operator, state, sampler(**drawn), magnetisation=asked.get("magnetisation"))


def _slow(kind: str) -> list[Any]:
    return [pytest.mark.whole] if kind in NETWORKS else []


def _marked(path: Path) -> Any:
    compiles = any(f'kind = "{kind}"' in path.read_text(encoding="utf-8") for kind in NETWORKS)
    return pytest.param(path, id=path.stem, marks=[pytest.mark.whole] if compiles else [])


@pytest.mark.parametrize("path", [_marked(path) for path in FILES])
def test_python_and_file_make_the_same_state(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = session.initial_parameters

    def start(ansatz: Any, *more: Any) -> Any:
        evolved = ansatz.starts[:1] == ("simple_update",) and ansatz.n_params > SLOW_STARTS
        return np.zeros(ansatz.n_params) if evolved else make(ansatz, *more)

    monkeypatch.setattr(session, "initial_parameters", start)
    for name, data, settings in runs_in(path):
        vmc, operator = vmc_of(data), build_operator(settings)
        state = build_ansatz(settings, operator).for_operator(operator)
        assert vmc.ansatz.n_params == state.n_params, name
        one_row = operator.lattice.shape[0] == 1  # which no scheme truncates
        assert one_row or vmc.ansatz.scheme == state.scheme, name
        used, built = vmc.method.sampler, build_sampler(settings, operator)
        assert {**vars(used), "magnetisation": None} == {**vars(built), "magnetisation": None}
        networks = any(each.is_network for each in settings.ansatz.single_states.values())
        if not networks:  # which tell how they were made
            assert vmc.ansatz.description() == state.description(), name
        first = stages_of(settings)[0].settings
        opening = dict(data["ansatz"])
        if settings.stage:
            own = {key: value for key, value in data["stage"][0].items() if key != "kind"}
            opening |= own
            opening |= {} if networks else {"sharing": settings.ansatz.sharing}
        if "/" in opening.get("init", "") or "time" in data:  # of another run, or `[time]`
            continue
        python = vmc_of({**data, "ansatz": opening}) if settings.stage else vmc
        if python.theta.any():
            seeded = first.changed({"run": {"seed": 0}})  # each run of a series has its own
            built_state = build_ansatz(seeded, operator).for_operator(operator)
            theta = build_theta(seeded, operator, built_state)
            assert np.array_equal(python.theta, theta), name


STATES: dict[str, Callable[[Operator], Any]] = {
    "peps": lambda operator: PEPS(operator.lattice, 2),
    "mps": lambda operator: MPS(operator.lattice, 2),
    "periodic_mps": lambda operator: PeriodicMPS(operator.lattice, 2),
    "product": lambda operator: ProductState(operator.lattice),
    "jastrow": lambda operator: Jastrow(operator.lattice),
    **{
        kind: lambda operator, kind=kind: network_of(kind, {}, operator)  # type: ignore[misc]
        for kind in NETWORKS
    },
}
"""What a user of Python writes of each kind; where it has bonds, of D = 2."""


@pytest.mark.parametrize("noise", [None, 0.05])
@pytest.mark.parametrize("kind", [pytest.param(k, marks=_slow(k)) for k in STATES])
def test_every_kind_starts_as_in_a_file(kind: str, noise: float | None) -> None:
    """From each start that it has, with and without noise."""
    shape: Any = {"kind": "chain", "shape": 4} if "mps" in kind else {"shape": [4, 4]}
    data = {"lattice": shape, "hamiltonian": {"model": "heisenberg"}}
    operator = operator_of(data)
    state = STATES[kind](operator)
    about: dict[str, Any] = {"kind": kind} | ({"D": 2} if hasattr(state, "D") else {})
    for init in (None, *state.starts):
        given = {"init": init, "init_noise": noise}
        asked = about | {key: value for key, value in given.items() if value is not None}
        settings = complete(validate({**data, "ansatz": asked}))
        built = build_ansatz(settings, operator)
        theta = initial_parameters(state, in_sector(operator, 0), 0, init)
        theta = theta if noise is None else noise_on_all(theta, noise, 0)
        assert (built.n_params, built.dtype) == (state.n_params, state.dtype)
        assert np.array_equal(build_theta(settings, operator, built), theta), init
