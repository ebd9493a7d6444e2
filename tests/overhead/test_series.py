"""A series as a whole: from ticks to breach, through restarts and silence, and back."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from exporter.domain.model import Tick, Variant, Work
from exporter.overhead.evidence import Name
from exporter.overhead.series import Judgement, Series
from exporter.overhead.two_level import DEFAULT_TAU
from exporter.overhead.verdict import Breach, State

approx: Any = pytest.approx  # Stands for the number that it is near to.
E, P = Variant.ENCRYPTED, Variant.PLAIN
START = 1_800_057_600.0  # A multiple of six hours.
HOUR, PERIOD = 3600.0, 30.0
TAIL, MEDIAN = Name(99, "plain", 1.2), Name(50, "plain", 1.2)


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
    ):
        with pytest.raises(ValueError, match=r"damaged|unknown"):
            fresh.restore_state(damaged)
        assert fresh.to_state() == before
    fresh.restore_state(state)
    assert fresh.to_state() == state
