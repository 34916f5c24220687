"""Parameters that change the state are as many as the rank of the covariance S."""

from __future__ import annotations

import numpy as np
import pytest

from tnvmc import MPS, PEPS, Exact, chain, heisenberg, honeycomb, square, tfim
from tnvmc.lattice.lattice import Lattice
from tnvmc.sampling.enumerate import Enumerate
from tnvmc.sampling.problem import Point, Problem
from tnvmc.vmc.measurement import independent

RANK = 1e-9  # of the largest singular value; those of null directions are rounding, 1e-14


@pytest.mark.parametrize("model", [tfim, heisenberg])
@pytest.mark.parametrize(
    ("lattice", "D", "dtype"),
    [
        (square(3, 3), 2, "float64"),
        (square(2, 4), 2, "complex128"),
        (square(3, 4), 1, "float64"),
        (chain(8), 3, "float64"),  # bonds beyond d at the ends
        (chain(4), 20, "float64"),  # more parameters than states
        (honeycomb(2, 4), 3, "float64"),  # a site that one bond holds
    ],
)
def test_they_are_the_rank_of_the_covariance(
    lattice: Lattice, D: int, dtype: str, model: type
) -> None:
    operator, peps = model(lattice), PEPS(lattice, D, dtype, Exact())
    sector = lattice.n_sites % 2 if operator.conserves_magnetisation else None
    problem = Problem(peps, operator, operator.targets, {}, magnetisation=sector)
    rng = np.random.default_rng(0)
    theta = rng.normal(size=peps.n_params).astype(dtype)
    if dtype == "complex128":
        theta = theta + 1j * rng.normal(size=peps.n_params)
    snapshot = Enumerate(by_orbit=False).draw(problem, Point(theta, None), 0, True)[0]
    derivatives, weight = snapshot.jacobian.dense(), snapshot.weight
    a = np.sqrt(weight)[:, None] * (derivatives - weight @ derivatives)
    values = np.linalg.svd(a, compute_uv=False)
    assert independent(problem, sector) == int((values > RANK * values[0]).sum())


def test_null_directions_of_an_open_square() -> None:
    L, D = 6, 4
    peps = PEPS(square(L, L), D)
    assert peps.n_null == 2 * L * (L - 1) * D**2 - (L - 1) ** 2 + 1  # Wu and Nys, and the norm


def test_others_do_not_know() -> None:
    operator = tfim(chain(4, boundary="periodic"))
    assert independent(Problem.of(operator, MPS(operator.lattice, 2)), None) is None
