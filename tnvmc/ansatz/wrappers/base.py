"""What all wrappers of a wave function have in common."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

from tnvmc.ansatz.protocol import Ansatz, Execution

Array = Any


class Wrapper(Ansatz):
    """A state made of another one, `ansatz`, on the same lattice.

    Type of theta, starts and contraction scheme are those of the inner state.  A wrapper declares
    every other ability itself.
    """

    def __init__(self, ansatz: Ansatz) -> None:
        self.ansatz = ansatz
        self.lattice, self.local_dim = ansatz.lattice, ansatz.local_dim
        self.dtype, self.scheme, self.starts = ansatz.dtype, ansatz.scheme, ansatz.starts
        self.sharing, self.n_unshared = ansatz.sharing, ansatz.n_unshared

    @abstractmethod
    def _around(self, ansatz: Ansatz) -> Self:
        """Give the same wrapper of another inner state."""

    @property
    def n_params(self) -> int:
        """Length P of theta, that of the inner state."""
        return self.ansatz.n_params

    @property
    def execution(self) -> Execution:
        """As the inner state should be run."""
        return self.ansatz.execution

    def with_scheme(self, scheme: Any) -> Self:
        """Give the same state contracted in another way; theta carries over."""
        return self._around(self.ansatz.with_scheme(scheme))

    def initial(self, operator: Any, seed: int = 0, kind: str | None = None) -> Array:
        """Give theta (P,) as the inner state starts."""
        return self.ansatz.initial(operator, seed, kind)
