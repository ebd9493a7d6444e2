"""Blocks that are joined to hours lose their order within the hour, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.overhead.blocks import Block, BlockSide
from exporter.overhead.sketch import LogSketch
from exporter.overhead.stretches import HOUR, Stretch, hour_of, joined, stretch
from exporter.overhead.units import UnitPoint

START = 1_800_000_000.0


def side(seed: int, decrypts: int | None = 7) -> BlockSide:
    sketch = LogSketch()
    sketch.add(np.random.default_rng(seed).lognormal(-7, 0.3, 20))
    return BlockSide(20, 1, sketch, 2, 0.5, decrypts, 0, 3)


def block(number: int, epoch: str = "e1", units: int = 1, decrypts: int | None = 7) -> Block:
    start = START + 300 * number
    points = tuple(UnitPoint(start + n, 0.1 * n, None if n % 2 else 0.2) for n in range(units))
    return Block(start, epoch, side(number, decrypts), side(number + 100), points)


def test_an_hour_has_all_samples_and_sums_of_its_blocks() -> None:
    parts = [stretch(block(number)) for number in range(12)]
    hour = joined(parts)
    assert (hour.block.start, hour.seconds, hour.measured) == (START, HOUR, 3600.0)
    assert hour.block.epoch == "e1"
    assert (hour.block.plain.samples, hour.block.plain.failures, hour.block.plain.decrypts) == (240, 12, 84)
    assert hour.block.encrypted.cpu_seconds == pytest.approx(6.0)
    assert hour.block.encrypted.sketch.count == 240
    whole = LogSketch()
    for part in parts:
        whole.merge(part.block.encrypted.sketch)
    assert hour.block.encrypted.sketch == whole


def test_what_one_block_does_not_know_the_hour_does_not_know() -> None:
    hour = joined([stretch(block(0)), stretch(block(1, decrypts=None))])
    assert hour.block.encrypted.decrypts is None
    assert hour.block.plain.decrypts == 14


def test_parts_that_do_not_belong_together_are_refused() -> None:
    for parts in ([], [stretch(block(0)), stretch(block(12))], [stretch(block(0)), stretch(block(1, "e2"))]):
        with pytest.raises(ValueError, match="no hour"):
            joined(parts)


def test_bursts_are_remembered_when_their_units_are_thinned() -> None:
    assert [stretch(block(0, units=units)).in_bursts for units in (5, 6, 9)] == [True, False, False]
    hour = joined([stretch(block(number, units=10)) for number in range(12)])
    assert (len(hour.block.units), hour.in_bursts) == (2, False)
    assert joined([hour, stretch(block(3, units=2))]).in_bursts


@given(st.lists(st.integers(0, 11), unique=True, min_size=2), st.randoms(use_true_random=False))
def test_however_an_hour_is_joined_it_is_the_same(numbers: list[int], random: object) -> None:
    parts = [stretch(block(number, units=0)) for number in numbers]
    at_once = joined(parts)
    random.shuffle(parts)  # type: ignore[attr-defined]
    by_and_by: Stretch = joined(parts[:1])
    for part in parts[1:]:
        by_and_by = joined([by_and_by, part])
    assert by_and_by.measured == at_once.measured
    for mine, other in (
        (by_and_by.block.encrypted, at_once.block.encrypted),
        (by_and_by.block.plain, at_once.block.plain),
    ):
        assert (mine.samples, mine.sketch, mine.decrypts) == (other.samples, other.sketch, other.decrypts)
    assert hour_of(by_and_by.block.start) == by_and_by.block.start
