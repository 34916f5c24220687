"""Momenta of S(q): they fit the rings, fill the zone, and the points of high symmetry are among them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tnvmc.estimate.momenta import (
    momenta,
    momentum_shape,
    structure_factor,
    symmetric_points,
    zone_of,
)
from tnvmc.lattice import GRIDS, Lattice, from_bonds, honeycomb, kagome, square, triangular

HEXAGONAL = {
    "triangular": 1.0,
    "honeycomb": np.sqrt(3),
    "kagome": 2.0,
}  # lengths of the translations
ROUNDING = 1e-9


HONEYCOMB = [(0.866 * k, 0.5 + 0.5 * (k % 2)) for k in range(5)]


def test_momenta_of_sites_off_the_grid() -> None:
    """Over a plane that reaches beyond the peaks of honeycombs, -q with every q; a line has a chain."""
    lattice = from_bonds((2, 5), [(0, 1)], [*HONEYCOMB, *((x, -y) for x, y in HONEYCOMB)])
    q = momenta(lattice)
    assert zone_of(lattice) == "plane" and np.prod(momentum_shape(lattice)) == len(q)
    assert np.abs(q).max() >= 4 * np.pi / 3
    assert {tuple(each) for each in q.round(9) + 0.0} == {tuple(each) for each in -q.round(9) + 0.0}
    steps = np.diff(np.unique(q[:, 0].round(9)))
    assert steps.max() < 2 * np.pi / np.ptp(
        lattice.positions()[:, 0]
    )  # finer than the patch resolves
    matrix = np.eye(10)
    assert np.allclose(structure_factor(lattice, matrix), 1.0)  # no correlations: flat
    line = from_bonds(3, [(0, 1)], [(0.0, 2.0), (1.5, 2.0), (3.0, 2.0)])
    assert zone_of(line) == "chain" and not momenta(line)[:, 1].any()
    assert zone_of(square(3, 3)) == "square" and zone_of(square(1, 12)) == "chain"
    assert momentum_shape(square(2, 3)) == (2, 3)


@pytest.mark.parametrize("boundary", ["open", "cylinder", "periodic"])
@pytest.mark.parametrize("kind", ["triangular", "honeycomb", "kagome"])
def test_momenta_fit_the_rings_of_a_lattice(kind: str, boundary: str) -> None:
    """Once round a ring changes no phase, so S(q) is the same whichever image of a site is meant."""
    lattice = GRIDS[kind](4, 6, boundary)
    q, n = momenta(lattice), lattice.n_sites
    assert np.allclose(np.sort(q.round(9), axis=0), np.sort((-q).round(9), axis=0))
    matrix = np.random.default_rng(0).normal(size=(n, n))
    matrix += matrix.T
    expected = structure_factor(lattice, matrix)
    (down, right), (n_rows, n_cols) = np.array(lattice.cell), lattice.shape
    rounds = [round_ * wraps for round_, wraps in zip((n_rows * down, n_cols * right), lattice.periodic, strict=True)]  # fmt: skip
    for vector in rounds:
        moved = lattice.coordinates + np.outer(np.arange(n) % 3 - 1, vector)
        assert np.allclose(structure_factor(replace(lattice, coordinates=moved), matrix), expected)


def test_120_degree_order_peaks_at_the_corners_of_the_zone() -> None:
    lattice = triangular(6, 6, "periodic")
    rows, columns = np.divmod(np.arange(36), 6)
    order = np.exp(2j * np.pi / 3 * (columns - rows))
    factor, q = structure_factor(lattice, np.outer(order, order.conj()).real), momenta(lattice)
    corner = np.abs(q - (4 * np.pi / 3, 0)).max(axis=1) < 1e-9
    assert corner.sum() == 1 and factor[corner] == pytest.approx(18)
    assert factor.max() == pytest.approx(18)


def _random_factor(lattice: Lattice, q: np.ndarray) -> np.ndarray:
    """S(q) of random spins, at any q."""
    spins = np.random.default_rng(0).normal(size=lattice.n_sites)
    return np.abs(np.exp(1j * q @ lattice.positions().T) @ spins) ** 2 / lattice.n_sites


@pytest.mark.parametrize("kind", HEXAGONAL)
def test_the_extended_zone_holds_all_that_a_factor_knows(kind: str) -> None:
    """S(q) repeats by twice each M of it, and by no shorter vector; -q and q, rim and rim belong together."""
    lattice = GRIDS[kind](4, 6)
    q, points = momenta(lattice), symmetric_points(lattice)
    name = "M" if kind == "triangular" else "extended M"
    values = _random_factor(lattice, q)
    for edge in points[name]:
        assert np.allclose(_random_factor(lattice, q + 2 * edge), values)
        assert not np.allclose(_random_factor(lattice, q + edge), values)
        assert (q @ edge <= edge @ edge * (1 + ROUNDING)).all()
    assert {tuple(each) for each in q.round(6) + 0.0} == {tuple(each) for each in -q.round(6) + 0.0}
    assert zone_of(lattice) == "hexagon"


@pytest.mark.parametrize("kind", HEXAGONAL)
def test_points_of_high_symmetry(kind: str) -> None:
    """On open patches all are among the momenta; M is half, K a third of vectors of the reciprocal lattice."""
    lattice, spacing = GRIDS[kind](4, 4), HEXAGONAL[kind]
    q, points = momenta(lattice), symmetric_points(lattice)
    for places in points.values():
        assert all(np.abs(q - place).max(axis=1).min() < ROUNDING for place in places)
    translations = np.array(lattice.period) @ np.array(lattice.cell)[:, ::-1]
    assert np.allclose(np.linalg.norm(translations, axis=1), spacing)
    for name, part in (("M", 2), ("K", 3)):
        turns = points[name] @ translations.T / (2 * np.pi) * part
        assert np.allclose(turns, turns.round()) and len({*map(tuple, points[name].round(6))}) == 6
    assert np.allclose(np.linalg.norm(points["M"], axis=1), 2 * np.pi / np.sqrt(3) / spacing)
    assert np.allclose(np.linalg.norm(points["K"], axis=1), 4 * np.pi / 3 / spacing)


def test_a_neel_state_of_the_honeycomb_peaks_at_the_corners_of_the_extended_zone() -> None:
    """There its sublattices have phases 1 and -exp(2 pi i / 3): |1 - exp(2 pi i / 3)|^2 = 3 of 4."""
    lattice = honeycomb(4, 6)
    order = (-1.0) ** np.add(*np.divmod(np.arange(24), 6))
    factor, q = structure_factor(lattice, np.outer(order, order)), momenta(lattice)
    for corner in symmetric_points(lattice)["extended K"]:
        (place,) = np.flatnonzero(np.abs(q - corner).max(axis=1) < ROUNDING)
        assert factor[place] == pytest.approx(24 * 3 / 4) == factor.max()


@pytest.mark.parametrize(("turns", "name"), [((0, 0), "extended M"), ((1, 2), "extended K")])
def test_orders_of_the_kagome_lattice(turns: tuple[int, int], name: str) -> None:
    """Three directions in every triangle, equal in all cells (q = 0), or turned from cell to cell (sqrt 3 x sqrt 3)."""
    lattice = kagome(6, 6, "periodic")
    rows, columns = np.divmod(np.array(lattice.places), 6)
    thirds = columns % 2 + 2 * (rows % 2) + turns[0] * (rows // 2) + turns[1] * (columns // 2)
    first, second = np.array(lattice.bonds["nearest"]).T
    assert ((thirds[first] - thirds[second]) % 3 != 0).all()
    order = np.exp(2j * np.pi / 3 * thirds)
    factor, q = structure_factor(lattice, np.outer(order, order.conj()).real), momenta(lattice)
    top = q[np.isclose(factor, factor.max())]
    assert np.allclose(np.sort(top, axis=0), np.sort(symmetric_points(lattice)[name], axis=0))


def test_patches_without_a_zone_have_none() -> None:
    for lattice in (square(3, 3), triangular(1, 6), kagome(1, 5)):
        assert symmetric_points(lattice) == {} and zone_of(lattice) in ("square", "chain")
    assert zone_of(honeycomb(1, 6)) == "plane"
