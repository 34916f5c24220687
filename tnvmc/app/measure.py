"""`tnvmc measure`: the observables of a run's state, with error bars, into observables.json."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from tnvmc._version import __version__
from tnvmc.ansatz.protocol import chi_of, with_chi
from tnvmc.app.merge import enough_pairs, free_name, merged
from tnvmc.app.stages import StagedRun
from tnvmc.backend import progress
from tnvmc.backend.namespace import array_namespace, to_host, to_namespace
from tnvmc.estimate.blocks import Blocks
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.estimate.observable_set import ALL_PAIRS, ENERGY, ObservableSet
from tnvmc.operators.properties import fingerprint
from tnvmc.operators.term import Operator
from tnvmc.sampling import streams
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.configurations import initial_configs, magnetisation_of
from tnvmc.sampling.direct import DirectSampler
from tnvmc.sampling.problem import Point, Problem, Samples
from tnvmc.session.observables import (
    PAIR_SAMPLES,
    PAIR_THIN,
    description,
    of_terms,
    of_total,
    reported,
)
from tnvmc.settings.build import build_operator, build_sampler, build_scheme, chi_to_measure
from tnvmc.settings.checks import check_symmetries
from tnvmc.settings.config import LatticeSettings, Settings
from tnvmc.settings.load import load, load_in_place
from tnvmc.settings.operator_file import read_operators
from tnvmc.settings.problems import ConfigError
from tnvmc.storage.files import read_plain, write_atomically
from tnvmc.storage.hdf5 import attribute, opened, read_stages
from tnvmc.storage.provenance import PROVENANCE
from tnvmc.storage.run_files import OBSERVABLES, read_run, refuse_series
from tnvmc.storage.run_folder import (
    CHECKPOINT,
    CONFIG,
    FolderError,
    check_run_folder,
    check_tied,
    provenance_at,
)
from tnvmc.storage.seals import sealed_json
from tnvmc.vmc import checkpoint
from tnvmc.vmc.characters import symmetrised
from tnvmc.vmc.core import Iterate, Method, State, controlled
from tnvmc.vmc.measured_iterate import CODES, measured_iterate
from tnvmc.vmc.measurement import FRESH_BURN, collect, sweeps_before
from tnvmc.vmc.results import finite_or_none

Array = Any
Json = dict[str, Any]

Judged = tuple[Iterate, tuple[Diagnostic, ...]]
"""What is to be measured, and why it is not the last point; see `measured_iterate`."""


@dataclass(frozen=True)
class Asked:
    """What the command line asks of a measurement; None is as in the run's own one."""

    n_samples: int | None = None
    chi: int | None = None
    pair_samples: int | None = None  #: of S.S of all pairs; 0 for none
    operators: tuple[str | Path, ...] = ()  #: files of operators of one's own
    overrides: tuple[str, ...] = ()  #: settings, ``section.key=value``
    direct: bool = False  #: independent draws with weights instead of chains


def measure_run(
    path: str | Path, asked: Asked = Asked(), tell: Callable[[Diagnostic], None] | None = None
) -> dict[str, Any]:
    """Measure the state of a run and write observables.json, whose content it gives.

    What the file holds of the same state and is not measured anew stays in it; what is of another
    state, or better than what takes its place, is set aside in a file of its own (`app.merge`).

    Args:
        path: of the folder.
        asked: `n_samples` and `chi` default to those of the run's own measurement; S.S of all pairs
            takes at most `PAIR_SAMPLES` / N of them, at the chi of the optimisation, unless told.
            With operators it is not measured again where the file holds it as well.
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
    refuse_series(path)
    check_run_folder(path)
    if not (path / CHECKPOINT).is_file():
        raise FolderError(f"{path}: holds no state to measure ({CHECKPOINT} is missing)")
    _check_numbers(asked)
    settings = load_in_place(path, asked.overrides)
    kept = load(path / CONFIG).lattice
    if settings.lattice != kept:
        raise ConfigError(
            f"lattice: {path} holds a state on {_named(kept)}, not on {_named(settings.lattice)}; "
            "omit --set lattice"
        )
    operator = build_operator(settings)
    check_symmetries(settings, operator, asked.direct)
    own = tuple(
        found
        for file in asked.operators
        for found in read_operators(Path(file), operator.lattice, operator.local_dim)
    )
    names = [found.name for found in own]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"--operator: two files name their operator '{twice[0]}'; rename one")
    before = check_tied(path)
    method, at, judged = _restored(path, settings, operator)
    provenance = provenance_at(path, before, at.step)
    state = {
        "parameters": _digest(judged[0]),
        "step": at.step,
        "magnetisation": _sector(settings, operator),
        "symmetry": list(settings.measure.symmetrise),
    }
    held = read_run(path).observables
    fresh = {
        "version": __version__,
        **state,
        **description(operator),
        "model": settings.hamiltonian.model,
        **_measured(
            _Measuring(method, at, judged, settings, asked),
            ObservableSet(operator, own),
            lambda planned: not own or not enough_pairs(state, held, planned),
        ),
        "seconds": perf_counter() - started,
    }
    found = merged(finite_or_none(fresh), held)
    told = list(found.kept)
    try:
        if found.aside is not None and held is not None:
            aside = free_name(path, int(held.get("step") or 0))
            write_atomically(aside, read_plain(path / OBSERVABLES))
            values = {"file": aside.name, "reason": found.aside, "step": held.get("step")}
            told.append(Diagnostic("observables_set_aside", "good", values))
        content = {**found.content, PROVENANCE: provenance.as_dict()}
        write_atomically(path / OBSERVABLES, sealed_json(content))
    except OSError as error:
        raise FolderError(f"{path}: cannot be written ({error.strerror or error})") from None
    if tell is not None:
        for each in told:
            tell(each)
    return found.content


def _digest(point: Point) -> str:
    """A short hash of parameters: what was measured of one state may stand in one file."""
    theta = np.ascontiguousarray(to_host(point.theta))
    return hashlib.sha256(theta.tobytes()).hexdigest()[:16]


def _sector(settings: Settings, operator: Operator) -> int | None:
    return settings.sampler.magnetisation if operator.conserves_magnetisation else None


def _restored(path: Path, settings: Settings, operator: Operator) -> tuple[Method, State, Judged]:
    """The method and the state of a run, to be measured with the sampler and the contraction of
    `settings`.

    Which parameters are measured is judged by those of the run: another contraction is another psi,
    whose energy says nothing of its last update.
    """
    run_settings = load(path / CONFIG)
    stored, contraction = run_settings.sampler, run_settings.contraction
    as_it_was = settings.model_copy(update={"sampler": stored, "contraction": contraction})
    run = StagedRun(as_it_was, operator, read_stages(path / CHECKPOINT), blank=True)
    run.restore(path / CHECKPOINT, archived=True)
    method, state, sampler = run.vmc.method, run.vmc.state, build_sampler(settings, operator)
    judged = measured_iterate(method, state)  # by the sampler of the run, as its next step would
    if not judged[1]:
        judged = judged[0], tuple(_archived_reasons(path))
    problem, ansatz = controlled(method, state).problem, method.problem.ansatz
    if settings.contraction != contraction and ansatz.scheme is not None:
        wanted = settings.contraction
        chi = wanted.chi
        if chi == "auto" or chi == contraction.chi:
            chi = chi_of(problem.ansatz)
        problem = replace(problem, ansatz=ansatz.with_scheme(build_scheme(wanted.scheme, chi)))
    here = state.here
    xp, sector = array_namespace(here.configs), settings.sampler.magnetisation
    stood = here.configs
    if stored.kind != "metropolis" or stored.magnetisation != sector:  # no walkers, or of another
        fresh = initial_configs(operator, sampler.n_configs, problem.seed, sector)
        here = replace(here, configs=to_namespace(fresh, xp))
    elif sampler.n_configs != here.configs.shape[0]:
        places = xp.arange(sampler.n_configs) % here.configs.shape[0]  # some begin together
        here = replace(here, configs=xp.take(here.configs, places, axis=0))
    problem = replace(problem, magnetisation=magnetisation_of(operator, here.configs))
    moved = state.step > 0 and here.configs is stood
    if not moved and isinstance(sampler, Sampler):
        point = replace(judged[0], configs=here.configs)
        here = replace(here, configs=_walked(problem, sampler, point))
    method = replace(method, problem=problem, sampler=sampler)
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


def _walked(problem: Problem, sampler: Sampler, point: Point) -> Array:
    """Walkers that were drawn afresh, or begin together, after sweeps in which they forget it."""
    walk = sampler.for_measurement(sampler.n_walkers, FRESH_BURN, 1)
    return walk.draw(replace(problem, targets={}), point, streams.BURN_IN, jacobian=False)[
        1
    ].configs


def _named(lattice: LatticeSettings) -> str:
    shape = lattice.shape if isinstance(lattice.shape, list) else [lattice.shape]
    return f"{' x '.join(map(str, shape))} sites ({lattice.kind}, {lattice.boundary})"


def _check_numbers(asked: Asked) -> None:
    for name, value, least in (
        ("n-samples", asked.n_samples, 1),
        ("chi", asked.chi, 1),
        ("pair-samples", asked.pair_samples, 0),
    ):
        if value is not None and value < least:
            raise ValueError(f"measure: --{name} is {value}; it must be {least} or larger")


@dataclass(frozen=True)
class _Measuring:
    """One measurement: of what, and how."""

    method: Method
    state: State
    judged: Judged
    settings: Settings
    asked: Asked

    def record(self, blocks: Blocks, chi: int | None, told: Iterable[Diagnostic] = ()) -> Json:
        """How a part was measured."""
        direct = self.asked.direct
        return {
            "n_samples": blocks.n_samples,
            "effective_samples": blocks.effective_samples,
            "chi": chi,
            "scheme": self.settings.contraction.scheme,
            "drawn": "direct" if direct else _DRAWN[str(self.settings.sampler.kind)],
            "seed": self.method.problem.seed,
            "step": self.state.step,
            "diagnostics": [each.as_dict() for each in told],
        }


def _measured(
    of: _Measuring, observables: ObservableSet, wanted: Callable[[Json], bool]
) -> dict[str, Any]:
    """Draw the samples, and tell what they show and how they were drawn.

    `wanted` is asked whether S.S of all pairs is to be measured so: a record of it before it is.
    """
    point, diagnostics = of.judged
    settings, asked, operator = of.settings, of.asked, of.method.problem.operator
    point = replace(point, configs=of.state.here.configs)
    method = _method(of, point)
    progress.begin("observables")
    found = collect(method, point, observables.every_sample(), streams.OBSERVABLES)
    blocks, energy = dict(found.blocks), found.total.energy(method, point)
    sector, chi = _sector(settings, operator), chi_of(method.problem.ansatz)
    told = (*diagnostics, *of_total(energy, operator, sector, bool(method.orthogonal_to)))
    samples, pairs, pair_chi = of.record(blocks[ENERGY], chi), None, None
    if asked.pair_samples != 0 and observables.some_samples():
        fewer = _pair_method(method, of)
        pair_chi, n_samples = chi_of(fewer.problem.ansatz), getattr(fewer.sampler, "n_samples", 0)
        planned = {**samples, "n_samples": n_samples, "chi": pair_chi}
        if asked.pair_samples is not None or wanted(planned):
            progress.begin("pairs")
            some = collect(fewer, point, observables.some_samples(), streams.PAIRS).blocks
            pairs = of.record(some[ALL_PAIRS], pair_chi, of_terms(some))
            blocks |= some
    own = {f"operator {each.name}": each for each in observables.own}
    operators = {
        each.name: of.record(blocks[key], chi, of_terms({key: blocks[key]}))
        | {"fingerprint": fingerprint(each)}
        for key, each in own.items()
    }
    return {
        **reported(observables, blocks, energy, told, (chi, pair_chi)),
        "drawn": samples["drawn"],
        "scheme": samples["scheme"],
        "measured": {"samples": samples, "pairs": pairs, "operators": operators},
    }


_DRAWN = {"metropolis": "chains", "direct": "direct", "enumerate": "enumerate"}


def _method(of: _Measuring, point: Point) -> Method:
    """The method of the energy and of all that is cheap."""
    settings, asked, problem = of.settings, of.asked, of.method.problem
    measure, ansatz = settings.measure, problem.ansatz
    if asked.chi is not None and chi_of(ansatz) is None:
        raise ValueError(f"measure: --chi is {asked.chi}, and this state has none; omit it")
    chi = asked.chi or chi_to_measure(settings, ansatz)
    if chi is not None:
        ansatz = with_chi(ansatz, chi)
    n_samples = _n_samples(settings, asked)
    sampler: Samples = of.method.sampler
    if asked.direct:
        sampler = DirectSampler(
            n_samples, magnetisation=settings.sampler.magnetisation, threads=settings.run.threads,
        )  # fmt: skip
    problem, symmetric = replace(problem, ansatz=ansatz), bool(measure.symmetrise)
    if symmetric:
        threads = settings.run.threads
        group_state = symmetrised(problem, point, measure.symmetrise, threads=threads)
        problem = replace(problem, ansatz=group_state)
    n_burn = sweeps_before(of.state.step) if measure.n_burn is None else measure.n_burn
    sampler = sampler.for_measurement(n_samples, n_burn, measure.n_thin, symmetric)
    return replace(of.method, problem=problem, sampler=sampler)


def _pair_method(method: Method, of: _Measuring) -> Method:
    """The method of what needs the ratios of all pairs: fewer samples, at the chi of the run."""
    settings, asked = of.settings, of.asked
    ansatz, of_run = method.problem.ansatz, of.method.problem.ansatz
    if asked.chi is None and None not in (ansatz.scheme, of_run.scheme):
        ansatz = ansatz.with_scheme(of_run.scheme)
    n_samples = asked.pair_samples
    if n_samples is None:
        most = PAIR_SAMPLES // method.problem.operator.n_sites + 1
        n_samples = min(_n_samples(settings, asked), most)
    n_thin = PAIR_THIN * (settings.measure.n_thin or settings.sampler.n_thin)
    fewer = method.sampler.for_measurement(n_samples, n_thin=n_thin)
    return replace(method, problem=replace(method.problem, ansatz=ansatz), sampler=fewer)


def _n_samples(settings: Settings, asked: Asked) -> int:
    found = asked.n_samples or settings.measure.n_samples
    assert found is not None
    return found
