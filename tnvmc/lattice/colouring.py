"""Two sublattices: a colour for every site, so that every bond joins two colours."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tnvmc.lattice.lattice import Lattice, Patch


@dataclass(frozen=True, eq=False)
class Colouring:
    """Sublattices, or why there are none."""

    sublattice: np.ndarray | None  #: 0 or 1 for every site, (N,); site 0 has 0
    odd_ring: tuple[int, ...] = ()  #: sites of a closed path of odd length, if there is one
    n_parts: int = 1  #: parts that no bond joins: their colours are not related


def colouring(lattice: Lattice) -> Colouring:
    """Colour the sites by the bonds of kind "nearest", or by all bonds where there are none of it.

    Of the open square lattice it is the checkerboard.  A triangle or another odd ring has none, and
    parts that no bond joins could be coloured in several ways.  Cost N + bonds.
    """
    bonds = lattice.bonds.get("nearest") or [b for kind in lattice.bonds.values() for b in kind]
    neighbours: dict[int, list[int]] = {site: [] for site in range(lattice.n_sites)}
    for i, j in bonds:
        neighbours[i].append(j)
        neighbours[j].append(i)
    colour, parent, n_parts = np.full(lattice.n_sites, -1), dict[int, int](), 0
    for start in range(lattice.n_sites):
        if colour[start] >= 0:
            continue
        n_parts += 1
        if clash := _spread(start, neighbours, colour, parent):
            return Colouring(None, _ring(clash, parent))
    return Colouring(colour if n_parts == 1 else None, (), n_parts)


def _spread(
    start: int, neighbours: Mapping[int, list[int]], colour: np.ndarray, parent: dict[int, int]
) -> Patch | None:
    """Colour all that hangs together with a site, breadth first; give a bond within one colour."""
    colour[start] = 0
    waiting = deque([start])
    while waiting:
        site = waiting.popleft()
        for other in neighbours[site]:
            if colour[other] < 0:
                colour[other], parent[other] = 1 - colour[site], site
                waiting.append(other)
            elif colour[other] == colour[site]:
                return site, other
    return None


def _ring(clash: Patch, parent: Mapping[int, int]) -> tuple[int, ...]:
    """The ring that a bond closes: the paths of its two sites back to where they meet."""
    paths = []
    for site in clash:
        path = [site]
        while path[-1] in parent:
            path.append(parent[path[-1]])
        paths.append(path)
    meet = next(site for site in paths[0] if site in paths[1])
    left, right = (path[: path.index(meet)] for path in paths)
    return (*left, meet, *reversed(right))
