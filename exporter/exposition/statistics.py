"""The windows of all series, kept apart from the counters, so that heavy statistics delay no message.

Ticks are queued by whoever delivers messages and taken by whoever asks for numbers. A summary costs
some milliseconds; one call of `summaries` spends a bounded time on those that changed, oldest first,
and answers with the previous one for the rest.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Iterable, Mapping

from exporter.domain.clock import Clock
from exporter.domain.model import Phase, SeriesKey, Tick, Variant
from exporter.overhead.baseline import Level, levels
from exporter.overhead.windows import Block, SeriesSummary, SeriesWindow

Levels = Mapping[Variant, Mapping[int, Level]]
"""Percentiles of either side with their errors."""

BLOCK = 300.0

log = logging.getLogger(__name__)

MOST_WAITING = 64
"""Ticks that may wait for each series; a tick of forty samples takes ten kilobytes until it is in its window."""

MOST_SECONDS = 0.1
"""What one call may spend on summaries, give or take one of them."""

OLDEST_SUMMARY = 60.0
"""A summary is made anew after that time even if no tick came: samples leave the window."""


class _Series:
    def __init__(self, certifying: bool) -> None:
        self.certifying = self.judged_certifying = certifying
        self.window = SeriesWindow()
        self.waiting: deque[tuple[Tick, float]] = deque()
        self.summary: SeriesSummary | None = None
        self.changed = False
        self.made = float("-inf")
        self.levels: tuple[tuple[tuple[str, float], ...], Levels] = ((), {})

    def level(self, now: float) -> Levels:
        """The levels of the closed blocks, made anew when another one closed."""
        closed = [block for block in self.window.blocks() if block.start + BLOCK <= now]
        of = tuple((block.epoch, block.start) for block in closed)
        if self.levels[0] != of:
            self.levels = (of, levels(closed))
        return self.levels[1]

    def drain(self) -> None:
        while self.waiting:
            self.changed |= self.window.add(*self.waiting.popleft())


class Statistics:
    """Windows and their summaries. Thread-safe; `offer` waits only when nobody asked for numbers for long.

    `phases` names all series there will ever be, with the phase of their pair.
    """

    def __init__(self, phases: Mapping[SeriesKey, Phase], clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._series = {key: _Series(phase is Phase.AA) for key, phase in phases.items()}

    def offer(self, tick: Tick) -> None:
        """Queue a tick that may enter statistics; ticks of series nobody configured are ignored."""
        if series := self._series.get(SeriesKey(tick.target, tick.pair, tick.operation)):
            series.waiting.append((tick, self._clock.steady()))
            if len(series.waiting) > MOST_WAITING:
                with self._lock:
                    series.drain()

    def restore(self, key: SeriesKey, block: Block) -> None:
        """Take a block that an earlier process wrote down; one that cannot be true is left out."""
        with self._lock:
            if series := self._series.get(key):
                try:
                    series.window.restore(block)
                except ValueError as error:
                    log.warning("a block of the history is left out: %s", error)
                series.changed = True

    def blocks(self) -> list[tuple[SeriesKey, Block]]:
        """Every block in the windows, for the history."""
        with self._lock:
            self._drain()
            return [(key, block) for key, series in self._series.items() for block in series.window.blocks()]

    def summaries(self) -> dict[SeriesKey, SeriesSummary]:
        """The newest summary of each series that ever had a sample."""
        with self._lock:
            self._drain()
            begun = self._clock.monotonic()
            for series in sorted(self._series.values(), key=lambda series: series.made):
                now = self._clock.monotonic()
                if now - begun > MOST_SECONDS:
                    break
                anew = series.changed or series.judged_certifying is not series.certifying
                if anew or (series.summary is not None and now - series.made >= OLDEST_SUMMARY):
                    series.judged_certifying = certifying = series.certifying
                    series.summary = series.window.summary(self._clock.steady(), certifying=certifying)
                    series.changed, series.made = False, now
            return {key: series.summary for key, series in self._series.items() if series.summary is not None}

    def certifying(self, target: str, pair: str, certifying: bool) -> None:
        """Whether both twins of a pair are plain now: then its series have no verdict. Waits for nobody."""
        for key, series in self._series.items():
            if (key.target, key.pair) == (target, pair):
                series.certifying = certifying

    def levels(self, keys: Iterable[SeriesKey]) -> dict[SeriesKey, Levels]:
        """What the closed blocks of some series say about each side for itself."""
        with self._lock:
            self._drain()
            now = self._clock.steady()
            return {key: self._series[key].level(now) for key in keys if key in self._series}

    def _drain(self) -> None:
        for series in self._series.values():
            series.drain()
