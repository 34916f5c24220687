"""Freed arrays are reused, so that a product in a loop faults no pages in."""

from __future__ import annotations

import resource

import numpy as np
import pytest

from tnvmc.backend.process import keep_freed_memory


def test_a_loop_of_products_does_not_fault() -> None:
    if not keep_freed_memory():
        pytest.skip("the allocator of this system is not glibc's")
    a = np.ones((512, 512))
    pages = a.nbytes // resource.getpagesize()
    np.matmul(a, a)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        np.matmul(a, a)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    assert faults < 2 * pages  # without it 20 times the pages
