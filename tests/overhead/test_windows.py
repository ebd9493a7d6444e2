"""The window of a series: what enters, what is said, what survives a restart, what is never mixed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from exporter.domain.model import Tick, Variant, Work
from exporter.overhead.blocks import Block, BlockSide
from exporter.overhead.ratio import Ratio
from exporter.overhead.sketch import LogSketch
from exporter.overhead.two_level import DEFAULT_TAU
from exporter.overhead.windows import SeriesWindow

approx: Any = pytest.approx  # Stands for the number that it is near to.

E, P = Variant.ENCRYPTED, Variant.PLAIN
START = 1_800_000_000.0  # A multiple of 300.


def hour(
    make_tick: Any, ratio: float = 1.2, seconds: float = 3600, size: int = 20, seed: int = 1, **more: Any
) -> Iterator[tuple[float, Tick]]:
    """Ticks every ten seconds, the starting side alternating, 3 % of the samples slow."""
    random = np.random.default_rng(seed)
    slow = 0.03 if size > 1 else 0.0

    def side() -> Any:
        return np.exp(random.normal(-8, 0.25, size) + np.where(random.random(size) < slow, 2.0, 0.0))

    for place in range(int(seconds / 10)):
        first = (E, P)[place % 2]
        yield START + 10 * place, make_tick((side() * ratio).tolist(), side().tolist(), first=first, **more)


def filled(ticks: Iterator[tuple[float, Tick]]) -> SeriesWindow:
    window = SeriesWindow()
    for at, tick in ticks:
        assert window.add(tick, at)
    return window


def test_an_hour_of_bursts(make_tick: Any) -> None:
    summary = filled(hour(make_tick)).summary(START + 3600)
    assert summary.epoch == "e1"
    assert summary.samples == {E: 7200, P: 7200}
    for percent, tolerance in ((50, 0.02), (99, 0.15)):
        ratio = summary.latency_ratio[percent]
        assert ratio.samples == 7200
        assert ratio.estimate == approx(1.2, rel=tolerance)
        assert ratio.lower is not None
        assert ratio.upper is not None
        assert ratio.lower < 1.2 < ratio.upper
    # Every unit says the same: only the second level of the interval is left.
    between = math.exp(1.959964 * DEFAULT_TAU)
    assert summary.cpu_ratio == Ratio(approx(2.0), approx(2.0 / between), approx(2.0 * between), 60)
    assert summary.decrypts_per_sample == {E: 8.0, P: 0.0}
    assert summary.cpu_per_sample == {E: approx(0.002), P: approx(0.001)}
    assert summary.cold_ratio == {E: 0.0, P: 0.0}
    assert summary.blind is False
    assert summary.order_bias == approx(1.0, abs=0.05)
    assert summary.word == "undecided"


def test_percentiles_are_those_of_all_samples(make_tick: Any) -> None:
    ticks = list(hour(make_tick, seconds=600))
    summary = filled(iter(ticks)).summary(START + 600)
    for variant in Variant:
        everything = sorted(duration for _, tick in ticks for duration in tick.burst(variant).durations)
        assert summary.percentiles[variant] == {
            50: approx(everything[599], rel=1e-5),
            99: approx(everything[1187], rel=1e-5),
        }


def test_gates(make_tick: Any) -> None:
    window = SeriesWindow()
    empty = window.summary(START)
    assert (empty.samples, empty.word) == ({E: 0, P: 0}, "no_data")
    assert empty.percentiles == {E: {}, P: {}}
    assert (empty.latency_ratio, empty.cpu_ratio, empty.order_bias, empty.blind) == ({}, None, None, None)
    assert (empty.cold_ratio, empty.decrypts_per_sample, empty.cpu_per_sample) == ({}, {}, {})

    window.add(make_tick([0.2] * 33, [0.1] * 33), START)
    few = window.summary(START + 1)
    assert few.percentiles == {E: {50: approx(0.2)}, P: {50: approx(0.1)}}
    assert few.word == "warming"
    window.add(make_tick([0.2] * 67, [0.1] * 67, first=P), START + 10)
    assert set(window.summary(START + 11).percentiles[E]) == {50, 99}

    # 49 minutes are ten blocks of which the last is still open.
    nine = filled(hour(make_tick, seconds=2940))
    assert nine.summary(START + 2999).latency_ratio == {}
    assert nine.summary(START + 2999).word == "warming"
    assert set(nine.summary(START + 3000).latency_ratio) == {50, 99}
    # Few samples in many blocks: enough for the median, not for the tail.
    thin = filled(hour(make_tick, size=2, seconds=3000))
    assert thin.summary(START + 3000).samples == {E: 600, P: 600}
    assert set(thin.summary(START + 3000).latency_ratio) == {50, 99}
    thinner = filled((at, tick) for at, tick in hour(make_tick, size=2) if at % 20 == 0)
    assert set(thinner.summary(START + 3600).latency_ratio) == {50}


def test_single_samples_are_judged_by_units(make_tick: Any) -> None:
    window = filled(hour(make_tick, ratio=1.4, size=1, seconds=110))
    assert window.summary(START + 110).latency_ratio == {}
    assert window.summary(START + 110).cpu_ratio is None
    window = filled(hour(make_tick, ratio=1.4, size=1, seconds=120))
    assert window.summary(START + 120).latency_ratio[50].samples == 6
    full = filled(hour(make_tick, ratio=1.4, size=1)).summary(START + 3600)
    assert set(full.latency_ratio) == {50}
    assert full.latency_ratio[50].samples == 60
    assert full.latency_ratio[50].estimate == approx(1.4, rel=0.05)


def test_the_order_of_the_sides_cancels_and_shows_in_the_self_test(make_tick: Any) -> None:
    window = SeriesWindow()
    for place in range(40):
        first = (E, P)[place % 2]
        encrypted, plain = (0.2, 0.1 * 0.7) if first is E else (0.2 * 0.7, 0.1)
        window.add(make_tick([encrypted], [plain], first=first), START + 10 * place)
        if place < 39:
            assert window.summary(START + 10 * place).order_bias is None
    summary = window.summary(START + 400)
    assert summary.latency_ratio[50].estimate == approx(2.0)
    assert summary.order_bias == approx(1 / 0.49, rel=1e-5)


def test_what_left_the_window_is_forgotten(make_tick: Any) -> None:
    window = filled(hour(make_tick, seconds=7200, size=2))
    assert [block.start for block in window.blocks()] == [START + 3300 + 300 * place for place in range(13)]
    assert window.summary(START + 7199).samples == {E: 2 * 390, P: 2 * 390}
    assert window.summary(START + 7200 + 1800).samples == {E: 2 * 180, P: 2 * 180}
    late = window.summary(START + 7200 + 3900)
    assert (late.samples, late.word, late.latency_ratio, late.cpu_ratio) == ({E: 0, P: 0}, "no_data", {}, None)
    assert window.blocks() == ()
    # A straggler from before the window stays out.
    assert not window.add(make_tick([0.1] * 2, [0.1] * 2), START)
    assert window.blocks() == ()


def test_memory_is_bounded_by_the_window(make_tick: Any) -> None:
    window = SeriesWindow(length=60, block=10)
    tick = make_tick([0.1] * 20, [0.1] * 20)
    for place in range(2000):
        window.add(replace(tick, first=(E, P)[place % 2]), START + place)
    blocks = window.blocks()
    assert len(blocks) == 7
    assert sum(block.encrypted.samples for block in blocks) <= 20 * 70
    assert sum(len(block.units) for block in blocks) <= 35


def test_exceedance_changes_only_with_the_closed_blocks(make_tick: Any) -> None:
    window = filled(hour(make_tick))
    before, own = window.summary(START + 3600).latency_ratio, window.window_ratios(START + 3600)
    for place in range(20):
        window.add(make_tick([9.0] * 20, [0.1] * 20, first=(E, P)[place % 2]), START + 3600 + 10 * place)
    during = window.summary(START + 3899)
    assert during.latency_ratio == before
    assert all(window.window_ratios(START + 3899)[figure] is own[figure] for figure in ("50", "99"))
    assert during.samples[E] == 7600
    after = window.summary(START + 3900).latency_ratio
    assert after[50].samples == 7000  # The oldest block left, the 400 came.
    assert after != before


def test_tau_is_the_second_level_of_every_interval(make_tick: Any) -> None:
    ticks = list(hour(make_tick))
    narrow, wide = (SeriesWindow(tau=lambda _figure, tau=tau: tau) for tau in (0.0, 0.2))  # type: ignore[misc]
    for at, tick in ticks:
        narrow.add(tick, at)
        wide.add(tick, at)
    bare, levelled = narrow.summary(START + 3600), wide.summary(START + 3600)
    own = wide.window_ratios(START + 3600)
    assert own == narrow.window_ratios(START + 3600)
    assert (bare.latency_ratio[50], bare.latency_ratio[99], bare.cpu_ratio) == (own["50"], own["99"], own["cpu"])
    assert levelled.latency_ratio[50].upper == approx(1.2 * math.exp(1.96 * 0.2), rel=0.05)
    assert levelled.cpu_ratio == Ratio(
        approx(2.0), approx(2 / math.exp(0.392), rel=1e-4), approx(2 * math.exp(0.392), rel=1e-4), 60
    )


def test_percentiles_on_request(make_tick: Any) -> None:
    window = SeriesWindow(percentiles=(95, 50))
    for at, tick in hour(make_tick):
        window.add(tick, at)
    summary = window.summary(START + 3600)
    assert set(summary.latency_ratio) == set(summary.percentiles[E]) == {50, 95}


def test_the_pool_and_the_newest_unit(make_tick: Any) -> None:
    window = SeriesWindow()
    units = []
    for at, tick in hour(make_tick, size=3, seconds=100):
        window.add(tick, at)
        units.append(window.newest_unit)
        encrypted, plain = window.pool()
        assert np.exp(encrypted[-3:]) == approx(tick.encrypted.durations, rel=1e-5)
        assert encrypted.size == plain.size == 3 * len(units)
    assert [unit is None for unit in units] == [True, False] * 5
    assert window.add(make_tick([0.1], [0.1], dropped="contended"), START + 100) is False
    assert window.newest_unit is None


def test_epochs_never_mix(make_tick: Any) -> None:
    window = filled(hour(make_tick, ratio=3.0))
    assert window.summary(START + 3600).latency_ratio
    window.add(make_tick([0.1] * 20, [0.1] * 20, first=P, epoch="e2"), START + 3600)
    fresh = window.summary(START + 3601)
    assert (fresh.epoch, fresh.samples, fresh.latency_ratio) == ("e2", {E: 20, P: 20}, {})
    assert fresh.percentiles[E] == {50: approx(0.1)}
    assert (fresh.cpu_ratio, fresh.order_bias, fresh.word) == (None, None, "warming")
    assert [block.epoch for block in window.blocks()] == ["e2"]
    # The tick that was waiting for its partner in the old epoch is not matched with a new one.
    odd = SeriesWindow()
    odd.add(make_tick([0.1], [0.1], first=E), START)
    odd.add(make_tick([0.1], [0.1], first=P, epoch="e2"), START + 10)
    assert [block.units for block in odd.blocks()] == [()]


def test_dropped_and_broken_ticks_leave_no_trace(make_tick: Any) -> None:
    window = filled(hour(make_tick, seconds=600))
    before, blocks = window.summary(START + 600), window.blocks()
    for tick in (
        make_tick([9.0] * 20, [0.1] * 20, dropped="contended"),
        make_tick([9.0] * 20, [0.1] * 20, dropped="timeout", epoch="e2"),
        make_tick([9.0] * 20, [0.1] * 19),
        make_tick([], []),
        make_tick([-1.0], [0.1]),
        make_tick([0.1], [0.1], epoch="e2", dropped="connect"),
    ):
        assert not window.add(tick, START + 600)
    nan = make_tick([0.1, 0.1], [0.1, 0.1])
    broken = replace(nan.plain.samples[0], duration=math.nan)
    assert not window.add(replace(nan, plain=replace(nan.plain, samples=(broken, broken))), START + 600)
    assert window.summary(START + 600) == before
    assert window.blocks() == blocks


def test_both_sides_always_have_equal_numbers(make_tick: Any) -> None:
    random = np.random.default_rng(4)
    window = SeriesWindow()
    for place in range(200):
        mine, theirs = (np.where(random.random(5) < 0.2, np.inf, 0.1).tolist() for _ in range(2))
        window.add(make_tick(mine, theirs, first=(E, P)[place % 2]), START + 10 * place)
    for block in window.blocks():
        assert block.encrypted.samples == block.plain.samples
        for side in (block.encrypted, block.plain):
            assert side.sketch.count == side.samples
            assert side.sketch.infinite == side.failures > 0
            assert side.successes == side.samples - side.failures


def test_timeouts_show_as_infinite_percentiles_and_one_sided_ratios(make_tick: Any) -> None:
    window = filled(
        (at, make_tick([*tick.encrypted.durations[1:], math.inf], tick.plain.durations, first=tick.first))
        for at, tick in hour(make_tick)
    )
    summary = window.summary(START + 3600)
    assert summary.percentiles[E][99] == math.inf
    assert math.isfinite(summary.percentiles[P][99])
    assert math.isfinite(summary.percentiles[E][50])
    tail = summary.latency_ratio[99]
    assert (tail.estimate, tail.upper) == (None, None)
    assert tail.lower is not None
    assert tail.lower > 1.2
    assert summary.word == "undecided"


def test_a_side_that_only_fails_is_neither_blind_nor_free(make_tick: Any) -> None:
    work = Work(0.001, None, 0, 0, 0)
    window = filled(
        (at, make_tick([math.inf] * 20, [0.1] * 20, first=tick.first, work=work)) for at, tick in hour(make_tick)
    )
    summary = window.summary(START + 3600)
    assert summary.blind is None
    assert summary.cpu_ratio is None
    assert summary.order_bias is None
    assert set(summary.cold_ratio) == set(summary.cpu_per_sample) == {P}
    assert summary.latency_ratio[50] == Ratio(None, approx(20), None, 7200)


@pytest.mark.parametrize(
    ("work", "blind"),
    [
        (Work(0.1, None, 0, 0, 0), True),
        (Work(0.1, None, 0, 2, 0), False),
        (Work(0.1, None, 0, 0, 2), False),
        (Work(0.1, None, 0, None, 1), False),
        (Work(0.1, None, 0, None, 0), None),
        (Work(), None),
    ],
)
def test_blind_when_nothing_passed_through_the_cipher(make_tick: Any, work: Work, blind: bool | None) -> None:
    window = filled(hour(make_tick, seconds=600, work=work))
    assert window.summary(START + 600).blind is blind
    assert (window.summary(START + 600).word == "blind") is bool(blind)
    certified = window.summary(START + 600, certifying=True)
    assert (certified.word, certified.blind) == ("certifying", None)


def test_what_one_sample_does_not_know_is_unknown_for_its_side(make_tick: Any) -> None:
    window = filled(
        hour(make_tick, seconds=600, work=Work(0.002, None, 3, 8, 0), plain_work=Work(0.001, None, 0, 0, 0))
    )
    assert window.summary(START + 600).cold_ratio == {E: 1.0, P: 0.0}
    window.add(make_tick([0.1], [0.1], work=Work()), START + 600)
    summary = window.summary(START + 600)
    assert set(summary.cold_ratio) == set(summary.decrypts_per_sample) == set(summary.cpu_per_sample) == {P}
    (last,) = [block for block in window.blocks() if block.start == START + 600]
    assert (last.encrypted.cold, last.encrypted.decrypts, last.encrypted.cpu_seconds) == (None, None, None)


def test_a_cheap_pair_is_within_budget(make_tick: Any) -> None:
    # Ratio 1.0 and a light tail: both upper bounds are below 1.2.
    random = np.random.default_rng(3)
    window = SeriesWindow()
    for place in range(360):
        mine, theirs = (np.exp(random.normal(-8, 0.1, 20)).tolist() for _ in range(2))
        window.add(make_tick(mine, theirs, first=(E, P)[place % 2]), START + 10 * place)
    assert window.summary(START + 3600).word == "within_budget"


def test_an_unchanged_block_is_the_same_object(make_tick: Any) -> None:
    window = filled(hour(make_tick, seconds=900))
    once, twice = window.blocks(), window.blocks()
    assert all(mine is theirs for mine, theirs in zip(once, twice, strict=True))
    window.add(make_tick([0.1] * 20, [0.1] * 20), START + 899)
    again = window.blocks()
    assert [mine is theirs for mine, theirs in zip(once, again, strict=True)] == [True, True, False]
    assert once[2].encrypted.samples == 600
    assert again[2].encrypted.samples == 620
    assert all(later.start - earlier.start == 300 for earlier, later in pairwise(again))


def through_bytes(block: Block) -> Block:
    """As the history does it."""

    def side(given: BlockSide) -> BlockSide:
        return replace(given, sketch=LogSketch.from_bytes(given.sketch.to_bytes()))

    return replace(block, encrypted=side(block.encrypted), plain=side(block.plain))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_restored_window_says_the_same(make_tick: Any, seed: int) -> None:
    window = filled(hour(make_tick, seed=seed))
    restored = SeriesWindow()
    for block in window.blocks():
        restored.restore(through_bytes(block))
    assert restored.blocks() == window.blocks()
    before, after = window.summary(START + 3600), restored.summary(START + 3600)
    for percent in (50, 99):
        mine, theirs = before.latency_ratio[percent], after.latency_ratio[percent]
        assert mine.estimate == approx(theirs.estimate, rel=0.02)
        assert mine.lower == approx(theirs.lower, rel=0.03)
        assert mine.upper == approx(theirs.upper, rel=0.03)
        for variant in Variant:
            assert after.percentiles[variant][percent] == approx(before.percentiles[variant][percent], rel=0.022)
    assert after.cpu_ratio == before.cpu_ratio
    assert after.cold_ratio == before.cold_ratio
    assert after.decrypts_per_sample == before.decrypts_per_sample
    assert (after.samples, after.blind, after.epoch) == (before.samples, before.blind, before.epoch)
    # The order of single ticks is not kept; the self-test has to be earned again.
    assert after.order_bias is None


def test_a_restored_scan_is_still_judged_by_units(make_tick: Any) -> None:
    window = filled(hour(make_tick, size=1, ratio=1.4))
    restored = SeriesWindow()
    for block in window.blocks():
        restored.restore(through_bytes(block))
    assert restored.summary(START + 3600).latency_ratio == window.summary(START + 3600).latency_ratio


def test_measuring_goes_on_in_a_block_that_was_restored_half_full(make_tick: Any) -> None:
    ticks = list(hour(make_tick, seconds=600))
    straight, interrupted = SeriesWindow(), SeriesWindow()
    for at, tick in ticks[:45]:
        straight.add(tick, at)
    # Live ticks may come before the history does.
    late = ticks[46:]
    for at, tick in late[:3]:
        interrupted.add(tick, at)
    for block in straight.blocks():
        interrupted.restore(through_bytes(block))
        interrupted.restore(through_bytes(block))
    for at, tick in late[3:]:
        interrupted.add(tick, at)
    for at, tick in late:
        straight.add(tick, at)
    mine, theirs = straight.blocks(), interrupted.blocks()
    for variant in Variant:
        for one, other in zip(mine, theirs, strict=True):
            assert one.side(variant).sketch == other.side(variant).sketch
            assert one.side(variant).samples == other.side(variant).samples
            assert one.side(variant).decrypts == other.side(variant).decrypts
    assert interrupted.summary(START + 600).samples == {E: 59 * 20, P: 59 * 20}


def test_restoring_refreshes_what_was_already_said(make_tick: Any) -> None:
    kept = filled(hour(make_tick, seconds=3300)).blocks()
    window = SeriesWindow()
    for place in range(12):
        window.add(make_tick([0.2] * 20, [0.1] * 20, first=(E, P)[place % 2]), START + 300 * place)
    early = window.summary(START + 3600)
    assert early.latency_ratio[50].samples == 240
    for block in kept:
        window.restore(through_bytes(block))
    late = window.summary(START + 3600)
    assert late.latency_ratio[50].samples == 240 + 6600
    assert late.samples[E] == 240 + 6600
    assert late.percentiles != early.percentiles


def test_a_coarse_clock_does_not_make_the_ratio_exact(make_tick: Any) -> None:
    """Durations of 300 microseconds and a clock that ticks every 50: all medians read the same."""

    def coarse(durations: tuple[float, ...]) -> list[float]:
        return [round(duration / 50e-6) * 50e-6 for duration in durations]

    window = filled(
        (at, make_tick(coarse(tick.encrypted.durations), coarse(tick.plain.durations), first=tick.first))
        for at, tick in hour(make_tick, ratio=1.05)
    )
    summary = window.summary(START + 3600)
    assert summary.percentiles[E][50] == summary.percentiles[P][50]
    ratio = summary.latency_ratio[50]
    assert ratio.estimate == approx(1.05, rel=0.03)
    assert ratio.lower is not None
    assert ratio.upper is not None
    assert ratio.lower < 1.05 < ratio.upper


def test_restoring_never_mixes_epochs(make_tick: Any) -> None:
    (old,) = filled(hour(make_tick, seconds=300)).blocks()
    new = replace(old, start=old.start + 300, epoch="e2")
    for order in ((old, new), (new, old)):
        window = SeriesWindow()
        for block in order:
            window.restore(block)
        assert [(block.start, block.epoch) for block in window.blocks()] == [(START + 300, "e2")]
    live = SeriesWindow()
    live.add(make_tick([0.1] * 2, [0.1] * 2, epoch="e3"), START + 600)
    live.restore(old)
    live.restore(new)
    assert [block.epoch for block in live.blocks()] == ["e3"]
    live.restore(replace(old, epoch="e3"))
    assert live.summary(START + 600).samples[E] == 602


def test_restored_blocks_from_the_future_are_forgotten(make_tick: Any) -> None:
    (block,) = filled(hour(make_tick, seconds=300)).blocks()
    window = SeriesWindow()
    window.restore(replace(block, start=START + 86_400))
    window.restore(block)
    assert window.summary(START + 300).samples[E] == 600


def test_a_damaged_block_is_refused(make_tick: Any) -> None:
    (block,) = filled(hour(make_tick, seconds=300)).blocks()
    with pytest.raises(ValueError, match="unequal sides"):
        SeriesWindow().restore(replace(block, plain=BlockSide()))
    with pytest.raises(ValueError, match="does not match"):
        SeriesWindow().restore(
            replace(block, plain=replace(block.plain, sketch=LogSketch()), encrypted=block.encrypted)
        )


def test_a_window_has_at_least_one_block() -> None:
    with pytest.raises(ValueError, match="at least one block"):
        SeriesWindow(length=10, block=20)
