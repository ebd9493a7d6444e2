"""Measures how long something of this process took, less what the machine made it wait for a processor.

A deadline of half a second is kept within a second. Where ten others want the same processor, nobody keeps it; that says
something of the machine, and nothing of who kept the deadline. The kernel knows how long each thread wanted to run and was
not let (the second number of its `schedstat`); this is subtracted. On a machine with nothing else to do that is next to
nothing, so a bound stays as tight there as it looks.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

_TASKS = Path("/proc/self/task")


class Stopwatch:
    """Begins when it is made."""

    def __init__(self) -> None:
        self._begun, self._waited = time.monotonic(), _waited()

    @property
    def passed(self) -> float:
        """Seconds since then, by any clock."""
        return time.monotonic() - self._begun

    @property
    def seconds(self) -> float:
        """The same, less those in which a thread of this process wanted to run, and was not let."""
        passed, waited = self.passed, _waited()
        lost = sum(seconds - self._waited.get(thread, 0.0) for thread, seconds in waited.items())
        return max(0.0, passed - lost)


def _waited() -> dict[str, float]:
    """Seconds for which each thread has waited for a processor so far; nothing where the kernel does not count them."""
    found = {}
    for task in _TASKS.iterdir():
        with contextlib.suppress(OSError):
            found[task.name] = int((task / "schedstat").read_text().split()[1]) / 1e9
    return found


def crowded() -> float:
    """Seconds since the machine started in which anybody waited for a processor; 0 where the kernel does not count them."""
    try:
        some = Path("/proc/pressure/cpu").read_text().splitlines()[0]
    except OSError:
        return 0.0
    return int(some.rpartition("total=")[2]) / 1e6
