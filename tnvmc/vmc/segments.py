"""Samples in segments, so that memory stays bounded however many samples and ratios are asked for."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tnvmc.ansatz.protocol import Ansatz, Snapshot, Targets
from tnvmc.backend.namespace import array_namespace, to_namespace
from tnvmc.estimate.blocks import FEWEST_WALKERS, N_BLOCKS
from tnvmc.operators.basis import Basis
from tnvmc.sampling.chains import Sampler, sample
from tnvmc.sampling.direct import DirectSampler, draw_samples
from tnvmc.sampling.enumerate import born_weights
from tnvmc.sampling.revisit import revisit
from tnvmc.vmc.driver import VMC
from tnvmc.vmc.look import AnySampler, Enumerate
from tnvmc.vmc.state import Point

_ENTRIES = 2**21  # numbers per kind and segment: 16 MiB
_BLOCKS = 32  # segments of few walkers are blocks of their chains


def independent(sampler: AnySampler) -> int:
    """How many samples in a row are independent: walkers, or blocks of direct draws."""
    if isinstance(sampler, Sampler):
        return sampler.n_walkers
    return N_BLOCKS if isinstance(sampler, DirectSampler) else 1


def segments(
    vmc: VMC, point: Point, sampler: AnySampler, ansatz: Ansatz, targets: Targets, stream: int
) -> Iterator[Snapshot]:
    """Yield snapshots with the ratios of `targets`, without log-derivatives.

    Each holds a whole number of draws of `independent(sampler)` samples; a last draw that is not
    full is filled up.  Weights of chains and direct draws are on one scale over all segments, those
    of an enumeration sum to 1 over all.  Random numbers are those of the steps from `stream` on.
    """
    n_sites = vmc.operator.n_sites
    width = max(n_sites**2 // 2 + 1, sum(table.shape[1] for table in targets.values()))
    at_once = max(1, _ENTRIES // width)
    if isinstance(sampler, Enumerate):
        yield from _enumerated(vmc, point, sampler, ansatz, targets, at_once)
    elif isinstance(sampler, DirectSampler):
        yield from _direct(vmc, point, sampler, ansatz, targets, stream, at_once)
    else:
        yield from _chains(vmc, point, sampler, ansatz, targets, stream, at_once)


def _chains(
    vmc: VMC, point: Point, sampler: Sampler, ansatz: Ansatz, targets: Targets, stream: int,
    at_once: int,
) -> Iterator[Snapshot]:  # fmt: skip
    n_walkers = sampler.n_walkers
    draws = max(1, min(sampler.n_draws, at_once // n_walkers))
    if n_walkers < FEWEST_WALKERS:
        draws = min(draws, max(1, sampler.n_draws * n_walkers // _BLOCKS))
    configs, sampler = point.configs, replace(sampler, power=1.0)
    for number, begin in enumerate(range(0, sampler.n_draws, draws)):
        n_samples = min(draws, sampler.n_draws - begin) * n_walkers
        n_burn = 0 if number else sampler.n_burn
        configs, snapshot, info = sample(
            replace(sampler, n_samples=n_samples, n_burn=n_burn),
            ansatz, point.theta, configs, targets, vmc.moves, vmc.seed, stream + number,
            jacobian=False,
        )  # fmt: skip
        yield _scaled(snapshot, info.mean_weight)


def _direct(
    vmc: VMC, point: Point, sampler: DirectSampler, ansatz: Ansatz, targets: Targets, stream: int,
    at_once: int,
) -> Iterator[Snapshot]:  # fmt: skip
    left, first = -(-sampler.n_samples // N_BLOCKS), None
    most = max(1, at_once // N_BLOCKS)
    while left > 0:
        part = replace(sampler, n_samples=min(left, most) * N_BLOCKS)
        snapshot, info = draw_samples(
            part, ansatz, point.theta, vmc.operator, targets, vmc.seed, stream + left,
            jacobian=False,
        )  # fmt: skip
        first = info.log_norm if first is None else first
        yield _scaled(snapshot, math.exp(info.log_norm - first))
        left -= most


def _enumerated(
    vmc: VMC, point: Point, sampler: Enumerate, ansatz: Ansatz, targets: Targets, at_once: int
) -> Iterator[Snapshot]:
    """All configurations, twice: for their weights, and for their ratios."""
    operator, xp = vmc.operator, array_namespace(point.theta)
    sector = sampler.magnetisation if operator.conserves_magnetisation else None
    basis = Basis(operator.n_sites, operator.local_dim, sector)
    configs: Any = to_namespace(basis.configs(basis.codes), xp)
    everywhere = revisit(ansatz, point.theta, configs, {}, sampler.threads)
    weight = born_weights(everywhere.amplitude)
    for begin in range(0, configs.shape[0], at_once):
        end = min(begin + at_once, configs.shape[0])
        part = revisit(ansatz, point.theta, configs[begin:end, :], targets, sampler.threads)
        yield replace(part, weight=weight[begin:end])


def _scaled(snapshot: Snapshot, mean: float) -> Snapshot:
    """The snapshot with weights of this mean, where it has weights."""
    weight = snapshot.weight  # sums to 1
    return snapshot if weight is None else replace(snapshot, weight=weight * weight.shape[0] * mean)
