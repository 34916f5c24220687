"""The learning rate of each step: as it was given, or one that follows the steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tnvmc.backend.arguments import real
from tnvmc.operators.properties import energy_bound, off_diagonal_bound
from tnvmc.operators.term import Operator
from tnvmc.optimize.pace import Paced
from tnvmc.optimize.rule import Rule

FIRST_RATE = 0.06
"""Of "auto", over the size of the off-diagonal terms per site, which sets the time in which a state
changes: 0.08 for the Heisenberg model with J = 1 on 4x4 sites, 0.12 for Rydberg atoms with Omega =
1."""


@dataclass(frozen=True)
class Rates:
    """The learning rate of each step, as it was given; a function is asked at each, and checked."""

    given: float | Callable[[int], float]

    def __call__(self, step: int) -> float:
        """Learning rate of a step.

        Raises:
            ValueError: a function gives no finite number, or one below 0.
        """
        if not callable(self.given):
            return self.given
        return real("VMC", f"learning_rate({step})", self.given(step), 0.0)


def paced(rule: Rule, operator: Operator) -> Paced:
    """Let the rate of a rule follow the steps; the first one fits the off-diagonal terms."""
    per_site = (off_diagonal_bound(operator) or energy_bound(operator)) / operator.n_sites
    return Paced(rule, rate=FIRST_RATE / per_site if per_site > 0 else FIRST_RATE)
