"""Where arrays live, on a machine without a GPU; with one, see tests/test_gpu.py."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from tnvmc.backend import device
from tnvmc.backend.device import DeviceError, describe, namespace_of


@pytest.fixture
def no_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)  # an import of it fails


def test_the_host_is_numpy() -> None:
    assert namespace_of("cpu") is np
    assert describe("cpu") == "on the CPU"


def test_without_cupy_gpu_is_refused_and_auto_falls_back(no_cupy: None) -> None:
    with pytest.raises(DeviceError, match=r"CuPy cannot be imported .* pip install cupy-cuda13x"):
        namespace_of("gpu")
    assert namespace_of("auto") is np
    assert describe("auto").startswith("on the CPU (CuPy cannot be imported")


def test_another_word_is_refused() -> None:
    with pytest.raises(DeviceError, match="'cuda': must be 'cpu', 'gpu' or 'auto'"):
        namespace_of("cuda")


def test_no_room_says_what_to_lower(monkeypatch: pytest.MonkeyPatch) -> None:
    class Runtime:
        @staticmethod
        def memGetInfo() -> tuple[int, int]:
            return 2**30, 8 * 2**30

    class Pool:
        @staticmethod
        def total_bytes() -> int:
            return 3 * 2**30

        used_bytes = total_bytes

    class Cuda:
        runtime = Runtime

    class Cupy:
        cuda = Cuda

        @staticmethod
        def get_default_memory_pool() -> Any:
            return Pool

    monkeypatch.setitem(sys.modules, "cupy", Cupy)
    assert device.walkers_that_fit(2**20) == int(0.6 * 1024)
    assert device.walkers_that_fit(2**40) == 1
    error = str(device.out_of_room("64 walkers at a time", "lower their number"))
    assert error.startswith("64 walkers at a time: the GPU has no room for it (1.0 of 8.0 GiB")
    assert error.endswith("free); lower their number")
