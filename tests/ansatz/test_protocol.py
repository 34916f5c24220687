"""What each ansatz says it can do."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tnvmc.ansatz.mps import PeriodicMPS
from tnvmc.ansatz.peps.state import PEPS
from tnvmc.ansatz.product import ProductState
from tnvmc.ansatz.protocol import (
    Ansatz,
    Execution,
    LogAmplitude,
    Snapshot,
    check_start,
    chi_of,
    with_chi,
)
from tnvmc.ansatz.wrappers.symmetrised import Symmetrised
from tnvmc.contraction.schemes import SRC, Exact
from tnvmc.lattice import chain, square
from tnvmc.operators.models import heisenberg
from tnvmc.operators.symmetry import symmetry_group

LATTICE = square(2, 2)
GROUP = symmetry_group(heisenberg(LATTICE), ["spin"])
CONFIGS = np.array([[0, 1, 0, 1]], dtype=np.int8)
ABILITIES: dict[str, Callable[[Ansatz], bool]] = {
    "drawn": lambda state: state.exact_draws is not None,
    "tempered": lambda state: state.tempered,
    "truncated": lambda state: state.scheme is not None,
    "starts": lambda state: bool(state.starts),
    "walks": lambda state: state.walks,
}


def network(kind: str) -> Any:
    pytest.importorskip("flax")
    from tnvmc.ansatz.neural import NETWORKS
    from tnvmc.ansatz.neural.flax import FlaxAnsatz

    return FlaxAnsatz(LATTICE, lambda rngs: NETWORKS[kind].load()(LATTICE, rngs=rngs))


MADE_BY = {
    "peps": lambda: PEPS(LATTICE, 2),
    "mps": lambda: PeriodicMPS(LATTICE, 2),
    "product": lambda: ProductState(LATTICE),
    "rbm": lambda: network("rbm"),
    "rnn": lambda: network("rnn"),
    "symmetrised peps": lambda: Symmetrised(PEPS(LATTICE, 2), GROUP),
    "symmetrised mps": lambda: Symmetrised(PeriodicMPS(LATTICE, 2), GROUP, reweight=False),
    "symmetrised rnn": lambda: Symmetrised(network("rnn"), GROUP),
}
EXPECTED = {
    "peps": {"drawn", "tempered", "truncated", "starts"},
    "mps": {"tempered", "starts"},
    "product": {"tempered", "starts"},
    "rbm": {"tempered", "starts", "walks"},
    "rnn": {"drawn", "tempered", "starts", "walks"},
    "symmetrised peps": {"truncated", "starts"},
    "symmetrised mps": {"starts"},
    "symmetrised rnn": {"starts"},
}


@pytest.mark.whole
@pytest.mark.parametrize("name", MADE_BY)
def test_abilities(name: str) -> None:
    ansatz: Any = MADE_BY[name]()
    assert isinstance(ansatz, Ansatz)
    assert {key for key, has in ABILITIES.items() if has(ansatz)} == EXPECTED[name]
    for kind in ansatz.starts:
        check_start(ansatz, kind)
    with pytest.raises(ValueError, match="no such start"):
        check_start(ansatz, "elsewhere")
    theta = ansatz.initial(heisenberg(LATTICE), 1)
    assert theta.shape == (ansatz.n_params,)
    walkers, uniforms = ansatz.start(theta, CONFIGS), np.zeros((1, 0))
    asked: dict[str, Callable[[], Any]] = {
        "drawn": lambda: ansatz.drawer(theta),
        "tempered": lambda: ansatz.tempered_sweep(theta, walkers, {}, uniforms, np.ones(1)),
        "truncated": lambda: ansatz.with_scheme(SRC(2)),
        "walks": lambda: ansatz.walk(theta, walkers, {}, uniforms[None], 1.0),
    }
    for key in asked.keys() - EXPECTED[name]:
        with pytest.raises(TypeError, match="has no"):
            asked[key]()


def test_how_states_want_to_be_run() -> None:
    lattice = square(8, 8)
    assert PeriodicMPS(chain(4), 2).execution == Execution()
    peps = PEPS(lattice, 4, scheme=SRC(8))
    wanted = peps.execution
    assert (wanted.chunk, wanted.own_threads) == (128, False)
    assert wanted.bytes_per_walker == 8 * (64 * (8 * 4 * 64 + 2 * 256) + 3 * 64 * 64)
    assert PEPS(lattice, 4, scheme=Exact()).execution.chunk == 32
    group = symmetry_group(heisenberg(lattice), ["spin"])
    rows = 3 * 8 * peps.n_params  # that of an image, the sum, and one on the way
    assert Symmetrised(peps, group).execution.bytes_per_walker == wanted.bytes_per_walker + rows
    assert network("rbm").execution.own_threads


def test_descriptions() -> None:
    assert PEPS(LATTICE, 3).description() == {"ansatz": "PEPS", "D": 3}
    assert PeriodicMPS(LATTICE, 2).description() == {"ansatz": "PeriodicMPS", "D": 2}
    assert ProductState(LATTICE).description() == {"ansatz": "ProductState"}
    found = Symmetrised(PEPS(LATTICE, 2), GROUP).description()
    assert found.pop("symmetrised")["elements"] == len(GROUP)
    assert found == {"ansatz": "Symmetrised", "of": "PEPS", "D": 2}
    made = network("rnn")
    assert made.description()["ansatz"] == "FlaxAnsatz"
    assert made.description()["architecture"]["network"] == "RNN"


def test_chi() -> None:
    peps = PEPS(LATTICE, 2, scheme=SRC(3))
    assert chi_of(peps) == 3 and chi_of(with_chi(peps, 5)) == 5
    both = Symmetrised(peps, GROUP)
    assert chi_of(both) == 3 and chi_of(with_chi(both, 5)) == 5
    exact = PEPS(LATTICE, 2, scheme=Exact())
    assert chi_of(exact) is None and with_chi(exact, 5) is exact
    assert chi_of(ProductState(LATTICE)) is None


@pytest.mark.parametrize("again", [copy.copy, lambda x: pickle.loads(pickle.dumps(x))])
def test_wrappers_are_copied_and_pickled(again: Any) -> None:
    """Chunks of walkers go to ranks with their ansatz."""
    state = Symmetrised(PEPS(LATTICE, 2), GROUP)
    found = again(state)
    assert type(found) is type(state) and found.scheme == state.scheme
    theta = np.random.default_rng(0).normal(size=state.n_params)
    configs = np.array([[0, 1, 1, 0]], dtype=np.int8)
    expected = state.log_amplitude(theta, configs)
    assert found.log_amplitude(theta, configs).log_abs == expected.log_abs


@pytest.mark.parametrize("dtypes", [("float64", "float64"), ("float64", "complex128")])
def test_snapshots_are_pickled_with_what_they_hold(dtypes: tuple[str, str]) -> None:
    rng = np.random.default_rng(0)
    ratios = {
        (0, 1): rng.normal(size=(5, 1)).astype(dtypes[0]),
        (2,): rng.normal(size=(5, 3)).astype(dtypes[1]),
    }
    amplitude = LogAmplitude(np.ones(5), rng.normal(size=5))
    given = Snapshot(np.zeros((5, 3), np.int8), amplitude, ratios, closure_spread=np.zeros(5))
    found = pickle.loads(pickle.dumps(given))
    assert list(found.ratios) == list(ratios)
    for patch, ratio in ratios.items():
        assert found.ratios[patch].dtype == ratio.dtype
        np.testing.assert_array_equal(found.ratios[patch], ratio)
    np.testing.assert_array_equal(found.amplitude.log_abs, amplitude.log_abs)
    assert found.weight is None and found.jacobian is None
