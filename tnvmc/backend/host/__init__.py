"""Kernels for the processor, compiled by Numba at their first use and then cached.

They give the numbers of NumPy up to rounding.  NumPy does the work where they are switched off
(environment variable ``TNVMC_KERNELS=numpy``) or Numba is missing.
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable
from functools import cache


def log_compilation(dtype: str) -> None:
    """Log that kernels are compiled: what happens where nobody has set anything else."""
    logging.getLogger("tnvmc").warning("compiling kernels for %s: 20 to 40 s", dtype)


_announce: Callable[[str], None] = log_compilation


def announce_compilation(announce: Callable[[str], None]) -> None:
    """Set what is called when kernels of a PEPS are compiled, which takes half a minute.

    Once for each type of numbers, such as "float64", from the thread that compiles.
    """
    global _announce
    _announce = announce


@cache
def available() -> bool:
    """Whether there are compiled kernels in this process."""
    if os.environ.get("TNVMC_KERNELS") == "numpy":
        return False
    try:
        import tnvmc.backend.host.strips  # noqa: F401
        from tnvmc.backend.host.compilation import listen
    except ImportError:  # no Numba for this processor
        return False
    except RuntimeError as error:  # no folder to cache what is compiled
        os.environ["TNVMC_KERNELS"] = "numpy"  # for processes of this one, which would say it again
        warnings.warn(
            "compiled kernels cannot be kept, there is no folder to write to: the work goes on 2 "
            "to 3 times slower. Set NUMBA_CACHE_DIR to a folder that can be written to "
            f"({str(error).splitlines()[0][:60]})",
            stacklevel=2,
        )
        return False
    listen(lambda dtype: _announce(dtype))
    return True
