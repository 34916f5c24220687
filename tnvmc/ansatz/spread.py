"""Log-derivatives whose sites (or blocks of columns) are dealt out to ranks, each with all samples of its own.

After sampling each rank has all sites of its own samples.  They are exchanged site by site, so that no rank
ever has the whole matrix; then each rank does with its sites what one process does with all of them.
Nothing is added in an order that depends on the number of ranks: terms of O v come to rank 0 by site, the
parts of O^dagger u lie side by side, and sums of Gram matrices are exact (`backend.exact_sums`).  So
results are the same in any bit for any number of ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tnvmc.ansatz import blocks
from tnvmc.ansatz.gram import gram_of_slices, sum_of_norms
from tnvmc.ansatz.jacobian import DenseJacobian, SliceJacobian
from tnvmc.ansatz.structured import About, StructuredJacobian
from tnvmc.backend import exact_sums
from tnvmc.backend.process import (
    give_back_freed_memory,
    one_blas_thread,
    threads_in_use,
    using_threads,
)
from tnvmc.backend.ranks import Place, Ranks, Resident, shares

Array = Any

_IN_PAIRS = 2  # sites, as `gram_of_slices` takes them


@dataclass(frozen=True)
class _Layout:
    """Which samples come from which rank, and which sites or blocks go to which."""

    about: About  #: of the whole: (M, P)
    keys: tuple[
        tuple[int, int, int], ...
    ]  #: of the parts, in the order of samples: rank, key, samples

    @cached_property
    def widths(self) -> Sequence[int]:
        """Columns of each unit that is dealt out, a slice or a block."""
        return self.about.widths or blocks.block_widths(self.about.shape[1])

    def dealt(self, size: int) -> list[range]:
        """The units of each rank."""
        step = _IN_PAIRS if self.about.widths else 1
        firsts = range(0, len(self.widths), step)
        sizes = [sum(self.widths[i : i + step]) for i in firsts]
        return [
            range(step * each.start, min(step * each.stop, len(self.widths)))
            for each in shares(sizes, size)
        ]

    def samples(self, size: int) -> list[np.ndarray]:
        """The samples of each rank, in the order of its parts."""
        found: list[list[np.ndarray]] = [[] for _ in range(size)]
        begin = 0
        for rank, _, n in self.keys:
            found[rank].append(np.arange(begin, begin + n))
            begin += n
        return [np.concatenate(each) if each else np.arange(0) for each in found]


def spread(parts: list[Place], ranks: Ranks) -> SpreadJacobian:
    """Join Jacobians of samples that are on several ranks, and empty the list.

    Traffic: each rank sends its samples of all sites but its own, and gets those of its own sites from all
    others: 1 - 1/R of the slices of a rank, twice.  Memory: these, and one site of all samples.

    Raises:
        ValueError: Jacobians of different numbers of parameters.
    """
    told: list[About] = [place.about for place in parts]
    if len({each.shape[1] for each in told}) > 1:
        sizes = [each.shape[1] for each in told]
        raise ValueError(f"spread: Jacobians of different numbers of parameters, {sizes}")
    n_samples = sum(each.shape[0] for each in told)
    spins = None if told[0].spins is None else np.concatenate([each.spins for each in told])
    dtype = np.result_type(*{each.dtype for each in told})
    about = About((n_samples, told[0].shape[1]), dtype, told[0].widths, spins, told[0].local_dim)
    keys = tuple((p.rank, p.key, p.about.shape[0]) for p in parts)
    places = ranks.together(_exchange, _Layout(about, keys))
    parts.clear()
    return SpreadJacobian(ranks, tuple(places), about)


def _exchange(ranks: Any, layout: _Layout) -> _Share:
    """Send each unit to its rank, and put together the own ones; the parts are let go of on the way."""
    about, samples = layout.about, layout.samples(ranks.size)
    own = [ranks.taken(key) for rank, key, _ in layout.keys if rank == ranks.rank]
    pieces = [[*part.slices] if about.widths else blocks.in_blocks(part.matrix) for part in own]
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
            found.append(unit)
        del sent, received
        if freed > _FREED:
            give_back_freed_memory()
            freed = 0
    return _Share(found, dealt[ranks.rank], about)


_FREED = 2**28  # bytes after which the system is given back what was freed


def _rows_of(pieces: list[list[Any]], unit: int | None, layout: _Layout) -> np.ndarray:
    """The own samples of one unit, which the parts then have no more."""
    if unit is None:
        return np.empty((0, 0), layout.about.dtype)
    if not pieces:
        return np.empty((0, layout.widths[unit]), layout.about.dtype)
    found = np.concatenate([part[unit] for part in pieces]).astype(layout.about.dtype, copy=False)
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

    def columns(self) -> slice:
        """Where the parameters of these units stand in theta."""
        factor = self.whole.local_dim if self.whole.widths else 1
        widths = self.whole.widths or blocks.block_widths(self.whole.shape[1])
        begin = factor * sum(widths[: self.places.start])
        return slice(begin, begin + factor * sum(widths[i] for i in self.places))

    def as_slices(self) -> SliceJacobian:
        """The Jacobian of these sites alone."""
        assert self.whole.spins is not None
        spins = self.whole.spins[:, self.places.start : self.places.stop]
        n_samples, n_params = self.whole.shape
        return SliceJacobian(self.units, spins, self.whole.local_dim, n_samples * n_params)

    def terms(self, v: Array) -> list[Array]:
        """What each unit adds to O v, for the whole v (P,)."""
        if not self.units:
            return []
        part = v[self.columns()]
        return self.as_slices().terms(part) if self.whole.widths else blocks.terms(self.units, part)

    def adjoint(self, u: Array) -> Array | None:
        """The part of O^dagger u."""
        if not self.units:
            return None
        if self.whole.widths:
            return self.as_slices().adjoint(u)
        return blocks.adjoint(self.units, u)

    def norms(self) -> list[np.ndarray]:
        """Squared norms (M,) of the rows of each unit."""
        return [exact_sums.norms(unit) for unit in self.units]

    def by_slice(self, task: Callable[[np.ndarray], Any]) -> list[Any]:
        """What a function gives of each unit."""
        return [task(unit) for unit in self.units]

    def rows(self, start: int, stop: int) -> list[np.ndarray]:
        """Some samples of each unit."""
        return [unit[start:stop] for unit in self.units]

    def gram(self, scales: np.ndarray | None) -> np.ndarray:
        """What these units add to O O^dagger."""
        n_samples = self.whole.shape[0]
        if not self.units:
            return np.zeros((n_samples, n_samples), np.result_type(self.whole.dtype, np.float64))
        if self.whole.widths:
            return gram_of_slices(self.units, self.as_slices().spins, scales)
        return blocks.gram(self.units, scales)

    def real_above_imaginary(self) -> _Share:
        """(M, P) complex -> (2 M, P) real."""
        units = [np.concatenate([each.real, each.imag]) for each in self.units]
        return _Share(units, self.places, _doubled(self.whole))


def _doubled(about: About) -> About:
    """What is told of Re O above Im O."""
    n_samples, n_params = about.shape
    spins = None if about.spins is None else np.tile(about.spins, (2, 1))
    dtype = np.empty(0, about.dtype).real.dtype
    return About((2 * n_samples, n_params), dtype, about.widths, spins, about.local_dim)


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
        return self.whole.dtype

    def apply(self, v: Array) -> Array:
        """O v: (P,) -> (M,).  Traffic: P numbers to each rank, M for each site to rank 0."""
        terms = [term for of_rank in self._each(_Share.terms, v) for term in of_rank]
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total

    def adjoint(self, u: Array) -> Array:
        """O^dagger u: (M,) -> (P,).  Traffic: M numbers to each rank, P to rank 0."""
        return np.concatenate([part for part in self._each(_Share.adjoint, u) if part is not None])

    def gram(self) -> Array:
        """O O^dagger: (M, M) on rank 0.

        Cost: that of one process, shared.  Traffic: M^2 numbers of each rank, added up.  Memory: M^2 numbers
        on each rank.
        """
        scales = None
        several = bool(self.whole.widths) or len(blocks.block_widths(self.shape[1])) > 1
        if several:
            scales = exact_sums.scales(self.squares())
        return self.ranks.together(_gram, self.shares, threads_in_use(), scales)[0]

    def squares(self) -> Array:
        """|O_s|^2 of each sample: (M,).  Traffic: M numbers for each site, to rank 0."""
        norms = [each for of_rank in self._each(_Share.norms) for each in of_rank]
        return sum_of_norms(norms)

    def by_slice(self, task: Callable[[np.ndarray], Any]) -> list[Any]:
        """What a picklable function gives of the slices of each site, in order."""
        return [each for of_rank in self._each(_Share.by_slice, task) for each in of_rank]

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
            return SliceJacobian(units, self.whole.spins[start:stop], self.whole.local_dim)
        return DenseJacobian(np.concatenate(units, axis=1))

    def real_above_imaginary(self) -> SpreadJacobian:
        """(M, P) complex -> (2 M, P) real, on each rank its own."""
        places = self._each(_Share.real_above_imaginary)
        return SpreadJacobian(self.ranks, tuple(places), _doubled(self.whole))

    def _each(self, method: Any, *arguments: Any) -> list[Any]:
        """What a method of the share gives on each rank, in their order."""
        return self.ranks.each(_of_share, self.shares, threads_in_use(), method, *arguments)


def _of_share(
    ranks: Ranks, shares: Sequence[Any], n_threads: int, method: Any, *arguments: Any
) -> Any:
    with one_blas_thread(), using_threads(n_threads):
        return method(ranks.found(shares[ranks.rank]), *arguments)


def _gram(ranks: Any, shares: Sequence[Any], n_threads: int, scales: Any) -> np.ndarray | None:
    """The sum of the Gram matrices of all ranks, on rank 0; their sums are exact."""
    found = _of_share(ranks, shares, n_threads, _Share.gram, scales)
    ranks.add_up(found)
    return found if ranks.rank == 0 else None
