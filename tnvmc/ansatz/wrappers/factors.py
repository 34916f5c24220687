"""What a product of states has of each of its factors: parameters, starts, files."""

from __future__ import annotations

from typing import Any, Literal

from tnvmc.ansatz.files import InFiles
from tnvmc.ansatz.protocol import (
    Ansatz,
    Execution,
    FollowsOperator,
    Initialisable,
    description_of,
    execution_of,
    no_start,
)
from tnvmc.ansatz.wrappers.base import Wrapper
from tnvmc.ansatz.wrappers.files import rebuild_of
from tnvmc.ansatz.wrappers.nearly_constant import nearly_constant
from tnvmc.backend.namespace import array_namespace, to_host

Array = Any


class Factors(InFiles, Wrapper):
    """Two states, `first` and `second`, and one vector of the parameters of both, one after the other."""

    second: Ansatz
    sweeps: Literal["first", "both"]

    @property
    def first(self) -> Ansatz:
        """psi_a."""
        return self.ansatz

    @property
    def n_params(self) -> int:
        """Length P of theta, of both states."""
        return self.first.n_params + self.second.n_params

    @property
    def execution(self) -> Execution:
        """Chunks and workers as the first state wants them; memory for both."""
        first, second = execution_of(self.first), execution_of(self.second)
        sizes = [each.bytes_per_walker for each in (first, second)]
        return Execution(
            min(first.chunk, second.chunk),
            None if None in sizes else sum(size or 0 for size in sizes),
            own_threads=first.own_threads and second.own_threads,
            apart=first.apart and second.apart,
        )

    def description(self) -> dict[str, Any]:
        """The class, and both states."""
        parts = {"first": description_of(self.first), "second": description_of(self.second)}
        return {"ansatz": self.family.__name__, "architecture": parts}

    def rebuild(self) -> dict[str, Any] | None:
        """Give what makes both states again; None where one has no such words."""
        parts = {"first": rebuild_of(self.first), "second": rebuild_of(self.second)}
        return None if None in parts.values() else {**parts, "sweeps": self.sweeps}

    def for_operator(self, operator: Any) -> Any:
        """The product of what both states are for an operator; see `FollowsOperator`."""
        both = [
            state.for_operator(operator) if isinstance(state, FollowsOperator) else state
            for state in (self.first, self.second)
        ]
        same = both[0] is self.first and both[1] is self.second
        return self if same else self.family(both[0], both[1], self.sweeps)

    def split(self, theta: Array) -> tuple[Array, Array]:
        """theta_a and theta_b out of theta (P,)."""
        return theta[: self.first.n_params], theta[self.first.n_params :]

    def joined(self, first: Array, second: Array) -> Array:
        """theta (P,) of theta_a and theta_b."""
        xp = array_namespace(first, second)
        return xp.concat([first, xp.astype(second, first.dtype)])

    @property
    def starts(self) -> tuple[str, ...]:
        """Kinds of start of psi_a."""
        return self.first.starts if isinstance(self.first, Initialisable) else ()

    def initial(self, operator: Any, seed: int = 0, kind: str | None = None) -> Array:
        """theta (P,) as psi_a starts, with psi_b nearly constant; see `around`."""
        if not isinstance(self.first, Initialisable):
            raise no_start(self, kind or "random")
        return self.around(self.first.initial(operator, seed, kind), operator, seed)

    def around(self, first: Array, operator: Any, seed: int = 0, kind: str | None = None) -> Array:
        """theta (P,) of theta_a and a psi_b that is nearly constant; see `nearly_constant`.

        Args:
            first: theta_a.
            operator: the Hamiltonian.
            seed: of random numbers.
            kind: of start of psi_b, which is made nearly constant then; None is its first.
        """
        if not isinstance(self.second, Initialisable):
            raise no_start(self.second, kind or "random")
        second = to_host(self.second.initial(operator, seed, kind))
        return self.joined(to_host(first), nearly_constant(self.second, second))
