"""The method and the state of an optimisation, both frozen: a step is a function of the two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np

from tnvmc.ansatz.protocol import Ansatz
from tnvmc.estimate.diagnostic import Diagnostic
from tnvmc.jacobian.covariance import Covariance
from tnvmc.operators.term import Operator
from tnvmc.optimize.rule import Rule
from tnvmc.sampling.problem import Point, Problem, Samples
from tnvmc.vmc.guard import Guard
from tnvmc.vmc.observation import Observation
from tnvmc.vmc.orthogonal import LowerState

C = TypeVar("C")


@dataclass(frozen=True)
class Method:
    """How steps are made."""

    problem: Problem
    sampler: Samples
    rule: Rule
    schedule: Callable[[int], float]  #: learning rate of each step
    orthogonal_to: tuple[LowerState, ...] = ()  #: states that psi is kept orthogonal to
    measured_chi: int | None = None  #: of measurements; None: that of the ansatz

    @property
    def in_real_time(self) -> bool:
        """Whether steps are of real time, so that psi stands for no level."""
        return self.rule.in_time and not getattr(self.rule, "imaginary", False)

    @property
    def tries_starts(self) -> bool:
        """Whether a run may begin with another start than the first one."""
        return not (self.orthogonal_to or self.rule.in_time)


class Controller(Protocol):
    """A setting that follows the steps, as the number of samples; its fields are its checkpoint."""

    name: ClassVar[str]
    """In a checkpoint."""

    def applied(self, method: Method) -> Method:
        """The method of the next step, or of a measurement now."""
        return method

    def after(self, seen: Observation | None, info: Mapping[str, Any] | None) -> Self:
        """The controller after a step.

        `seen` is what was drawn, None where sampling failed; `info` what the rule reports of the
        update, None where there was none.
        """

    def diagnostics(self, before: Self) -> tuple[Diagnostic, ...]:
        """Tell of what has changed in a step."""
        return ()

    def restored(self, fields: Mapping[str, Any] | None) -> Self | None:
        """The controller of a checkpoint, with its fields or None and the limits of this one."""


@dataclass(frozen=True)
class Iterate(Point):
    """A point that the optimisation can go on from."""

    optimizer: Mapping[str, Any]  #: state of the rule


@dataclass(frozen=True)
class State:
    """All that survives a step.  Random numbers are keyed by (seed, step), so this is complete."""

    step: int
    here: Iterate
    before_update: Iterate | None = None
    """Where the last update began, which the next step may undo; None: nothing to undo."""
    guard: Guard = field(default_factory=Guard)
    controllers: tuple[Controller, ...] = ()

    def controller(self, kind: type[C]) -> C | None:
        """Give the controller of a kind; None where that setting is fixed."""
        return next((each for each in self.controllers if type(each) is kind), None)

    def with_controller(self, *new: Controller) -> State:
        """Give the state with other controllers in the place of those of the same kind."""
        by_kind = {type(each): each for each in (*self.controllers, *new)}
        return replace(self, controllers=tuple(by_kind.values()))

    def without_controller(self, kind: type) -> State:
        """Give the state whose setting of a kind is fixed."""
        left = (each for each in self.controllers if type(each) is not kind)
        return replace(self, controllers=tuple(left))

    def on_one_rank(self) -> State:
        """Give the state with nothing that is dealt out to ranks; the others follow meanwhile."""
        before = None if self.before_update is None else _on_one_rank(self.before_update)
        return replace(self, here=_on_one_rank(self.here), before_update=before)


def _on_one_rank(point: Iterate) -> Iterate:
    found = {
        name: np.asarray(value) if isinstance(value, Covariance) else value
        for name, value in point.optimizer.items()
    }
    return replace(point, optimizer=found)


class Made(Protocol):
    """What makes steps, with what a user gave for it: a VMC."""

    method: Method
    state: State
    given: Given
    begun: State  #: before the first step
    made: list[Any]  #: `StepRecord` of each step since then; none after `restore`

    @property
    def operator(self) -> Operator:
        """The Hamiltonian."""

    @property
    def ansatz(self) -> Ansatz:
        """The wave function, with its largest chi."""


@dataclass(frozen=True)
class Given:
    """What a user gave of the start, which the parts of a method do not show."""

    theta: bool  #: whether parameters were given, rather than made for the Hamiltonian
    configs: bool  #: whether walkers were
    moves: Any = None  #: names, a table, or None


def controlled(method: Method, state: State) -> Method:
    """Give the method of the next step, with the settings that follow the steps."""
    return reduce(lambda found, each: each.applied(found), state.controllers, method)
