"""Short timed sections of one process take turns, with a bounded wait.

Two threads of one Python process that are busy at once stretch each other's timings by the
interpreter's switch interval (a point read of 78 µs was seen to take 5.7 ms). Taking turns keeps that
out of the measurement. What waited too long runs all the same and is marked contended, so that a hung
query in one lane never blocks another. A section that goes on and on is waiting for its server and keeps
no interpreter busy: the others no longer wait for it, or one call that never ends would spoil them all.
"""

from __future__ import annotations

import threading
from time import monotonic
from types import TracebackType
from typing import Self


class Turnstile:
    """One per probe process. Waits last `longest_wait` seconds at most, a turn counts for `longest_turn` at most."""

    def __init__(self, longest_wait: float = 0.05, longest_turn: float = 0.5) -> None:
        self.longest_wait, self._longest_turn = longest_wait, longest_turn
        self.lock = threading.Lock()
        self.taken = 0.0

    def turn(self) -> Turn:
        """A context manager for one timed section; its `contended` is True when the wait was cut short."""
        return Turn(self)

    def pass_by(self, lock: threading.Lock) -> None:
        """Leave whoever holds the lock alone with it, if that lasts too long already."""
        if lock is self.lock and monotonic() - self.taken > self._longest_turn:
            self.lock = threading.Lock()


class Turn:
    """One passage through the turnstile."""

    __slots__ = ("_held", "_lock", "_turnstile", "contended")

    def __init__(self, turnstile: Turnstile) -> None:
        self._turnstile = turnstile
        self._held = self.contended = False

    def __enter__(self) -> Self:
        self._lock = self._turnstile.lock
        self._held = self._lock.acquire(timeout=self._turnstile.longest_wait)
        self.contended = not self._held
        if self._held:
            self._turnstile.taken = monotonic()
        else:
            self._turnstile.pass_by(self._lock)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._held:
            self._lock.release()
