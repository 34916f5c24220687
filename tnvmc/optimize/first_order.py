"""Rules that use the force alone: plain gradient, Adam."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from tnvmc.backend.arguments import real
from tnvmc.backend.namespace import array_namespace
from tnvmc.jacobian.base import Jacobian
from tnvmc.optimize.rule import Info, Rule, RuleState, require_finite
from tnvmc.optimize.solve import least_squares

Array = Any


@dataclass(frozen=True, kw_only=True)
class FirstOrder(Rule):
    """A rule whose direction follows from the force F = O^dagger W (E - <E>) and its state."""

    def init(self, theta: Array) -> RuleState:
        """Nothing is carried."""
        return {}

    @abstractmethod
    def of_force(self, force: Array, state: RuleState) -> tuple[Array, RuleState]:
        """Give the direction (P,) for a force (P,), and the next state."""

    def direction(
        self, theta: Array, jacobian: Jacobian, local_energy: Array, weight: Array | None,
        state: RuleState,
    ) -> tuple[Array, RuleState, Info]:  # fmt: skip
        """Direction (P,) of the type of theta; see `Rule.direction`.  Reports `force_norm`."""
        xp = array_namespace(theta)
        problem = least_squares(theta, jacobian, local_energy, weight)
        with np.errstate(over="ignore", invalid="ignore"):
            force = xp.astype(problem.force(), theta.dtype)
        require_finite("force", force, "log-derivatives or local energies are too large")
        found, after = self.of_force(force, state)
        norm = float(xp.sqrt(xp.sum(xp.abs(force) ** 2)))
        return found, after, {"force_norm": norm}


class GradientDescent(FirstOrder):
    """The force itself: theta -= learning_rate * O^dagger W (E - <E>)."""

    def of_force(self, force: Array, state: RuleState) -> tuple[Array, RuleState]:
        return force, {}


@dataclass(frozen=True, kw_only=True)
class Adam(FirstOrder):
    """Adaptive moments (Kingma, Ba, ICLR 2015), bias-corrected.

    For complex theta the second moment is that of |F_k|, so that a rotation of the phase of a
    parameter rotates its direction.
    """

    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8

    def __post_init__(self) -> None:
        for name in ("beta1", "beta2", "epsilon"):
            real("Adam", name, getattr(self, name))
        if not (0 <= self.beta1 < 1 and 0 <= self.beta2 < 1 and self.epsilon > 0):
            raise ValueError(
                f"Adam: beta1 = {self.beta1} and beta2 = {self.beta2} must lie in [0, 1), "
                f"epsilon = {self.epsilon} above 0"
            )

    def init(self, theta: Array) -> RuleState:
        """Both moments, and the number of steps made."""
        xp = array_namespace(theta)
        size = xp.abs(xp.zeros_like(theta))
        return {"first": xp.zeros_like(theta), "second": size, "count": 0}

    def of_force(self, force: Array, state: RuleState) -> tuple[Array, RuleState]:
        """Give the first moment over the root of the second."""
        xp, count = array_namespace(force), state["count"] + 1
        first = self.beta1 * state["first"] + (1 - self.beta1) * force
        second = self.beta2 * state["second"] + (1 - self.beta2) * xp.abs(force) ** 2
        mean = first / (1 - self.beta1**count)
        root = xp.sqrt(second / (1 - self.beta2**count))
        return mean / (root + self.epsilon), {"first": first, "second": second, "count": count}
