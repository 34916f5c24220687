"""Arrays of any namespace: rows that are equal."""

from __future__ import annotations

import numpy as np
import pytest

from tnvmc.backend.namespace import distinct_rows


@pytest.mark.parametrize(
    "view", [lambda x: x[:1], lambda x: x[:1, :3], lambda x: x[::2], lambda x: x]
)
def test_distinct_rows_of_any_view(view) -> None:
    """NumPy defines no stride of one row."""
    rows = view(np.array([[0, 1, 1, 0], [0, 1, 1, 0], [1, 0, 0, 1]], dtype=np.int8))
    found, which = distinct_rows(rows)
    np.testing.assert_array_equal(found[which], rows)
    assert len(found) == len(np.unique(rows, axis=0))
