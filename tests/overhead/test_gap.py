"""A 99th percentile between two modes is told apart from one inside a mode."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from exporter.overhead.gap import FEWEST, STRADDLES, slowest_ratio, tail_gap, tail_gap_of_sketch
from exporter.overhead.pex import paired_exceedance
from exporter.overhead.sketch import LogSketch


def side(seed: int, miss: float, count: int = 7200, ratio: float = 1.0) -> NDArray[np.float64]:
    random = np.random.default_rng(seed)
    hits, misses = random.normal(math.log(0.25e-3), 0.25, count), random.normal(math.log(2e-3), 0.5, count)
    return np.where(random.random(count) < miss, misses, hits) + math.log(ratio)


@pytest.mark.parametrize(("miss", "low", "high"), [(0.0, 1.1, 1.3), (0.03, 1.5, 3.0), (0.01, STRADDLES, 7.0)])
def test_only_the_edge_of_the_misses_straddles(miss: float, low: float, high: float) -> None:
    encrypted, plain = side(1, miss), side(2, miss)
    gap = tail_gap(encrypted, plain)
    assert gap is not None
    assert low < gap < high
    sketch = LogSketch()
    sketch.add(np.exp(np.concatenate([encrypted, plain])))
    assert tail_gap_of_sketch(sketch) == pytest.approx(gap, rel=0.03)


def test_too_few_samples_and_timeouts_have_no_gap() -> None:
    half = FEWEST // 2
    assert tail_gap(side(1, 0.0, half), side(2, 0.0, half)) is not None
    assert tail_gap(side(1, 0.0, half - 1), side(2, 0.0, half)) is None
    assert tail_gap_of_sketch(LogSketch()) is None
    late = side(1, 0.0)
    late[:200] = np.inf
    assert tail_gap(late, side(2, 0.0)) is None
    sketch = LogSketch()
    sketch.add(np.exp(late))
    assert tail_gap_of_sketch(sketch) is None
    assert slowest_ratio(late, side(2, 0.0)) is None
    assert slowest_ratio(side(1, 0.0, half - 1), side(2, 0.0, half - 1)) is None


def test_where_it_straddles_the_slowest_two_per_cent_err_less_than_the_percentile() -> None:
    blocks = np.repeat(np.arange(12), 600)
    slowest, percentile = [], []
    for seed in range(60):
        encrypted, plain = side(2 * seed, 0.01, ratio=1.2), side(2 * seed + 1, 0.01)
        ratio = slowest_ratio(encrypted, plain)
        found = paired_exceedance(encrypted, blocks, plain, blocks, 0.99)
        assert ratio is not None
        assert found is not None
        assert found.estimate is not None
        slowest.append(math.log(ratio / 1.2))
        percentile.append(math.log(found.estimate / 1.2))
    assert np.sqrt(np.mean(np.square(slowest))) < 0.5 * np.sqrt(np.mean(np.square(percentile)))
