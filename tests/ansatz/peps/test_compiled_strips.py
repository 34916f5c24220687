"""Compiled kernels against NumPy: the same spins, the same numbers up to rounding."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from tnvmc import PEPS, SRC, Exact, ZipUp, heisenberg, j1j2, square, tfim
from tnvmc.ansatz.protocol import Snapshot, SweepInfo, Walkers
from tnvmc.backend import host
from tnvmc.backend.random import uniforms
from tnvmc.operators.term import Operator
from tnvmc.sampling.configurations import initial_configs
from tnvmc.sampling.moves import moves_for

if os.environ.get("TNVMC_KERNELS") == "numpy":
    pytest.skip("compiled kernels are switched off", allow_module_level=True)

N_WALKERS = 11  # fills no vector
N_SWEEPS = 2
ROUNDING = {"float64": 1e-9, "complex128": 1e-9, "float32": 5e-3, "complex64": 5e-3}
"""Relative, of ratios and derivatives: 2e-16 and 1e-7, times what small ratios make of them."""


def _spin_one(n_rows: int, n_cols: int) -> Operator:
    """A bilinear-biquadratic model of spins 1: tables of several choices."""
    plus, z = np.diag([np.sqrt(2.0)] * 2, 1), np.diag([1.0, 0.0, -1.0])
    bond = np.kron(z, z) + 0.5 * (np.kron(plus, plus.T) + np.kron(plus.T, plus))
    lattice = square(n_rows, n_cols)
    terms = [(pair, bond + 0.3 * bond @ bond) for pair in lattice.bonds["nearest"]]
    return Operator.from_terms(lattice, terms, local_dim=3)


CASES: dict[str, tuple[Operator, dict[str, Any]]] = {
    "rows": (heisenberg(square(4, 3)), {"D": 3, "scheme": SRC(4)}),
    "both views": (heisenberg(square(4, 5)), {"D": 4, "scheme": SRC(5)}),
    "chi at most D": (heisenberg(square(5, 4)), {"D": 3, "scheme": SRC(2)}),
    "nothing cut": (heisenberg(square(4, 3)), {"D": 2, "scheme": SRC(16)}),
    "diagonals": (j1j2(square(3, 4), J2=0.5), {"D": 2, "scheme": SRC(4)}),
    "one site": (tfim(square(4, 4), h=2.0), {"D": 3, "scheme": SRC(5)}),
    "wide windows": (heisenberg(square(3, 4, boundary="cylinder")), {"D": 2, "scheme": SRC(4)}),
    "three states": (_spin_one(3, 4), {"D": 2, "scheme": SRC(4), "local_dim": 3}),
    "one row": (heisenberg(square(1, 8)), {"D": 4, "scheme": SRC(4)}),
    "one column": (heisenberg(square(8, 1)), {"D": 4, "scheme": SRC(4)}),
    "complex": (heisenberg(square(4, 4)), {"D": 2, "scheme": SRC(4), "dtype": "complex128"}),
    "complex, both views": (
        heisenberg(square(4, 4)),
        {"D": 4, "scheme": SRC(6), "dtype": "complex128"},
    ),
    "complex, single": (heisenberg(square(4, 3)), {"D": 3, "scheme": SRC(4), "dtype": "complex64"}),
    "single": (heisenberg(square(4, 4)), {"D": 3, "scheme": SRC(5), "dtype": "float32"}),
    "zip-up": (heisenberg(square(4, 4)), {"D": 2, "scheme": ZipUp(4)}),
    "exact": (heisenberg(square(4, 4)), {"D": 2, "scheme": Exact()}),
}


def _ran(
    operator: Operator, peps: PEPS, power: Any = 1.0
) -> tuple[Walkers, SweepInfo, Snapshot, list[np.ndarray]]:
    moves = moves_for(operator)
    theta = peps.random(0) if hasattr(peps, "random") else peps.initial(operator, 0, "random")
    noise = np.random.default_rng(3).normal(size=(2, theta.size)).astype(theta.real.dtype)
    theta = theta + 0.05 * (noise[0] + 1j * noise[1] if theta.dtype.kind == "c" else noise[0])
    theta = theta.astype(peps.dtype)
    walkers = peps.start(theta, initial_configs(operator, N_WALKERS, seed=1))
    seen = []
    for sweep in range(N_SWEEPS):
        drawn = uniforms(5, (0, sweep), range(N_WALKERS), len(moves))
        walkers, info = peps.tempered_sweep(theta, walkers, moves, drawn, power)
        seen.append(walkers.configs)
    walkers, snapshot = peps.measure(theta, walkers, operator.targets)
    return walkers, info, snapshot, seen


@pytest.mark.whole
@pytest.mark.parametrize("case", CASES)
def test_kernels_give_what_numpy_gives(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    operator, options = CASES[case]
    peps = PEPS(operator.lattice, **options)
    assert host.available()
    _, info, snapshot, seen = _ran(operator, peps)
    monkeypatch.setattr(host, "available", lambda: False)
    _, by_numpy, reference, seen_by_numpy = _ran(operator, PEPS(operator.lattice, **options))
    tolerance = ROUNDING[peps.dtype.name]
    assert all(map(np.array_equal, seen, seen_by_numpy))
    for counted, wanted in zip(vars(info).values(), vars(by_numpy).values(), strict=True):
        np.testing.assert_array_equal(counted, wanted)
    np.testing.assert_allclose(
        snapshot.amplitude.log_abs, reference.amplitude.log_abs, atol=100 * tolerance, rtol=0
    )
    np.testing.assert_allclose(snapshot.amplitude.phase, reference.amplitude.phase, atol=tolerance)
    for patch, ratios in reference.ratios.items():
        found = snapshot.ratios[patch]
        np.testing.assert_allclose(found, ratios, rtol=tolerance, atol=tolerance)
    assert snapshot.jacobian is not None and reference.jacobian is not None
    dense, wanted_dense = snapshot.jacobian.dense(), reference.jacobian.dense()
    scale = np.abs(wanted_dense).max()
    np.testing.assert_allclose(dense, wanted_dense, atol=tolerance * scale, rtol=tolerance)


def test_walkers_of_other_powers(monkeypatch: pytest.MonkeyPatch) -> None:
    operator, options = CASES["rows"]
    power = np.linspace(0.0, 1.0, N_WALKERS)
    *_, seen = _ran(operator, PEPS(operator.lattice, **options), power)
    monkeypatch.setattr(host, "available", lambda: False)
    *_, wanted = _ran(operator, PEPS(operator.lattice, **options), power)
    assert all(map(np.array_equal, seen, wanted))


def test_walkers_start_outside_the_support() -> None:
    """psi vanishes at every configuration but one: walkers wander, ratios there are zero."""
    operator = heisenberg(square(2, 2))
    peps = PEPS(operator.lattice, 1)
    tensors = [np.zeros(shape) for shape in peps.shapes]
    for site, tensor in enumerate(tensors):
        tensor[(site + site // 2) % 2] = 1.0
    theta = np.asarray(peps.flatten(tensors))
    configs = np.array([[0, 0, 1, 1], [0, 1, 1, 0]], np.int8)
    walkers = peps.start(theta, configs)
    walkers, snapshot = peps.measure(theta, walkers, operator.targets)
    outside = snapshot.amplitude.phase == 0
    np.testing.assert_array_equal(outside, [True, False])
    assert all(np.all(ratios[outside] == 0) for ratios in snapshot.ratios.values())
    for sweep in range(60):
        drawn = uniforms(1, (0, sweep), range(2), len(moves_for(operator)))
        walkers, _ = peps.sweep(theta, walkers, moves_for(operator), drawn)
    np.testing.assert_array_equal(walkers.configs, [[0, 1, 1, 0]] * 2)


@pytest.mark.parametrize("spin", [2, -1])
def test_spins_that_are_no_local_states_are_refused(spin: int) -> None:
    peps = PEPS(square(3, 3), 2)
    configs = np.zeros((3, 9), np.int8)
    configs[1, 4] = spin
    with pytest.raises(IndexError):
        peps.start(peps.initial(heisenberg(square(3, 3)), 0, "random"), configs)


@pytest.mark.parametrize("spin", [256, 1.0])
def test_configurations_of_other_types(spin: float) -> None:
    """256 is no 0 of another size; whole numbers of a wider type give what int8 gives."""
    operator = heisenberg(square(3, 2))
    peps = PEPS(operator.lattice, 2)
    theta = peps.initial(operator, 0, "random")
    configs = np.array([[0, 1, 1, 0, 0, 1]], np.int64)
    if spin > 1:
        configs[0, 0] = spin
        with pytest.raises(IndexError):
            peps.start(theta, configs)
        return
    walkers = peps.start(theta, configs)
    narrow = peps.start(theta, configs.astype(np.int8))
    np.testing.assert_array_equal(walkers.amplitude.log_abs, narrow.amplitude.log_abs)
    drawn = uniforms(1, (0, 0), range(1), len(moves_for(operator)))
    swept, _ = peps.sweep(theta, walkers, moves_for(operator), drawn)
    assert swept.configs.dtype == np.int64


def test_shapes_that_do_not_fit_are_refused() -> None:
    """Kernels read arrays without looking where they end."""
    operator = heisenberg(square(4, 4))
    peps = PEPS(operator.lattice, 3)
    theta = peps.initial(operator, 0, "random")
    configs = initial_configs(operator, 9, seed=1)
    walkers, moves = peps.start(theta, configs), moves_for(operator)
    drawn = uniforms(5, (0, 0), range(9), len(moves))
    tables = {
        "no choice": {patch: table[:, :0] for patch, table in moves.items()},
        "no such state": {patch: np.full((4, 1), 9) for patch in moves},
        "too few states": {patch: table[:2] for patch, table in moves.items()},
    }
    for wrong in tables.values():
        with pytest.raises(IndexError):
            peps.sweep(theta, walkers, wrong, drawn)
        with pytest.raises(IndexError):
            peps.measure(theta, walkers, wrong)
    for wrong_draws in (drawn[:3], drawn[:, :3]):
        with pytest.raises(IndexError):
            peps.sweep(theta, walkers, moves, wrong_draws)
    for wrong_configs, error in (
        (configs[:, :12], IndexError),
        (configs[0], IndexError),
        (configs + 0.5, TypeError),
    ):
        with pytest.raises(error):
            peps.log_amplitude(theta, wrong_configs)


def test_views_follow_the_type_of_theta() -> None:
    operator = heisenberg(square(3, 4))
    peps = PEPS(operator.lattice, 2)
    theta = peps.initial(operator, 0, "random").astype(np.float32)
    configs = initial_configs(operator, 2, seed=1)
    for dtype in ("float32", "float64", "complex128", "float64"):
        assert peps.log_amplitude(theta.astype(dtype), configs).phase.dtype == dtype


@pytest.mark.parametrize("n_walkers", [1, 2])
def test_chunks_of_one_walker_reach_far_pairs(n_walkers: int) -> None:
    operator = j1j2(square(4, 3, boundary="cylinder"), J2=0.3)
    peps = PEPS(operator.lattice, 4, scheme=SRC(3))
    theta = peps.initial(operator, 0, "random")
    configs = initial_configs(operator, 4, seed=1)
    whole = peps.measure(theta, peps.start(theta, configs), operator.targets)[1]
    part = peps.measure(theta, peps.start(theta, configs[:n_walkers]), operator.targets)[1]
    for patch, ratios in part.ratios.items():
        np.testing.assert_allclose(ratios, whole.ratios[patch][:n_walkers], rtol=1e-9, atol=1e-12)


def test_boundaries_of_other_walkers_are_refused() -> None:
    operator = heisenberg(square(4, 4))
    peps = PEPS(operator.lattice, 3)
    theta = peps.initial(operator, 0, "random")
    configs = initial_configs(operator, 9, seed=1)
    for n_walkers, others in ((1, 9), (3, 9), (9, 3)):
        few = peps.start(theta, configs[:n_walkers])
        wrong = Walkers(configs[:others], few.amplitude, few.cache)
        with pytest.raises(ValueError):
            peps.measure(theta, wrong, operator.targets)


def test_tables_that_are_changed_in_place_are_read_again() -> None:
    """How windows are laid out is kept from step to step, told apart by what their tables hold."""
    peps, pair = PEPS(square(3, 3), 2, scheme=Exact()), (0, 1)
    operator = heisenberg(square(3, 3))
    theta = peps.initial(operator, kind="random")
    configs = np.array([[0, 1, 0, 1, 0, 1, 0, 1, 0]], np.int8)
    table = np.array([[0], [1], [2], [3]])  # each state by itself
    walkers = peps.start(theta, configs)

    def ratio() -> float:
        return float(peps.measure(theta, walkers, {pair: table})[1].ratios[pair][0, 0].real)

    itself = ratio()
    table[:] = [[0], [2], [1], [3]]
    flipped = np.array([[1, 0, 0, 1, 0, 1, 0, 1, 0]], np.int8)
    expected = np.exp(
        peps.log_amplitude(theta, flipped).log_abs - peps.log_amplitude(theta, configs).log_abs
    )
    assert itself == pytest.approx(1, rel=ROUNDING["float64"])
    assert abs(ratio()) == pytest.approx(expected[0], rel=ROUNDING["float64"])


def test_kernels_free_what_they_allocate() -> None:
    """A pass of the compiler that was left out once took the frees with it: 0.5 GiB a step."""
    from numba.core.runtime import _nrt_python, rtsys

    operator = heisenberg(square(4, 4))
    peps = PEPS(operator.lattice, 2, scheme=SRC(4), sharing=None)
    theta, moves = np.random.default_rng(0).normal(size=peps.n_params), moves_for(operator)
    walkers = peps.start(theta, initial_configs(operator, 4, seed=0))
    numbers = np.full((4, len(moves)), 0.3)
    _nrt_python.memsys_enable_stats()
    try:
        before = rtsys.get_allocation_stats()
        walkers, _ = peps.sweep(theta, walkers, moves, numbers)
        peps.measure(theta, walkers, operator.targets)
        after = rtsys.get_allocation_stats()
    finally:
        _nrt_python.memsys_disable_stats()
    assert after.alloc > before.alloc
    assert after.alloc - before.alloc == after.free - before.free
