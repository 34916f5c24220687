"""Keep freed memory for the next array instead of giving it back to the system.

Every product of a pass allocates its result.  glibc serves arrays above 128 KiB from fresh pages
and returns them at once, so each product would fault its pages in anew: a third of the time
of a sample, measured (8x8, D = 4, chi = 8).
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3
_LARGEST_KEPT = 2**25  # the most that every version of glibc accepts
_KEPT = 2**29
_AHEAD = 2**26


@cache
def keep_freed_memory() -> bool:
    """Tell the C allocator to reuse freed arrays; True if it accepted.

    Changes the whole process, once: arrays up to 32 MiB come from the heap, up to 512 MiB of
    freed heap stay with the process.  Does nothing where the allocator is not glibc's.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # musl has none
        return False
    options = (
        (_M_MMAP_THRESHOLD, _LARGEST_KEPT),
        (_M_TRIM_THRESHOLD, _KEPT),
        (_M_TOP_PAD, _AHEAD),
    )
    accepted = [bool(mallopt(option, value)) for option, value in options]
    return all(accepted)
