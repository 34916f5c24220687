"""Closing two rings where one of them is absorbed anew; see `strip_engine.RingStrips`."""

from typing import NamedTuple

import numpy as np

from tnvmc.backend.host.columns import (
    LEFT,
    UPPER,
    copy,
    identity,
    least_cut,
    overlap,
    room_of_row,
    room_of_strip,
    sketched,
    split,
)
from tnvmc.backend.host.compilation import kernel
from tnvmc.backend.host.strips import Strip, absorb_lanes, all_right, placed, room_of_lanes
from tnvmc.backend.host.vectors import keep, lanes, pointer, shifted


class Rings(NamedTuple):
    """Two adjacent rows of B walkers, for closures at spins that differ in some columns."""

    far: Strip  #: the row that is absorbed, see `absorb`
    near: Strip  #: the other one, at which psi is closed
    from_above: bool  #: whether the far row is the upper one
    chi: int  #: as of `absorb`
    bonds: np.ndarray  #: as of `absorb`
    held: np.ndarray  #: room for environments of the far row, (B, size)


@kernel()
def hold(rings, configs):
    """Hold the environments of the far row at configurations (B, N), closed with the sketch."""
    far, n_cols = rings.far, rings.far.legs.shape[0]
    (_, cuts, (work, _, _)), memory = room_of_lanes(far, rings.bonds)
    room, least = room_of_row(far, rings.bonds)[3], least_cut(far, rings.chi, rings.bonds)
    for w in range(configs.shape[0]):
        place, out = placed(far, configs, w, w), pointer(rings.held, w * rings.held.shape[1])
        sketched(place, far, work, pointer(cuts, 0), room, out, n_cols, least)
        copy(work, out, cuts[n_cols])
    keep(memory)


@kernel()
def close_rings(rings, configs, owners, end, phase, log_abs):
    """Write psi of configurations (n, N) of walkers (n,).

    They differ from those that `hold` was given in columns before `end` at most.
    """
    far, near, n = rings.far, rings.near, configs.shape[0]
    rooms, memory = room_of_lanes(far, rings.bonds)
    room, rights, lefts, _, scratch = room_of_strip(near)
    size, wide, n_cols = rooms[0][0], lanes(pointer(far.above, 0)), far.legs.shape[0]
    numbers, logs = np.empty(wide * size, far.above.dtype), np.empty(wide, far.log_scale.dtype)
    right_logs, work = np.empty(n_cols + 1), pointer(room, 0)
    ends, whole = shifted(work, lefts[0]), shifted(work, rights[0])
    carried, out = near.legs[0, UPPER + LEFT], (pointer(numbers, 0), pointer(logs, 0))
    held = pointer(rings.held, 0), rings.held.shape[1], end
    identity(ends, carried)
    for first in range(0, n, wide):
        lane = configs, owners, first, min(wide, n - first)
        absorb_lanes(far, rings.chi, rings.bonds, lane, held, rooms, out)
        for i in range(lane[3]):
            owner, q = owners[first + i], pointer(numbers, i * size)
            upper, lower, right, left, above, below = placed(near, configs, first + i, owner)
            above, below = (q, below) if rings.from_above else (above, q)
            place = upper, lower, right, left, above, below
            legs = pointer(near.legs, 0)
            all_right(place, legs, near.rescaled, work, rights, right_logs, scratch, 0.0)
            value = overlap(ends, whole, carried * carried)
            log = near.log_scale[owner] + logs[i] + right_logs[0]
            phase[first + i], log_abs[first + i] = split(value, log)
    keep(memory, room, numbers, logs)
