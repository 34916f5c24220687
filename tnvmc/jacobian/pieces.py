"""Slices of sites in pieces of columns: what threads and ranks take as units of work.

A Gram matrix takes several pieces together, a group: the wider a product, the faster.

Pieces follow from the widths of the slices alone, so products have the same shapes, and their results the same bits,
however pieces are dealt out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from tnvmc.backend.namespace import array_namespace
from tnvmc.backend.ranks import shares

Array = Any

WIDTH = 512
"""Columns of a piece at most: of slices that lie as a whole in memory, wide pieces are read faster."""

NARROW = 128
"""The same for large states, so that many ranks have about equal shares: 2,340 pieces at D = 8 on 10x10."""

LARGE = 2**17
"""Entries of the slices of a sample from which a state is large."""

_GROUP_WIDTH = 512
"""Columns of each site in a group at most: enough for the rate of a matrix product."""

_TOGETHER = 2
"""Sites of a group."""

FORMED = 2**12 - 1
"""Samples up to which the Gram matrix is formed by default, and above which it is applied (`optimize.sr`)."""

_GROUPS = 8
"""Groups for each rank from which they are shared about evenly as a whole."""


class Piece(NamedTuple):
    """Some columns of the slice of one site."""

    site: int
    begin: int
    end: int


@dataclass(frozen=True)
class Pieces:
    """All pieces of slices of such widths, in the order in which they are dealt out."""

    widths: tuple[int, ...]
    local_dim: int
    width: int | None = WIDTH  #: None: whole slices

    @cached_property
    def groups(self) -> list[tuple[Piece, ...]]:
        """Pieces that a Gram matrix takes together: of two sites, half of whose samples meet in neither."""
        found = []
        for first in range(0, len(self.widths), _TOGETHER):
            sites = range(first, min(first + _TOGETHER, len(self.widths)))
            n = _parts(max(self.widths[i] for i in sites), _GROUP_WIDTH if self.width else None)
            for k in range(n):
                parts = [Piece(i, *_part(0, self.widths[i], k, n)) for i in sites]
                found.append(tuple(piece for part in parts for piece in self._cut(part)))
        return found

    def _cut(self, part: Piece) -> list[Piece]:
        """A part of a slice, in pieces."""
        site, begin, end = part
        n = _parts(end - begin, self.width)
        cut = [Piece(site, *_part(begin, end, k, n)) for k in range(n)]
        return [piece for piece in cut if piece.begin < piece.end]

    @cached_property
    def all(self) -> list[Piece]:
        """Pieces, group by group."""
        return [piece for group in self.groups for piece in group]

    def dealt(self, n_ranks: int, n_samples: int) -> list[range]:
        """Places among `all` of the pieces of each rank, about as many columns for each.

        Groups stay whole where they are many, or a Gram matrix will be formed.
        """
        if n_samples > FORMED and len(self.groups) < _GROUPS * n_ranks:
            return shares([piece.end - piece.begin for piece in self.all], n_ranks)
        return self.dealt_by_groups(n_ranks)

    def dealt_by_groups(self, n_ranks: int) -> list[range]:
        """The same with whole groups for each rank."""
        sizes = [sum(piece.end - piece.begin for piece in group) for group in self.groups]
        ends = [0]
        for group in self.groups:
            ends.append(ends[-1] + len(group))
        return [range(ends[each.start], ends[each.stop]) for each in shares(sizes, n_ranks)]

    def cut(self, slices: Sequence[Array]) -> list[Array]:
        """The pieces (M, w) of slices, as views."""
        whole = len(self.all) == len(slices) and all(p.site == i for i, p in enumerate(self.all))
        return [*slices] if whole else [slices[p.site][:, p.begin : p.end] for p in self.all]

    def joined(self, parts: Sequence[Array]) -> list[Array]:
        """Put pieces (m, w) of all sites side by side, site by site: the inverse of `cut`."""
        by_site: list[list[Array]] = [[] for _ in self.widths]
        for piece, part in zip(self.all, parts, strict=True):
            by_site[piece.site].append(part)
        xp = array_namespace(*parts)
        return [of[0] if len(of) == 1 else xp.concat(of, axis=1) for of in by_site if of]

    def block(self, v: Array, piece: Piece) -> Array:
        """The part of a vector v (P,) that belongs to a piece: (local_dim, w)."""
        start = self.local_dim * self._starts[piece.site]
        stop = start + self.local_dim * self.widths[piece.site]
        block = array_namespace(v).reshape(v[start:stop], (self.local_dim, -1))
        return block[:, piece.begin : piece.end]

    def vector(self, blocks: Sequence[Array]) -> Array:
        """Make a vector (P,) from the blocks of all pieces: the inverse of `block`."""
        xp = array_namespace(*blocks)
        return xp.concat([xp.reshape(each, (-1,)) for each in self.joined(blocks)])

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        for width in self.widths:
            starts.append(starts[-1] + width)
        return starts


def _parts(size: int, most: int | None) -> int:
    """In how many parts to cut so many columns."""
    return -(-size // most) if most else 1


def _part(begin: int, end: int, k: int, n: int) -> tuple[int, int]:
    """Begin and end of one of n equal parts."""
    return begin + k * (end - begin) // n, begin + (k + 1) * (end - begin) // n


@lru_cache(maxsize=64)
def pieces_of(widths: tuple[int, ...], local_dim: int, on_host: bool = True) -> Pieces:
    """Give the pieces of slices of such widths; whole slices on a GPU, which takes large products."""
    width = NARROW if sum(widths) >= LARGE else WIDTH
    return Pieces(widths, local_dim, width if on_host else None)
