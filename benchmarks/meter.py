"""Where the time of array code goes: products, decompositions, copies, and the rest.

`Meter` wraps the NumPy functions that the core calls, so it measures the code that runs and not a
model of it.  It adds a microsecond to each call; time a run with and without it.  Compiled kernels
are off inside it: they make the same products, which it could not see.
"""

from __future__ import annotations

import os
import platform
import time
from collections import defaultdict
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import numpy as np

from tnvmc.backend import host

KINDS = {
    "products": [(np, "matmul")],
    "decompositions": [(np.linalg, "qr"), (np.linalg, "svd")],
    "copies": [(np, name) for name in ("take", "reshape", "asarray", "where", "concat", "astype")],
}


class Meter:
    """Context manager: `seconds[kind]`, and the floating-point operations of products (`flop`) and
    of decompositions (`flop_decomposed`, by the formulas of Golub and Van Loan)."""

    def __enter__(self) -> Self:
        self.seconds: dict[str, float] = defaultdict(float)
        self.flop = self.flop_decomposed = 0.0
        self._originals: list[tuple[Any, str, Any]] = [(host, "available", host.available)]
        host.available = lambda: False  # type: ignore[assignment]
        for kind, functions in KINDS.items():
            for module, name in functions:
                original = getattr(module, name)
                self._originals.append((module, name, original))
                setattr(module, name, self._timed(name, kind, original))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for module, name, original in self._originals:
            setattr(module, name, original)

    def _timed(self, name: str, kind: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **options: Any) -> Any:
            began = time.perf_counter()
            result = function(*args, **options)
            self.seconds[kind] += time.perf_counter() - began
            if kind == "products":
                factor = 8 if result.dtype.kind == "c" else 2
                self.flop += factor * result.size * args[0].shape[-1]
            elif kind == "decompositions":
                *batch, rows, columns = args[0].shape
                m, n = max(rows, columns), min(rows, columns)
                once = 4 * m * n * n - 4 * n**3 / 3 if name == "qr" else 14 * m * n * n + 8 * n**3
                self.flop_decomposed += (
                    once * np.prod(batch) * (1 + 3 * (args[0].dtype.kind == "c"))
                )
            return result

        return timed


def cpu_name() -> str:
    """Name of the processor, as the system tells it, or its architecture."""
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def gemm_rate(dtype: str = "float64", size: int = 32, batch: int = 64) -> float:
    """GFLOP/s of a batched product of (2 size, size) and (size, 2 size) matrices, median of 9.

    Of CPU time, which other programs on the machine do not lengthen.
    """
    rng = np.random.default_rng(0)
    a = rng.normal(size=(batch, 2 * size, size)).astype(dtype)
    b = rng.normal(size=(batch, size, 2 * size)).astype(dtype)
    out = np.matmul(a, b)
    times = []
    for _ in range(9):
        began = time.process_time()
        for _ in range(5):
            np.matmul(a, b, out=out)
        times.append((time.process_time() - began) / 5)
    factor = 8 if np.dtype(dtype).kind == "c" else 2
    return factor * batch * 4 * size**3 / float(np.median(times)) / 1e9
