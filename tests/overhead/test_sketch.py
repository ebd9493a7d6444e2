"""The sketch: error bound, exact merging, timeouts, damaged bytes."""

from __future__ import annotations

import math
import zlib
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.overhead.percentiles import percentile
from exporter.overhead.sketch import LogSketch

durations = st.lists(st.floats(1e-9, 1e6) | st.just(math.inf), max_size=200)


def sketch_of(values: list[float]) -> LogSketch:
    sketch = LogSketch()
    sketch.add(np.array(values, dtype=float))
    return sketch


@given(durations.filter(bool), st.sampled_from([0.01, 0.5, 0.95, 0.99, 1.0]))
def test_a_quantile_is_within_the_error_bound(values: list[float], q: float) -> None:
    exact = percentile(np.array(values), 100 * q)
    assert exact is not None
    assert sketch_of(values).quantile(q) == pytest.approx(exact, rel=0.011)


@given(durations, durations)
def test_merging_is_the_same_as_having_seen_everything(some: list[float], others: list[float]) -> None:
    merged = sketch_of(some)
    merged.merge(sketch_of(others))
    assert merged == sketch_of(some + others)
    assert merged.count == len(some) + len(others)
    assert merged.infinite == (some + others).count(math.inf)
    assert merged.to_bytes() == sketch_of(others + some).to_bytes()


@given(durations)
def test_bytes_bring_it_back(values: list[float]) -> None:
    sketch = sketch_of(values)
    assert LogSketch.from_bytes(sketch.to_bytes()) == sketch


@given(durations)
def test_expanding_gives_every_sample_back_inside_its_bucket(values: list[float]) -> None:
    sketch = sketch_of(values)
    expanded = sketch.expand()
    assert expanded.size == len(values)
    assert sketch_of(expanded.tolist()) == sketch
    for mine, theirs in zip(sorted(values), expanded.tolist(), strict=True):
        assert theirs == pytest.approx(mine, rel=0.022)
    assert (expanded == sketch.expand()).all()


def test_expanding_spreads_a_full_bucket_evenly() -> None:
    spread = np.log2(sketch_of([1.0] * 4).expand()) * 32
    assert spread == pytest.approx([-0.875, -0.625, -0.375, -0.125])


def test_buckets_include_their_upper_edge() -> None:
    # 2 ** (1 / 32) above and below a power of two: `le` semantics, as in native histograms.
    at, above = sketch_of([1.0]).quantile(0.5), sketch_of([math.nextafter(1.0, 2)]).quantile(0.5)
    assert at == pytest.approx(2 ** (-0.5 / 32))
    assert above == pytest.approx(2 ** (0.5 / 32)) or above == at


@pytest.mark.parametrize("broken", [0.0, -1.0, math.nan, -math.inf])
def test_a_broken_value_is_refused_and_nothing_is_added(broken: float) -> None:
    sketch = sketch_of([0.1, 0.2])
    with pytest.raises(ValueError, match="positive number"):
        sketch.add(np.array([0.3, broken, math.inf]))
    assert sketch == sketch_of([0.1, 0.2])


def test_extreme_durations_keep_their_place() -> None:
    sketch = sketch_of([5e-324, 1.7e308, math.inf])
    assert LogSketch.from_bytes(sketch.to_bytes()) == sketch
    assert sketch.quantile(1.0) == math.inf
    assert sketch.quantile(0.6) == pytest.approx(1.7e308, rel=0.011)


def test_an_empty_sketch_has_no_quantile() -> None:
    empty = LogSketch()
    assert empty.count == 0
    assert empty.quantile(0.5) is None
    assert empty.expand().size == 0


def test_a_copy_lives_its_own_life() -> None:
    original = sketch_of([0.1])
    copy = original.copy()
    copy.add(np.array([0.5]))
    assert original == sketch_of([0.1])
    assert original != copy
    assert original != "sketch"


def test_an_hour_fits_into_a_kilobyte() -> None:
    random = np.random.default_rng(1)
    hits, misses = np.exp(random.normal(-8.3, 0.25, 7000)), np.exp(random.normal(-6.2, 0.5, 200))
    assert len(sketch_of([*hits, *misses]).to_bytes()) < 1024


@given(st.integers(0, 2000), st.binary(min_size=1, max_size=4))
def test_damaged_bytes_are_refused_or_read_as_a_sketch_but_never_crash(place: int, noise: bytes) -> None:
    data = sketch_of([0.1, 0.2, 0.2, 5.0, math.inf]).to_bytes()
    place %= len(data)
    damaged = data[:place] + noise + data[place + len(noise) :]
    with suppress(ValueError):
        read = LogSketch.from_bytes(damaged)
        assert read.count >= 0
        assert LogSketch.from_bytes(read.to_bytes()) == read


def test_bytes_that_are_no_sketch_are_refused() -> None:
    good = sketch_of([0.1, 0.2]).to_bytes()
    bomb = good[:5] + zlib.compress(bytes(10_000_000))
    for bad in (b"", b"\x01", good[:-1], good + b"x", b"\x02" + good[1:], bomb, b"\x01\xff\xff\xff\xff" + good[5:]):
        with pytest.raises(ValueError, match="sketch"):
            LogSketch.from_bytes(bad)
