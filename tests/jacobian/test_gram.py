"""The Gram matrix of slices: in threads, by kernel or NumPy, and how Jacobians are joined."""

from __future__ import annotations

import multiprocessing
import threading
import time
import tracemalloc

import numpy as np
import pytest

from tests.jacobian.test_jacobian import dumb_dense, random_slices
from tnvmc.backend import host
from tnvmc.backend.process import side_by_side, threads_in_use, using_threads
from tnvmc.jacobian import gram as module
from tnvmc.jacobian import pieces
from tnvmc.jacobian.dense import concatenate
from tnvmc.jacobian.gram import gram_of_slices

WIDTHS = (5, 20, 7, 3, 11)
ROUNDING = 1e-12  # of sums of some tens of products of numbers of size 1


@pytest.fixture
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several tiles, panels and threads' worth of tasks for a few samples."""
    monkeypatch.setattr(module, "TILE", 8)
    monkeypatch.setattr(module, "_GATHERED", 5)
    monkeypatch.setattr(pieces, "_THREADED_ENTRIES", 0)


@pytest.mark.whole
@pytest.mark.parametrize("dtype", ["float64", "complex128", "float32", "complex64"])
@pytest.mark.parametrize("local_dim", [2, 3])
def test_no_bit_depends_on_threads_or_on_the_kernel(
    dtype: str, local_dim: int, small_tiles: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    slices = random_slices(70, WIDTHS, local_dim, dtype)
    u, v = np.linspace(-1, 1, 70), np.linspace(1, 2, slices.shape[1])

    def products() -> list[np.ndarray]:
        return [slices.gram(), slices.apply(v), slices.adjoint(u)]

    with using_threads(1):
        one = products()
    with using_threads(3):
        three = products()
    monkeypatch.setattr(host, "available", lambda: False)
    n_sites = len(slices.slices)
    groups = [min(2, n_sites - i) for i in range(0, n_sites, 2)]
    plain = gram_of_slices(slices.slices, slices.spins, groups)
    for a, b in zip(one, three, strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(one[0], plain)
    np.testing.assert_array_equal(one[0], one[0].conj().T)
    dense = dumb_dense(slices)
    tolerance = ROUNDING if dtype.endswith(("64", "128")) and dtype != "complex64" else 1e-4
    np.testing.assert_allclose(one[0], dense @ dense.conj().T, atol=tolerance)
    np.testing.assert_allclose(one[1], dense @ v, atol=tolerance)
    np.testing.assert_allclose(one[2], dense.conj().T @ u, atol=tolerance)


def test_memory_is_that_of_the_result_and_of_two_slices() -> None:
    slices = random_slices(600, (300,) * 8)
    with using_threads(1):
        slices.gram()  # compiles
        tracemalloc.start()
        slices.gram()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    result, two, panel = 8 * 600**2, 8 * 600 * 2 * 300, 8 * module.TILE * 600
    assert peak < 1.1 * (result + two + panel)


def test_parts_are_let_go_of_but_not_emptied() -> None:
    first, second = random_slices(4, (2, 3), seed=1), random_slices(5, (2, 3), seed=2)
    parts = [first, second]
    whole = concatenate(parts)  # type: ignore[arg-type]
    assert parts == []
    expected = np.concatenate([first.dense(), second.dense()])
    np.testing.assert_array_equal(whole.dense(), expected)


def test_threads_are_those_of_the_block() -> None:
    outside = threads_in_use()
    with using_threads(3):
        assert threads_in_use() == 3
        with np.errstate(over="ignore"):
            found = side_by_side(np.exp, [np.zeros(1), np.full(1, 1e4)])
        assert [x.tolist() for x in found] == [[1], [np.inf]]
    assert threads_in_use() == outside


def test_an_error_in_a_thread_is_raised() -> None:
    with using_threads(2), pytest.raises(ZeroDivisionError):
        side_by_side(lambda i: 1 // i, [1, 0, 2])


def test_an_error_waits_for_what_has_begun() -> None:
    began, ended = threading.Event(), []

    def task(item: int) -> None:
        if item == 0:
            assert began.wait(60)
            raise ZeroDivisionError
        began.set()
        time.sleep(0.05)  # still at work when the error is known
        ended.append(item)

    with using_threads(2), pytest.raises(ZeroDivisionError):
        side_by_side(task, [0, 1])
    assert ended == [1]


def test_tasks_may_give_out_tasks() -> None:
    with using_threads(2):
        found = side_by_side(lambda i: sum(side_by_side(lambda j: i * j, [1, 2, 3])), [1, 2, 3, 4])
    assert found == [6, 12, 18, 24]


def test_threads_stay_and_a_fork_has_its_own() -> None:
    def task(_: int) -> int:
        time.sleep(0.01)
        return threading.get_native_id()  # never given twice while it can matter

    with using_threads(2):
        assert len({*side_by_side(task, range(4)), *side_by_side(task, range(4))}) <= 2
        child = multiprocessing.get_context("fork").Process(
            target=side_by_side, args=(task, [1, 2])
        )
        child.start()
        child.join(30)
    assert child.exitcode == 0
