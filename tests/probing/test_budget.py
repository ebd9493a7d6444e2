"""The governor keeps every budget over any hour, spreads what there is evenly, and starves nobody."""

import random
import sys
import threading
from collections import Counter, defaultdict
from itertools import pairwise

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from exporter.config.schema import BudgetSettings
from exporter.domain.model import Operation
from exporter.probing.budget import HOUR, NAMES, Amounts, Governor, Hour

POINT, SCAN, COLD, INSERT = KEYS = [
    ("p", operation)
    for operation in (Operation.POINT_SELECT, Operation.FULL_SCAN, Operation.FULL_SCAN_COLD, Operation.INSERT_BATCH)
]
ROOM = 1e12


class Simulation:
    """Rounds of one target at an interval; what each operation costs is given by a function of its key."""

    def __init__(self, limits, cost, keys=KEYS, interval=10.0):
        self.governor = Governor(limits, interval, keys)
        self.cost, self.interval, self.now = cost, interval, 0.0
        self.ticks: list[tuple[float, tuple, Amounts]] = []
        self.refused: Counter = Counter()

    def run(self, hours):
        end = self.now + hours * HOUR
        while self.now < end:
            begun = self.now
            for key in self.governor.order(self.now):
                if reason := self.governor.refuses(key, self.now):
                    self.refused[reason] += 1
                    continue
                spent = self.cost(key)
                started, self.now = self.now, self.now + spent.seconds
                self.governor.charge(key, spent, started, self.now)
                self.ticks.append((self.now, key, spent))
            # A round that took longer than the interval is followed by the next one in time.
            self.now = begun + self.interval * (1 + (self.now - begun) // self.interval)
        return self

    def counts(self, since=0.0):
        return Counter(key for at, key, _ in self.ticks if at >= since)

    def worst_hour(self, budget):
        """The most that any sliding hour took."""
        worst = spent = 0.0
        first = 0
        for at, _, amounts in self.ticks:
            spent += amounts[budget]
            while at - self.ticks[first][0] >= HOUR:
                spent -= self.ticks[first][2][budget]
                first += 1
            worst = max(worst, spent)
        return worst

    def gaps(self, key):
        times = [at for at, ran, _ in self.ticks if ran == key]
        return [later - earlier for earlier, later in pairwise(times)]


def fixed(costs):
    return lambda key: costs[key]


LIMITS = Amounts(36.0, 1000.0, 100.0)
share = st.floats(0, 1.5)
costs_of_four = st.lists(
    st.tuples(share, share, share).map(lambda parts: Amounts(*(x * y for x, y in zip(parts, LIMITS, strict=True)))),
    min_size=4,
    max_size=4,
)
quickly = settings(max_examples=25, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])


@quickly
@given(costs_of_four, st.integers(0, 1000))
def test_no_hour_exceeds_a_budget_by_more_than_one_tick_whatever_ticks_cost(costs, seed):
    """Costs change without notice: each tick takes anything from nothing to three times the usual."""
    usual, rng = dict(zip(KEYS, costs, strict=True)), random.Random(seed)
    ran = Simulation(LIMITS, lambda key: usual[key].times(rng.uniform(0, 3)), interval=60.0).run(12)

    for budget in range(len(NAMES)):
        dearest = max(spent[budget] for _, _, spent in ran.ticks)
        assert ran.worst_hour(budget) <= (LIMITS[budget] + dearest) * (1 + 1e-6)


@quickly
@given(costs_of_four)
def test_steady_costs_keep_every_hour_within_its_budget_and_starve_nobody(costs):
    """After the first ticks, which tell what the operations cost. A tick may still be larger than a budget."""
    ran = Simulation(LIMITS, fixed(dict(zip(KEYS, costs, strict=True))), interval=60.0)
    while set(ran.counts()) != set(KEYS):
        assert ran.now < 40 * HOUR
        ran.run(1)
    ran.run(1)
    ran.ticks.clear()
    ran.run(40)

    for budget in range(len(NAMES)):
        dearest = max(cost[budget] for cost in costs)
        assert ran.worst_hour(budget) <= max(LIMITS[budget], dearest) * (1 + 1e-6)
    assert set(ran.counts()) == set(KEYS)


def test_what_fits_runs_at_every_interval():
    ran = Simulation(Amounts(36, ROOM, ROOM), fixed(dict.fromkeys(KEYS, Amounts(0.02)))).run(2)

    assert ran.counts() == dict.fromkeys(KEYS, 720)
    assert ran.refused == {}
    assert set(ran.governor.periods().values()) == {10.0}


def test_the_dear_operation_is_thinned_and_the_cheap_ones_are_not():
    costs = {POINT: Amounts(0.012), SCAN: Amounts(4.0), COLD: Amounts(0.02), INSERT: Amounts(0.01)}
    ran = Simulation(Amounts(36, ROOM, ROOM), fixed(costs)).run(10)

    counts = ran.counts()
    assert counts[POINT] == counts[COLD] == counts[INSERT] == 3600
    # 36 s less what the cheap ones take (15 s) and less one tick are four scans in an hour, or one in 800 s.
    assert 36 <= counts[SCAN] <= 50
    assert max(ran.gaps(SCAN)) < 1.3 * min(ran.gaps(SCAN)[1:])
    assert ran.worst_hour(0) <= 36


def test_the_tightest_budget_decides_and_is_named():
    costs = dict.fromkeys(KEYS, Amounts(0.001, 100.0, 0.0)) | {INSERT: Amounts(0.001, 0.0, 50.0)}
    ran = Simulation(Amounts(36, 3000, 1000), fixed(costs)).run(5)

    assert ran.worst_hour(1) <= 3000
    assert ran.worst_hour(2) <= 1000
    assert set(ran.refused) == {"bytes_read", "bytes_written"}
    hourly = {key: count / 5 for key, count in ran.counts().items()}
    assert hourly[POINT] == pytest.approx(9, rel=0.15)
    assert hourly[INSERT] == pytest.approx(19, rel=0.1)


def test_a_tenth_of_a_budget_is_a_tenth_of_the_load():
    costs = {POINT: Amounts(0.2), SCAN: Amounts(0.02), COLD: Amounts(0.05), INSERT: Amounts(0.02)}
    whole = Simulation(Amounts(36, ROOM, ROOM), fixed(costs)).run(10)
    tenth = Simulation(Amounts(3.6, ROOM, ROOM), fixed(costs)).run(10)

    load = [sum(spent.seconds for _, _, spent in ran.ticks) / (10 * HOUR) for ran in (whole, tenth)]
    assert load[0] == pytest.approx(0.01, rel=0.05)
    assert load[1] == pytest.approx(0.001, rel=0.1)


def test_one_hiccup_slows_nothing_down():
    costs: defaultdict = defaultdict(lambda: Amounts(0.012))
    ran = Simulation(Amounts(36, ROOM, ROOM), lambda key: costs[key]).run(0.5)
    costs[POINT] = Amounts(3.0)
    ran.run(10 / HOUR)
    del costs[POINT]
    before = ran.counts()[POINT]
    ran.run(0.5)

    assert ran.counts()[POINT] - before == 180


def test_a_query_that_becomes_slow_is_thinned_at_once_and_recovers_when_it_is_quick_again():
    costs = dict.fromkeys(KEYS, Amounts(0.012))
    ran = Simulation(Amounts(36, ROOM, ROOM), lambda key: costs[key]).run(1)
    costs[SCAN] = Amounts(4.0)
    ran.run(2)
    assert ran.worst_hour(0) <= 36 + 4
    assert ran.counts(since=2 * HOUR)[POINT] >= 340
    costs[SCAN] = Amounts(0.012)
    ran.run(2.5)
    assert ran.governor.periods()[SCAN] == 10.0


def test_a_tick_that_costs_more_than_a_budget_runs_alone_in_its_hour():
    costs = dict.fromkeys(KEYS, Amounts(0.1)) | {SCAN: Amounts(50.0)}
    ran = Simulation(Amounts(36, ROOM, ROOM), fixed(costs)).run(24)

    assert 3 <= ran.counts()[SCAN] <= 12
    assert ran.worst_hour(0) <= 50.0 + 1e-6
    # An hour in which the scan ran has no room for anything else; what is left is shared equally.
    assert ran.counts()[POINT] > 24 * 30


def test_who_cannot_use_its_turn_holds_up_nobody():
    """Without room for the scan, which never runs, the others would have to wait for it."""
    governor = Governor(Amounts(36, ROOM, ROOM), 10.0, [POINT, SCAN])
    governor.charge(SCAN, Amounts(30.0), 0.0, 30.0)
    now = 7000.0
    governor.charge(None, Amounts(34.0), now, now)
    assert governor.refuses(POINT, now) == "time"

    governor.passed(SCAN, now)

    assert governor.refuses(POINT, now) is None


def test_what_writes_nothing_is_not_held_up_by_the_budget_of_writing():
    governor = Governor(Amounts(36, 1000, 10), 10.0, [POINT, INSERT])
    governor.charge(POINT, Amounts(0.01, 1, 0), 0.0, 0.1)
    governor.charge(INSERT, Amounts(0.01, 0, 30), 0.1, 0.2)

    assert governor.refuses(INSERT, 10.0) == "bytes_written"
    assert governor.refuses(POINT, 10.0) is None


def test_a_round_begins_with_another_operation_each_time():
    governor = Governor(Amounts(36, ROOM, ROOM), 10.0, KEYS)

    assert {governor.order(0.0)[0] for _ in KEYS} == set(KEYS)
    assert sorted(governor.order(0.0)) == sorted(KEYS)


def test_who_has_waited_too_long_comes_first():
    governor = Governor(Amounts(36, ROOM, ROOM), 10.0, KEYS)
    for number, key in enumerate(KEYS):
        governor.charge(key, Amounts(0.001), 100.0 * number, 100.0 * number)

    assert governor.order(500.0) == KEYS


def test_limits_follow_the_settings_and_shares_say_what_is_in_use():
    limit = Amounts.per_hour(BudgetSettings(bytes_read_per_hour=2**20, bytes_written_per_hour=2**21))
    assert limit == Amounts(36.0, 2.0**20, 2.0**21)
    governor = Governor(limit, 10.0, [POINT])
    governor.charge(POINT, Amounts(9.0, 2**19, 2**22), 100.0, 109.0)

    assert governor.used(109.0) == {"time": 0.25, "bytes_read": 0.5, "bytes_written": 2.0}
    assert governor.load_ratio(109.0) == 9.0 / 3600
    assert governor.used(109.0 + HOUR) == dict.fromkeys(NAMES, 0.0)


@given(st.lists(st.tuples(st.floats(0, 200), st.floats(0, 10)), max_size=200))
def test_an_hour_forgets_nothing_too_early_and_all_of_it_in_the_end(spendings):
    hour, now, told = Hour(), 0.0, []
    for pause, seconds in spendings:
        now += pause
        hour.add(Amounts(seconds), now)
        told.append((now, seconds))
        truth = sum(seconds for at, seconds in told if at > now - HOUR)
        late = sum(seconds for at, seconds in told if at > now - HOUR - 10.0)
        assert truth - 1e-6 <= hour.total(now).seconds <= late + 1e-6

    assert hour.total(now + HOUR + 10) == Amounts()


def test_the_share_can_be_asked_for_while_another_thread_spends():
    governor = Governor(Amounts(3600, ROOM, ROOM), 10.0, [POINT])
    spent = threading.Event()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def spend():
        for minute in range(3000):
            governor.charge(POINT, Amounts(0.001), 61.0 * minute, 61.0 * minute)
        spent.set()

    spender = threading.Thread(target=spend)
    spender.start()
    try:
        while not spent.is_set():
            governor.load_ratio(0.0)
            governor.periods()
    finally:
        sys.setswitchinterval(before)
        spender.join()
    assert governor.load_ratio(61.0 * 2999) == pytest.approx(60 * 0.001 / 3600.0, rel=0.05)


def reloaded(simulation, limits=None):
    """The simulation after its target was configured otherwise."""
    former = simulation.governor
    simulation.governor = Governor(limits or former.limits, simulation.interval, KEYS)
    simulation.governor.succeed(former)
    return simulation


PRICES = {POINT: 0.05, SCAN: 4.0, COLD: 9.0, INSERT: 0.4}


def test_a_target_that_is_changed_over_and_over_keeps_its_budget_and_its_rhythm():
    """Else each reload would give it a fresh hour."""
    limits = Amounts(36.0, ROOM, ROOM)
    storm, calm = (Simulation(limits, lambda key: Amounts(PRICES[key])) for _ in range(2))
    for _ in range(360):
        reloaded(storm.run(1 / 120))
    calm.run(3)
    assert storm.worst_hour(0) <= limits.seconds
    assert storm.counts() == calm.counts()


def test_who_forgets_what_was_spent_exceeds_the_budget():
    """The test above can fail."""
    limits = Amounts(36.0, ROOM, ROOM)
    storm = Simulation(limits, lambda key: Amounts(PRICES[key]))
    for _ in range(60):
        storm.run(1 / 120)
        storm.governor = Governor(limits, storm.interval, KEYS)
    assert storm.worst_hour(0) > 2 * limits.seconds


def test_another_budget_counts_from_the_change_on():
    narrow, wide = Amounts(36.0, ROOM, ROOM), Amounts(3600.0, ROOM, ROOM)
    simulation = Simulation(narrow, lambda key: Amounts(PRICES[key])).run(2)
    reloaded(simulation, wide)
    changed = simulation.now
    counts = simulation.run(0.1).counts(since=changed)
    # All of them take more than an interval, so there is a round in every other one.
    assert min(counts[key] for key in KEYS) >= 15, "nothing waits for a turn that was given under the old budget"
    reloaded(simulation, narrow)
    changed = simulation.now
    assert not simulation.run(0.5).counts(since=changed), "the last hour holds more than that already"


def test_operations_that_come_and_go_are_none_of_the_others_business():
    former = Governor(Amounts(36.0, ROOM, ROOM), 10.0, [POINT, SCAN])
    former.charge(SCAN, Amounts(20.0), 0.0, 20.0)
    governor = Governor(Amounts(36.0, ROOM, ROOM), 10.0, [POINT, COLD])
    governor.succeed(former)
    assert governor.used(20.0)["time"] == pytest.approx(20 / 36)
    assert governor.refuses(COLD, 20.0) is None
    former.charge(POINT, Amounts(3600.0), 20.0, 3620.0)
    assert governor.used(20.0)["time"] == pytest.approx(20 / 36), "a call that hangs where nobody waits for it"
