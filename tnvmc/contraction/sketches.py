"""Sketches: matrix product states on the open legs of a row, with which `schemes.SRC` finds the range that matters."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from tnvmc.backend.namespace import array_namespace, to_namespace

Array = Any

Sketch = Sequence[Array]
"""An MPS on the open legs of a row, shared by all walkers, as bottoms laid out leftward:
per column (1, vertical, right, left)."""


def random_sketch(verticals: Sequence[int], rank: int, seed: Any, like: Array) -> Sketch:
    """Draw a Gaussian MPS, laid out as a `Sketch`.

    Args:
        verticals: sizes of its legs, by column.
        rank: bond dimension; bonds are no wider than the legs on either side of them can fill.
        seed: what `numpy.random.default_rng` takes.
        like: array whose namespace and dtype it gets.

    Returns:
        Per column an array (1, vertical, right, left).
    """
    xp = array_namespace(like)
    rng = np.random.default_rng(seed)
    bonds = [
        min(rank, prod(verticals[:cut]), prod(verticals[cut:])) for cut in range(len(verticals) + 1)
    ]
    shapes = [(1, v, bonds[c + 1], bonds[c]) for c, v in enumerate(verticals)]
    parts = 2 if xp.isdtype(like.dtype, "complex floating") else 1
    drawn = np.split(
        rng.normal(size=parts * sum(map(prod, shapes))),
        np.cumsum([parts * prod(shape) for shape in shapes])[:-1],
    )
    sketch = []
    for shape, numbers in zip(shapes, drawn, strict=True):
        scaled = np.reshape(numbers, (parts, *shape)) / np.sqrt(shape[1] * shape[2])
        entries = scaled[0] if parts == 1 else scaled[0] + 1j * scaled[1]
        sketch.append(xp.astype(to_namespace(entries, xp), like.dtype))
    return sketch


def joined_sketches(sketches: Sequence[Sketch], rank: int) -> Sketch:
    """Give the direct sum of sketches on the same legs, cut to a rank.

    The vectors on the legs right of a cut are orthonormalised, one sketch after the other, and the
    first `rank` are kept: all of the first sketches, and a part of the last one.

    Args:
        sketches: one or more of them; one alone comes back as it is.
        rank: largest bond; none is wider than the legs on its right can fill either.

    Returns:
        Per column an array (1, vertical, right, left).
    """
    if len(sketches) == 1:
        return sketches[0]
    xp = array_namespace(sketches[0][0])
    joined: list[Array] = []
    kept = [xp.ones((1, 1), dtype=sketches[0][0].dtype)] * len(sketches)  # one edge for all
    for parts in reversed(list(zip(*sketches, strict=True))):
        # kept (bond, right) x part (vertical, right, left), side by side
        moved = [
            xp.matmul(k[None, :, :], part[0, ...]) for k, part in zip(kept, parts, strict=True)
        ]
        vertical, bond = moved[0].shape[:2]
        q, r = xp.linalg.qr(xp.reshape(xp.concat(moved, axis=2), (vertical * bond, -1)))
        width = min(rank, q.shape[1])
        joined.append(xp.reshape(q[:, :width], (1, vertical, bond, width)))
        ends = np.cumsum([0, *(part.shape[3] for part in parts)]).tolist()
        kept = [r[:width, begin:end] for begin, end in itertools.pairwise(ends)]
    return joined[::-1]
