"""Observables that are not Hermitian."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tnvmc.lattice.lattice import Lattice
from tnvmc.operators.products import joined, placed_products
from tnvmc.operators.term import Operator

NO_HAMILTONIAN = (
    "VMC: {} is a NonHermitian, an observable for VMC.expect; a Hamiltonian is an Operator. Add the "
    "Hermitian conjugate, or take its Hermitian part, .real"
)


@dataclass(frozen=True, eq=False)
class NonHermitian:
    """An operator O = A + i B, held as two Hermitian ones: an observable for `VMC.expect`.

    A = (O + O^dagger) / 2 gives the real part of a mean and B = (O - O^dagger) / 2i the imaginary one.
    It is no Hamiltonian, and nothing but `VMC.expect` takes it.
    """

    real: Operator  #: A
    imaginary: Operator  #: B

    @classmethod
    def from_products(
        cls,
        lattice: Lattice,
        products: Iterable[Sequence[Any]],
        *,
        local_dim: int = 2,
        name: str = "operator",
    ) -> NonHermitian:
        """Build an observable from texts, as `Operator.from_products` does: ("S+ S-", [(0, 5)]).

        Raises:
            ValueError: as `products.place` and `Operator`.
        """
        terms = joined(placed_products(lattice, products, local_dim))
        conjugates = [(sites, matrix.conj().T) for sites, matrix in terms]
        pairs = list(zip(terms, conjugates, strict=True))
        real = [(sites, (there + back) / 2) for (sites, there), (_, back) in pairs]
        imaginary = [(sites, (there - back) / 2j) for (sites, there), (_, back) in pairs]
        parts = (
            Operator.from_terms(
                lattice,
                [(sites, _plain(matrix)) for sites, matrix in part if np.any(matrix)],
                local_dim=local_dim,
                name=f"{which} part of {name}",
            )
            for which, part in (("real", real), ("imaginary", imaginary))
        )
        return cls(*parts)

    @property
    def name(self) -> str:
        """Name, as it was given."""
        return self.real.name.removeprefix("real part of ")


def _plain(matrix: np.ndarray) -> np.ndarray:
    return matrix if np.any(matrix.imag) else matrix.real
