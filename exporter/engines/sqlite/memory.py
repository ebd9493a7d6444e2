"""Keeps the allocator out of the comparison of the twins.

A cold scan begins by dropping its connection's cache. glibc gives the top of its heap back to the system
then, so the twin whose cache happens to lie there pays for a page fault on every page that it reads again,
and the other one does not. Which one it is depends on the order of opening. Measured: 444 faults in a scan,
10 % of its CPU time; the ratio of one and the same pair came out as 1.20 or 1.40 where 1.30 is true.
"""

from __future__ import annotations

import ctypes
from functools import cache

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_NEVER = 2**31 - 1
_LARGE = 32 * 2**20
"""The largest threshold that glibc accepts: blocks above it are given back whenever they are freed."""


@cache
def keep_freed_memory() -> bool:
    """Let this process keep what SQLite frees, for it will want it again; False where the C library has no such knob.

    Of process-wide effect, once. Costs nothing but the memory of the largest cache.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_M_TRIM_THRESHOLD, _NEVER)) and bool(mallopt(_M_MMAP_THRESHOLD, _LARGE))
