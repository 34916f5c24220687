"""Tensors of the bulk: which sites have one tensor, and what a PEPS with an edge is as a plain one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tnvmc import (
    PEPS,
    SRC,
    Exact,
    Lattice,
    Operator,
    heisenberg,
    honeycomb,
    load_state,
    sharing,
    square,
    tfim,
    triangular,
)
from tnvmc.ansatz.checks.conformance import check_ansatz
from tnvmc.ansatz.peps.orbits import nearest_alike
from tnvmc.ansatz.peps.sharing import Sharing

UNCUT = SRC(2**10)
ROUNDING = 1e-9  # of contractions of tensors whose entries are of both signs


def with_edge(operator: Operator, edge: int | None, period: int = 1, D: int = 2) -> PEPS:
    shares = sharing(operator, edge=edge, period=period)
    return PEPS(operator.lattice, D, scheme=UNCUT, sharing=shares)


def theta_of(peps: PEPS, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=peps.n_params)


def configs_of(lattice: Lattice, n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2, (n, lattice.n_sites)).astype(np.int8)


@given(x=st.integers(0, 30), edge=st.integers(1, 6), period=st.integers(1, 4))
def test_rows_of_the_bulk_repeat(x: int, edge: int, period: int) -> None:
    alike = nearest_alike(x, edge, period)
    assert alike == nearest_alike(alike, edge, period) <= x
    assert (x - alike) % period == 0
    assert alike == x if x < edge else edge <= alike < edge + period


@pytest.mark.parametrize(("edge", "period"), [(1, 1), (2, 1), (1, 2), (3, 2)])
@pytest.mark.parametrize("shape", [(4, 6), (6, 6), (5, 8), (7, 7), (12, 12)])
def test_tensors_of_one_quarter_are_those_of_the_edge_and_of_the_bulk(
    shape: tuple[int, int], edge: int, period: int
) -> None:
    lattice = square(*shape)
    peps = with_edge(tfim(lattice, h=2.0), edge, period)
    tensors = peps.tensors(theta_of(peps))

    def near(x: int, length: int) -> int:
        return x if 2 * x + 1 == length else nearest_alike(x, edge, period)

    for row in range(shape[0] // 2):
        for column in range(shape[1] // 2):
            one = near(row, shape[0]) * shape[1] + near(column, shape[1])
            assert (tensors[row * shape[1] + column] == tensors[one]).all()
    assert np.allclose(peps.flatten(tensors), theta_of(peps))


@pytest.mark.parametrize("edge", [1, 2])
def test_psi_has_the_symmetries_of_the_group(edge: int) -> None:
    operator = heisenberg(square(4, 6))
    peps = with_edge(operator, edge)
    theta, configs = theta_of(peps), configs_of(operator.lattice, 20)
    configs[:, 1::2] = 1 - configs[:, ::2]  # as many up as down, where signs are one factor
    found = peps.log_amplitude(theta, configs)
    for element in peps.sharing.elements:  # type: ignore[union-attr]
        moved = np.empty_like(configs)
        moved[:, list(element)] = configs
        same = peps.log_amplitude(theta, moved)
        assert np.allclose(same.log_abs, found.log_abs, atol=ROUNDING)
        ratio = same.phase * found.phase
        assert np.allclose(ratio, ratio[0])


@pytest.mark.parametrize(
    ("shape", "edge", "period", "D"),
    [
        ((4, 4), 1, 1, 2), ((4, 6), 1, 1, 2), ((5, 4), 1, 1, 2), ((6, 6), 1, 2, 2),
        ((1, 10), 1, 1, 3), ((1, 10), 1, 2, 3), ((1, 12), 2, 1, 3), ((1, 14), 2, 1, 5),
    ],
)  # fmt: skip
def test_null_directions_are_counted(
    shape: tuple[int, int], edge: int, period: int, D: int
) -> None:
    """The rank of the log-derivatives is what `n_null` says, by singular values."""
    operator = tfim(square(*shape), h=2.0)
    peps = with_edge(operator, edge, period, D)
    configs = configs_of(operator.lattice, 3 * peps.n_params)
    walkers = peps.start(theta_of(peps), configs)
    rows = peps.measure(theta_of(peps), walkers, {})[1].jacobian.dense()  # type: ignore[union-attr]
    values = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False)
    assert int((values > ROUNDING * values[0]).sum()) == peps.n_params - peps.n_null


def test_numbers_of_parameters_do_not_grow_with_the_lattice() -> None:
    numbers = {with_edge(tfim(square(L, L), h=3.0), 2).n_params for L in (6, 8, 10, 20)}
    whole = with_edge(tfim(square(6, 6), h=3.0), None).n_params
    assert len(numbers) == 1 and numbers == {whole}


def test_an_edge_beyond_the_middle_changes_nothing() -> None:
    operator = heisenberg(square(4, 4))
    assert with_edge(operator, 9).n_params == with_edge(operator, None).n_params


def test_a_state_with_an_edge_passes_the_conformance_suite() -> None:
    operator = heisenberg(square(4, 4))
    peps = PEPS(operator.lattice, 2, scheme=Exact(), sharing=sharing(operator, edge=1))
    check_ansatz(peps, theta_of(peps))


def test_an_edge_is_stored(tmp_path: object) -> None:
    operator = heisenberg(square(4, 6))
    shares = sharing(operator, edge=1, period=2)
    assert Sharing.of(shares.told()) == shares
    assert "edge" not in sharing(operator).told()  # files of before keep their description
    peps = PEPS(operator.lattice, 2, sharing=shares)
    path = f"{tmp_path}/state.h5"
    peps.save(path, theta_of(peps))
    loaded, theta = load_state(path)
    assert loaded.sharing == shares and (theta == theta_of(peps)).all()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "operator",
    [heisenberg(triangular(4, 4)), heisenberg(honeycomb(6, 6))],
    ids=["no reflections", "bonds at other places"],
)
def test_lattices_without_a_bulk_are_refused(operator: Operator) -> None:
    with pytest.raises(ValueError, match="edge"):
        PEPS(operator.lattice, 2, sharing=sharing(operator, edge=1))


@pytest.mark.parametrize(("edge", "period"), [(0, 1), (-1, 1), (True, 1), (1, 0), (None, 2)])
def test_numbers_that_are_no_edge_are_refused(edge: int | None, period: int) -> None:
    with pytest.raises(ValueError, match="edge"):
        sharing(heisenberg(square(4, 4)), edge=edge, period=period)
