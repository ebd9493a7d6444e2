"""The exporter's own noise in the last hour: percentiles finer than the buckets of a histogram."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import numpy as np

from exporter.exposition.screening import number
from exporter.exposition.view import NoiseView
from exporter.overhead.sketch import LogSketch

HOUR = 3600.0
PART = 300.0


class NoiseHour:
    """Times of the null canary, kept in sketches of five minutes for an hour. Times are paced seconds."""

    def __init__(self) -> None:
        self._parts: deque[tuple[float, LogSketch]] = deque()

    def observe(self, values: Iterable[object], now: float) -> None:
        """What is not a positive time is left out."""
        believed = [seconds for value in values if (seconds := number(value))]
        if not believed:
            return
        if not self._parts or now - self._parts[-1][0] >= PART:
            self._parts.append((now, LogSketch()))
        self._parts[-1][1].add(np.array(believed))

    def view(self, now: float) -> NoiseView | None:
        """None while nothing was observed in the last hour."""
        while self._parts and now - self._parts[0][0] >= HOUR + PART:
            self._parts.popleft()
        total = LogSketch()
        for _, sketch in self._parts:
            total.merge(sketch)
        median, tail = total.quantile(0.5), total.quantile(0.99)
        return None if median is None or tail is None else NoiseView(median, tail, total.count)
