"""Conjugate gradients in the space of samples with columns of the matrix: the solution stays, iterations go."""

from __future__ import annotations

import numpy as np
import pytest

from tests.optimize.problems import random_numbers
from tnvmc.backend.process import using_threads
from tnvmc.jacobian import gram_operator
from tnvmc.jacobian.centered import CenteredJacobian, SampleSpace, in_sample_space
from tnvmc.jacobian.dense import DenseJacobian, as_base
from tnvmc.jacobian.gram_operator import GramOperator
from tnvmc.jacobian.slices import SliceJacobian
from tnvmc.optimize.conjugate_gradients import ConjugateGradients, preconditioner

M = 200
TIGHT = ConjugateGradients(1e-11)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gram_operator, "_ROWS", 64)
    monkeypatch.setattr(gram_operator, "_BLOCKS_OF_A_PRODUCT", 3)
    monkeypatch.setattr(gram_operator, "_PRODUCTS_AT_ONCE", 1)


def jacobian(kind: str) -> CenteredJacobian:
    """With eigenvalues over several orders of magnitude, as those of states have."""
    rng = np.random.default_rng(3)
    widths = (40, 90, 70, 40)
    complex_ = kind.startswith("complex")
    strength = np.exp(-np.arange(90) / 1.5)
    mixing = random_numbers(rng, (90, 90), complex_) * strength[:, None]
    slices = [random_numbers(rng, (M, 90), complex_) @ mixing[:, :w] + 0.3 for w in widths]
    spins = rng.integers(2, size=(M, 4)).astype(np.int8)
    weight = rng.uniform(0.5, 1.5, size=M)
    found = SliceJacobian(slices, spins)
    if kind == "dense":
        return CenteredJacobian(DenseJacobian(found.dense()), weight / weight.sum())
    if kind == "complex, two parts":
        return CenteredJacobian(as_base(found).stacked_real(), weight / weight.sum(), parts=2)
    if kind == "single":
        found = SliceJacobian([x.astype(np.float32) for x in slices], spins)
    return CenteredJacobian(found, weight / weight.sum())


KINDS = ["real", "complex", "complex, two parts", "dense", "single"]


@pytest.mark.parametrize("kind", KINDS)
def test_columns_are_those_of_the_matrix(kind: str) -> None:
    a = jacobian(kind)
    matrix, chosen = a.gram(), np.arange(0, a.shape[0], 9)

    def task(space: SampleSpace) -> tuple[np.ndarray, ...]:
        call = space.call
        assert call is not None
        core = space.choose(chosen)
        y, r = np.linspace(0, 1, len(chosen)), np.linspace(-1, 2, a.shape[0])
        products = call(GramOperator.columns_times, y), call(GramOperator.columns_adjoint, r)
        call(GramOperator.divide, 2 * np.eye(len(chosen)))
        return core, *products, call(GramOperator.square), y, r

    core, times, adjoint, square, y, r = in_sample_space(a, task)
    columns = matrix[:, chosen]
    # rounding of entries, of uncentred rows, and for "single" of products
    close = (1e-4 if kind == "single" else 1e-11) * np.abs(matrix).max()
    np.testing.assert_allclose(core, matrix[np.ix_(chosen, chosen)], atol=close)
    np.testing.assert_allclose(times, columns @ y, atol=close * len(y))
    np.testing.assert_allclose(adjoint, columns.conj().T @ r, atol=close * len(r))
    squared = columns.conj().T @ columns / 4
    np.testing.assert_allclose(square, squared, atol=10 * close * np.abs(squared).max())


@pytest.mark.whole
@pytest.mark.parametrize("kind", KINDS)
def test_the_solution_is_the_same_in_half_of_the_iterations(kind: str) -> None:
    a = jacobian(kind)
    trace = a.trace()
    shift, rhs = 1e-3 * trace / a.shape[0], a.apply(np.ones(a.shape[1]) / 10)
    plain, before = TIGHT.solve(SampleSpace(a).times, rhs, shift)
    x, info = TIGHT.in_samples(a, rhs, shift, trace)
    assert info.residual is not None and info.residual <= TIGHT.tolerance
    np.testing.assert_allclose(x, plain, atol=1e-6 * np.abs(plain).max())
    assert info.iterations is not None and before.iterations is not None
    assert info.iterations < before.iterations / 2


def test_no_bit_depends_on_threads() -> None:
    a = jacobian("real")
    rhs, found = a.apply(np.ones(a.shape[1])), []
    for n in (1, 3):
        with using_threads(n):
            found.append(ConjugateGradients().in_samples(a, rhs, 1e-2, a.trace())[0])
    np.testing.assert_array_equal(*found)


def test_without_shift_or_with_few_samples_there_is_none() -> None:
    a = jacobian("real")
    few = CenteredJacobian(a.jacobian.rows(0, 90), np.full(90, 1 / 90))  # type: ignore[attr-defined]
    assert in_sample_space(a, lambda space: preconditioner(space, 0.0, 1.0)) is None
    assert in_sample_space(few, lambda space: preconditioner(space, 1.0, 1.0)) is None


def test_an_error_of_the_task_is_that_of_the_caller() -> None:
    def task(space: SampleSpace) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        in_sample_space(jacobian("real"), task)
