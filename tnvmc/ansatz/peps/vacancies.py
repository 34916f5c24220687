"""Places of the grid without a site: what stands there so that contractions see a whole grid.

A vacant place holds the local state 0 for certain, in bonds of size 1.  It has no parameters, and
configurations outside the network do not know of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tnvmc.backend.namespace import array_namespace
from tnvmc.lattice.embedding import Embedding
from tnvmc.lattice.grids import square
from tnvmc.operators.term import Operator

Array = Any


@dataclass(frozen=True)
class Filling:
    """Puts tensors and configurations of the sites on the whole grid, and takes them off it."""

    shape: tuple[int, int]
    places: tuple[int, ...]  #: of each site

    @classmethod
    def of(cls, found: Embedding) -> Filling:
        """That of an embedding."""
        return cls(found.shape, found.places)

    @property
    def whole(self) -> bool:
        """Whether no place is vacant."""
        return len(self.places) == self.shape[0] * self.shape[1]

    @cached_property
    def site_at(self) -> tuple[int, ...]:
        """The site of each place, N where there is none."""
        sites = {place: site for site, place in enumerate(self.places)}
        return tuple(
            sites.get(place, len(self.places)) for place in range(self.shape[0] * self.shape[1])
        )

    def tensors(self, tensors: Sequence[Array]) -> list[Array]:
        """Tensors of all places from those (d, up, left, down, right) of the sites."""
        if self.whole:
            return list(tensors)
        xp = array_namespace(tensors[0])
        empty = xp.zeros((tensors[0].shape[0], 1, 1, 1, 1), dtype=tensors[0].dtype)
        empty[0, ...] = 1
        return [tensors[site] if site < len(tensors) else empty for site in self.site_at]

    def configs(self, configs: Array) -> Array:
        """Configurations (B, places) from those (B, N) of the sites."""
        if self.whole:
            return configs
        xp = array_namespace(configs)
        nothing = xp.zeros((configs.shape[0], 1), dtype=configs.dtype)
        return xp.take(xp.concat([configs, nothing], axis=1), xp.asarray(self.site_at), axis=1)

    def off(self, configs: Array) -> Array:
        """Configurations (B, N) of the sites from those (B, places) of the grid."""
        if self.whole:
            return configs
        xp = array_namespace(configs)
        return xp.take(configs, xp.asarray(self.places), axis=1)


def on_grid(operator: Operator, found: Embedding) -> Operator:
    """Give the same terms on an open square lattice with a site at every place."""
    if not found.n_vacant:
        return operator
    terms = tuple(replace(term, sites=found.placed(term.sites)) for term in operator.terms)
    return replace(operator, lattice=square(*found.shape), terms=terms)
