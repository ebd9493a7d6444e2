"""Old blocks become hours: bounded, without loss, whatever happens meanwhile."""

from __future__ import annotations

import logging
import math
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from exporter.domain.clock import FakeClock
from exporter.domain.model import Variant
from exporter.history.spans import RECENT_SECONDS
from exporter.overhead.blocks import Block, BlockSide
from exporter.overhead.sketch import LogSketch
from exporter.overhead.stretches import HOUR, hour_of
from exporter.overhead.units import UnitPoint

DAY = 86400.0


def fill(history: Any, key: Any, make_block: Any, since: float, blocks: int, epoch: str = "e1") -> list[Block]:
    made = [make_block(since + 300 * n, n % 7, epoch) for n in range(blocks)]
    history.save_blocks((key, block) for block in made)
    return made


def test_what_is_older_than_a_day_is_joined_and_the_rest_is_left(
    open_history: Any, make_key: Any, make_block: Any, clock: FakeClock
) -> None:
    history = open_history()
    begun = hour_of(clock.steady() - 3 * DAY)
    made = fill(history, make_key(), make_block, begun, 3 * 288)
    samples = sum(block.plain.samples for block in made)
    merged = LogSketch()
    for block in made:
        merged.merge(block.encrypted.sketch)

    assert history.prune() > 0
    limit = hour_of(clock.steady() - RECENT_SECONDS)
    parts = [part for key, part in history.load_span(0.0, math.inf)]
    hours = [part for part in parts if part.seconds == HOUR]
    assert [part.block.start for part in hours] == list(np.arange(begun, limit, HOUR))
    assert [part.block for part in parts if part.seconds != HOUR] == [b for b in made if b.start >= limit]
    assert sum(part.block.plain.samples for part in parts) == samples
    again = LogSketch()
    for part in parts:
        again.merge(part.block.encrypted.sketch)
    assert again == merged
    # What statistics take up at a start is all in blocks.
    assert len(list(history.load_blocks(clock.steady() - DAY))) == 288
    assert history.prune() == 0


def test_epochs_are_never_joined(open_history: Any, make_key: Any, make_block: Any, clock: FakeClock) -> None:
    history = open_history()
    begun = hour_of(clock.steady() - 2 * DAY)
    fill(history, make_key(), make_block, begun, 5, "before")
    fill(history, make_key(), make_block, begun + 5 * 300, 7, "after")
    history.prune()
    parts = [part for _, part in history.load_span(0.0, math.inf)]
    assert [(part.block.epoch, part.measured) for part in parts] == [("after", 2100.0), ("before", 1500.0)]


def test_a_block_that_comes_late_is_added_to_its_hour(
    open_history: Any, make_key: Any, make_block: Any, clock: FakeClock
) -> None:
    history = open_history()
    begun = hour_of(clock.steady() - 2 * DAY)
    fill(history, make_key(), make_block, begun, 5)
    history.prune()
    fill(history, make_key(), make_block, begun + 1500, 1)
    assert history.prune() == 1
    ((_, part),) = history.load_span(0.0, math.inf)
    assert (part.measured, part.block.plain.samples) == (1800.0, 1200)


def test_a_span_is_of_the_target_and_time_that_were_asked_for(
    open_history: Any, make_key: Any, make_block: Any, clock: FakeClock
) -> None:
    history = open_history()
    now = hour_of(clock.steady())
    for key in (make_key("a"), make_key("b"), make_key("a", pair="other")):
        fill(history, key, make_block, now - 2 * DAY, 24)
        fill(history, key, make_block, now - 3600, 12)
    history.prune()
    found = list(history.load_span(now - 2 * DAY, now - 1800, "a", "phonebook"))
    assert {key for key, _ in found} == {make_key("a")}
    assert [(part.block.start - now, part.seconds) for _, part in found] == [
        (-2 * DAY, HOUR),
        (-2 * DAY + HOUR, HOUR),
        *((-3600.0 + 300 * n, 300.0) for n in range(6)),
    ]
    assert {key.pair for key, _ in history.load_span(0.0, math.inf, "a")} == {"phonebook", "other"}


def test_pages_of_a_span_are_crossed(open_history: Any, make_key: Any, clock: FakeClock) -> None:
    history = open_history()
    keys = [make_key(f"t{n}") for n in range(3)]
    now = hour_of(clock.steady())
    history.save_blocks((key, Block(now - DAY + 300 * n, "e")) for n in range(280) for key in keys)
    found = [(part.block.start, key.target) for key, part in history.load_span(0.0, math.inf)]
    assert len(found) == len(set(found)) == 840
    assert [start for start, _ in found] == sorted(start for start, _ in found)


def test_a_damaged_block_is_left_out_of_its_hour(
    open_history: Any, make_key: Any, make_block: Any, clock: FakeClock, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    history = open_history()
    begun = hour_of(clock.steady() - 2 * DAY)
    fill(history, make_key(), make_block, begun, 12)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("UPDATE blocks SET plain_sketch = x'0102' WHERE start = ?", (begun + 900,))
    with caplog.at_level(logging.WARNING):
        assert history.prune() == 12
    assert history.errors == 1
    ((_, part),) = history.load_span(0.0, math.inf)
    assert part.measured == 11 * 300


def test_a_series_lives_as_long_as_its_hours(
    open_history: Any, make_key: Any, make_block: Any, clock: FakeClock
) -> None:
    history = open_history(retention=5 * DAY)
    fill(history, make_key(), make_block, hour_of(clock.steady() - 2 * DAY), 12)
    history.prune()
    assert history.info()[1:4] == (1, (0, None, None), (1, clock.steady() - 2 * DAY, clock.steady() - 2 * DAY))
    clock.advance(4 * DAY)
    history.prune()
    assert (history.info().series, history.info().hours.number) == (0, 0)


def real_block(start: float, random: np.random.Generator, samples: int) -> Block:
    """As a canary fills it: bursts of 20 every ten seconds, or one scan."""
    sides = {}
    for variant in Variant:
        sketch = LogSketch()
        miss = random.random(samples) < 0.03
        sketch.add(np.where(miss, random.lognormal(-6.2, 0.5, samples), random.lognormal(-8.3, 0.25, samples)))
        sides[variant] = BlockSide(samples, 0, sketch, 40, random.random(), 1234, 0, 40)
    units = tuple(UnitPoint(start + 20 * n, random.normal(), random.normal()) for n in range(15))
    return Block(start, "0123456789ab", sides[Variant.ENCRYPTED], sides[Variant.PLAIN], units)


@pytest.mark.parametrize(("samples", "recent", "old"), [(600, 320_000, 42_000), (30, 240_000, 30_000)])
def test_a_series_takes_as_much_of_the_disk_as_documented(
    open_history: Any, make_key: Any, clock: FakeClock, samples: int, recent: int, old: int
) -> None:
    """Bytes of a series for a day in blocks and for a day in hours; `docs/baselines.md` names these numbers."""
    random = np.random.default_rng(3)
    days, sizes = 3, []
    now = hour_of(clock.steady())
    for joins in (False, True):
        history = open_history()
        if not joins:
            history.save_blocks(
                (make_key(), real_block(now - days * DAY - 2 * DAY + 300 * n, random, samples))
                for n in range(288 * days)
            )
        else:
            history.prune()
        history.close()
        sizes.append(history.size_bytes() / days)
    assert sizes[0] < recent
    assert sizes[1] < old + 40_000 / days  # The empty file itself.
