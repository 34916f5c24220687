"""What was not drawn, looked at: by chains of a power of |psi|^2, and one application of H away.

A state with nearly all its weight on a few configurations is sampled as these few, again and again.
A class of configurations that is rare and has another local energy may be missed altogether, and no
scatter of samples knows of it.  Its members are neighbours of what was drawn, and psi can be asked
for them.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import numpy as np

from tnvmc.ansatz.protocol import Snapshot
from tnvmc.backend import progress
from tnvmc.backend.namespace import array_namespace, to_host, to_namespace
from tnvmc.estimate.mixing import MANY
from tnvmc.estimate.observables import connected, local_energy
from tnvmc.estimate.reliability import HEAVY_TAIL, LEAST_CHANGED
from tnvmc.estimate.statistics import Estimate
from tnvmc.operators.term import Operator
from tnvmc.sampling import streams
from tnvmc.sampling.chains import Sampler, followed
from tnvmc.sampling.problem import Problem, SampleInfo, Samples
from tnvmc.sampling.workers import join, measure_configs
from tnvmc.vmc.observation import Observation, observe

Array = Any

_BEYOND = 1.1
"""Of the distance between the mean and the energy with neighbours: what is farther than one
application of H.  XXZ 3x4, Delta = 3, 256 samples and 1024 direct draws: the energy with neighbours
is off by 7 and 8 % of what the mean is off by, in the root mean square."""

_ROUNDING = 1e-12  # relative, between two sums of the same local energies

_FEWER, SHARE = 4, 0.2  # samples over those of the second look; the effective part of these

_BURN, _WALKERS = 10, 512
"""Sweeps of direct draws from |psi|^2, to a power of it; chains that begin there, at most.  Ten
sweeps of each of 16384 draws took as long as 100 steps of a transformer."""

_HIDDEN = 0.25
"""Variance of the samples over that of the second look, below which it is measured again."""

_ONCE = 0.15
"""Part of the draws that no other draw repeats, up to which configurations that were drawn and
their neighbours have nearly all of the weight."""


def with_rare(seen: Observation, sampler: Samples) -> Observation:
    """Measure an energy again where samples of |psi|^2 do not show its variance.

    Local energies go as 1 / psi: configurations that most draws lack may make most of the variance.
    Chains of a power of |psi|^2 see them.  Where a quarter as many such samples have another
    variance (`hidden`), as many as there were take the place of those of |psi|^2, with weights, and
    the larger one of the two variances counts.  Source and figures: docs/decisions/014.
    """
    info, energy = seen.info, seen.energy
    weighted = info.exact or info.power not in (None, 1.0)
    if weighted or energy.n_samples < _FEWER * MANY or not seen.problem.ansatz.tempered:
        return seen
    chains = replace(flatter(sampler, seen.snapshot, info), n_samples=energy.n_samples)
    start = replace(seen.point, configs=seen.snapshot.configs[-chains.n_walkers :, :])
    fewer = replace(chains, n_samples=-(-energy.n_samples // _FEWER))
    progress.begin("rare")
    look = observe(seen.problem, fewer, start, streams.RARE, jacobian=False)
    if not hidden(energy, look.energy):
        return seen
    progress.begin("again")
    again = observe(seen.problem, chains, look.point, streams.RARE + 1, jacobian=False)
    drawn = [np.asarray(to_host(each.snapshot.configs)) for each in (seen, look, again)]
    energy = of_both(again.energy, look.energy)
    return replace(
        again, energy=within_drawn(energy, seen.problem, again.point.theta, drawn, sampler.threads)
    )


def flatter(sampler: Samples, snapshot: Snapshot, info: SampleInfo) -> Sampler:
    """Give chains of the power of |psi|^2 with an effective part of `SHARE`, by samples of it."""
    few = min(info.n_walkers, _WALKERS)
    chains: Any = sampler if hasattr(sampler, "power") else Sampler(few, n_burn=_BURN)
    power = 2 * followed(snapshot.amplitude, 1.0, SHARE) - 1  # all of the way
    return cast(Sampler, replace(chains, power=power, threads=sampler.threads))


def within_drawn(
    energy: Estimate, problem: Problem, theta: Array, draws: Sequence[np.ndarray],
    threads: int | None = None,
) -> Estimate:  # fmt: skip
    """Widen the error of an energy by its distance from that of all draws and their neighbours.

    A heavy one of rare configurations may still be missed, but seldom its neighbours.  Nothing is
    done where more than `_ONCE` of the first draws, those of |psi|^2, are not repeated by any.
    """
    every = np.concatenate(draws)
    _, place, counts = np.unique(keys_of(every), return_inverse=True, return_counts=True)
    if (counts[place[: len(draws[0])]] == 1).mean() > _ONCE or not math.isfinite(energy.mean):
        return energy
    both = energy_with_neighbours(problem, theta, every, energy.n_samples, threads)
    return with_distance(energy, both)[0]


def hidden(energy: Estimate, look: Estimate) -> bool:
    """Tell whether samples of |psi|^2 do not show the variance that a second look sees."""
    beyond = energy.variance < _HIDDEN * look.variance or energy.largest_share > HEAVY_TAIL
    return beyond and look.variance > (_ROUNDING * energy.mean) ** 2


def of_both(energy: Estimate, look: Estimate) -> Estimate:
    """Give an energy the error that the larger one of two variances makes."""
    larger = max(look.variance, energy.variance) / max(energy.variance, 1e-300)
    return replace(energy, error=energy.error * math.sqrt(larger))


def widened(
    energy: Estimate, changed: float | None, configs: np.ndarray, problem: Problem, theta: Array,
    threads: int | None = None,
) -> tuple[Estimate, float | None]:  # fmt: skip
    """Widen the error of an energy by what neighbours of few configurations add to it.

    Only where less than `LEAST_CHANGED` of the draws differ from the one before (`changed`, None
    for an enumeration): samples that are all different speak for those that are not seen.  The
    error becomes 1.1 |E' - E| where that is larger, E' = `energy_with_neighbours` of the `configs`
    (M, N) drawn.  The mean stays that of the samples.

    Gives the estimate, and (E' - E) / error before, 0 where E' is E; None where nothing was done.
    Cost: measuring what was drawn, each once, and as many neighbours as samples at most.
    """
    if changed is None or changed >= LEAST_CHANGED or not math.isfinite(energy.mean):
        return energy, None
    both = energy_with_neighbours(problem, theta, configs, energy.n_samples, threads)
    return with_distance(energy, both)


def with_distance(energy: Estimate, both: float) -> tuple[Estimate, float]:
    """Widen the error of an energy by its distance from that with neighbours; see `widened`.

    Also gives the distance in units of the error that it had.
    """
    distance = abs(both - energy.mean)
    if distance <= _ROUNDING * max(1.0, abs(energy.mean)):
        return energy, 0.0
    moved = distance / energy.error if energy.error > 0 else math.inf
    return replace(energy, error=max(energy.error, _BEYOND * distance)), moved


def energy_with_neighbours(
    problem: Problem, theta: Array, configs: np.ndarray, most: int, threads: int | None = None
) -> float:
    """Give the energy of some configurations and of those that H leads to from them.

    E' = sum |psi|^2 E_loc / sum |psi|^2, each configuration once, so that E' has no noise but for
    which configurations it knows; it is no better than the mean where they are a small part of the
    weight.  `configs` are samples (M, N), on the host; at `most` so many neighbours are measured,
    the heaviest ones.
    """
    operator, xp = problem.operator, array_namespace(theta)
    measure = partial(
        measure_configs, problem.ansatz, theta, targets=operator.targets, threads=threads
    )
    known = np.unique(configs, axis=0)
    progress.begin("neighbours")
    snapshots = [measure(to_namespace(known, xp))]
    others = _neighbours(operator, known, snapshots[0], most)
    if len(others):
        progress.begin("neighbours")
        snapshots.append(measure(to_namespace(others, xp)))
    every = join(snapshots)
    energies = np.asarray(to_host(local_energy(operator, every))).real
    log_abs = np.asarray(to_host(every.amplitude.log_abs))
    weight = np.exp(2.0 * (log_abs - log_abs.max()))
    usable = (weight > 0) & np.isfinite(energies)
    return float(np.average(energies[usable], weights=weight[usable]))


def _neighbours(operator: Operator, known: np.ndarray, snapshot: Snapshot, most: int) -> np.ndarray:
    """The heaviest configurations (K, N), at `most` so many, that H leads to from known ones."""
    log_abs = np.asarray(to_host(snapshot.amplitude.log_abs))
    found, logs = [known], [np.full(len(known), np.inf)]
    for rows, configs, ratios, _ in connected(operator, snapshot):
        there = np.abs(ratios) > 0
        found.append(configs[there])
        logs.append(log_abs[rows[there]] + np.log(np.abs(ratios[there])))
    every, log = np.concatenate(found), np.concatenate(logs)
    # The known ones are the heaviest here, so that the first of equal rows tells of them.
    order = np.argsort(-log, kind="stable")
    first = order[np.unique(keys_of(every)[order], return_index=True)[1]]
    unknown = first[np.isfinite(log[first])]
    kept = np.argsort(-log[unknown], kind="stable")[:most]
    heaviest: np.ndarray = every[unknown[np.sort(kept)]]
    return heaviest


def keys_of(configs: np.ndarray) -> np.ndarray:
    """One string of bytes each: `np.unique` with axis=0 compares sites, 15 times as slow."""
    every = np.ascontiguousarray(configs)
    return every.view(f"V{every.itemsize * every.shape[1]}")[:, 0]
