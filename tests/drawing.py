"""Samplers called with bare arrays: the tests of samplers have no run around them."""

from __future__ import annotations

from typing import Any

from tnvmc.ansatz.protocol import Snapshot
from tnvmc.operators.term import Operator
from tnvmc.sampling.chains import Sampler
from tnvmc.sampling.direct import DirectSampler
from tnvmc.sampling.enumerate import Enumerate
from tnvmc.sampling.problem import Point, Problem, SampleInfo

Array = Any


def sample(
    sampler: Sampler, ansatz: Any, point: tuple[Array, Array], targets: Any, moves: Any,
    stream: tuple[int, int] = (0, 0), jacobian: bool = True,
) -> tuple[Array, Snapshot, SampleInfo]:  # fmt: skip
    """Chains from (theta, configs) with random numbers of (seed, step): configs, samples, info."""
    problem: Any = Problem(ansatz, None, targets, moves, stream[0])  # type: ignore[arg-type]
    snapshot, after, info = sampler.draw(problem, Point(*point), stream[1], jacobian)
    return after.configs, snapshot, info


def enumerated(
    ansatz: Any, theta: Array, operator: Operator, jacobian: bool = True, **settings: Any
) -> Snapshot:
    """All configurations, each measured by itself unless `by_orbit` is set."""
    problem = Problem(ansatz, operator, operator.targets, {})
    sampler = Enumerate(**{"by_orbit": False, **settings})
    return sampler.draw(problem, Point(theta, None), 0, jacobian)[0]


def draw_samples(
    sampler: DirectSampler, ansatz: Any, theta: Array, operator: Operator,
    targets: Any = None, stream: tuple[int, int] = (0, 0), jacobian: bool = True,
) -> tuple[Snapshot, SampleInfo]:  # fmt: skip
    """Direct draws with random numbers of (seed, step)."""
    targets = operator.targets if targets is None else targets
    problem = Problem(ansatz, operator, targets, {}, stream[0])
    snapshot, _, info = sampler.draw(problem, Point(theta, None), stream[1], jacobian)
    return snapshot, info
