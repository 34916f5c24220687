"""The exact twin of sampling: every configuration once, with its weight, and no noise."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tnvmc.ansatz.protocol import LogAmplitude, Snapshot
from tnvmc.backend.arguments import one_of, set_whole
from tnvmc.backend.namespace import array_namespace, to_namespace
from tnvmc.operators.basis import Basis
from tnvmc.sampling.configurations import sector_of
from tnvmc.sampling.problem import Drawing, Point, Problem, SampleInfo, Samples
from tnvmc.sampling.workers import measure_configs, split

Array = Any

MAX_CONFIGS = 2_000_000
"""Largest basis that is enumerated."""


@dataclass(frozen=True)
class Enumerate(Samples):
    """Visits every configuration with its weight |psi|^2 instead of drawing some: no noise.

    Args:
        magnetisation: twice the total Sz, for an operator that conserves it; by default that of
            the problem.
        threads: as for `Sampler`.
        by_orbit: measure one configuration of each orbit, with the weight of all, where the ansatz
            knows its symmetries (`orbit_classes`) and the operator has them too: enough for the
            energy, and for nothing that is not symmetric itself.
    """

    magnetisation: int | None = None
    threads: int | None = None
    by_orbit: bool = True

    def __post_init__(self) -> None:
        set_whole(self, {"magnetisation": None, "threads": 1})
        one_of("Enumerate", "by_orbit", self.by_orbit, (True, False))

    n_walkers = 1  # nothing is drawn, and nothing carried from step to step
    n_samples = None

    def draw(
        self, problem: Problem, point: Point, stream: int = 0, jacobian: bool = True
    ) -> tuple[Snapshot, Point, SampleInfo]:
        """Measure all configurations, with weight |psi|^2 / sum |psi|^2; the point stays.

        They are those of one magnetisation if the operator conserves it, else all d^N, in
        lexicographic order.  Means are exact for the (truncated) amplitudes, but configurations
        with psi = 0 carry no weight, whatever their local value times psi: a variance lacks theirs.

        Raises:
            ValueError: more than `MAX_CONFIGS` configurations; psi = 0 everywhere; a magnetisation
                that there is not (`sector_of`).
        """
        began = time.perf_counter()
        ansatz, theta, xp = problem.ansatz, point.theta, array_namespace(point.theta)
        basis = _basis(problem, self.magnetisation)
        configs = basis.configs(basis.codes)
        classes = ansatz.orbit_classes(configs, problem.operator) if self.by_orbit else None
        counts = 1.0
        if classes is not None:
            configs, counts = classes[0], to_namespace(np.bincount(classes[1]), xp)
        snapshot = measure_configs(
            ansatz, theta, to_namespace(configs, xp), problem.targets,
            threads=self.threads, jacobian=jacobian,
        )  # fmt: skip
        weight = counts * born_weights(snapshot.amplitude)
        weight = weight / xp.sum(weight)
        info = SampleInfo(1, basis.dimension, time.perf_counter() - began, exact=True)
        return replace(snapshot, weight=weight), point, info

    def parts(self, problem: Problem, point: Point, at_once: int) -> Sequence[Drawing]:
        """Ranges of the basis, with weights that sum to 1 over all of them.

        Cost: the amplitudes of all configurations.
        """
        basis = _basis(problem, self.magnetisation)
        ansatz, threads = problem.ansatz, self.threads
        configs = to_namespace(basis.configs(basis.codes), array_namespace(point.theta))
        everywhere = measure_configs(ansatz, point.theta, configs, {}, threads=threads)
        weight = born_weights(everywhere.amplitude)
        rows = (slice(part.start, part.stop) for part in split(basis.dimension, at_once))
        return [_Rows(configs[each, :], weight[each], threads) for each in rows]


@dataclass(frozen=True)
class _Rows(Drawing):
    """A range of an enumeration, with the weights that it has in the whole."""

    configs: Array
    weight: Array
    threads: int | None

    def draw(
        self, problem: Problem, point: Point, stream: int, jacobian: bool = True
    ) -> tuple[Snapshot, Point, SampleInfo]:
        began = time.perf_counter()
        snapshot = measure_configs(
            problem.ansatz, point.theta, self.configs, problem.targets,
            threads=self.threads, jacobian=jacobian,
        )  # fmt: skip
        info = SampleInfo(1, self.configs.shape[0], time.perf_counter() - began, exact=True)
        return replace(snapshot, weight=self.weight), point, info


def born_weights(amplitude: LogAmplitude) -> Array:
    """|psi|^2 / sum |psi|^2 of (M,) amplitudes, free of overflow.

    Raises ValueError when psi vanishes everywhere or is not finite somewhere.
    """
    xp = array_namespace(amplitude.log_abs)
    log_abs = xp.astype(amplitude.log_abs, xp.float64)
    largest = xp.max(log_abs)
    if not xp.isfinite(largest):
        raise ValueError(
            f"enumeration: largest ln|psi| is {float(largest)} over "
            f"{log_abs.shape[0]} configurations; psi vanishes on the whole sector or "
            "theta holds non-finite numbers. Check the parameters and the sector."
        )
    weight = xp.exp(2.0 * (log_abs - largest))
    return weight / xp.sum(weight)


def _basis(problem: Problem, magnetisation: int | None) -> Basis:
    operator = problem.operator
    sector = sector_of(operator, magnetisation, problem.magnetisation)
    basis = operator.states(sector)
    if basis.dimension > MAX_CONFIGS:
        raise ValueError(
            f"enumeration: {basis.dimension} configurations of {operator.n_sites} sites, at most "
            f"{MAX_CONFIGS} are enumerated. Use a smaller lattice, or sample."
        )
    return basis
