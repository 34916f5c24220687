"""Slices of sites in pieces of columns: what threads and ranks take as units of work.

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
"""Columns of a piece at most: enough for the rate of a matrix product.  At D = 8 on 10x10 there are 576 pieces."""

_TOGETHER = 2
"""Sites whose pieces a Gram matrix takes together."""


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
            n = -(-max(self.widths[i] for i in sites) // self.width) if self.width else 1
            for k in range(n):
                cuts = [(i, k * self.widths[i] // n, (k + 1) * self.widths[i] // n) for i in sites]
                found.append(tuple(Piece(*cut) for cut in cuts if cut[1] < cut[2]))
        return found

    @cached_property
    def all(self) -> list[Piece]:
        """Pieces, group by group."""
        return [piece for group in self.groups for piece in group]

    def dealt(self, n_ranks: int) -> list[range]:
        """Places among `all` of the pieces of each rank: whole groups, about as many columns for each."""
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


@lru_cache(maxsize=64)
def pieces_of(widths: tuple[int, ...], local_dim: int, on_host: bool = True) -> Pieces:
    """Give the pieces of slices of such widths; whole slices on a GPU, which takes large products."""
    return Pieces(widths, local_dim, WIDTH if on_host else None)
