"""`tnvmc measure`: the observables of a run's state, with error bars, into observables.json.

A measurement has parts: what every sample is measured for ("samples": energy, bonds, sites, Sz Sz),
S.S of all pairs ("pairs"), and operators of the user; `measured` in the file says how each was
measured.  A part that is not measured anew stays, where the state is the same.  What is of another
state, or better than what takes its place, is set aside in a file of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from tnvmc._version import __version__
from tnvmc.ansatz.protocol import chi_of
from tnvmc.app.stages import check_overrides, plan_of, restored
from tnvmc.backend.namespace import to_host
from tnvmc.estimate.blocks import Blocks
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.estimate.observable_set import ALL_PAIRS, ENERGY, ObservableSet
from tnvmc.operators.properties import fingerprint
from tnvmc.operators.term import Operator
from tnvmc.sampling import streams
from tnvmc.sampling.direct import DirectSampler
from tnvmc.sampling.enumerate import Enumerate
from tnvmc.sampling.problem import Point, Samples
from tnvmc.session.observables import description, for_pairs, measured_observables, of_terms
from tnvmc.settings.build import chi_to_measure
from tnvmc.settings.config import Settings, build_operator
from tnvmc.settings.load import load_in_place
from tnvmc.settings.operator_file import read_operator
from tnvmc.settings.problems import ConfigError
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
    provenance_at,
)
from tnvmc.storage.seals import PROVENANCE, sealed_json
from tnvmc.vmc import checkpoint
from tnvmc.vmc.core import Iterate, Method, State, controlled
from tnvmc.vmc.measured_iterate import CODES, measured_iterate
from tnvmc.vmc.measurement import FRESH_BURN
from tnvmc.vmc.results import finite_or_none

Array = Any
Json = dict[str, Any]

Judged = tuple[Iterate, tuple[Diagnostic, ...]]
"""What is to be measured, and why it is not the last point; see `measured_iterate`."""

SAME_STATE = ("step", "parameters", "magnetisation", "symmetry")
"""Keys of observables.json that tell states apart."""


@dataclass(frozen=True)
class Asked:
    """What the command line asks of a measurement; None is as in the run's own one."""

    n_samples: int | None = None
    chi: int | None = None
    pair_samples: int | None = None  #: of S.S of all pairs; 0 for none
    operators: tuple[str | Path, ...] = ()  #: files of operators of one's own
    overrides: tuple[str, ...] = ()  #: settings, ``section.key=value``
    direct: bool = False  #: independent draws with weights, whatever the run drew by
    enumerate: bool = False  #: all configurations, without noise

    def __post_init__(self) -> None:
        for name, least in {"n_samples": 1, "chi": 1, "pair_samples": 0}.items():
            value = getattr(self, name)
            if value is not None and value < least:
                option = name.replace("_", "-")
                raise ValueError(f"measure: --{option} is {value}; it must be {least} or larger")
        if self.direct and self.enumerate:
            raise ValueError("measure: --direct and --enumerate exclude each other; give one")


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
        ConfigError: damaged settings or operator file, an operator off the lattice.
        ValueError: a number of samples or a chi that cannot be.
    """
    started = perf_counter()
    path = Path(path)
    check_run_folder(path)
    if not (path / CHECKPOINT).is_file():
        raise FolderError(f"{path}: holds no state to measure ({CHECKPOINT} is missing)")
    check_overrides(path, asked.overrides)
    settings = load_in_place(path, asked.overrides)
    operator = build_operator(settings)
    check_symmetries(settings, operator, asked.direct)
    own = _own_operators(asked, operator)
    before = check_tied(path)
    method, at, judged = _restored(path, settings, operator)
    provenance = provenance_at(path, before, at.step)
    state = {
        "parameters": parameters_hash(np.ascontiguousarray(to_host(judged[0].theta))),
        "step": at.step,
        "magnetisation": method.problem.magnetisation,
        "symmetry": list(settings.measure.symmetrise),
    }
    held = read_run(path).observables
    has_pairs = held is not None and state_differs(state, held) is None and held["pair_samples"]
    if own and has_pairs and asked.pair_samples is None:
        asked = replace(asked, pair_samples=0)
    fresh = {
        "version": __version__,
        **state,
        **description(operator),
        "model": settings.hamiltonian.model,
        **_measured(_Measuring(method, at, judged, settings, asked), ObservableSet(operator, own)),
        "seconds": perf_counter() - started,
    }
    found = merged(finite_or_none(fresh), held)
    told = list(found.unchanged)
    with disk_errors(path):
        if found.aside is not None and held is not None:
            aside = _free_name(path, int(held.get("step") or 0))
            write_atomically(aside, read_plain(path / OBSERVABLES))
            values = {"file": aside.name, "reason": found.aside, "step": held.get("step")}
            told.append(Diagnostic("observables_set_aside", "good", values))
        content = {**found.content, PROVENANCE: provenance.as_dict()}
        write_atomically(path / OBSERVABLES, sealed_json(content))
    if tell is not None:
        for each in told:
            tell(each)
    return found.content


def _own_operators(asked: Asked, operator: Operator) -> tuple[Operator, ...]:
    """Those of the files, as "real part of NAME" and so on of one that is not Hermitian."""
    own = [
        part
        for file in asked.operators
        for part in read_operator(Path(file), operator.lattice, operator.local_dim).hermitian_parts
    ]
    names = [found.name for found in own]
    if twice := {name for name in names if names.count(name) > 1}:
        raise ConfigError(f"--operator: two files name their operator '{min(twice)}'; rename one")
    return tuple(own)


def _restored(path: Path, settings: Settings, operator: Operator) -> tuple[Method, State, Judged]:
    """Give the method and the state of a run, whose walkers have moved."""
    vmc = restored(path, settings, operator).vmc
    method, state = vmc.method, vmc.state
    judged = measured_iterate(method, state)
    if not judged[1]:
        judged = judged[0], tuple(_archived_reasons(path))
    method = replace(method, problem=controlled(method, state).problem)
    here = state.here
    if state.step == 0 and settings.sampler.kind == "metropolis":  # at random places
        walk = method.sampler.for_measurement(settings.sampler.n_walkers, FRESH_BURN, 1)
        at_rest, point = (
            replace(method.problem, targets={}),
            replace(judged[0], configs=here.configs),
        )
        here = replace(
            here, configs=walk.draw(at_rest, point, streams.BURN_IN, jacobian=False)[1].configs
        )
    return method, replace(state, here=here, controllers=()), judged


def _archived_reasons(path: Path) -> Iterator[Diagnostic]:
    """Yield why the parameters of an archive are not those of the last step, as its result says."""
    with opened(path / CHECKPOINT) as file:
        if not attribute(file, "identity", {}).get(checkpoint.ARCHIVED):
            return
    result = read_run(path).result or {}
    for found in result.get("diagnostics") or ():
        if found["code"] in CODES:
            yield Diagnostic.from_dict(found)


@dataclass(frozen=True)
class _Measuring:
    """One measurement: of what, and how."""

    method: Method
    state: State
    judged: Judged
    settings: Settings
    asked: Asked

    @property
    def n_samples(self) -> int:
        """Samples of all that is cheap."""
        return self.asked.n_samples or self.settings.measure.n_samples or 0

    @property
    def drawn(self) -> str:
        """Samples are "chains", "direct" or "enumerate"."""
        if self.asked.direct:
            return "direct"
        kind = "enumerate" if self.asked.enumerate else str(self.settings.sampler.kind)
        return "chains" if kind == "metropolis" else kind

    def record(self, blocks: Blocks, chi: int | None, told: Iterable[Diagnostic] = ()) -> Json:
        """How a part was measured."""
        return {
            "n_samples": blocks.n_samples,
            "effective_samples": blocks.effective_samples,
            "chi": chi,
            "scheme": self.settings.contraction.scheme,
            "drawn": self.drawn,
            "seed": self.method.problem.seed,
            "step": self.state.step,
            "diagnostics": [each.as_dict() for each in told],
        }


def _measured(of: _Measuring, observables: ObservableSet) -> Json:
    """Draw the samples, and tell what they show and how they were drawn."""
    (point, reasons), asked = of.judged, of.asked
    point = replace(point, configs=of.state.here.configs)
    method, fewer = _method(of, point), None
    if asked.pair_samples != 0:
        # At the chi of the run, which costs less.
        scheme = of.method.problem.ansatz.scheme if asked.chi is None else None
        fewer = for_pairs(method, of.n_samples, asked.pair_samples, scheme)
    found, blocks = measured_observables(method, point, observables, fewer, reasons)
    samples, pairs = of.record(blocks[ENERGY], found["chi"]), None
    if (some := blocks.get(ALL_PAIRS)) is not None:
        pairs = of.record(some, found["pair_chi"], of_terms({ALL_PAIRS: some}))
    operators = {}
    for each in observables.own:
        name = f"operator {each.name}"
        told = of_terms({name: blocks[name]})
        operators[each.name] = of.record(blocks[name], found["chi"], told)
        operators[each.name]["fingerprint"] = fingerprint(each)
    measured = {"samples": samples, "pairs": pairs, "operators": operators}
    return {**found, "drawn": samples["drawn"], "scheme": samples["scheme"], "measured": measured}


def _method(of: _Measuring, point: Point) -> Method:
    """The method of the energy and of all that is cheap."""
    settings, asked, ansatz = of.settings, of.asked, of.method.problem.ansatz
    if asked.chi is not None and chi_of(ansatz) is None:
        raise ValueError(f"measure: --chi is {asked.chi}, and this state has none; omit it")
    sampler: Samples = of.method.sampler
    sector, threads = settings.sampler.magnetisation, settings.run.threads
    if asked.direct:
        sampler = DirectSampler(of.n_samples, magnetisation=sector, threads=threads)
    elif asked.enumerate:
        sampler = Enumerate(sector, threads)
    plan = plan_of(settings, of.n_samples, asked.chi or chi_to_measure(settings, ansatz))
    return replace(plan, sampler=sampler).applied(of.method, point, of.state.step)


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
    content, unchanged = dict(fresh), list[Diagnostic]()
    before, now = held["measured"], fresh["measured"]
    content["measured"] = {**now, "operators": dict(now["operators"])}
    content["operators"] = dict(content["operators"])
    if now["pairs"] is None and (pairs := before["pairs"]) is not None:
        content["measured"]["pairs"] = pairs
        for key in ("pair_samples", "pair_chi", "staggered_magnetisation_squared"):
            content[key] = held[key]
        for key in ("correlations", "structure_factor"):
            of_pairs = {name: value for name, value in held[key].items() if name == ALL_PAIRS}
            content[key] = {**content[key], **of_pairs}
        unchanged.append(_unchanged(content, ALL_PAIRS, pairs))
    for name, record in before["operators"].items():
        if name not in now["operators"]:
            content["measured"]["operators"][name] = record
            content["operators"][name] = held["operators"][name]
            unchanged.append(_unchanged(content, name, record))
    worse = any(_worse(new, old) for new, old in _both(now, before))
    return Merged(content, tuple(unchanged), "better" if worse else None)


def state_differs(fresh: Mapping[str, Any], held: Mapping[str, Any]) -> str | None:
    """Tell in what the state of a file differs: "step", ..., "unknown"; None: in nothing."""
    if "measured" not in held:
        return "unknown"  # an earlier version
    return next((key for key in SAME_STATE if held.get(key) != fresh[key]), None)


def _free_name(folder: Path, step: int) -> Path:
    """The place for a file that is set aside, with a number if need be."""
    stem = f"observables-step-{step}"
    names = (f"{stem}.json", *(f"{stem}-{number}.json" for number in range(2, 10**6)))
    return next(folder / name for name in names if not (folder / name).exists())


def _both(now: Json, before: Json) -> Iterator[tuple[Json, Json]]:
    """New and old record of each part that was measured again."""
    for part in ("samples", "pairs"):
        if now[part] is not None and before[part] is not None:
            yield now[part], before[part]
    for name in now["operators"].keys() & before["operators"].keys():
        yield now["operators"][name], before["operators"][name]


def _worse(new: Json, old: Json) -> bool:
    """Tell whether the old one has more samples or chi, or is of another operator."""
    if new.get("fingerprint") != old.get("fingerprint"):
        return True
    return _worth(new) < _worth(old) or (new["chi"] or 0) < (old["chi"] or 0)


def _worth(record: Json) -> float:
    """Samples; of an enumeration more than any number of them."""
    if record["drawn"] == "enumerate":
        return float("inf")
    return float(record["effective_samples"] or record["n_samples"])


def _unchanged(content: Json, name: str, record: Json) -> Diagnostic:
    """Add the diagnostics of a part that stays, and tell that it does."""
    more = [each for each in record["diagnostics"] if each not in content["diagnostics"]]
    content["diagnostics"] = [*content["diagnostics"], *more]
    values = {key: record[key] for key in ("n_samples", "chi", "seed")}
    return Diagnostic("observables_kept", "good", {"observable": name, **values})
