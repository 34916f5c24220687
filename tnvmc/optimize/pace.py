"""A learning rate that follows what the last step has shown.

With E the energy and d the last direction, the slope of E along d, at the point that d has led to, is
2 Re(F^dagger d): still downhill means that the step was too short, uphill that it was too long.  The
samples there are new, so noise that d has followed shows up as uphill, and the rate falls
as the force sinks into noise: a hypergradient (Baydin et al., ICLR 2018), relative to the spread of
the local energies, which makes it a number between -1 and 1 whatever the units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tnvmc.ansatz.protocol import Jacobian
from tnvmc.backend.arguments import positive
from tnvmc.backend.namespace import array_namespace
from tnvmc.optimize.rule import Info, Rule, State
from tnvmc.optimize.solve import LeastSquares, least_squares
from tnvmc.optimize.sr import SR

Array = Any

AUTOMATIC = SR("auto", memory=0.9)
"""The rule where none is given."""


@dataclass(frozen=True)
class Paced:
    """Another rule, whose directions are multiplied by a rate that adapts itself.

    Use it with a learning rate of 1.  The rate is multiplied by exp(gain * c) at each step, with c
    the correlation of the local energies with what the last direction makes of them.  Reports both as
    `paced_rate` and `correlation`.  Does not see what `clip` of the rule leaves out.

    Raises ValueError or TypeError for settings that are not positive numbers.
    """

    rule: Rule
    rate: float = 0.1  #: at the first step
    gain: float = 0.3
    largest: float = 0.5

    def __post_init__(self) -> None:
        for name in ("rate", "gain", "largest"):
            positive("Paced", name, getattr(self, name))

    def init(self, theta: Array) -> State:
        """State of the rule, the rate, and the last direction."""
        last = array_namespace(theta).zeros_like(theta)
        inner = {f"rule_{name}": value for name, value in self.rule.init(theta).items()}
        return {**inner, "rate": self.rate, "last": last}

    def direction(
        self,
        theta: Array,
        jacobian: Jacobian,
        local_energy: Array,
        weight: Array | None,
        state: State,
        uniforms_key: tuple[int, int] = (0, 0),
    ) -> tuple[Array, State, Info]:
        """Rate times the direction of the rule (P,); see `Rule.direction`."""
        before = {k[5:]: v for k, v in state.items() if k.startswith("rule_")}
        found, after, info = self.rule.direction(
            theta, jacobian, local_energy, weight, before, uniforms_key
        )
        problem = least_squares(theta, jacobian, local_energy, weight)
        correlation = correlated(problem, state["last"])
        rate = min(self.largest, float(state["rate"]) * math.exp(self.gain * correlation))
        kept = {f"rule_{name}": value for name, value in after.items()}
        info = {**info, "paced_rate": rate, "correlation": correlation}
        return rate * found, {**kept, "rate": rate, "last": found}, info


def correlated(problem: LeastSquares, direction: Array) -> float:
    """Correlation of e with A d over the samples; 0 where one of them is constant."""
    xp = array_namespace(direction)
    predicted, target = problem.matrix.apply(direction), problem.target
    size = math.sqrt(float(xp.sum(xp.abs(predicted) ** 2)) * float(xp.sum(xp.abs(target) ** 2)))
    along = float(xp.sum(xp.real(xp.conj(target) * predicted)))
    return along / size if size > 0 else 0.0
