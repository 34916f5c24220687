"""What a product of states has of each of its factors: parameters, starts, files."""

from __future__ import annotations

from typing import Any, Literal

from tnvmc.ansatz.files import InFiles, part_in_file
from tnvmc.ansatz.protocol import Ansatz, Execution
from tnvmc.ansatz.wrappers.base import Wrapper
from tnvmc.ansatz.wrappers.nearly_constant import nearly_constant
from tnvmc.backend.namespace import array_namespace, to_host

Array = Any


class Factors(InFiles, Wrapper):
    """Two states and one vector of the parameters of both, one after the other."""

    def __init__(self, first: Ansatz, second: Ansatz, sweeps: Literal["first", "both"]) -> None:
        super().__init__(first)
        self.first, self.second, self.sweeps = first, second, sweeps
        self.sharing = first.sharing or second.sharing
        if self.sharing:
            self.n_unshared = sum(each.n_unshared or each.n_params for each in (first, second))

    @property
    def n_params(self) -> int:
        """Length P of theta, of both states."""
        return self.first.n_params + self.second.n_params

    @property
    def execution(self) -> Execution:
        """Chunks and workers as the first state needs them; memory for both."""
        first, second = self.first.execution, self.second.execution
        sizes = [each.bytes_per_walker for each in (first, second)]
        return Execution(
            min(first.chunk, second.chunk),
            None if None in sizes else sum(size or 0 for size in sizes),
            own_threads=first.own_threads and second.own_threads,
            apart=first.apart and second.apart,
        )

    def description(self) -> dict[str, Any]:
        """Give the class, and both states."""
        parts = {"first": self.first.description(), "second": self.second.description()}
        return {**super().description(), "architecture": parts}

    def rebuild(self) -> dict[str, Any] | None:
        """Give what makes both states again; None if one has no such words."""
        parts = {"first": part_in_file(self.first), "second": part_in_file(self.second)}
        return None if None in parts.values() else {**parts, "sweeps": self.sweeps}

    def for_operator(self, operator: Any) -> Any:
        """Give the product of what both states are for an operator."""
        first, second = (each.for_operator(operator) for each in (self.first, self.second))
        if first is self.first and second is self.second:
            return self
        return type(self)(first, second, self.sweeps)

    def split(self, theta: Array) -> tuple[Array, Array]:
        """Give theta_a and theta_b out of theta (P,)."""
        return theta[: self.first.n_params], theta[self.first.n_params :]

    def initial(self, operator: Any, seed: int = 0, kind: str | None = None) -> Array:
        """Give theta (P,) as psi_a starts, with psi_b nearly constant; see `initial_second`."""
        return self.initial_second(self.first.initial(operator, seed, kind), operator, seed)

    def initial_second(
        self, first: Array, operator: Any, seed: int = 0, kind: str | None = None
    ) -> Array:
        """Give theta (P,) of theta_a and a nearly constant psi_b; see `nearly_constant`.

        Args:
            first: theta_a.
            operator: the Hamiltonian.
            seed: of random numbers.
            kind: of start of psi_b, which is made nearly constant then; None is its first.
        """
        second = to_host(self.second.initial(operator, seed, kind))
        return self.joined(to_host(first), nearly_constant(self.second, second))

    def joined(self, first: Array, second: Array) -> Array:
        """Give theta (P,) of theta_a and theta_b."""
        xp = array_namespace(first, second)
        return xp.concat([first, xp.astype(second, first.dtype)])
