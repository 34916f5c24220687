"""Double-layer boundaries from below, against dense contractions of <psi|psi>."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tnvmc.ansatz.peps.starts.tensors import random_positive
from tnvmc.contraction.double_layer import DoubleBoundary, double_boundaries, log_norm
from tnvmc.lattice.grids import square

UNCUT = 10**4
ROUNDING = 1e-10  # relative; a few hundred products and QR decompositions


def random_state(shape: tuple[int, int], D: int, dtype: str = "float64") -> list[np.ndarray]:
    """Entries of both signs, so that nothing is positive by accident."""
    rng = np.random.default_rng(5)
    tensors = random_positive(square(*shape), D, dtype, seed=2)
    return [t * rng.choice([-1.0, 1.0], size=t.shape, p=[0.2, 0.8]) for t in tensors]


def dense(boundary: DoubleBoundary, first: int = 0) -> np.ndarray:
    """The MPO from column `first` on, as (left, everything above)."""
    value = np.ones((1, 1))
    for tensor in boundary.tensors[first:][::-1]:
        value = np.tensordot(tensor, value, (3, 0)).reshape(tensor.shape[0], -1)
    return value


def row_over(
    below: DoubleBoundary, kets: list[np.ndarray], first: int = 0, bras: Any = None
) -> np.ndarray:
    """A row over a boundary from column `first` on, uncut: (old * ket * bra, everything above)."""
    value = np.ones((1, 1, 1, 1))
    for tensor, ket in list(zip(below.tensors, kets, strict=True))[first:][::-1]:
        value = np.einsum(
            "mpqn,sukpl,swbqr,nlrx->mkbuwx", tensor, ket, ket.conj(), value, optimize=True
        )
        value = value.reshape(*value.shape[:3], -1)
    return value.reshape(-1, value.shape[3])


def angle(a: np.ndarray, b: np.ndarray) -> float:
    """Distance of two arrays scaled to norm 1: 0 if they are equal up to a positive factor."""
    return float(np.linalg.norm(a / np.linalg.norm(a) - b / np.linalg.norm(b)))


@settings(max_examples=20, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    D=st.integers(1, 2),
    dtype=st.sampled_from(["float64", "complex128"]),
)
def test_uncut_boundaries_are_rows_over_rows(shape: tuple[int, int], D: int, dtype: str) -> None:
    n_cols = shape[1]
    tensors = random_state(shape, D, dtype)
    boundaries = double_boundaries(tensors, shape, UNCUT)
    assert len(boundaries) == shape[0] + 1
    for row in range(shape[0]):
        kets = tensors[row * n_cols : (row + 1) * n_cols]
        assert angle(dense(boundaries[row]), row_over(boundaries[row + 1], kets)) < ROUNDING
        for c in range(n_cols):
            expansion = boundaries[row].expansions[c]
            expanded = expansion.reshape(-1, expansion.shape[3]) @ dense(boundaries[row], c)
            assert angle(expanded, row_over(boundaries[row + 1], kets, c)) < ROUNDING
    everything = dense(boundaries[0]).item()
    assert abs(everything.imag) < ROUNDING * everything.real  # <psi|psi> > 0


def test_error_falls_with_chi() -> None:
    shape = (3, 4)
    tensors = random_state(shape, 3)
    exact = dense(double_boundaries(tensors, shape, UNCUT)[1])
    exact = exact / np.linalg.norm(exact)
    errors = []
    for chi in (2, 8, 32, 81):
        cut = double_boundaries(tensors, shape, chi)[1]
        assert max(tensor.shape[3] for tensor in cut.tensors) <= chi
        value = dense(cut)
        errors.append(np.linalg.norm(value / np.linalg.norm(value) - exact))
    assert errors[0] > errors[1] > errors[2] > errors[3]
    assert errors[3] < ROUNDING


def test_expansions_of_a_cut_boundary_keep_what_matters() -> None:
    """What is left of a cut times the expansion gives the boundary again."""
    shape, chi = (3, 4), 6
    tensors = random_state(shape, 2)
    boundaries = double_boundaries(tensors, shape, chi)
    kets = tensors[4:8]
    exact = row_over(boundaries[2], kets).ravel()
    cut = angle(dense(boundaries[1]).ravel(), exact)
    assert 1e-6 < cut < 0.02
    expansion = boundaries[1].expansions[2]
    expanded = expansion.reshape(-1, expansion.shape[3]) @ dense(boundaries[1], 2)
    left = np.ones((1, 1, 1, 1))
    for tensor, ket in zip(boundaries[2].tensors[:2], kets[:2], strict=True):
        left = np.einsum(
            "xmkb,mpqn,sukpl,swbqr->xuwnlr", left, tensor, ket, ket.conj(), optimize=True
        ).reshape(-1, tensor.shape[3], ket.shape[4], ket.shape[4])
    joined = left.reshape(left.shape[0], -1) @ expanded
    assert angle(joined.ravel(), exact) < 2 * cut  # half of the boundary is cut


def test_the_same_norm_as_the_other_double_layer() -> None:
    """Ratios of norms, since boundaries are known up to a factor: psi against psi with one site
    of its first row changed."""
    shape = (3, 3)
    tensors = random_state(shape, 2)
    boundary = double_boundaries(tensors, shape, UNCUT)[1]
    changed = [tensors[0] * np.array([1.0, 0.3]).reshape(2, 1, 1, 1, 1), *tensors[1:]]
    found = np.log(
        row_over(boundary, changed[:3]).item().real / row_over(boundary, tensors[:3]).item().real
    )
    expected = log_norm(changed, shape) - log_norm(tensors, shape)
    assert abs(found - expected) < ROUNDING


def test_errors() -> None:
    tensors = random_state((2, 2), 2)
    with pytest.raises(ValueError, match="chi must be at least 1, got 0"):
        double_boundaries(tensors, (2, 2), 0)
    with pytest.raises(ValueError, match="4 tensors do not fill 3 rows of 2"):
        double_boundaries(tensors, (3, 2), 4)
