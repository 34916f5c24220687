"""What every autoregressive network must pass, against enumeration and a dumb NumPy oracle.

    check_autoregressive(noisy(lambda: MyNetwork(square(3, 4), rngs=nnx.Rngs(0))))

Everything follows from the raw logits of all d**N configurations: prefixes, the sector and the
normalisation are found by looking at the list of configurations, not by reachability.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
from flax import nnx
from scipy.stats import chisquare

from tests.oracles import all_configs
from tnvmc.ansatz.metropolis import local_states
from tnvmc.ansatz.neural.autoregressive import Autoregressive

ROUNDING = 1e-12
"""A few thousand float64 roundings (2e-16 each) of numbers of order one."""

UNLIKELY = 1e-4
"""p-value below which draws are called wrong; the seeds are fixed."""


def perturbed(module: Any, scale: float = 0.3, seed: int = 0) -> Any:
    """The module with noise on every parameter, so that no zero of the start hides an error."""
    graph, state = nnx.split(module)
    rng = np.random.Generator(np.random.PCG64(seed))
    noisy = jax.tree.map(
        lambda x: jnp.asarray(np.asarray(x) + scale * rng.normal(size=x.shape)), state
    )
    return nnx.merge(graph, noisy)


def noisy(make: Callable[[], Any], scale: float = 0.5, seed: int = 0) -> Any:
    """The module that `make` would make, with noise alone for parameters: nothing is compiled."""
    graph, shapes = nnx.split(nnx.eval_shape(make))
    rng = np.random.Generator(np.random.PCG64(seed))
    return nnx.merge(
        graph, jax.tree.map(lambda x: jnp.asarray(scale * rng.normal(size=x.shape)), shapes)
    )


def check_autoregressive(module: Autoregressive, totals: tuple[int, ...] = ()) -> None:
    """Normalisation, causality, agreement of the two views, log_prob, draws, derivatives.

    `totals`: sums of digits to draw in as well, for a module without a sector of its own.
    """
    configs = all_configs(module.n_sites, module.local_dim)
    graph, state = nnx.split(module)
    found = {
        k: np.asarray(v)
        for k, v in jax.jit(_views, static_argnums=0)(graph, state, configs).items()
    }
    tokens = np.stack([local_states(configs, s, module.local_dim) for s in module.sites], axis=1)
    assert np.array_equal(found["tokens"], tokens)
    assert np.array_equal(found["back"], configs)
    check_causality(found["logits"], tokens)
    np.testing.assert_allclose(found["stepped"], found["logits"], rtol=0, atol=ROUNDING)

    exact = dumb_log_prob(found["logits"], tokens, _in_sector(configs, module.total))
    inside = exact > -np.inf
    np.testing.assert_allclose(found["log_prob"][inside], exact[inside], rtol=0, atol=20 * ROUNDING)
    assert np.all(found["log_prob"][~inside] == -np.inf)
    assert abs(np.sum(np.abs(np.exp(found["ln_psi"])) ** 2) - 1) < ROUNDING
    assert np.array_equal(2 * found["ln_psi"].real, found["log_prob"])

    check_draws(module, configs, exact, None)
    for total in totals:
        exact_q = dumb_log_prob(found["logits"], tokens, _in_sector(configs, total))
        check_draws(module, configs, exact_q, total)
    check_derivatives(module, configs[inside][:: max(1, inside.sum() // 8)], configs[~inside][:2])


def check_causality(logits: np.ndarray, tokens: np.ndarray) -> None:
    """Configurations that begin alike have the same logits, up to rounding of batched products."""
    for t in range(tokens.shape[1]):
        _, first, group = np.unique(tokens[:, :t], axis=0, return_index=True, return_inverse=True)
        difference = np.abs(logits[:, t] - logits[first[group.reshape(-1)], t]).max()
        assert difference < ROUNDING, f"logits of token {t} depend on tokens >= {t}: {difference}"


def check_draws(
    module: Autoregressive, configs: np.ndarray, exact: np.ndarray, total: int | None
) -> None:
    """Draws have the probabilities exp(exact) of the configurations, and say so."""
    n_draws = 8192
    rng = np.random.Generator(np.random.PCG64(7))
    uniforms = rng.random((n_draws, module.n_sites))
    uniforms[0], uniforms[1] = 0.0, 1.0  # the ends of the cells; 1 itself should never come
    graph, state = nnx.split(module)
    drawn, log_q = jax.jit(lambda s, u: nnx.merge(graph, s).draw(u, total))(state, uniforms)
    index = (np.asarray(drawn) @ (module.local_dim ** np.arange(module.n_sites)[::-1])).astype(int)
    assert np.array_equal(configs[index], drawn)
    assert np.all(exact[index] > -np.inf), "a configuration of probability 0 was drawn"
    np.testing.assert_allclose(log_q, exact[index], rtol=0, atol=20 * ROUNDING)

    expected = np.exp(exact) * (n_draws - 2)
    seen = np.bincount(index[2:], minlength=len(configs)).astype(float)
    order = np.argsort(expected)[np.sum(expected == 0) :]
    bins = np.minimum(np.cumsum(expected[order]) // 20, (n_draws - 2) // 20 - 1).astype(int)
    _, bins = np.unique(bins, return_inverse=True)
    expected, seen = (np.bincount(bins, weights=x[order]) for x in (expected, seen))
    assert chisquare(seen, expected * seen.sum() / expected.sum()).pvalue > UNLIKELY


def check_derivatives(module: Autoregressive, inside: np.ndarray, outside: np.ndarray) -> None:
    """Derivatives are right along a random direction, and rows where psi = 0 leave no NaN."""
    rng = np.random.Generator(np.random.PCG64(3))
    graph, state = nnx.split(module)
    theta, unravel = jax.flatten_util.ravel_pytree(state)
    configs = jnp.asarray(np.concatenate([inside, outside]))
    seen = np.arange(len(configs)) < len(inside)
    weight, direction = rng.normal(size=(2, len(configs))), rng.normal(size=theta.shape)

    @jax.jit
    def slope(theta: jax.Array) -> tuple[jax.Array, jax.Array]:
        def value(theta: jax.Array) -> jax.Array:
            ln_psi = nnx.merge(graph, unravel(theta))(configs)
            parts = jnp.stack([jnp.real(ln_psi), jnp.imag(ln_psi)])
            return jnp.sum(jnp.where(seen, weight * parts, 0.0))

        return jax.value_and_grad(value)(theta)

    step = 1e-5  # error of the difference: step^2 and 1e-16 / step, both about 1e-10
    ahead, behind = (slope(theta + sign * step * direction)[0] for sign in (1, -1))
    expected = (ahead - behind) / (2 * step)
    np.testing.assert_allclose(slope(theta)[1] @ direction, expected, rtol=1e-6, atol=1e-6)


def dumb_log_prob(logits: np.ndarray, tokens: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """ln p of every configuration: a token may be what some configuration inside has there."""
    n_configs, n_tokens, n_states = logits.shape
    result, before = np.zeros(n_configs), np.zeros(n_configs, dtype=int)
    for t in range(n_tokens):
        here = n_states * before[:, None] + np.arange(n_states)
        before = here[np.arange(n_configs), tokens[:, t]]
        possible = np.isin(here, before[inside])
        weight = np.where(possible, np.exp(logits[:, t]), 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            result += np.log(weight[np.arange(n_configs), tokens[:, t]] / weight.sum(axis=1))
    return np.where(inside, result, -np.inf)


def _views(graph: Any, state: Any, configs: Any) -> dict[str, jax.Array]:
    module = nnx.merge(graph, state)
    tokens = module.tokens(configs)

    def advance(cache: Any, x: Any) -> Any:
        return module.step(cache, *x)

    before = jnp.concatenate([tokens[:, :1], tokens[:, :-1]], axis=1).T  # t = 0: must be ignored
    times = jnp.arange(module.n_tokens)
    _, stepped = jax.lax.scan(advance, module.initial_cache(len(configs)), (before, times))
    return {
        "tokens": tokens,
        "back": module.configs(tokens),
        "logits": module.scores(configs)[0],
        "stepped": stepped.transpose(1, 0, 2),
        "log_prob": module.log_prob(configs),
        "ln_psi": module(configs),
    }


def _in_sector(configs: np.ndarray, total: int | None) -> np.ndarray:
    return np.full(len(configs), True) if total is None else configs.sum(axis=1) == total
