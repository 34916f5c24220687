"""Every scheme equals `Exact` uncut, and its error falls with chi."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tnvmc import PEPS, SRC, Exact, ZipUp, square
from tnvmc.contraction.schemes import Scheme
from tnvmc.contraction.sketches import joined_sketches, random_sketch

UNCUT = 10**4
ROUNDING = 1e-12

SCHEMES: dict[str, Callable[[int], Scheme]] = {
    "zip-up": ZipUp,
    "src": SRC,
    "src, random sketch": lambda chi: SRC(chi, sketch="random"),
}


def _correlated_state(
    shape: tuple[int, int], D: int, dtype: str, seed: int
) -> tuple[PEPS, np.ndarray]:
    """Positive plus noise: boundary spectra that decay, as those of a ground state do."""
    rng = np.random.default_rng(seed)
    peps = PEPS(square(*shape), D, dtype, Exact())
    theta = 1 + 0.6 * rng.normal(size=peps.n_params)
    if dtype.startswith("complex"):
        theta = theta + 0.3j * rng.normal(size=peps.n_params)
    return peps, theta.astype(dtype)


def _configs(n: int, n_sites: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2, size=(n, n_sites)).astype(np.int8)


def _error(peps: PEPS, scheme: Scheme, theta: np.ndarray, configs: np.ndarray) -> np.ndarray:
    exact = peps.log_amplitude(theta, configs)
    cut = peps.with_scheme(scheme).log_amplitude(theta, configs)
    return np.abs(cut.phase / exact.phase * np.exp(cut.log_abs - exact.log_abs) - 1)


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 2)])
def test_uncut_equals_exact(name: str, dtype: str, shape: tuple[int, int]) -> None:
    peps, theta = _correlated_state(shape, 2, dtype, 1)
    assert (
        np.max(_error(peps, SCHEMES[name](UNCUT), theta, _configs(9, shape[0] * shape[1])))
        < ROUNDING
    )


@pytest.mark.parametrize("name", SCHEMES)
def test_error_falls_with_chi(name: str) -> None:
    peps, theta = _correlated_state((6, 6), 3, "float64", 2)
    configs = _configs(24, 36)
    medians = [np.median(_error(peps, SCHEMES[name](chi), theta, configs)) for chi in (2, 4, 8, 16)]
    assert all(later < 0.3 * before for before, later in itertools.pairwise(medians)), medians


def test_the_environment_sketch_beats_the_random_one() -> None:
    peps, theta = _correlated_state((6, 6), 3, "float64", 5)
    configs = _configs(48, 36)
    environment = np.median(_error(peps, SRC(5), theta, configs))
    random = np.median(_error(peps, SRC(5, sketch="random"), theta, configs))
    assert environment < random


def test_psi_is_a_function_of_the_configuration() -> None:
    """The sketch is drawn once: neither the batch nor the call changes an amplitude."""
    peps, theta = _correlated_state((5, 5), 3, "float64", 6)
    peps, configs = peps.with_scheme(SRC(3)), _configs(8, 25)
    whole = peps.log_amplitude(theta, configs)
    for walker in range(8):
        one = peps.log_amplitude(theta, configs[walker : walker + 1])
        assert abs(one.log_abs[0] - whole.log_abs[walker]) < 1e-11  # rounding of another batch size
    other = peps.with_scheme(SRC(3, seed=1)).log_amplitude(theta, configs)
    assert np.all(other.log_abs != whole.log_abs)


@pytest.mark.parametrize("chi", [3, 5, 18])
def test_no_sketch_and_no_bond_exceeds_chi(chi: int) -> None:
    """Near the far edge the rows beyond are narrower than chi, and several sketches are joined."""
    peps, theta = _correlated_state((4, 7), 4, "float64", 8)
    start = peps.with_scheme(SRC(chi)).start(theta, _configs(3, 28))
    ready = start.cache  # type: ignore[attr-defined]
    layers = ready.views.rows.layers
    sketches = [s for way in layers.sketches.values() for s in way if s is not None]
    assert max(t.shape[3] for sketch in sketches for t in sketch) == min(chi, 4**3)
    bonds = [t.shape[3] for boundary in ready.ahead if boundary for t in boundary.tensors]
    assert max(bonds) == chi


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_joined_sketches_hold_the_first_and_fill_the_rank_with_the_next(dtype: str) -> None:
    """The vectors on the legs right of every cut: orthonormal, and the first sketch in their span."""
    legs, like = [3, 2, 4, 3], np.ones(1, dtype=dtype)
    first, second = (random_sketch(legs, 4, seed, like) for seed in (1, 2))
    joined = joined_sketches([first, second], 6)
    assert [t.shape[3] for t in joined] == [2, 6, 6, 3]
    for cut in (1, 2, 3):
        alone, both = _right_vectors(first, cut), _right_vectors(joined, cut)
        assert np.max(np.abs(both.T.conj() @ both - np.eye(both.shape[1]))) < ROUNDING
        assert np.max(np.abs(both @ (both.T.conj() @ alone) - alone)) < ROUNDING


def _right_vectors(sketch: Any, cut: int) -> np.ndarray:
    """The vectors (legs right of the cut, bond) that a sketch stands for."""
    found = np.ones((1, 1))
    for tensor in reversed(sketch[cut:]):
        found = np.einsum("vrl,xr->vxl", tensor[0], found).reshape(-1, tensor.shape[3])
    return found


def test_src_needs_its_sketch() -> None:
    peps, theta = _correlated_state((2, 2), 2, "float64", 7)
    ready = peps.start(theta, _configs(1, 4)).cache
    layers = ready.views.rows.layers  # type: ignore[attr-defined]
    rows = layers.row(0, _configs(1, 4), "down")
    with pytest.raises(ValueError, match="needs a sketch"):
        SRC(2).absorb(None, rows, None)


@pytest.mark.parametrize("scheme", [SRC, ZipUp])
def test_chi_below_one_is_refused(scheme: Any) -> None:
    with pytest.raises(ValueError, match="chi must be at least 1, got 0"):
        scheme(0)
