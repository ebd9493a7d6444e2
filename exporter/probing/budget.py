"""How much time the canaries of one target may take; arithmetic on given times."""

from __future__ import annotations

import threading
from collections import deque


class TimeBudget:
    """A token bucket of canary seconds, and the share of the last hour that was spent.

    The bucket fills at `ratio` seconds per second and holds at most `reserve` seconds of filling, so
    that a start, which warms up, may borrow from a quiet past but not without bound.
    Thread-safe: the lane spends while the loop of the process asks for the share.
    """

    def __init__(self, ratio: float, now: float, reserve: float = 60.0) -> None:
        self.ratio = ratio
        self._capacity = self._tokens = ratio * reserve
        self._filled, self._started = now, now
        self._spent: deque[tuple[float, float]] = deque()
        self._lock = threading.Lock()

    def allows(self, now: float) -> bool:
        """Whether another tick may begin at monotonic time `now`."""
        with self._lock:
            self._tokens = min(self._capacity, self._tokens + (now - self._filled) * self.ratio)
            self._filled = now
            return self._tokens > 0

    def spend(self, seconds: float, now: float) -> None:
        """Account for `seconds` of canary time that ended at `now`; may go below zero, which later ticks repay."""
        with self._lock:
            self._tokens -= seconds
            if self._spent and now - self._spent[-1][0] < 60.0:
                begun, before = self._spent[-1]
                self._spent[-1] = (begun, before + seconds)
            else:
                self._spent.append((now, seconds))

    def load_ratio(self, now: float) -> float:
        """Share of wall time, over the last hour or since the start, in which canaries ran."""
        with self._lock:
            while self._spent and now - self._spent[0][0] > 3600.0:
                self._spent.popleft()
            spent = sum(seconds for _, seconds in self._spent)
        return spent / max(1.0, min(now - self._started, 3600.0))
