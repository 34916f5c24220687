"""Kernels without a GPU: they compile, and emulated on the host they compute what NumPy computes."""

from __future__ import annotations

import ctypes
import itertools
import shutil
from dataclasses import astuple
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.backend import emulated
from tnvmc.ansatz.metropolis import CAP, acceptance
from tnvmc.ansatz.protocol import LogAmplitude
from tnvmc.backend import kernels
from tnvmc.contraction.row import open_column, transfer

DTYPES, OTHER_DTYPES = ["float64", "complex64"], ["float32", "complex128"]
ROUNDING = {"float64": 1e-13, "complex64": 2e-5}
"""Relative: sums of up to 64 products."""

SLOW = (pytest.mark.slow, pytest.mark.ci)
needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler (g++)")


def _random(rng: np.random.Generator, *shape: int, dtype: str) -> np.ndarray:
    values = rng.normal(size=shape) + 1j * rng.normal(size=shape)
    return (values if dtype.startswith("complex") else values.real).astype(dtype)


def _nvrtc() -> Any:
    """The run-time compiler of the package nvidia-cuda-nvrtc."""
    try:
        found = [f for f in files("nvidia-cuda-nvrtc") or () if f.match("libnvrtc.so.*")]
    except PackageNotFoundError:
        found = []
    if not found:
        pytest.skip("the package nvidia-cuda-nvrtc is not installed")
    return ctypes.CDLL(str(found[0].locate()))


@pytest.fixture(scope="module")
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where kernels that were compiled for the host stay, from run to run if there is a cache."""
    cache = getattr(request.config, "cache", None)
    return tmp_path_factory.mktemp("kernels") if cache is None else cache.mkdir("kernels")


@needs_compiler
@pytest.mark.parametrize("power", [1.0, 0.3])
def test_acceptance_is_that_of_numpy(folder: Path, power: float) -> None:
    rng = np.random.default_rng(0)
    phases = rng.choice([-1.0, 0.0, 1.0], size=(2, 200))
    logs = np.where(phases == 0, -np.inf, rng.normal(size=(2, 200)))
    found = emulated.accepted(phases[0], logs[0], phases[1], logs[1], power, CAP, folder)
    pair = (LogAmplitude(phase, log) for phase, log in zip(phases, logs, strict=True))
    np.testing.assert_allclose(found, acceptance(*pair, power), rtol=1e-13)


@pytest.mark.whole
@pytest.mark.parametrize("dtype", DTYPES + [pytest.param(d, marks=SLOW) for d in OTHER_DTYPES])
@pytest.mark.parametrize("name", ["orthonormal_basis", "transfer"])
def test_sources_compile(name: str, dtype: str) -> None:
    nvrtc, program = _nvrtc(), ctypes.c_void_p()
    text = kernels.source(name).encode()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), text, b"kernel.cu", 0, None, None)
    options = [o.encode() for o in (*kernels.options(dtype), "--gpu-architecture=compute_90")]
    status = nvrtc.nvrtcCompileProgram(
        program, len(options), (ctypes.c_char_p * len(options))(*options)
    )
    log = ctypes.create_string_buffer(10_000)
    nvrtc.nvrtcGetProgramLog(program, log)
    assert status == 0, log.value.decode()


@pytest.mark.whole
@needs_compiler
@pytest.mark.parametrize("dtype", DTYPES)
def test_basis_is_orthonormal_and_spans(dtype: str, folder: Path) -> None:
    library = emulated.compiled("orthonormal_basis", dtype, folder)
    rng = np.random.default_rng(0)
    for m, k in [(5, 3), (16, 16), (40, 8), (3, 7), (1, 1)]:
        matrices = _random(rng, 4, m, k, dtype=dtype)
        matrices[1] = 0
        matrices[2, :, -1] = matrices[2, :, 0]  # rank deficient
        matrices[3] *= 1e-15  # squares must not vanish
        n = min(m, k)
        q = np.full((4, m, n), np.nan, dtype=dtype)
        emulated.run(library, (4, 1), [matrices, q], [], [m, k, n])
        dagger = q.conj().swapaxes(1, 2)
        assert np.allclose(dagger @ q, np.eye(n), atol=10 * ROUNDING[dtype])
        spanned = matrices[:, :, :n]
        gap = np.abs(spanned - q @ (dagger @ spanned)).max(axis=(1, 2))
        assert np.all(gap <= 10 * ROUNDING[dtype] * np.abs(spanned).max(axis=(1, 2)))
        # The same gauge as on the host, so that draws made with it are the same too.
        assert np.allclose(q[0], np.linalg.qr(matrices[0])[0], atol=10 * ROUNDING[dtype])


@pytest.mark.whole
@needs_compiler
@pytest.mark.parametrize("dtype", DTYPES)
def test_transfer_equals_the_matrix_products(dtype: str, folder: Path) -> None:
    """One row and two, at the edge and inside, with a shared bottom, in slices, closed and open."""
    library = emulated.compiled("transfer", dtype, folder)
    rng = np.random.default_rng(1)
    for rows, above, below, shared in itertools.product((1, 2), (0, 1), (0, 1), (0, 1)):
        D, chi, batch = (3, 5, 2) if shared else (4, 8, 2)
        t, o, v = (chi, chi + 1, D) if above else (1, 1, 1)
        b, bo, down = (chi + 2, chi, D) if below else (1, 1, 1)
        env = _random(rng, batch, t, *[D] * rows, b, dtype=dtype)
        top = _random(rng, batch, o, v, t, dtype=dtype) if above else None
        verticals = [v, *[D] * (rows - 1), down]
        sites = [
            _random(rng, batch, D + 1, verticals[k + 1], verticals[k], D, dtype=dtype)
            for k in range(rows)
        ]
        bottom = _random(rng, 1 if shared else batch, down, b, bo, dtype=dtype) if below else None
        for last in (bottom, None) if below else (None,):
            found = _emulated_transfer(library, env, top, sites, last)
            closed = last is not None or not below
            wanted = transfer(env, top, sites, bottom) if closed else open_column(env, top, sites)
            gap = np.abs(found - wanted.reshape(batch, -1)).max()
            assert gap < ROUNDING[dtype] * np.abs(wanted).max(), (rows, above, below, shared)


def _emulated_transfer(
    library: Any, env: Any, top: Any, sites: list[Any], bottom: Any
) -> np.ndarray:
    legs = kernels._legs(env, top, sites, bottom)
    plan = kernels._plan(legs, env.dtype.itemsize, 12000 * env.dtype.itemsize)
    assert plan is not None
    shape, _, _ = plan
    lower = sites[-1].shape[2] * env.shape[-1]
    width = legs.o * legs.out1 * legs.out2 * (lower if bottom is None else legs.bo)
    out = np.full((env.shape[0], width), np.nan, dtype=env.dtype)
    operands = [env, top, sites[0], sites[1] if len(sites) > 1 else None, bottom]
    steps = [0 if x is None or x.shape[0] == 1 else x.size // x.shape[0] for x in operands]
    grid = (env.shape[0], -(-legs.o // shape[0]))
    emulated.run(library, grid, [*operands, out], steps, [*astuple(legs), *shape])
    return out


def test_a_column_too_large_for_shared_memory_is_left_to_products() -> None:
    legs = kernels.Legs(16, 16, 8, 8, 8, 8, 1, 1, 1, 16, 16)
    assert kernels._plan(legs, 8, kernels.SHARED_BYTES) is not None
    assert kernels._plan(legs, 8, 40_000) is None
