"""The last day of one series, from what is kept of its closed blocks.

Whole hours, of which the last one has ended: 24 of them, each with one sketch of either side. Ratios come from paired
exceedance on the sketches, hour against hour (`sketch_pex`), those of operations measured once in a tick from
their units; both need ten hours. Percentiles are within 1.1 %.

A day takes 40 to 150 KiB for a series, most of it for the units of the hour that is open, however many samples it had. Everything is in steady seconds.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from exporter.domain.model import Variant
from exporter.overhead.blocks import Block
from exporter.overhead.gap import tail_gap_of_sketch
from exporter.overhead.hodges_lehmann import FEWEST_UNITS, hodges_lehmann
from exporter.overhead.pex import FEWEST_BLOCKS
from exporter.overhead.ratio import Ratio
from exporter.overhead.sketch import LogSketch
from exporter.overhead.sketch_pex import sketched_exceedance
from exporter.overhead.tau import SIX_HOURS, Wandering, window_estimate
from exporter.overhead.two_level import two_level
from exporter.overhead.units import UnitPoint, thin

HOUR = 3600.0
HOURS = 24
UNITS_PER_HOUR = 2
"""Units of an hour are averaged to so many: what disturbs neighbours alike must not count several times."""
_FEWEST_FOR_TAIL = 100
_BLOCK = 300.0

_Totals = tuple[dict[Variant, int], dict[Variant, dict[int, float]], float | None]
"""Samples, percentiles, gap."""
_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class DaySummary:
    """What a day says; as in `SeriesSummary`, what is unknown or below its gate is absent or None, never 0.

    `hours` counts those with samples. `samples` always has both sides; `percentiles` holds seconds (+inf among
    timeouts); `latency_ratio` is by percentile. `gap` is the diagnostic of `gap.py`. `since` is when the window begins.
    """

    epoch: str
    since: float
    hours: int
    samples: dict[Variant, int]
    percentiles: dict[Variant, dict[int, float]]
    latency_ratio: dict[int, Ratio]
    cpu_ratio: Ratio | None
    gap: float | None


@dataclass(slots=True)
class _Hour:
    """What is left of the blocks of one hour; the sketches are packed while nothing is added."""

    taken: array[float] = field(default_factory=lambda: array("d"))
    samples: int = 0
    packed: dict[Variant, bytes] = field(default_factory=dict)
    units: list[UnitPoint] = field(default_factory=list)
    in_bursts: bool = False

    def add(self, block: Block) -> None:
        self.taken.append(block.start)
        for variant in Variant:
            sketch = self.sketch(variant)
            sketch.merge(block.side(variant).sketch)
            self.packed[variant] = sketch.to_bytes()
        self.samples += block.plain.samples
        # A unit is two ticks: with bursts it stands for at least four samples per side, else for two.
        self.in_bursts |= block.plain.samples > 3 * len(block.units) + 3
        self.units.extend(block.units)

    def thin(self) -> bool:
        """Averages the units, unless that was done."""
        if len(self.units) <= UNITS_PER_HOUR:
            return False
        self.units = list(thin(self.units, UNITS_PER_HOUR))
        return True

    def sketch(self, variant: Variant) -> LogSketch:
        return LogSketch.from_bytes(self.packed[variant]) if variant in self.packed else LogSketch()


class DayWindow:
    """One operation on one pair of one target. Not thread-safe; call it from one thread."""

    def __init__(self, percentiles: Sequence[int] = (50, 99)) -> None:
        self._percents = tuple(percentiles)
        self._hours: dict[float, _Hour] = {}
        self._epoch: str | None = None
        self._newest = -math.inf
        self._changes = 0
        self._memory: dict[object, tuple[object, object]] = {}

    def add(self, block: Block) -> bool:
        """Takes a closed block, live or from the history, in any order; whether it was new.

        Give each block once it is complete: a second one of the same start is ignored. Of blocks of several epochs
        the latest wins. Raises ValueError when the sides differ in their number of samples.
        """
        encrypted, plain = block.encrypted, block.plain
        if not encrypted.samples == plain.samples == encrypted.sketch.count == plain.sketch.count:
            raise ValueError(f"unequal sides in the block of {block.start}")
        if block.epoch != self._epoch:
            if block.start < self._newest:
                return False
            self._hours.clear()
            self._newest = -math.inf
            self._epoch = block.epoch
        start = _hour_of(block.start)
        hour = self._hours.get(start) or _Hour()
        if block.start in hour.taken or start < _hour_of(self._newest) - HOURS * HOUR:
            return False
        self._newest = max(self._newest, block.start)
        self._hours[start] = hour
        hour.add(block)
        if len(hour.taken) * _BLOCK >= HOUR:
            # Nothing more will come. A day from the history would else take ten times as much until it is asked for.
            hour.thin()
        self._changes += 1
        return True

    def add_closed(self, blocks: Iterable[Block], now: float, length: float = 300.0) -> None:
        """Takes those blocks of a `SeriesWindow` that have ended by `now`."""
        for block in blocks:
            if block.start + length <= now and block.start > self._newest:
                self.add(block)

    def summary(self, now: float, wandering: Wandering) -> DaySummary:
        """What the last 24 whole hours say at `now`. Ratios are made anew once an hour, a few milliseconds each."""
        self._roll(now)
        until = _hour_of(now)
        since = until - HOURS * HOUR
        hours = self._between(since, until)
        key = (since, self._changes)
        ratios = self._remember("latency", key, lambda: self._ratios(hours, FEWEST_BLOCKS))
        cpu = self._remember("cpu", key, lambda: _cpu(hours, FEWEST_BLOCKS))
        samples, percentiles, gap = self._remember("totals", key, lambda: self._totals(hours))
        published = {percent: two_level(ratio, wandering.tau(str(percent))) for percent, ratio in ratios.items()}
        return DaySummary(
            epoch=self._epoch or "",
            since=since,
            hours=len(hours),
            samples=samples,
            percentiles=percentiles,
            latency_ratio={percent: ratio for percent, ratio in published.items() if ratio is not None},
            cpu_ratio=two_level(cpu, wandering.tau("cpu")),
            gap=gap,
        )

    def teach(self, wandering: Wandering, now: float) -> bool:
        """Gives `wandering` the six-hour windows that ended by `now` and that it does not know; whether any was new.

        Cheap when none ended. `wandering` must be of that length, and of the same epoch.
        """
        self._roll(now)
        new, last = False, math.floor(now / SIX_HOURS) * SIX_HOURS - SIX_HOURS
        start = max(wandering.newest() + SIX_HOURS, last - (HOURS * HOUR - 2 * SIX_HOURS))
        while start <= last:
            new |= self._teach(wandering, start)
            start += SIX_HOURS
        return new

    def _teach(self, wandering: Wandering, start: float) -> bool:
        hours, needed = self._between(start, start + SIX_HOURS), SIX_HOURS / HOUR - 1
        if len(hours) < needed:
            return False
        bursts = any(hour.in_bursts for hour in hours)
        found = [
            (str(percent), window_estimate(start, ratio, len(hours) - 1 if bursts else None))
            for percent, ratio in self._ratios(hours, len(hours)).items()
        ]
        found.append(("cpu", window_estimate(start, _cpu(hours, 1))))
        for figure, window in found:
            if window is not None:
                wandering.add(figure, window)
        return any(window is not None for _, window in found)

    def _between(self, since: float, until: float) -> list[_Hour]:
        return [self._hours[start] for start in sorted(self._hours) if since <= start < until]

    def _ratios(self, hours: Sequence[_Hour], fewest: int) -> dict[int, Ratio]:
        """By percentile, with the interval of the window alone."""
        if not any(hour.in_bursts for hour in hours):
            ratio = _of_units([unit.latency for hour in hours for unit in hour.units], len(hours), fewest)
            return {} if ratio is None else {50: ratio}
        encrypted, plain = ([hour.sketch(variant) for hour in hours] for variant in (Variant.ENCRYPTED, Variant.PLAIN))
        found = {
            percent: sketched_exceedance(encrypted, plain, percent / 100, fewest_blocks=fewest)
            for percent in self._percents
        }
        return {percent: ratio for percent, ratio in found.items() if ratio is not None}

    def _totals(self, hours: Sequence[_Hour]) -> _Totals:
        # The merged sketches themselves are not kept: they would take more than all the packed ones.
        merged = {variant: _merged(hours, variant) for variant in Variant}
        return (
            {variant: sketch.count for variant, sketch in merged.items()},
            {variant: self._percentiles(sketch) for variant, sketch in merged.items()},
            _gap(merged),
        )

    def _percentiles(self, sketch: LogSketch) -> dict[int, float]:
        wanted = [percent for percent in self._percents if percent <= 50 or sketch.count >= _FEWEST_FOR_TAIL]
        values = {percent: sketch.quantile(percent / 100) for percent in wanted}
        return {percent: value for percent, value in values.items() if value is not None}

    def _roll(self, now: float) -> None:
        """Drops what is older than a day and averages the units of hours that ended."""
        until = _hour_of(now)
        for start in [start for start in self._hours if start < until - HOURS * HOUR]:
            del self._hours[start]
        for start, hour in self._hours.items():
            if start < until and hour.thin():
                self._changes += 1

    def _remember(self, what: object, key: object, compute: Callable[[], _Result]) -> _Result:
        kept = self._memory.get(what)
        if kept is None or kept[0] != key:
            kept = self._memory[what] = (key, compute())
        result: _Result = kept[1]  # type: ignore[assignment]
        return result


def _hour_of(at: float) -> float:
    return math.floor(at / HOUR) * HOUR if math.isfinite(at) else at


def _merged(hours: Sequence[_Hour], variant: Variant) -> LogSketch:
    merged = LogSketch()
    for hour in hours:
        merged.merge(hour.sketch(variant))
    return merged


def _cpu(hours: Sequence[_Hour], fewest: int) -> Ratio | None:
    known = [unit.cpu for hour in hours for unit in hour.units if unit.cpu is not None]
    return _of_units(known, len(hours), fewest)


def _of_units(values: Sequence[float], hours: int, fewest: int) -> Ratio | None:
    return hodges_lehmann(values) if hours >= fewest and len(values) >= FEWEST_UNITS else None


def _gap(sides: dict[Variant, LogSketch]) -> float | None:
    pooled = sides[Variant.ENCRYPTED].copy()
    pooled.merge(sides[Variant.PLAIN])
    return tail_gap_of_sketch(pooled)
