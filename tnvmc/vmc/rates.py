"""The learning rate of a VMC: a number, a function of the step, or "auto"."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tnvmc.ansatz.protocol import Ansatz
from tnvmc.backend.arguments import real
from tnvmc.backend.calls import shortly
from tnvmc.operators.bounds import energy_bound, off_diagonal_bound
from tnvmc.operators.term import Operator
from tnvmc.optimize import average
from tnvmc.optimize.pace import AUTOMATIC, Paced
from tnvmc.optimize.rule import Rule
from tnvmc.optimize.sr import SR
from tnvmc.sampling.problem import Samples
from tnvmc.vmc.checks import shares_tensors

FIXED_RATE = 0.1
"""Learning rate of rules other than SR where none is given."""

FIRST_RATE = 0.06
"""Of "auto", over the size of the off-diagonal terms per site, which sets the time in which a state
changes: 0.08 for the Heisenberg model with J = 1 on 4x4 sites, 0.12 for Rydberg atoms with Omega = 1."""


@dataclass(frozen=True)
class Rates:
    """The learning rate of each step, as it was given; a function is asked at each, and looked at."""

    given: float | Callable[[int], float]

    def __call__(self, step: int) -> float:
        """Learning rate of a step.

        Raises:
            ValueError: a function gives no finite number, or one below 0.
        """
        if not callable(self.given):
            return self.given
        return real("VMC", f"learning_rate({step})", self.given(step), 0.0)


def rates(learning_rate: Any, rule: Rule) -> Rates | None:
    """Give the rates that were asked for, None for "auto".

    Raises:
        TypeError: a function that cannot be called with a step.
        ValueError: no finite number from 0, and nothing else that is known.
    """
    if learning_rate is None:
        learning_rate = "auto" if isinstance(rule, SR) else FIXED_RATE
    if isinstance(learning_rate, str):
        if learning_rate == "auto":
            return None
        raise ValueError(
            "VMC: learning_rate must be a finite number, a function of the step or 'auto', got "
            f"{learning_rate!r}"
        )
    if callable(learning_rate):
        _require_step(learning_rate)
        return Rates(learning_rate)
    if isinstance(learning_rate, list | tuple):
        raise ValueError(  # noqa: TRY004
            f"VMC: learning_rate is a list; write Piecewise({list(learning_rate)}, [steps of each])"
        )
    return Rates(real("VMC", "learning_rate", learning_rate, 0.0))


def _require_step(schedule: Callable[..., Any]) -> None:
    if isinstance(schedule, type):
        raise TypeError(
            f"VMC: learning_rate is {shortly(schedule)}; make one of it: {schedule.__name__}(...)"
        )
    try:
        inspect.signature(schedule).bind(0)
    except ValueError:  # of a builtin, which tells nothing of itself
        return
    except TypeError:
        raise TypeError(
            "VMC: learning_rate must be a function of the step, as lambda step: 0.1 / (1 + step / 50), "
            f"got {shortly(schedule)}, which does not take one number"
        ) from None


def averaging(rule: Rule | None, ansatz: Ansatz, sampler: Samples) -> Rule:
    """Give a rule, by default `AUTOMATIC`, that knows up to how many parameters it averages S."""
    if isinstance(rule, Paced):
        return replace(rule, rule=averaging(rule.rule, ansatz, sampler))
    rule = AUTOMATIC if rule is None else rule
    if not isinstance(rule, SR) or rule.averaged_up_to != "auto":
        return rule
    most = average.most_parameters(sampler.n_samples, shares_tensors(ansatz))
    return replace(rule, averaged_up_to=most)


def paced(rule: Rule, operator: Operator) -> Paced:
    """Let the rate of a rule follow the steps, from a first one that fits the off-diagonal terms."""
    per_site = (off_diagonal_bound(operator) or energy_bound(operator)) / operator.n_sites
    return Paced(rule, rate=FIRST_RATE / per_site if per_site > 0 else FIRST_RATE)
