"""Closures of the double layer: the norm and the sum of all terms of a strip, in one pass each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tnvmc.contraction.double_network import DoubleNetwork
from tnvmc.contraction.double_terms import Ends, Prefix, Source, StripTerms, View
from tnvmc.contraction.row import BoundaryMPS, Environment, Strip, closure, transfer

Array = Any
Boundaries = Sequence[BoundaryMPS | None]


@dataclass(frozen=True)
class Closed:
    """One closure for B rotations: <R> and the sum of its terms <R h>, times exp(-log_scale)."""

    norm: Array  #: (B,)
    total: Array  #: (B,)
    log_scale: float


def closures(network: DoubleNetwork, view: View) -> Iterator[Closed]:
    """Close every strip of a view with its terms, then the pairs that fit no strip.

    The norm and the terms of a closure have the same environments.
    """
    above, below = network.boundaries("down"), network.boundaries("up")
    for (first, n_rows), terms in sorted(view.strips.items()):
        yield close_strip(network, terms, (above[first], below[first + n_rows - 1]))
    for row, sources in sorted(view.pairs.items()):
        yield from _close_pairs(network, row, sources, (above, below))


def close_strip(
    network: DoubleNetwork,
    terms: StripTerms,
    around: tuple[BoundaryMPS | None, BoundaryMPS | None],
    log_scale: float | None = None,
) -> Closed:
    """Close a strip without and with its terms, going once from left to right.

    Terms that begin alike share what is left of their ends, terms that end alike what is right.

    Args:
        network: the double layer.
        terms: which rows, and what stands in them.
        around: the boundaries above and below.
        log_scale: taken out of the values; by default that of the largest norm.
    """
    strip = network.strip(terms.first, terms.n_rows, around)
    rights = strip.right_environments()
    lefts: dict[Prefix, Environment] = {(): strip.edge()}
    if log_scale is None:
        largest = float(closure(lefts[()], rights[0])[1].max())
        log_scale = largest if np.isfinite(largest) else 0.0
    norm = _value(lefts[()], rights[0], log_scale)
    total = np.zeros_like(norm)
    for c in range(network.n_cols):
        for units, members in terms.ended(c).items():
            right = _absorbed(
                strip, c, rights[c + 1], network.column(terms.first, c, "left", units)
            )
            for prefix, coefficient in members:
                total = total + coefficient * _value(lefts[prefix], right, log_scale)
        plain = network.column(terms.first, c, "right", (None,) * terms.n_rows)
        following = {
            prefix: strip.advance(lefts[prefix], c, plain)
            for prefix, last in terms.prefixes.items()
            if prefix in lefts and last > c
        }
        for prefix in terms.started(c):
            sites = network.column(terms.first, c, "right", prefix[-1][1])
            following[prefix] = strip.advance(lefts[prefix[:-1]], c, sites)
        lefts = following
    return Closed(norm, total, log_scale)


def _value(left: Environment, right: Environment, log_scale: float) -> Array:
    """Contract both, times exp(-log_scale): (B,)."""
    phase, log_abs = closure(left, right)
    return phase * np.exp(log_abs - log_scale)


def _absorbed(strip: Strip, c: int, right: Environment, sites: Sequence[Array]) -> Environment:
    """The environment right of column c - 1, with other sites in column c."""
    above = None if strip.above is None else strip.above.top_leftward[c]
    below = None if strip.below is None else strip.below.bottom_leftward[c]
    return Environment(transfer(right.tensor, above, sites, below), right.log_scale)


def _close_pairs(
    network: DoubleNetwork,
    row: int,
    sources: Mapping[Source, Mapping[int, Ends]],
    around: tuple[Boundaries, Boundaries],
) -> Iterator[Closed]:
    """Pairs of sites at any distance whose upper site is in `row`, closed at the row of the lower.

    A source is the network with the unit of the upper site in it; all of them are absorbed row by
    row as one batch (n B), as `ansatz/peps/pairs.py` does for spins.
    """
    above, below = around
    n, n_rotations = len(sources), len(network.factors)
    many = network.repeated(n)
    boundary = network.absorbed(
        _repeated(above[row], n), network.row(row, "down", list(sources)), row, "down"
    )
    lowest = max(r for targets in sources.values() for r in targets)
    for r in range(row + 1, lowest + 1):
        ends: Ends = defaultdict(lambda: np.zeros((n, 1), dtype=complex))
        for k, targets in enumerate(sources.values()):
            for last, coefficient in targets.get(r, {}).items():
                ends[last][k] = coefficient
        if ends:
            unchanged = close_strip(network, StripTerms(r, 1), (above[r], below[r]))
            spread = {last: np.repeat(c, n_rotations) for last, c in ends.items()}
            closed = close_strip(
                many, StripTerms(r, 1, {(): spread}), (boundary, _repeated(below[r], n)),
                unchanged.log_scale,
            )  # fmt: skip
            total = closed.total.reshape(n, n_rotations).sum(axis=0)
            yield Closed(unchanged.norm, total, unchanged.log_scale)
        if r < lowest:
            boundary = network.absorbed(boundary, many.row(r, "down"), r, "down")


def _repeated(boundary: BoundaryMPS | None, n: int) -> BoundaryMPS | None:
    """A boundary n times over, in the order (copy, rotation)."""
    if boundary is None:
        return None
    tensors = [np.tile(tensor, (n, 1, 1, 1)) for tensor in boundary.tensors]
    return BoundaryMPS(tensors, np.tile(boundary.log_scale, n))
