"""Time, in one place: the wall clock, the monotonic clock, and the steps between them."""

from __future__ import annotations

import time
from typing import Protocol

from exporter.domain.time_scale import TimeScale, time_scale


class Clock(Protocol):
    """What the program asks of a clock; seconds everywhere. Which second is meant differs in tests: see `time_scale`."""

    def wall(self) -> float:
        """Unix time. May step."""

    def monotonic(self) -> float:
        """Real seconds since an arbitrary start: for deadlines, and for how long something takes. Never steps."""

    def paced(self) -> float:
        """Paced seconds since an arbitrary start: for intervals, expiries and budgets. Never steps."""

    def steady(self) -> float:
        """Unix time at construction plus paced time since: never steps, for windows and blocks."""

    def steady_at(self, wall: float) -> float:
        """The steady time of a moment that is told in Unix time, by what the clocks differ by now."""

    def wall_at(self, steady: float) -> float:
        """The Unix time of a moment that is told in steady time, by what the clocks differ by now."""

    def real(self, paced: float) -> float:
        """How many real seconds to wait for so many paced ones."""


class SystemClock:
    """The machine's clocks; a `scale` makes paced time run faster (that of the environment, which only tests set)."""

    def __init__(self, scale: TimeScale | None = None) -> None:
        self._scale = time_scale() if scale is None else scale
        self._anchor = time.time() - time.monotonic()

    def wall(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def paced(self) -> float:
        return self.monotonic() * self._scale.factor

    def steady(self) -> float:
        return self._scale.steady(self._anchor + time.monotonic())

    def steady_at(self, wall: float) -> float:
        return self.steady() + (wall - self.wall()) * self._scale.factor

    def wall_at(self, steady: float) -> float:
        return self.wall() + (steady - self.steady()) / self._scale.factor

    def real(self, paced: float) -> float:
        return paced / self._scale.factor


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

    def paced(self) -> float:
        return self._monotonic

    def steady(self) -> float:
        return self._start + self._monotonic

    def steady_at(self, wall: float) -> float:
        return wall - self._stepped

    def wall_at(self, steady: float) -> float:
        return steady + self._stepped

    def real(self, paced: float) -> float:
        return paced


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
