"""`tnvmc measure`: the observables of a run's state, with error bars, into observables.json.

A measurement has parts: what every sample is measured for ("samples": energy, bonds, sites, Sz Sz),
S.S of all pairs ("pairs"), and operators of the user; `measured` in the file says how each was
measured.  A part that is not measured anew stays, where the state is the same.  What is of another
state, or better than what takes its place, is set aside in a file of its own.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from tnvmc._version import __version__
from tnvmc.ansatz.protocol import chi_of
from tnvmc.app.stages import check_overrides, plan_of, restored
from tnvmc.backend.arguments import whole
from tnvmc.backend.namespace import to_host
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.estimate.observable_set import ALL_PAIRS, ENERGY
from tnvmc.operators.order import OF_PAIRS, ORDERS, order_parameter
from tnvmc.operators.properties import fingerprint
from tnvmc.operators.term import Operator
from tnvmc.sampling.direct import DirectSampler
from tnvmc.sampling.enumerate import Enumerate
from tnvmc.session.lanczos import N_CONNECTED, LanczosStep, step_from
from tnvmc.session.observables import description, measured_observables, observables_of, of_terms
from tnvmc.session.vmc import VMC
from tnvmc.settings.build import chi_to_measure
from tnvmc.settings.config import Settings, build_operator
from tnvmc.settings.defaults import load_in_place
from tnvmc.settings.operator_file import read_operator
from tnvmc.settings.rules import check_symmetries
from tnvmc.storage.files import read_plain, write_atomically
from tnvmc.storage.hdf5 import attribute, opened
from tnvmc.storage.identity import parameters_hash
from tnvmc.storage.run_files import OBSERVABLES, read_run
from tnvmc.storage.run_folder import (
    CHECKPOINT,
    FolderError,
    check_run_folder,
    check_tied,
    disk_errors,
)
from tnvmc.storage.seals import PROVENANCE, sealed_json
from tnvmc.vmc import checkpoint
from tnvmc.vmc.core import Iterate
from tnvmc.vmc.measured_iterate import CODES, measured_iterate
from tnvmc.vmc.measurement import MeasurementPlan, equilibrated
from tnvmc.vmc.results import finite_or_none

Array = Any
Json = dict[str, Any]

SAME_STATE = ("step", "parameters", "magnetisation", "symmetry")
"""Keys of observables.json that tell states apart."""


@dataclass(frozen=True)
class Asked:
    """What the command line asks of a measurement; None is as in the run's own one."""

    n_samples: int | None = None
    chi: int | None = None
    pair_samples: int | None = None  #: of S.S of all pairs; 0 for none
    operators: tuple[str | Path, ...] = ()  #: files of operators of one's own, names of `ORDERS`
    overrides: tuple[str, ...] = ()  #: settings, ``section.key=value``
    direct: bool = False  #: independent draws with weights, whatever the run drew by
    enumerate: bool = False  #: all configurations, without noise

    def __post_init__(self) -> None:
        for name, least in {"n_samples": 1, "chi": 1, "pair_samples": 0}.items():
            if (value := getattr(self, name)) is not None:
                whole("measure", f"--{name.replace('_', '-')}", value, least)
        if self.direct and self.enumerate:
            raise ValueError("measure: --direct and --enumerate exclude each other; give one")

    @property
    def orders(self) -> list[str]:
        """The order parameters among the operators: names, of which there is no file."""
        names = map(str, self.operators)
        return [n for n in names if n in ORDERS or not (Path(n).suffix or Path(n).exists())]

    def drawn(self, settings: Settings) -> str:
        """Say how samples are drawn: "chains", "direct" or "enumerate"."""
        if self.direct:
            return "direct"
        kind = "enumerate" if self.enumerate else str(settings.sampler.kind)
        return "chains" if kind == "metropolis" else kind

    def samples(self, settings: Settings) -> int:
        """Give the number of samples of all that is cheap."""
        return self.n_samples or settings.measure.n_samples or 0


def measure_run(
    path: str | Path, asked: Asked = Asked(), tell: Callable[[Diagnostic], None] | None = None
) -> dict[str, Any]:
    """Measure the state of a run and write observables.json, whose content it gives.

    Args:
        path: of the folder.
        asked: `n_samples` and `chi` default to those of the run's own measurement; S.S of all pairs
            takes at most `PAIR_SAMPLES` / N of them, at the chi of the optimisation, unless told.
            With operators it is not measured again where the file holds it.
        tell: sees what stays of an earlier measurement (`observables_kept`), and what is set aside
            (`observables_set_aside`).

    Raises:
        FolderError: no run there, files of several runs, or no space left.
        StateFileError: no checkpoint, a damaged one, or one that does not fit config.toml.
        ConfigError, ValueError: settings, an operator file, a number of samples or a chi that
            cannot be.
    """
    started = perf_counter()
    path = Path(path)
    settings = _settings(path, asked)
    operator = build_operator(settings)
    check_symmetries(settings, operator, asked.direct)
    own = _own_operators(asked, operator)
    provenance = check_tied(path)
    vmc = restored(path, settings, operator).vmc
    if vmc.state.step != provenance.step:
        raise FolderError(f"{path}: {CHECKPOINT} was replaced meanwhile; try again")
    point, reasons = measured_iterate(vmc.method, vmc.state)
    reasons = reasons or tuple(_archived_reasons(path))
    there = replace(vmc.state, here=replace(point, configs=vmc.state.here.configs))
    state = {
        "parameters": parameters_hash(np.ascontiguousarray(to_host(point.theta))),
        "step": vmc.state.step,
        "magnetisation": vmc.problem.magnetisation,
        "symmetry": list(settings.measure.symmetrise),
    }
    held = read_run(path).observables
    has_pairs = held is not None and state_differs(state, held) is None and held["pair_samples"]
    others = asked.operators and OF_PAIRS.isdisjoint(asked.orders)
    if others and has_pairs and asked.pair_samples is None:
        asked = replace(asked, pair_samples=0)
    fresh = {
        "version": __version__,
        **state,
        **description(operator),
        "model": settings.hamiltonian.model,
        **_measured(vmc, equilibrated(vmc.method, there).here, reasons, settings, asked, own),
        "seconds": perf_counter() - started,
    }
    found = merged(finite_or_none(fresh), held)
    told = list(found.unchanged)
    with disk_errors(path):
        if found.aside is not None and held is not None:
            aside = _free_name(path, held["step"])
            write_atomically(aside, read_plain(path / OBSERVABLES))
            values = {"file": aside.name, "reason": found.aside, "step": held["step"]}
            told.append(Diagnostic("observables_set_aside", "good", values))
        content = {**found.content, PROVENANCE: provenance.as_dict()}
        write_atomically(path / OBSERVABLES, sealed_json(content))
    if tell is not None:
        for each in told:
            tell(each)
    return found.content


def lanczos_run(path: str | Path, asked: Asked) -> LanczosStep:
    """Make a Lanczos step from the state of a run, by a quarter of its samples; write nothing.

    Raises:
        FolderError, ValueError: as `measure_run`; parts of a measurement that it has not.
    """
    path = Path(path)
    settings = _settings(path, asked)
    check_tied(path)
    vmc = restored(path, settings).vmc
    if asked.operators or asked.pair_samples is not None:
        left = "omit --operator, --pair-samples and --no-pairs"
        raise ValueError(f"measure: --lanczos gives an energy and nothing else; {left}")
    n_samples = asked.n_samples or -(-asked.samples(settings) // 4)
    return step_from(vmc, _plan(asked, settings, vmc, n_samples), N_CONNECTED)


def _settings(path: Path, asked: Asked) -> Settings:
    """The settings of a run whose state can be measured."""
    check_run_folder(path)
    if not (path / CHECKPOINT).is_file():
        raise FolderError(f"{path}: holds no state to measure ({CHECKPOINT} is missing)")
    check_overrides(path, asked.overrides)
    if any(each.split("=")[0].strip() == "measure.error" for each in asked.overrides):
        told = "measure.error is of the energy at the end of a run; take --n-samples here"
        raise FolderError(f"{path}: {told}")
    return load_in_place(path, asked.overrides)


def _own_operators(asked: Asked, operator: Operator) -> tuple[Operator, ...]:
    """Those of the files, as "real part of NAME" and so on of one that is not Hermitian."""
    kind = operator.fermions or operator.local_dim
    for name in asked.orders:  # refused before anything is drawn
        order_parameter(name, operator.lattice, operator.local_dim, operator.fermions)
    named = [file for file in asked.operators if str(file) not in asked.orders]
    files = [read_operator(Path(file), operator.lattice, kind) for file in named]
    return tuple(part for found in files for part in found.hermitian_parts)


def _archived_reasons(path: Path) -> Iterator[Diagnostic]:
    """Yield why the parameters of an archive are not those of the last step, as its result says."""
    with opened(path / CHECKPOINT) as file:
        if not attribute(file, "identity", {}).get(checkpoint.ARCHIVED):
            return
    result = read_run(path).result or {}
    for found in result.get("diagnostics") or ():
        if found["code"] in CODES:
            yield Diagnostic.from_dict(found)


def _plan(asked: Asked, settings: Settings, vmc: VMC, n_samples: int) -> MeasurementPlan:
    """How samples are drawn and contracted; a chi is refused for a state that has none."""
    ansatz, sampler = vmc.problem.ansatz, vmc.method.sampler
    if asked.chi is not None and chi_of(ansatz) is None:
        raise ValueError(f"measure: --chi is {asked.chi}, and this state has none; omit it")
    sector, threads = settings.sampler.magnetisation, settings.run.threads
    if asked.direct:
        sampler = DirectSampler(n_samples, magnetisation=sector, threads=threads)
    elif asked.enumerate:
        sampler = Enumerate(sector, threads)
    plan = plan_of(settings, n_samples, asked.chi or chi_to_measure(settings, ansatz))
    return replace(plan, sampler=sampler)


def _measured(
    vmc: VMC, point: Iterate, reasons: Iterable[Diagnostic], settings: Settings, asked: Asked,
    own: tuple[Operator, ...],
) -> Json:  # fmt: skip
    """Draw the samples, and tell what they show and how they were drawn."""
    problem = vmc.problem
    method = _plan(asked, settings, vmc, asked.samples(settings)).applied(
        replace(vmc.method, problem=problem), point, vmc.state.step
    )
    # S.S of all pairs at the chi of the run, which costs less.
    scheme = problem.ansatz.scheme if asked.chi is None else None
    observables = observables_of(method.problem, own, asked.orders)
    found, blocks = measured_observables(
        method, point, observables, asked.pair_samples, scheme, reasons
    )

    def record(name: str, chi: int | None) -> Json:
        """How a part was measured."""
        of_part = blocks[name]
        return {
            "n_samples": of_part.n_samples,
            "effective_samples": of_part.effective_samples,
            "chi": chi,
            "scheme": settings.contraction.scheme,
            "drawn": asked.drawn(settings),
            "seed": problem.seed,
            "step": vmc.state.step,
            "diagnostics": [each.as_dict() for each in of_terms({name: of_part})],
        }

    samples = record(ENERGY, found["chi"])
    operators = {}
    for each in observables.own:
        chi = found["pair_chi" if each.name in OF_PAIRS else "chi"]
        operators[each.name] = record(f"operator {each.name}", chi)
        terms = getattr(each, "parts", (each,))
        operators[each.name]["fingerprint"] = " ".join(map(fingerprint, terms))
    pairs = record(ALL_PAIRS, found["pair_chi"]) if ALL_PAIRS in blocks else None
    measured = {"samples": samples, "pairs": pairs, "operators": operators}
    return {**found, "drawn": samples["drawn"], "scheme": samples["scheme"], "measured": measured}


@dataclass(frozen=True)
class Merged:
    """What observables.json is to hold, and what becomes of what it held."""

    content: Json
    unchanged: tuple[Diagnostic, ...] = ()  #: `observables_kept`: parts of earlier measurements
    aside: str | None = None  #: why the earlier file is set aside, as `state_differs`, or "better"


def merged(fresh: Json, held: Mapping[str, Any] | None) -> Merged:
    """Join a new measurement with what the file holds."""
    if held is None:
        return Merged(fresh)
    if (other := state_differs(fresh, held)) is not None:
        return Merged(fresh, aside=other)
    before, now = held["measured"], fresh["measured"]
    measured = {**now, "operators": {**before["operators"], **now["operators"]}}
    content = {**fresh, "measured": measured}
    content["operators"] = {**held["operators"], **fresh["operators"]}
    stays = {name: of for name, of in before["operators"].items() if name not in now["operators"]}
    if now["pairs"] is None and (pairs := before["pairs"]) is not None:
        measured["pairs"], stays = pairs, {ALL_PAIRS: pairs, **stays}
        for key in ("pair_samples", "pair_chi", "staggered_magnetisation_squared"):
            content[key] = held[key]
        for key in ("correlations", "structure_factor"):
            of_pairs = {name: value for name, value in held[key].items() if name == ALL_PAIRS}
            content[key] = {**fresh[key], **of_pairs}
    unchanged = []
    for name, record in stays.items():
        more = [each for each in record["diagnostics"] if each not in content["diagnostics"]]
        content["diagnostics"] = [*content["diagnostics"], *more]
        values = {"observable": name, **{key: record[key] for key in ("n_samples", "chi", "seed")}}
        unchanged.append(Diagnostic("observables_kept", "good", values))
    parts = [(now[part], before[part]) for part in ("samples", "pairs")]
    parts += [(new, before["operators"].get(name)) for name, new in now["operators"].items()]
    worse = any(new and old and _is_worse(new, old) for new, old in parts)
    return Merged(content, tuple(unchanged), "better" if worse else None)


def state_differs(fresh: Mapping[str, Any], held: Mapping[str, Any]) -> str | None:
    """Tell in what the state of a file differs: "step", ...; None: in nothing."""
    return next((key for key in SAME_STATE if held.get(key) != fresh[key]), None)


def _free_name(folder: Path, step: int) -> Path:
    """The place for a file that is set aside, with a number if need be."""
    place, number = folder / f"observables-step-{step}.json", 1
    while place.exists():
        number += 1
        place = folder / f"observables-step-{step}-{number}.json"
    return place


def _is_worse(new: Json, old: Json) -> bool:
    """Tell whether the old one has more samples or chi, or is of another operator."""
    if new.get("fingerprint") != old.get("fingerprint"):
        return True
    return _worth(new) < _worth(old) or (new["chi"] or 0) < (old["chi"] or 0)


def _worth(record: Json) -> float:
    """Samples; of an enumeration more than any number of them."""
    enumerated = record["drawn"] == "enumerate"
    return math.inf if enumerated else float(record["effective_samples"] or record["n_samples"])
