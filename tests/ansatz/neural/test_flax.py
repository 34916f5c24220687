"""The adapter: any Flax module against formulas written down in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tnvmc.ansatz.checks.case import all_configs
from tnvmc.ansatz.checks.conformance import check_ansatz
from tnvmc.ansatz.metropolis import CAP
from tnvmc.lattice import square
from tnvmc.operators.models import heisenberg
from tnvmc.operators.symmetry import symmetry_group
from tnvmc.optimize.sr import SR

jax = pytest.importorskip("jax")
pytest.importorskip("flax")

import jax.numpy as jnp
from flax import linen, nnx

from tnvmc.ansatz.neural import batches
from tnvmc.ansatz.neural.flax import FlaxAnsatz
from tnvmc.ansatz.neural.functional import Functional

LATTICE = square(2, 2)
CONFIGS = all_configs(4, 2)
ROUNDING = 1e-12
"""Of a network of a few dozen multiplications, in double precision."""


class Tanh(nnx.Module):
    """ln psi = sum tanh(x W + b): real or complex parameters."""

    def __init__(self, dtype: Any = float, *, rngs: nnx.Rngs) -> None:
        init = nnx.initializers.normal(0.3)
        self.dense = nnx.Linear(4, 3, rngs=rngs, param_dtype=dtype, dtype=dtype, kernel_init=init)

    def __call__(self, configs: Any) -> Any:
        return jnp.sum(jnp.tanh(self.dense(configs)), axis=1)


class LinenTanh(linen.Module):
    @linen.compact
    def __call__(self, configs: Any) -> Any:
        dense = linen.Dense(3, param_dtype=float, name="dense")
        return jnp.sum(jnp.tanh(dense(configs.astype(float))), axis=1)


def real(**options: Any) -> FlaxAnsatz:
    return FlaxAnsatz(LATTICE, lambda rngs: Tanh(rngs=rngs), **options)


def holomorphic(**options: Any) -> FlaxAnsatz:
    return FlaxAnsatz(LATTICE, lambda rngs: Tanh(complex, rngs=rngs), **options)


def by_hand(theta: np.ndarray, configs: np.ndarray) -> np.ndarray:
    """ln psi of `Tanh`: theta holds the bias, then the kernel."""
    return np.tanh(configs @ theta[3:].reshape(4, 3) + theta[:3]).sum(axis=1)


def value(ansatz: FlaxAnsatz, theta: np.ndarray, configs: np.ndarray) -> np.ndarray:
    amplitude = ansatz.log_amplitude(theta, configs)
    return amplitude.phase * np.exp(amplitude.log_abs)


@pytest.mark.whole
@pytest.mark.parametrize("make", [real, lambda: holomorphic(holomorphic=True)])
def test_psi_is_the_exponential_of_the_network(make: Any) -> None:
    ansatz = make()
    theta = ansatz.random(3)
    expected = np.exp(by_hand(theta, CONFIGS))
    np.testing.assert_allclose(value(ansatz, theta, CONFIGS), expected, rtol=ROUNDING)


def test_a_module_that_mixes_configurations_is_refused() -> None:
    """Whatever is computed from several rows at once is no wave function."""

    class Centred(Tanh):
        def __call__(self, configs: Any) -> Any:
            y = self.dense(configs)
            return jnp.sum(jnp.tanh(y - y.mean(axis=0)), axis=1)

    with pytest.raises(ValueError, match="alone"):
        FlaxAnsatz(LATTICE, lambda rngs: Centred(rngs=rngs))


def test_linen_and_nnx_are_one_and_the_same() -> None:
    ansatz = FlaxAnsatz(LATTICE, LinenTanh())
    theta = ansatz.random(1)
    np.testing.assert_allclose(
        value(ansatz, theta, CONFIGS), np.exp(by_hand(theta, CONFIGS)), rtol=ROUNDING
    )
    derivatives = ansatz.log_derivatives(theta, CONFIGS)
    np.testing.assert_allclose(derivatives, real().log_derivatives(theta, CONFIGS), atol=ROUNDING)


@pytest.mark.whole
def test_complex_parameters_conform_as_two_real_ones() -> None:
    ansatz = holomorphic()
    assert ansatz.dtype == np.float64 and ansatz.n_params == 30
    check_ansatz(ansatz, ansatz.random(0))


def test_real_and_imaginary_parts_move_as_the_complex_parameter_does() -> None:
    """The convention of the rules has no factor 2, so both forms make one step of SR."""
    whole, split = holomorphic(holomorphic=True), holomorphic()
    theta = split.random(5)
    rng = np.random.default_rng(0)
    energy = rng.normal(size=16) + 1j * rng.normal(size=16)
    steps = []
    for ansatz in (whole, split):
        parameters = ansatz.random(5)
        jacobian = ansatz.jacobian(parameters, CONFIGS)
        steps.append(SR(1e-2).direction(parameters, jacobian, energy, None, {})[0])
    tree = split.functional.unflatten(jnp.asarray(steps[1]))
    as_complex = np.concatenate([np.asarray(leaf).ravel() for leaf in jax.tree.leaves(tree)])
    assert theta.shape == (30,)
    np.testing.assert_allclose(as_complex, steps[0], rtol=1e-9)


def test_the_flat_vector_and_the_tree_are_the_same_numbers() -> None:
    functional = Functional(lambda rngs: Tanh(complex, rngs=rngs), jnp.zeros((1, 4)), False)
    theta = functional.random(2)
    np.testing.assert_array_equal(
        functional.flatten(functional.unflatten(jnp.asarray(theta))), theta
    )
    assert functional.leaves[0].path == ("dense", "bias")


def test_an_average_is_the_mean_over_images() -> None:
    group = symmetry_group(heisenberg(LATTICE), ["point", "spin"])
    signs = [0, 1, 1, 0]
    ansatz, plain = real(group=group, signs=signs), real()
    theta = ansatz.random(1)
    images = [
        plain_value
        for g in group.elements
        for plain_value in [
            value(plain, theta, (1 - CONFIGS if g.inverts else CONFIGS)[:, list(g.sites)])
        ]
    ]
    marshall = (-1.0) ** (CONFIGS @ signs)
    expected = marshall * np.mean(images, axis=0)
    np.testing.assert_allclose(value(ansatz, theta, CONFIGS), expected, rtol=ROUNDING)


def test_characters_make_psi_vanish_where_they_must() -> None:
    group = symmetry_group(heisenberg(LATTICE), ["spin"], {"spin inversion": -1})
    ansatz = real(group=group)
    theta = ansatz.random(1)
    found = value(ansatz, theta, CONFIGS)
    mirrored = value(ansatz, theta, 1 - CONFIGS)
    np.testing.assert_allclose(found, -mirrored, rtol=ROUNDING)
    assert np.isfinite(ansatz.log_derivatives(theta, CONFIGS)).all()


def test_frozen_groups_have_no_log_derivatives() -> None:
    ansatz, free = real(freeze=["dense.bias"]), real()
    theta = ansatz.random(0)
    found, expected = (a.log_derivatives(theta, CONFIGS) for a in (ansatz, free))
    assert not found[:, :3].any()
    np.testing.assert_allclose(found[:, 3:], expected[:, 3:], atol=ROUNDING)
    direction = SR().direction(theta, ansatz.jacobian(theta, CONFIGS), np.arange(16.0), None, {})[0]
    assert not direction[:3].any() and direction[3:].any()


def test_a_shape_is_compiled_once_and_batches_are_padded() -> None:
    ansatz = real()
    theta = ansatz.random(0)
    for n in (5, 9, 16, 13):
        ansatz.log_amplitude(theta, CONFIGS[:n])
    assert ansatz._log_psi._cache_size() == 1


def test_large_batches_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "MOST", 32)
    ansatz = real()
    ansatz._in_cache = 16
    theta = ansatz.random(0)
    configs = np.tile(CONFIGS, (3, 1))[:43]
    np.testing.assert_allclose(
        value(ansatz, theta, configs), np.exp(by_hand(theta, configs)), rtol=ROUNDING
    )


def test_a_module_object_knows_its_own_start_only() -> None:
    module = Tanh(rngs=nnx.Rngs(7))
    ansatz = FlaxAnsatz(LATTICE, module)
    np.testing.assert_array_equal(ansatz.random(0), ansatz.random(1))
    np.testing.assert_allclose(
        np.asarray(ansatz.module(ansatz.random(0))(jnp.asarray(CONFIGS))),
        np.asarray(module(jnp.asarray(CONFIGS))), rtol=ROUNDING,
    )  # fmt: skip


def test_tempered_sweeps_take_more_moves() -> None:
    """With power 0 a share of CAP / 2 of the possible moves is accepted, wherever they lead."""
    ansatz = real()
    theta = 5 * ansatz.random(0)
    walkers = ansatz.start(theta, CONFIGS)
    moves = {(site,): np.array([[1], [0]]) for site in range(4)}
    uniforms = np.random.default_rng(0).random((16, 4))
    taken = uniforms < CAP / 2
    moved, info = ansatz.tempered_sweep(theta, walkers, moves, uniforms, np.zeros(16))
    np.testing.assert_array_equal(moved.configs, np.where(taken, 1 - CONFIGS, CONFIGS))
    np.testing.assert_array_equal(info.accepted[:, 0], taken.sum(axis=1))
    np.testing.assert_array_equal(info.accepted[:, 1:], np.zeros((16, 3)))


class Wide(nnx.Module):
    def __init__(self) -> None:
        self.scale = nnx.Param(jnp.ones(1))

    def __call__(self, configs: Any) -> Any:
        return self.scale[...] * configs.astype(float)


class Modulus(nnx.Module):
    """Complex parameters in which ln psi is not holomorphic."""

    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.dense = nnx.Linear(4, 3, rngs=rngs, param_dtype=complex, dtype=complex)

    def __call__(self, configs: Any) -> Any:
        return jnp.sum(jnp.abs(self.dense(configs)), axis=1) + 0j


@pytest.mark.whole
@pytest.mark.parametrize(
    ("network", "options", "message"),
    [
        (lambda rngs: Wide(), {}, r"Wide returned \(3, 4\).*must return ln psi of shape \(3,\)"),
        (lambda rngs: Tanh(rngs=rngs), {"holomorphic": True}, "'dense.bias' of Tanh is real"),
        (lambda rngs: Tanh(complex, rngs=rngs), {"dtype": "float64"}, "of Tanh is complex"),
        (lambda rngs: Modulus(rngs=rngs), {"holomorphic": True}, "Modulus is not holomorphic"),
        (lambda rngs: Tanh(rngs=rngs), {"dtype": "float32"}, "takes float64 or complex128"),
        (lambda rngs: Tanh(rngs=rngs), {"freeze": ["head"]}, "no such group.*it has dense"),
        (lambda rngs: Tanh(rngs=rngs), {"signs": [0, 1]}, "0 or 1 for each of 4 sites"),
    ],
)
def test_what_is_no_wave_function_is_refused_in_one_line(
    network: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        FlaxAnsatz(LATTICE, network, **options)
    assert "\n" not in str(raised.value)


class Sized(Tanh):
    """A module whose class wants more than rngs."""

    def __init__(self, width: int, *, rngs: nnx.Rngs) -> None:
        super().__init__(rngs=rngs)


class Forgetful(Tanh):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.dense = nnx.Linear(4, 3)  # type: ignore[call-arg]


_INSTEAD = r"give an instance, or a function of rngs: lambda rngs: {}\(..., rngs=rngs\)"


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (Sized, r"Sized\(rngs\).*argument: 'rngs'; " + _INSTEAD.format("Sized")),
        (Tanh, r"Tanh\(rngs\) cannot be called: .*; " + _INSTEAD.format("Tanh")),
        (
            lambda: Tanh(rngs=nnx.Rngs(0)),
            "too many positional arguments; " + _INSTEAD.format("MLP"),
        ),
        (LinenTanh, r"LinenTanh is a Linen class; give an instance, LinenTanh\(...\)"),
        ("rbm", "network is of type str, and no Flax module; " + _INSTEAD.format("MLP")),
    ],
)
def test_what_cannot_be_made_is_told_what_to_give(network: Any, message: str) -> None:
    """A class that wants more than rngs gave bare words of Python before."""
    with pytest.raises(TypeError, match="^FlaxAnsatz: .*" + message) as raised:
        FlaxAnsatz(LATTICE, network)
    assert "\n" not in str(raised.value)
    assert raised.value.__cause__ is None and raised.value.__suppress_context__ == (
        raised.value.__context__ is not None
    )


def test_a_mistake_inside_a_class_keeps_its_own_words_and_place() -> None:
    with pytest.raises(TypeError, match=r"^Linear.__init__\(\) missing"):
        FlaxAnsatz(LATTICE, Forgetful)


class Table(nnx.Module):
    """ln psi of a table, times a number that is no parameter."""

    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.table = nnx.Param(rngs.params.normal((16,), jnp.float64))
        self.factor = nnx.Variable(rngs.params.normal((), jnp.float64))

    def __call__(self, configs: Any) -> Any:
        return self.factor[...] * self.table[...][configs @ np.array([8, 4, 2, 1])]


def test_another_start_changes_parameters_and_nothing_else() -> None:
    ansatz = FlaxAnsatz(LATTICE, lambda rngs: Table(rngs=rngs))
    theta = ansatz.random(0)
    before = value(ansatz, theta, CONFIGS[:5])
    assert np.abs(ansatz.random(5) - theta).min() > 0
    np.testing.assert_array_equal(value(ansatz, theta, CONFIGS), value(ansatz, theta, CONFIGS))
    np.testing.assert_allclose(value(ansatz, theta, CONFIGS)[:5], before, rtol=ROUNDING)


@pytest.mark.whole
@pytest.mark.parametrize("magnetisation", [0, None])
def test_averaged_densities_are_drawn_with_their_probability(magnetisation: int | None) -> None:
    """In a sector, of a module that knows it and of one that does not."""
    from types import SimpleNamespace

    from tnvmc.ansatz.neural.rnn import RNN

    group = symmetry_group(heisenberg(LATTICE), ["point", "spin"])
    ansatz = FlaxAnsatz(
        LATTICE, lambda rngs: RNN(LATTICE, hidden=6, magnetisation=magnetisation, rngs=rngs),
        group=group,
    )  # fmt: skip
    theta = ansatz.random(0) + np.random.default_rng(0).normal(size=ansatz.n_params)
    n_draws = 20000
    uniforms = np.random.default_rng(1).random((n_draws, 4))
    assert ansatz.exact_draws
    drawn, log_q = ansatz.drawer(theta)(uniforms, SimpleNamespace(total=2))
    assert (drawn.sum(axis=1) == 2).all()
    index = drawn @ np.array([8, 4, 2, 1])
    q = np.zeros(16)
    q[index] = np.exp(log_q)
    assert abs(q.sum() - 1.0) < ROUNDING
    counts = np.bincount(index, minlength=16)
    error = np.sqrt(n_draws * q * (1 - q))
    assert (np.abs(counts - n_draws * q) <= 4.5 * error + 1e-9).all()
    if magnetisation is not None:
        amplitude = ansatz.log_amplitude(theta, drawn[:50])
        np.testing.assert_allclose(2 * amplitude.log_abs, log_q[:50], atol=ROUNDING)


@pytest.mark.whole
def test_spin_inversion_out_of_a_sector_is_refused() -> None:
    from tnvmc.ansatz.neural.rnn import RNN

    group = symmetry_group(heisenberg(LATTICE), ["spin"])
    with pytest.raises(ValueError, match="sector of sum 1 into that of sum 3"):
        FlaxAnsatz(LATTICE, lambda rngs: RNN(LATTICE, magnetisation=2, rngs=rngs), group=group)


def test_freezing_everything_is_refused() -> None:
    with pytest.raises(ValueError, match="leaves no parameter"):
        real(freeze=["dense"])
