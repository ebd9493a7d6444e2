"""The last day: whole hours, one epoch, what a restart brings back, and bounded memory."""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from exporter.domain.model import Variant
from exporter.overhead.blocks import Block, BlockSide
from exporter.overhead.sketch import LogSketch
from exporter.overhead.tau import FEWEST_WINDOWS, SIX_HOURS, Wandering
from exporter.overhead.two_level import DEFAULT_TAU
from exporter.overhead.units import UnitPoint
from exporter.overhead.window_day import DayWindow
from exporter.overhead.windows import SeriesWindow

approx: Any = pytest.approx  # Stands for the number that it is near to.
E, P = Variant.ENCRYPTED, Variant.PLAIN
START = 1_800_057_600.0  # A multiple of six hours.
HOUR = 3600.0


def block(
    place: int, ratio: float = 1.2, size: int = 200, epoch: str = "one", units: int = 15, drift: float = 0
) -> Block:
    """The block that begins `place` five minutes after `START`; 3 % of its samples are slow."""
    random = np.random.default_rng(place + 10_000)
    sides = []
    for factor in (ratio, 1.0):
        sketch = LogSketch()
        slow = np.where(random.random(size) < 0.03, 2.0, 0.0)
        sketch.add(np.exp(random.normal(-8, 0.25, size) + slow) * factor)
        sides.append(BlockSide(samples=size, sketch=sketch))
    logs = random.normal(math.log(ratio) + drift, 0.05, units)
    at = START + 300.0 * place
    points = tuple(UnitPoint(at + 20 * number, float(log), float(log)) for number, log in enumerate(logs))
    return Block(at, epoch, sides[0], sides[1], points)


def filled(blocks: list[Block]) -> DayWindow:
    day = DayWindow()
    for one in blocks:
        assert day.add(one)
    return day


def test_a_day_of_bursts() -> None:
    day = filled([block(place) for place in range(24 * 12)])
    summary = day.summary(START + 24 * HOUR, Wandering(SIX_HOURS))
    assert (summary.epoch, summary.since, summary.hours) == ("one", START, 24)
    assert summary.samples == {E: 57_600, P: 57_600}
    for percent, tolerance in ((50, 0.01), (99, 0.05)):
        ratio = summary.latency_ratio[percent]
        assert ratio.samples == 57_600
        assert ratio.estimate == approx(1.2, rel=tolerance)
        assert ratio.lower is not None
        assert ratio.upper is not None
        # The second level alone is 3 % either way.
        assert ratio.upper / ratio.lower > math.exp(2 * 1.95 * DEFAULT_TAU)
        assert ratio.lower < 1.2 < ratio.upper
    assert summary.cpu_ratio is not None
    assert summary.cpu_ratio.estimate == approx(1.2, rel=0.01)
    assert summary.cpu_ratio.samples == 48
    assert summary.percentiles[P][50] == approx(math.exp(-8), rel=0.02)
    assert summary.percentiles[E][50] == approx(1.2 * math.exp(-8), rel=0.02)
    assert set(summary.percentiles[E]) == {50, 99}
    assert summary.gap is not None


def test_ten_whole_hours_are_needed() -> None:
    day, wandering = DayWindow(), Wandering(SIX_HOURS)
    empty = day.summary(START, wandering)
    assert (empty.hours, empty.samples, empty.latency_ratio, empty.cpu_ratio) == (0, {E: 0, P: 0}, {}, None)
    assert (empty.percentiles, empty.gap) == ({E: {}, P: {}}, None)
    for place in range(10 * 12):
        day.add(block(place))
        now = START + 300.0 * (place + 1)
        summary = day.summary(now, wandering)
        assert summary.hours == (place + 1) // 12
        assert (50 in summary.latency_ratio) == (place + 1 >= 120)
        assert (summary.cpu_ratio is None) == (place + 1 < 120)
    few = filled([block(place, size=4) for place in range(120)])
    assert set(few.summary(START + 10 * HOUR, wandering).latency_ratio) == {50}


def test_single_samples_are_judged_by_their_units() -> None:
    day = filled([block(place, 1.4, size=30) for place in range(24 * 12)])
    summary = day.summary(START + 24 * HOUR, Wandering(SIX_HOURS))
    assert set(summary.latency_ratio) == {50}
    assert summary.latency_ratio[50].samples == 48
    assert summary.latency_ratio[50].estimate == approx(1.4, rel=0.01)
    rare = filled([block(12 * hour, 1.4, size=2, units=1) for hour in range(24)])
    assert rare.summary(START + 24 * HOUR, Wandering(SIX_HOURS)).latency_ratio[50].samples == 24


def test_what_is_older_than_a_day_is_forgotten() -> None:
    day = filled([block(place, 5.0 if place < 144 else 1.2) for place in range(36 * 12)])
    summary = day.summary(START + 36 * HOUR, Wandering(SIX_HOURS))
    assert summary.since == START + 12 * HOUR
    assert summary.samples == {E: 57_600, P: 57_600}
    assert summary.latency_ratio[50].estimate == approx(1.2, rel=0.01)
    assert not day.add(block(0))
    assert day.summary(START + 65 * HOUR, Wandering(SIX_HOURS)).hours == 0


def test_blocks_count_once_and_may_come_in_any_order() -> None:
    blocks = [block(place) for place in range(12 * 12)]
    day = filled(blocks)
    for one in blocks:
        assert not day.add(one)
    other = DayWindow()
    for place in np.random.default_rng(1).permutation(len(blocks)):
        other.add(blocks[place])
    now = START + 12 * HOUR
    assert other.summary(now, Wandering(SIX_HOURS)).samples == day.summary(now, Wandering(SIX_HOURS)).samples
    assert (
        other.summary(now, Wandering(SIX_HOURS)).latency_ratio == day.summary(now, Wandering(SIX_HOURS)).latency_ratio
    )


def test_epochs_are_never_mixed() -> None:
    day = filled([block(place, 3.0) for place in range(12 * 12)])
    assert day.add(block(200, 1.1, epoch="two"))
    assert not day.add(block(150, 3.0, epoch="one"))
    summary = day.summary(START + 300.0 * 204, Wandering(SIX_HOURS))
    assert (summary.epoch, summary.hours, summary.samples) == ("two", 1, {E: 200, P: 200})


def test_unequal_sides_are_refused() -> None:
    good = block(0)
    with pytest.raises(ValueError, match="unequal"):
        DayWindow().add(replace(good, plain=replace(good.plain, samples=1)))
    with pytest.raises(ValueError, match="unequal"):
        DayWindow().add(replace(good, plain=BlockSide(samples=200)))


def test_the_hour_hands_its_blocks_over_when_they_ended(make_tick: Any) -> None:
    window, day = SeriesWindow(), DayWindow()
    for place in range(2 * 360):
        at = START + 10.0 * place
        window.add(make_tick([0.2] * 2, [0.1] * 2, first=(E, P)[place % 2]), at)
        day.add_closed(window.blocks(), at)
    assert day.summary(START + 2 * HOUR - 1, Wandering(SIX_HOURS)).samples == {E: 720, P: 720}
    day.add_closed(window.blocks(), START + 2 * HOUR)
    assert day.summary(START + 2 * HOUR, Wandering(SIX_HOURS)).samples == {E: 1440, P: 1440}


def test_a_week_teaches_how_much_the_ratio_wanders() -> None:
    day, wandering, taught = DayWindow(), Wandering(SIX_HOURS), 0
    random = np.random.default_rng(4)
    for window in range(20):
        ratio = 1.2 * math.exp(random.normal(0, 0.08))
        for place in range(72 * window, 72 * window + 72):
            # Seldom enough to be quick.
            if place % 3 == 0:
                day.add(block(place, ratio, size=100, units=2))
            taught += day.teach(wandering, START + 300.0 * place)
    now = START + 20 * SIX_HOURS
    taught += day.teach(wandering, now)
    assert taught == 20
    assert not day.teach(wandering, now)
    assert wandering.newest() == START + 19 * SIX_HOURS
    assert 0.04 < wandering.tau("50") < 0.14
    assert 0.04 < wandering.tau("cpu") < 0.14
    wide, narrow = (
        day.summary(now, wandering).latency_ratio[50],
        day.summary(now, Wandering(SIX_HOURS)).latency_ratio[50],
    )
    assert wide.upper is not None
    assert narrow.upper is not None
    assert wide.upper > narrow.upper


def test_after_a_restart_the_day_teaches_what_it_still_has() -> None:
    day, wandering = filled([block(place, size=100, units=2) for place in range(0, 24 * 12, 3)]), Wandering(SIX_HOURS)
    assert day.teach(wandering, START + 24 * HOUR)
    assert wandering.newest() == START + 18 * HOUR
    assert len(wandering.to_state()["windows"]["50"]) == 3 < FEWEST_WINDOWS
    gone = Wandering(SIX_HOURS)
    assert not filled([block(place) for place in range(48)]).teach(gone, START + 6 * HOUR)


def test_memory_is_bounded_whatever_is_measured() -> None:
    tracemalloc.start()
    try:
        day = DayWindow()
        for place in range(26 * 12):
            day.add(block(place, size=300))
            if place % 12 == 11:
                day.summary(START + 300.0 * (place + 1), Wandering(SIX_HOURS))
        before = tracemalloc.get_traced_memory()[0]
        del day
        taken = before - tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert taken < 100_000
