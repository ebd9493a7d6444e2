"""Says often what changes, and seldom what does not."""

from __future__ import annotations

from exporter.probing.messages import CollectorDone


class Sparing:
    """Lets pass the outcomes of a collector that runs every second: those that differ from the one before, and one
    every `seconds` otherwise. Each that passes costs the serving process a rendering of the page.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._last: CollectorDone | None = None
        self._said = 0.0

    def passes(self, done: CollectorDone, now: float) -> bool:
        """Whether to say it at the time `now` (paced seconds)."""
        if self._last is not None and self._last.reason is done.reason and now - self._said < self._seconds:
            return False
        self._last, self._said = done, now
        return True
