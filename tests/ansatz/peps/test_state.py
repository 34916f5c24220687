"""PEPS against the dense contraction: amplitudes, ratios, log-derivatives, sampling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import oracles
from tests.random_states import random_configs, random_theta, walked
from tnvmc import PEPS, SRC, Exact, ZipUp, chain, heisenberg, j1j2, rydberg, square, tfim
from tnvmc.ansatz.checks.conformance import check_ansatz
from tnvmc.backend.namespace import to_host
from tnvmc.backend.random import uniforms
from tnvmc.estimate.observables import local_energy
from tnvmc.lattice import Lattice, from_bonds, honeycomb, kagome, triangular
from tnvmc.operators.spin import exchange_matrix
from tnvmc.operators.term import Operator, Term
from tnvmc.sampling.moves import moves_for

AMPLITUDE = 1e-12  # relative; rounding of a few hundred products
LOCAL_ENERGY = (
    1e-9  # relative to the largest |E_loc|: sums of ratios of nearly cancelling amplitudes
)
UNCUT = 10**4


def _dense(peps: PEPS, theta: np.ndarray, configs: np.ndarray) -> np.ndarray:
    lattice, tensors = peps.lattice, peps.tensors(theta)
    if lattice.vacant:  # a scalar at each such place
        at = dict(zip(lattice.places, tensors, strict=True))
        n_places = lattice.n_rows * lattice.n_cols
        tensors = [at.get(place, np.ones((1, 1, 1, 1, 1))) for place in range(n_places)]
        whole = np.zeros((len(configs), n_places), configs.dtype)
        whole[:, list(lattice.places)] = configs
        configs = whole
    return oracles.dense_state(tensors, lattice.shape, configs)


@settings(max_examples=25)
@given(
    shape=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    D=st.integers(1, 3),
    dtype=st.sampled_from(["float64", "complex128"]),
    scheme=st.sampled_from([Exact(), SRC(UNCUT), ZipUp(UNCUT)]),
)
def test_amplitude_is_the_dense_contraction(shape: tuple, D: int, dtype: str, scheme: Any) -> None:
    peps = PEPS(square(*shape), D, dtype, scheme)
    theta, configs = random_theta(peps), random_configs(4, shape[0] * shape[1])
    found = peps.log_amplitude(theta, configs)
    expected = _dense(peps, theta, configs)
    assert np.allclose(found.phase * np.exp(found.log_abs), expected, rtol=1e-10, atol=0)


@pytest.mark.parametrize(
    "lattice", [honeycomb(4, 4), triangular(3, 4), kagome(4, 4), kagome(3, 5)], ids=repr
)
def test_amplitudes_on_lattices_that_use_a_part_of_the_grid(lattice: Lattice) -> None:
    peps = PEPS(lattice, 3, scheme=SRC(UNCUT))
    theta, configs = random_theta(peps), random_configs(16, lattice.n_sites)
    found = peps.log_amplitude(theta, configs)
    expected = _dense(peps, theta, configs)
    assert np.allclose(found.phase * np.exp(found.log_abs), expected, rtol=1e-10, atol=0)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_amplitude_to_rounding_where_nothing_cancels(dtype: str) -> None:
    peps = PEPS(square(4, 4), 3, dtype, SRC(UNCUT))
    theta = (np.abs(random_theta(peps)) * np.exp(0.2j if peps.dtype.kind == "c" else 0)).astype(
        dtype
    )
    configs = random_configs(16, 16)
    found = peps.log_amplitude(theta, configs)
    expected = _dense(peps, theta, configs)
    assert np.max(np.abs(found.phase * np.exp(found.log_abs) / expected - 1)) < AMPLITUDE


def further(lattice: Lattice) -> Operator:
    """Nearest neighbours and all others that the lattice lists, with another coupling."""
    kinds = {"nearest": 1.0, "next_nearest": 0.4, "third": 0.3}
    terms = tuple(
        Term(bond, coupling * exchange_matrix())
        for kind, coupling in kinds.items()
        for bond in lattice.bonds[kind]
    )
    return Operator(lattice, terms)


OPERATORS: dict[str, Any] = {
    "heisenberg": lambda: heisenberg(square(3, 3)),
    "kagome": lambda: heisenberg(kagome(3, 4)),
    "honeycomb J1-J3": lambda: further(honeycomb(3, 3)),
    "j1j2": lambda: j1j2(square(3, 3), J2=0.7),
    "tfim": lambda: tfim(square(3, 3), h=2.0),
    "rydberg": lambda: rydberg(square(3, 3), V=7.0, delta=1.0, Omega=1.0),
    "periodic": lambda: heisenberg(square(3, 3, boundary="periodic")),
    "chain": lambda: heisenberg(chain(8)),
    "ring": lambda: heisenberg(chain(6, boundary="periodic")),
}


@pytest.mark.whole
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("name", OPERATORS)
def test_local_energy_is_a_row_of_the_dense_operator(name: str, dtype: str, xp: Any) -> None:
    operator: Operator = OPERATORS[name]()
    peps = PEPS(operator.lattice, 2, dtype, SRC(UNCUT))
    theta = random_theta(peps, 2)
    configs = oracles.all_configs(operator.n_sites)
    psi = _dense(peps, theta, configs)
    chosen = np.random.default_rng(1).permutation(len(configs))[:40]
    expected = oracles.dense_local_energy(oracles.dense_hamiltonian(operator), psi)[chosen]
    targets = {patch: xp.asarray(t) for patch, t in operator.targets.items()}
    walkers = peps.start(xp.asarray(theta), xp.asarray(configs[chosen].astype(np.int8)))
    _, snapshot = peps.measure(xp.asarray(theta), walkers, targets, jacobian=False)
    found = to_host(local_energy(operator, snapshot))
    assert np.max(np.abs(found - expected) / np.maximum(1, np.abs(expected))) < LOCAL_ENERGY


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_log_derivatives(dtype: str) -> None:
    peps = PEPS(square(3, 3), 2, dtype, SRC(UNCUT))
    theta, configs = random_theta(peps, 3), random_configs(5, 9)
    _, snapshot = peps.measure(theta, peps.start(theta, configs), {})
    found = snapshot.jacobian.dense()  # type: ignore[union-attr]
    expected = oracles.finite_difference_log(lambda t: _dense(peps, t, configs), theta)
    scale = np.max(np.abs(expected))
    assert (
        np.max(np.abs(found - expected)) < 1e-7 * scale
    )  # step 1e-6: error step^2 + rounding/step


@pytest.mark.parametrize("scheme", [SRC(UNCUT), SRC(3), ZipUp(2)])
def test_tensor_times_log_derivative_is_one_at_every_site(scheme: Any) -> None:
    """Exactly so even when truncated, since each site is divided by its own closure."""
    peps = PEPS(square(5, 4), 3, "float64", scheme)
    theta, configs = random_theta(peps, 4), random_configs(6, 20)
    _, snapshot = peps.measure(theta, peps.start(theta, configs), {})
    jacobian = snapshot.jacobian.dense()  # type: ignore[union-attr]
    begin = 0
    for shape in peps.shapes:
        end = begin + int(np.prod(shape))
        assert np.allclose(jacobian[:, begin:end] @ theta[begin:end], 1, atol=1e-10)
        begin = end


@pytest.mark.whole
@pytest.mark.parametrize(
    ("lattice", "dtype", "scheme"),
    [
        (square(2, 3), "float64", SRC(8)),  # uncut; the wider a sketch, the more of them
        (square(2, 3), "complex128", ZipUp(UNCUT)),
        (chain(5), "float64", SRC(8)),
        (square(3, 2, boundary="periodic"), "float64", Exact()),
        (honeycomb(2, 3), "float64", SRC(8)),
        (kagome(3, 3), "float64", SRC(UNCUT)),
        (kagome(2, 3), "complex128", ZipUp(UNCUT)),
        (
            from_bonds((2, 3), [(0, 1), (2, 3), (0, 2), (1, 4), (3, 4)], vacant=[4]),
            "float64",
            Exact(),
        ),
    ],
)
def test_conformance(lattice: Any, dtype: str, scheme: Any) -> None:
    peps = PEPS(lattice, 2, dtype, scheme)
    check_ansatz(peps, random_theta(peps, 5))


@pytest.mark.whole
@pytest.mark.parametrize("name", ["heisenberg", "tfim"])
def test_sweeps_sample_the_born_distribution(name: str) -> None:
    """3x3, chi-squared of the visits against |psi|^2, on the sector that the moves reach."""
    operator: Operator = OPERATORS[name]()
    peps = PEPS(operator.lattice, 2, "float64", SRC(UNCUT))
    theta = np.abs(random_theta(peps, 6)) + 0.3
    moves = moves_for(operator)
    n_walkers, n_sweeps = 400, 60
    start = np.array([0, 1, 0, 1, 0, 1, 0, 1, 0], dtype=np.int8)
    walkers = peps.start(theta, np.tile(start, (n_walkers, 1)))
    counts = np.zeros(2**9)
    powers = 2 ** np.arange(9)[::-1]
    for sweep in range(n_sweeps):
        u = uniforms(11, (0, sweep), range(n_walkers), len(moves))
        walkers, _ = peps.sweep(theta, walkers, moves, u)
        if sweep >= 10 and sweep % 5 == 0:  # thinned, so that visits are nearly independent
            counts += np.bincount(walkers.configs @ powers, minlength=2**9)
    configs = oracles.all_configs(9)
    reachable = (
        configs.sum(axis=1) == start.sum() if operator.conserves_magnetisation else slice(None)
    )
    weight = oracles.exact_distribution(_dense(peps, theta, configs[reachable]))
    visits = counts[reachable]
    assert visits.sum() == counts.sum()
    expected = weight * counts.sum()
    chi_squared = np.sum((visits - expected) ** 2 / expected)
    freedom = len(expected) - 1
    assert chi_squared < freedom + 5 * np.sqrt(2 * freedom)  # 5 sigma of the chi-squared law


def test_log_scale_survives_large_and_small_tensors() -> None:
    """16x16 with tensors scaled by 1e5 and 1e-5: the same ratios, the logs shifted."""
    lattice = square(16, 16)
    peps = PEPS(lattice, 2, "float64", SRC(4))
    tensors = [1 + 0.3 * np.random.default_rng(i).normal(size=s) for i, s in enumerate(peps.shapes)]
    configs = random_configs(3, 256)
    operator = heisenberg(lattice)
    results = []
    for scale in (1.0, 1e5, 1e-5):
        theta = peps.flatten([t * scale for t in tensors])
        walkers = peps.start(theta, configs)
        results.append(peps.measure(theta, walkers, operator.targets, jacobian=False)[1])
    for scale, scaled in zip((1e5, 1e-5), results[1:], strict=True):
        shift = 256 * np.log(scale)
        assert np.allclose(
            scaled.amplitude.log_abs - shift, results[0].amplitude.log_abs, atol=1e-8
        )
        for patch, ratio in results[0].ratios.items():
            assert np.allclose(scaled.ratios[patch], ratio, rtol=1e-9, atol=1e-12)


def test_batch_size_changes_rounding_only() -> None:
    peps = PEPS(square(4, 4), 3, "float64", SRC(4))
    theta, configs = np.abs(random_theta(peps, 8)), random_configs(7, 16)
    whole = peps.log_amplitude(theta, configs).log_abs
    parts = [peps.log_amplitude(theta, configs[i : i + 2]).log_abs for i in range(0, 7, 2)]
    assert np.allclose(np.concatenate(parts), whole, atol=1e-12)


def test_single_precision_stays_single() -> None:
    peps = PEPS(square(4, 4), 3, "float32", SRC(9))
    double = PEPS(square(4, 4), 3, "float64", SRC(9))
    theta, configs = np.abs(random_theta(double, 9)), random_configs(5, 16)
    single = peps.measure(
        theta.astype("float32"), peps.start(theta.astype("float32"), configs), {}
    )[1]
    assert single.amplitude.log_abs.dtype == np.float32
    assert single.jacobian.slices[0].dtype == np.float32  # type: ignore[union-attr]
    expected = double.log_amplitude(theta, configs).log_abs
    assert np.allclose(single.amplitude.log_abs, expected, atol=1e-4)  # 16 sites at 1e-7 each


def test_closure_spread_measures_truncation() -> None:
    configs = random_configs(20, 36)
    spreads = []
    for chi in (2, 4, 27):
        peps = PEPS(square(6, 6), 3, "float64", SRC(chi))
        theta = np.abs(random_theta(peps, 10))
        spreads.append(
            np.median(peps.measure(theta, peps.start(theta, configs), {})[1].closure_spread)
        )
    assert spreads[0] > spreads[1] > spreads[2]
    assert spreads[2] < 1e-12


def test_bad_input_is_answered_with_a_letter() -> None:
    lattice = square(2, 2)
    with pytest.raises(ValueError, match="at least 1, got -3"):
        PEPS(lattice, -3)
    with pytest.raises(ValueError, match="another D or lattice"):
        PEPS(lattice, 2).tensors(np.zeros(3))
    with pytest.raises(ValueError, match="use a larger D"):
        PEPS(lattice, 2).flatten([np.zeros((2, 3, 3, 3, 3))] * 4)
    with pytest.raises(ValueError, match="3 tensors for 4 sites"):
        PEPS(lattice, 2).flatten([np.zeros((2, 1, 1, 1, 1))] * 3)
    peps = PEPS(lattice, 2)
    other = peps.start(np.ones(peps.n_params), np.zeros((1, 4), np.int8))
    with pytest.raises(TypeError, match="make them with start"):
        peps.measure(np.ones(peps.n_params), type(other)(other.configs, other.amplitude), {})


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("scheme", [SRC(2), Exact()])  # by kernels, by NumPy
def test_parameters_that_are_not_finite_are_refused(bad: float, scheme: Any) -> None:
    state = PEPS(square(2, 3), 2, scheme=scheme)
    theta = np.ones(state.n_params)
    theta[-1] = bad
    configs = np.zeros((2, 6), np.int8)
    for call in (state.log_amplitude, state.start):
        with pytest.raises(ValueError, match="not finite, in the tensor of site 5"):
            call(theta, configs)


def test_flatten_pads_smaller_bonds_and_inverts_tensors() -> None:
    small, large = PEPS(square(3, 3), 2), PEPS(square(3, 3), 4)
    theta, configs = random_theta(small, 12), random_configs(4, 9)
    assert np.array_equal(small.flatten(small.tensors(theta)), theta)
    grown = large.flatten(small.tensors(theta))
    found, expected = large.log_amplitude(grown, configs), small.log_amplitude(theta, configs)
    assert np.allclose(found.log_abs, expected.log_abs, atol=1e-10)
    assert np.allclose(found.phase, expected.phase)


@pytest.mark.whole
@pytest.mark.parametrize("scheme", [Exact(), SRC(4), SRC(4, sketch="random"), ZipUp(4)])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_the_core_is_written_against_the_array_standard(scheme: Any, dtype: str) -> None:
    """array-api-strict refuses whatever is NumPy's own; the chain it walks is the same."""
    strict = pytest.importorskip("array_api_strict")
    operator = j1j2(square(4, 4))
    peps = PEPS(operator.lattice, 3, dtype, scheme)
    theta, configs = random_theta(peps, 13), random_configs(6, 16)
    found, expected = (walked(peps, operator, theta, configs, xp) for xp in (strict, np))
    for one, other in zip(found, expected, strict=True):
        assert np.allclose(one, other, rtol=1e-12, atol=1e-12)
