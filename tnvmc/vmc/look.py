"""One look at a state: samples at a point, and the energy they show."""

from __future__ import annotations

from dataclasses import dataclass, is_dataclass, replace
from typing import Any

from tnvmc.ansatz.protocol import Ansatz, Snapshot, Targets
from tnvmc.backend.namespace import array_namespace
from tnvmc.estimate.local import local_energy
from tnvmc.estimate.statistics import Estimate, effective_samples, estimate, weighted_estimate
from tnvmc.operators.term import Operator
from tnvmc.sampling.chains import Sampler, sample
from tnvmc.sampling.direct import DirectSampler, draw_samples
from tnvmc.sampling.enumerate import enumerate_samples
from tnvmc.vmc.state import Point

Array = Any


@dataclass(frozen=True)
class Enumerate:
    """Visits every configuration with its weight |psi|^2 instead of drawing some: no noise.

    `magnetisation` is twice the total Sz, for an operator that conserves it.
    """

    magnetisation: int = 0
    threads: int | None = None


AnySampler = Sampler | DirectSampler | Enumerate


@dataclass(frozen=True)
class Look:
    """What one round of sampling at a point shows."""

    point: Point  #: with the walkers where they are now
    snapshot: Snapshot
    local: Array
    found: Estimate
    acceptance: float | None
    effective_samples: float | None = None  #: of draws with weights
    precision_shift: float | None = None  #: of the energy, by weights for single precision

    def statistics(self) -> dict[str, Any]:
        """Give the part that records of steps and measurements share."""
        exact = self.acceptance is None
        return {
            "energy": float(self.found.mean),
            "energy_error": float(self.found.error),
            "variance": float(self.found.variance),
            "tau": None if exact else float(self.found.tau),
            "r_hat": None if exact else float(self.found.r_hat),
            "acceptance": self.acceptance,
            "closure_spread": _mean_spread(self.snapshot),
            "effective_samples": self.effective_samples,
        }


def look_at(
    point: Point,
    sampler: AnySampler,
    ansatz: Ansatz,
    operator: Operator,
    moves: Targets,
    seed: int,
    step: int,
    jacobian: bool = True,
) -> Look:
    """Draw samples (or enumerate them) at a point and estimate the energy there."""
    acceptance = effective = None
    if isinstance(sampler, Enumerate):
        snapshot = enumerate_samples(
            ansatz, point.theta, operator, jacobian, sampler.magnetisation,
            threads=sampler.threads, by_orbit=True,
        )  # fmt: skip
    elif isinstance(sampler, DirectSampler):
        snapshot, drawn = draw_samples(
            sampler, ansatz, point.theta, operator, operator.targets, seed,
            step, jacobian=jacobian,
        )  # fmt: skip
        effective = drawn.effective_samples
    else:
        configs, snapshot, info = sample(
            sampler, ansatz, point.theta, point.configs, operator.targets, moves,
            seed, step, jacobian=jacobian,
        )  # fmt: skip
        point, acceptance = replace(point, configs=configs), float(info.acceptance)
    local = local_energy(operator, snapshot)
    if isinstance(sampler, Enumerate) or snapshot.weight is None:
        found = estimate(local, n_walkers_of(sampler), weight=snapshot.weight)
    else:
        found = weighted_estimate(local, snapshot.weight, n_walkers_of(sampler))
    look = Look(point, snapshot, local, found, acceptance, effective)
    if not isinstance(sampler, Sampler) or snapshot.weight is None:
        return look
    look = replace(look, effective_samples=effective_samples(snapshot.weight))
    if sampler.precision is None or sampler.power < 1:
        return look
    plain = estimate(local, n_walkers_of(sampler))
    return replace(look, precision_shift=found.mean - plain.mean)


def n_walkers_of(sampler: AnySampler) -> int:
    """Number of chains whose draws hang together; 1 under enumeration."""
    return 1 if isinstance(sampler, Enumerate) else sampler.n_walkers


def chi_of(ansatz: Ansatz) -> int | None:
    """Give the chi that a state is contracted with; None where it needs none."""
    return getattr(getattr(ansatz, "scheme", None), "chi", None)


def with_chi(ansatz: Ansatz, chi: int) -> Ansatz:
    """Give the same state contracted with another chi, where it is contracted with one."""
    scheme = getattr(ansatz, "scheme", None)
    if not is_dataclass(scheme) or not hasattr(scheme, "chi"):
        return ansatz
    return ansatz.with_scheme(replace(scheme, chi=chi))  # type: ignore[attr-defined, type-var]


def _mean_spread(snapshot: Snapshot) -> float | None:
    if snapshot.closure_spread is None:
        return None
    xp = array_namespace(snapshot.closure_spread)
    if snapshot.weight is not None:
        return float(xp.sum(snapshot.closure_spread * snapshot.weight))
    return float(xp.mean(snapshot.closure_spread))
