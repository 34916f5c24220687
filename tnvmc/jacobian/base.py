"""The interface of log-derivatives O_k(s) = d ln psi(s) / d theta_k, M samples by P parameters.

A user's state supplies a `Jacobian`.  The classes of this package are a `JacobianBase`; those whose
columns can be dealt out to ranks are cut into *units* (`UnitProducts`), as their `Layout` says.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from tnvmc.backend.process import Resident
from tnvmc.jacobian import exact_sums

Array = Any


class Jacobian(Protocol):
    """Log-derivatives O_k(s) = d ln psi(s) / d theta_k of M samples for P parameters."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(M, P)."""

    @abstractmethod
    def apply(self, v: Array) -> Array:
        """Compute O v: (P,) -> (M,)."""

    @abstractmethod
    def adjoint(self, u: Array) -> Array:
        """Compute O^dagger u: (M,) -> (P,)."""

    @abstractmethod
    def gram(self) -> Array:
        """Compute O O^dagger: (M, M)."""

    @abstractmethod
    def dense(self) -> Array:
        """Give all of O: (M, P).  For small systems and tests."""


class JacobianBase(Jacobian, Resident, ABC):
    """A Jacobian of this package; arrays that it gives may be changed, but for `dense`."""

    @property
    @abstractmethod
    def dtype(self) -> Any:
        """Type of the entries."""

    @abstractmethod
    def squared_norms(self) -> Array:
        """Compute |O_s|^2 of each sample: (M,), in double precision."""

    @abstractmethod
    def rows(self, start: int, stop: int) -> JacobianBase:
        """Give the part that belongs to samples start..stop-1."""

    def mapped(self, function: Callable[[Array], Array]) -> JacobianBase:
        """Apply an elementwise function with f(0) = 0 to the entries."""
        return self.rows(0, self.shape[0]).mapped(function)

    @abstractmethod
    def stacked_real(self) -> JacobianBase:
        """Put Re O above Im O: (M, P) complex -> (2 M, P) real, a copy."""

    @classmethod
    def joined(cls, parts: list[Any]) -> JacobianBase:
        """Put the samples of several of this class together; the list may be emptied."""
        raise NotImplementedError

    @abstractmethod
    def about(self) -> Layout:
        """Tell shape and type, and where the columns belong."""


@dataclass(frozen=True)
class Layout(ABC):
    """What rank 0 knows of log-derivatives that are on another rank."""

    shape: tuple[int, int]  #: (M, P)
    dtype: Any  #: of NumPy
    xp: Any  #: namespace of the entries

    is_sliced: ClassVar[bool] = False  #: whether one slice per site is stored, and no zeros


@dataclass(frozen=True)
class UnitLayout(Layout):
    """How the columns of a Jacobian are cut into units, which can be dealt out to ranks."""

    @property
    def double(self) -> Any:
        """Type of sums over parameters."""
        return np.result_type(self.dtype, np.float64)

    @property
    @abstractmethod
    def unit_widths(self) -> Sequence[int]:
        """Columns of each unit."""

    @abstractmethod
    def dealt(self, n_ranks: int) -> list[range]:
        """Deal the units out: their places for each rank."""

    def dealt_for_gram(self, n_ranks: int) -> list[range]:
        """Deal them out so that a Gram matrix can be formed."""
        return self.dealt(n_ranks)

    @abstractmethod
    def cut(self, jacobian: Any) -> list[Array]:
        """Give the units (m, w) of a Jacobian of such columns, as views."""

    @abstractmethod
    def products(self, places: range, units: Sequence[Array]) -> UnitProducts:
        """Give products with the units at some places, of all samples."""

    @abstractmethod
    def vector(self, blocks: Sequence[Array]) -> Array:
        """Put the blocks of all units, as of `UnitProducts.adjoint`, together: (P,)."""

    @abstractmethod
    def parameters(self, places: range) -> list[slice]:
        """Give the parameters of some units, as `UnitProducts.dense_columns` orders them."""

    @abstractmethod
    def assembled(self, units: Sequence[Array], rows: slice) -> JacobianBase:
        """Make a Jacobian of some rows of all units."""

    def stacked_real(self) -> Self:
        """Give the layout of Re O above Im O."""
        n_samples, n_params = self.shape
        dtype = np.empty(0, self.dtype).real.dtype
        return replace(self, shape=(2 * n_samples, n_params), dtype=dtype)

    def of_samples(self, layouts: Sequence[Any]) -> Self:
        """Give the layout of the samples of several, one after another."""
        return replace(self, shape=(sum(each.shape[0] for each in layouts), self.shape[1]))


class UnitProducts(ABC):
    """Products with some units of O that have all samples.

    Results are lists with one array for each unit, in order.
    """

    units: Sequence[Array]  #: (M, w) each

    @abstractmethod
    def terms(self, v: Array) -> list[Array]:
        """Compute what each adds to O v, for the whole v (P,): (M,)."""

    @abstractmethod
    def adjoint(self, u: Array) -> list[Array]:
        """Compute the block of O^dagger u that belongs to each, for u (M,)."""

    @abstractmethod
    def gram_terms(self, u: Array) -> list[Array]:
        """Compute what each adds to O O^dagger u for u (M,): (M,)."""

    @abstractmethod
    def squared_norms(self) -> list[Array]:
        """Compute the squared norms (M,) of the rows of each, in double precision."""

    @abstractmethod
    def gram(self, scales: np.ndarray | None = None) -> Array:
        """Compute what they add to O O^dagger: (M, M).

        Args:
            scales: (M,) `exact_sums.scales` of all units; found where these are all.
        """

    @abstractmethod
    def gram_block(self, rows: slice, chosen: np.ndarray, scales: np.ndarray) -> np.ndarray:
        """Compute what they add to some rows and columns of O O^dagger, (m, n), on NumPy.

        Terms are rounded for the `exact_sums.scales` of all units.
        """

    def rows(self, rows: slice) -> list[Array]:
        """Give some samples of each."""
        return [unit[rows, :] for unit in self.units]

    @abstractmethod
    def dense_columns(self, rows: slice) -> list[np.ndarray]:
        """Give some rows of O, zeros included, in runs of parameters that lie side by side."""


class LocalJacobian(JacobianBase):
    """A Jacobian that is cut into units, all of which are in this process."""

    @property
    @abstractmethod
    def products(self) -> UnitProducts:
        """Products with all units."""

    def apply(self, v: Array) -> Array:
        """Compute O v: (P,) -> (M,).  Cost M P."""
        return exact_sums.summed(self.products.terms(v))

    def gram(self) -> Array:
        """Compute O O^dagger: (M, M).  Cost: see the products."""
        return self.products.gram()

    def squared_norms(self) -> Array:
        return exact_sums.summed(self.products.squared_norms())
