"""Kernels of our own for the processor, compiled by Numba when they are first used and then kept.

They mean what NumPy's calls mean, and give the same numbers up to rounding.  NumPy does the work where
they are switched off (environment variable ``TNVMC_KERNELS=numpy``) or Numba is missing.
"""

from __future__ import annotations

import os
from functools import cache


@cache
def available() -> bool:
    """Whether there are compiled kernels in this process."""
    if os.environ.get("TNVMC_KERNELS") == "numpy":
        return False
    try:
        import numba
    except ImportError:
        return False
    return bool(numba.__version__)
