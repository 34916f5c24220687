"""Absorption of a row by a sketch, as many walkers at once as a vector has lanes; see `contraction.schemes.SRC`."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np

from tnvmc.backend.host.columns import (
    ABOVE,
    ABOVE_LEFT,
    ABOVE_RIGHT,
    BELOW,
    BELOW_LEFT,
    BELOW_RIGHT,
    DOWN,
    LEFT,
    N_LEGS,
    RIGHT,
    SITE,
    UP,
    UPPER,
    close,
    opened,
    rescale,
    size_of,
    size_of_site,
)  # fmt: skip
from tnvmc.backend.host.decompositions import enter, factor, form, leave
from tnvmc.backend.host.products import product
from tnvmc.backend.host.vectors import lanes, pointer, shifted


class Absorption(NamedTuple):
    """A row that is absorbed: its columns with the boundary above and the sketch below."""

    legs: np.ndarray  #: (n_cols, N_LEGS), see `columns`
    first: int  #: site of the first column
    local_dim: int
    rescaled: int  #: columns between rescalings
    chi: int  #: a bond no larger than this is not cut
    bonds: np.ndarray  #: (n_cols + 1,) of the new boundary
    tables: np.ndarray  #: of real numbers
    above: np.ndarray
    step: int  #: from one walker to the next in `above`
    sketch: np.ndarray  #: (vertical, right, left) by column


@numba.njit(nogil=True, cache=True)
def absorb(row, configs, numbers, log_scale):
    """Write the new boundary tensors (vertical, left, right) of each walker and the log of their scale."""
    n_cols, n_walkers = row.legs.shape[0], configs.shape[0]
    size, cuts, widest, room = _rooms(row)
    legs, bonds, tables = pointer(row.legs, 0), pointer(row.bonds, 0), pointer(row.tables, 0)
    begin, leftward = pointer(numbers, 0), pointer(row.tables, row.tables.size // 2)
    wide = lanes(begin)
    # a lane holds its environments, its carry, and three intermediates
    lane_size = cuts[n_cols] + 4 * room
    work = np.empty(wide * lane_size, numbers.dtype)
    for_matrices = np.zeros(widest * wide, numbers.dtype)
    for_factors = np.empty(row.bonds.max() * wide, numbers.dtype)
    a, taus = pointer(for_matrices, 0), pointer(for_factors, 0)
    for first in range(0, n_walkers, wide):
        n_lanes, at = min(wide, n_walkers - first), 0
        for lane in range(n_lanes):
            w, envs = first + lane, pointer(work, lane * lane_size)
            _check(row, configs[w])
            log_scale[w] = 0
            above, config = (
                pointer(row.above, w * row.step),
                pointer(configs, w * configs.shape[1] + row.first),
            )
            carry = shifted(envs, cuts[n_cols])
            carry[0] = 1
            scratch = shifted(carry, room), shifted(carry, 2 * room)
            _sketched(
                envs,
                carry,
                scratch,
                pointer(cuts, 0),
                legs,
                n_cols,
                leftward,
                config,
                above,
                pointer(row.sketch, 0),
                row.rescaled,
            )
        for c in range(n_cols):
            column, kappa, rank = shifted(legs, c * N_LEGS), bonds[c], bonds[c + 1]
            m, k = column[UPPER + DOWN] * kappa, column[ABOVE_RIGHT] * column[UPPER + RIGHT]
            cut = c < n_cols - 1 and m > min(row.chi, k)
            for lane in range(n_lanes):
                w, envs = first + lane, pointer(work, lane * lane_size)
                carry, out = shifted(envs, cuts[n_cols]), shifted(begin, w * size + at)
                scratch = shifted(carry, room), shifted(carry, 2 * room)
                config = pointer(configs, w * configs.shape[1] + row.first)
                top = pointer(row.above, w * row.step + column[ABOVE])
                site = shifted(tables, column[UPPER + SITE] + config[c] * size_of_site(column))
                y = opened(carry, scratch, site, site, top, column, kappa, False)
                if c == n_cols - 1:
                    log_scale[w] += rescale(y, m)
                    _copy(y, out, m)
                elif not cut:  # keep every row of y
                    for i in range(m):
                        for j in range(m):
                            out[i * m + j] = 1 if i == j else 0
                    _copy(y, carry, k * m)
                elif k <= row.chi:
                    enter(a, lane, y, 1, m, m, rank)
                else:
                    z, n, right = (
                        shifted(carry, 3 * room),
                        column[BELOW_RIGHT],
                        shifted(envs, cuts[c + 1]),
                    )
                    product(y, right, z, 1, m, n, n, m, n, k)
                    enter(a, lane, z, n, 1, m, rank)
            if cut:
                factor(a, taus, m, rank, rank + 3)
                form(a, taus, m, rank, rank + 3)
            for lane in range(n_lanes):
                w, carry = first + lane, pointer(work, lane * lane_size + cuts[n_cols])
                if cut:
                    q, y = shifted(begin, w * size + at), shifted(carry, 2 * room)
                    leave(a, lane, q, m, rank)
                    product(y, q, carry, m, 1, rank, rank, k, rank, m)
                if c % row.rescaled == row.rescaled - 1 and c < n_cols - 1:
                    log_scale[w] += rescale(carry, k * rank)
            at += m * rank


@numba.njit
def _copy(source, target, size):
    for i in range(size):
        target[i] = source[i]


@numba.njit
def _check(row, config):
    """Nothing outside of the tables is read."""
    for site in range(row.first, row.first + row.legs.shape[0]):
        if config[site] < 0 or config[site] >= row.local_dim:
            raise IndexError("a spin is no local state")


@numba.njit
def _rooms(row):
    """Numbers of a boundary, places of the environments, and room for decompositions and intermediates."""
    n_cols, size, widest, room = row.legs.shape[0], 0, 1, 64
    cuts = np.zeros(n_cols + 1, np.int64)
    for c in range(n_cols):
        legs = row.legs[c]
        kappa, rank = row.bonds[c], row.bonds[c + 1]
        o = max(legs[ABOVE_LEFT], legs[ABOVE_RIGHT])
        b = max(legs[BELOW_LEFT], legs[BELOW_RIGHT], kappa, rank)
        across = max(legs[UPPER + LEFT], legs[UPPER + RIGHT])
        vertical = max(legs[UPPER + UP], legs[UPPER + DOWN])
        room = max(room, o * across * vertical * b, vertical * b * b)
        size += legs[UPPER + DOWN] * kappa * rank
        widest = max(widest, legs[UPPER + DOWN] * kappa * (rank + 3))
        cuts[c + 1] = cuts[c] + size_of(legs, True)
    return size, cuts, widest, room


@numba.njit
def _sketched(envs, start, scratch, cuts, legs, n_cols, tables, config, above, sketch, rescaled):
    """Right environments of boundary and row, closed with the sketch."""
    env = start
    for c in range(n_cols - 1, 0, -1):
        column, out = shifted(legs, c * N_LEGS), shifted(envs, cuts[c])
        site = shifted(tables, column[UPPER + SITE] + config[c] * size_of_site(column))
        held = opened(
            env,
            scratch,
            site,
            site,
            shifted(above, column[ABOVE]),
            column,
            column[BELOW_RIGHT],
            True,
        )
        close(held, out, shifted(sketch, column[BELOW]), column, True)
        if c % rescaled == 0:
            rescale(out, size_of(column, True))
        env = out
