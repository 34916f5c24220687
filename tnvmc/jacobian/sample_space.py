"""Products with A A^dagger, the matrix of stochastic reconfiguration in the space of samples, for iterations.

On NumPy a solver can also have some columns of the matrix, and what it does is shared by all ranks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from tnvmc.backend.namespace import array_namespace, is_numpy
from tnvmc.jacobian.base import StructuredJacobian
from tnvmc.jacobian.centred import CenteredJacobian
from tnvmc.jacobian.joint import Call, Centring, Joint, result_of

Array = Any
T = TypeVar("T")


class SampleSpace:
    """A A^dagger: (n, n), seen from rank 0."""

    has_columns = False  #: whether `choose` and what belongs to it are there

    def __init__(self, a: CenteredJacobian) -> None:
        self.n_rows = a.shape[0]
        self._a = a

    def gram_times(self, u: Array) -> Array:
        """A A^dagger u: (n,) -> (n,)."""
        return self._a.gram_times(u)


class SharedSampleSpace(SampleSpace):
    """The same on all ranks, or in one process on NumPy, with columns C: (n, l)."""

    has_columns = True

    def __init__(self, a: CenteredJacobian, call: Call) -> None:
        super().__init__(a)
        self._call = call

    def gram_times(self, u: Array) -> Array:
        """A A^dagger u: (n,) -> (n,)."""
        a = self._a
        return a.centred(self._call(Joint.gram_times, a.centred_adjoint(u)))

    def choose(self, chosen: np.ndarray) -> np.ndarray:
        """Let C be the columns of these samples; gives their rows (l, l).  Cost: 2 l / n of the matrix."""
        weight, parts = self._a.weight, self._a.parts
        of_parts = np.kron(np.eye(parts), weight)
        means = np.stack([self._call(Joint.gram_times, each) for each in of_parts], axis=1)
        root = np.tile(np.sqrt(weight), parts)
        core = self._call(Joint.choose, chosen, Centring(means, of_parts @ means, root))
        return np.asarray((core + core.conj().T) / 2)

    def divide(self, factor: np.ndarray) -> None:
        """Replace C by C L^-dagger for a lower triangle L."""
        self._call(Joint.divide, factor)

    def square(self) -> np.ndarray:
        """C^dagger C: (l, l)."""
        return np.asarray(self._call(Joint.square))

    def columns_times(self, y: np.ndarray) -> np.ndarray:
        """C y: (l,) -> (n,)."""
        return np.asarray(self._call(Joint.columns_times, y))

    def columns_adjoint(self, r: np.ndarray) -> np.ndarray:
        """C^dagger r: (n,) -> (l,)."""
        return np.asarray(self._call(Joint.columns_adjoint, r))


def in_sample_space(a: CenteredJacobian, task: Callable[[SampleSpace], T]) -> T:
    """Do a task that needs products with A A^dagger, on all ranks that have a part of A."""
    jacobian, on_host = a.jacobian, is_numpy(array_namespace(a.weight))
    if not on_host or not isinstance(jacobian, StructuredJacobian) or jacobian.about().parts:
        return task(SampleSpace(a))  # of states side by side too, each on ranks by itself
    return result_of(jacobian.jointly(lambda call: task(SharedSampleSpace(a, call))))
