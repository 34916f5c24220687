"""BLAS at one thread: the same bits for any number of workers, and no idle threads."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_blas_thread() -> Any:
    """Give a context manager in which the BLAS of NumPy and SciPy runs on the thread that calls it.

    The libraries of the process are looked up once, and again when SciPy has brought its own: the
    look-up alone takes milliseconds in a process with many libraries, such as one with JAX.
    """
    return _controller("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas")


@cache
def _controller(with_scipy: bool) -> ThreadpoolController:
    return ThreadpoolController()
