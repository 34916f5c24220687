"""Log-derivatives whose pieces (or blocks of columns) are dealt out to ranks, each with all samples of its own.

After sampling each rank has all pieces of its own samples.  They are exchanged piece by piece, so that no rank
ever has the whole matrix; then each rank does with its pieces what one process does with all of them.
The parts of O^dagger u lie side by side, and sums over pieces, of O v and of Gram matrices, are exact
(`jacobian.exact_sums`), so that no order of additions matters: results are the same in any bit for any number of ranks.

On GPUs pieces are whole slices.  What is sent goes through the memory of the host, one piece at a time, and so
do Gram matrices that are added up; what each rank computes it computes on its GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np

from tnvmc.backend.namespace import is_numpy, to_host, to_namespace
from tnvmc.backend.own_device import take_own_device
from tnvmc.backend.process import (
    give_back_freed_memory,
    one_blas_thread,
    threads_in_use,
    using_threads,
)
from tnvmc.backend.ranks import Here, Place, Ranks, Resident, shares
from tnvmc.jacobian import blocks, exact_sums
from tnvmc.jacobian.base import About, StructuredJacobian, coarsest
from tnvmc.jacobian.beside import BesideJacobian
from tnvmc.jacobian.gram_elsewhere import gram_of_units
from tnvmc.jacobian.jacobian import DenseJacobian, SliceJacobian
from tnvmc.jacobian.joint import Call, Failed, Joint, lead, serve
from tnvmc.jacobian.piece_products import PieceProducts
from tnvmc.jacobian.pieces import Pieces, pieces_of

Array = Any
T = TypeVar("T")


@dataclass(frozen=True)
class _Layout:
    """Which samples come from which rank, and which pieces or blocks go to which."""

    about: About  #: of the whole: (M, P)
    keys: tuple[
        tuple[int, int, int], ...
    ]  #: of the parts, in the order of samples: rank, key, samples

    @cached_property
    def widths(self) -> Sequence[int]:
        """Columns of each unit that is dealt out, a piece or a block."""
        return widths_of(self.about)

    def dealt(self, size: int) -> list[range]:
        """The units of each rank."""
        if self.about.widths:
            return pieces_in(self.about).dealt(size, self.about.shape[0])
        return shares([*self.widths], size)

    def samples(self, size: int) -> list[np.ndarray]:
        """The samples of each rank, in the order of its parts."""
        found: list[list[np.ndarray]] = [[] for _ in range(size)]
        begin = 0
        for rank, _, n in self.keys:
            found[rank].append(np.arange(begin, begin + n))
            begin += n
        return [np.concatenate(each) if each else np.arange(0) for each in found]


def spread(parts: list[Place], ranks: Ranks) -> SpreadJacobian | BesideJacobian:
    """Join Jacobians of samples that are on several ranks, and empty the list.

    Traffic: each rank sends its samples of all pieces but its own, and gets those from all
    others: 1 - 1/R of the slices of a rank, twice.  Memory: these, and one piece of all samples.

    Raises:
        ValueError: Jacobians of different numbers of parameters.
    """
    told: list[About] = [place.about for place in parts]
    if len({each.shape[1] for each in told}) > 1:
        sizes = [each.shape[1] for each in told]
        raise ValueError(f"spread: Jacobians of different numbers of parameters, {sizes}")
    if told[0].parts:
        return _spread_parts(parts, ranks)
    n_samples = sum(each.shape[0] for each in told)
    spins = None if told[0].spins is None else np.concatenate([each.spins for each in told])
    dtype = coarsest(each.dtype for each in told)
    shape, first = (n_samples, told[0].shape[1]), told[0]
    about = About(shape, dtype, first.widths, spins, first.local_dim, first.xp)
    keys = tuple((p.rank, p.key, p.about.shape[0]) for p in parts)
    places = ranks.together(_exchange, _Layout(about, keys))
    parts.clear()
    return SpreadJacobian(ranks, tuple(places), about)


def _spread_parts(parts: list[Place], ranks: Ranks) -> BesideJacobian:
    """Spread those side by side each by itself: the first parts of all samples, then the next."""
    keys = [(place.rank, place.key) for place in parts]
    on_ranks = [iter(found) for found in ranks.each(_taken_apart, keys)]
    by_part = [[*found] for found in zip(*(next(on_ranks[rank]) for rank, _ in keys), strict=True)]
    parts.clear()
    return BesideJacobian(tuple(spread(found, ranks) for found in by_part))


def _taken_apart(ranks: Any, keys: Sequence[tuple[int, int]]) -> list[tuple[Any, ...]]:
    """The parts of what this rank has, each of which stays here."""
    return [ranks.taken(key).parts for rank, key in keys if rank == ranks.rank]


def _exchange(ranks: Any, layout: _Layout) -> _Share:
    """Send each unit to its rank, and put together the own ones; the parts are let go of on the way."""
    about, samples = layout.about, layout.samples(ranks.size)
    own = [ranks.taken(key) for rank, key, _ in layout.keys if rank == ranks.rank]
    take_own_device(about.xp)
    cut = pieces_in(about).cut if about.widths else blocks.in_blocks
    pieces = [cut(part.slices if about.widths else part.matrix) for part in own]
    own.clear()
    dealt = layout.dealt(ranks.size)
    found, freed = [], 0
    for k in range(max(map(len, dealt))):
        units = [each[k] if k < len(each) else None for each in dealt]
        sent = [_rows_of(pieces, unit, layout) for unit in units]
        width = 0 if units[ranks.rank] is None else layout.widths[units[ranks.rank]]
        received = [np.empty((len(rows), width), about.dtype) for rows in samples]
        ranks.exchange(sent, received)
        freed += sum(each.nbytes for each in sent)
        if units[ranks.rank] is not None:
            unit = np.empty((about.shape[0], width), about.dtype)
            for rows, part in zip(samples, received, strict=True):
                unit[rows] = part
            found.append(to_namespace(unit, about.xp))
        del sent, received
        if freed > _FREED:
            give_back_freed_memory()
            freed = 0
    return _Share(found, dealt[ranks.rank], about)


_FREED = 2**28  # bytes after which the system is given back what was freed


def _rows_of(pieces: list[list[Any]], unit: int | None, layout: _Layout) -> np.ndarray:
    """The own samples of one unit, on the host, which the parts then have no more."""
    if unit is None:
        return np.empty((0, 0), layout.about.dtype)
    if not pieces:
        return np.empty((0, layout.widths[unit]), layout.about.dtype)
    own = [to_host(part[unit]) for part in pieces]
    found = np.concatenate(own).astype(layout.about.dtype, copy=False)
    for part in pieces:
        part[unit] = None
    return found


@dataclass(frozen=True)
class _Share(Resident):
    """The units of one rank, with all samples."""

    units: list[np.ndarray]
    places: range  #: among all units
    whole: About

    def about(self) -> None:
        """Nothing: rank 0 knows the layout."""

    @property
    def products(self) -> PieceProducts | blocks.BlockProducts:
        """Those with its units."""
        if not self.whole.widths:
            return blocks.BlockProducts(self.units)
        assert self.whole.spins is not None
        spins = to_namespace(self.whole.spins, self.whole.xp)
        return PieceProducts(pieces_in(self.whole), self.places, self.units, spins)

    def terms(self, v: Array) -> list[Array]:
        """What each unit adds to O v, for the whole v (P,)."""
        if isinstance(products := self.products, PieceProducts):
            return products.terms(v)
        begin = sum(widths_of(self.whole)[: self.places.start])
        return blocks.terms(self.units, v[begin:])

    def adjoint(self, u: Array) -> list[Array]:
        """The blocks of O^dagger u."""
        if isinstance(products := self.products, PieceProducts):
            return products.adjoint(u)
        return [blocks.adjoint([unit], u) for unit in self.units]

    def norms(self) -> list[np.ndarray]:
        """Squared norms (M,) of the rows of each unit, on the host."""
        if is_numpy(self.whole.xp):
            return self.products.norms()
        xp = self.whole.xp
        squares = (xp.sum(xp.abs(unit) ** 2, axis=1, dtype=xp.float64) for unit in self.units)
        return [to_host(each) for each in squares]

    def rows(self, start: int, stop: int) -> list[Array]:
        """Some samples of each unit."""
        return [unit[start:stop, :] for unit in self.units]

    def gram(self, scales: np.ndarray | None) -> np.ndarray:
        """What these units add to O O^dagger, on the host."""
        n_samples = self.whole.shape[0]
        if not self.units:
            return np.zeros((n_samples, n_samples), double(self.whole))
        products = self.products
        if not is_numpy(self.whole.xp):
            if not isinstance(products, PieceProducts):
                return to_host(gram_of_units(self.units, None, (), scales))
            sites = [pieces_in(self.whole).all[place].site for place in self.places]
            return to_host(gram_of_units(self.units, products.spins, sites, scales))
        if isinstance(products, PieceProducts):
            return np.asarray(products.gram(scales))
        return blocks.gram(self.units, scales)

    def in_groups(self, ranks: Ranks) -> _Share:
        """The same with whole groups on each rank, as a Gram matrix takes them; all ranks call it."""
        if not self.whole.widths:
            return self
        pieces = pieces_in(self.whole)
        before = ranks.told(ranks.collected(self.places))
        after = pieces.dealt_by_groups(ranks.size)
        if before == after:
            return self
        widths, places = widths_of(self.whole), after[ranks.rank]
        sent = [self._joined(_common(self.places, each)) for each in after]
        arriving = [_common(places, each) for each in before]
        received = [self._empty(sum(widths[k] for k in each)) for each in arriving]
        ranks.exchange(sent, received)
        units = []
        for part, which in zip(received, arriving, strict=True):
            ends = np.cumsum([widths[k] for k in which])
            units += np.split(part, ends[:-1], axis=1) if which else []
        return _Share(units, places, self.whole)

    def _joined(self, which: range) -> np.ndarray:
        """Some of the own units side by side."""
        units = [self.units[k - self.places.start] for k in which]
        return np.concatenate(units, axis=1) if units else self._empty(0)

    def _empty(self, width: int) -> np.ndarray:
        return np.empty((self.whole.shape[0], width), self.whole.dtype)

    def real_above_imaginary(self) -> _Share:
        """(M, P) complex -> (2 M, P) real."""
        xp = self.whole.xp
        units = [xp.concat([xp.real(each), xp.imag(each)]) for each in self.units]
        return _Share(units, self.places, _doubled(self.whole))


def pieces_in(about: About) -> Pieces:
    """The pieces of the slices of a Jacobian."""
    assert about.widths is not None
    return pieces_of(about.widths, about.local_dim, is_numpy(about.xp))


def widths_of(about: About) -> list[int]:
    """Columns of each unit: pieces of slices, or blocks of a dense matrix."""
    if about.widths:
        return [piece.end - piece.begin for piece in pieces_in(about).all]
    return blocks.block_widths(about.shape[1])


def double(about: About) -> Any:
    """Type of sums over parameters."""
    return np.result_type(about.dtype, np.float64)


def _common(a: range, b: range) -> range:
    """What two ranges have in common."""
    return range(max(a.start, b.start), min(a.stop, b.stop))


def _doubled(about: About) -> About:
    """What is told of Re O above Im O."""
    n_samples, n_params = about.shape
    spins = None if about.spins is None else np.tile(about.spins, (2, 1))
    dtype = np.empty(0, about.dtype).real.dtype
    shape = (2 * n_samples, n_params)
    return About(shape, dtype, about.widths, spins, about.local_dim, about.xp)


@dataclass(frozen=True)
class SpreadJacobian(StructuredJacobian):
    """A Jacobian on several ranks, seen from rank 0; see `tnvmc.ansatz.protocol.Jacobian`."""

    ranks: Ranks
    shares: tuple[Place, ...]
    whole: About

    @property
    def shape(self) -> tuple[int, int]:
        """(M, P)."""
        return self.whole.shape

    @property
    def dtype(self) -> Any:
        """Type of the entries."""
        return self.whole.xp.asarray(np.empty(0, self.whole.dtype)).dtype

    def apply(self, v: Array) -> Array:
        """O v: (P,) -> (M,).  Traffic: P numbers to each rank, M of each, of which sums are made on their way."""
        return self._sum(_Share.terms, np.result_type(self.whole.dtype, to_host(v[:0])), v)

    def adjoint(self, u: Array) -> Array:
        """O^dagger u: (M,) -> (P,).  Traffic: M numbers to each rank, P to rank 0."""
        found = [each for of_rank in self._each(_Share.adjoint, u) for each in of_rank]
        if self.whole.widths:
            return pieces_in(self.whole).vector(found)
        return self.whole.xp.concat(found)

    def gram(self) -> Array:
        """O O^dagger: (M, M) on rank 0.

        Cost: that of one process, shared.  Traffic: M^2 numbers of each rank, added up.  Memory: M^2 numbers
        on each rank.
        """
        scales = None
        several = bool(self.whole.widths) or len(blocks.block_widths(self.shape[1])) > 1
        if several:
            scales = exact_sums.scales(to_host(self.squares()))
        found = self.ranks.together(_gram, self.shares, threads_in_use(), scales)[0]
        return to_namespace(found, self.whole.xp)

    def squares(self) -> Array:
        """|O_s|^2 of each sample: (M,).  Traffic: M numbers of each rank."""
        return self._sum(_Share.norms, np.dtype(np.float64))

    def jointly(self, task: Callable[[Call], T]) -> T | Failed:
        """See `StructuredJacobian.jointly`."""
        found: T | Failed = self.ranks.together(
            _jointly, self.shares, threads_in_use(), self._n_units, Here(task)
        )[0]
        return found

    def about(self) -> About:
        """Shape, type, and what says where slices belong."""
        return self.whole

    def dense(self) -> Array:
        """All of O, on rank 0.  For small systems and tests."""
        return self.rows(0, self.shape[0]).dense()

    def rows(self, start: int, stop: int) -> DenseJacobian | SliceJacobian:
        """The part that belongs to samples start..stop-1, on rank 0."""
        units = [each for of_rank in self._each(_Share.rows, start, stop) for each in of_rank]
        if self.whole.widths:
            assert self.whole.spins is not None
            slices = pieces_in(self.whole).joined(units)
            spins = to_namespace(self.whole.spins[start:stop], self.whole.xp)
            return SliceJacobian(slices, spins, self.whole.local_dim)
        return DenseJacobian(self.whole.xp.concat(units, axis=1))

    def real_above_imaginary(self) -> SpreadJacobian:
        """(M, P) complex -> (2 M, P) real, on each rank its own."""
        places = self._each(_Share.real_above_imaginary)
        return SpreadJacobian(self.ranks, tuple(places), _doubled(self.whole))

    @property
    def _n_units(self) -> int:
        return len(widths_of(self.whole))

    def _sum(self, method: Any, dtype: Any, *arguments: Any) -> Array:
        """Sum of what a method of the share gives for each unit: (M,)."""
        asked = _Asked(method, self._n_units, self.shape[0], dtype)
        found = self.ranks.together(_sum, self.shares, threads_in_use(), asked, *arguments)[0]
        return to_namespace(np.asarray(found), self.whole.xp)

    def _each(self, method: Any, *arguments: Any) -> list[Any]:
        """What a method of the share gives on each rank, in their order."""
        return self.ranks.each(_of_share, self.shares, threads_in_use(), method, *arguments)


class _Asked(NamedTuple):
    """A method of the share that gives vectors, and what their sum is like."""

    method: Any
    n_units: int
    n_rows: int
    dtype: Any


def _of_share(
    ranks: Ranks, shares: Sequence[Any], n_threads: int, method: Any, *arguments: Any
) -> Any:
    take_own_device(ranks.found(shares[ranks.rank]).whole.xp)
    with one_blas_thread(), using_threads(n_threads):
        return method(ranks.found(shares[ranks.rank]), *arguments)


def _sum(
    ranks: Ranks, shares: Sequence[Any], n_threads: int, asked: _Asked, *arguments: Any
) -> np.ndarray | None:
    """The sum over the units of all ranks, on rank 0."""
    terms = [to_host(t) for t in _of_share(ranks, shares, n_threads, asked.method, *arguments)]
    found = exact_sums.total(terms, asked.n_units, np.empty(asked.n_rows, asked.dtype), ranks)
    return found if ranks.rank == 0 else None


def _jointly(ranks: Ranks, shares: Sequence[Any], n_threads: int, n_units: int, task: Here) -> Any:
    share = ranks.found(shares[ranks.rank])
    joint = Joint(share.products, n_units, share.whole.shape[0], double(share.whole), ranks)
    with using_threads(n_threads):
        return lead(joint, task.value) if ranks.rank == 0 else serve(joint)


def _gram(ranks: Any, shares: Sequence[Any], n_threads: int, scales: Any) -> np.ndarray | None:
    """The sum of the Gram matrices of all ranks, on rank 0; their sums are exact."""
    with one_blas_thread(), using_threads(n_threads):
        found = ranks.found(shares[ranks.rank]).in_groups(ranks).gram(scales)
    ranks.add_up(found)
    return found if ranks.rank == 0 else None
