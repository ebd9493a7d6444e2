"""The boost keeps to its own limits whatever happens, and takes nothing from the ordinary ticks."""

import math
import random
from collections import Counter
from decimal import Decimal

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from exporter.config.schema import BudgetSettings
from exporter.domain.model import Operation
from exporter.domain.states import Activity
from exporter.probing.boost import (
    BYTES_SHORT,
    HOST_BUSY,
    HOUR_FULL,
    SIX_HOURS,
    SIX_HOURS_FULL,
    Boost,
    extra_samples,
)
from exporter.probing.budget import HOUR, NAMES, Amounts, Governor
from exporter.probing.messages import BoostedNow

POINT, RANGE, SCAN = KEYS = [
    ("p", operation) for operation in (Operation.POINT_SELECT, Operation.RANGE_SELECT, Operation.FULL_SCAN)
]
SAMPLES = {POINT: 20, RANGE: 5, SCAN: 1}
ROOM = 1e12
WIDE = Amounts(ROOM, ROOM, ROOM)


class Target:
    """Rounds of one target, whose boost is always asked; `cost` gives what a configured tick takes by its key."""

    def __init__(self, limits, cost, share=0.02, interval=60.0, wanted=frozenset(KEYS), overrun=1.0):
        """Extra samples take `overrun` times what their number makes one expect."""
        self.governor = Governor(limits, interval, SAMPLES)
        budgets = BudgetSettings(boost_time_share_ratio=share)
        self.boost = Boost("orders", budgets, interval, 15.0, SAMPLES, self.governor)
        self.boost.want(wanted)
        self.cost, self.interval, self.overrun, self.now = cost, interval, overrun, 0.0
        self.limits = limits
        self.ticks: list[tuple[float, Amounts]] = []
        self.extra: list[tuple[float, Amounts]] = []
        self.rounds: list[tuple[float, bool]] = []
        self.counts: Counter = Counter()
        self.told: list[BoostedNow] = []

    def run(self, hours):
        end = self.now + hours * HOUR
        while self.now < end:
            self.round()
        return self

    def round(self):
        begun = self.now
        self.boost.begin_round(begun)
        for key in self.governor.order(self.now):
            if self.governor.refuses(key, self.now):
                self.boost.not_due(key, self.now)
            else:
                self._tick(key)
        state = self.boost.state()
        self.told += [state] if self.told[-1:] != [state] else []
        self.rounds.append((begun, bool(self.told[-1].keys)))
        self.now = begun + self.interval * (1 + (self.now - begun) // self.interval)

    def _tick(self, key):
        spent = self.cost(key)
        begun, self.now = self.now, self.now + spent.seconds
        self.governor.charge(key, spent, begun, self.now)
        self.ticks.append((self.now, spent))
        self.counts[key] += 1
        if grant := self.boost.grant(key, self.now):
            spent = spent.times(self.overrun * grant.pairs / SAMPLES[key])
            # A pair that runs when the time is over is finished.
            spent = spent._replace(seconds=min(spent.seconds, grant.seconds))
            begun, self.now = self.now, self.now + spent.seconds
            self.boost.charge(key, spent, begun, self.now)
            self.extra.append((self.now, spent))
            self.ticks.append((self.now, spent._replace(seconds=0.0)))


def worst(spendings, budget, length=HOUR):
    """The most that any sliding hour took."""
    most = spent = 0.0
    first = 0
    for at, amounts in spendings:
        spent += amounts[budget]
        while at - spendings[first][0] >= length:
            spent -= spendings[first][1][budget]
            first += 1
        most = max(most, spent)
    return most


def boosted_in_six_hours(target):
    """The most seconds of rounds in which anything was boosted, in any six hours."""
    rounds = [(at, Amounts(target.interval * boosted)) for at, boosted in target.rounds]
    return worst(rounds, 0, SIX_HOURS)


LIMITS = Amounts(36.0, 1000.0, 100.0)
share = st.floats(0, 0.2)
costs_of_three = st.lists(
    st.tuples(share, share, share).map(lambda parts: Amounts(*(x * y for x, y in zip(parts, LIMITS, strict=True)))),
    min_size=3,
    max_size=3,
)
quickly = settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])


@quickly
# Periods that are no whole number of rounds: each stretch ends in the midst of one.
@example([Amounts(5.4273678300436075)] * 3, 286, 0.07620349146667729, 0.2)
@given(costs_of_three, st.integers(0, 1000), st.floats(0.001, 0.1), st.floats(0.2, 20.0))
def test_no_hour_holds_more_time_than_its_limit_and_no_six_hours_more_than_one(costs, seed, ratio, overrun):
    """Whatever is wanted when, and whatever samples take: what is granted ends when its time is over."""
    usual, rng = dict(zip(KEYS, costs, strict=True)), random.Random(seed)
    target = Target(
        LIMITS._replace(seconds=360.0), lambda key: usual[key].times(rng.uniform(0.2, 3)), ratio, overrun=overrun
    )
    while target.now < 20 * HOUR:
        target.boost.want(rng.sample(KEYS, rng.randrange(4)))
        target.run(rng.uniform(0.1, 3))

    assert worst(target.extra, 0) <= ratio * HOUR * (1 + 1e-6)
    assert boosted_in_six_hours(target) <= HOUR + target.interval


@quickly
@given(costs_of_three)
def test_steady_costs_keep_all_budgets_and_ordinary_ticks_lose_nothing(costs):
    usual = dict(zip(KEYS, costs, strict=True))
    boosted, plain = (Target(LIMITS, usual.__getitem__, wanted=wanted).run(13) for wanted in (KEYS, ()))

    for budget in range(len(NAMES)):
        dearest = max(cost[budget] for cost in costs)
        assert worst(boosted.ticks, budget) <= max(LIMITS[budget] * (1 + 1e-6), worst(plain.ticks, budget), dearest)
    for key in KEYS:
        # What extra samples take moves the later ticks of a round a little.
        assert boosted.counts[key] == pytest.approx(plain.counts[key], rel=0.02, abs=2)
    assert plain.extra == []


def test_by_default_a_boost_lasts_an_hour_and_comes_back_after_five():
    costs = {POINT: Amounts(0.012), RANGE: Amounts(0.015), SCAN: Amounts(0.05)}
    target = Target(Amounts(36.0, ROOM, ROOM), costs.__getitem__, interval=10.0).run(13)

    bursts = frozenset({POINT, RANGE})
    assert [(message.keys, message.refused) for message in target.told] == [
        (bursts, ""),
        (frozenset(), SIX_HOURS_FULL),
    ] * 2 + [(bursts, "")]
    changes = [at for (at, was), (_, before) in zip(target.rounds[1:], target.rounds, strict=False) if was != before]
    assert changes == pytest.approx([HOUR, SIX_HOURS, SIX_HOURS + HOUR, 2 * SIX_HOURS], abs=30.0)
    assert worst(target.extra, 0) == pytest.approx(360 * (6.5 * 0.012 + 6.4 * 0.015), rel=0.01)


def test_samples_grow_to_seven_and_a_half_times_and_no_more_than_two_hundred():
    assert {samples: samples + extra_samples(samples) for samples in (1, 2, 5, 20, 26, 27, 150, 200)} == {
        1: 1, 2: 15, 5: 37, 20: 150, 26: 195, 27: 200, 150: 200, 200: 200,
    }  # fmt: skip


class Asked:
    """A boost whose operations have all run once and of which all is wanted, to be asked for more point selects."""

    def __init__(self, cost=Amounts(0.012), limits=WIDE, share=0.02):  # noqa: B008
        target = Target(limits, lambda key: cost, share, interval=10.0, wanted=())
        target.run(10.0 / HOUR)
        self.boost = target.boost
        self.boost.want(KEYS)

    def refusal(self, now=20.0):
        """Why nothing more is granted; empty when it is."""
        self.boost.begin_round(now)
        granted = self.boost.grant(POINT, now)
        words = self.boost.state().refused
        assert (granted is None) is bool(words)
        return words


def test_what_nobody_wants_is_not_granted_and_nothing_is_said():
    asked = Asked()
    assert asked.boost.grant(SCAN, 20.0) is None, "operations with one sample are not boosted"
    asked.boost.want([])
    asked.boost.begin_round(20.0)
    assert asked.boost.grant(POINT, 20.0) is None
    assert asked.boost.state() == BoostedNow("orders", frozenset())


def test_a_share_of_nothing_switches_it_off():
    asked = Asked(share=0.0)
    assert asked.boost.grant(POINT, 20.0) is None
    assert asked.boost.used(20.0) == {}


@pytest.mark.parametrize("said", [0.86, 1.0, Decimal("0.9")])
def test_a_busy_host_refuses_until_it_is_not_busy_any_more(said):
    asked = Asked()
    asked.boost.read_activity(Activity(host_cpu_ratio=said), 20.0)
    assert asked.refusal(20.0) == HOST_BUSY
    asked.boost.read_activity(Activity(host_cpu_ratio=0.84), 35.0)
    assert asked.refusal(35.0) == ""


@pytest.mark.parametrize("said", [None, math.nan, "full", True, b"1"])
def test_what_is_unknown_is_not_busy(said):
    asked = Asked()
    asked.boost.read_activity(Activity(host_cpu_ratio=said, cpu_seconds=said, host_cpus=said), 20.0)
    assert asked.refusal(20.0) == ""


def test_a_reading_counts_for_two_intervals():
    asked = Asked()
    asked.boost.read_activity(Activity(host_cpu_ratio=0.9), 20.0)
    assert asked.refusal(50.0) == HOST_BUSY
    assert asked.refusal(50.1) == ""


def test_where_the_host_is_not_seen_the_database_may_use_most_of_it_itself():
    asked = Asked()
    for at, cpu, expected in ((20.0, 100.0, ""), (35.0, 208.5, HOST_BUSY), (50.0, 310.0, ""), (65.0, 10.0, "")):
        # 15 s of 8 processors are 120 s, of which 108.5 s are 90 % and 101.5 s are 85 %; then it was restarted.
        asked.boost.read_activity(Activity(cpu_seconds=cpu, host_cpus=8), at)
        assert asked.refusal(at) == expected


def test_processor_time_between_readings_far_apart_tells_nothing():
    asked = Asked()
    for at, cpu in ((20.0, 100.0), (50.0, 350.0)):
        asked.boost.read_activity(Activity(cpu_seconds=cpu, host_cpus=8), at)
    assert asked.refusal(50.0) == ""


def test_time_of_an_hour_that_is_used_up_refuses_and_has_a_name():
    asked = Asked(share=0.001)
    asked.boost.charge(RANGE, Amounts(3.55), 20.0, 23.55)
    assert asked.boost.used(25.0) == {"boost_time": 3.55 / 3.6}
    assert asked.refusal(25.0) == HOUR_FULL
    assert asked.refusal(25.0 + HOUR + 10.0) == ""


def test_a_tick_gets_the_rest_of_the_hour_and_no_more_than_a_quarter_of_its_interval():
    asked = Asked()
    assert asked.boost.grant(POINT, 20.0) == (130, 2.5)
    asked.boost.charge(RANGE, Amounts(71.0), 20.0, 91.0)
    left = asked.boost.grant(POINT, 100.0)
    assert left is not None
    assert left.pairs == 130
    assert left.seconds == pytest.approx(1.0)


@pytest.mark.parametrize("budget", ["bytes_read", "bytes_written"])
def test_bytes_that_ordinary_ticks_need_are_not_taken(budget):
    cost = Amounts(0.001, 1.0, 1.0)
    # Three operations need 1083 in an hour; the extra samples of a point select take 6.5.
    for limit, expected in ((1000.0, BYTES_SHORT), (1088.0, BYTES_SHORT), (1100.0, "")):
        assert Asked(cost, WIDE._replace(**{budget: limit})).refusal() == expected


def test_while_bytes_thin_one_operation_none_is_boosted_even_if_it_reads_nothing():
    for read, expected in ((1.0, ""), (30.0, BYTES_SHORT)):
        target = Target(WIDE._replace(bytes_read=1000.0), lambda key, read=read: Amounts(0.01, read * (key == SCAN)))
        target.run(0.1)
        assert target.told[-1].refused == expected


def test_extra_bytes_are_charged_to_the_ordinary_budgets_and_time_is_not():
    target = Target(Amounts(36.0, 100.0, 100.0), lambda key: Amounts())
    target.boost.charge(POINT, Amounts(3.0, 20.0, 10.0), 0.0, 3.0)
    assert target.governor.used(3.0) == {"time": 0.0, "bytes_read": 0.2, "bytes_written": 0.1}


def test_an_operation_that_is_not_due_stays_what_it_was():
    asked = Asked()
    asked.boost.begin_round(20.0)
    assert asked.boost.grant(POINT, 20.0)
    asked.boost.charge(POINT, Amounts(0.08), 20.0, 20.08)
    assert asked.boost.state() == BoostedNow("orders", frozenset({POINT}))
    asked.boost.begin_round(20.0)
    asked.boost.not_due(POINT, 29.9)
    asked.boost.not_due(RANGE, 29.9)
    assert asked.boost.state().keys == {POINT}


def test_an_operation_that_is_no_longer_wanted_does_not_stay():
    asked = Asked()
    asked.boost.charge(POINT, Amounts(0.08), 20.0, 20.08)
    asked.boost.want([RANGE])
    asked.boost.begin_round(20.0)
    asked.boost.not_due(POINT, 29.9)
    assert asked.boost.state().keys == set()


def test_what_was_boosted_too_long_ago_does_not_stay():
    asked = Asked()
    asked.boost.charge(POINT, Amounts(0.08), 20.0, 20.08)
    asked.boost.begin_round(20.0)
    asked.boost.not_due(POINT, 30.0)
    assert asked.boost.state() == BoostedNow("orders", frozenset())
