"""Log-derivatives O_k(s) = d ln psi(s) / d theta_k of M samples.

`DenseJacobian` holds the whole (M, P) matrix.  `SliceJacobian` holds, for each site, only the
derivatives with respect to the entries that the spin of the sample selects; the zero blocks (a
share 1 - 1/d of the matrix) are neither stored nor multiplied.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from tnvmc.backend.namespace import array_namespace, is_numpy, to_host
from tnvmc.backend.process import give_back_freed_memory
from tnvmc.jacobian import blocks, exact_sums
from tnvmc.jacobian.base import About, Jacobian, StructuredJacobian, coarsest
from tnvmc.jacobian.beside import BesideJacobian
from tnvmc.jacobian.joint import Call, Failed, Joint, lead
from tnvmc.jacobian.piece_products import PieceProducts
from tnvmc.jacobian.pieces import pieces_of

Array = Any
T = TypeVar("T")

_FREED = 2**28
"""Bytes of parts after which the system is given them back while a large Jacobian is joined."""


@dataclass(frozen=True)
class DenseJacobian(StructuredJacobian):
    """All of O in one (M, P) array: for ansaetze whose every parameter acts in every sample."""

    matrix: Array  #: (M, P)

    @property
    def shape(self) -> tuple[int, int]:
        """(M, P)."""
        return self.matrix.shape[0], self.matrix.shape[1]

    @property
    def dtype(self) -> Any:
        """Type of the entries."""
        return self.matrix.dtype

    def apply(self, v: Array) -> Array:
        """O v: (P,) -> (M,).  Cost M P."""
        if not is_numpy(array_namespace(v)):
            return self.matrix @ v
        return _summed(blocks.terms(blocks.in_blocks(self.matrix), v))

    def jointly(self, task: Callable[[Call], T]) -> T | Failed:
        """See `StructuredJacobian.jointly`."""
        own = blocks.in_blocks(self.matrix)
        return lead(Joint(blocks.BlockProducts(own), len(own), *_doubled(self)), task)

    def adjoint(self, u: Array) -> Array:
        """O^dagger u: (M,) -> (P,).  Cost M P, no copy of O."""
        if not is_numpy(array_namespace(u)):
            return conj(array_namespace(u).matrix_transpose(self.matrix) @ conj(u))
        return blocks.adjoint(blocks.in_blocks(self.matrix), u)

    def gram(self) -> Array:
        """O O^dagger: (M, M).  Cost M^2 P."""
        if not is_numpy(array_namespace(self.matrix)):
            return self.matrix @ dagger(self.matrix)
        return blocks.gram(blocks.in_blocks(self.matrix))

    def squares(self) -> Array:
        """|O_s|^2 of each sample: (M,)."""
        if not is_numpy(array_namespace(self.matrix)):
            return _square_sums(self.matrix)
        return _summed([exact_sums.norms(block) for block in blocks.in_blocks(self.matrix)])

    def dense(self) -> Array:
        """O itself."""
        return self.matrix

    def rows(self, start: int, stop: int) -> DenseJacobian:
        """The part that belongs to samples start..stop-1."""
        return DenseJacobian(self.matrix[start:stop, :])

    def real_above_imaginary(self) -> Jacobian:
        """(M, P) complex -> (2 M, P) real."""
        return concatenate([DenseJacobian(part(self.matrix)) for part in (_real, _imaginary)])

    def about(self) -> About:
        """Shape and type."""
        dtype, xp = _told_of(self.matrix)
        return About(self.shape, dtype, xp=xp)


@dataclass(frozen=True)
class SliceJacobian(StructuredJacobian):
    """One selected slice per site: all that is not zero in O of a tensor network.

    theta holds the sites one after another, and within site i the spin is the slowest index:
    row s of O has ``slices[i][s]`` in the block of spin ``spins[s, i]`` of site i, zeros in its
    other blocks.  P = local_dim * sum_i n_i.

    Raises ValueError when the slices and the spins are not of the same sites and samples.
    """

    slices: Sequence[Array]  #: per site (M, n_i)
    spins: Array  #: (M, N) small integers 0..local_dim-1
    local_dim: int = 2

    def __post_init__(self) -> None:
        n_samples, n_sites = self.spins.shape
        if len(self.slices) != n_sites:
            raise ValueError(
                f"SliceJacobian: {len(self.slices)} slices for spins of {n_sites} sites; "
                "give one (M, n_i) array per site"
            )
        for site, slice_ in enumerate(self.slices):
            if slice_.ndim != 2 or slice_.shape[0] != n_samples:
                raise ValueError(
                    f"SliceJacobian: slice of site {site} has shape {tuple(slice_.shape)}, but "
                    f"spins hold {n_samples} samples; it must be ({n_samples}, n_{site})"
                )

    @property
    def shape(self) -> tuple[int, int]:
        """(M, P)."""
        return self.spins.shape[0], self.local_dim * sum(x.shape[1] for x in self.slices)

    @property
    def dtype(self) -> Any:
        """Type of the entries."""
        return self.slices[0].dtype

    def apply(self, v: Array) -> Array:
        """O v: (P,) -> (M,).  Cost M P: all spins are multiplied, the present one is picked."""
        return _summed(self._products.terms(v))

    def adjoint(self, u: Array) -> Array:
        """O^dagger u: (M,) -> (P,).  Cost M P, no copy of the slices."""
        products = self._products
        return products.pieces.vector(products.adjoint(u))

    def jointly(self, task: Callable[[Call], T]) -> T | Failed:
        """See `StructuredJacobian.jointly`."""
        products = self._products
        return lead(Joint(products, len(products.part), *_doubled(self)), task)

    def gram(self) -> Array:
        """O O^dagger: (M, M), double precision whatever the slices have.

        Cost: M^2 P / (2 d^2) multiplications on NumPy (see `gram_of_slices`), M^2 P / d elsewhere.
        Memory: the result and a copy of two slices; on other namespaces three (M, M) arrays.
        """
        xp = array_namespace(self.spins)
        if is_numpy(xp):
            return self._products.gram()
        total = None
        for site, slice_ in enumerate(self.slices):
            equal = self.spins[:, site, None] == self.spins[None, :, site]
            product = xp.astype(slice_ @ dagger(slice_), _double(xp, slice_))
            term = xp.where(equal, product, xp.zeros((), dtype=product.dtype))
            total = term if total is None else total + term
        return total

    def squares(self) -> Array:
        """|O_s|^2 of each sample: (M,)."""
        return _summed(self._products.norms())

    def dense(self) -> Array:
        """All of O with its zeros: (M, P)."""
        xp = array_namespace(self.spins)
        blocks = [
            xp.where(
                self._selected(site)[:, :, None],
                slice_[:, None, :],
                xp.zeros((), dtype=slice_.dtype),
            )
            for site, slice_ in enumerate(self.slices)
        ]
        return xp.concat([xp.reshape(b, (b.shape[0], -1)) for b in blocks], axis=1)

    def rows(self, start: int, stop: int) -> SliceJacobian:
        """The part that belongs to samples start..stop-1."""
        slices = [slice_[start:stop, :] for slice_ in self.slices]
        return SliceJacobian(slices, self.spins[start:stop, :], self.local_dim)

    def real_above_imaginary(self) -> Jacobian:
        """(M, P) complex -> (2 M, P) real."""
        parts = (_real, _imaginary)
        return concatenate([replace(self, slices=[f(x) for x in self.slices]) for f in parts])

    def about(self) -> About:
        """Shape, type, and what says where slices belong."""
        widths = tuple(int(slice_.shape[1]) for slice_ in self.slices)
        dtype, xp = _told_of(self.slices[0])
        return About(self.shape, dtype, widths, to_host(self.spins), self.local_dim, xp)

    @property
    def _products(self) -> PieceProducts:
        """All pieces."""
        widths = tuple(int(slice_.shape[1]) for slice_ in self.slices)
        pieces = pieces_of(widths, self.local_dim, is_numpy(array_namespace(self.spins)))
        return PieceProducts(pieces, range(len(pieces.all)), pieces.cut(self.slices), self.spins)

    def _selected(self, site: int) -> Array:
        """Which block of a site the spins of the samples select: bools (M, local_dim)."""
        states = array_namespace(self.spins).arange(self.local_dim, dtype=self.spins.dtype)
        return self.spins[:, site, None] == states[None, :]


def concatenate(jacobians: Sequence[Jacobian]) -> Jacobian:
    """Put the samples of several Jacobians of one ansatz one after another.

    Slices stay slices, parts side by side stay so; anything else becomes dense.  Raises ValueError for none at all, or for
    different parameters.
    """
    return joined(list(jacobians))


def joined(jacobians: list[Jacobian]) -> Jacobian:
    """Do what `concatenate` does, and empty the list, so that slices are not there twice.

    Each site's slices are let go of as soon as they are joined.  What the caller has kept stays.
    """
    if not jacobians:
        raise ValueError("concatenate: no Jacobian given; at least one is needed")
    if len({jacobian.shape[1] for jacobian in jacobians}) > 1:
        sizes = [jacobian.shape[1] for jacobian in jacobians]
        raise ValueError(f"concatenate: Jacobians of different numbers of parameters, {sizes}")
    if len(jacobians) == 1:
        return _side_by_side(jacobians.pop())
    if all(isinstance(jacobian, BesideJacobian) for jacobian in jacobians):
        return _joined_parts(jacobians)
    parts = [j for j in jacobians if isinstance(j, SliceJacobian)]
    if len(parts) < len(jacobians):
        blocks = [jacobian.dense() for jacobian in jacobians]
        return DenseJacobian(array_namespace(*blocks).concat(blocks, axis=0))
    jacobians.clear()
    xp, local_dim = array_namespace(parts[0].spins), parts[0].local_dim
    spins, left = xp.concat([p.spins for p in parts]), [[*reversed(p.slices)] for p in parts]
    dtype = coarsest((part.dtype for part in parts), xp)
    parts.clear()
    slices, freed = [], 0
    while left[0]:
        of_site = [xp.astype(sites.pop(), dtype, copy=False) for sites in left]
        slices.append(xp.concat(of_site, axis=0))
        del of_site
        freed += slices[-1].nbytes if is_numpy(xp) else 0
        if freed > _FREED:
            give_back_freed_memory()
            freed = 0
    return SliceJacobian(slices, spins, local_dim)


def _joined_parts(jacobians: list[Any]) -> BesideJacobian:
    """Join the first parts, then the next; the list is emptied."""
    by_part = [[*parts] for parts in zip(*(j.parts for j in jacobians), strict=True)]
    jacobians.clear()
    return BesideJacobian(tuple(structured(joined(parts)) for parts in by_part))


def _side_by_side(jacobian: Jacobian) -> Jacobian:
    """The same with the entries of a sample side by side, as they are where several are joined."""
    if isinstance(jacobian, BesideJacobian):
        return BesideJacobian(tuple(structured(_side_by_side(part)) for part in jacobian.parts))
    if not isinstance(jacobian, SliceJacobian) or not is_numpy(array_namespace(jacobian.spins)):
        return jacobian
    if all(slice_.flags.c_contiguous for slice_ in jacobian.slices):
        return jacobian
    return replace(jacobian, slices=[*map(np.ascontiguousarray, jacobian.slices)])


def structured(jacobian: Jacobian) -> StructuredJacobian:
    """Give a Jacobian of this package: the same one, or a foreign one made dense."""
    if isinstance(jacobian, StructuredJacobian):
        return jacobian
    return DenseJacobian(jacobian.dense())


def stack_real(jacobian: Jacobian) -> Jacobian:
    """Put Re O above Im O: (M, P) complex -> (2 M, P) real, for real parameters; a copy."""
    found: Jacobian = structured(jacobian).real_above_imaginary()
    return found


def _doubled(jacobian: StructuredJacobian) -> tuple[int, Any]:
    """Samples, and the type of sums over parameters, on NumPy."""
    n_samples: int = jacobian.about().shape[0]
    return n_samples, np.result_type(jacobian.dtype, np.float64)


def _summed(terms: Sequence[Array]) -> Array:
    """Sum of vectors: on NumPy exact, as on many ranks, elsewhere in their order."""
    if isinstance(terms[0], np.ndarray):
        return exact_sums.total(terms, len(terms), terms[0])
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _square_sums(matrix: Array) -> Array:
    """Sums of |entries|^2 of each row, in double precision."""
    xp = array_namespace(matrix)
    return xp.sum(xp.abs(matrix) ** 2, axis=1, dtype=xp.float64)


def is_complex(array: Array) -> bool:
    """Tell whether an array, or a Jacobian, has complex entries."""
    return "complex" in str(array.dtype)


def _real(array: Array) -> Array:
    return array_namespace(array).real(array) if is_complex(array) else array


def _imaginary(array: Array) -> Array:
    xp = array_namespace(array)
    return xp.imag(array) if is_complex(array) else xp.zeros_like(array)


def conj(array: Array) -> Array:
    """Complex conjugate; itself where it is real."""
    return array_namespace(array).conj(array) if is_complex(array) else array


def dagger(matrix: Array) -> Array:
    """Conjugate transpose."""
    return array_namespace(matrix).matrix_transpose(conj(matrix))


def _told_of(array: Array) -> tuple[Any, Any]:
    """Its type as NumPy names it, and its namespace."""
    return to_host(array[:0, :]).dtype, array_namespace(array)


def _double(xp: Any, array: Array) -> Any:
    return xp.complex128 if is_complex(array) else xp.float64
