"""Kernels for the processor, compiled by Numba at their first use and then cached.

They give the numbers of NumPy up to rounding.  NumPy does the work where they are switched off
(environment variable ``TNVMC_KERNELS=numpy``) or Numba is missing.
"""

import logging
import os
import warnings
from functools import cache

from tnvmc.backend.process import launched


def log_compilation(dtype: str) -> None:
    """Log, on the first rank, that kernels of a PEPS are compiled for a type of numbers."""
    if not launched()[0]:
        told = "compiling kernels for %s, once for this version: 10 to 20 s"
        logging.getLogger("tnvmc").warning(told, dtype)


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
    listen(log_compilation)
    return True
