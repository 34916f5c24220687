"""From objects to settings: what config.toml says of a run that was made in Python.

The settings are built again and compared with the objects, part by part.  What does not come out
the same is a part of the user's own, and is named: no file says that it can make a state that it
cannot.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from tnvmc.ansatz.jastrow import Jastrow
from tnvmc.ansatz.mps import PeriodicMPS
from tnvmc.ansatz.neural import NETWORKS
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.product import DimerCovering, ProductState
from tnvmc.ansatz.protocol import Ansatz, chi_of
from tnvmc.ansatz.wrappers.product_of_states import ProductOfStates
from tnvmc.ansatz.wrappers.symmetrised import Symmetrised, inner_state
from tnvmc.backend.namespace import array_namespace, is_gpu
from tnvmc.contraction import schemes
from tnvmc.lattice import GRIDS, Lattice
from tnvmc.operators import models
from tnvmc.operators.symmetry import NAMES, symmetry_group
from tnvmc.operators.term import Operator
from tnvmc.optimize import schedules
from tnvmc.optimize.conjugate_gradients import ConjugateGradients
from tnvmc.optimize.first_order import Adam, GradientDescent, RandomSign
from tnvmc.optimize.pace import Paced
from tnvmc.optimize.rule import Rule
from tnvmc.optimize.solve import Cholesky
from tnvmc.optimize.sr import SR
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.direct import DirectSampler
from tnvmc.sampling.enumerate import Enumerate
from tnvmc.settings.config import SECTIONS, SamplerSettings, Settings, default_chi
from tnvmc.settings.defaults import complete
from tnvmc.settings.load import validate
from tnvmc.settings.made_again import differing, given_rate
from tnvmc.settings.model_settings import MODELS
from tnvmc.settings.own_parts import OWN_PARTS
from tnvmc.vmc.controllers import GrowingChi, GrowingSamples
from tnvmc.vmc.core import Made

Section = dict[str, Any]

_KEPT = (
    ("run", "checkpoint_every"), ("ansatz", "init"), ("ansatz", "init_noise"), ("optimizer", "plateau"), ("optimizer", "seconds"),
)  # fmt: skip
"""What no object tells, and a file that is there already does."""

_SOLVERS = {
    type(None): "auto", Cholesky: "cholesky", ConjugateGradients: "conjugate_gradients",
}  # fmt: skip
_RULES = {SR: "sr", GradientDescent: "gradient", RandomSign: "random_sign", Adam: "adam"}
_SCHEMES = {schemes.SRC: "src", schemes.ZipUp: "zipup", schemes.Exact: "exact"}
_STATES = {
    PEPS: "peps", PeriodicMPS: "periodic_mps", ProductState: "product", DimerCovering: "dimer",
    Jastrow: "jastrow",
}  # fmt: skip


@dataclass(frozen=True)
class Told:
    """What a file is to say beside the parts of a VMC."""

    out: str  #: the folder
    steps: int  #: made and still to be made
    init: str | None = None  #: file of the parameters to start from, where they were given
    measure: Mapping[str, Any] | None = None  #: the section [measure]
    before: Mapping[str, Any] = field(
        default_factory=dict
    )  #: what the file says of a run that goes on


def described(vmc: Made, told: Told) -> dict[str, Any]:
    """Give the content of config.toml for a VMC.

    Where settings make the same VMC it is what ``tnvmc run`` would have written.  Else it has a
    section [python], whose key `own` names the parts that settings do not describe (out of
    "lattice", "hamiltonian", "ansatz", "sampler", "optimizer", "learning_rate", "moves",
    "configs", "orthogonal_to", "settings"), and the other sections say what can be said.
    """
    rough = _sections(vmc, told)
    settings: Settings | None = None
    try:
        settings = complete(validate(rough))
        own = differing(vmc, settings)
    except ValueError:
        own = _undescribed(vmc, rough) or ["settings"]
    if vmc.given.configs:
        own.append("configs")
    if vmc.method.orthogonal_to:
        own.append("orthogonal_to")
    content = rough if settings is None else settings.as_dict()
    if own:
        content = _plain(content) | {OWN_PARTS: _facts(vmc, own)}
    return content


def _facts(vmc: Made, own: list[str]) -> Section:
    return {"own": own, "n_sites": vmc.operator.n_sites, "units": vmc.operator.units}


def _plain(value: Any) -> Any:
    """Without what TOML has no word for."""
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items() if v is not None}
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value


def _sections(vmc: Made, told: Told) -> Section:
    xp, method = array_namespace(vmc.state.here.theta), vmc.method
    device, seed = "gpu" if is_gpu(xp) else "cpu", method.problem.seed
    run = {"seed": seed, "out": told.out, "device": device}
    if method.sampler.threads is not None:
        run["threads"] = method.sampler.threads
    found: Section = {
        "lattice": _lattice(vmc.operator.lattice),
        "hamiltonian": _hamiltonian(vmc.operator),
        "ansatz": _symmetrised(vmc) | _ansatz(inner_state(vmc.ansatz), told.init),
        "contraction": _contraction(vmc),
        "sampler": _sampler(vmc),
        "optimizer": {"steps": told.steps, **_optimizer(method.rule), **_rate(vmc)},
        "run": run,
    }
    if told.measure is not None:
        found["measure"] = dict(told.measure)
    for section, name in _KEPT:
        if name in told.before.get(section, {}):
            found[section][name] = told.before[section][name]
    return {name: _plain(section) for name, section in found.items() if section}


def _lattice(lattice: Lattice) -> Section:
    shape = list(map(int, lattice.shape))
    if lattice.kind == "chain":
        return {"kind": "chain", "shape": shape[1], "boundary": lattice.boundary}
    if lattice.kind in GRIDS:
        return {"kind": lattice.kind, "shape": shape, "boundary": lattice.boundary}
    given = lattice.directions or lattice.bonds
    bonds: Any = {kind: [list(map(int, bond)) for bond in pairs] for kind, pairs in given.items()}
    size: Any = shape[1] if lattice.kind == "graph" else shape
    found = {"kind": "bonds", "shape": size}
    found["bonds"] = bonds["nearest"] if tuple(bonds) == ("nearest",) else bonds
    if lattice.coordinates is not None:
        found["coordinates"] = lattice.positions().tolist()
    if lattice.vacant:
        found["vacant"] = list(lattice.vacant)
    return found


def _hamiltonian(operator: Operator) -> Section:
    if operator.name not in MODELS:
        return {"model": operator.name}
    couplings = operator.couplings
    if couplings is None:
        couplings = _place_by_place(operator)
    return {"model": operator.name, **couplings}


def _place_by_place(operator: Operator) -> dict[str, Any]:
    """Couplings of a model that differ from place to place, out of its terms; empty where it has
    others.

    Each is a matrix element over that of coupling 1, which is a power of two or, of V, 1 at
    distance 1: so they come out as they were given, to the last bit.
    """
    model = getattr(models, operator.name)
    names = [name for name in inspect.signature(model).parameters if name != "lattice"]
    held: dict[tuple[int, ...], Any] = {}
    for term in operator.terms:
        held[term.sites] = held.get(term.sites, 0.0) + term.matrix
    found: dict[str, Any] = {}
    for name in names:
        unit = model(operator.lattice, **{each: float(each == name) for each in names})
        values = []
        for term in unit.terms:
            place = int(np.abs(term.matrix).argmax())
            size = float(term.matrix.flat[place])
            if size == 0 or name == "V" and size != 1:
                continue
            if term.sites not in held:
                return {}
            values.append(float(held[term.sites].flat[place].real) / size)
        if values:
            found[name] = values[0] if len(set(values)) == 1 else values
    return found


def _symmetrised(vmc: Made) -> Section:
    """The symmetries that a state is summed over; nothing where they have no names in a file."""
    state = vmc.ansatz
    if not isinstance(state, Symmetrised):
        return {}
    found: Section = {"reweight": state.reweight}
    found["characters"] = {g.name: -1 for g in state.group.elements if g.character == -1}
    for names in (part for k in (1, 2, 3) for part in combinations(NAMES, k)):
        with suppress(ValueError):
            group = symmetry_group(vmc.operator, names, found["characters"])
            if set(group.elements) == set(state.group.elements):
                return found | {"symmetrise": list(names)}
    return {}


def _ansatz(ansatz: Ansatz, init: str | None) -> Section:
    if isinstance(ansatz, ProductOfStates):
        return _product(ansatz, init)
    about = ansatz.description()
    network = about.get("architecture", {})
    starts = getattr(ansatz, "starts", ("random",))
    found: Section = {"kind": _STATES.get(type(ansatz), type(ansatz).__name__)}
    if isinstance(ansatz, Jastrow):
        found |= {"dtype": str(np.dtype(ansatz.dtype)), "pairs": ansatz.pairs}
    elif network.get("kind") in NETWORKS:
        known = SECTIONS["ansatz"][network["kind"]].model_fields
        found = {key: value for key, value in network.items() if key in known}
        found["freeze"] = list(getattr(ansatz, "freeze", ()))
        if found.get("magnetisation", 0) is None:
            found["magnetisation"] = False
    else:
        dtype = getattr(ansatz, "dtype", None)
        found["dtype"] = None if dtype is None else str(dtype)
        if not isinstance(ansatz, ProductState | DimerCovering):
            found["D"] = getattr(ansatz, "D", None)
        if isinstance(ansatz, PEPS):
            found["bonds"] = ansatz.bonds
            found["sharing"] = ansatz.sharing is not None
            if ansatz.sharing and ansatz.sharing.edge is not None:
                found |= {"edge": ansatz.sharing.edge, "period": ansatz.sharing.period}
    found["init"] = starts[0] if init is None else init
    return found


def _product(ansatz: ProductOfStates, init: str | None) -> Section:
    """The tables of both states."""
    found: Section = {"kind": "product_of_states", "init": init or "factors"}
    found |= {"dtype": str(np.dtype(ansatz.dtype)), "sweeps": ansatz.sweeps}  # type: ignore[attr-defined]
    parts = {"first": ansatz.first, "second": ansatz.second}
    return found | {name: _plain(_ansatz(state, None)) for name, state in parts.items()}


def _contraction(vmc: Made) -> Section:
    ansatz = vmc.ansatz
    scheme = getattr(ansatz, "scheme", None)
    if type(scheme) not in _SCHEMES:
        return {}
    most = chi_of(ansatz)
    found = {"scheme": _SCHEMES[type(scheme)], "chi": most}
    if vmc.state.controller(GrowingChi) is not None:
        found["chi"] = "auto"
        if most != default_chi(ansatz.description().get("D") or 1):
            found["largest_chi"] = most
    return found


def _sampler(vmc: Made) -> Section:
    sampler: Any = vmc.method.sampler
    kinds = {Sampler: "metropolis", DirectSampler: "direct", Enumerate: "enumerate"}
    found: Section = {"kind": kinds.get(type(sampler), type(sampler).__name__)}
    for name in SamplerSettings.model_fields:
        takes = type(sampler) is Sampler or name in ("n_samples", "chunk")
        if name not in ("kind", "magnetisation", "moves") and takes and hasattr(sampler, name):
            found[name] = getattr(sampler, name)
    if vmc.state.controller(GrowingSamples) is not None:
        found["n_samples"] = "auto"
    found["magnetisation"] = vmc.method.problem.magnetisation
    moves = vmc.given.moves
    if moves is not None and not isinstance(moves, Mapping):
        found["moves"] = list(moves)
    return found


def _optimizer(rule: Rule) -> Section:
    inner: Any = rule.rule if isinstance(rule, Paced) else rule
    found: Section = {"kind": _RULES.get(type(inner), type(inner).__name__)}
    if isinstance(inner, SR):
        names = ("diag_shift", "memory", "momentum", "reach", "precision")
        found |= {name: getattr(inner, name) for name in names}
        if type(inner.solver) in _SOLVERS:  # another one has no name in a file
            found["solver"] = _SOLVERS[type(inner.solver)]
    return found


def _rate(vmc: Made) -> Section:
    if isinstance(vmc.method.rule, Paced):
        return {"learning_rate": "auto"}
    given = given_rate(vmc.method.schedule)
    if isinstance(given, schedules.Cosine | schedules.Exponential):
        falls = {"learning_rate": given.start, "final_learning_rate": given.end}
        return {**falls, "schedule": type(given).__name__.lower()}
    if callable(given):
        return {}
    return {"learning_rate": given, "schedule": "constant"}


def _undescribed(vmc: Made, rough: Section) -> list[str]:
    """The parts that have no name in a file, where what is left of the settings makes no run."""
    from_a_model = len(rough["hamiltonian"]) > 1
    own = {
        "lattice": "bonds" not in rough["lattice"] and "boundary" not in rough["lattice"],
        "hamiltonian": not from_a_model,
        "ansatz": not all(
            kind in {*_STATES.values(), *NETWORKS} for kind in _kinds(rough["ansatz"])
        ),
        "sampler": type(vmc.method.sampler) not in (Sampler, DirectSampler, Enumerate),
        "optimizer": rough["optimizer"]["kind"] not in _RULES.values(),
        "moves": isinstance(vmc.given.moves, Mapping),
    }
    return [name for name, is_own in own.items() if is_own]


def _kinds(section: Section) -> list[Any]:
    """The kind of a state, of a product those of its states."""
    tables = [section[key] for key in ("first", "second") if key in section] or [section]
    return [table["kind"] for table in tables]
