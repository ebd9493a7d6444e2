"""Troubles as the log tells them: once when they begin, once when they are over, never a line per second."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection

from exporter.domain.clock import Clock

AT_MOST_EVERY = 60.0
"""Seconds between two lines about the same thing, when it comes and goes or changes its words."""


class Troubles:
    """What is wrong now, by what it concerns. Thread-safe."""

    def __init__(self, log: logging.Logger, clock: Clock) -> None:
        self._log, self._clock = log, clock
        self._lock = threading.Lock()
        self._said: dict[tuple[str, ...], tuple[str, float]] = {}

    def hear(self, words: str, *about: str) -> None:
        """Take the newest word about something; empty: all is well with it. Logged if that is news."""
        now = self._clock.monotonic()
        with self._lock:
            before, at = self._said.get(about, ("", -AT_MOST_EVERY))
            if words == before or now - at < AT_MOST_EVERY:
                return
            self._said[about] = (words, now)
        fields = {"about": "/".join(about)}
        if words:
            self._log.warning("trouble", extra={**fields, "problem": words})
        else:
            self._log.warning("the trouble is over", extra=fields)

    def forget(self, about: Collection[str]) -> None:
        """Whatever concerns these, by the first word, concerns nobody any more."""
        with self._lock:
            self._said = {place: said for place, said in self._said.items() if place[0] not in about}
