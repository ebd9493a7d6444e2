"""One amount of time for several steps, each of which gets what is left of it."""

from __future__ import annotations

from exporter.domain.clock import Clock


class Countdown:
    """So many seconds from now on."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._end = clock.monotonic() + seconds

    def left(self, most: float = float("inf"), kept: float = 0.0) -> float:
        """The seconds that are left beside the `kept` ones, `most` at most; never negative."""
        return max(0.0, min(most, self._end - kept - self._clock.monotonic()))
