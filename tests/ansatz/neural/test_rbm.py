"""Restricted Boltzmann machines: the traced hidden layer, the two forms, stability."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import numpy as np
import pytest

pytest.importorskip("flax")

from flax import nnx

from tests.oracles import all_configs
from tnvmc.ansatz.checks.conformance import check_ansatz
from tnvmc.ansatz.neural.flax import FlaxAnsatz
from tnvmc.ansatz.neural.layers import log_cosh, sum_log_cosh
from tnvmc.ansatz.neural.rbm import RBM
from tnvmc.ansatz.peps.starts.initial import product_parameters
from tnvmc.lattice import chain, square

ROUNDING = 1e-12  # sums of ten terms of order 1, thousands of times the rounding of one of them

FORMS = pytest.mark.parametrize("form", ["binary", "log_cosh"])
DTYPES = pytest.mark.parametrize("dtype", ["float64", "complex128"])


def _machine(form: str, dtype: str, local_dim: int = 2, **settings: object) -> RBM:
    """A machine of 4 sites and 3 hidden units with parameters of order 1."""
    settings = {"alpha": 0.75, "init_scale": 0.7, **settings}
    return RBM(chain(4), form=form, dtype=dtype, local_dim=local_dim, rngs=nnx.Rngs(5), **settings)


def _traced(rbm: RBM, config: np.ndarray) -> complex:
    """psi of one configuration, by a sum over the states of all hidden units."""
    w, b, c = (np.asarray(p[...]) for p in (rbm.weights, rbm.hidden_bias, rbm.visible_bias))
    binary = rbm.form == "binary"
    if rbm.local_dim == 4:
        config = np.array([a >> k & 1 for k in (0, 1) for a in config])
    v = config if binary else 1 - 2 * config.astype(float)
    total = 0.0
    for h in itertools.product((0, 1) if binary else (-1, 1), repeat=w.shape[1]):
        exponent = h @ b + v @ w @ h + v @ c
        total += np.exp(-exponent) if binary else np.exp(exponent) / 2 ** len(h)
    return total


@pytest.mark.whole
@FORMS
@DTYPES
@pytest.mark.parametrize("local_dim", [2, 4])
def test_psi_is_the_sum_over_the_hidden_units(form: str, dtype: str, local_dim: int) -> None:
    rbm = _machine(form, dtype, local_dim)
    configs = all_configs(4, local_dim)
    expected = [_traced(rbm, config) for config in configs]
    np.testing.assert_allclose(np.exp(rbm(configs)), expected, rtol=ROUNDING)


@pytest.mark.whole
@pytest.mark.parametrize(
    ("form", "dtype"),
    [
        ("log_cosh", "complex128"),
        pytest.param("binary", "float64", marks=pytest.mark.slow),
        pytest.param("binary", "complex128", marks=pytest.mark.slow),
        pytest.param("log_cosh", "float64", marks=pytest.mark.slow),
    ],
)
def test_conforms(form: str, dtype: str) -> None:
    lattice = square(2, 2)
    ansatz = FlaxAnsatz(
        lattice,
        lambda rngs: RBM(lattice, alpha=0.5, form=form, dtype=dtype, init_scale=0.3, rngs=rngs),
        holomorphic=dtype == "complex128",
    )
    assert ansatz.n_params == 4 * 2 + 2 + 4
    check_ansatz(ansatz, ansatz.random(1))


@pytest.mark.whole
@FORMS
def test_large_fields_do_not_overflow(form: str) -> None:
    """At exp(+-3000) per unit the larger exponential is all that is left of each."""
    rbm = RBM(
        chain(2), alpha=1, form=form, dtype="complex128", visible_bias=False, rngs=nnx.Rngs(0)
    )
    rbm.hidden_bias[...] = 0 * rbm.hidden_bias[...]
    rbm.weights[...] = np.array([[3000.0 + 2j, -3000.0 + 1j], [0.0, 0.0]])
    found = np.asarray(rbm(np.array([[0, 0], [1, 0]])))
    expected = {"binary": [2 * np.log(2), 3000 - 1j], "log_cosh": 2 * [6000 + 1j - 2 * np.log(2)]}[
        form
    ]
    np.testing.assert_allclose(found, expected, rtol=ROUNDING)


@pytest.mark.whole
@pytest.mark.parametrize("of", [log_cosh, lambda x: sum_log_cosh(x[:, None])])
def test_log_cosh_is_stable_and_right(of: Any) -> None:
    x = np.array([0.0, 1e-9, -0.3, 4.0, -30.0])
    np.testing.assert_allclose(of(x), np.log(np.cosh(x)), atol=ROUNDING)
    z = x + 1j * np.array([0.4, -2.0, 3.0, 0.1, 5.0])
    np.testing.assert_allclose(np.exp(of(z)), np.cosh(z), rtol=ROUNDING)
    np.testing.assert_allclose(of(np.array([-1e4, 1e4])), 1e4 - np.log(2), rtol=ROUNDING)


@pytest.mark.whole
@pytest.mark.parametrize("n", [1, 15, 16, 17, 3000])
def test_products_under_a_logarithm_neither_overflow_nor_vanish(n: int) -> None:
    of = jax.jit(sum_log_cosh)
    np.testing.assert_allclose(of(np.zeros((2, n))), 0.0, atol=n * ROUNDING)
    nearly = np.full((1, n), 1e-16 + 0.5j * np.pi)  # |cosh| = 1e-16
    log_abs = np.real(of(nearly))
    np.testing.assert_allclose(log_abs, n * np.log(np.abs(np.cosh(nearly[0, 0]))), rtol=0.01)
    x = np.random.default_rng(n).normal(size=n)
    np.testing.assert_allclose(jax.jit(jax.grad(sum_log_cosh))(x), np.tanh(x), atol=ROUNDING)


@pytest.mark.whole
def test_hidden_density_need_not_be_an_integer() -> None:
    for alpha, n_hidden in ((0.01, 1), (0.75, 3), (2, 8)):
        assert RBM(chain(4), alpha=alpha, rngs=nnx.Rngs(0)).weights.shape[1] == n_hidden


@pytest.mark.whole
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": 0.0}, "alpha = 0.0 must be a number > 0"),
        ({"form": "cosh"}, "form = 'cosh' must be one of binary, log_cosh"),
        ({"dtype": "float32"}, "dtype = 'float32' must be one of complex128, float64"),
        ({"init_scale": -1.0}, "init_scale = -1.0"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RBM(chain(4), rngs=nnx.Rngs(0), **settings)


def test_shared_hidden_units_make_psi_symmetric() -> None:
    """And as good as a product state, from which derivatives lead away."""
    lattice, configs = square(2, 3), all_configs(6)
    psi = FlaxAnsatz(lattice, lambda rngs: RBM(lattice, alpha=4, sharing=True, rngs=rngs))
    theta = psi.random(1)
    values = psi.log_amplitude(theta, configs)
    for sites in RBM(lattice, sharing=True, rngs=nnx.Rngs(0)).images:
        moved = psi.log_amplitude(theta, configs[:, sites])
        np.testing.assert_allclose(moved.log_abs, values.log_abs, atol=ROUNDING)
    assert psi.n_params == 6 * 6 + 6 + 6
    bare = {"alpha": 8, "sharing": True, "hidden_bias": False, "visible_bias": False}
    psi = FlaxAnsatz(lattice, lambda rngs: RBM(lattice, rngs=rngs, **bare))
    theta = product_parameters(psi, [1, 1])
    product = psi.log_amplitude(theta, configs)
    np.testing.assert_allclose(product.log_abs, 0, atol=1e-3)
    np.testing.assert_allclose(product.phase, 1, atol=1e-3)
    assert np.linalg.matrix_rank(psi.log_derivatives(theta, configs)) > 8
    with pytest.raises(ValueError, match="product_parameters"):
        product_parameters(psi, [1, 2])


@pytest.mark.parametrize("sharing", [False, True])
def test_a_start_is_as_flat_on_large_lattices_as_on_small_ones(sharing: bool) -> None:
    """|psi|^2 of a random start had a spread of e^13 on 10 x 10 sites: chains stood still."""
    rng = np.random.default_rng(0)
    for length in (4, 10):
        lattice = square(length, length)
        rbm = RBM(lattice, alpha=4, sharing=sharing, dtype="float64", rngs=nnx.Rngs(0))
        balanced = np.arange(lattice.n_sites) % 2
        spread = np.std(rbm(np.array([rng.permutation(balanced) for _ in range(128)])))
        assert 0.1 < spread < 1.8  # e^3.6 in |psi|^2
