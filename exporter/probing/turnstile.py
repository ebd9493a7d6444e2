"""Short timed sections of one process take turns, with a bounded wait.

Two threads of one Python process that are busy at once stretch each other's timings by the
interpreter's switch interval (a point read of 78 µs was seen to take 5.7 ms). Taking turns keeps that
out of the measurement. What waited too long runs all the same and is marked contended, so that a hung
query in one lane never blocks another. A section that goes on and on is waiting for its server and keeps
no interpreter busy: the others no longer wait for it, or one call that never ends would spoil them all.

The sections of one tick follow each other in a *bout*, and bouts take turns as well. Were it only the sections, twenty
ticks at once would be mixed like cards: each would last twenty times as long, with a wait of nineteen sections before each
of its own. Waiting before a tick begins costs no measurement; so that is where it happens.
"""

from __future__ import annotations

import threading
from time import monotonic
from types import TracebackType
from typing import Self


class Turnstile:
    """One per probe process. Waits for a section last `longest_wait` seconds at most, those for a bout `longest_queue`, which
    holds up whatever else the lane has to do; a turn counts for `longest_turn` at most."""

    def __init__(self, longest_wait: float = 0.05, longest_turn: float = 0.5, longest_queue: float = 2.0) -> None:
        self.longest_wait, self.longest_turn, self.longest_queue = longest_wait, longest_turn, longest_queue
        self.lock, self.door = threading.Lock(), threading.Lock()
        self.taken = 0.0

    def bout(self) -> Bout:
        """A context manager for the sections of one tick; who waited too long for the others begins all the same."""
        return Bout(self)

    def turn(self) -> Turn:
        """A context manager for one timed section; its `contended` is True when the wait was cut short."""
        return Turn(self)

    def pass_by(self, lock: threading.Lock) -> None:
        """Leave whoever holds the lock alone with it, if that lasts too long already."""
        if lock is self.lock and self._drags_on():
            self.lock = threading.Lock()

    def pass_by_bout(self, door: threading.Lock) -> None:
        """Wait no longer for a bout that is in a section which lasts too long already."""
        if door is self.door and self.lock.locked() and self._drags_on():
            self.door = threading.Lock()

    def _drags_on(self) -> bool:
        return monotonic() - self.taken > self.longest_turn


class Bout:
    """The time of one tick."""

    __slots__ = ("_door", "_held", "_turnstile")

    def __init__(self, turnstile: Turnstile) -> None:
        self._turnstile = turnstile
        self._held = False

    def __enter__(self) -> Self:
        turnstile = self._turnstile
        end = monotonic() + turnstile.longest_queue
        while not self._held and (left := end - monotonic()) > 0.0:
            self._door = turnstile.door
            self._held = self._door.acquire(timeout=min(left, turnstile.longest_turn))
            if not self._held:
                turnstile.pass_by_bout(self._door)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._held:
            self._door.release()


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
