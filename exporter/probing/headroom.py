"""A bound on what a probe process may take of memory at one go.

Drivers believe the lengths that they read. With one byte changed on the way, one allocated and filled four gigabytes
(oracledb 26.1.0, for buffers of the size that the peer agreed to), and kept the interpreter for ten seconds meanwhile, beyond
every deadline. That one is refused before the driver sees it; the next of its kind fails here at once, and with it the call.
What a process really needs grows little by little.
"""

from __future__ import annotations

import contextlib
import resource
from pathlib import Path

AT_ONCE = 1536 * 2**20
"""Bytes that may come between two beats. The caches of the embedded engine are the largest, at 256 MiB for a twin."""
THREADS_OF_A_TARGET = 4
"""Its lane, the loop of its driver, and those that were left behind; their stacks count as memory, though few pages are used."""
USUAL_STACK = 8 * 2**20

_STATM = Path("/proc/self/statm")
_DATA = 5


class Headroom:
    """Moves the limit on along with what the process has; to be told once in a while."""

    def __init__(self) -> None:
        self._soft, self._hard = resource.getrlimit(resource.RLIMIT_DATA)

    def keep(self, targets: int) -> None:
        """Allow so much more than there is now, and for the threads of so many targets; never more than was allowed to us.

        Does nothing where the system does not tell.
        """
        stack = resource.getrlimit(resource.RLIMIT_STACK)[0]
        stack = USUAL_STACK if stack == resource.RLIM_INFINITY else max(stack, USUAL_STACK)
        with contextlib.suppress(OSError, ValueError, IndexError):
            now = int(_STATM.read_bytes().split()[_DATA]) * resource.getpagesize()
            wanted = now + AT_ONCE + targets * THREADS_OF_A_TARGET * stack
            allowed = wanted if self._soft == resource.RLIM_INFINITY else min(wanted, self._soft)
            resource.setrlimit(resource.RLIMIT_DATA, (allowed, self._hard))
