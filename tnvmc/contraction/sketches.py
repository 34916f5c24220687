"""Sketches: matrix product states on the open legs of a row.

With one of them `schemes.SRC` finds the range of an absorbed row that matters.
"""

import itertools
from collections.abc import Mapping, Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np

from tnvmc.backend.namespace import array_namespace, is_complex, to_namespace
from tnvmc.contraction.schemes import SRC
from tnvmc.contraction.tensors import BoundaryMPS, SiteTables, Sketch, TableRow, packed

Array = Any

_MAX_JOINED = 8
"""Most boundaries that are joined into one sketch near the edge."""


def sketches_of(
    tables: Mapping[str, SiteTables], absorbed: str, shape: tuple[int, int], scheme: SRC
) -> list[Sketch | None]:
    """Give per row the sketch for absorbing it, "down" or "up".

    It is the boundary of all rows beyond with every site at a random superposition of its local
    states, itself compressed with random sketches.  Near the edge such a boundary is narrower than
    the rank that is wanted, so several are joined there.

    Cost: one pass of absorption for one walker.
    """
    rows, n_cols, upward = range(shape[0]), shape[1], absorbed == "up"
    own, beyond = tables[absorbed], tables["down" if upward else "up"]
    alone = scheme.sketch == "random"
    shapes, chi, seed = (own if alone else beyond).shapes, scheme.chi, scheme.seed
    legs = [[shape[2] for shape in shapes[row * n_cols :][:n_cols]] for row in rows]
    if alone:
        return [random_sketch(legs[r], chi, (seed, 2, r, upward, 0), own.numbers) for r in rows]
    inward = rows if upward else rows[::-1]  # from the far edge
    xp = array_namespace(beyond.numbers)
    plain, only_state = _plain(chi, seed), xp.zeros((1, n_cols), dtype=xp.int8)
    parts: dict[int, list[Sketch]] = {row: [] for row in inward[1:]}
    depth = len(parts)  # rows to go through, up to the last one whose sketch is narrow
    for draw in range(_MAX_JOINED):
        rng = np.random.default_rng((seed, 1, not upward, draw))
        through, depth = inward[:depth], 0
        boundary: BoundaryMPS | None = None
        for k, row in enumerate(through, 1):
            weights = rng.normal(size=(n_cols, beyond.shapes[0][0]))
            blurred = TableRow(beyond.superposed(row * n_cols, weights), 0, n_cols, only_state)
            place = seed, 2, row, not upward, draw
            sketch = random_sketch(legs[row], chi, place, beyond.numbers)
            boundary = plain.absorb(boundary, blurred, sketch)
            found = parts[inward[k]]
            found.append(boundary.bottom_leftward)
            if sum(max(tensor.shape[3] for tensor in part) for part in found) < chi:
                depth = k
    return [packed(joined_sketches(parts[r], chi), 1) if r in parts else None for r in rows]


@cache
def _plain(chi: int, seed: int) -> SRC:
    """The scheme that compresses boundaries of superpositions."""
    return SRC(chi, seed, "random")


def random_sketch(verticals: Sequence[int], rank: int, seed: Any, like: Array) -> Sketch:
    """Draw a Gaussian MPS, laid out as a `Sketch`: per column an array (1, vertical, right, left).

    Bonds of `rank` are no wider than the legs on either side of them can fill.  `seed` is what
    `numpy.random.default_rng` takes; namespace and dtype are those of `like`.
    """
    xp = array_namespace(like)
    rng = np.random.default_rng(seed)
    bonds = [
        min(rank, prod(verticals[:cut]), prod(verticals[cut:])) for cut in range(len(verticals) + 1)
    ]
    shapes = [(1, v, bonds[c + 1], bonds[c]) for c, v in enumerate(verticals)]
    parts = 2 if is_complex(like) else 1
    drawn = np.split(
        rng.normal(size=parts * sum(map(prod, shapes))),
        np.cumsum([parts * prod(shape) for shape in shapes])[:-1],
    )
    sketch = []
    for shape, numbers in zip(shapes, drawn, strict=True):
        scaled = np.reshape(numbers, (parts, *shape)) / np.sqrt(shape[1] * shape[2])
        entries = scaled[0] if parts == 1 else scaled[0] + 1j * scaled[1]
        sketch.append(xp.astype(to_namespace(entries, xp), like.dtype))
    return packed(sketch, 1)


def joined_sketches(sketches: Sequence[Sketch], rank: int) -> Sketch:
    """Give the direct sum of sketches on the same legs, cut to a rank; one alone as it is.

    The vectors on the legs right of a cut are orthonormalised, one sketch after the other, and the
    first `rank` are kept: all of the first sketches, and a part of the last one.
    """
    if len(sketches) == 1:
        return sketches[0]
    xp = array_namespace(sketches[0][0])
    joined: list[Array] = []
    kept = [xp.ones((1, 1), dtype=sketches[0][0].dtype)] * len(sketches)  # one edge for all
    for parts in reversed(list(zip(*sketches, strict=True))):
        # kept (bond, right) x part (vertical, right, left), side by side
        moved = [xp.matmul(k[None, :, :], p[0, ...]) for k, p in zip(kept, parts, strict=True)]
        vertical, bond = moved[0].shape[:2]
        q, r = xp.linalg.qr(xp.reshape(xp.concat(moved, axis=2), (vertical * bond, -1)))
        width = min(rank, q.shape[1])
        joined.append(xp.reshape(q[:, :width], (1, vertical, bond, width)))
        ends = np.cumsum([0, *(part.shape[3] for part in parts)]).tolist()
        kept = [r[:width, begin:end] for begin, end in itertools.pairwise(ends)]
    return joined[::-1]
