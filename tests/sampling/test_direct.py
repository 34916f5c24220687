"""Direct sampling: exact conditionals, honest q where truncated, the energy of enumeration."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.drawing import draw_samples, enumerated
from tests.oracles import all_configs, config_index, dense_state, exact_distribution
from tnvmc import PEPS, SRC, Exact, heisenberg, square, tfim
from tnvmc.ansatz.peps.draws import Drawer
from tnvmc.ansatz.product import ProductState
from tnvmc.backend.namespace import to_host
from tnvmc.backend.random import uniforms
from tnvmc.estimate.observables import local_energy
from tnvmc.estimate.statistics import effective_samples, exact_estimate, weighted_estimate
from tnvmc.lattice import chain
from tnvmc.operators.term import Operator
from tnvmc.sampling.direct import DirectSampler, Lookahead, SectorGuide
from tnvmc.sampling.workers import measure_configs

UNCUT = 10**4
EVEN = 1e-10  # relative spread of weights without truncation: rounding of a few hundred products
NORMED = 1e-12  # sum of q over all configurations: rounding of 2^N conditionals
SIGMAS = 4


def make_theta(peps: PEPS, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    theta = 0.5 + 0.5 * rng.normal(size=peps.n_params)
    if peps.dtype.kind == "c":
        theta = theta + 0.5j * rng.normal(size=peps.n_params)
    return theta.astype(peps.dtype)


def drawer(peps: PEPS, theta: Any, chi: int, chi_mpo: int, floor: float = 1e-4) -> Drawer:
    return Drawer.build(peps.tensors(theta), peps.embedding, chi, chi_mpo, floor)


@settings(max_examples=20, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    D=st.integers(1, 3),
    dtype=st.sampled_from(["float64", "complex128"]),
    local_dim=st.sampled_from([2, 3]),
)
def test_without_truncation_q_is_the_born_distribution(
    shape: tuple[int, int], D: int, dtype: str, local_dim: int
) -> None:
    if local_dim ** (shape[0] * shape[1]) > 1000:
        local_dim = 2
    peps = PEPS(square(*shape), D, dtype, Exact(), local_dim)
    theta = make_theta(peps, 1)
    configs = all_configs(shape[0] * shape[1], local_dim)
    born = exact_distribution(dense_state(peps.tensors(theta), shape, configs))
    q = np.exp(drawer(peps, theta, UNCUT, UNCUT, floor=0.0).log_prob(configs))
    assert np.max(np.abs(q - born)) < EVEN * born.max()
    likely = born > 1e-6 * born.max()  # where rounding of the conditionals is relative to born
    assert np.max(np.abs(q[likely] / born[likely] - 1)) < 1e-8


def test_weights_are_even_without_truncation() -> None:
    operator = tfim(square(2, 3), h=2.0)
    peps = PEPS(operator.lattice, 2, "float64", Exact())
    sampler = DirectSampler(64, chi=UNCUT, chi_mpo=UNCUT, threads=1)
    snapshot, _ = draw_samples(sampler, peps, make_theta(peps), operator, {}, stream=(3, 0))
    assert snapshot.weight is not None
    assert np.max(np.abs(snapshot.weight * 64 - 1)) < EVEN
    assert effective_samples(snapshot.weight) == pytest.approx(64, rel=EVEN)
    assert snapshot.jacobian is not None and snapshot.jacobian.shape == (64, peps.n_params)


@pytest.mark.whole
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_draws_follow_the_born_distribution(dtype: str) -> None:
    """Chi squared of draws against |psi|^2 on 2 x 3."""
    peps = PEPS(square(2, 3), 2, dtype)
    theta = make_theta(peps, 4)
    configs = all_configs(6)
    born = exact_distribution(dense_state(peps.tensors(theta), (2, 3), configs))
    n_draws = 20_000
    exact = drawer(peps, theta, UNCUT, UNCUT, floor=0.0)
    drawn, log_prob = exact(uniforms(1, (0, 0), range(n_draws), 6))
    places = np.array([config_index(config) for config in drawn])
    np.testing.assert_allclose(np.exp(log_prob), born[places], rtol=1e-8)
    counts = np.bincount(places, minlength=64)
    frequent = born * n_draws > 5  # the others are counted as one
    seen = np.append(counts[frequent], counts[~frequent].sum())
    expected = np.append(born[frequent], born[~frequent].sum()) * n_draws
    seen, expected = seen[expected > 0], expected[expected > 0]
    chi_squared = ((seen - expected) ** 2 / expected).sum()
    n = len(seen) - 1
    assert chi_squared < n + 5 * np.sqrt(2 * n)


@pytest.mark.whole
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize(("chi", "chi_mpo"), [(1, 1), (2, 4), (3, UNCUT), (UNCUT, 2)])
@pytest.mark.parametrize("magnetisation", [None, 1, -5])
def test_q_is_a_distribution_whatever_is_cut(
    chi: int, chi_mpo: int, magnetisation: int | None, dtype: str
) -> None:
    """Masked to a sector too: a sum of 1, and positive wherever psi may be."""
    peps = PEPS(square(3, 3), 2, dtype)
    cut = drawer(peps, make_theta(peps, 2), chi, chi_mpo)
    pilot = cut(uniforms(0, (0, 1), range(40), 9))[0]
    guide = None
    if magnetisation is not None:
        lookahead = Lookahead.fit(pilot, 3) if chi == 2 else None
        guide = SectorGuide(9, 2, (9 - magnetisation) // 2, lookahead)
    q = np.exp(cut.log_prob(all_configs(9), guide))
    assert abs(q.sum() - 1) < NORMED
    inside = all_configs(9).sum(axis=1) == (9 - (magnetisation or 0)) // 2
    assert (q[inside] > 0).all()
    if guide is not None:
        assert (q[~inside] == 0).all()
    drawn, log_prob = cut(uniforms(0, (0, 0), range(200), 9), guide)
    places = [config_index(config) for config in drawn]
    np.testing.assert_allclose(np.exp(log_prob), q[places], rtol=1e-9)


def test_masking_bounds_the_weights() -> None:
    """On the sector q is nowhere below |psi|^2 / <psi|psi>, so M draws are worth M p(sector)."""
    peps = PEPS(square(3, 3), 2)
    theta = make_theta(peps, 5)
    exact = drawer(peps, theta, UNCUT, UNCUT, floor=0.0)
    configs = all_configs(9, magnetisation=1)
    free, masked = exact.log_prob(configs), exact.log_prob(configs, SectorGuide(9, 2, 4))
    assert (masked > free - EVEN).all()
    born, q = np.exp(free), np.exp(masked)
    assert born.sum() ** 2 / np.sum(born**2 / q) >= born.sum()


def test_looking_ahead_makes_weights_more_even() -> None:
    peps = PEPS(square(4, 4), 1, "float64")
    theta = np.ones(peps.n_params)  # uniform: every configuration of the sector is as likely
    exact = drawer(peps, theta, 1, 1)
    pilot = exact(uniforms(0, (0, 1), range(256), 16))[0]
    worth = []
    for lookahead in (None, Lookahead.fit(pilot, 4)):
        guide = SectorGuide(16, 2, 8, lookahead)
        configs, log_prob = exact(uniforms(0, (0, 0), range(1000), 16), guide)
        assert (configs.sum(axis=1) == 8).all()
        worth.append(effective_samples(np.exp(-log_prob)) / 1000)
    assert worth[1] > worth[0] + 0.1


def test_weights_become_even_as_chi_grows() -> None:
    peps = PEPS(square(3, 3), 3)
    theta = make_theta(peps, 1)
    configs = all_configs(9)
    born = exact_distribution(dense_state(peps.tensors(theta), (3, 3), configs))
    uneven = []
    for chi, chi_mpo in ((1, 1), (2, 4), (4, 12), (9, 81)):
        q = np.exp(drawer(peps, theta, chi, chi_mpo, 1e-6).log_prob(configs))
        uneven.append(np.sum(born**2 / q) - 1)  # 1 / ESS - 1
    assert uneven[0] > uneven[1] > uneven[2] > uneven[3]
    assert uneven[3] < 1e-6


OPERATORS = {
    "heisenberg": lambda: heisenberg(square(3, 4)),
    "tfim": lambda: tfim(square(3, 4), h=2.5),
}


@pytest.mark.whole
@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("chi", [1, 3])
def test_reweighted_energy_is_that_of_enumeration(name: str, chi: int) -> None:
    operator: Operator = OPERATORS[name]()
    peps = PEPS(operator.lattice, 2, scheme=SRC(16))
    theta = make_theta(peps, 6)
    whole = enumerated(peps, theta, operator, jacobian=False)
    exact = exact_estimate(local_energy(operator, whole), whole.weight)
    sampler = DirectSampler(1024, chi, chi_mpo=2 * chi, threads=1)
    snapshot, info = draw_samples(sampler, peps, theta, operator, stream=(11, 0), jacobian=False)
    assert snapshot.weight is not None
    found = weighted_estimate(local_energy(operator, snapshot), snapshot.weight, sampler.n_walkers)
    assert abs(found.mean - exact.mean) < SIGMAS * found.error
    # The sample farthest from the mean counts once more.
    assert found.error < 3 * np.sqrt(exact.variance / effective_samples(snapshot.weight))
    assert 1 < effective_samples(snapshot.weight) <= 1024
    log_norm = _log_sum(2 * whole.amplitude.log_abs)
    relative_error = np.sqrt(1 / effective_samples(snapshot.weight) - 1 / 1024)
    assert abs(np.expm1(info.log_norm - log_norm)) < SIGMAS * relative_error
    if operator.conserves_magnetisation:
        assert (snapshot.configs.sum(axis=1) == 6).all()


def _log_sum(logs: np.ndarray) -> float:
    return float(logs.max() + np.log(np.exp(logs - logs.max()).sum()))


def test_draws_do_not_depend_on_chunks_threads_or_their_number() -> None:
    operator = heisenberg(square(3, 3))
    peps = PEPS(operator.lattice, 2, scheme=SRC(8))
    theta = make_theta(peps)

    def run(n: int, **more: Any) -> Any:
        sampler = DirectSampler(n, magnetisation=1, **more)
        return draw_samples(sampler, peps, theta, operator, stream=(2, 5))[0]

    whole, parts = run(24, threads=1, chunk=24), run(24, threads=1, chunk=5)
    np.testing.assert_array_equal(whole.configs, parts.configs)
    np.testing.assert_allclose(whole.weight, parts.weight, rtol=1e-9)
    workers = run(24, threads=2, chunk=5)
    np.testing.assert_array_equal(workers.weight, parts.weight)
    np.testing.assert_array_equal(run(10, threads=1).configs, whole.configs[:10])
    assert len(np.unique(whole.configs, axis=0)) > 5


@pytest.mark.whole
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_every_array_library_draws_the_same(xp: Any, dtype: str) -> None:
    import array_api_strict

    xp = array_api_strict if xp is np else xp
    operator = heisenberg(square(3, 3))
    peps = PEPS(operator.lattice, 2, dtype, SRC(6))
    theta = make_theta(peps)
    sampler = DirectSampler(16, chi=2, chi_mpo=4, magnetisation=1, threads=1)
    expected = draw_samples(sampler, peps, theta, operator, stream=(1, 0))[0]
    found = draw_samples(sampler, peps, xp.asarray(theta), operator, stream=(1, 0))[0]
    np.testing.assert_array_equal(to_host(found.configs), expected.configs)
    assert expected.weight is not None
    np.testing.assert_allclose(to_host(found.weight), expected.weight, rtol=1e-9)


def test_a_state_that_can_be_drawn_from() -> None:
    """A product state that draws site by site: q is |psi|^2, so all weights are equal."""

    class Drawn(ProductState):
        exact_draws = True

        def drawer(self, theta: Any, chi: Any = None, chi_mpo: Any = None) -> Any:
            return partial(self._draw, theta)

        def _draw(self, theta: Any, numbers: Any, guide: Any = None) -> tuple[Any, Any]:
            p = np.abs(theta.reshape(-1, 2)) ** 2
            p = p / p.sum(axis=1, keepdims=True)
            down = numbers >= p[:, 0]
            chosen = np.where(down, p[:, 1], p[:, 0])
            return down.astype(np.int8), np.log(chosen).sum(axis=1)

    operator = tfim(chain(5), h=1.0)
    state = Drawn(operator.lattice)
    snapshot, _ = draw_samples(DirectSampler(100), state, state.random(1), operator)
    assert effective_samples(snapshot.weight) == pytest.approx(100, rel=EVEN)
    assert snapshot.weight is not None and abs(snapshot.weight.sum() - 1) < NORMED


def test_equal_exact_draws_are_measured_once() -> None:
    class Counted(PEPS):
        def start(self, theta: Any, configs: Any) -> Any:
            measured.append(len(configs))
            return super().start(theta, configs)

    operator, measured = tfim(square(2, 2), h=1.0), list[int]()
    peps = Counted(operator.lattice, 2, "float64", Exact())
    peps.exact_draws = True
    theta = make_theta(peps)
    snapshot, _ = draw_samples(DirectSampler(100, threads=1), peps, theta, operator)
    assert sum(measured) <= 16
    every = {"targets": operator.targets, "threads": 1, "jacobian": True}
    each = measure_configs(peps, theta, snapshot.configs, **every)
    values = [local_energy(operator, found) for found in (snapshot, each)]
    np.testing.assert_allclose(*values, rtol=EVEN)
    derivatives = [found.jacobian.dense() for found in (snapshot, each) if found.jacobian]
    np.testing.assert_allclose(*derivatives, atol=EVEN)


def test_one_precision_down() -> None:
    peps = PEPS(square(4, 4), 2, "float32")
    theta = make_theta(peps)
    configs, log_prob = drawer(peps, theta, 3, 6)(uniforms(0, (0, 0), range(32), 16))
    double = drawer(PEPS(square(4, 4), 2), theta.astype(np.float64), 3, 6)
    np.testing.assert_allclose(
        log_prob, double.log_prob(configs), atol=2e-3
    )  # 24 bits, 16 sites, cancellations


@pytest.mark.whole
def test_no_overflow() -> None:
    peps = PEPS(square(10, 10), 2, scheme=SRC(4))
    operator = heisenberg(peps.lattice)
    theta = make_theta(peps) * 1e4
    snapshot, _ = draw_samples(
        DirectSampler(8, threads=1), peps, theta, operator, {}, jacobian=False
    )
    assert snapshot.weight is not None
    assert np.isfinite(snapshot.weight).all() and effective_samples(snapshot.weight) >= 1


def test_letters_of_complaint() -> None:
    operator = heisenberg(square(2, 2))
    product = ProductState(operator.lattice)
    sampler = DirectSampler(4, threads=1)
    with pytest.raises(ValueError, match="ProductState cannot be drawn from.*Markov chains"):
        draw_samples(sampler, product, product.random(0), operator, {})
    peps = PEPS(operator.lattice, 2)
    theta = make_theta(peps)
    with pytest.raises(ValueError, match="no configuration of 4 sites .* 2 Sz = 1"):
        draw_samples(replace(sampler, magnetisation=1), peps, theta, operator, {})
    with pytest.raises(ValueError, match="psi vanishes at all of them"):
        draw_samples(sampler, peps, 0 * theta, operator, {}, jacobian=False)
    with pytest.raises(ValueError, match="n_pilot must be at least 0, got -1"):
        DirectSampler(n_pilot=-1)
    for name in ("n_samples", "chi", "chi_mpo", "threads", "chunk"):
        with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
            DirectSampler(**{name: 0})


def test_parts_add_up_and_none_is_smaller_than_64_but_the_last() -> None:
    """Each part prepares and pilots anew: of a large lattice they held some ten draws."""
    sampler = DirectSampler(n_samples=200)
    for at_once, sizes in ((5, [64, 64, 64, 8]), (150, [150, 50]), (1000, [200])):
        parts = sampler.parts(None, None, at_once)  # type: ignore[arg-type]
        assert [part.n_samples for part in parts] == sizes
