"""Short timed sections of one process take turns, with a bounded wait.

Two threads of one Python process that are busy at once stretch each other's timings by the
interpreter's switch interval (a point read of 78 µs was seen to take 5.7 ms). Taking turns keeps that
out of the measurement. What waited too long runs all the same and is marked contended, so that a hung
query in one lane never blocks another.
"""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self


class Turnstile:
    """One per probe process."""

    def __init__(self, longest_wait: float = 0.05) -> None:
        self._lock = threading.Lock()
        self.longest_wait = longest_wait

    def turn(self) -> Turn:
        """A context manager for one timed section; its `contended` is True when the wait was cut short."""
        return Turn(self._lock, self.longest_wait)


class Turn:
    """One passage through the turnstile."""

    __slots__ = ("_held", "_lock", "_longest_wait", "contended")

    def __init__(self, lock: threading.Lock, longest_wait: float) -> None:
        self._lock, self._longest_wait = lock, longest_wait
        self._held = self.contended = False

    def __enter__(self) -> Self:
        self._held = self._lock.acquire(timeout=self._longest_wait)
        self.contended = not self._held
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._held:
            self._lock.release()
