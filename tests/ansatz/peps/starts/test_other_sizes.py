"""A PEPS with a bulk begins on lattices of other sizes, with wider edges and with larger D."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tnvmc import PEPS, SRC, Operator, heisenberg, j1j2, sharing, square, tfim
from tnvmc.ansatz.initial import initial_parameters
from tnvmc.ansatz.peps.starts.other_sizes import repeated
from tnvmc.storage.hdf5 import StateFileError

ROUNDING = 1e-9  # of contractions of tensors whose entries are of both signs
SCHEME = SRC(64)


def ising(*shape: int) -> Operator:
    return tfim(square(*shape), h=2.0)


def state(
    operator: Operator, edge: int | None = 1, period: int = 1, D: int = 2, **more: Any
) -> PEPS:
    shares = sharing(operator, edge=edge, period=period)
    return PEPS(operator.lattice, D, scheme=SCHEME, sharing=shares, **more)


def theta_of(peps: PEPS) -> np.ndarray:
    return np.random.default_rng(0).normal(size=peps.n_params)


def log_psi(peps: PEPS, theta: np.ndarray) -> np.ndarray:
    n_sites = peps.lattice.n_sites
    configs = np.random.default_rng(1).integers(0, 2, (16, n_sites)).astype(np.int8)
    found = peps.log_amplitude(theta, configs)
    return np.concatenate([found.log_abs, found.phase])


@pytest.mark.parametrize("wider", [2, None])
def test_a_wider_edge_is_the_same_state(wider: int | None) -> None:
    before, after = state(ising(6, 6)), state(ising(6, 6), wider)
    theta = theta_of(before)
    found = repeated(before, theta, after)
    assert found.size > theta.size
    assert np.allclose(log_psi(after, found), log_psi(before, theta), atol=ROUNDING)


@pytest.mark.parametrize("edge", [1, 2, None])
@pytest.mark.parametrize("shape", [(8, 8), (6, 10)])
def test_a_larger_lattice_has_the_tensors_of_the_smaller_one(
    shape: tuple[int, int], edge: int | None
) -> None:
    small, large = state(ising(6, 6)), state(ising(*shape), edge)
    theta = theta_of(small)
    tensors, wide = small.tensors(theta), large.tensors(repeated(small, theta, large))
    for row in range(shape[0] // 2):
        for column in range(shape[1] // 2):
            one = tensors[min(row, 1) * 6 + min(column, 1)]
            assert np.array_equal(np.abs(wide[row * shape[1] + column]), np.abs(one))


def test_a_smaller_lattice_takes_them_too() -> None:
    small, large = state(ising(6, 6)), state(ising(8, 8))
    theta = theta_of(large)
    there = repeated(large, theta, small)
    assert np.array_equal(there, theta)  # the same tensors are free


def test_a_period_is_kept_in_step() -> None:
    small, large = state(ising(8, 8), 1, 2), state(ising(12, 12), 1, 2)
    theta = theta_of(small)
    assert np.array_equal(repeated(small, theta, large), theta)
    with pytest.raises(ValueError, match="period"):
        repeated(small, theta, state(ising(10, 10), 1, 2))
    with pytest.raises(ValueError, match="period"):
        repeated(small, theta, state(ising(8, 8), 1, 1))


def uneven(*shape: int) -> Operator:
    """Bonds along rows are weaker, so rows and columns are not alike."""
    lattice = square(*shape)
    weak = {(i, j): 0.3 if j == i + 1 else 1.0 for i, j in lattice.bonds["nearest"]}
    return tfim(lattice, J=weak, h=2.0)


@pytest.mark.parametrize("shape", [(6, 6), (8, 8)])
def test_fewer_symmetries_go_on_as_fewer_alone(shape: tuple[int, int]) -> None:
    before, theta = state(uneven(6, 6)), theta_of(state(uneven(6, 6)))
    assert len(before.sharing or ()) == 4
    with pytest.raises(ValueError, match="symmetr"):
        repeated(before, theta, state(ising(*shape), 2))
    repeated(before, theta, state(uneven(*shape), 2))
    all_of_them = state(ising(6, 6))
    found = repeated(all_of_them, theta_of(all_of_them), state(uneven(6, 6)))
    assert np.allclose(
        log_psi(state(uneven(6, 6)), found),
        log_psi(all_of_them, theta_of(all_of_them)),
        atol=ROUNDING,
    )


def mixed(along_rows: float, along_columns: float, shape: tuple[int, int] = (6, 6)) -> Operator:
    """Bonds of one direction are ferromagnetic, those of the other are not."""
    lattice = square(*shape)
    J = {(i, j): along_rows if j == i + 1 else along_columns for i, j in lattice.bonds["nearest"]}
    return tfim(lattice, J=J, h=2.0)


def test_signs_are_those_of_the_same_bonds() -> None:
    before = state(mixed(1.0, -1.0))
    repeated(before, theta_of(before), state(mixed(1.0, -1.0), 2))
    with pytest.raises(ValueError, match="signs"):
        repeated(before, theta_of(before), state(mixed(-1.0, 1.0), 2))


def test_a_ring_without_translations_is_as_any_columns() -> None:
    def ring(columns: int) -> PEPS:
        operator = heisenberg(square(6, columns, "cylinder"))
        shares = sharing(operator, edge=1, bonds="periodic")
        return PEPS(operator.lattice, 2, scheme=SCHEME, sharing=shares, bonds="periodic")

    before = ring(5)
    for columns in (4, 6, 7):
        with pytest.raises(ValueError, match=r"columns|rows"):
            repeated(before, theta_of(before), ring(columns))


def test_columns_of_a_ring_repeat_as_its_translations_say() -> None:
    """Columns of two strengths: a reflection takes the first two to each other, and no translation by one does."""

    def dimers(rows: int, columns: int, edge: int) -> PEPS:
        lattice = square(rows, columns, "cylinder")
        left = [
            max(i, j) if abs(i - j) == columns - 1 else min(i, j)
            for i, j in lattice.bonds["nearest"]
        ]
        along = [i // columns == j // columns for i, j in lattice.bonds["nearest"]]
        J = [0.5 if row and i % 2 else 1.0 for i, row in zip(left, along, strict=True)]
        operator = heisenberg(lattice, J=J)
        shares = sharing(operator, edge=edge, bonds="periodic")
        return PEPS(lattice, 2, scheme=SCHEME, sharing=shares, bonds="periodic")

    before = dimers(8, 4, 2)
    theta = theta_of(before)
    for rows, columns, edge in ((8, 4, 3), (10, 4, 2), (8, 6, 2), (8, 8, 2)):
        after = dimers(rows, columns, edge)
        tensors = after.tensors(repeated(before, theta, after))
        for row in range(4):
            for column in range(columns):
                wanted = before.tensors(theta)[row * 4 + column % 4]
                found = tensors[row * columns + column]
                assert np.array_equal(abs(found), abs(wanted))  # bonds in the middle have signs
                assert columns != 4 or rows != 8 or np.array_equal(found, wanted)


def test_a_complex_start_is_no_real_one(tmp_path: Path) -> None:
    before, operator = state(ising(6, 6), dtype="complex128"), ising(8, 8)
    before.save(tmp_path / "state.h5", theta_of(before).astype(np.complex128))
    with pytest.raises(StateFileError, match="complex128"):
        initial_parameters(
            state(operator, dtype="float64"), operator, kind=str(tmp_path / "state.h5")
        )


def test_a_rectangle_goes_on_as_a_square() -> None:
    before = state(ising(6, 8))
    assert (
        repeated(before, theta_of(before), state(ising(8, 8))).size == state(ising(8, 8)).n_params
    )


@pytest.mark.parametrize(
    ("before", "after", "code"),
    [
        (state(heisenberg(square(6, 6))), state(j1j2(square(6, 6), J2=0.7)), "sublattices"),
        (state(j1j2(square(6, 6), J2=0.7)), state(heisenberg(square(8, 8))), "sublattices"),
        (state(ising(6, 6), None), state(ising(8, 8)), "edge"),
        (state(ising(6, 6), 2), state(ising(6, 6), 1), "edge"),
        (state(ising(6, 6), 2), state(ising(8, 8), 2), "neighbour"),
        (state(ising(7, 7)), state(ising(8, 8)), "7 rows"),
        (state(ising(6, 6)), state(ising(8, 8), D=3), "D ="),
        (state(heisenberg(square(6, 6))), state(ising(8, 8)), "signs"),
    ],
)
def test_what_does_not_fit_is_refused(before: PEPS, after: PEPS, code: str) -> None:
    with pytest.raises(ValueError, match=code):
        repeated(before, theta_of(before), after)


def test_a_file_is_a_start_on_another_lattice_and_grows(tmp_path: Path) -> None:
    before, path = state(ising(6, 6)), tmp_path / "state.h5"
    theta = theta_of(before)
    before.save(path, theta)
    operator = ising(8, 8)
    same = initial_parameters(state(operator), operator, kind=str(path))
    assert np.array_equal(same, theta)
    large = state(operator, 2, D=3)
    grown = large.tensors(initial_parameters(large, operator, kind=str(path)))
    wide = state(operator, 2)
    for new, old in zip(grown, wide.tensors(repeated(before, theta, wide)), strict=True):
        assert np.array_equal(new[tuple(map(slice, old.shape))], old)


def test_a_file_of_another_kind_of_lattice_is_refused(tmp_path: Path) -> None:
    before, path = state(heisenberg(square(6, 6))), tmp_path / "state.h5"
    before.save(path, theta_of(before))
    operator = j1j2(square(8, 8), J2=0.5)
    assert initial_parameters(state(operator), operator, kind=str(path)).size == before.n_params
    plain = PEPS(operator.lattice, 2)
    with pytest.raises(StateFileError, match="sharing|holds"):
        initial_parameters(plain, operator, kind=str(path))
    smaller = state(operator, D=1)
    with pytest.raises(StateFileError, match="state"):
        initial_parameters(smaller, operator, kind=str(path))
