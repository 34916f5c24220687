"""Counter-based random streams: the same numbers whatever the chunks, threads or device.

Philox4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011)
maps a counter and a key to 128 random bits.  The key is the seed and the counter is
(column, walker, pass, step), so every uniform number of a run has an address and a sweep is a
function of its arguments.
"""

from typing import Any

import numpy as np

Array = Any

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_MASK = 0xFFFFFFFF
_ROUNDS = 10


def philox4x32(counter: tuple[Array, ...], key: tuple[int, int], xp: Any = np) -> tuple[Array, ...]:
    """Encrypt a counter, four uint64 arrays of 32-bit words, with a key of two words.

    The arrays are broadcast together, the first rounds before that.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    mask = xp.asarray(_MASK, dtype=xp.uint64)
    half = xp.asarray(32, dtype=xp.uint64)
    m0, m1 = (xp.asarray(m, dtype=xp.uint64) for m in _MULTIPLIERS)
    for _ in range(_ROUNDS):
        p0, p1 = c0 * m0, c2 * m1
        c0, c2 = (p1 >> half) ^ c1, (p0 >> half) ^ c3
        c0 ^= xp.asarray(k0, dtype=xp.uint64)
        c2 ^= xp.asarray(k1, dtype=xp.uint64)
        p0 &= mask
        p1 &= mask
        c1, c3 = p1, p0
        k0, k1 = (k0 + _WEYL[0]) & _MASK, (k1 + _WEYL[1]) & _MASK
    return c0, c1, c2, c3


def uniforms(seed: int, stream: tuple[int, int], walkers: range, n: int, xp: Any = np) -> Array:
    """Draw uniform numbers in [0, 1) for one pass, (len(walkers), n); see `uniforms_of_passes`."""
    step, number = stream
    return uniforms_of_passes(seed, (step, range(number, number + 1)), walkers, n, xp)[0, ...]


def uniforms_of_passes(
    seed: int, stream: tuple[int, range], walkers: range, n: int, xp: Any = np
) -> Array:
    """Draw uniform numbers in [0, 1), 53 random bits each: float64 (len(passes), len(walkers), n).

    Args:
        stream: (step, passes) of the run; each pass of each step has its own numbers.
        walkers: global indices of the walkers, so that a chunk draws what the whole would.

    Raises:
        ValueError: a seed or stream outside 0..2**64-1 and 0..2**32-1.
    """
    step, passes = stream
    if not 0 <= seed < 2**64:
        raise ValueError(f"random.uniforms: seed must lie in 0..2**64-1, got {seed}")
    for part in (step, passes.start, max(passes.start, passes.stop - 1)):
        if not 0 <= part < 2**32:
            raise ValueError(f"random.uniforms: stream parts must lie in 0..2**32-1, got {part}")
    walker = xp.arange(walkers.start, walkers.stop, dtype=xp.uint64)
    column = xp.arange(n, dtype=xp.uint64)
    number = xp.arange(passes.start, passes.stop, dtype=xp.uint64)
    counter = (
        column[None, None, :],
        walker[None, :, None],
        number[:, None, None],
        xp.full((1, 1, 1), step, dtype=xp.uint64),
    )
    high, low, _, _ = philox4x32(counter, (seed & _MASK, seed >> 32), xp)
    five, six = (xp.asarray(bits, dtype=xp.uint64) for bits in (5, 6))
    mantissa = xp.astype(high >> five, xp.float64) * 2.0**26 + xp.astype(low >> six, xp.float64)
    return mantissa * 2.0**-53
