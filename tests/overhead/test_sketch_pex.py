"""Paired exceedance on sketches agrees with that on samples, and keeps its symmetries and its coverage."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from exporter.overhead.pex import fewest_samples, paired_exceedance
from exporter.overhead.ratio import Ratio
from exporter.overhead.sketch import LogSketch
from exporter.overhead.sketch_pex import sketched_exceedance

approx: Any = pytest.approx  # Stands for the number that it is near to.
Array = NDArray[np.float64]


def world(seed: int, count: int, ratio: float = 1.0, number: int = 24) -> tuple[Array, Array, NDArray[np.int64]]:
    """Cached reads with 3 % misses, and a disturbance that both sides of a block share."""
    random = np.random.default_rng(seed)
    blocks = np.repeat(np.arange(number), count // number)
    shared = random.normal(0, 0.25, number)[blocks]

    def side() -> Array:
        hits, misses = random.normal(-8.3, 0.25, blocks.size), random.normal(-6.2, 0.5, blocks.size)
        return np.where(random.random(blocks.size) < 0.03, misses, hits) + shared

    return side() + math.log(ratio), side(), blocks


def sketches(logs: Array, blocks: NDArray[np.int64]) -> list[LogSketch]:
    found = []
    for number in np.unique(blocks):
        sketch = LogSketch()
        sketch.add(np.exp(logs[blocks == number]))
        found.append(sketch)
    return found


def measured(encrypted: Array, plain: Array, blocks: NDArray[np.int64], quantile: float) -> Ratio:
    found = sketched_exceedance(sketches(encrypted, blocks), sketches(plain, blocks), quantile)
    assert found is not None
    return found


@pytest.mark.parametrize(("quantile", "tolerance"), [(0.5, 0.003), (0.95, 0.02), (0.99, 0.03)])
def test_it_agrees_with_the_samples(quantile: float, tolerance: float) -> None:
    for seed in range(5):
        encrypted, plain, blocks = world(seed, 14_400, 1.3)
        found = measured(encrypted, plain, blocks, quantile)
        exact = paired_exceedance(encrypted, blocks, plain, blocks, quantile)
        assert exact is not None
        assert found.samples == exact.samples == 14_400
        for mine, theirs in zip(found.to_dict().values(), exact.to_dict().values(), strict=True):
            assert mine == approx(theirs, rel=tolerance)


@pytest.mark.parametrize("quantile", [0.5, 0.95, 0.99])
def test_its_symmetries(quantile: float) -> None:
    encrypted, plain, blocks = world(1, 4800, 1.3)
    mine, theirs = sketches(encrypted, blocks), sketches(plain, blocks)
    same = sketched_exceedance(mine, mine, quantile)
    assert same is not None
    assert same.estimate == approx(1.0, rel=1e-6)
    there, back = sketched_exceedance(mine, theirs, quantile), sketched_exceedance(theirs, mine, quantile)
    assert there is not None
    assert back is not None
    for one, other in ((there.estimate, back.estimate), (there.lower, back.upper), (there.upper, back.lower)):
        assert one is not None
        assert other is not None
        assert one * other == approx(1.0, rel=1e-5)
    # What slows both sides down, in some blocks only, by whole buckets so that nothing is rounded.
    slow = np.where(blocks % 2 == 0, math.log(8.0), 0.0)
    exact = paired_exceedance(encrypted + slow, blocks, plain + slow, blocks, quantile)
    found = measured(encrypted + slow, plain + slow, blocks, quantile)
    assert exact is not None
    assert found.estimate == approx(exact.estimate, rel=0.03)


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    covered, windows = {0.5: 0, 0.99: 0}, 150
    for seed in range(windows):
        encrypted, plain, blocks = world(seed, 4800, 1.2)
        mine, theirs = sketches(encrypted, blocks), sketches(plain, blocks)
        for quantile in covered:
            found = sketched_exceedance(mine, theirs, quantile)
            assert found is not None
            covered[quantile] += (found.lower or 0) <= 1.2 <= (found.upper or math.inf)
    for quantile, count in covered.items():
        assert 0.89 <= count / windows <= 0.99, quantile


def test_timeouts() -> None:
    encrypted, plain, blocks = world(2, 4800)
    infinite = np.full(4800, np.inf)
    for quantile in (0.5, 0.99):
        assert measured(infinite, plain, blocks, quantile) == Ratio(None, approx(20.0), None, 4800)
        assert measured(plain, infinite, blocks, quantile) == Ratio(None, None, approx(0.05), 4800)
        assert measured(infinite, infinite, blocks, quantile) == Ratio(None, None, None, 4800)
    encrypted[::40] = np.inf
    tail = measured(encrypted, plain, blocks, 0.99)
    assert (tail.estimate, tail.upper) == (None, None)
    assert measured(encrypted, plain, blocks, 0.5).estimate == approx(1.02, abs=0.03)


def test_the_gates() -> None:
    for quantile in (0.5, 0.95, 0.99):
        enough = fewest_samples(quantile)
        encrypted, plain, blocks = world(4, enough, number=10)
        mine, theirs = sketches(encrypted, blocks), sketches(plain, blocks)
        assert sketched_exceedance(mine, theirs, quantile) is not None
        assert sketched_exceedance(mine[1:], theirs[1:], quantile) is None
        # Hours without a sample are no blocks.
        padded = [*mine[1:], LogSketch()], [*theirs[1:], LogSketch()]
        assert sketched_exceedance(*padded, quantile, fewest_blocks=10) is None
    assert sketched_exceedance(mine, theirs, 0.5, fewest_blocks=12) is None
    assert sketched_exceedance([], [], 0.5) is None
    with pytest.raises(ValueError, match="unequal sides"):
        sketched_exceedance([mine[0]], [LogSketch()], 0.5)
    with pytest.raises(ValueError, match="quantiles"):
        sketched_exceedance(mine, theirs, 0.2)
