"""Paired exceedance: symmetry, coverage, timeouts, gates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from exporter.overhead.pex import CAP, fewest_samples, paired_exceedance
from exporter.overhead.ratio import Ratio

approx: Any = pytest.approx  # Stands for the number that it is near to.

# The worlds come from their seed alone. The t statistic jumps, so in one world of millions the last bit of a
# rounding may decide between two crossings; always the same worlds make that a fact and not a surprise.
steady = settings(max_examples=60, deadline=None, derandomize=True)
Array = NDArray[np.float64]


def blocks_of(count: int, number: int = 12) -> NDArray[np.int64]:
    return np.repeat(np.arange(number), -(-count // number))[:count]


def world(seed: int, count: int, ratio: float = 1.0, number: int = 12) -> tuple[Array, Array, NDArray[np.int64]]:
    """Cached reads with 3 % misses, and a disturbance that both sides of a block share."""
    random = np.random.default_rng(seed)
    blocks = blocks_of(count, number)
    shared = random.normal(0, 0.25, number)[blocks]

    def side() -> Array:
        hits = random.normal(math.log(0.25e-3), 0.25, count)
        misses = random.normal(math.log(2e-3), 0.5, count)
        return np.where(random.random(count) < 0.03, misses, hits) + shared

    return side() + math.log(ratio), side(), blocks


def measured(encrypted: Array, plain: Array, blocks: NDArray[np.int64], quantile: float) -> Ratio:
    found = paired_exceedance(encrypted, blocks, plain, blocks, quantile)
    assert found is not None
    return found


def numbers(ratio: Ratio) -> Iterator[float]:
    for value in (ratio.lower, ratio.estimate, ratio.upper):
        assert value is not None
        yield value


@given(seed=st.integers(0, 10_000), quantile=st.sampled_from([0.5, 0.95, 0.99]))
@steady
def test_identical_sides_give_exactly_one(seed: int, quantile: float) -> None:
    encrypted, _, blocks = world(seed, 720)
    found = measured(encrypted, encrypted.copy(), blocks, quantile)
    assert found.estimate == approx(1.0, abs=1e-6)
    # A bound may be missing: with so few samples the exceedances can all lie in two or three blocks.
    assert found.lower is None or found.lower <= 1.0 + 1e-6
    assert found.upper is None or found.upper >= 1.0 - 1e-6
    assert found.samples == 720


@given(seed=st.integers(0, 10_000), quantile=st.sampled_from([0.5, 0.99]), scale=st.floats(0.01, 100))
@steady
def test_a_scale_that_both_sides_share_changes_nothing(seed: int, quantile: float, scale: float) -> None:
    encrypted, plain, blocks = world(seed, 720, 1.3)
    before = measured(encrypted, plain, blocks, quantile)
    shift = math.log(scale)
    after = measured(encrypted + shift, plain + shift, blocks, quantile)
    for mine, theirs in zip(after.to_dict().values(), before.to_dict().values(), strict=True):
        assert mine == (None if theirs is None else approx(theirs, rel=1e-5))


@given(seed=st.integers(0, 10_000), quantile=st.sampled_from([0.5, 0.95, 0.99]), ratio=st.floats(0.5, 2))
@steady
def test_whatever_slows_both_sides_of_a_pair_down_leaves_their_ratio(seed: int, quantile: float, ratio: float) -> None:
    # Any positive function of time, as long as both sides of each pair of samples suffer alike.
    _, plain, blocks = world(seed, 720)
    slowed = plain + np.cumsum(np.random.default_rng(seed).normal(0, 0.1, 720))
    assert measured(slowed + math.log(ratio), slowed, blocks, quantile).estimate == approx(ratio, rel=1e-5)


def test_a_disturbance_of_some_blocks_leaves_the_estimate_alone() -> None:
    # Half of the time everything is ten times slower, on both sides: the median jumps, the ratio does not.
    encrypted, plain, blocks = world(5, 7200, 1.2)
    storm = np.where(blocks % 2 == 0, math.log(10), 0.0)
    calm, stormy = (measured(encrypted + extra, plain + extra, blocks, 0.5).estimate for extra in (0.0, storm))
    assert calm == approx(1.2, rel=0.02)
    assert stormy == approx(1.2, rel=0.05)


@given(seed=st.integers(0, 10_000), quantile=st.sampled_from([0.5, 0.95, 0.99]), ratio=st.floats(0.5, 2))
@steady
def test_swapping_the_sides_inverts_the_ratio_and_its_interval(seed: int, quantile: float, ratio: float) -> None:
    encrypted, plain, blocks = world(seed, 720, ratio)
    there = measured(encrypted, plain, blocks, quantile)
    back = measured(plain, encrypted, blocks, quantile)
    pairs = [(there.estimate, back.estimate), (there.lower, back.upper), (there.upper, back.lower)]
    for mine, theirs in pairs:
        assert (mine is None) == (theirs is None)
        if mine is not None and theirs is not None:
            assert mine * theirs == approx(1.0, rel=1e-5)


@pytest.mark.parametrize("ratio", [1.0, 1.2])
def test_the_interval_covers_the_truth_about_as_often_as_it_says(ratio: float) -> None:
    windows = 200
    widths: list[float] = []
    covered = {0.5: 0, 0.99: 0}
    estimates: dict[float, list[float]] = {0.5: [], 0.99: []}
    for seed in range(windows):
        encrypted, plain, blocks = world(seed, 3600, ratio)
        for quantile in covered:
            found = measured(encrypted, plain, blocks, quantile)
            covered[quantile] += (found.lower or 0) <= ratio <= (found.upper or math.inf)
            assert found.estimate is not None
            estimates[quantile].append(found.estimate)
            if quantile == 0.5 and found.lower and found.upper:
                widths.append(found.upper / found.lower)
    for quantile, count in covered.items():
        assert 0.90 <= count / windows <= 0.99, quantile
    assert np.median(estimates[0.5]) == approx(ratio, rel=0.01)
    assert np.median(estimates[0.99]) == approx(ratio, rel=0.05)
    # Not by being wide: half of the intervals of the median are narrower than 5 % either way.
    assert np.median(widths) < 1.1


def test_it_agrees_with_a_direct_reading_of_the_definition() -> None:
    encrypted, plain, blocks = world(11, 720, 1.4)
    quantile, most = 0.95, 72

    def differences(shift: float) -> Array:
        pool = np.sort(np.concatenate([encrypted, plain + shift]))
        threshold = pool[-most]
        score = [(side > threshold).astype(float) + 0.5 * (side == threshold) for side in (encrypted, plain + shift)]
        return np.bincount(blocks, score[0] - score[1]).astype(np.float64)

    def statistic(shift: float) -> float:
        d = differences(shift)
        return float(d.sum() / math.sqrt(12 * d.var(ddof=1)))

    low, estimate, high = (math.log(value) for value in numbers(measured(encrypted, plain, blocks, quantile)))
    nudge = 1e-5
    assert differences(estimate - nudge).sum() >= 0 >= differences(estimate + nudge).sum()
    assert statistic(low - nudge) >= 2.20098 > statistic(low + nudge)
    assert statistic(high - nudge) > -2.20099 >= statistic(high + nudge)


def test_ties_count_half_on_each_side() -> None:
    # A handful of values. Whatever the threshold is, identical sides stay identical.
    _, plain, blocks = world(3, 720)
    coarse = np.round(plain)
    assert np.unique(coarse).size < 8
    mixed = np.random.default_rng(1).permutation(720)
    assert measured(coarse, coarse, blocks, 0.5).estimate == approx(1.0)
    found = paired_exceedance(coarse[mixed], blocks[mixed], coarse, blocks, 0.5)
    assert found is not None
    assert found.estimate == approx(1.0)


def test_when_every_encrypted_sample_timed_out_the_ratio_is_beyond_the_cap() -> None:
    _, plain, blocks = world(1, 720)
    infinite = np.full(720, np.inf)
    for quantile in (0.5, 0.95, 0.99):
        assert measured(infinite, plain, blocks, quantile) == Ratio(None, approx(CAP), None, 720)
        assert measured(plain, infinite, blocks, quantile) == Ratio(None, None, approx(1 / CAP), 720)
        assert measured(infinite, infinite, blocks, quantile) == Ratio(None, None, None, 720)


def test_a_few_timeouts_do_not_make_a_number_up() -> None:
    # Two per cent of the encrypted side time out, spread over the hour: the 99th percentile is beyond
    # anything that was measured, the median hardly moves.
    encrypted, plain, blocks = world(2, 7200)
    encrypted[::50] = np.inf
    tail = measured(encrypted, plain, blocks, 0.99)
    assert tail.estimate is None
    assert tail.upper is None
    assert tail.lower is not None
    assert tail.lower > 2
    assert measured(encrypted, plain, blocks, 0.5).estimate == approx(1.02, abs=0.03)


def test_timeouts_in_a_single_block_are_no_evidence() -> None:
    encrypted, plain, blocks = world(2, 7200)
    encrypted[blocks == 4] = np.inf
    found = measured(encrypted, plain, blocks, 0.99)
    assert found.lower is None or found.lower < 1


def test_below_the_gates_nothing_is_said() -> None:
    assert [fewest_samples(quantile) for quantile in (0.5, 0.95, 0.99)] == [60, 120, 600]
    for quantile in (0.5, 0.95, 0.99):
        enough = fewest_samples(quantile)
        encrypted, plain, blocks = world(4, enough)
        assert paired_exceedance(encrypted, blocks, plain, blocks, quantile) is not None
        few = slice(0, enough - 1)
        assert paired_exceedance(encrypted[few], blocks[few], plain[few], blocks[few], quantile) is None
    encrypted, plain, blocks = world(4, 7200, number=9)
    assert paired_exceedance(encrypted, blocks, plain, blocks, 0.5) is None


def test_blocks_may_have_any_numbers_and_any_order() -> None:
    encrypted, plain, blocks = world(6, 1200, 1.1)
    expected = measured(encrypted, plain, blocks, 0.5)
    mixed = np.random.default_rng(0).permutation(1200)
    assert paired_exceedance(encrypted[mixed], 300 * blocks[mixed] - 7, plain, 300 * blocks - 7, 0.5) == expected


def test_unequal_or_broken_input_is_refused() -> None:
    encrypted, plain, blocks = world(7, 720)
    with pytest.raises(ValueError, match="unequal sides"):
        paired_exceedance(encrypted[1:], blocks[1:], plain, blocks, 0.5)
    moved = blocks.copy()
    moved[0] = 5
    with pytest.raises(ValueError, match="inside a block"):
        paired_exceedance(encrypted, moved, plain, blocks, 0.5)
    for broken in (math.nan, -math.inf):
        spoilt = encrypted.copy()
        spoilt[3] = broken
        with pytest.raises(ValueError, match="log duration"):
            paired_exceedance(spoilt, blocks, plain, blocks, 0.5)
    with pytest.raises(ValueError, match="quantiles"):
        paired_exceedance(encrypted, blocks, plain, blocks, 1.0)
