"""Log-derivatives of samples of which many are equal: each different one is stored once."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tnvmc.backend.namespace import array_namespace, to_host, to_namespace
from tnvmc.jacobian.base import Jacobian
from tnvmc.jacobian.dense import DenseJacobian

Array = Any


@dataclass(frozen=True)
class RepeatedJacobian(Jacobian):
    """Rows of another Jacobian, some of them several times; a rule sees each once (`merged`)."""

    rows: Jacobian  #: (R, P)
    which: Array  #: (M,) the row of each sample

    @property
    def shape(self) -> tuple[int, int]:
        return self.which.shape[0], self.rows.shape[1]

    def merged(self, local_energy: Array, weight: Array | None) -> tuple[Array, Array]:
        """Give local energies (R,) and weights (R,) of the rows; equal samples have equal ones."""
        xp, which = array_namespace(local_energy), to_host(self.which)
        sums = np.bincount(which, None if weight is None else to_host(weight))
        first = np.unique(which, return_index=True)[1]
        return xp.take(local_energy, to_namespace(first, xp), axis=0), to_namespace(sums, xp)

    def apply(self, v: Array) -> Array:
        return DenseJacobian(self.dense()).apply(v)

    def adjoint(self, u: Array) -> Array:
        return DenseJacobian(self.dense()).adjoint(u)

    def gram(self) -> Array:
        return DenseJacobian(self.dense()).gram()

    def dense(self) -> Array:
        return array_namespace(self.which).take(self.rows.dense(), self.which, axis=0)
