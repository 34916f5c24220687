"""Columns of a strip, one walker at a time: what one walker needs stays in the cache of a core.

All arguments are pointers to numbers and sizes.  A column is described by whole numbers, `legs`,
which the names below count off.
"""

import numpy as np
from numba import types

from tnvmc.backend.host.decompositions import PANEL
from tnvmc.backend.host.products import product, products
from tnvmc.backend.host.vectors import (
    LINE,
    absolute,
    add,
    aligned,
    chosen,
    filled,
    fma,
    helper,
    highest,
    lanes,
    larger,
    lined,
    load,
    multiply,
    parts,
    pointer,
    shifted,
    store,
    summed,
)  # fmt: skip

ABOVE, ABOVE_LEFT, ABOVE_RIGHT = 0, 1, 2  # place in the boundary above, its bonds
BELOW, BELOW_LEFT, BELOW_RIGHT = 3, 4, 5
UPPER, LOWER = 6, 11  # five numbers for each row, in this order:
SITE, UP, LEFT, DOWN, RIGHT = 0, 1, 2, 3, 4  # place in the tables and legs
N_LEGS = 16
"""A strip of one row has DOWN = 0 and LEFT = RIGHT = 1 in place of a lower one.

Where the first column has an upper leg to the left, the row is a ring: that leg is the last one to
the right, and environments (carried, top, row, bottom) are one for each value of it.
"""


@helper
def opened(env, scratch, upper, lower, top, legs, bottom, leftward):
    """Absorb the top and the sites of a column into an environment, leaving its lower legs open.

    Args:
        env: environment (top, upper row, lower row, bottom), whose last leg has the size `bottom`.
        scratch: two pointers, each to room for the largest intermediate.
        upper, lower: site tensors (out, down, up, in).
        top: boundary tensor (vertical, left, right).

    Returns:
        Pointer to the result (upper row, lower row, vertical, top and bottom), see `lined`.
    """
    x, y = scratch
    v, d, d2 = legs[UPPER + UP], legs[UPPER + DOWN], legs[LOWER + DOWN]
    if leftward:
        t, o = legs[ABOVE_RIGHT], legs[ABOVE_LEFT]
        in1, out1 = legs[UPPER + RIGHT], legs[UPPER + LEFT]
        in2, out2 = legs[LOWER + RIGHT], legs[LOWER + LEFT]
        by_out, by_in = t, 1
    else:
        t, o = legs[ABOVE_LEFT], legs[ABOVE_RIGHT]
        in1, out1 = legs[UPPER + LEFT], legs[UPPER + RIGHT]
        in2, out2 = legs[LOWER + LEFT], legs[LOWER + RIGHT]
        by_out, by_in = 1, o
    n, inside = in1 * in2 * bottom, lined(o * bottom)
    # (out, in) of each vertical x (in, rows and bottom) -> (vertical, rows, out, bottom)
    of_x, sizes = (in1 * in2 * inside, bottom, inside), (v, o, n, t, 1, bottom)
    products(top, env, x, (o * t, by_out, by_in, 0), (0, n), of_x, sizes)
    k, n = v * in1, in2 * inside
    product(upper, x, y, k, 1, n, n, out1 * d, n if in2 > 1 else o * bottom, k)
    if d2 == 0:
        return y
    m, k, n = out2 * d2, d * in2, o * bottom
    of_y, sizes = (m * inside, inside, n), (out1, m, n, k, 1, n)
    products(lower, y, x, (0, k, 1, 0), (k * inside, inside), of_y, sizes)
    return x


@helper
def close(held, out, bottom, legs, leftward):
    """Absorb a boundary tensor (vertical, in, out) from below into what `opened` gave."""
    vertical = legs[LOWER + DOWN] if legs[LOWER + DOWN] else legs[UPPER + DOWN]
    if leftward:
        o, b, n = legs[ABOVE_LEFT], legs[BELOW_RIGHT], legs[BELOW_LEFT]
    else:
        o, b, n = legs[ABOVE_RIGHT], legs[BELOW_LEFT], legs[BELOW_RIGHT]
    join(held, out, bottom, (size_of(legs, leftward) // (n * o), vertical, o, b), n)


@helper
def join(held, out, bottom, sizes, n):
    """Sum (rows, vertical, top, b) times (vertical, b, n) to (top, rows, n)."""
    rows, vertical, o, b = sizes
    inside = lined(o * b)
    by_row, by_top, number = vertical * inside, b, rows
    if o == 1:
        number, o, by_top = 1, rows, by_row
    of_held, of_out = (by_row, by_top, 1, inside), (n, number * n, n)
    products(held, bottom, out, of_held, (0, n), of_out, (number, o, n, b, vertical, n))


@helper
def reorder(y, out, sizes, by_open, by_row):
    """Copy what `opened` gave to rows (down, bottom) and open legs (carried, top, right)."""
    carried, right, down, o, b = sizes
    for i in range(carried * right):
        for j in range(down):
            for k in range(o):
                leg, at = (i // right * o + k) * right + i % right, (i * down + j) * lined(o * b)
                for q in range(b):
                    out[leg * by_open + (j * b + q) * by_row] = y[at + k * b + q]


@helper
def turn(out, below, legs):
    """Copy a boundary tensor (vertical, left, right) as (vertical, right, left)."""
    vertical = legs[LOWER + DOWN] if legs[LOWER + DOWN] else legs[UPPER + DOWN]
    left, right = legs[BELOW_LEFT], legs[BELOW_RIGHT]
    for i in range(vertical):
        for j in range(left):
            for k in range(right):
                out[(i * right + k) * left + j] = below[(i * left + j) * right + k]


@helper
def size_of(legs, leftward):
    """Numbers of the environment left (right) of a column."""
    if leftward:
        rows = legs[UPPER + LEFT] * legs[LOWER + LEFT]
        return legs[ABOVE_LEFT] * rows * legs[BELOW_LEFT]
    rows = legs[UPPER + RIGHT] * legs[LOWER + RIGHT]
    return legs[ABOVE_RIGHT] * rows * legs[BELOW_RIGHT]


@helper
def size_of_site(legs):
    """Numbers of a tensor of the upper row, for one local state."""
    return legs[UPPER + UP] * legs[UPPER + LEFT] * legs[UPPER + DOWN] * legs[UPPER + RIGHT]


@helper
def site_environment(left, right, out, scratch, above, below, legs, carried):
    """Write (up, left, down, right), the strip of one row without one site, to `out`.

    `left` and `right` are environments (carried, top, row, bottom), `above` and `below` boundary
    tensors (vertical, left, right), `scratch` three pointers, each to room for the largest
    intermediate.
    """
    x, y, z = scratch
    t, o, b, bo = legs[ABOVE_LEFT], legs[ABOVE_RIGHT], legs[BELOW_LEFT], legs[BELOW_RIGHT]
    u, l, d, r = legs[UPPER + UP], legs[UPPER + LEFT], legs[UPPER + DOWN], legs[UPPER + RIGHT]
    inner = carried * o * b
    # (up, top in, top out) x (carried, top in, left, lower) -> (up, left, carried, top out, lower)
    of_x, sizes = (l * inner, b, inner), (u, o, l * b, t, 1, b)
    for i in range(carried):
        env, c = shifted(left, i * t * l * b), shifted(x, i * o * b)
        products(above, env, c, (t * o, 1, o, 0), (0, l * b), of_x, sizes)
    for i in range(carried * o):  # (carried, top out, right, lower) -> (lower, ..., right)
        for k in range(r):
            for j in range(bo):
                z[(j * carried * o + i) * r + k] = right[(i * r + k) * bo + j]
    # (down, in, out) x (out, top out, right) -> (top out, in, down, right)
    of_y, sizes = (r, d * r, b * d * r), (d, b, carried * o * r, bo, 1, r)
    products(below, z, y, (b * bo, bo, 1, 0), (0, carried * o * r), of_y, sizes)
    product(x, y, out, inner, 1, d * r, d * r, u * l, d * r, inner)


@helper
def closed(environment, site, legs):
    """Sum of an environment (up, left, down, right) times a site (right, down, up, left)."""
    u, l, d, r = legs[UPPER + UP], legs[UPPER + LEFT], legs[UPPER + DOWN], legs[UPPER + RIGHT]
    total, at = environment[0] * 0, 0
    for i in range(u):
        for j in range(l):
            for k in range(d):
                for m in range(r):
                    total += environment[at] * site[((m * d + k) * u + i) * l + j]
                    at += 1
    return total


@chosen
def overlap(left, right, size):
    """Give the sum of products of two environments, inside compiled functions."""
    return _of_pairs if left.dtype in types.complex_domain else _of_reals


def _of_pairs(left, right, size):
    total = left[0] * 0
    for i in range(size):
        total += left[i] * right[i]
    return total


def _of_reals(left, right, size):
    wide, i = lanes(left), 0
    x = filled(left, 0.0)
    y = x
    while i + 2 * wide <= size:
        x = fma(load(left, i), load(right, i), x)
        y = fma(load(left, i + wide), load(right, i + wide), y)
        i += 2 * wide
    total = summed(add(x, y))
    for k in range(i, size):
        total += left[k] * right[k]
    return total


@helper
def rescale(env, size):
    """Scale numbers to largest real or imaginary part 1, and give the log of the scale."""
    p, wide, i = parts(env), lanes(env), 0
    x = filled(env, 0.0)
    while i + wide <= p * size:
        x = larger(x, absolute(load(env, i)))
        i += wide
    top = highest(x)
    for k in range(i // p, size):
        top = max(top, abs(env[k].real), abs(env[k].imag))
    if top == 0:
        return 0.0
    factor = filled(env, 1 / top)
    i = 0
    while i + wide <= p * size:
        store(env, i, multiply(factor, load(env, i)))
        i += wide
    for k in range(i // p, size):
        env[k] = env[k] / top
    return np.log(top)


@helper
def identity(q, m):
    """Write the identity (m, m): what a row begins and ends with, which is 1 but for a ring."""
    for i in range(m):
        for j in range(m):
            q[i * m + j] = 1 if i == j else 0


@helper
def room_of_strip(strip):
    """Memory of a thread, and places in it: environments by cut, three times, and scratch."""
    n_cols, carried = strip.legs.shape[0], strip.legs[0, UPPER + LEFT]
    cuts, room = np.zeros(n_cols + 2, np.int64), 64
    for c in range(n_cols):
        legs = strip.legs[c]
        left = legs[ABOVE_LEFT] * legs[UPPER + LEFT] * legs[LOWER + LEFT] * legs[BELOW_LEFT]
        o, b = max(legs[ABOVE_LEFT], legs[ABOVE_RIGHT]), max(legs[BELOW_LEFT], legs[BELOW_RIGHT])
        upper = max(legs[UPPER + LEFT], legs[UPPER + RIGHT])
        lower = max(legs[LOWER + LEFT], legs[LOWER + RIGHT])
        vertical = max(legs[UPPER + UP], legs[UPPER + DOWN], legs[LOWER + DOWN])
        room = max(room, carried * lined(o * b) * upper * lower * vertical, vertical * b * b)
        cuts[c + 1] = cuts[c] + lined(carried * left)
    cuts[n_cols + 1], room = cuts[n_cols] + lined(carried * carried), lined(room)
    total = cuts[n_cols + 1]
    memory = aligned(np.empty(3 * total + 3 * room + LINE, strip.above.dtype))
    first = pointer(memory, 3 * total)
    scratch = first, shifted(first, room), shifted(first, 2 * room)
    return memory, cuts, cuts + total, cuts + 2 * total, scratch


@helper
def split(value, log):
    """Phase and log modulus of value * exp(log), 0 and -inf where it vanishes."""
    size = abs(value)
    if size == 0:
        return value, -np.inf
    return value / size, np.log(size) + log


@helper
def state_of(config, sites, n_sites, local_dim):
    state = 0
    for i in range(n_sites):
        state = state * local_dim + config[sites[i]] % local_dim
    return state


@helper
def put(strip, config, sites, n_sites, end, state):
    """Put a local state into a window that ends before column `end`.

    Where a site of fermions changes its parity, later places of the window take other variants.
    """
    d, n_cols = strip.local_dim, strip.legs.shape[0]
    last = strip.first + (strip.n_rows - 1) * n_cols
    for i in range(n_sites - 1, -1, -1):
        site, after = sites[i], state % d
        before = config[site] % d
        config[site] += after - before
        state //= d
        if strip.odd.size > 0 and strip.odd[before] != strip.odd[after]:
            for c in range((site - strip.first) % n_cols + 1, end):
                turn_flag(config, last + c, d)
            if site < last:
                turn_flag(config, site + n_cols, 2 * d)


@helper
def turn_flag(config, place, value):
    """Add the value of a binary digit of a variant, or take it away."""
    config[place] += value if (config[place] // value) % 2 == 0 else -value


@helper
def acceptance(new_log, old_log, power, cap):
    """The probability to accept a move; a logarithm is -inf where psi vanishes."""
    if old_log == -np.inf:
        return 0.5 if new_log == -np.inf else 1.0
    if new_log == -np.inf:
        return 0.0
    gap = 2.0 * power * (new_log - old_log)
    return min(1.0, np.exp(min(gap, 0.0))) * min(1.0, cap / (1.0 + np.exp(-abs(gap))))


@helper
def room_of_row(row, bonds):
    """Sizes: of a boundary, places of environments, decompositions, intermediates."""
    n_cols, size, widest, room = row.legs.shape[0], 0, 1, 64
    carried = row.legs[0, UPPER + LEFT]
    cuts = np.zeros(n_cols + 1, np.int64)
    for c in range(n_cols):
        legs = row.legs[c]
        kappa, rank = bonds[c], bonds[c + 1]
        o = max(legs[ABOVE_LEFT], legs[ABOVE_RIGHT])
        b = max(legs[BELOW_LEFT], legs[BELOW_RIGHT], kappa, rank)
        across = max(legs[UPPER + LEFT], legs[UPPER + RIGHT])
        vertical = max(legs[UPPER + UP], legs[UPPER + DOWN])
        room = max(room, carried * lined(o * b) * across * vertical, vertical * b * b)
        size += legs[UPPER + DOWN] * kappa * rank
        widest = max(widest, legs[UPPER + DOWN] * kappa * (rank + PANEL - 1))
        cuts[c + 1] = cuts[c] + lined(carried * size_of(legs, True))
    return size, cuts, widest, lined(room)


@helper
def carried_on(place, legs, carry, room, kappa, c):
    """Absorb column c into the carry, with its lower legs open; x and y stand behind it."""
    spins, _, tables, _, above, _ = place
    column = shifted(legs, c * N_LEGS)
    site = shifted(tables, column[UPPER + SITE] + spins[c] * size_of_site(column))
    x, y, top = shifted(carry, room), shifted(carry, 2 * room), shifted(above, column[ABOVE])
    carried = legs[UPPER + LEFT]
    before = column[ABOVE_LEFT] * column[UPPER + LEFT] * kappa
    after = column[UPPER + RIGHT] * column[UPPER + DOWN] * lined(column[ABOVE_RIGHT] * kappa)
    for a in range(carried):
        part, into = shifted(carry, a * before), shifted(y, a * after)
        opened(part, (x, into), site, site, top, column, kappa, False)
    return y


@helper
def least_cut(row, chi, bonds):
    """The first bond that is cut with the help of the sketch."""
    legs, least = row.legs, row.legs.shape[0]
    for c in range(least - 2, -1, -1):
        k = legs[0, UPPER + LEFT] * legs[c, ABOVE_RIGHT] * legs[c, UPPER + RIGHT]
        if k > chi and legs[c, UPPER + DOWN] * bonds[c] > chi:
            least = c + 1
    return least


@helper
def sketched(place, row, envs, cuts, room, held, end, least):
    """Right environments of boundary and row, closed with the sketch; the carry begins as 1.

    Those from cut `end` on are held already, and those before `least` are not used.
    """
    spins, _, _, tables, above, sketch = place
    legs, n_cols, carried = pointer(row.legs, 0), row.legs.shape[0], row.legs[0, UPPER + LEFT]
    env = shifted(envs, cuts[n_cols])
    identity(env, carried)
    scratch = shifted(env, room), shifted(env, 2 * room)
    if end < n_cols:
        env = shifted(held, cuts[end])
    for c in range(min(end, n_cols) - 1, least - 1, -1):
        column, out = shifted(legs, c * N_LEGS), shifted(envs, cuts[c])
        site = shifted(tables, column[UPPER + SITE] + spins[c] * size_of_site(column))
        top, bottom = shifted(above, column[ABOVE]), column[BELOW_RIGHT]
        sizes = size_of(column, False), size_of(column, True)
        for a in range(carried):
            part = shifted(env, a * sizes[0])
            held = opened(part, scratch, site, site, top, column, bottom, True)
            close(held, shifted(out, a * sizes[1]), shifted(sketch, column[BELOW]), column, True)
        if c % row.rescaled == 0:
            rescale(out, carried * sizes[1])
        env = out


@helper
def copy(source, target, size):
    for i in range(size):
        target[i] = source[i]
