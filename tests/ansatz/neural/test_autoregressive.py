"""Masking, picking and the sector: what no single network is needed for."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tnvmc.ansatz.neural.flax  # noqa: F401  (sets float64)
from tests.ansatz.neural.autoregressive_checks import check_autoregressive
from tnvmc.ansatz.neural.autoregressive import Autoregressive, log_softmax, phase_of, pick, snake
from tnvmc.lattice.grids import square


class Table(Autoregressive):
    """Logits that depend on the token before through a fixed table, with tokens of any patch."""

    def scores(self, configs: jax.Array) -> tuple[jax.Array, None]:
        tokens = self.tokens(configs)
        before = jnp.concatenate([jnp.zeros_like(tokens[:, :1]), tokens[:, :-1]], axis=1)
        return self._logits(before, jnp.arange(self.n_tokens)), None

    def initial_cache(self, batch: int) -> tuple[()]:
        return ()

    def step(self, cache: tuple[()], token_before: jax.Array, t: jax.Array) -> tuple:
        return cache, self._logits(jnp.where(t > 0, token_before, 0), t)

    def _logits(self, before: jax.Array, t: jax.Array) -> jax.Array:
        angle = (before * (1 + t))[..., None] * (1.0 + jnp.arange(self.n_states))
        return 2.0 * jnp.sin(angle) + jnp.cos(t)[..., None] * jnp.arange(self.n_states)


PLAQUETTES = ((0, 1, 4, 5), (2, 3, 6, 7), (8, 9, 10, 11))


@pytest.mark.whole
def test_patches_of_four_sites() -> None:
    check_autoregressive(Table(PLAQUETTES), totals=(5,))


@pytest.mark.whole
def test_patches_of_three_states_in_a_sector() -> None:
    check_autoregressive(Table(((3, 0), (1, 4), (2, 5)), local_dim=3, magnetisation=-2))


@pytest.mark.whole
def test_sector_of_one_configuration_is_drawn_with_certainty() -> None:
    """Of odd magnetisation too."""
    configs, log_q = Table(((2,), (0,), (1,)), magnetisation=-3).draw(jnp.zeros((2, 3)))
    assert np.array_equal(configs, np.ones((2, 3))) and not np.any(log_q)


def test_forced_states_have_probability_one_exactly() -> None:
    logits = jnp.array([[3.1, -700.0, 2.0], [900.0, -900.0, 0.3]])
    found = np.asarray(log_softmax(logits, jnp.array([[False, True, False], [False, True, True]])))
    assert np.array_equal(found[0], [-np.inf, 0, -np.inf])
    assert found[1, 0] == -np.inf and found[1, 2] == 0 and found[1, 1] == pytest.approx(-900.3)


def test_derivatives_of_masked_scores_are_finite() -> None:
    """Whatever the masked scores are; also where no state is allowed."""
    logits = jnp.array([[0.5, 1e4, -1e4], [0.1, 0.2, 0.3]])
    allowed = jnp.array([[True, False, True], [False, False, False]])

    def value(x: jax.Array) -> jax.Array:
        log_p = log_softmax(x, allowed)
        return jnp.sum(jnp.where(log_p > -jnp.inf, log_p, 0.0))

    slope = np.asarray(jax.grad(value)(logits))
    assert np.all(np.isfinite(slope)) and slope[0, 1] == 0 and not slope[1].any()


@pytest.mark.whole
@pytest.mark.parametrize(
    "p", [(0, 0.5, 0, 0.5, 0), (0, 0, 1, 0, 0), (1e-300, 0, 0.3, 0.7, 0), (0, 0.1, 0.2, 0.7, 0)]
)
def test_no_state_of_probability_zero_is_picked(p: tuple[float, ...]) -> None:
    """At the ends of [0, 1], on every border between cells, and one rounding beside it."""
    weights = np.array(p) / sum(p)
    borders = np.concatenate([[0.0, 1.0], np.cumsum(weights)])
    numbers = np.concatenate([borders, np.nextafter(borders, 0), np.nextafter(borders, 1)])
    with np.errstate(divide="ignore"):
        log_p = jnp.log(jnp.broadcast_to(jnp.asarray(weights), (len(numbers), len(p))))
    states = np.asarray(pick(log_p, jnp.asarray(numbers)))
    assert np.all(weights[states] > 0)
    inner = (np.array([0.25, 0.75]), log_p[:2])
    expected = np.searchsorted(np.cumsum(weights), inner[0], side="right")
    assert np.array_equal(pick(inner[1], jnp.asarray(inner[0])), expected)


@pytest.mark.whole
def test_numbers_that_are_not_finite_are_seen() -> None:
    network = Table(((0,), (1,)))
    logits = jnp.full((1, 2, 2), jnp.nan)
    assert np.isnan(network._log_prob(logits, jnp.zeros((1, 2), jnp.int8), None))[0]


def test_snake_and_phase() -> None:
    assert snake(square(3, 2)) == ((0,), (1,), (3,), (2,), (4,), (5,))
    angles = jnp.array([[[0.0, 1.0], [-3.0, 0.0]]])
    assert phase_of(angles, jnp.array([[1, 0]]))[0] == pytest.approx(np.pi / 2 - 2 * np.arctan(3))


@pytest.mark.parametrize(
    ("sites", "magnetisation", "message"),
    [
        (((0, 1), (2,)), None, "equally many sites"),
        (((0,), (0,)), None, "each of the sites 0 to N - 1 once"),
        (((0,), (1,), (2,)), 2, "odd here and at most 3"),
        (((0,), (1,)), 4, "even here and at most 2"),
    ],
)
def test_bad_tokens_and_sectors_are_told(sites: tuple, magnetisation: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Table(sites, magnetisation=magnetisation)


def test_draws_of_another_sector_are_refused() -> None:
    uniforms = jnp.zeros((1, 2))
    with pytest.raises(ValueError, match="magnetisation = 0 of the network makes them sum to 1"):
        Table(((0,), (1,)), magnetisation=0).draw(uniforms, total=2)
