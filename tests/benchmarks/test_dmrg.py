"""Operators translated for DMRG are the same matrices, and its energies those of dense sectors."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pytest

from tests.oracles import dense_hamiltonian, dense_sector, embed
from tnvmc import Operator
from tnvmc.lattice import from_bonds, kagome, square, triangular
from tnvmc.operators import heisenberg, j1j2, rydberg, tfim

pytest.importorskip("tenpy")
dmrg = pytest.importorskip("benchmarks.dmrg")

ROUNDING = 1e-12
"""Of sums of a few dozen terms of size 1."""

CONVERGED = 1e-7
"""Of energies whose sweeps changed by less than 1e-8 of them."""

OPERATORS = {
    "triangular": heisenberg(triangular(3, 2)),
    "long bonds": j1j2(square(2, 3), J2=0.7),
    "vacant places": heisenberg(kagome(3, 3)),
    "field": tfim(square(2, 3), h=0.7),
    "constants": rydberg(square(2, 3)),
    "directed": Operator.from_products(
        square(2, 3), [("Sx Sy - Sy Sx", "nearest", 0.3), ("Sx Sx + Sy Sy + 0.4 Sz Sz", "nearest")]
    ),
    "one-sided": Operator.from_terms(
        from_bonds(4, [(0, 3), (1, 2)]),
        [((3, 0), np.diag([1.0, 2.0, -0.5, 0.3])), ((1, 2), np.diag([0.0, 1.0, 4.0, 0.0]))],
    ),
    "spin 1": Operator.from_products(
        square(2, 2), [("Sx Sx + Sy Sy + Sz Sz", "nearest"), ("Sz", "all", 0.2)], local_dim=3
    ),
}


def dense(mpo) -> np.ndarray:
    """Multiply the tensors of an MPO: (d^N, d^N), first site most significant."""
    d = mpo.sites[0].dim
    rows = np.eye(mpo.chi[0])[mpo.get_IdL(0)].reshape(1, 1, -1)
    for i in range(mpo.L):
        tensor = mpo.get_W(i).transpose(["wL", "wR", "p", "p*"]).to_ndarray()
        rows = np.einsum("abl,lrpq->apbqr", rows, tensor)
        rows = rows.reshape(d ** (i + 1), d ** (i + 1), -1)
    return rows[:, :, mpo.get_IdR(mpo.L - 1)]


@pytest.mark.parametrize("name", OPERATORS)
def test_mpo_is_the_operator(name) -> None:
    operator = OPERATORS[name]
    n, d = operator.n_sites, operator.local_dim
    place = {site: rank for rank, site in enumerate(dmrg.snake(operator.lattice))}
    expected = sum(embed(t.matrix, [place[s] for s in t.sites], n, d) for t in operator.terms)
    assert np.abs(dense(dmrg.as_mpo(operator)) - expected).max() < ROUNDING


def test_snake_follows_the_shorter_side() -> None:
    assert dmrg.snake(square(3, 2)) == [0, 1, 3, 2, 4, 5]
    assert dmrg.snake(square(2, 3)) == [0, 3, 4, 1, 2, 5]
    assert dmrg.snake(kagome(3, 3)) == [0, 1, 2, 4, 3, 5, 6, 7]


def test_bonds_of_a_kind_share_their_factors() -> None:
    """Three factors (S+, S-, Sz) for each of at most 5 sites before a cut with a partner behind it."""
    assert max(dmrg.as_mpo(heisenberg(triangular(4, 4))).chi) <= 2 + 3 * 5


@pytest.mark.parametrize(("name", "sector"), [("triangular", 2), ("directed", 0), ("field", None)])
def test_energy_is_that_of_the_dense_sector(name, sector, tmp_path) -> None:
    operator, options = OPERATORS[name], _options(tmp_path, sector)
    points = dmrg.solve(operator, options)["points"]
    block = dense_hamiltonian(operator) if sector is None else dense_sector(operator, sector)
    exact = np.linalg.eigvalsh(block)[0]
    assert abs(points[-1]["energy"] - exact) < CONVERGED * abs(exact)
    assert points[0]["energy"] > exact - ROUNDING


def test_a_run_goes_on_from_its_state(tmp_path) -> None:
    """Other runs in the file stay, and the points of its own."""
    operator, options = OPERATORS["triangular"], _options(tmp_path, 0)
    dmrg.solve(operator, _options(tmp_path, 2))
    for chi in (4, 8):
        options.state, options.chi = tmp_path / "state.h5", [chi]
        dmrg.solve(operator, options)
    found = dmrg.stored(options.json)
    assert set(found) == {"small, 2 Sz = 0", "small, 2 Sz = 2"}
    points = found["small, 2 Sz = 0"]["points"]
    assert [point["chi"] for point in points] == [4, 8]
    assert points[1]["energy"] < points[0]["energy"]


@pytest.mark.parametrize("sector", [1, 8])
def test_sectors_that_do_not_exist_are_refused(sector, tmp_path) -> None:
    with pytest.raises(SystemExit, match=f"2 Sz = {sector}"):
        dmrg.solve(OPERATORS["triangular"], _options(tmp_path, sector))


def _options(folder: Path, sector: int | None) -> argparse.Namespace:
    return argparse.Namespace(
        file=Path("small.toml"), chi=[8, 16], magnetisation=sector, sweeps=20, state=None,
        json=folder / "dmrg.json",
    )  # fmt: skip


def test_terms_on_three_sites_are_refused() -> None:
    operator = Operator.from_products(square(1, 3), [("Sz Sz Sz", [(0, 1, 2)])])
    with pytest.raises(ValueError, match="0, 1, 2"):
        dmrg.as_mpo(operator)


def test_extrapolation_is_the_line_through_the_last_two() -> None:
    points = [{"energy": -1.0, "truncated": 3e-4}, {"energy": -1.2, "truncated": 1e-4}]
    found = dmrg.extrapolated(points)
    assert np.isclose(found["extrapolated"], -1.3)
    assert np.isclose(found["extrapolated_error"], 0.05)
    assert dmrg.extrapolated(points[:1]) == {}
