"""Kernels for a GPU, where CuPy loops on the host or moves more than it computes.

The CUDA sources in `backend/cuda` are compiled at run time, by NVRTC, for each number type.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from tnvmc.backend.namespace import is_cupy

Array = Any

SHARED_BYTES = 224 * 1024
"""Most shared memory that a block is given; a device that has less says so."""

_MOST_SLICES = 6
"""Blocks a walker's column is cut into, at most (at D = 8: 2 are faster than cuBLAS, 16 not)."""

_WARPS, _MOST_WARPS, _LANES = 8, 16, 32


def source(name: str) -> str:
    """Give the CUDA source of a kernel in `backend/cuda`, which NVRTC compiles with `options`."""
    folder = files("tnvmc.backend") / "cuda"
    return (folder / "number.cuh").read_text() + (folder / f"{name}.cu").read_text()


def options(dtype: str) -> tuple[str, ...]:
    """Give the compiler options of a number type: float32, float64, complex64 or complex128."""
    real = {"float32": "float", "complex64": "float"}.get(dtype, "double")
    return (
        f"-DREAL={real}",
        f"-DCOMPLEX={int(dtype.startswith('complex'))}",
        f"-DDMMA={int(dtype == 'float64')}",  # whether there are matrix units for it
        f"-DWARPS={_WARPS}",
        f"-DLANES={_LANES}",
        f"-DMAX_THREADS={_LANES * _MOST_WARPS}",
        "--std=c++17",
    )


def orthonormal_basis(matrices: Array) -> Array | None:
    """Give Q of each matrix (B, m, k) on the GPU, by Householder QR in shared memory.

    A block of threads for each matrix, which is read and written once.  Gives orthonormal columns
    (B, m, min(m, k)); None where a matrix exceeds shared memory.
    """
    import cupy

    batch, m, k = matrices.shape
    n = min(m, k)
    size = (m + 1) * n * matrices.dtype.itemsize
    kernel = _kernel("orthonormal_basis", matrices.dtype.name)
    if size > _shared_limit(cupy.cuda.runtime.getDevice()):
        return None
    q = cupy.empty((batch, m, n), dtype=matrices.dtype)
    if batch:
        arguments = (cupy.ascontiguousarray(matrices), q, *map(np.int32, (m, k, n)))
        _launch(kernel, (batch,), arguments, size)
    return q


def transfer(
    env: Array, top: Array | None, sites: Sequence[Array], bottom: Array | None
) -> Array | None:
    """Absorb a column of one or two rows into environments on the GPU.

    Args:
        env: (B, top, row_1, .., bottom).
        top: (B, out, vertical, in) or None.
        sites: one or two arrays (B, out, down, up, in).
        bottom: (B or 1, vertical, in, out), or None to leave the lower legs open.

    Gives the new environment, flat (B, ...); None where there is no GPU, for more than two rows,
    for a ring, and where one slice of the top's outer leg exceeds shared memory.
    """
    if not is_cupy(env) or len(sites) > 2 or env.ndim > len(sites) + 3:
        return None
    import cupy

    legs = _legs(env, top, sites, bottom)
    plan = _plan(legs, env.dtype.itemsize, _shared_limit(cupy.cuda.runtime.getDevice()))
    if plan is None:
        return None
    shape, size, warps = plan
    batch = env.shape[0]
    lower = (legs.down1 if len(sites) == 1 else legs.down2) * legs.b if bottom is None else legs.bo
    out = cupy.empty((batch, legs.o * legs.out1 * legs.out2 * lower), env.dtype)
    if batch:
        operands = [env, top, sites[0], sites[1] if len(sites) > 1 else None, bottom]
        held = [None if x is None else cupy.ascontiguousarray(x) for x in operands]
        none = np.uint64(0)
        arguments = (
            *(none if x is None else x for x in held),
            out,
            *(np.int64(0 if x is None or x.shape[0] == 1 else x.size // x.shape[0]) for x in held),
            *map(np.int32, (*astuple(legs), *shape)),
        )
        kernel = _kernel("transfer", env.dtype.name)
        _launch(kernel, (batch, -(-legs.o // shape[0])), arguments, size, warps)
    return out


@dataclass(frozen=True)
class Legs:
    """Sizes of the legs of a column, named and ordered as the arguments of `transfer.cu`."""

    t: int  #: top, inner
    o: int  #: top, outer
    v: int  #: top to the first row
    in1: int  #: first row
    out1: int
    down1: int
    in2: int  #: second row, 1 each where there is none
    out2: int
    down2: int
    b: int  #: bottom, inner
    bo: int  #: bottom, outer


def _legs(env: Array, top: Array | None, sites: Sequence[Array], bottom: Array | None) -> Legs:
    outer = (1, sites[0].shape[3]) if top is None else top.shape[1:3]
    rows = [size for site in sites for size in (site.shape[4], site.shape[1], site.shape[2])]
    rows += [1] * (6 - len(rows))
    lower = (env.shape[-1], 1 if bottom is None else bottom.shape[3])
    return Legs(*(env.shape[1], *outer, *rows, *lower))


@cache
def _plan(legs: Legs, itemsize: int, limit: int) -> tuple[tuple[int, int, int], int, int] | None:
    """Give ((slice, entries of X, of a site), shared bytes, warps) with the largest slice.

    A block that fills a multiprocessor alone needs twice the warps to hide its waiting.  None too
    where there would be many slices, each of which reads the site anew: cuBLAS is faster then.
    """
    v, b, in1, in2, out1, down1 = legs.v, legs.b, legs.in1, legs.in2, legs.out1, legs.down1
    site = max(out1 * down1 * _padded(v * in1), legs.out2 * legs.down2 * _padded(down1 * in2))
    base = max(down1, legs.down2) * b * _padded(legs.bo)
    for slices in range(1, _MOST_SLICES + 1):
        s = -(-legs.o // slices)
        buffer = s * max(
            v * in1 * _padded(in2 * b),
            out1 * _padded(down1 * b),
            out1 * down1 * in2 * _padded(b),
            out1 * legs.out2 * _padded(legs.down2 * b),
        )
        size = (2 * buffer + site + base) * itemsize
        if size <= limit:
            tiles = -(-s * v // 16) * -(-in1 * in2 * b // 16)
            most = _MOST_WARPS if 2 * size > limit else _WARPS
            return (s, buffer, site), size, min(most, tiles)
    return None


def _padded(n: int) -> int:
    """Length of a row in shared memory, as in transfer.cu."""
    return n + (4 - n) % 8


def _launch(
    kernel: Any, grid: tuple[int, ...], arguments: tuple[Any, ...], size: int, warps: int = _WARPS
) -> None:
    kernel.max_dynamic_shared_size_bytes = max(kernel.max_dynamic_shared_size_bytes, size)
    kernel(grid, (_LANES * warps,), arguments, shared_mem=size)


def split_scale(value: Array, log_scale: Array) -> tuple[Array, Array]:
    """Give phase and log modulus of value * exp(log_scale), (B,) each; 0 and -inf at 0."""
    phase, log_abs = _made(
        "ElementwiseKernel",
        "T value, R scale",
        "T phase, R log_abs",
        """R size = abs(value);
        phase = size == 0 ? T(0) : value / size;
        log_abs = size == 0 ? -1.0 / 0.0 : log(size) + scale;""",
        "split_scale",
    )(value, log_scale)
    return phase, log_abs


def acceptance(
    new: tuple[Array, Array], old: tuple[Array, Array], power: Array | float, cap: float
) -> Array:
    """Give the probability to accept a move (B,) from phases and log moduli."""
    import cupy

    return _made(
        "ElementwiseKernel",
        "T new_phase, R new_log, T old_phase, R old_log, R power, float64 cap",
        "R probability",
        ACCEPTANCE,
        "acceptance",
    )(*new, *old, cupy.asarray(power, dtype=new[1].dtype), cap)


ACCEPTANCE = """bool enters = new_phase == T(0), leaves = old_phase == T(0);
    R gap = 2 * power * ((enters ? 0 : new_log) - (leaves ? 0 : old_log));
    R share = cap / (1 + exp(-abs(gap)));
    R moves = exp(gap < 0 ? gap : R(0)) * (share < 1 ? share : R(1));
    probability = leaves ? (enters ? 0.5 : 1.0) : enters ? 0.0 : moves;"""
"""CUDA of one element."""


def ratio(new: tuple[Array, Array], old: tuple[Array, Array], largest: float) -> Array:
    """Give psi'/psi (B,) from phases and log moduli, cut at exp(`largest`); 0 where psi = 0."""
    return _made(
        "ElementwiseKernel",
        "T new_phase, R new_log, T old_phase, R old_log, float64 largest",
        "T quotient",
        """bool enters = new_phase == T(0), leaves = old_phase == T(0);
        R gap = (enters ? 0 : new_log) - (leaves ? 0 : old_log);
        R size = exp(gap > largest ? R(largest) : gap);
        quotient = leaves ? T(0) : new_phase / old_phase * size;""",
        "ratio",
    )(*new, *old, largest)


def largest(arrays: Array) -> Array:
    """Give the largest modulus (B,) of each row of (B, n), 1 where all are zero."""
    import cupy

    operation = ("R(abs(x))", "a > b ? a : b", "y = a > 0 ? a : R(1)", "0")
    found = cupy.empty(arrays.shape[:1], np.empty(0, arrays.dtype).real.dtype)
    return _made("ReductionKernel", "T x", "R y", *operation, "largest")(arrays, axis=1, out=found)


@cache
def _made(kind: str, *given: str) -> Any:
    import cupy

    return getattr(cupy, kind)(*given)


@cache
def _kernel(name: str, dtype: str) -> Any:
    import cupy

    return cupy.RawKernel(source(name), name, options=options(dtype))


@cache
def _shared_limit(device: int) -> int:
    """Bytes of shared memory that one block may have."""
    import cupy

    attributes = cupy.cuda.Device(device).attributes
    return min(SHARED_BYTES, int(attributes["MaxSharedMemoryPerBlockOptin"]) - 1024)
