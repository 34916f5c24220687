"""What one draw shows: samples, local energies and estimates at one point."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tnvmc.ansatz.protocol import Snapshot
from tnvmc.backend.namespace import array_namespace
from tnvmc.estimate.observables import local_energy, off_diagonal_values
from tnvmc.estimate.statistics import Estimate, effective_samples, estimate_samples
from tnvmc.sampling.problem import Drawing, Point, Problem, SampleInfo
from tnvmc.sampling.workers import measure_configs
from tnvmc.vmc.orthogonal import LowerState, Overlap, SampledState, penalties

Array = Any


@dataclass(frozen=True)
class Observation:
    """What one draw at a point shows."""

    problem: Problem
    point: Point  #: with the walkers where they are now
    snapshot: Snapshot
    local: Array  #: (M,) local energies
    energy: Estimate
    info: SampleInfo
    local_cost: Array  #: (M,) what a step lowers the mean of: `local`, and penalties for overlaps
    cost: Estimate  #: of the mean of `local_cost`
    overlaps: tuple[Overlap, ...] = ()  #: with the states that psi is kept orthogonal to

    @property
    def closure_spread(self) -> float | None:
        """Mean over the samples; None for an ansatz without closures."""
        spread, weight = self.snapshot.closure_spread, self.snapshot.weight
        if spread is None:
            return None
        xp = array_namespace(spread)
        return float(xp.mean(spread) if weight is None else xp.sum(spread * weight))

    @cached_property
    def off_diagonal_energy(self) -> float:
        """Part of the energy that elements of H between two configurations make."""
        weight = self.snapshot.weight
        part = off_diagonal_values(self.problem.operator, self.snapshot, self.local)
        xp = array_namespace(part)
        mean = xp.mean(part) if weight is None else xp.sum(part * weight) / xp.sum(weight)
        return float(mean)

    def statistics(self) -> dict[str, Any]:
        """Give the part that records of steps and measurements share."""
        exact, weight = self.info.exact, self.snapshot.weight
        weighted = weight is not None and not exact
        return {
            "energy": float(self.energy.mean),
            "energy_error": float(self.energy.error),
            "variance": float(self.energy.variance),
            "tau": None if exact else float(self.energy.tau),
            "r_hat": None if exact else float(self.energy.r_hat),
            "acceptance": self.info.acceptance,
            "acceptance_by_move": self.info.acceptance_by_move,
            "closure_spread": self.closure_spread,
            "effective_samples": effective_samples(weight) if weighted else None,
            "overlaps": self.overlaps,
        }


NOTHING_SEEN: dict[str, Any] = {
    **dict.fromkeys(("energy", "energy_error", "variance"), math.nan),
    **dict.fromkeys(("tau", "r_hat", "acceptance", "closure_spread", "effective_samples")),
    "overlaps": (),
}
"""`Observation.statistics` of a step whose sampling failed."""


def observe(
    problem: Problem, sampler: Drawing, point: Point, stream: int, jacobian: bool = True,
    orthogonal_to: Sequence[LowerState] = (),
) -> Observation:  # fmt: skip
    """Draw samples at a point and estimate the energy there, with penalties for overlaps."""
    snapshot, point, info = sampler.draw(problem, point, stream, jacobian)
    local = local_energy(problem.operator, snapshot)
    energy = estimate_samples(local, snapshot.weight, info)
    seen = Observation(problem, point, snapshot, local, energy, info, local, energy)
    if not orthogonal_to:
        return seen
    psi = SampledState(problem.ansatz, point.theta, snapshot, info, sampler.threads)
    penalty, overlaps = penalties(orthogonal_to, psi, stream)
    cost = local + penalty
    mean = estimate_samples(cost, snapshot.weight, info)
    return replace(seen, local_cost=cost, cost=mean, overlaps=overlaps)


@dataclass(frozen=True)
class Reweighted(Drawing):
    """Draws nothing: gives the samples of a draw elsewhere, with weights |psi here / psi there|^2.

    The farther apart two points are, the fewer samples these are worth (`effective_samples`).
    """

    there: Snapshot
    info: SampleInfo
    threads: int | None = None

    def draw(
        self, problem: Problem, point: Point, stream: int = 0, jacobian: bool = True
    ) -> tuple[Snapshot, Point, SampleInfo]:
        """Measure at `point.theta` what was drawn elsewhere; the point is the one given.

        Cost: one `start` and one measurement for each sample, no sweep.
        """
        own = self.there
        snapshot = measure_configs(
            problem.ansatz, point.theta, own.configs, problem.targets,
            threads=self.threads, jacobian=jacobian,
        )  # fmt: skip
        xp = array_namespace(point.theta)
        here, there = (xp.astype(each.amplitude.log_abs, xp.float64) for each in (snapshot, own))
        seen = xp.isfinite(there)  # where a sum over symmetries cancels, psi and the weight are 0
        zero = xp.zeros_like(there)
        log = xp.where(seen, here, zero - xp.inf) - xp.where(seen, there, zero)
        weight = xp.exp(2.0 * (log - xp.max(log)))
        weight = weight if own.weight is None else weight * own.weight
        return replace(snapshot, weight=weight / xp.sum(weight)), point, self.info
