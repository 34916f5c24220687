"""A PEPS as two halves that are absorbed by fixed projectors, one from above and one from below.

What the projectors are good for is decided with random superpositions of the local states in place of spins:
the mean over them of |psi|^2 is the norm of the state, so that a cut is best for typical configurations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tnvmc.ansatz.peps.layers import Layers
from tnvmc.ansatz.protocol import LogAmplitude
from tnvmc.backend.linalg import normalise
from tnvmc.backend.namespace import array_namespace
from tnvmc.contraction.fixed import Fixed, FixedSite, projectors
from tnvmc.contraction.row import BoundaryMPS, Row
from tnvmc.contraction.schemes import SRC

Array = Any

_TURNED = (0, 4, 3, 2, 1)  # (right, down, up, left) as (left, up, down, right) of `FixedSite`


Absorbed = tuple[Array, Array]
"""A column after some rows: tensors (B, left, vertical, right) of largest entry 1, and logs (B,) of their scales."""

MOST_SPINS, MOST_NUMBERS = 2**8, 2**20
"""Configurations of a column, and numbers of their tensors, up to which all are absorbed beforehand: in a step every
walker has each of them about as often."""


@dataclass(frozen=True)
class Half:
    """The rows above or below the middle, in the order in which they are absorbed."""

    rows: Sequence[int]
    sites: Sequence[Sequence[FixedSite]]  #: by row and column
    tables: Sequence[Sequence[Absorbed]]
    """By column and row: what the rows up to it are absorbed to, for all their spins; `code` counts those.  Rows
    with too many are left out at the end."""

    @classmethod
    def of(cls, rows: Sequence[int], sites: Sequence[Sequence[FixedSite]]) -> Half:
        """Absorb every column for all spins."""
        return cls(rows, sites, [_absorbed(list(column)) for column in zip(*sites, strict=True)])


@dataclass(frozen=True)
class Halves:
    """Both halves of one theta."""

    shape: tuple[int, int]
    upper: Half
    lower: Half
    local_dim: int
    log_scales: list[float]  #: of the tensors of the sites, which are scaled to largest entry 1

    @property
    def halves(self) -> tuple[Half, Half]:
        """The upper and the lower one."""
        return self.upper, self.lower

    def with_scale(self, amplitude: LogAmplitude) -> LogAmplitude:
        """psi with the scales of the tensors put back."""
        return LogAmplitude(amplitude.phase, amplitude.log_abs + sum(self.log_scales))

    @classmethod
    def build(cls, tensors: Sequence[Array], shape: tuple[int, int], scheme: Fixed) -> Halves:
        """Lay out the tensors and make the projectors of every cut.

        Cost: two absorptions of the network for `n_drawn` walkers, and for each cut singular values of
        (chi D, chi D).

        Raises:
            ValueError: NaN or infinity in a tensor.
        """
        layers = Layers.build(tensors, shape, SRC(scheme.chi, seed=scheme.seed))
        middle = (shape[0] + 1) // 2
        drawn = _Drawn(layers, scheme)
        upper = _half(drawn, "down", range(middle))
        lower = _half(drawn, "up", range(shape[0] - 1, middle - 1, -1))
        return cls(shape, upper, lower, layers.local_dim, layers.log_scales)


@dataclass(frozen=True)
class _Drawn:
    """The network with every site at K random superpositions of its local states."""

    layers: Layers
    scheme: Fixed

    def row(self, row: int, absorbed: str) -> Row:
        """A row, ready to be absorbed."""
        columns = range(self.layers.n_cols)
        return Row(*([self._site(absorbed, moving, row, column) for column in columns]
                     for moving in ("right", "left")))  # fmt: skip

    def _site(self, absorbed: str, moving: str, row: int, column: int) -> Array:
        table = self.layers.tables[absorbed].table(moving, row * self.layers.n_cols + column)
        xp = array_namespace(table)
        rng = np.random.default_rng((self.scheme.seed, 3, row, column))
        mixes = rng.normal(size=(self.scheme.n_drawn, table.shape[0]))
        mixes = xp.asarray(mixes, dtype=table.dtype)
        mixed = xp.matmul(mixes, xp.reshape(table, (table.shape[0], -1)))
        return xp.reshape(mixed, (-1, *table.shape[1:]))

    def beyond(self, rows: Sequence[int], absorbed: str) -> dict[int, BoundaryMPS | None]:
        """For each of `rows` the boundary of all rows beyond it, absorbed from the other edge."""
        other = "up" if absorbed == "down" else "down"
        downward = list(range(self.layers.n_rows))
        order = downward if other == "down" else downward[::-1]
        scheme = SRC(self.scheme.chi, seed=self.scheme.seed)
        found: dict[int, BoundaryMPS | None] = {}
        boundary: BoundaryMPS | None = None
        for row in order:
            found[row] = boundary
            if row == rows[0]:
                break
            boundary = scheme.absorb(
                boundary, self.row(row, other), self.layers.sketches[other][row]
            )
        return found


def _half(drawn: _Drawn, absorbed: str, rows: Sequence[int]) -> Half:
    """Absorb the rows one after another; each cut gets its projectors on the way."""
    if not rows:
        return Half.of(rows, ())
    layers = drawn.layers
    n_cols, xp = layers.n_cols, array_namespace(layers.tables["down"].numbers)
    beyond = drawn.beyond(rows, absorbed)
    mixed = xp.arange(drawn.scheme.n_drawn)
    boundary: list[Array] = []
    sites: list[list[FixedSite]] = []
    for row in rows:
        tables = [
            xp.permute_dims(layers.tables[absorbed].table("right", row * n_cols + c), _TURNED)
            for c in range(n_cols)
        ]
        blurred = [xp.permute_dims(s, _TURNED) for s in drawn.row(row, absorbed).rightward]
        if boundary:
            cuts = _cuts(boundary, blurred, beyond[row], drawn.scheme.chi)
        else:
            cuts = [(None, None)] * n_cols
        made = [FixedSite(t, *cut) for t, cut in zip(tables, cuts, strict=True)]
        of_drawn = [FixedSite(t, *cut) for t, cut in zip(blurred, cuts, strict=True)]
        before = boundary or [None] * n_cols
        boundary = [
            normalise(site.absorb(b, mixed))[0] for site, b in zip(of_drawn, before, strict=True)
        ]
        sites.append(made)
    return Half.of(rows, sites)


def code(before: Array, spins: Array, local_dim: int) -> Array:
    """Count configurations of a column: those of the rows `before`, with one row more."""
    return before * local_dim + spins


def _absorbed(column: list[FixedSite]) -> list[Absorbed]:
    """A column absorbed for all spins, row by row.  Cost: that of d + d^2 + ... absorptions of a site."""
    xp = array_namespace(column[0].table)
    found: list[Absorbed] = []
    for site in column:
        d, n_before = site.table.shape[0], found[-1][0].shape[0] if found else 1
        every = xp.arange(n_before * d)
        before, log = None, xp.zeros(1)
        if found:
            before, log = (xp.take(each, every // d, axis=0) for each in found[-1])
        if n_before * d > MOST_SPINS or (
            before is not None and math.prod(before.shape) > MOST_NUMBERS
        ):
            break
        made, scale = normalise(site.absorb(before, every % d))
        found.append((made, log + scale))
    return found


def _cuts(
    boundary: list[Array], row: list[Array], beyond: BoundaryMPS | None, chi: int
) -> list[tuple[Array, Array]]:
    """Projectors (left, right) of each column.

    Args:
        boundary: (K, left, up, right) by column.
        row: (K, left, up, down, right) by column.
        beyond: of the rows on the other side.
        chi: largest rank.
    """
    lefts = _environments(boundary, row, beyond)
    flipped = [_flipped(each) for each in reversed(boundary)]
    rights = _environments(flipped, [_flipped(s) for s in reversed(row)], _mirrored(beyond))[::-1]
    xp = array_namespace(boundary[0])
    one = xp.ones((1, 1), dtype=boundary[0].dtype)
    pairs = [(one, one)]
    for left, right in zip(lefts[1:-1], rights[1:-1], strict=True):
        legs = left.shape[0], left.shape[1] * left.shape[2], -1
        pairs.append(projectors(xp.reshape(left, legs), xp.reshape(right, legs), chi))
    pairs.append((one, one))
    found = []
    for column, (top, site) in enumerate(zip(boundary, row, strict=True)):
        to_left = xp.reshape(pairs[column][1], (-1, top.shape[1], site.shape[1]))
        to_right = xp.reshape(pairs[column + 1][0], (top.shape[3], site.shape[4], -1))
        found.append((xp.permute_dims(to_left, (0, 2, 1)), to_right))
    return found


def _flipped(tensor: Array) -> Array:
    """Exchange left and right: the second axis and the last."""
    xp = array_namespace(tensor)
    axes = list(range(tensor.ndim))
    axes[1], axes[-1] = axes[-1], axes[1]
    return xp.permute_dims(tensor, tuple(axes))


def _mirrored(beyond: BoundaryMPS | None) -> BoundaryMPS | None:
    if beyond is None:
        return None
    xp = array_namespace(beyond.tensors[0])
    tensors = [xp.permute_dims(t, (0, 1, 3, 2)) for t in reversed(list(beyond.tensors))]
    return BoundaryMPS(tensors, beyond.log_scale)


def _environments(
    boundary: list[Array], row: list[Array], beyond: BoundaryMPS | None
) -> list[Array]:
    """Left environments (K, boundary, row, beyond) of every cut, from before the first column on."""
    xp = array_namespace(boundary[0])
    batch = boundary[0].shape[0]
    found = [xp.ones((batch, 1, 1, 1), dtype=boundary[0].dtype)]
    for column, (top, site) in enumerate(zip(boundary, row, strict=True)):
        env = found[-1]
        bond_in, row_in, far_in = env.shape[1:]
        _, _, d_up, bond_out = top.shape
        _, _, _, d_down, row_out = site.shape
        # (row far, bond_in) x (bond_in, up bond_out) -> (bond_out far, row up)
        x = xp.matmul(
            xp.matrix_transpose(xp.reshape(env, (batch, bond_in, row_in * far_in))),
            xp.reshape(top, (batch, bond_in, d_up * bond_out)),
        )
        x = xp.reshape(x, (batch, row_in, far_in, d_up, bond_out))
        x = xp.reshape(
            xp.permute_dims(x, (0, 4, 2, 1, 3)), (batch, bond_out * far_in, row_in * d_up)
        )
        # (row up, down row_out), then (down far, far_out)
        x = xp.matmul(x, xp.reshape(site, (batch, row_in * d_up, d_down * row_out)))
        if beyond is not None:
            far = beyond.tensors[column]
            x = xp.reshape(x, (batch, bond_out, far_in, d_down, row_out))
            x = xp.reshape(
                xp.permute_dims(x, (0, 1, 4, 3, 2)), (batch, bond_out * row_out, d_down * far_in)
            )
            x = xp.matmul(x, xp.reshape(far, (batch, d_down * far_in, far.shape[3])))
        found.append(normalise(xp.reshape(x, (batch, bond_out, row_out, -1)))[0])
    return found
