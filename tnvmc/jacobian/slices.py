"""Log-derivatives of a network of tensors: for each site the slice that the spin of a sample
selects.

The zero blocks of the others, a share 1 - 1/d of the matrix, are neither stored nor multiplied.
Slices are cut into pieces of columns (`pieces`), which are the units of threads and ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from tnvmc.backend.namespace import (
    array_namespace,
    imaginary_part,
    real_part,
    to_host,
    to_namespace,
)
from tnvmc.backend.process import give_back_freed_memory
from tnvmc.jacobian.base import LocalJacobian, UnitLayout
from tnvmc.jacobian.pieces import Pieces, SliceProducts, pieces_of, selected_spins

Array = Any

_FREED = 2**28
"""Bytes after which the system is given back what was freed while a large Jacobian is joined."""


@dataclass(frozen=True)
class SliceJacobian(LocalJacobian):
    """One selected slice per site: all that is not zero in O of a tensor network.

    theta holds the sites one after another, and within site i the spin is the slowest index:
    row s of O has ``slices[i][s]`` in the block of spin ``spins[s, i]`` of site i, zeros in its
    other blocks.  P = local_dim * sum_i n_i.
    """

    slices: Sequence[Array]  #: per site (M, n_i)
    spins: Array  #: (M, N) small integers 0..local_dim-1
    local_dim: int = 2

    @property
    def shape(self) -> tuple[int, int]:
        return self.spins.shape[0], self.local_dim * sum(x.shape[1] for x in self.slices)

    @property
    def dtype(self) -> Any:
        return self.slices[0].dtype

    def adjoint(self, u: Array) -> Array:
        """Compute O^dagger u: (M,) -> (P,).  Cost M P, no copy of the slices."""
        products = self.products
        return products.pieces.vector(products.adjoint(u))

    def dense(self) -> Array:
        """Give all of O with its zeros: (M, P)."""
        xp = array_namespace(self.spins)
        blocks = []
        for site, slice_ in enumerate(self.slices):
            selected = selected_spins(self.spins, site, self.local_dim)[:, :, None]
            zero = xp.zeros((), dtype=slice_.dtype)
            block = xp.where(selected, slice_[:, None, :], zero)
            blocks.append(xp.reshape(block, (block.shape[0], -1)))
        return xp.concat(blocks, axis=1)

    def rows(self, start: int, stop: int) -> SliceJacobian:
        slices = [slice_[start:stop, :] for slice_ in self.slices]
        return SliceJacobian(slices, self.spins[start:stop, :], self.local_dim)

    def mapped(self, function: Callable[[Array], Array]) -> SliceJacobian:
        return replace(self, slices=[function(slice_) for slice_ in self.slices])

    def stacked_real(self) -> SliceJacobian:
        return self.joined([self.mapped(real_part), self.mapped(imaginary_part)])

    def about(self) -> SliceLayout:
        widths, dtype = self.products.pieces.widths, to_host(self.slices[0][:0, :]).dtype
        xp = array_namespace(self.slices[0])
        return SliceLayout(self.shape, dtype, xp, widths, to_host(self.spins), self.local_dim)

    @classmethod
    def joined(cls, parts: list[Any]) -> SliceJacobian:
        """Put the samples of several one after another, and empty the list.

        Each site's slices are let go of as soon as they are joined, so that they are not there
        twice.
        """
        if len(parts) == 1:
            only: SliceJacobian = parts.pop()
            # As where several are joined: the entries of a sample side by side.
            on_host = array_namespace(only.spins) is np
            return only.mapped(np.ascontiguousarray) if on_host else only
        xp, local_dim = array_namespace(parts[0].spins), parts[0].local_dim
        spins, left = xp.concat([p.spins for p in parts]), [[*reversed(p.slices)] for p in parts]
        parts.clear()
        slices, freed = [], 0
        while left[0]:
            slices.append(xp.concat([sites.pop() for sites in left], axis=0))
            freed += slices[-1].nbytes if xp is np else 0
            if freed > _FREED:
                give_back_freed_memory()
                freed = 0
        return SliceJacobian(slices, spins, local_dim)

    @property
    def products(self) -> SliceProducts:
        on_host = array_namespace(self.spins) is np
        widths = tuple(int(slice_.shape[1]) for slice_ in self.slices)
        pieces = pieces_of(widths, self.local_dim, on_host)
        return SliceProducts(pieces, range(len(pieces.all)), pieces.cut(self.slices), self.spins)


@dataclass(frozen=True)
class SliceLayout(UnitLayout):
    """Slices of all sites in pieces of columns; see `UnitLayout`."""

    widths: tuple[int, ...]  #: of the slices of all sites
    spins: np.ndarray  #: (M, N)
    local_dim: int

    is_sliced = True

    @property
    def pieces(self) -> Pieces:
        """The pieces of all slices."""
        return pieces_of(self.widths, self.local_dim, self.xp is np)

    @property
    def unit_widths(self) -> Sequence[int]:
        return [piece.end - piece.begin for piece in self.pieces.all]

    def dealt(self, n_ranks: int) -> list[range]:
        """Deal out about as many columns to each rank."""
        return self.pieces.dealt(n_ranks, self.shape[0])

    def dealt_for_gram(self, n_ranks: int) -> list[range]:
        """Deal out whole groups."""
        return self.pieces.dealt_by_groups(n_ranks)

    def cut(self, jacobian: SliceJacobian) -> list[Array]:
        return self.pieces.cut(jacobian.slices)

    def products(self, places: range, units: Sequence[Array]) -> SliceProducts:
        return SliceProducts(self.pieces, places, units, to_namespace(self.spins, self.xp))

    def vector(self, blocks: Sequence[Array]) -> Array:
        return self.pieces.vector(blocks)

    def parameters(self, places: range) -> list[slice]:
        """Give the parameters of some pieces, for one spin after another."""
        numbers, found = np.arange(self.shape[1]), []
        for k in places:
            for block in self.pieces.block(numbers, self.pieces.all[k]):
                found.append(slice(int(block[0]), int(block[0]) + len(block)))
        return found

    def assembled(self, units: Sequence[Array], rows: slice) -> SliceJacobian:
        spins = to_namespace(self.spins[rows], self.xp)
        return SliceJacobian(self.pieces.joined(units), spins, self.local_dim)

    def stacked_real(self) -> Self:
        return replace(super().stacked_real(), spins=np.tile(self.spins, (2, 1)))

    def of_samples(self, layouts: Sequence[SliceLayout]) -> Self:
        spins = np.concatenate([each.spins for each in layouts])
        return replace(super().of_samples(layouts), spins=spins)
