"""What an optimisation rule is, the learning rate of each step, and the error for bad input.

A learning rate is a function of the step alone, from 0 on, so that a resumed run finds its place.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

from tnvmc.backend.arguments import positive, real, whole
from tnvmc.backend.namespace import array_namespace
from tnvmc.jacobian.base import Jacobian

Array = Any
Schedule = Callable[[int], float]
RuleState = Mapping[str, Any]
"""What a rule carries from step to step: arrays and numbers by name, ready for a checkpoint."""

Info = dict[str, float | int | str]
"""What a rule reports of one step; it never comes back."""


class Rule(Protocol):
    """Turns log-derivatives and local energies into a direction: theta -= learning_rate *
    direction.

    One convention for all rules: the force is F = O^dagger W (E - <E>) with W the weights (1/M
    for samples) and no factor 2; for real theta its real part.  Along -F the energy falls by
    2 |F|^2 per unit of learning rate.

    A rule of your own inherits from this class, and has `init` and `direction`.
    """

    in_time: ClassVar[bool] = False
    """Whether steps are of time, of `tnvmc.vmc.evolution`."""

    @abstractmethod
    def init(self, theta: Array) -> RuleState:
        """State before the first step."""

    @abstractmethod
    def direction(
        self, theta: Array, jacobian: Jacobian, local_energy: Array, weight: Array | None,
        state: RuleState,
    ) -> tuple[Array, RuleState, Info]:  # fmt: skip
        """Direction (P,) of the type of theta, next state, report.

        Args:
            theta: (P,) real or complex (then psi must be holomorphic in theta).
            jacobian: (M, P) log-derivatives.
            local_energy: (M,).
            weight: (M,) of an enumeration or of reweighted samples; None for equal weights.
            state: as `init` or the last call gave it; not changed.

        Raises:
            NonFiniteError: input, or a result, that holds NaN or infinities.
        """

    def for_shared_tensors(self, n_params: int) -> Self:
        """The rule for a state of so many parameters, each of which many sites have."""
        return self

    def shortened(self, state: RuleState, factor: float) -> RuleState:
        """State after a step of which only this factor < 1 was taken."""
        return state

    def unsolved(self, info: Info) -> float | None:
        """Residual of a system that was not solved to its tolerance; None: it was."""
        return None


@dataclass(frozen=True)
class SolveInfo:
    """How a linear system was solved."""

    method: str  #: "cholesky", "eigh", "cholesky failed, eigh", or "conjugate gradients"
    shift: float  #: what was added to the diagonal
    rank: int  #: directions kept
    residual: float | None = None  #: relative, where the solution is iterated
    iterations: int | None = None


class NonFiniteError(ValueError):
    """NaN or infinities where finite numbers are needed; parameters must stay as they were."""


def require_finite(what: str, array: Array, hint: str) -> None:
    """Raise `NonFiniteError` saying how many entries of an array are not finite."""
    xp = array_namespace(array)
    bad = int(xp.sum(xp.astype(~xp.isfinite(array), xp.int64)))
    if bad:
        raise NonFiniteError(f"{what}: {bad} of {array.shape[0]} are not finite; {hint}")


@dataclass(frozen=True)
class Cosine:
    """From `start` to `end` along half a cosine over `steps` steps; `end` from then on."""

    start: float
    end: float
    steps: int

    def __post_init__(self) -> None:
        positive("Cosine", "start", self.start)
        real("Cosine", "end", self.end, 0.0)
        whole("Cosine", "steps", self.steps)

    def __call__(self, step: int) -> float:
        """Value at a step."""
        progress = min(1.0, step / max(1, self.steps - 1))
        share = 0.5 * (1.0 + math.cos(math.pi * progress))
        return self.end + (self.start - self.end) * share


@dataclass(frozen=True)
class Rates:
    """The learning rate of each step, as it was given; a function is asked at each, and checked."""

    given: float | Callable[[int], float]

    def __call__(self, step: int) -> float:
        """Learning rate of a step; ValueError for what is no finite number, or below 0."""
        if not callable(self.given):
            return self.given
        return real("VMC", f"learning_rate({step})", self.given(step), 0.0)
