"""The random streams: known answers of Philox, addresses, and uniformity."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tnvmc.backend.namespace import to_host
from tnvmc.backend.random import philox4x32, uniforms, uniforms_of_passes

PI = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
KNOWN = [  # counter, key, words: the test vectors of Random123 for philox4x32, 10 rounds
    ((0, 0, 0, 0), (0, 0), "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    (PI, (0xA4093822, 0x299F31D0), "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_philox_known_answers(counter: tuple, key: tuple, words: str, xp: Any) -> None:
    out = philox4x32(tuple(xp.asarray([c], dtype=xp.uint64) for c in counter), key, xp)
    assert " ".join(f"{int(word[0]):08x}" for word in out) == words


@given(st.integers(0, 2**64 - 1), st.integers(0, 20), st.integers(1, 20), st.integers(1, 9))
def test_a_chunk_draws_what_the_whole_draws(seed: int, begin: int, length: int, n: int) -> None:
    whole = uniforms(seed, (3, 4), range(begin + length), n)
    assert np.array_equal(uniforms(seed, (3, 4), range(begin, begin + length), n), whole[begin:])


def test_streams_and_seeds_differ_and_backends_agree(xp: Any) -> None:
    base = uniforms(1, (0, 0), range(8), 5)
    assert np.array_equal(to_host(uniforms(1, (0, 0), range(8), 5, xp)), base)
    for seed, stream in ((2, (0, 0)), (1, (1, 0)), (1, (0, 1)), (1 + 2**32, (0, 0))):
        assert not np.any(uniforms(seed, stream, range(8), 5) == base)


def test_moments_are_those_of_a_uniform_variable() -> None:
    u = uniforms(7, (0, 0), range(1000), 200)
    n = u.size
    assert u.min() >= 0 and u.max() < 1
    assert abs(u.mean() - 0.5) < 5 * np.sqrt(1 / 12 / n)  # 5 sigma
    assert abs(np.mean(u**2) - 1 / 3) < 5 * np.sqrt(4 / 45 / n)
    pairs = (u[:, 1:] - 0.5) * (u[:, :-1] - 0.5)
    assert abs(pairs.mean()) < 5 / 12 / np.sqrt(pairs.size)


def test_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match="seed must lie"):
        uniforms(-1, (0, 0), range(1), 1)
    with pytest.raises(ValueError, match="stream parts"):
        uniforms(0, (2**32, 0), range(1), 1)


def test_passes_together_are_the_passes_one_by_one() -> None:
    together = uniforms_of_passes(7, (3, range(2, 6)), range(5, 9), 4)
    for k, number in enumerate(range(2, 6)):
        np.testing.assert_array_equal(together[k], uniforms(7, (3, number), range(5, 9), 4))
