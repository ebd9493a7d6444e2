"""How many sessions are open on one target, and that there are never more than allowed.

Belongs to the target and outlives its workers: the session of a call that never ended may still be open on the
server, so it stays counted until that call ends, or the process does.
"""

from __future__ import annotations

import threading

from exporter.domain.errors import Blocked


class SessionCap:
    """Counts sessions before they are opened. Thread-safe."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._open = 0
        self._lock = threading.Lock()

    @property
    def open(self) -> int:
        """Sessions that are open now, or may be."""
        return self._open

    def take(self, sessions: int, what: str) -> None:
        """Claim sessions that are about to be opened; raises `Blocked` when that would be too many."""
        with self._lock:
            if self._open + sessions > self.most:
                raise Blocked(
                    f"{what} would need {sessions} more sessions, but {self._open} of the {self.most} that "
                    "budgets.sessions allows are in use"
                )
            self._open += sessions

    def give_back(self, sessions: int) -> None:
        """They are closed."""
        with self._lock:
            self._open -= sessions


class HeldSessions:
    """What one worker holds of a cap: one session of the target, and those of each pair."""

    def __init__(self, cap: SessionCap, per_pair: int) -> None:
        self.cap, self._per_pair = cap, per_pair
        self._pairs: set[str] = set()
        self._connected = False

    @property
    def number(self) -> int:
        return self._connected + len(self._pairs) * self._per_pair

    @property
    def out_of_reach(self) -> bool:
        """Whether others hold so many that not even one pair can be measured."""
        return self.cap.open - self.number + 1 + self._per_pair > self.cap.most >= 1 + self._per_pair

    def connect(self, target: str) -> None:
        """Before the target's own session is opened; raises `Blocked`."""
        if not self._connected:
            self.cap.take(1, f"target {target}")
            self._connected = True

    def prepare(self, pair: str) -> None:
        """Before the sessions of a pair are opened; raises `Blocked`. Once for each pair."""
        if pair not in self._pairs:
            self.cap.take(self._per_pair, f"pair {pair}")
            self._pairs.add(pair)

    def close(self) -> None:
        """All of them are closed."""
        self.cap.give_back(self.number)
        self._pairs.clear()
        self._connected = False
