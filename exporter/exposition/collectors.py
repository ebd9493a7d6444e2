"""The outcomes of one collector of one target."""

from __future__ import annotations

from exporter.exposition.screening import LONGEST_LIST, number, words
from exporter.exposition.view import CollectorView
from exporter.probing.messages import CANARY, CollectorDone

SHORTEST_EXPIRY = 3.0
"""Seconds that a gauge lives at least: with intervals of a second, two of them are within what a busy machine delays."""


class CollectorBook:
    """Not thread-safe: the ledger's lock guards it. Times of expiry are paced seconds."""

    def __init__(self, name: str, interval: float) -> None:
        self._name, self._expiry = name, max(2 * interval, SHORTEST_EXPIRY)
        self._done: float | None = None
        self._succeeded = False
        self._seconds: float | None = None
        self._last_success: float | None = None
        self._words = ""

    def done(self, message: CollectorDone, now: float) -> int:
        """Take the end of a run; the number of values in it that cannot be true."""
        seconds, at = number(message.seconds), number(message.at)
        self._done, self._seconds, self._succeeded = now, seconds, message.reason is None
        self._words = words(message.words, LONGEST_LIST)
        if self._succeeded and at is not None:
            self._last_success = at
        return (seconds is None) + (at is None)

    def lost(self) -> None:
        """Its probe process is down."""
        self._done = None

    @property
    def problem(self) -> str:
        """What went wrong in words: the whole run, or single queries of a round of canaries."""
        return "" if self._succeeded and self._name != CANARY else self._words

    def view(self, now: float) -> CollectorView | None:
        """What is known; None before the first run."""
        if self._done is None and self._last_success is None:
            return None
        recent = self._done is not None and now - self._done <= self._expiry
        return CollectorView(
            self._name,
            None if self._done is None else self._succeeded and recent,
            self._seconds if recent else None,
            self._last_success,
            self._words if recent and not self.problem else "",
        )
