"""Measurements with theta at rest: the energy, one operator, many observables."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from time import perf_counter
from typing import Any

import numpy as np

from tnvmc.ansatz.protocol import Snapshot, Targets, chi_of, with_chi
from tnvmc.backend import progress
from tnvmc.backend.arguments import one_of, optional_positive, shortly, whole
from tnvmc.backend.namespace import to_host
from tnvmc.estimate.blocks import Blocks
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.estimate.observables import (
    Observable,
    at_fixed_magnetisation,
    energy_terms,
    merged_targets,
)
from tnvmc.estimate.reliability import LEAST_CHANGED, changed_part, doubts, of_chains
from tnvmc.estimate.statistics import Estimate, effective_samples, estimate_samples, v_score
from tnvmc.operators.properties import fingerprint, infinite_temperature_energy, particles_of
from tnvmc.operators.symmetry import NAMES, same_levels
from tnvmc.operators.term import Operator, made_of
from tnvmc.sampling import streams
from tnvmc.sampling.configurations import magnetisation_of
from tnvmc.sampling.problem import Point, Problem, SampleInfo, Samples
from tnvmc.vmc.characters import symmetrised
from tnvmc.vmc.core import Iterate, Method, State, controlled
from tnvmc.vmc.measured_iterate import BURN, measured_iterate
from tnvmc.vmc.neighbours import widened, with_rare
from tnvmc.vmc.observation import Observation, observe
from tnvmc.vmc.orthogonal import Overlap, SampledState, everywhere, overlap
from tnvmc.vmc.results import Expectation, Measurement

Array = Any

FRESH_BURN = 50
"""The same from random configurations: an easy-axis magnet (XXZ 4x4, Delta = 3) falls into domains,
whose walls take tens of sweeps to go; after 10 the staggered magnetisation is an error bar off."""


MOST_SAMPLES = 2**18
"""That are drawn for an error that is asked for."""

_MARGIN = 1.2  # of their number: the error of the first samples is uncertain itself

_DRIFT, _TIMES = 4.0, 4  # of `forgotten`

_ENTRIES = 2**21  # numbers per kind and part: 16 MiB


@dataclass(frozen=True)
class MeasurementPlan:
    """How a measurement is made; what is None is as in the optimisation.

    Raises:
        ValueError: no whole number, or one below its least value; an unknown symmetry.
    """

    n_samples: int | None = None
    chi: int | None = None  #: boundary bond dimension, for an ansatz that has one
    n_burn: int | None = None  #: None: `FRESH_BURN` less the steps that were made, `BURN` at least
    n_thin: int | None = None
    symmetries: str | Sequence[str] = ()  #: of `NAMES`: restored in what is measured
    sampler: Samples | None = None
    error: float | None = None  #: that is wanted, per site; see `enough`

    def __post_init__(self) -> None:
        least = {"n_samples": 1, "chi": 1, "n_burn": 0, "n_thin": 1}
        for name, lowest in least.items():
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, whole("measure", name, value, lowest))
        optional_positive("measure", "error", self.error)
        object.__setattr__(self, "symmetries", names_of(self.symmetries))
        for name in self.symmetries:
            one_of("measure", "each of symmetries", name, NAMES)
        if self.sampler is not None and not hasattr(self.sampler, "for_measurement"):
            raise ValueError(f"measure: sampler must be a sampler, got {shortly(self.sampler)}")

    def applied(self, method: Method, point: Point, step: int) -> Method:
        """The method with the sampler and the ansatz of the measurement, after some steps.

        Signs under the symmetries are found at the point that is measured.

        Raises:
            NotSymmetric: the Hamiltonian or the state lacks a symmetry.
        """
        problem, given = method.problem, self.sampler or method.sampler
        ansatz, chi = problem.ansatz, self.chi
        if chi is None:
            chi = method.measured_chi
        ansatz = ansatz if chi is None else with_chi(ansatz, chi)
        n_burn = self.n_burn
        if n_burn is None:
            n_burn = max(BURN, FRESH_BURN - step)  # a step is a sweep at least
        sampler = given.for_measurement(self.n_samples, n_burn, self.n_thin)
        if self.sampler or (self.n_samples or 0) % (method.sampler.n_samples or 1):
            sampler.warn_if_rounded("n_samples")  # multiples of those of a step are told with them
        if method.orthogonal_to:
            sampler = everywhere(sampler)
        if self.symmetries:
            ansatz = symmetrised(
                replace(problem, ansatz=ansatz), point, self.symmetries, threads=given.threads
            )
        return replace(method, problem=replace(problem, ansatz=ansatz), sampler=sampler)


@dataclass(frozen=True)
class Measured:
    """A measurement of the energy, and what it was made from."""

    measurement: Measurement  #: whose `diagnostics` say which iterate it is of, until it is judged
    point: Iterate  #: whose parameters were measured; the walkers as they were before
    observation: Observation
    problem: Problem  #: with the ansatz as it was measured
    neighbours_move_by: float | None = None
    """By how many errors configurations that were not drawn move the energy (`neighbours.widened`).
    """
    steps: int = 0  #: that were made before
    is_level: bool = True  #: whether psi stands for a level, and not for a state on its way


def names_of(symmetries: Sequence[str]) -> tuple[str, ...]:
    """Give the names of symmetries, of which one may stand alone."""
    return (symmetries,) if isinstance(symmetries, str) else tuple(symmetries)


def equilibrated(base: Method, state: State) -> State:
    """Move walkers by `FRESH_BURN` sweeps before the first step: they stand at random places."""
    method, here = controlled(base, state), state.here
    if state.step or not hasattr(method.sampler, "n_burn"):
        return state
    walk = method.sampler.for_measurement(method.sampler.n_walkers, FRESH_BURN, 1)
    at_rest = replace(method.problem, targets={})
    moved = walk.draw(at_rest, here, streams.BURN_IN, jacobian=False)[1]
    return replace(state, here=replace(here, configs=moved.configs))


def measure(method: Method, state: State, plan: MeasurementPlan) -> Measured:
    """Measure the energy of the measured iterate; see `measured_iterate`.

    What it does not do: judge it, see `tnvmc.trust.energies.judged`.
    """
    method = controlled(method, state)
    point, diagnostics = measured_iterate(method, state)
    started = perf_counter()
    applied = plan.applied(method, point, state.step)
    problem = applied.problem
    progress.begin("energy")
    first = observe(problem, applied.sampler, point, streams.MEASURE + state.step, jacobian=False)
    if plan.n_burn is None:
        first, times = forgotten(first, applied.sampler)
        told = (Diagnostic("burnt_in_longer", "good", {"times": times}),) if times else ()
        diagnostics = (*diagnostics, *told)
    wanted = math.inf if plan.error is None else plan.error * problem.operator.n_sites
    first = enough(first, applied.sampler, wanted)
    seen = with_rare(first, applied.sampler)
    if seen is not first:
        again = Diagnostic("measured_again", "good", {"power": seen.info.power})
        diagnostics = (*diagnostics, again)
    configs = np.asarray(to_host(seen.snapshot.configs))
    changed = None if seen.info.exact else changed_part(configs, seen.info.n_walkers)
    energy, moved = widened(
        seen.energy, changed, configs, problem, point.theta, applied.sampler.threads
    )
    if energy.error > wanted:
        diagnostics = (*diagnostics, _missed(energy, wanted, perf_counter() - started))
    seen, operator = replace(seen, energy=energy), problem.operator
    sector = magnetisation_of(operator, seen.snapshot.configs)
    overlaps, group = _overlaps(applied, seen), problem.ansatz.group
    signs = frozenset((g.key, g.character) for g in getattr(group, "elements", ()))
    level = same_levels(operator, sector, bool(signs)), signs, len(overlaps)
    kind: dict[str, Any] = {"local_dim": operator.local_dim, "fermions": operator.fermions}
    summed: Any = made_of(operator.lattice, operator.matrices, **kind)
    e_inf = infinite_temperature_energy(operator, sector)
    statistics = seen.statistics() | {"overlaps": overlaps}
    measurement = Measurement(
        **statistics,
        v_score=v_score(energy.mean, energy.variance, operator.n_sites, e_inf),
        n_sites=operator.n_sites,
        n_parameters=method.problem.ansatz.n_params,
        n_samples=energy.n_samples,
        seconds=perf_counter() - started,
        units=operator.units,
        diagnostics=tuple(diagnostics),
        magnetisation=sector,
        particles=particles_of(operator, sector),
        n_independent=independent(method.problem, sector),
        chi=chi_of(problem.ansatz),
        off_diagonal_energy=seen.off_diagonal_energy,
        origin=(fingerprint(summed), *level),
    )
    is_level = not method.in_real_time
    return Measured(measurement, point, seen, problem, moved, state.step, is_level)


@np.errstate(over="ignore", invalid="ignore")  # energies that are no numbers do not drift
def forgotten(first: Observation, sampler: Samples) -> tuple[Observation, int]:
    """Go on with chains whose energies still drift, `_TIMES` at most; also, how often.

    They drift where the last third of the draws differs from the first one by more than `_DRIFT`
    errors, by the scatter over the walkers; what was drawn before is left out.
    """
    for times in range(_TIMES + 1):
        info, local = first.info, np.real(np.asarray(to_host(first.local)))
        third = 0 if info.exact or info.independent or info.n_walkers < 2 else info.n_draws // 3
        if not third or times == _TIMES:
            break
        rows = local.reshape(info.n_draws, info.n_walkers)
        change = rows[-third:].mean(axis=0) - rows[:third].mean(axis=0)
        error = float(np.std(change, ddof=1)) / math.sqrt(info.n_walkers)
        if not abs(float(change.mean())) > _DRIFT * error > 0:
            break
        more = sampler.for_measurement(n_burn=0)
        stream = streams.ACCURATE + 1 + times
        first = observe(first.problem, more, first.point, stream, jacobian=False)
    return first, times


def enough(first: Observation, sampler: Samples, error: float) -> Observation:
    """Draw as many samples as an error of the energy takes by what first ones show of it.

    The new ones alone count: their number depends on the first.  What it does not do: stop when the
    error is reached, which would favour samples that scatter little by chance.
    """
    found = first.energy
    if first.info.exact or not error < found.error < math.inf:
        return first
    n_samples = math.ceil(min(MOST_SAMPLES, _MARGIN * found.n_samples * (found.error / error) ** 2))
    progress.begin("energy")
    more = sampler.for_measurement(n_samples, n_burn=0)
    return observe(first.problem, more, first.point, streams.ACCURATE, jacobian=False)


def _missed(energy: Estimate, wanted: float, seconds: float) -> Diagnostic:
    """Say what it takes to reach an error that was not."""
    ratio = (energy.error / wanted) ** 2
    values = {"ratio": energy.error / wanted, "n_samples": energy.n_samples * ratio}
    return Diagnostic("error_not_reached", "open", values | {"seconds": seconds * ratio})


def _overlaps(method: Method, seen: Observation) -> tuple[Overlap, ...]:
    """Overlaps with kept states, from new samples of both."""
    if not method.orthogonal_to:
        return ()
    progress.begin("overlaps")
    threads = method.sampler.threads
    psi = SampledState(method.problem.ansatz, seen.point.theta, seen.snapshot, seen.info, threads)
    return tuple(overlap(lower, psi) for lower in method.orthogonal_to)


def independent(problem: Problem, sector: int | None) -> int | None:
    """Count the parameters that change the state in a sector (twice the total Sz; None: no sector).

    One direction more leads nowhere for each total that is fixed: a factor on a local state, at all
    sites.  The state has no more of them than the sector has configurations, less one for its norm.
    The rank of S at a generic theta, and seldom below; None for an ansatz that does not know it.
    """
    ansatz, operator = problem.ansatz, problem.operator
    if ansatz.n_null is None:
        return None
    fixed = len(operator.fermions.numbers) if operator.fermions else 1
    states = operator.states(sector).dimension
    return min(ansatz.n_params - ansatz.n_null - fixed * (sector is not None), states - 1)


def expect(method: Method, state: State, operator: Operator, plan: MeasurementPlan) -> Expectation:
    """Estimate <operator> in the measured iterate, in new samples of its own; see `VMC.expect`."""
    hamiltonian = method.problem.operator
    terms = energy_terms(operator)
    if hamiltonian.conserves_magnetisation:
        terms = at_fixed_magnetisation(terms, hamiltonian)
    method = controlled(method, state)
    point, diagnostics = measured_iterate(method, state)
    applied = plan.applied(method, point, state.step)
    total = Total(hamiltonian)
    progress.begin("operator")
    for snapshot, info in in_parts(applied, point, terms.targets, streams.EXPECT):
        total.add(terms.values(snapshot, terms.targets), snapshot, info)
    found = total.estimate()
    values = {each.name: getattr(found, each.name) for each in fields(found)}
    values["diagnostics"] = (*diagnostics, *found.diagnostics)
    return Expectation(**values, n_sites=operator.n_sites, units=operator.units)


def in_parts(
    method: Method, point: Point, targets: Targets, stream: int
) -> Iterator[tuple[Snapshot, SampleInfo]]:
    """Draw in parts, so that memory stays bounded however many samples and ratios are asked for.

    Yields the snapshot of a part, with the ratios of `targets`, without log-derivatives and with
    weights on one scale over all parts; and its info.
    """
    sampler, problem = method.sampler, replace(method.problem, targets=targets)
    n_sites = problem.operator.n_sites
    width = max(n_sites**2 // 2 + 1, sum(table.shape[1] for table in targets.values()))
    at_once = max(1, _ENTRIES // width)
    first: float | None = None
    for number, part in enumerate(progress.in_turn(sampler.parts(problem, point, at_once))):
        snapshot, point, info = part.draw(problem, point, stream + number, jacobian=False)
        first = info.log_norm if first is None else first
        yield _on_one_scale(snapshot, info, first), info


def _on_one_scale(snapshot: Snapshot, info: SampleInfo, first: float) -> Snapshot:
    """Weights of draws, which sum to 1, as multiples of one scale for all parts."""
    weight = snapshot.weight
    if weight is None or info.exact:
        return snapshot
    scale = weight.shape[0] * float(np.exp(info.log_norm - first))
    return replace(snapshot, weight=weight * scale)


def _only_one(operator: Operator, configs: np.ndarray) -> bool:
    """Tell whether the sector of configurations holds no other, so that nothing can change."""
    sector = magnetisation_of(operator, configs)
    return sector is not None and operator.states(sector).dimension == 1


@dataclass
class Total:
    """The sum of terms, collected over parts: one number per sample is kept."""

    operator: Operator | None = None  #: whose symmetries say what is sampled
    _values: list[np.ndarray] = field(default_factory=list)
    _weights: list[np.ndarray | None] = field(default_factory=list)
    _changed: list[float] = field(default_factory=list)
    _few: list[np.ndarray] = field(default_factory=list)  #: configurations where few draws differ
    _info: SampleInfo | None = None

    def add(self, values: Array, snapshot: Snapshot, info: SampleInfo) -> None:
        """Add the values (M, T) of one part, and what its samples are."""
        self._values.append(to_host(values).sum(axis=1))
        self._weights.append(None if snapshot.weight is None else to_host(snapshot.weight))
        configs = np.asarray(to_host(snapshot.configs))
        changed = changed_part(configs, info.n_walkers)
        if self.operator is not None and _only_one(self.operator, configs):
            changed = None
        self._changed += [] if changed is None else [changed]
        if changed is not None and changed < LEAST_CHANGED:
            self._few.append(np.unique(configs, axis=0))
        self._info = info

    def estimate(self, of: tuple[Method, Point] | None = None) -> Estimate:
        """The mean of the sums over terms, and what speaks against its error.

        Where they are the terms of the Hamiltonian, `of` is what was measured, and the error is
        `neighbours.widened`.
        """
        assert self._info is not None, "no samples were added"
        values, weight, info = np.concatenate(self._values), self._weight(), self._info
        if info.independent:  # a chain whose last part holds one draw is not
            info = replace(info, n_walkers=len(values))
        found, moved = estimate_samples(values, weight, info), None
        if info.exact:
            return replace(found, n_samples=len(values))
        changed = float(np.mean(self._changed)) if self._changed else None
        if of is not None and self._few:
            (method, point), few = of, np.concatenate(self._few)
            found, moved = widened(
                found, changed, few, method.problem, point.theta, method.sampler.threads
            )
        effective = None if weight is None else effective_samples(weight)
        told = doubts(found, info.n_walkers, effective=effective, changed=changed, moved=moved)
        return replace(found, diagnostics=(*told, *of_chains(info, len(values))))

    def _weight(self) -> np.ndarray | None:
        """Weights of all samples, 1 in a part that needs none; None where no part has any."""
        if all(weight is None for weight in self._weights):
            return None
        parts = zip(self._values, self._weights, strict=True)
        return np.concatenate([np.ones(len(x)) if w is None else w for x, w in parts])


@dataclass
class Collected:
    """Observables, collected over parts: block sums of each, and the energy."""

    blocks: dict[str, Blocks] = field(default_factory=dict)
    total: Total = field(default_factory=Total)  #: of the first observable of all


def collect(
    method: Method, point: Point, observables: Mapping[str, Observable], stream: int
) -> Collected:
    """Draw samples and collect observables by name; the first one is summed up as well."""
    found = Collected(total=Total(method.problem.operator))
    targets = merged_targets(observables.values())
    first = next(iter(observables))
    for snapshot, info in in_parts(method, point, targets, stream):
        weight = None if snapshot.weight is None else to_host(snapshot.weight)
        for name, observable in observables.items():
            values = to_host(observable.values(snapshot, targets))
            fresh = Blocks(exact=info.exact)
            found.blocks.setdefault(name, fresh).add(values, weight, info.n_walkers)
            if name == first:
                found.total.add(values, snapshot, info)
    return found
