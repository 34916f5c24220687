"""BLAS at one thread while it is asked for, and as before afterwards."""

from __future__ import annotations

import scipy.linalg  # noqa: F401  (brings a BLAS of its own)
from threadpoolctl import threadpool_info

from tnvmc.backend.process import one_blas_thread


def _threads() -> list[int]:
    return [
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    ]


def test_every_blas_has_one_thread_inside_and_its_own_outside() -> None:
    before = _threads()
    with one_blas_thread():
        assert _threads() == [1] * len(before)
    assert _threads() == before
