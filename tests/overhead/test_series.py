"""A series as a whole: from ticks to breach, through restarts and silence, and back."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from exporter.domain.model import Tick, Variant, Work
from exporter.overhead.baseline import divided, upper_reference
from exporter.overhead.evidence import Name
from exporter.overhead.ratio import Ratio
from exporter.overhead.series import Judgement, Series
from exporter.overhead.two_level import DEFAULT_TAU
from exporter.overhead.verdict import Breach, State

approx: Any = pytest.approx  # Stands for the number that it is near to.
E, P = Variant.ENCRYPTED, Variant.PLAIN
START = 1_800_057_600.0  # A multiple of six hours.
HOUR, PERIOD = 3600.0, 30.0
TAIL, MEDIAN = Name(99, "plain", 1.2), Name(50, "plain", 1.2)
SINCE, TAIL_SINCE = Name(50, "baseline", 1.2), Name(99, "baseline", 1.2)
FASTER = {50: Ratio(0.9, 0.88, 0.92, 7200), 99: Ratio(0.9, 0.8, 1.01, 7200)}
"""What the twins differed by before there was any encryption."""


class Life:
    """Ticks every half a minute, judged every minute."""

    def __init__(self, make_tick: Callable[..., Tick], samples: int = 60, **more: Any) -> None:
        self.make, self.samples, self.now, self.more = make_tick, samples, START, more
        self.series = Series(START, samples, **more)
        self.begun: list[Breach] = []
        self.ended: list[Breach] = []
        self.states: set[State] = set()
        self.random = np.random.default_rng(1)

    def tick(self, ratio: float, **more: Any) -> Tick:
        def side() -> Any:
            slow = np.where(self.random.random(self.samples) < (0.03 if self.samples > 1 else 0.0), 2.0, 0.0)
            return np.exp(self.random.normal(-8, 0.25 if self.samples > 1 else 0.05, self.samples) + slow)

        first = (E, P)[round(self.now / PERIOD) % 2]
        return self.make((side() * ratio).tolist(), side().tolist(), first=first, **more)

    def live(self, seconds: float, ratio: float = 1.0, ticks: bool = True, **more: Any) -> Judgement:
        until = self.now + seconds
        while self.now < until:
            if ticks:
                self.begun += self.series.add(self.tick(ratio, **more), self.now)
            self.now += PERIOD
            if self.now % 60 == 0:
                judged = self.series.judge(self.now, PERIOD)
                self.ended += judged.ended
                self.states.add(judged.state)
        return judged

    def restart(self) -> None:
        """As a new process would find it: blocks and state by way of the history."""
        state, blocks = json.loads(json.dumps(self.series.to_state())), self.series.window.blocks()
        self.series = Series(self.now, self.samples, **self.more)
        for block in blocks:
            self.series.restore(block, self.now)
        self.series.restore_state(state)


def test_from_ticks_to_a_breach_and_back(make_tick: Any) -> None:
    life = Life(make_tick)
    judged = life.live(1.5 * HOUR)
    assert (judged.state, judged.hour.word, judged.breaches) == (State.OK, "within_budget", ())
    assert life.states == {State.WARMING, State.OK}
    assert [one.detector.name for one in judged.evidence] == [MEDIAN, TAIL, Name(99, "plain", 2.0)]

    judged = life.live(2 * HOUR, 1.6)
    assert {breach.name for breach in judged.breaches} == {TAIL, MEDIAN} == {breach.name for breach in life.begun}
    assert len(life.begun) == 2
    assert (judged.state, judged.hour.word) == (State.FIRING, "over_budget")
    assert State.SUSPECT in life.states

    # Neither silence nor a restart, nor both, end it.
    judged = life.live(700.0, ticks=False)
    assert (judged.state, judged.hour.word) == (State.NO_DATA, "no_data")
    life.restart()
    judged = life.series.judge(life.now, PERIOD)
    assert len(judged.breaches) == 2
    life.live(3 * HOUR, ticks=False)
    assert life.ended == []

    # An hour of health does, by way of recovery.
    life.states.clear()
    judged = life.live(1.2 * HOUR)
    assert judged.breaches == ()
    assert {breach.name for breach in life.ended} == {TAIL, MEDIAN}
    assert judged.hour.word == "within_budget"
    assert len(life.begun) == 2


def test_a_breach_recovers_before_it_ends(make_tick: Any) -> None:
    life = Life(make_tick)
    life.live(2 * HOUR, 1.7)
    assert life.begun
    life.states.clear()
    life.live(1.5 * HOUR)
    assert {State.FIRING, State.RECOVERING, State.OK} <= life.states


def test_single_samples_are_judged_by_their_units(make_tick: Any) -> None:
    life = Life(make_tick, samples=1)
    judged = life.live(3.5 * HOUR, 1.5)
    assert [breach.name for breach in judged.breaches] == [MEDIAN]
    assert not life.series.boost_wanted
    assert set(judged.hour.latency_ratio) == {50}
    assert [set(window.percentiles[side]) for window in (judged.hour, judged.day) for side in Variant] == [{50}] * 4


def test_a_percentile_that_is_shown_besides_is_not_judged(make_tick: Any) -> None:
    life = Life(make_tick, shown_besides=(95,))
    judged = life.live(12.5 * HOUR, 1.5)
    for window in (judged.hour, judged.day):
        assert set(window.latency_ratio) == {50, 95, 99}
        assert set(window.percentiles[E]) == {50, 95, 99}
    assert judged.hour.percentiles[E][50] < judged.hour.percentiles[E][95] < judged.hour.percentiles[E][99]
    assert judged.hour.latency_ratio[95].lower is not None
    assert {evidence.detector.name.percentile for evidence in judged.evidence} == {50, 99}
    life.restart()
    assert set(life.live(60.0).hour.latency_ratio) == {50, 95, 99}


def test_more_samples_are_wanted_while_the_evidence_grows(make_tick: Any) -> None:
    life, wanted = Life(make_tick), set()
    life.live(HOUR)
    assert not life.series.boost_wanted
    for _ in range(60):
        life.live(60.0, 1.8)
        wanted.add(life.series.boost_wanted)
    assert True in wanted


def test_no_more_samples_are_wanted_by_who_has_decided(make_tick: Any) -> None:
    """The evidence begins anew when a breach does, and grows again while it lasts."""
    life, wanted, suspicious = Life(make_tick), set(), set()
    life.live(HOUR)
    while not life.series.breached[TAIL]:
        life.live(60.0, 1.8)
    for _ in range(90):
        life.live(60.0, 1.8)
        suspicious |= {evidence.detector.name for evidence in life.series.evidence if evidence.boost_wanted}
        wanted.add(life.series.boost_wanted)
    assert TAIL in suspicious
    assert wanted == {False}


def test_what_is_not_the_cost_of_encryption_is_no_breach(make_tick: Any) -> None:
    cases: list[tuple[dict[str, Any], dict[str, Any], State]] = [
        ({"certifying": True}, {}, State.CERTIFYING),
        ({}, {"work": Work(0.002, None, 0, 0, 0)}, State.BLIND),
    ]
    for more, ticks, state in cases:
        life = Life(make_tick, **more)
        judged = life.live(2.5 * HOUR, 3.0, **ticks)
        assert judged.state is state
        assert (life.begun, judged.breaches) == ([], ())
        assert not life.series.boost_wanted


def test_an_outage_holds_everything(make_tick: Any) -> None:
    life = Life(make_tick)
    life.live(HOUR)
    down = make_tick([math.inf] * 60, [math.inf] * 60)
    for _ in range(4):
        life.series.add(down, life.now)
        life.now += PERIOD
    judged = life.series.judge(life.now, PERIOD)
    assert (judged.state, judged.hour.word) == (State.OUTAGE, "held")
    judged = life.live(600.0, 4.0)
    assert (judged.state, judged.hour.word) == (State.HOLD_OFF, "held")
    life.live(1080.0, 4.0)
    assert life.begun == []
    life.live(HOUR, 4.0)
    assert life.begun
    assert life.series.judge(life.now, PERIOD, unreachable=True).state is State.OUTAGE
    life.series.hold_off(life.now)
    assert life.series.judge(life.now, PERIOD).state is State.HOLD_OFF


def test_dropped_ticks_are_missing_samples(make_tick: Any) -> None:
    life = Life(make_tick)
    life.live(700.0)
    judged = life.live(700.0, dropped="contended")
    assert judged.state is State.NO_DATA


def test_hours_teach_how_much_the_ratio_wanders(make_tick: Any) -> None:
    life = Life(make_tick, samples=8)
    for _ in range(16):
        judged = life.live(HOUR, math.exp(life.random.normal(0, 0.1)))
    taught = life.series.to_state()["hours"]["windows"]
    assert [len(taught[figure]) for figure in ("50", "cpu")] == [16, 16]
    assert len(life.series.to_state()["six_hours"]["windows"]["50"]) == 2
    wide = judged.hour.latency_ratio[50]
    assert wide.upper is not None
    assert wide.lower is not None
    assert wide.upper / wide.lower > math.exp(4 * DEFAULT_TAU)
    assert judged.day.hours == 16
    assert 50 in judged.day.latency_ratio
    life.restart()
    assert life.series.to_state()["hours"]["windows"] == taught
    # Another epoch has another story.
    life.live(60.0, epoch="e2")
    assert life.series.to_state()["hours"]["windows"] == {}


def test_a_breach_outlives_its_epoch_until_the_new_one_shows_better(make_tick: Any) -> None:
    life = Life(make_tick)
    life.live(2 * HOUR, 1.7)
    assert life.begun
    judged = life.live(0.5 * HOUR, epoch="e2")
    assert judged.breaches
    judged = life.live(HOUR, epoch="e2")
    assert judged.breaches == ()


def shown(life: Life) -> dict[Name, list[float]]:
    return {one.detector.name: list(one.sums) for one in life.series.judge(life.now, PERIOD).evidence}


def test_against_a_baseline_what_grew_since_then_is_a_breach(make_tick: Any) -> None:
    life = Life(make_tick)
    assert life.series.compare_with(FASTER) == ()
    judged = life.live(1.5 * HOUR, 0.9)
    assert [one.detector.name for one in judged.evidence[3:]] == [SINCE, TAIL_SINCE]
    for one in judged.evidence[3:]:
        limit = upper_reference(FASTER[one.detector.percentile])
        assert limit is not None
        assert one.detector.ratio == approx(1.2 * limit * math.exp(one.detector.margin))
    assert judged.hour.word == "within_budget"

    # Less than a fifth more than the plain twin takes, but 31 % more than there was of a difference.
    judged = life.live(2.5 * HOUR, 1.18)
    assert SINCE in {breach.name for breach in judged.breaches}
    assert not {MEDIAN, TAIL} & {breach.name for breach in judged.breaches}
    assert (judged.state, judged.hour.word) == (State.FIRING, "over_budget")

    # It ends by the ratio to the baseline: that to the twin is below the threshold all the time from here.
    judged = life.live(1.2 * HOUR, 1.12)
    adjusted = divided(judged.hour.latency_ratio[50], FASTER[50])
    assert adjusted is not None
    assert (adjusted.lower or 0.0) > 1.15
    assert SINCE in {breach.name for breach in judged.breaches}
    judged = life.live(1.2 * HOUR, 0.95)
    assert judged.breaches == ()
    assert SINCE in {breach.name for breach in life.ended}
    assert judged.hour.word == "within_budget"


def test_another_baseline_begins_anew_and_the_same_one_goes_on(make_tick: Any) -> None:
    life = Life(make_tick)
    life.series.compare_with(FASTER)
    life.live(3 * HOUR, 1.7)
    names = {MEDIAN, TAIL, SINCE, TAIL_SINCE}
    assert {breach.name for breach in life.begun} == names
    life.live(900.0, 1.7)
    before = shown(life)
    assert all(any(sums) for sums in before.values())

    assert life.series.compare_with(dict(FASTER)) == ()
    assert shown(life) == before

    # Of one percentile only.
    other = {**FASTER, 99: Ratio(1.3, 1.2, 1.4, 7200)}
    assert {breach.name for breach in life.series.compare_with(other)} == {TAIL_SINCE}
    now = shown(life)
    assert now.pop(TAIL_SINCE) == [0.0] * 5
    assert now == {name: sums for name, sums in before.items() if name != TAIL_SINCE}
    assert {breach.name for breach in life.series.judge(life.now, PERIOD).breaches} == names - {TAIL_SINCE}

    assert {breach.name for breach in life.series.compare_with(None)} == {SINCE}
    assert list(shown(life)) == [MEDIAN, TAIL, Name(99, "plain", 2.0)]
    assert {breach.name for breach in life.series.judge(life.now, PERIOD).breaches} == {MEDIAN, TAIL}


def test_a_baseline_in_the_middle_of_a_block_gives_what_it_would_from_the_start(make_tick: Any) -> None:
    early, late = Life(make_tick), Life(make_tick)
    early.series.compare_with(FASTER)
    for life in (early, late):
        life.live(HOUR + 150.0, 1.1)
    late.series.compare_with(FASTER)
    fresh = shown(early)[SINCE], shown(late)[SINCE]
    assert fresh[0] != fresh[1] == [0.0] * 5
    for life in (early, late):
        life.live(300.0, 1.1)
    assert any(shown(late)[SINCE])
    assert {name: sums for name, sums in shown(late).items() if name.reference == "plain"} == {
        name: sums for name, sums in shown(early).items() if name.reference == "plain"
    }


def test_what_is_compared_with_survives_a_restart(make_tick: Any) -> None:
    life = Life(make_tick)
    life.series.compare_with(FASTER)
    life.live(3.2 * HOUR, 1.7)
    sums, breaches = shown(life), life.series.judge(life.now, PERIOD).breaches
    state = json.loads(json.dumps(life.series.to_state()))
    # Whoever knows the baseline may say so later, earlier, or never.
    for early, later in ((None, FASTER), (FASTER, None), (None, None)):
        life.restart() if early is None else life.series.restore_state(state)
        if later is not None:
            assert life.series.compare_with(later) == ()
        assert shown(life) == sums
        assert life.series.judge(life.now, PERIOD).breaches == breaches
    # The one that is told of first prevails over what was known to the process before.
    for chosen, kept in (
        ({**FASTER, 50: Ratio(0.8, 0.7, 0.9, 100)}, {MEDIAN, TAIL, TAIL_SINCE}),
        (None, {MEDIAN, TAIL}),
    ):
        fresh = Series(life.now, life.samples)
        fresh.compare_with(chosen)
        fresh.restore_state(state)
        judged = fresh.judge(life.now, PERIOD)
        assert {breach.name for breach in judged.breaches} == kept
        assert {one.detector.name: any(one.sums) for one in judged.evidence} == {
            **{name: True for name in sums if name.reference == "plain"},
            **({SINCE: False, TAIL_SINCE: True} if chosen else {}),
        }


def test_a_baseline_gives_no_evidence_where_its_upper_end_is_unknown_or_it_is_still_certifying(make_tick: Any) -> None:
    half_known = {50: Ratio(1.1, 1.0, None, 100), 99: Ratio(None, 20.0, None, 100)}
    for more, before in (({}, half_known), ({"certifying": True}, FASTER), ({"samples": 1}, {99: FASTER[99]})):
        life = Life(make_tick, **more)
        life.series.compare_with(before)
        judged = life.live(600.0)
        assert not [one for one in judged.evidence if one.detector.reference == "baseline"]
    single = Life(make_tick, samples=1)
    single.series.compare_with(FASTER)
    assert [one.detector.name for one in single.live(600.0).evidence] == [MEDIAN, Name(50, "plain", 2.0), SINCE]


def test_a_damaged_state_changes_nothing(make_tick: Any) -> None:
    life = Life(make_tick, samples=4)
    life.live(600.0)
    state = life.series.to_state()
    fresh = Series(START, 4)
    before = fresh.to_state()
    for damaged in (
        {},
        {**state, "version": 3},
        {**state, "epoch": 7},
        {**state, "evidence": None},
        {**state, "verdict": {}},
        {**state, "hours": {"version": 1}},
        {**state, "six_hours": state["hours"]},
        {**state, "before": [50]},
        {**state, "before": {"50": {"estimate": 1.0}}},
        {**state, "before": {"50": Ratio(1.0, -1.0, 1.1, 3).to_dict()}},
    ):
        with pytest.raises(ValueError, match=r"damaged|unknown"):
            fresh.restore_state(damaged)
        assert fresh.to_state() == before
    fresh.restore_state(state)
    assert fresh.to_state() == state
