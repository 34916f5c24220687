"""The CUDA sources compiled as C++ and run on the host: one thread for each CUDA thread.

Barriers become barriers and shared memory a static array, so the indexing, the number types and
the synchronisation of a kernel are tested without a GPU; its matrix units and warps are not.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from tnvmc.backend import kernels

THREADS = 64

_SHIM = """
#include <barrier>
#include <cmath>
#include <cstddef>
#include <thread>
#include <vector>
#define __device__
#define __global__
#define __shared__ static
#define __restrict__
#define __launch_bounds__(...)
struct Index { int x, y; };
static thread_local Index threadIdx;
static Index blockIdx, blockDim{THREADS, 1};
static std::barrier<> gate(THREADS);
inline void __syncthreads() { gate.arrive_and_wait(); }
inline void __syncwarp() {}
template <typename T> T __shfl_xor_sync(unsigned, T x, int) { return x; }
static char memory[1 << 22];
using std::sqrt;
"""


def compiled(name: str, dtype: str, folder: Path) -> Any:
    """A library with ``run(n_x, n_y, pointers, longs, ints)``, which calls the kernel.

    It stays in the folder, under a name that changes with what is compiled.
    """
    source = kernels.source(name).replace("extern __shared__ char memory[];", "")
    arguments = re.search(rf"{name}\s*\((?P<list>[^)]*)\)\s*\{{", source)
    assert arguments is not None
    counts = {"*": 0, "long long": 0, "int": 0}
    passed = []
    for argument in arguments["list"].split(","):
        kind = next(key for key in counts if key in argument)
        array = {"*": "(Number*)p", "long long": "l", "int": "i"}[kind]
        passed.append(f"{array}[{counts[kind]}]")
        counts[kind] += 1
    call = f"""
    extern "C" void run(int n_x, int n_y, void** p, long long* l, int* i) {{
        for (int x = 0; x < n_x; ++x) for (int y = 0; y < n_y; ++y) {{
            blockIdx = {{x, y}};
            std::vector<std::thread> threads;
            for (int t = 0; t < THREADS; ++t)
                threads.emplace_back([=] {{ threadIdx = {{t, 0}}; {name}({", ".join(passed)}); }});
            for (auto& thread : threads) thread.join();
        }}
    }}"""
    threads = 1 if name == "orthonormal_basis" else THREADS  # lanes and warps of one thread
    chosen = {"DMMA": 0, "LANES": 1, "WARPS": 1, "THREADS": threads}
    options = [o for o in kernels.options(dtype) if not o[2:].split("=")[0] in chosen]
    options = [o for o in options if not o.startswith("--")]
    options += [f"-D{key}={value}" for key, value in chosen.items()]
    return _built(name, _SHIM + source + call, options, folder)


def accepted(
    new: np.ndarray, new_log: np.ndarray, old: np.ndarray, old_log: np.ndarray,
    power: float, cap: float, folder: Path,
) -> np.ndarray:  # fmt: skip
    """What the source of `kernels.acceptance` gives for real phases, element by element."""
    text = f"""
    #include <cmath>
    using namespace std; typedef double T; typedef double R;
    extern "C" void run(long long n, double* a, double* b, double* c, double* d, double power,
                        double cap, double* out) {{
        for (long long i = 0; i < n; ++i) {{
            T new_phase = a[i], old_phase = c[i]; R new_log = b[i], old_log = d[i], probability;
            {kernels.ACCEPTANCE}
            out[i] = probability;
        }}
    }}"""
    out = np.empty(len(new))
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (new, new_log, old, old_log, out)]
    numbers = ctypes.c_double(power), ctypes.c_double(cap)
    library = _built("acceptance", text, [], folder)
    library.run(ctypes.c_longlong(len(new)), *pointers[:4], *numbers, pointers[4])
    return out


def _built(name: str, text: str, options: list[str], folder: Path) -> Any:
    compiler = ["g++", "-std=c++20", "-O1", "-pthread", "-shared", "-fPIC", "-w", *options]
    library = folder / f"{name}-{sha256(' '.join([*compiler, text]).encode()).hexdigest()}.so"
    if not library.exists():
        with TemporaryDirectory(dir=folder) as aside:  # moved whole: others may be looking
            made = Path(aside) / library.name
            command = [*compiler, "-x", "c++", "-o", str(made), "-"]
            subprocess.run(command, input=text, text=True, check=True, timeout=120)
            made.replace(library)
    return ctypes.CDLL(str(library))


def run(
    library: Any, grid: tuple[int, int], arrays: list[np.ndarray | None], longs: list[int],
    ints: list[int],
) -> None:  # fmt: skip
    """Call a kernel; None is a null pointer."""
    pointers = [None if a is None else a.ctypes.data for a in arrays]
    library.run(
        *grid,
        (ctypes.c_void_p * len(pointers))(*pointers),
        (ctypes.c_longlong * max(1, len(longs)))(*longs),
        (ctypes.c_int * len(ints))(*ints),
    )
