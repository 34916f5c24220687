"""Sampling and measuring strips, walker by walker, and absorbing rows, by lanes of a vector."""

from typing import Any, NamedTuple

import numpy as np
from numba import typeof

from tnvmc.backend.host.columns import (
    ABOVE,
    ABOVE_RIGHT,
    BELOW,
    BELOW_LEFT,
    BELOW_RIGHT,
    DOWN,
    LEFT,
    LOWER,
    N_LEGS,
    RIGHT,
    SITE,
    UP,
    UPPER,
    acceptance,
    carried_on,
    close,
    closed,
    copy,
    identity,
    join,
    least_cut,
    opened,
    overlap,
    put,
    reorder,
    rescale,
    room_of_row,
    room_of_strip,
    site_environment,
    size_of,
    size_of_site,
    sketched,
    split,
    state_of,
    turn,
)  # fmt: skip
from tnvmc.backend.host.compilation import kernel
from tnvmc.backend.host.decompositions import conjugated, enter, factor, form, leave, leave_one
from tnvmc.backend.host.products import product, products
from tnvmc.backend.host.vectors import (
    LINE,
    aligned,
    helper,
    keep,
    lanes,
    lined,
    parts,
    pointer,
    shifted,
)


class Strip(NamedTuple):
    """One strip of B walkers: its columns, and flat arrays that they read."""

    legs: np.ndarray  #: (n_cols, N_LEGS), see `columns`
    first: int  #: site at its upper left
    n_rows: int
    local_dim: int
    n_tensors: int  #: of a site: one for each local state, or variants of fermions
    odd: np.ndarray  #: parities of local states of fermions, whose configurations hold variants
    rescaled: int  #: columns between rescalings
    tables: np.ndarray
    above: np.ndarray
    below: np.ndarray
    steps: tuple[int, int]  #: from one walker to the next in `above` and in `below`
    log_scale: np.ndarray  #: (B,) of both boundaries


class Moves(NamedTuple):
    """Windows of a strip, and what may stand in them."""

    windows: np.ndarray  #: (n, N_FIELDS), see the names below
    sites: np.ndarray  #: (n, most sites)
    targets: np.ndarray  #: tables (states, choices), one after another
    kinds: np.ndarray  #: tables (states, states), one after another


COLUMN, END, DRAW, N_SITES, TARGETS, N_CHOICES, KINDS, RATIOS = range(8)
N_FIELDS = 8


class Draws(NamedTuple):
    """What a sweep is drawn with."""

    uniforms: np.ndarray  #: (B, moves)
    power: np.ndarray  #: (B,)
    cap: float


class Sampled(NamedTuple):
    """What sampling writes: the last closure, and numbers of moves by kind."""

    phase: np.ndarray  #: (B,)
    log_abs: np.ndarray  #: (B,)
    possible: np.ndarray  #: (B, kinds)
    moved: np.ndarray  #: (B, kinds)


class Measured(NamedTuple):
    """What measuring writes; ratios of one window and derivatives of one site lie together."""

    phase: np.ndarray  #: (B,)
    log_abs: np.ndarray  #: (B,)
    ratios: np.ndarray
    derivatives: np.ndarray  #: empty where they are not wanted
    largest: float  #: log of the largest ratio that is given


@kernel()
def sample(strip, configs, moves, draws, result):
    """Try the moves of one strip from left to right; changes `configs` (B, N)."""
    memory, rights, lefts, trials, scratch = room_of_strip(strip)
    d, rescaled, logs = strip.local_dim, strip.rescaled, np.empty((3, strip.legs.shape[0] + 1))
    left_logs, trial_logs = logs[1], logs[2]
    work, legs, places = pointer(memory, 0), pointer(strip.legs, 0), (rights, lefts, trials)
    for w in range(configs.shape[0]):
        config, place = pointer(configs, w * configs.shape[1]), placed(strip, configs, w, w)
        done = 0
        phase, log = _begun(strip, place, w, work, places, logs, scratch)
        for i in range(moves.windows.shape[0]):
            window = pointer(moves.windows, i * N_FIELDS)
            sites = pointer(moves.sites, i * moves.sites.shape[1])
            column, end, n_choices = window[COLUMN], window[END], window[N_CHOICES]
            state = state_of(config, sites, window[N_SITES], d)
            remainder, pick = draws.uniforms[w, window[DRAW]], 0
            if n_choices > 1:
                scaled = remainder * n_choices
                pick = int(np.floor(scaled))
                remainder = scaled - pick
            target = moves.targets[window[TARGETS] + state * n_choices + pick]
            if target < 0:
                continue
            while done < column:
                here, there = shifted(work, lefts[done]), shifted(work, lefts[done + 1])
                more = _absorb(place, legs, rescaled, here, there, scratch, done)
                left_logs[done + 1] = left_logs[done] + more
                done += 1
            put(strip, config, sites, window[N_SITES], end, target)
            trial_phase, trial_log = _tried(strip, place, work, places, logs, scratch, column, end)
            chance = acceptance(trial_log, log, draws.power[w], draws.cap)
            kind = moves.kinds[window[KINDS] + state * d ** window[N_SITES] + target]
            result.possible[w, kind] += 1
            if remainder < chance:  # what was tried is what stands left of the next window now
                result.moved[w, kind] += 1
                phase, log, done = trial_phase, trial_log, end
                for c in range(column + 1, end + 1):
                    lefts[c], trials[c] = trials[c], lefts[c]
                    left_logs[c] = trial_logs[c]
            else:
                put(strip, config, sites, window[N_SITES], end, state)
        result.phase[w], result.log_abs[w] = phase, log
    keep(memory)


@kernel()
def measure(strip, configs, moves, result):
    """Close one strip at all replacements of its windows, and open it at each site."""
    memory, rights, lefts, trials, scratch = room_of_strip(strip)
    n_cols, n_walkers, d = strip.legs.shape[0], configs.shape[0], strip.local_dim
    carried, jacobian = strip.legs[0, UPPER + LEFT], result.derivatives.size > 0
    rescaled, logs = strip.rescaled, np.empty((3, n_cols + 1))
    left_logs = logs[1]
    work, legs, places = pointer(memory, 0), pointer(strip.legs, 0), (rights, lefts, trials)
    last = n_cols - 1 if jacobian else -1
    for i in range(moves.windows.shape[0]):
        last = max(last, moves.windows[i, COLUMN])
    for w in range(n_walkers):
        config, place, at = pointer(configs, w * configs.shape[1]), placed(strip, configs, w, w), 0
        phase, log = _begun(strip, place, w, work, places, logs, scratch)
        result.phase[w], result.log_abs[w] = phase, log
        for column in range(last + 1):
            left = shifted(work, lefts[column])
            if jacobian:
                legs_here = shifted(legs, column * N_LEGS)
                size = size_of_site(legs_here)
                out = pointer(result.derivatives, at * n_walkers + w * size)
                right = shifted(work, rights[column + 1])
                _derivative(place, left, right, out, scratch, legs_here, column, carried)
                at += size
            for i in range(moves.windows.shape[0]):
                window = pointer(moves.windows, i * N_FIELDS)
                if window[COLUMN] != column:
                    continue
                sites = pointer(moves.sites, i * moves.sites.shape[1])
                end, n_choices = window[END], window[N_CHOICES]
                state = state_of(config, sites, window[N_SITES], d)
                for pick in range(n_choices):
                    target = moves.targets[window[TARGETS] + state * n_choices + pick]
                    if target < 0:
                        continue
                    put(strip, config, sites, window[N_SITES], end, target)
                    tried = _tried(strip, place, work, places, logs, scratch, column, end)
                    put(strip, config, sites, window[N_SITES], end, state)
                    trial_phase, trial_log = tried
                    if trial_phase != 0 and phase != 0:
                        size = np.exp(min(trial_log - log, result.largest))
                        of_window = n_walkers * window[RATIOS]
                        result.ratios[of_window + w * n_choices + pick] = trial_phase / phase * size
            if column < last:
                there = shifted(work, lefts[column + 1])
                more = _absorb(place, legs, rescaled, left, there, scratch, column)
                left_logs[column + 1] = left_logs[column] + more
    keep(memory)


@helper
def _begun(strip, place, w, work, places, logs, scratch):
    """Write the environments right of each column, and the one left of all; gives ln psi."""
    (rights, lefts, _), carried, half = places, strip.legs[0, UPPER + LEFT], strip.log_scale[w] / 2
    legs, first, logs[1, 0] = pointer(strip.legs, 0), shifted(work, lefts[0]), half
    all_right(place, legs, strip.rescaled, work, rights, logs[0], scratch, half)
    identity(first, carried)
    return split(overlap(first, shifted(work, rights[0]), carried * carried), half + logs[0, 0])


@helper
def _tried(strip, place, work, places, logs, scratch, column, end):
    """Write the environments left of the columns of a window as it is now; gives ln psi."""
    (rights, lefts, trials), legs = places, pointer(strip.legs, 0)
    env, of_env = shifted(work, lefts[column]), logs[1, column]
    for c in range(column, end):
        there = shifted(work, trials[c + 1])
        of_env += _absorb(place, legs, strip.rescaled, env, there, scratch, c)
        env, logs[2, c + 1] = there, of_env
    beyond = legs[UPPER + LEFT] * size_of(shifted(legs, (end - 1) * N_LEGS), False)
    return split(overlap(env, shifted(work, rights[end]), beyond), of_env + logs[0, end])


@helper
def placed(strip, configs, i, w):
    """Pointers to spins i of both rows, to tables either way, and to boundaries of walker w."""
    n_cols = strip.legs.shape[0]
    for site in range(strip.first, strip.first + strip.n_rows * n_cols):
        if configs[i, site] < 0 or configs[i, site] >= strip.n_tensors:
            raise IndexError("a spin is no local state 0 to d - 1")
    upper = i * configs.shape[1] + strip.first
    lower = upper + n_cols if strip.n_rows == 2 else upper
    tables = pointer(strip.tables, 0), pointer(strip.tables, strip.tables.size // 2)
    above = pointer(strip.above, w * strip.steps[0])
    below = pointer(strip.below, w * strip.steps[1])
    return pointer(configs, upper), pointer(configs, lower), tables[0], tables[1], above, below


@helper
def all_right(place, legs, rescaled, work, rights, logs, scratch, log):
    """The environments right of each column, and their logs."""
    uppers, lowers, _, tables, above, below = place
    n_cols, turned, carried = rights.size - 2, scratch[2], legs[UPPER + LEFT]
    logs[n_cols] = log
    identity(shifted(work, rights[n_cols]), carried)
    for c in range(n_cols - 1, -1, -1):
        column, out = shifted(legs, c * N_LEGS), shifted(work, rights[c])
        upper, lower = _sites(tables, column, uppers[c], lowers[c])
        env, top = shifted(work, rights[c + 1]), shifted(above, column[ABOVE])
        bottom, sizes = column[BELOW_RIGHT], (size_of(column, False), size_of(column, True))
        turn(turned, shifted(below, column[BELOW]), column)
        for a in range(carried):
            part = shifted(env, a * sizes[0])
            held = opened(part, scratch[:2], upper, lower, top, column, bottom, True)
            close(held, shifted(out, a * sizes[1]), turned, column, True)
        logs[c] = logs[c + 1]
        if c % rescaled == rescaled - 1:
            logs[c] += rescale(out, carried * sizes[1])


@helper
def _absorb(place, legs, rescaled, env, out, scratch, c):
    """Absorb column c from the left; gives the log of the scale that was taken out."""
    uppers, lowers, tables, _, above, below = place
    column = shifted(legs, c * N_LEGS)
    upper, lower = _sites(tables, column, uppers[c], lowers[c])
    top, bottom, carried = shifted(above, column[ABOVE]), column[BELOW_LEFT], legs[UPPER + LEFT]
    sizes = size_of(column, True), size_of(column, False)
    for a in range(carried):
        part = shifted(env, a * sizes[0])
        held = opened(part, scratch[:2], upper, lower, top, column, bottom, False)
        close(held, shifted(out, a * sizes[1]), shifted(below, column[BELOW]), column, False)
    if c % rescaled == rescaled - 1:
        return rescale(out, carried * sizes[1])
    return 0.0


@helper
def _sites(tables, column, upper, lower):
    """Tensors of a column at the spins of two rows."""
    below = column[LOWER + UP] * column[LOWER + LEFT] * column[LOWER + DOWN] * column[LOWER + RIGHT]
    above = column[UPPER + SITE] + upper * size_of_site(column)
    return shifted(tables, above), shifted(tables, column[LOWER + SITE] + lower * below)


@helper
def _derivative(place, left, right, out, scratch, legs, c, carried):
    """Write the log-derivatives of one site."""
    uppers, _, tables, _, above, below = place
    above, below = shifted(above, legs[ABOVE]), shifted(below, legs[BELOW])
    site_environment(left, right, out, scratch, above, below, legs, carried)
    size = size_of_site(legs)
    value = closed(out, shifted(tables, legs[UPPER + SITE] + uppers[c] * size), legs)
    inverse = 1 / value if value != 0 else value
    for i in range(size):
        out[i] = out[i] * inverse


def compile_strips(dtype: str) -> None:
    """Compile `sample` and `measure` for one type of numbers, and keep them."""
    numbers, logs, places = np.ones(1, dtype), np.zeros(1), np.zeros((1, 1), np.int64)
    real, small, counts = numbers.real.copy(), np.zeros((1, 1), np.int8), np.zeros((1, 1))
    strip = Strip(
        places, 0, 1, 2, 2, small[0], 1, numbers, numbers, numbers, (0, 0), logs
    )  # fmt: skip
    moves = Moves(places, places, places[0], small[0])
    kernels: Any = {
        measure: (Measured(numbers, real, numbers, numbers, 1.0),),
        sample: (Draws(counts, logs, 1.0), Sampled(numbers, real, counts, counts)),
    }
    for each, others in kernels.items():
        each.compile(tuple(map(typeof, (strip, small, moves, *others))))


@kernel(beside="from tnvmc.backend.host.strips import *; compile_strips('{}')")
def absorb(row, chi, bonds, configs, numbers, log_scale):
    """Write the new boundary tensors (vertical, left, right) of each walker, and log scales.

    `row` is a strip of one row, with a sketch (vertical, right, left) by column in place of the
    boundary below, for all walkers; a bond no larger than chi is not cut.  `bonds` are (n_cols +
    1,) of the new boundary, `numbers` its tensors, flat.
    """
    n_walkers, own = configs.shape[0], np.arange(configs.shape[0])
    rooms, memory = room_of_lanes(row, bonds)
    size, wide = rooms[0][0], lanes(pointer(numbers, 0))
    held = pointer(numbers, 0), 0, row.legs.shape[0]  # nothing is
    for first in range(0, n_walkers, wide):
        lane = configs, own, first, min(wide, n_walkers - first)
        out = pointer(numbers, first * size), pointer(log_scale, first)
        absorb_lanes(row, chi, bonds, lane, held, rooms, out)
    keep(memory)


@helper
def room_of_lanes(row, bonds):
    """Sizes, places and pointers that `absorb_lanes` takes, and the memory they point to."""
    n_cols = row.legs.shape[0]
    size, cuts, widest, room = room_of_row(row, bonds)
    wide, p = lanes(pointer(row.above, 0)), parts(pointer(row.above, 0))
    # A lane holds its environments, its carry, and three intermediates x, y, z.
    lane_size = cuts[n_cols] + 4 * room + lined(1)  # lanes lie in different sets of the cache
    memory = aligned(np.empty(wide * (lane_size + 1) + LINE, row.above.dtype))
    matrices = aligned(np.zeros((p * widest + wide) * wide + LINE, row.log_scale.dtype))
    factors = aligned(np.empty(bonds.max() * wide + LINE, row.log_scale.dtype))
    pointers = pointer(memory, 0), pointer(matrices, 0), pointer(factors, 0)
    return ((size, lane_size, room), cuts, pointers), (memory, matrices, factors)


@helper
def absorb_lanes(row, chi, bonds, lane, held, rooms, out):
    """Absorb a row for as many configurations as there are lanes at most.

    Args:
        row, chi, bonds: as of `absorb`.
        lane: configurations (n, N), the walker of each (n,), the first of them, and how many.
        held: pointer to environments of all walkers, closed with the sketch; the step between
            walkers; the column from which on they take the place of new ones.
        rooms: of `room_of_lanes`.
        out: pointers to the new tensors and log scales of the first of them.
    """
    configs, owners, first, n_lanes = lane
    (size, lane_size, room), cuts, (work, a, taus) = rooms
    n_cols, (numbers, log_scale), at = row.legs.shape[0], out, 0
    wide, p = lanes(numbers), parts(numbers)
    carries, ys, zs = cuts[n_cols], cuts[n_cols] + 2 * room, cuts[n_cols] + 3 * room
    legs, carried, least = (
        pointer(row.legs, 0),
        row.legs[0, UPPER + LEFT],
        least_cut(row, chi, bonds),
    )
    for i in range(n_lanes):
        log_scale[i] = 0
        envs, owner = shifted(work, i * lane_size), owners[first + i]
        place, there = placed(row, configs, first + i, owner), shifted(held[0], owner * held[1])
        sketched(place, row, envs, pointer(cuts, 0), room, there, held[2], least)
    for c in range(n_cols):
        column, kappa, rank = shifted(legs, c * N_LEGS), bonds[c], bonds[c + 1]
        right, down, o = column[UPPER + RIGHT], column[UPPER + DOWN], column[ABOVE_RIGHT]
        m, k, sizes = down * kappa, carried * o * right, (carried, right, down, o, kappa)
        last, fits, n = c == n_cols - 1, k <= chi, column[BELOW_RIGHT]
        cut, inside = not last and m > min(chi, k), lined(o * kappa)
        for i in range(n_lanes):
            envs, owner = shifted(work, i * lane_size), owners[first + i]
            place = placed(row, configs, first + i, owner)
            y = carried_on(place, legs, shifted(envs, carries), room, kappa, c)
            z, carry = shifted(envs, zs), shifted(envs, carries)
            env = envs if c + 1 < held[2] else shifted(held[0], owner * held[1])
            env = shifted(env, cuts[c + 1])
            if cut and fits:
                reorder(y, z, sizes, 1, k)
            elif cut and carried > 1:
                reorder(y, carry, sizes, m, 1)  # which `opened` has read
                product(carry, env, z, 1, m, n, n, m, n, k)
            elif cut:
                of_y, of_z = (inside, 1, down * inside, kappa), (kappa * n, n, n)
                products(y, env, z, of_y, (0, n), of_z, (down, kappa, n, right, o, n))
        if cut:
            enter(a, shifted(work, zs), lane_size, k if fits else n, m, rank, p)
            factor(a, taus, m, rank, p)
            form(a, taus, m, rank, p)
            if n_lanes == wide:
                leave(a, shifted(numbers, at), size, m, rank, p)
        for i in range(n_lanes):
            envs, q = shifted(work, i * lane_size), shifted(numbers, i * size + at)
            carry, y = shifted(envs, carries), shifted(envs, ys)
            if last:
                reorder(y, carry, sizes, m, 1)
                for j in range(1, carried):  # where a ring closes
                    for l in range(m):
                        carry[l] += carry[j * (carried + 1) * m + l]
                log_scale[i] += rescale(carry, m)
                copy(carry, q, m)
            elif cut:
                if n_lanes < wide:
                    leave_one(a, i, q, m, rank, p)
                q = conjugated(q, shifted(envs, zs), m * rank)
                for j in range(carried):
                    part = shifted(y, j * right * down * inside)
                    join(part, shifted(carry, j * o * right * rank), q, sizes[1:], rank)
            else:  # keep every row of y
                identity(q, m)
                reorder(y, carry, sizes, m, 1)
            if c % row.rescaled == row.rescaled - 1 and not last:
                log_scale[i] += rescale(carry, k * rank)
        at += m * rank
