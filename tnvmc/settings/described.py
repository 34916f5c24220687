"""From objects to settings: what config.toml says of a run that was made in Python.

Every part says how it was made: a Hamiltonian its model and couplings, a group its symmetries, a
wave function what makes it again.  What settings make of that is compared with the objects: so no
file says that it can make a state that it cannot.
"""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from tnvmc.ansatz.files import listed
from tnvmc.ansatz.peps.starts.initial import AUTO
from tnvmc.ansatz.protocol import Ansatz, chi_of
from tnvmc.ansatz.wrappers.symmetrised import inner_state
from tnvmc.backend.namespace import array_namespace, is_gpu
from tnvmc.lattice import Lattice
from tnvmc.operators.properties import fingerprint, particles_of
from tnvmc.optimize.pace import Paced
from tnvmc.optimize.rule import Rule
from tnvmc.settings.build import (
    RULES,
    SAMPLERS,
    build_ansatz,
    build_optimizer,
    build_sampler,
    build_schedule,
)
from tnvmc.settings.config import SECTIONS, SamplerSettings, Settings, build_operator
from tnvmc.settings.defaults import complete
from tnvmc.settings.load import validate
from tnvmc.settings.model_settings import build_lattice
from tnvmc.settings.optimizer_settings import SRSettings
from tnvmc.settings.problems import ConfigError
from tnvmc.storage.run_files import OWN_PARTS
from tnvmc.vmc.controllers import GrowingChi, GrowingSamples, paced
from tnvmc.vmc.core import Made

Section = dict[str, Any]

_FROM_THE_FILE = (
    ("ansatz", "init"), ("ansatz", "init_noise"), ("optimizer", "plateau"),
    ("optimizer", "seconds"),
)  # fmt: skip
"""What no object says, and a file that is there already does."""

_STATES = {
    "PEPS": "peps", "PeriodicMPS": "periodic_mps", "ProductState": "product",
    "Jastrow": "jastrow", "Slater": "slater",
}  # fmt: skip


def described(
    vmc: Made, out: str, steps: int, *, init: str | None = None,
    measure: Mapping[str, Any] | None = None, before: Mapping[str, Any] | None = None,
) -> Section:  # fmt: skip
    """Give the content of config.toml for a VMC.

    Where settings make the same VMC it is what ``tnvmc run`` would have written.  Else it has a
    section [python], whose key `own` names the parts that settings do not describe (out of
    "lattice", "hamiltonian", "ansatz", "sampler", "optimizer", "learning_rate", "moves", "configs",
    "orthogonal_to"), and the other sections say what can be said.

    `steps` are made and still to be made; `init` is the file of given parameters; `measure` is the
    section [measure], None that of `before`, what the file says of a run that goes on.
    """
    before = before or {}
    content = _sections(vmc, out, steps, init)
    content["measure"] = dict(before.get("measure", {}) if measure is None else measure)
    for section, name in _FROM_THE_FILE:
        if name in before.get(section, {}):
            content[section][name] = before[section][name]
    content = {name: _plain(section) for name, section in content.items() if section}
    try:
        settings = complete(validate(content))
        content, own = settings.as_dict(), _differing(vmc, settings)
    except ConfigError as error:
        own = list(dict.fromkeys(each.key.strip("[]").split(".")[0] for each in error.problems))
    except ValueError:
        own = ["settings"]
    own += ["moves"] if vmc.given.moves is not None else []
    own += ["configs"] if vmc.given.configs else []
    own += ["orthogonal_to"] if vmc.method.orthogonal_to else []
    if own:
        facts = {"own": own, "n_sites": vmc.operator.n_sites, "units": vmc.operator.units}
        content = _plain(content) | {OWN_PARTS: facts}
    return content


def _plain(value: Any) -> Any:
    """Without what TOML has no word for."""
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items() if v is not None}
    return [_plain(v) for v in value] if isinstance(value, list | tuple) else value


def _sections(vmc: Made, out: str, steps: int, init: str | None) -> dict[str, Section]:
    method, operator = vmc.method, vmc.operator
    sampler: Any = method.sampler
    on_gpu = is_gpu(array_namespace(vmc.state.here.theta))
    made_of = getattr(sampler, "__dataclass_fields__", {})
    drawn = {k: getattr(sampler, k) for k in SamplerSettings.model_fields if k in made_of}
    if vmc.state.controller(GrowingSamples):
        drawn["n_samples"] = "auto"
    scheme, contraction = vmc.ansatz.scheme, Section()
    if scheme is not None:
        chi = "auto" if vmc.state.controller(GrowingChi) else chi_of(vmc.ansatz)
        contraction = {"scheme": type(scheme).__name__.lower(), "chi": chi}
    sector = method.problem.magnetisation
    particles = particles_of(operator, sector)
    return {
        "lattice": _lattice(operator.lattice),
        "hamiltonian": {"model": operator.name, **(operator.couplings or {})},
        "ansatz": _symmetrised(vmc.ansatz) | _ansatz(inner_state(vmc.ansatz), init),
        "contraction": contraction,
        "sampler": {
            **drawn, "kind": _name_in(SAMPLERS, sampler),
            "magnetisation": None if particles else sector, "particles": particles,
        },
        "optimizer": {"steps": steps, **_optimizer(method.rule), **_rate(_rate_of(vmc))},
        "run": {
            "seed": method.problem.seed, "out": out, "device": "gpu" if on_gpu else "cpu",
            "threads": sampler.threads,
        },
    }  # fmt: skip


def _name_in(table: Mapping[str, type], value: Any) -> str:
    """The word for a class in a file; its name where there is none."""
    kind = type(value)
    return next((name for name, known in table.items() if known is kind), kind.__name__)


def _lattice(lattice: Lattice) -> Section:
    rows, columns = map(int, lattice.shape)
    parts = listed(lattice)
    if parts is None:
        shape: Any = columns if lattice.kind == "chain" else [rows, columns]
        return {"kind": lattice.kind, "shape": shape, "boundary": lattice.boundary}
    shape = columns if lattice.kind == "graph" else [rows, columns]
    if tuple(parts["bonds"]) == ("nearest",):
        parts["bonds"] = parts["bonds"]["nearest"]
    return {"kind": "bonds", "shape": shape, **parts}


def _symmetrised(state: Any) -> Section:
    """The symmetries that a state is summed over, where they have names."""
    group = state.group
    if group is None or not group.asked:
        return {}
    odd = {g.name: -1 for g in group.elements if g.character == -1}
    return {"symmetrise": list(group.asked), "characters": odd}


def _ansatz(state: Any, init: str | None) -> Section:
    """The table of a state, by what makes it again."""
    about, made = state.description(), state.rebuild() or {}
    kind = about["ansatz"]
    found: Section = {"init": init or (AUTO if kind == "PEPS" else (*state.starts, "random")[0])}
    if kind == "ProductOfStates":
        found |= {"kind": "product_of_states", "init": init or "factors", "sweeps": state.sweeps}
        found["dtype"] = str(np.dtype(state.dtype))
        found |= {part: _plain(_ansatz(getattr(state, part), None)) for part in ("first", "second")}
    elif kind == "FlaxAnsatz":
        network = about["architecture"]
        keys = SECTIONS["ansatz"][network["kind"]].model_fields if "kind" in network else network
        found |= {key: value for key, value in network.items() if key in keys}
        found["freeze"] = list(state.freeze)
    else:
        found["kind"] = _STATES.get(kind, kind)
        no_keys = ("fields", "particles", "scheme")
        found |= {name: value for name, value in made.items() if name not in no_keys}
        if "sharing" in made:
            found["sharing"] = state.sharing is not None
        if state.sharing is not None and state.sharing.edge is not None:
            found |= {"edge": state.sharing.edge, "period": state.sharing.period}
    return found


def _optimizer(rule: Rule) -> Section:
    inner: Any = getattr(rule, "rule", rule)  # of one that is paced
    found = {name: getattr(inner, name) for name in SRSettings.model_fields if hasattr(inner, name)}
    return {"kind": _name_in(RULES, inner), **found}


def _rate(given: Any) -> Section:
    if hasattr(given, "end"):
        return {"learning_rate": given.start, "final_learning_rate": given.end}
    if callable(given):
        return {}
    return {"learning_rate": given, "final_learning_rate": None if given == "auto" else given}


def _rate_of(vmc: Made) -> Any:
    """A number, "auto", a schedule or a function."""
    paced_rule = isinstance(vmc.method.rule, Paced)
    return "auto" if paced_rule else getattr(vmc.method.schedule, "given", vmc.method.schedule)


def _differing(vmc: Made, settings: Settings) -> list[str]:
    """Name the parts of a VMC that settings make in another way."""
    operator, method = build_operator(settings), vmc.method
    if build_lattice(settings.lattice) != vmc.operator.lattice:
        return ["lattice", "hamiltonian"]
    if (fingerprint(operator), operator.units) != (fingerprint(vmc.operator), vmc.operator.units):
        return ["hamiltonian"]
    rule = build_optimizer(settings.optimizer)
    if getattr(inner_state(vmc.ansatz), "shared", None) is not None:
        rule = rule.for_shared_tensors(vmc.ansatz.n_params)
    rule = paced(rule, operator) if _rate_of(vmc) == "auto" else rule
    same = {
        "ansatz": _same_state(build_ansatz(settings, operator), vmc.ansatz),
        "sampler": _same_sampler(build_sampler(settings, operator), vmc),
        "optimizer": rule == method.rule,
        "learning_rate": build_schedule(settings.optimizer) == _rate_of(vmc),
    }
    return [name for name, is_same in same.items() if not is_same]


def _same_state(built: Ansatz, used: Ansatz) -> bool:
    inner = inner_state(built), inner_state(used)
    return _facts(built) == _facts(used) and _facts(inner[0]) == _facts(inner[1])


def _facts(state: Any) -> tuple[Any, ...]:
    """All that tells states apart; a scheme counts as given, so that `rebuild` has it."""
    state = state if state.scheme is None else state.with_scheme(state.scheme)
    numbers = state.n_params, state.local_dim, str(state.dtype), getattr(state, "reweight", None)
    return type(state), state.description(), state.rebuild(), state.scheme, numbers


def _same_sampler(built: Any, vmc: Made) -> bool:
    used: Any = vmc.method.sampler
    if type(built) is not type(used):
        return False
    apart = {"magnetisation"}
    apart |= {"n_samples"} if vmc.state.controller(GrowingSamples) else set()
    apart |= {"by_orbit"} if vmc.method.orthogonal_to else set()  # which has all configurations
    one, other = ({**asdict(each), **dict.fromkeys(apart)} for each in (built, used))
    return bool(one == other)
