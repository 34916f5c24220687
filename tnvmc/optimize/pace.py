"""A learning rate that follows what the last step has shown.

With E the energy and d the last direction, the slope of E along d, at the point that d has led to,
is 2 Re(F^dagger d): still downhill means that the step was too short, uphill that it was too long.
The samples there are new, so noise that d has followed shows up as uphill, and the rate falls as
the force sinks into noise: a hypergradient (Baydin et al., ICLR 2018), relative to the spread of
the local energies, which makes it a number between -1 and 1 whatever the units.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

from tnvmc.backend.arguments import positive
from tnvmc.backend.namespace import array_namespace
from tnvmc.jacobian.base import Jacobian
from tnvmc.optimize.rule import Info, Rule, RuleState
from tnvmc.optimize.solve import LeastSquares, least_squares
from tnvmc.optimize.sr import SR

Array = Any

AUTOMATIC = SR("auto", memory=0.9)
"""The rule where none is given."""

OF_RULE = "rule_"
"""Before the names of what the rule itself carries."""


@dataclass(frozen=True)
class Paced(Rule):
    """Another rule, whose directions are multiplied by a rate that adapts itself.

    Use it with a learning rate of 1.  The rate is multiplied by exp(gain * c) at each step, with c
    the correlation of the local energies with what the last direction makes of them.  Reports both
    as `paced_rate` and `correlation`.

    Raises ValueError or TypeError for settings that are not positive numbers.
    """

    rule: Rule
    rate: float = 0.1  #: at the first step
    gain: float = 0.3
    largest: float = 0.5

    def __post_init__(self) -> None:
        for name in ("rate", "gain", "largest"):
            positive("Paced", name, getattr(self, name))

    def init(self, theta: Array) -> RuleState:
        """State of the rule, the rate and the last direction."""
        last = array_namespace(theta).zeros_like(theta)
        return {**_named(self.rule.init(theta)), "rate": self.rate, "last": last}

    def direction(
        self, theta: Array, jacobian: Jacobian, local_energy: Array, weight: Array | None,
        state: RuleState,
    ) -> tuple[Array, RuleState, Info]:  # fmt: skip
        """Rate times the direction of the rule (P,); see `Rule.direction`."""
        found, after, info = self.rule.direction(
            theta, jacobian, local_energy, weight,
            {k.removeprefix(OF_RULE): v for k, v in state.items() if k.startswith(OF_RULE)},
        )  # fmt: skip
        problem = least_squares(theta, jacobian, local_energy, weight)
        xp = array_namespace(local_energy)
        least = _ROUNDING * float(xp.max(xp.abs(local_energy)))
        correlation = correlation_along(problem, state["last"], least)
        rate = min(self.largest, float(state["rate"]) * math.exp(self.gain * correlation))
        info = {**info, "paced_rate": rate, "correlation": correlation}
        return rate * found, {**_named(after), "rate": rate, "last": found}, info

    def for_shared_tensors(self, n_params: int) -> "Paced":
        return replace(self, rule=self.rule.for_shared_tensors(n_params))

    def unsolved(self, info: Info) -> float | None:
        return self.rule.unsolved(info)

    def shortened(self, state: RuleState, factor: float) -> RuleState:
        """A rate that does not grow against a limit: less by what a step adds to it, at most.

        Early steps of a network, whose theta is small, are limited by a hundred; a rate of what was
        taken needed twenty steps to recover.
        """
        return {**state, "rate": max(factor, math.exp(-self.gain)) * float(state["rate"])}


def _named(state: RuleState) -> RuleState:
    return {f"{OF_RULE}{name}": value for name, value in state.items()}


_ROUNDING = 1e-12  # of the largest local energy, which is a sum of hundreds of terms


def correlation_along(problem: LeastSquares, direction: Array, least: float = 0.0) -> float:
    """Correlate e with A d over the samples for d (P,); 0 where one of them is constant.

    So is e up to `least`: energies of an eigenstate differ by rounding, and say nothing of a rate.

    Cost: one product with A.
    """
    xp, target = array_namespace(direction), problem.target
    if float(xp.sqrt(xp.sum(xp.abs(target) ** 2))) <= least:
        return 0.0
    predicted = problem.matrix.apply(direction)
    size = math.sqrt(float(xp.sum(xp.abs(predicted) ** 2)) * float(xp.sum(xp.abs(target) ** 2)))
    rows = xp.reshape(xp.real(xp.conj(target) * predicted), (problem.matrix.parts, -1))
    slope = float(xp.sum(xp.sum(rows, axis=0)))
    return slope / size if size > 0 else 0.0
