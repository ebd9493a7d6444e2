"""When it began: within minutes where everything changed, honestly wide where only the tail did, never out of noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.overhead.blocks import Block, BlockSide
from exporter.overhead.onset import best_split, find_onset
from exporter.overhead.sketch import LogSketch
from exporter.overhead.units import UnitPoint

approx: Any = pytest.approx  # Stands for the number that it is near to.


def day(
    seed: int, change: int, ratio: float, *, tail_only: bool = False, count: int = 288, size: int = 600
) -> list[Block]:
    """Five-minute blocks with noise that both sides share; from block `change` on, the encrypted side is slower."""
    random = np.random.default_rng(seed)
    blocks = []
    for number in range(count):
        shared, sides = random.normal(0, 0.25), []
        for more in (math.log(ratio) if number >= change else math.log(1.05), 0.0):
            slow = random.random(size) < 0.03
            logs = np.where(slow, random.normal(-6.2, 0.5, size), random.normal(-8.3, 0.25, size))
            logs = logs + shared + (np.where(slow, more, 0.0) if tail_only else more)
            sketch = LogSketch()
            sketch.add(np.exp(logs))
            sides.append(BlockSide(samples=size, sketch=sketch))
        blocks.append(Block(300.0 * number, "one", sides[0], sides[1]))
    return blocks


def test_a_change_of_everything_is_dated_to_its_block() -> None:
    for seed in range(5):
        onset = find_onset(day(seed, 270, 1.4), 1.2)
        assert onset is not None
        assert (onset.at, onset.by, onset.marked) == (300.0 * 270, "p50", False)
        assert onset.earliest <= onset.at <= onset.latest
        assert onset.ratio_before == approx(1.05, rel=0.02)
        assert onset.ratio_since == approx(1.4, rel=0.02)


def test_a_change_of_the_tail_is_found_in_the_tail() -> None:
    late, covered = [], 0
    for seed in range(12):
        onset = find_onset(day(seed, 264, 2.0, tail_only=True), 1.2)
        assert onset is not None
        assert onset.by == "p99"
        late.append(abs(onset.at / 300 - 264))
        covered += onset.earliest <= 300 * 264 <= onset.latest
        assert onset.ratio_since is not None
        assert onset.ratio_since > 1.5
    assert np.median(late) <= 2
    assert covered >= 10


def test_noise_has_no_onset() -> None:
    assert [find_onset(day(seed, 0, 1.05), 1.2) for seed in range(8)] == [None] * 8
    # Nor has an improvement.
    assert find_onset(day(1, 250, 0.5), 1.2) is None
    assert find_onset([], 1.2) is None
    assert find_onset(day(1, 5, 3.0, count=11), 1.2) is None


def test_an_event_within_the_bounds_is_the_onset() -> None:
    blocks = day(1, 270, 1.4)
    onset = find_onset(blocks, 1.2, events=(300.0 * 200, 300.0 * 270 - 130.0, 300.0 * 280))
    assert onset is not None
    assert (onset.at, onset.marked) == (300.0 * 270 - 130.0, True)
    assert onset.earliest <= onset.at <= onset.latest


def test_units_date_what_is_measured_once_in_a_tick() -> None:
    random = np.random.default_rng(1)
    blocks = []
    for block in day(2, 40, 1.0, count=60, size=2):
        logs = random.normal(math.log(1.5) if block.start >= 40 * 300 else 0.0, 0.1, 1)
        units = tuple(UnitPoint(block.start, float(log), None) for log in logs)
        blocks.append(Block(block.start, "one", block.encrypted, block.plain, units))
    onset = find_onset(blocks, 1.2)
    assert onset is not None
    assert onset.by == "p50"
    assert abs(onset.at / 300 - 40) <= 1


@given(st.lists(st.floats(-1e6, 1e6), min_size=12, max_size=60))
def test_a_split_leaves_half_an_hour_on_either_side(values: list[float]) -> None:
    split = best_split(values)
    if split is not None:
        assert 6 <= split.earliest <= split.first <= split.latest <= len(values) - 6


def test_an_exact_step_is_exact() -> None:
    split = best_split([0.0] * 20 + [1.0] * 10)
    assert split is not None
    assert (split.first, split.earliest, split.latest, split.rise) == (20, 20, 20, 1.0)
    assert best_split([1.0] * 40) is None
    assert best_split([0.0] * 3 + [1.0] * 3) is None
