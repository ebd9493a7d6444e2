"""Time, in one place: the wall clock, the monotonic clock, and the steps between them."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What the program asks of a clock; seconds everywhere."""

    def wall(self) -> float:
        """Unix time. May step."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary start. Never steps."""

    def steady(self) -> float:
        """Unix time at construction plus monotonic time since: never steps, for windows and blocks."""


class SystemClock:
    """The machine's clocks."""

    def __init__(self) -> None:
        self._anchor = time.time() - time.monotonic()

    def wall(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def steady(self) -> float:
        return self._anchor + time.monotonic()


class FakeClock:
    """A clock for tests: `advance` moves all readings, `step` moves only the wall clock."""

    def __init__(self, start: float = 1_800_000_000.0) -> None:
        self._monotonic = 1000.0
        self._start, self._stepped = start - 1000.0, 0.0

    def advance(self, seconds: float) -> None:
        self._monotonic += seconds

    def step(self, seconds: float) -> None:
        self._stepped += seconds

    def wall(self) -> float:
        return self._start + self._stepped + self._monotonic

    def monotonic(self) -> float:
        return self._monotonic

    def steady(self) -> float:
        return self._start + self._monotonic


class StepDetector:
    """Tells when the wall clock moved against the monotonic clock by more than `tolerance` seconds."""

    def __init__(self, clock: Clock, tolerance: float = 2.0) -> None:
        self._clock, self._tolerance = clock, tolerance
        self._offset = clock.wall() - clock.monotonic()

    def check(self) -> float:
        """The step in seconds since the last check (negative: back), 0.0 when there was none."""
        offset = self._clock.wall() - self._clock.monotonic()
        step = offset - self._offset
        if abs(step) <= self._tolerance:
            # Slow slewing by NTP is followed, so that it never adds up to a step.
            self._offset = offset
            return 0.0
        self._offset = offset
        return step
