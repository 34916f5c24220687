"""Ordered product states."""

from __future__ import annotations

import numpy as np

from tnvmc.ansatz.peps.starts.product_states import product_starts
from tnvmc.lattice import square


def test_product_starts_are_normalised() -> None:
    starts = product_starts(square(2, 3), 3)
    assert set(starts) >= {"neel x", "neel z", "uniform x", "row stripes z"}
    for vectors in starts.values():
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0)
