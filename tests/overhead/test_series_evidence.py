"""The detectors of a series: what is counted, against which threshold, and what holds them off."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from exporter.domain.model import Variant
from exporter.overhead.evidence import Detector, Evidence, Name, for_bursts, for_units
from exporter.overhead.series_evidence import HOLD_OFF, SeriesEvidence
from exporter.overhead.units import UnitPoint
from exporter.overhead.windows import SeriesWindow

approx: Any = pytest.approx  # Stands for the number that it is near to.
Logs = NDArray[np.float32]
START = 1_800_000_000.0  # A multiple of 300.
MEDIAN, TAIL, PAGE = for_bursts()


class Stream:
    """A series that is fed log durations, and the hour of them that a window would hold."""

    def __init__(self, detectors: tuple[Detector, ...] = for_bursts(), seed: int = 1) -> None:
        self.evidence = SeriesEvidence(detectors)
        self.fired: list[tuple[float, Name]] = []
        self.asked = 0
        self.rows: list[tuple[float, Logs, Logs]] = []
        self._random = np.random.default_rng(seed)

    def pool(self) -> tuple[Logs, Logs]:
        self.asked += 1
        return tuple(np.concatenate([row[side] for row in self.rows]) for side in (1, 2))  # type: ignore[return-value]

    def add(self, at: float, encrypted: Logs, plain: Logs, **more: bool) -> None:
        oldest = math.floor(at / 300) * 300 - 3600
        self.rows = [row for row in self.rows if row[0] >= oldest] + [(at, encrypted, plain)]
        self.fired += [(at, name) for name in self.evidence.add_logs(encrypted, plain, at, self.pool, **more)]

    def side(self, size: int) -> Logs:
        """Cached reads, 3 % of them misses."""
        hits, misses = self._random.normal(-8.3, 0.25, size), self._random.normal(-6.2, 0.5, size)
        return np.where(self._random.random(size) < 0.03, misses, hits).astype(np.float32)

    def run(self, begin: float, seconds: float, ratio: float = 1.0, every: float = 10.0, size: int = 20) -> None:
        for place in range(round(seconds / every)):
            at = begin + every * place
            self.add(at, self.side(size) + np.float32(math.log(ratio)), self.side(size))

    def sums(self, name: Name) -> list[float]:
        return next(list(one.sums) for one in self.evidence.all if one.detector.name == name)


def direct(stream: Stream, detector: Detector, since: float, until: float) -> int:
    """D of a block as it is defined, of the rows as they are now."""
    shift = math.log(detector.ratio)
    encrypted, plain = (np.concatenate([row[side] for row in stream.rows]).astype(float) for side in (1, 2))
    pooled = np.sort(np.concatenate([encrypted, plain + shift]))
    threshold = pooled[-round((1 - detector.percentile / 100) * pooled.size)]
    inside = [row for row in stream.rows if since <= row[0] < until]
    mine, theirs = (np.concatenate([row[side] for row in inside]).astype(float) for side in (1, 2))
    return int((mine >= threshold).sum() - (theirs + shift >= threshold).sum())


def replayed(detector: Detector, differences: list[int]) -> list[float]:
    evidence = Evidence(detector)
    for difference in differences:
        evidence.update(difference, 0.0)
    return evidence.sums


def test_every_tick_is_a_block_of_the_critical_detector() -> None:
    stream, differences = Stream(for_bursts((99,))), []
    for place in range(700):
        at = START + 10.0 * place
        stream.run(at, 10.0, 1.9)
        if len(stream.rows) * 20 >= 600:
            differences.append(direct(stream, PAGE, at, at + 1))
    assert stream.sums(PAGE.name) == approx(replayed(PAGE, differences))
    assert len(set(differences)) > 3
    # The tails are what makes it cheap: the pool is looked at twice in five minutes, once for each detector.
    assert stream.asked <= 3 * 700 / 30


def test_a_minute_is_judged_against_the_hour_that_it_ends() -> None:
    stream, differences = Stream(for_bursts((99,), critical=None)), []
    for minute in range(150):
        begin = START + 60.0 * minute
        # From time to time samples come more often, by turns.
        stream.run(begin, 60.0, 1.3, size=150 if minute % 40 > 30 else 20)
        before = stream.sums(TAIL.name)
        if len(np.concatenate([row[1] for row in stream.rows])) >= 600:
            differences.append(direct(stream, TAIL, begin, begin + 60))
        assert stream.sums(TAIL.name) == before
    stream.run(START + 9000.0, 10.0)
    assert stream.sums(TAIL.name) == approx(replayed(TAIL, differences))
    assert stream.fired == []


def test_the_median_is_judged_every_five_minutes() -> None:
    stream, differences = Stream(for_bursts((50,))), []
    for block in range(40):
        begin = START + 300.0 * block
        stream.run(begin, 300.0, 1.225)
        # The tick that ends the block is in the pool already, and the block that it drives out is not.
        stream.run(begin + 300.0, 10.0, 1.225)
        differences.append(direct(stream, MEDIAN, begin, begin + 300))
        del stream.rows[-1]
        stream.evidence._open[300.0, False].clear()
    assert stream.sums(MEDIAN.name) == approx(replayed(MEDIAN, differences), rel=1e-6)


def test_twice_the_time_fires_within_two_hours_and_less_than_a_fifth_more_never() -> None:
    for seed in range(5):
        stream = Stream(seed=seed)
        stream.run(START, 3600.0, 1.05)
        assert stream.fired == []
        stream.run(START + 3600.0, 7200.0, 2.1)
        assert {name for _, name in stream.fired} >= {TAIL.name, MEDIAN.name}
        assert min(at for at, name in stream.fired if name == TAIL.name) <= START + 3600.0 + 7200.0
        assert PAGE.name not in {name for _, name in stream.fired}


def test_four_times_the_time_fires_at_the_critical_threshold() -> None:
    stream = Stream()
    stream.run(START, 3600.0)
    stream.run(START + 3600.0, 3600.0, 4.0)
    assert PAGE.name in {name for _, name in stream.fired}


def test_thirty_days_at_ten_per_cent_are_silent() -> None:
    stream = Stream(for_bursts((50, 95, 99), critical=None))
    highest = 0.0
    for hour in range(720):
        stream.run(START + 3600.0 * hour, 3600.0, 1.1, every=60.0, size=120)
        highest = max(highest, *(one.mean / one.detector.alarm for one in stream.evidence.all))
    assert stream.fired == []
    assert highest < 0.1


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ratio", [1.0, 1.1, 1.15, 1.2])
def test_thirty_days_up_to_the_threshold_are_silent(ratio: float) -> None:
    for seed in range(2):
        stream = Stream(seed=seed)
        stream.run(START, 30 * 86400.0, ratio)
        assert stream.fired == []


def test_evidence_makes_one_want_more_samples() -> None:
    stream = Stream()
    stream.run(START, 3600.0, 1.0)
    wanted = [stream.evidence.boost_wanted]
    for minute in range(120):
        if wanted[-1]:
            break
        stream.run(START + 3600.0 + 60.0 * minute, 60.0, 1.8)
        wanted.append(stream.evidence.boost_wanted)
    assert (wanted[0], wanted[-1]) == (False, True)
    assert TAIL.name not in {name for _, name in stream.fired}


def test_all_encrypted_samples_timing_out_is_evidence_and_no_exception() -> None:
    stream = Stream()
    stream.run(START, 3600.0)
    for place in range(700):
        stream.add(START + 3600.0 + 10 * place, np.full(20, np.inf, np.float32), stream.side(20))
    assert {name for _, name in stream.fired} == {MEDIAN.name, TAIL.name, PAGE.name}


def test_an_outage_of_both_sides_holds_everything_off() -> None:
    stream = Stream()
    stream.run(START, 3600.0)
    before = {one.detector.name: list(one.sums) for one in stream.evidence.all}
    down = np.full(20, np.inf, np.float32)
    at = START + 3600.0
    stream.add(at, down, down)
    assert stream.evidence.held(at + HOLD_OFF - 1)
    assert not stream.evidence.held(at + HOLD_OFF)
    # The sums go on counting blocks, and nothing else.
    stream.run(at + 10.0, 1780.0, 5.0)
    assert stream.fired == []
    for name, blocks in ((PAGE.name, 179), (TAIL.name, 29 + 1), (MEDIAN.name, 5 + 1)):
        grown = np.array(stream.sums(name)) - np.array(before[name])
        assert grown.max() <= blocks + 1
    stream.run(at + 1800.0, 3600.0, 5.0)
    assert PAGE.name in {name for _, name in stream.fired}


def test_while_nothing_may_be_concluded_the_evidence_stays_as_it_is() -> None:
    stream = Stream()
    stream.run(START, 3600.0, 1.5)
    before = stream.evidence.to_state()["evidence"]
    for place in range(1000):
        stream.add(START + 3600.0 + 10 * place, stream.side(20) + np.float32(3), stream.side(20), frozen=True)
    assert stream.evidence.to_state()["evidence"] == before


def test_a_gap_is_no_evidence() -> None:
    stream = Stream()
    stream.run(START, 3600.0, 1.5)
    before = [list(one.sums) for one in stream.evidence.all]
    stream.evidence.add_unit(UnitPoint(START + 90_000.0, 5.0, None))
    assert [list(one.sums) for one in stream.evidence.all] == before


def test_a_handful_of_samples_is_no_pool() -> None:
    stream = Stream()
    stream.run(START, 290.0, 50.0)
    assert all(value == 0.0 for one in stream.evidence.all if one.detector.percentile == 99 for value in one.sums)
    stream = Stream(for_bursts((50,)))
    stream.run(START, 3600.0, 50.0, every=300.0, size=4)
    assert stream.sums(MEDIAN.name) == [0.0] * 5


def test_a_new_epoch_begins_anew(make_tick: Any) -> None:
    evidence, window = SeriesEvidence(for_bursts()), SeriesWindow()
    stream = Stream()

    def pool() -> tuple[Logs, Logs]:
        return window._logs(Variant.ENCRYPTED, window._blocks), window._logs(Variant.PLAIN, window._blocks)

    for place in range(400):
        at = START + 10.0 * place
        encrypted, plain = (np.exp(stream.side(20)).tolist() for _ in range(2))
        tick = make_tick(encrypted, plain, epoch="one" if place < 390 else "two")
        window.add(tick, at)
        evidence.add(tick, at, pool)
        if place == 389:
            assert all(any(one.sums) for one in evidence.all)
            assert evidence.epoch_age(at) == 3890.0
    assert all(one.sums == [0.0] * 5 for one in evidence.all)
    assert evidence.epoch_age(at) == 90.0
    evidence.enter("two", at + 1)
    assert evidence.epoch_age(at) == 90.0


def units(ratio: float, count: int, every: float, spread: float = 0.15, seed: int = 1) -> Iterator[UnitPoint]:
    random = np.random.default_rng(seed)
    for place in range(count):
        yield UnitPoint(START + every * place, math.log(ratio) + float(random.normal(0, spread)), None)


def first_fire(evidence: SeriesEvidence, stream: Iterator[UnitPoint]) -> dict[Name, float]:
    found: dict[Name, float] = {}
    for unit in stream:
        for name in evidence.add_unit(unit):
            found.setdefault(name, unit.at - START)
    return found


def test_units_are_evidence_about_the_median() -> None:
    ticket, page = (one.name for one in for_units())
    # A dense series: a unit every twenty seconds. A rare one: every ten minutes.
    assert first_fire(SeriesEvidence(for_units()), units(1.5, 400, 20.0))[ticket] <= 8000.0
    assert first_fire(SeriesEvidence(for_units()), units(1.5, 60, 600.0))[ticket] <= 60 * 600.0
    assert first_fire(SeriesEvidence(for_units()), units(3.0, 60, 600.0)).keys() == {ticket, page}
    # Thirty days each.
    assert first_fire(SeriesEvidence(for_units()), units(1.15, 129_600, 20.0, spread=0.3)) == {}
    assert first_fire(SeriesEvidence(for_units()), units(1.2, 4320, 600.0)) == {}


def test_units_that_timed_out_count_by_their_side() -> None:
    (detector,) = for_units(critical=None)
    for latency, expected in ((math.inf, 1), (-math.inf, -1), (math.log(detector.ratio), 0)):
        evidence = SeriesEvidence((detector,))
        for place in range(3):
            evidence.add_unit(UnitPoint(START + 300 * place, latency, None))
        assert evidence.all[0].sums == approx(replayed(detector, [expected] * 2))


def test_what_a_restart_keeps() -> None:
    stream = Stream()
    stream.run(START, 3600.0, 1.4)
    stream.evidence.enter("one", START + 3600.0)
    stream.run(START + 3600.0, 3600.0, 1.4)
    stream.evidence.hold_off(START + 7200.0)
    state = json.loads(json.dumps(stream.evidence.to_state()))
    found = SeriesEvidence.from_state(for_bursts(), state)
    assert found.to_state() == state
    assert found.held(START + 7201.0)
    assert found.epoch_age(START + 3700.0) == 100.0
    found.enter("one", START + 9000.0)
    assert found.to_state() == state
    # What is not configured any more is left out, what is new begins with nothing.
    other = SeriesEvidence.from_state(for_bursts((95, 99), critical=3.0), state)
    assert [any(one.sums) for one in other.all] == [False, True, False]
    assert SeriesEvidence.from_state(for_units(), state).all[0].sums == [0.0] * 5


@pytest.mark.parametrize(
    "change", [{"version": 7}, {"epoch": 3}, {"began": "x"}, {"held_until": math.nan}, {"evidence": {}}]
)
def test_a_damaged_state_is_refused(change: dict[str, Any]) -> None:
    state = SeriesEvidence(for_bursts()).to_state()
    with pytest.raises(ValueError, match="evidence"):
        SeriesEvidence.from_state(for_bursts(), {**state, **change})
    del state["began"]
    with pytest.raises(ValueError, match="evidence"):
        SeriesEvidence.from_state(for_bursts(), state)


def test_a_ratio_that_is_exactly_the_asked_one_gives_no_surplus_whatever_happens_to_both_sides() -> None:
    # Pair by pair the encrypted sample is the plain one: any slowing down in time leaves D at zero.
    stream = Stream(for_bursts((50, 95, 99), threshold=1.0, critical=None))
    for place in range(720):
        side = stream.side(20) + np.float32(2 * math.sin(place / 7) + (5.0 if place % 50 == 0 else 0.0))
        stream.add(START + 10 * place, side, side)
    for one in stream.evidence.all:
        if one.detector.percentile != 50:
            assert len(set(one.sums)) == 1
            assert one.sums[0] == int(one.sums[0]) > 10


def test_the_95th_percentile_on_request() -> None:
    (detector,) = for_bursts((95,))
    for ratio, fires in ((2.1, True), (1.1, False)):
        stream = Stream((detector,))
        stream.run(START, 4 * 3600.0, ratio)
        assert bool(stream.fired) is fires


def test_names_are_unique() -> None:
    with pytest.raises(ValueError, match="same name"):
        SeriesEvidence(for_bursts() + for_units())
