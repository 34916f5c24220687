"""Ratios of pairs at any distance against the dense contraction and against full contractions."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import oracles
from tnvmc import PEPS, SRC, Exact, ZipUp, chain, heisenberg, square
from tnvmc.ansatz.generic import replacement_ratios
from tnvmc.ansatz.metropolis import local_states
from tnvmc.ansatz.peps.pairs import pairs_by_source
from tnvmc.backend.namespace import to_host
from tnvmc.lattice.embedding import embedding

EXACT = 1e-10  # relative to the largest ratio: rounding of amplitudes that may nearly cancel

EXCHANGE = np.array([[-1], [2], [1], [-1]])
BOTH_FLIPPED = np.array([[3], [2], [1], [0]])
EVERYTHING = np.array([[1, 2, 3], [0, 2, 3], [0, 1, 3], [0, 1, 2]])
SOME = np.array([[-1, 3], [0, -1], [-1, -1], [1, 2]])
SPIN_ONE = np.array(
    [[b for b in range(9) if b % 3 != a % 3 and b // 3 != a // 3] for a in range(9)]
)
TABLES = {"exchange": EXCHANGE, "flips": BOTH_FLIPPED, "everything": EVERYTHING, "some": SOME}


def _pairs(n_sites: int) -> list[tuple[int, int]]:
    return list(combinations(range(n_sites), 2))


def _state(
    shape: tuple[int, int], D: int, dtype: str, scheme: Any, d: int = 2, seed: int = 0
) -> Any:
    lattice = chain(shape[1]) if shape[0] == 1 else square(*shape)
    peps = PEPS(lattice, D, dtype, scheme, d)
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=peps.n_params) + 0.5
    if peps.dtype.kind == "c":
        theta = theta + 1j * rng.normal(size=peps.n_params)
    configs = rng.integers(0, d, size=(3, peps.lattice.n_sites)).astype(np.int8)
    return peps, theta.astype(peps.dtype), configs


def _dense_ratios(peps: PEPS, theta: np.ndarray, configs: np.ndarray, targets: Any) -> Any:
    """Each replaced configuration written out and contracted by the oracle."""
    tensors, d = peps.tensors(theta), peps.local_dim
    before = oracles.dense_state(tensors, peps.lattice.shape, configs)
    found = {}
    for (i, j), table in targets.items():
        found[i, j] = np.zeros((len(configs), table.shape[1]), dtype=before.dtype)
        for walker, config in enumerate(configs):
            for r, target in enumerate(table[config[i] * d + config[j]]):
                if target >= 0:
                    changed = config.copy()
                    changed[[i, j]] = divmod(target, d)
                    psi = oracles.dense_amplitude(tensors, peps.lattice.shape, changed)
                    found[i, j][walker, r] = psi / before[walker]
    return found


def _measured(peps: PEPS, theta: Any, configs: Any, targets: Any, passes: int = 1) -> Any:
    walkers = peps.start(theta, configs)
    for _ in range(passes):
        walkers, snapshot = peps.measure(theta, walkers, targets, jacobian=False)
    return {patch: to_host(ratios) for patch, ratios in snapshot.ratios.items()}


def _same(found: Any, expected: Any, tolerance: float) -> None:
    assert found.keys() == expected.keys()
    for patch, ratios in expected.items():
        scale = max(1.0, np.abs(ratios).max())
        assert np.abs(found[patch] - ratios).max() < tolerance * scale, patch


@pytest.mark.whole
@settings(max_examples=15, deadline=None)
@given(
    shape=st.sampled_from([(1, 6), (3, 3), (4, 2), (5, 1), (4, 3), (2, 5)]),
    dtype=st.sampled_from(["float64", "complex128"]),
    scheme=st.sampled_from([Exact(), SRC(10**4), ZipUp(10**4)]),
    name=st.sampled_from(sorted(TABLES)),
    passes=st.integers(1, 2),
    seed=st.integers(0, 5),
)
def test_all_pairs_are_ratios_of_dense_contractions(
    shape: Any, dtype: str, scheme: Any, name: str, passes: int, seed: int
) -> None:
    """`passes`: the source goes down whichever way the measuring pass went."""
    peps, theta, configs = _state(shape, 2, dtype, scheme, seed=seed)
    targets = dict.fromkeys(_pairs(peps.lattice.n_sites), TABLES[name])
    expected = _dense_ratios(peps, theta, configs, targets)
    _same(_measured(peps, theta, configs, targets, passes), expected, EXACT)


def test_any_subset_mixed_with_windows_and_local_dimension_three() -> None:
    peps, theta, configs = _state((4, 3), 2, "float64", Exact(), d=3)
    exchange = np.array([[b % 3 * 3 + b // 3 if b % 3 != b // 3 else -1] for b in range(9)])
    targets = {(0, 1): exchange, (0, 9): SPIN_ONE, (2, 11): exchange, (4, 7): SPIN_ONE}
    expected = _dense_ratios(peps, theta, configs, targets)
    _same(_measured(peps, theta, configs, targets), expected, EXACT)


def test_nothing_to_exchange() -> None:
    peps, theta, configs = _state((4, 3), 2, "float64", Exact())
    targets = dict.fromkeys(_pairs(12), EXCHANGE)
    found = _measured(peps, theta, np.zeros_like(configs), targets)
    assert all(not ratios.any() for ratios in found.values())


def test_in_the_namespace_of_the_walkers(xp: Any) -> None:
    peps, theta, configs = _state((4, 3), 2, "float64", SRC(3))
    targets = dict.fromkeys(_pairs(12), SOME)
    moved = dict.fromkeys(_pairs(12), xp.asarray(SOME))
    found = _measured(peps, xp.asarray(theta), xp.asarray(configs), moved)
    _same(found, _measured(peps, theta, configs, targets), 1e-9)


@pytest.mark.parametrize("chi", [4, 8])
def test_truncation_is_that_of_amplitudes(chi: int) -> None:
    """Ratios err by no more than three times what the amplitudes of full contractions do.

    Both divide two amplitudes; the source's share one boundary, so it is the better of the two.
    """
    peps, theta, configs = _state((6, 6), 3, "float64", SRC(chi), seed=1)
    rng = np.random.default_rng(2)
    configs = rng.permuted(np.tile([0, 1], (8, 18)), axis=1).astype(np.int8)
    theta = np.abs(theta) + 0.2
    pairs = [p for p in _pairs(36) if p[1] - p[0] > 12][::7]
    targets: dict[Any, Any] = dict.fromkeys(pairs, EXCHANGE)

    def full(state: PEPS) -> Any:
        psi = state.log_amplitude(theta, configs)
        return replacement_ratios(
            lambda c: state.log_amplitude(theta, c), configs, psi, targets, 2, 512
        )

    exact = full(peps.with_scheme(Exact()))
    by_source, contracted = _measured(peps, theta, configs, targets), full(peps)

    def rms(found: Any) -> float:
        return float(np.sqrt(np.mean([np.mean((found[p] - exact[p]) ** 2) for p in pairs])))

    assert 0 < rms(by_source) < 3 * rms(contracted)


def test_who_goes_by_source() -> None:
    """Neighbours keep their windows; far pairs always, and near ones where nearly all are asked."""
    nearest, found = square(8, 8).bonds["nearest"], embedding(square(8, 8))
    assert pairs_by_source(nearest, found, 4) == {}
    assert pairs_by_source((*nearest, (3, 59)), found, 4) == {(3, 59): (3, 59)}
    assert pairs_by_source(((3, 59),), found, 4, frozenset([(3, 59)])) == {}
    assert len(pairs_by_source(tuple(_pairs(64)), found, 4)) == 64 * 63 // 2
    assert pairs_by_source(((0, 1, 8, 9), (5,)), found, 4) == {}


def test_local_states_of_a_pair_begin_with_its_first_site() -> None:
    assert local_states(np.array([[1, 0]]), (0, 1), 2)[0] == 2


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_numbers_do_not_depend_on_the_walkers_beside(dtype: str) -> None:
    """`Execution.apart`: bit for bit on any number of ranks."""
    operator, rng = heisenberg(square(4, 4, "periodic")), np.random.default_rng(0)
    peps = PEPS(operator.lattice, 4, dtype, SRC(8), sharing=None)
    theta = peps.initial(operator, 0)
    configs = np.array([rng.permutation([0, 1] * 8) for _ in range(8)], dtype=np.int8)

    def ratios(rows: np.ndarray) -> np.ndarray:
        walkers = peps.start(theta, rows)
        _, snapshot = peps.measure(theta, walkers, operator.targets, jacobian=False)
        return np.concatenate([*snapshot.ratios.values()], axis=1)

    each = [ratios(configs[k : k + 1]) for k in range(8)]
    np.testing.assert_array_equal(ratios(configs), np.concatenate(each))
