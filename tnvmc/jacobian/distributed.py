"""Log-derivatives whose units are dealt out to ranks, each with all samples of its own units.

After sampling each rank has all units (pieces of slices, or blocks of columns) of its own samples.
They are exchanged unit by unit, so that no rank ever has the whole matrix; then each rank does with
its units what one process does with all of them.  Parts of O^dagger u lie side by side, and sums
over units, of O v and of Gram matrices, are exact (`exact_sums`): results have the same bits for
any number of ranks.

On GPUs pieces are whole slices.  What is sent goes through the memory of the host, one unit at a
time, and so do Gram matrices that are added up; what each rank computes it computes on its GPU.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from tnvmc.backend.device import take_own_device
from tnvmc.backend.namespace import to_host, to_namespace
from tnvmc.backend.process import (
    Here,
    Place,
    Ranks,
    Resident,
    give_back_freed_memory,
    one_blas_thread,
)
from tnvmc.jacobian import exact_sums
from tnvmc.jacobian.base import JacobianBase, UnitLayout, UnitProducts
from tnvmc.jacobian.gram_operator import Call, GramOperator, follow_rank_0, result_of, run_on_rank_0
from tnvmc.jacobian.hstack import HStackJacobian, HStackLayout

Array = Any
T = TypeVar("T")

_FREED = 2**28  # bytes after which the system is given back what was freed


@dataclass(frozen=True)
class DistributedJacobian(JacobianBase):
    """A Jacobian on several ranks, seen from rank 0; see `JacobianBase`."""

    ranks: Ranks
    shares: tuple[Place, ...]  #: `_Share` of each rank
    layout: UnitLayout

    @property
    def shape(self) -> tuple[int, int]:
        return self.layout.shape

    @property
    def dtype(self) -> Any:
        return self.layout.xp.asarray(np.empty(0, self.layout.dtype)).dtype

    def apply(self, v: Array) -> Array:
        """Compute O v: (P,) -> (M,).  Traffic: P numbers to each rank, M of each, added up."""
        return self._sum("terms", np.result_type(self.layout.dtype, to_host(v[:0])), v)

    def adjoint(self, u: Array) -> Array:
        """Compute O^dagger u: (M,) -> (P,).  Traffic: M numbers to each rank, P to rank 0."""
        return self.layout.vector(self._each("adjoint", u))

    def gram(self) -> Array:
        """Compute O O^dagger: (M, M) on rank 0.

        Cost: that of one process, shared.  Traffic: M^2 numbers of each rank, added up.  Memory:
        M^2 numbers on each rank.
        """
        scales = None
        if self.layout.is_sliced or len(self.layout.unit_widths) > 1:
            scales = exact_sums.scales(to_host(self.squared_norms()))
        found = self.ranks.together(_gram, self.shares, scales)[0]
        return to_namespace(found, self.layout.xp)

    def squared_norms(self) -> Array:
        """Compute |O_s|^2 of each sample: (M,).  Traffic: M numbers of each rank."""
        return self._sum("squared_norms", np.dtype(np.float64))

    def dense(self) -> Array:
        """Give all of O, on rank 0.  For small systems and tests."""
        return self.rows(0, self.shape[0]).dense()

    def rows(self, start: int, stop: int) -> JacobianBase:
        """Give the part that belongs to samples start..stop-1, on rank 0."""
        return self.layout.assembled(self._each("rows", slice(start, stop)), slice(start, stop))

    def stacked_real(self) -> DistributedJacobian:
        """Put Re O above Im O: (M, P) complex -> (2 M, P) real, on each rank its own."""
        places = self.ranks.each(_on_share, self.shares, _Share.stacked_real)
        return DistributedJacobian(self.ranks, tuple(places), self.layout.stacked_real())

    def about(self) -> UnitLayout:
        return self.layout

    def with_all_ranks(self, task: Callable[[Call], T]) -> T:
        """Carry out a task that calls methods of a `GramOperator` on all ranks; NumPy."""
        found = self.ranks.together(_with_operator, self.shares, Here(task))[0]
        result: T = result_of(found)
        return result

    def _sum(self, method: str, dtype: Any, *arguments: Any) -> Array:
        """Sum of what a method of `UnitProducts` gives for each unit: (M,)."""
        of_sum = _Sum(method, len(self.layout.unit_widths), self.shape[0], dtype)
        found = self.ranks.together(_summed, self.shares, of_sum, *arguments)[0]
        return to_namespace(np.asarray(found), self.layout.xp)

    def _each(self, method: str, *arguments: Any) -> list[Any]:
        """What a method of `UnitProducts` gives for each unit, in their order."""
        found = self.ranks.each(_on_units, self.shares, method, *arguments)
        return [each for of_rank in found for each in of_rank]


def distribute(parts: list[Place], ranks: Ranks) -> DistributedJacobian | HStackJacobian:
    """Join Jacobians of samples that are on several ranks, and empty the list.

    Traffic: each rank sends its samples of all units but its own: 1 - 1/R of the slices of a rank,
    twice.  Memory: these, and one unit of all samples.
    """
    layouts: list[Any] = [place.about for place in parts]
    if isinstance(layouts[0], HStackLayout):
        return _distribute_parts(parts, ranks)
    layout = layouts[0].of_samples(layouts)
    sources = tuple(_Source(p.rank, p.key, p.about.shape[0]) for p in parts)
    places = ranks.together(_exchange, layout, sources)
    parts.clear()
    return DistributedJacobian(ranks, tuple(places), layout)


def _distribute_parts(parts: list[Place], ranks: Ranks) -> HStackJacobian:
    """Distribute the first parts of all samples, then the next."""
    keys = [(place.rank, place.key) for place in parts]
    on_ranks = [iter(found) for found in ranks.each(_taken_apart, keys)]
    by_part = [[*found] for found in zip(*(next(on_ranks[rank]) for rank, _ in keys), strict=True)]
    parts.clear()
    return HStackJacobian(tuple(distribute(found, ranks) for found in by_part))


# --- what each rank does


@dataclass(frozen=True)
class _Share(Resident):
    """The units of one rank, with all samples."""

    layout: UnitLayout  #: of all units
    places: range  #: of its own, among all
    products: UnitProducts  #: with its own

    @classmethod
    def of(cls, layout: UnitLayout, places: range, units: Sequence[Array]) -> _Share:
        return cls(layout, places, layout.products(places, units))

    def gram(self, scales: np.ndarray | None) -> np.ndarray:
        """What these units add to O O^dagger, on the host."""
        n, double = self.layout.shape[0], self.layout.double
        if not self.places:
            return np.zeros((n, n), double)
        found: np.ndarray = to_host(self.products.gram(scales)).astype(double, copy=False)
        return found

    def dealt_for_gram(self, ranks: Ranks) -> _Share:
        """The same with what a Gram matrix takes together on one rank; all ranks call it."""
        before = ranks.told(ranks.collected(self.places))
        after = self.layout.dealt_for_gram(ranks.size)
        if before == after:
            return self
        widths, places = self.layout.unit_widths, after[ranks.rank]
        sent = [self._side_by_side(_common(self.places, each)) for each in after]
        arriving = [_common(places, each) for each in before]
        received = [self._empty(sum(widths[k] for k in each)) for each in arriving]
        ranks.exchange(sent, received)
        units = []
        for part, which in zip(received, arriving, strict=True):
            ends = np.cumsum([widths[k] for k in which])
            units += np.split(part, ends[:-1], axis=1) if which else []
        return _Share.of(self.layout, places, units)

    def _side_by_side(self, which: range) -> np.ndarray:
        """Some of the own units as one array."""
        units = [self.products.units[k - self.places.start] for k in which]
        return np.concatenate(units, axis=1) if units else self._empty(0)

    def _empty(self, width: int) -> np.ndarray:
        return np.empty((self.layout.shape[0], width), self.layout.dtype)

    def stacked_real(self) -> _Share:
        """(M, P) complex -> (2 M, P) real."""
        xp = self.layout.xp
        units = [xp.concat([xp.real(each), xp.imag(each)]) for each in self.products.units]
        return _Share.of(self.layout.stacked_real(), self.places, units)


class _Source(NamedTuple):
    """A Jacobian of some samples, and where it is."""

    rank: int
    key: int
    n_samples: int


class _Sum(NamedTuple):
    """A method of `UnitProducts` that gives vectors, and what their sum is like."""

    method: str
    n_units: int  #: of all ranks
    n_rows: int
    dtype: Any


def _exchange(ranks: Any, layout: UnitLayout, sources: Sequence[_Source]) -> _Share:
    """Send each unit to its rank, and put together the own ones; parts are freed on the way."""
    samples = _samples_of_ranks(sources, ranks.size)
    own = [ranks.taken(source.key) for source in sources if source.rank == ranks.rank]
    take_own_device(layout.xp)
    cut = [layout.cut(part) for part in own]
    own.clear()
    dealt, places = layout.dealt(ranks.size), layout.dealt(ranks.size)[ranks.rank]
    units, freed = [], 0
    for sent_places in itertools.zip_longest(*dealt):  # None for ranks that have all of theirs
        sent = [_own_samples(cut, place, layout) for place in sent_places]
        place = sent_places[ranks.rank]
        width = 0 if place is None else layout.unit_widths[place]
        received = [np.empty((len(rows), width), layout.dtype) for rows in samples]
        ranks.exchange(sent, received)
        freed += sum(each.nbytes for each in sent)
        if place is not None:
            unit = np.empty((layout.shape[0], width), layout.dtype)
            for rows, part in zip(samples, received, strict=True):
                unit[rows] = part
            units.append(to_namespace(unit, layout.xp))
        del sent, received
        if freed > _FREED:
            give_back_freed_memory()
            freed = 0
    return _Share.of(layout, places, units)


def _samples_of_ranks(sources: Sequence[_Source], size: int) -> list[np.ndarray]:
    """The samples that come from each rank, in the order of its parts."""
    found: list[list[np.ndarray]] = [[] for _ in range(size)]
    begin = 0
    for source in sources:
        found[source.rank].append(np.arange(begin, begin + source.n_samples))
        begin += source.n_samples
    return [np.concatenate(each) if each else np.arange(0) for each in found]


def _own_samples(parts: list[list[Any]], place: int | None, layout: UnitLayout) -> np.ndarray:
    """The own samples of one unit, on the host, which the parts then have no more."""
    if place is None:
        return np.empty((0, 0), layout.dtype)
    if not parts:
        return np.empty((0, layout.unit_widths[place]), layout.dtype)
    own = [to_host(part[place]) for part in parts]
    found = np.concatenate(own).astype(layout.dtype, copy=False)
    for part in parts:
        part[place] = None
    return found


def _taken_apart(ranks: Any, keys: Sequence[tuple[int, int]]) -> list[tuple[Any, ...]]:
    """The parts of what this rank has, each of which stays here."""
    return [ranks.taken(key).parts for rank, key in keys if rank == ranks.rank]


def _common(a: range, b: range) -> range:
    """What two ranges have in common."""
    return range(max(a.start, b.start), min(a.stop, b.stop))


def _on_share(ranks: Ranks, shares: Sequence[Any], method: Any, *arguments: Any) -> Any:
    share = ranks.found(shares[ranks.rank])
    take_own_device(share.layout.xp)
    with one_blas_thread():
        return method(share, *arguments)


def _on_units(ranks: Ranks, shares: Sequence[Any], method: str, *arguments: Any) -> Any:
    """What a method of `UnitProducts` gives on this rank, one result for each unit."""

    def own(share: _Share) -> Any:
        return getattr(share.products, method)(*arguments)

    return _on_share(ranks, shares, own)


def _summed(
    ranks: Ranks, shares: Sequence[Any], of_sum: _Sum, *arguments: Any
) -> np.ndarray | None:
    """The sum over the units of all ranks, on rank 0."""
    found = _on_units(ranks, shares, of_sum.method, *arguments)
    terms = [to_host(term) for term in found]
    like = np.empty(of_sum.n_rows, of_sum.dtype)
    total = exact_sums.total(terms, of_sum.n_units, like, ranks)
    return total if ranks.rank == 0 else None


def _with_operator(ranks: Ranks, shares: Sequence[Any], task: Here) -> Any:
    share = ranks.found(shares[ranks.rank])
    n_rows, n_units = share.layout.shape[0], len(share.layout.unit_widths)
    operator = GramOperator(share.products, n_units, n_rows, share.layout.double, ranks)
    if ranks.rank == 0:
        return run_on_rank_0(operator, task.value)
    return follow_rank_0(operator)


def _gram(ranks: Any, shares: Sequence[Any], scales: Any) -> np.ndarray | None:
    """The sum of the Gram matrices of all ranks, on rank 0; their sums are exact."""
    with one_blas_thread():
        found = ranks.found(shares[ranks.rank]).dealt_for_gram(ranks).gram(scales)
    ranks.combine(found, "sum")
    return found if ranks.rank == 0 else None
