"""Rules that use the force alone: plain gradient, random signs, Adam."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tnvmc.backend.arguments import optional_positive, real
from tnvmc.backend.namespace import array_namespace
from tnvmc.backend.random import uniforms
from tnvmc.jacobian.base import Jacobian, is_complex
from tnvmc.optimize.rule import Info, Rule, State, require_finite
from tnvmc.optimize.solve import least_squares

Array = Any

RANDOM_PASS = 2**32 - 1
"""Pass index of the random numbers of a rule: the last one, never reached by sampling."""


@dataclass(frozen=True, kw_only=True)
class GradientDescent(Rule):
    """The force itself: theta -= learning_rate * O^dagger W (E - <E>)."""

    clip: float | None = None
    """Clip local energies; see `tnvmc.optimize.solve.clip_outliers`."""

    def __post_init__(self) -> None:
        optional_positive("GradientDescent", "clip", self.clip)

    def init(self, theta: Array) -> State:
        """Nothing is carried."""
        return {}

    def direction(
        self,
        theta: Array,
        jacobian: Jacobian,
        local_energy: Array,
        weight: Array | None,
        state: State,
        uniforms_key: tuple[int, int] = (0, 0),
    ) -> tuple[Array, State, Info]:
        """Force (P,); see `Rule.direction`."""
        force, info = _force(theta, jacobian, local_energy, weight, self.clip)
        return force, {}, info


@dataclass(frozen=True, kw_only=True)
class RandomSign(Rule):
    """A random part of a step against the sign of each component of the force.

    d_k = r_k sign(F_k) with r_k uniform in [0, 1), one per real number (Liu, Dong, Han, Guo, He,
    PRB 95, 195154 (2017)).  The learning rate is then the largest change of a parameter, and the
    size of the force, hence a single outlier, plays no part.
    """

    clip: float | None = None
    """Clip local energies; see `tnvmc.optimize.solve.clip_outliers`."""

    def __post_init__(self) -> None:
        optional_positive("RandomSign", "clip", self.clip)

    def init(self, theta: Array) -> State:
        """Nothing is carried: the numbers of a step have the address (seed, step)."""
        return {}

    def direction(
        self,
        theta: Array,
        jacobian: Jacobian,
        local_energy: Array,
        weight: Array | None,
        state: State,
        uniforms_key: tuple[int, int] = (0, 0),
    ) -> tuple[Array, State, Info]:
        """Random signs (P,); see `Rule.direction`."""
        xp = array_namespace(theta)
        force, info = _force(theta, jacobian, local_energy, weight, self.clip)
        seed, step = uniforms_key
        size, stream = theta.shape[0], (step, RANDOM_PASS)
        if is_complex(theta):
            r = uniforms(seed, stream, range(1), 2 * size, xp)[0, :]
            signs = r[:size] * xp.sign(xp.real(force)) + 1j * (r[size:] * xp.sign(xp.imag(force)))
        else:
            signs = uniforms(seed, stream, range(1), size, xp)[0, :] * xp.sign(force)
        return xp.astype(signs, theta.dtype), {}, info


@dataclass(frozen=True, kw_only=True)
class Adam(Rule):
    """Adaptive moments (Kingma, Ba, ICLR 2015), bias-corrected.

    For complex theta the second moment is that of |F_k|, so that a rotation of the phase of a
    parameter rotates its direction.
    """

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    clip: float | None = None
    """Clip local energies; see `tnvmc.optimize.solve.clip_outliers`."""

    def __post_init__(self) -> None:
        optional_positive("Adam", "clip", self.clip)
        for name in ("beta1", "beta2", "epsilon"):
            real("Adam", name, getattr(self, name))
        if not (0 <= self.beta1 < 1 and 0 <= self.beta2 < 1 and self.epsilon > 0):
            raise ValueError(
                f"Adam: beta1 = {self.beta1} and beta2 = {self.beta2} must lie in [0, 1), "
                f"epsilon = {self.epsilon} above 0"
            )

    def init(self, theta: Array) -> State:
        """Both moments, and the number of steps made."""
        xp = array_namespace(theta)
        size = xp.abs(xp.zeros_like(theta))
        return {"first": xp.zeros_like(theta), "second": size, "count": 0}

    def direction(
        self,
        theta: Array,
        jacobian: Jacobian,
        local_energy: Array,
        weight: Array | None,
        state: State,
        uniforms_key: tuple[int, int] = (0, 0),
    ) -> tuple[Array, State, Info]:
        """Scaled first moment (P,); see `Rule.direction`."""
        xp = array_namespace(theta)
        force, info = _force(theta, jacobian, local_energy, weight, self.clip)
        count = state["count"] + 1
        first = self.beta1 * state["first"] + (1 - self.beta1) * force
        second = self.beta2 * state["second"] + (1 - self.beta2) * xp.abs(force) ** 2
        mean = first / (1 - self.beta1**count)
        root = xp.sqrt(second / (1 - self.beta2**count))
        direction = mean / (root + self.epsilon)
        return direction, {"first": first, "second": second, "count": count}, info


def _force(
    theta: Array, jacobian: Jacobian, local_energy: Array, weight: Array | None, clip: float | None
) -> tuple[Array, Info]:
    """The force (P,), of the type of theta, and what there is to report about it."""
    xp = array_namespace(theta)
    problem = least_squares(theta, jacobian, local_energy, weight, clip)
    with np.errstate(over="ignore", invalid="ignore"):
        force = xp.astype(problem.force(), theta.dtype)
    require_finite("force", force, "log-derivatives or local energies are too large")
    norm = float(xp.sqrt(xp.sum(xp.abs(force) ** 2)))
    return force, {"force_norm": norm, "clipped": problem.clipped}
