"""Absorption of a row by a sketch, as many walkers at once as a vector has lanes."""

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
from tnvmc.backend.host.compilation import kernel
from tnvmc.backend.host.decompositions import (
    PANEL,
    conjugated,
    enter,
    factor,
    form,
    leave,
    leave_one,
)  # fmt: skip
from tnvmc.backend.host.products import product
from tnvmc.backend.host.vectors import keep, lanes, parts, pointer, shifted


class Absorption(NamedTuple):
    """A row that is absorbed: its columns with the boundary above and the sketch below."""

    legs: np.ndarray  #: (n_cols, N_LEGS), see `columns`
    first: int  #: site of the first column
    local_dim: int
    rescaled: int  #: columns between rescalings
    chi: int  #: a bond no larger than this is not cut
    bonds: np.ndarray  #: (n_cols + 1,) of the new boundary
    tables: np.ndarray
    above: np.ndarray
    step: int  #: from one walker to the next in `above`
    sketch: np.ndarray  #: (vertical, right, left) by column


@kernel()
def absorb(row, configs, numbers, log_scale):
    """Write the new boundary tensors (vertical, left, right) of each walker, and log scales."""
    n_cols, n_walkers = row.legs.shape[0], configs.shape[0]
    size, cuts, widest, room = _rooms(row)
    wide, p = lanes(pointer(numbers, 0)), parts(pointer(numbers, 0))
    # A lane holds its environments, its carry, and three intermediates x, y, z.
    lane_size = cuts[n_cols] + 4 * room
    carries, ys, zs = cuts[n_cols], cuts[n_cols] + 2 * room, cuts[n_cols] + 3 * room
    memory = np.empty(wide * (lane_size + 1), numbers.dtype)
    matrices = np.zeros((p * widest + wide) * wide, log_scale.dtype)
    factors = np.empty(row.bonds.max() * wide, log_scale.dtype)
    work, a, taus = pointer(memory, 0), pointer(matrices, 0), pointer(factors, 0)
    for first in range(0, n_walkers, wide):
        n_lanes, at = min(wide, n_walkers - first), 0
        for lane in range(n_lanes):
            _check(row, configs[first + lane])
            log_scale[first + lane] = 0
            place = _place(row, configs, first + lane)
            _sketched(place, shifted(work, lane * lane_size), pointer(cuts, 0), room, row.rescaled)
        for c in range(n_cols):
            column, kappa, rank = pointer(row.legs, c * N_LEGS), row.bonds[c], row.bonds[c + 1]
            m, k = column[UPPER + DOWN] * kappa, column[ABOVE_RIGHT] * column[UPPER + RIGHT]
            last, fits, n = c == n_cols - 1, k <= row.chi, column[BELOW_RIGHT]
            cut = not last and m > min(row.chi, k)
            for lane in range(n_lanes):
                envs, place = shifted(work, lane * lane_size), _place(row, configs, first + lane)
                y, z = _carried(place, shifted(envs, carries), room, kappa, c), shifted(envs, zs)
                if cut and fits:
                    for i in range(m):
                        for j in range(k):
                            z[i * k + j] = y[j * m + i]
                elif cut:
                    product(y, shifted(envs, cuts[c + 1]), z, 1, m, n, n, m, n, k)
            if cut:
                enter(a, shifted(work, zs), lane_size, k if fits else n, m, rank, p)
                factor(a, taus, m, rank, p)
                form(a, taus, m, rank, p)
                if n_lanes == wide:
                    leave(a, pointer(numbers, first * size + at), size, m, rank, p)
            for lane in range(n_lanes):
                envs = shifted(work, lane * lane_size)
                q = pointer(numbers, (first + lane) * size + at)
                carry, y = shifted(envs, carries), shifted(envs, ys)
                if last:
                    log_scale[first + lane] += rescale(y, m)
                    _copy(y, q, m)
                elif cut:
                    if n_lanes < wide:
                        leave_one(a, lane, q, m, rank, p)
                    q = conjugated(q, shifted(envs, zs), m * rank)
                    product(y, q, carry, m, 1, rank, rank, k, rank, m)
                else:  # keep every row of y
                    _identity(q, m)
                    _copy(y, carry, k * m)
                if c % row.rescaled == row.rescaled - 1 and not last:
                    log_scale[first + lane] += rescale(carry, k * rank)
            at += m * rank
    keep(memory, matrices, factors)


@numba.njit
def _place(row, configs, w):
    """Pointers to what belongs to a walker: legs, tables, spins, the boundary, the sketch."""
    half = row.tables.size // 2
    return (
        row.legs.shape[0], pointer(row.legs, 0), pointer(row.tables, 0), pointer(row.tables, half),
        pointer(configs, w * configs.shape[1] + row.first), pointer(row.above, w * row.step),
        pointer(row.sketch, 0),
    )  # fmt: skip


@numba.njit
def _carried(place, carry, room, kappa, c):
    """Absorb column c into the carry, with its lower legs open; x and y stand behind it."""
    _, legs, tables, _, spins, above, _ = place
    column = shifted(legs, c * N_LEGS)
    site = shifted(tables, column[UPPER + SITE] + spins[c] * size_of_site(column))
    scratch, top = (shifted(carry, room), shifted(carry, 2 * room)), shifted(above, column[ABOVE])
    return opened(carry, scratch, site, site, top, column, kappa, False)


@numba.njit
def _sketched(place, envs, cuts, room, rescaled):
    """Right environments of boundary and row, closed with the sketch; the carry begins as 1."""
    n_cols, legs, _, tables, spins, above, sketch = place
    env = shifted(envs, cuts[n_cols])
    env[0] = 1
    scratch = shifted(env, room), shifted(env, 2 * room)
    for c in range(n_cols - 1, 0, -1):
        column, out = shifted(legs, c * N_LEGS), shifted(envs, cuts[c])
        site = shifted(tables, column[UPPER + SITE] + spins[c] * size_of_site(column))
        top, bottom = shifted(above, column[ABOVE]), column[BELOW_RIGHT]
        held = opened(env, scratch, site, site, top, column, bottom, True)
        close(held, out, shifted(sketch, column[BELOW]), column, True)
        if c % rescaled == 0:
            rescale(out, size_of(column, True))
        env = out


@numba.njit
def _copy(source, target, size):
    for i in range(size):
        target[i] = source[i]


@numba.njit
def _identity(q, m):
    for i in range(m):
        for j in range(m):
            q[i * m + j] = 1 if i == j else 0


@numba.njit
def _check(row, config):
    """Nothing outside of the tables is read."""
    for site in range(row.first, row.first + row.legs.shape[0]):
        if config[site] < 0 or config[site] >= row.local_dim:
            raise IndexError("a spin is no local state")


@numba.njit
def _rooms(row):
    """Sizes: of a boundary, places of environments, decompositions, intermediates."""
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
        widest = max(widest, legs[UPPER + DOWN] * kappa * (rank + PANEL - 1))
        cuts[c + 1] = cuts[c] + size_of(legs, True)
    return size, cuts, widest, room
