"""Every scheme equals `Exact` uncut, and its error falls with chi."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tnvmc import PEPS, SRC, Exact, ZipUp, square
from tnvmc.contraction.schemes import Scheme

UNCUT = 10**4
ROUNDING = 1e-12

SCHEMES: dict[str, Callable[[int], Scheme]] = {
    "zip-up": ZipUp,
    "src": SRC,
    "src, random sketch": lambda chi: SRC(chi, sketch="random"),
    "src, oversampled": lambda chi: SRC(chi, oversample=3),
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


def test_src_needs_its_sketch() -> None:
    peps, theta = _correlated_state((2, 2), 2, "float64", 7)
    rows = peps.start(theta, _configs(1, 4)).cache.layers.row(0, _configs(1, 4), "down")  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="needs a sketch"):
        SRC(2).absorb(None, rows, None)


@pytest.mark.parametrize("scheme", [SRC, ZipUp])
def test_chi_below_one_is_refused(scheme: Any) -> None:
    with pytest.raises(ValueError, match="chi must be at least 1, got 0"):
        scheme(0)
