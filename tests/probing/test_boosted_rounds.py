"""Ticks grow while that is wanted and allowed, with the embedded engine and with the scripted one."""

import random
from functools import partial

import pytest

from exporter.config.schema import BudgetSettings, IntervalSettings, Settings
from exporter.domain.clock import FakeClock
from exporter.domain.model import Operation, Variant
from exporter.engines.fake.engine import Engine as FakeEngine
from exporter.engines.fake.engine import Session as FakeSession
from exporter.engines.fake.settings import Activity, Fault, Side
from exporter.engines.fake.settings import Target as Scripted
from exporter.engines.sqlite.settings import Pair
from exporter.engines.sqlite.settings import Target as Embedded
from exporter.probing.boost import HOST_BUSY, HOUR_FULL
from exporter.probing.lane import Lane
from exporter.probing.messages import CANARY, BoostedNow, BudgetsUsed, CollectorDone, TickDone, ToParent
from exporter.probing.rounds import Rounds
from exporter.probing.turnstile import Turnstile
from tests import processes

until = partial(processes.until, patience=100.0)


class SlowSession(FakeSession):
    """Its queries take their time on the clock of the test."""

    clock: FakeClock

    def run(self, *arguments):
        execution = super().run(*arguments)
        self.clock.advance(execution.duration)
        return execution


class SlowEngine(FakeEngine):
    def __init__(self, target, clock):
        super().__init__(target)
        self._clock = clock

    def open(self, timeout):
        super().open(timeout)
        session = SlowSession(self._target, self._life)
        session.clock = self._clock
        return session


class Orders:
    """The rounds of one target, ten seconds from one to the next on the clock of the test."""

    def __init__(self, folder, target):
        self.clock = FakeClock()
        self.messages: list[ToParent] = []
        self.target = target.resolved(folder)
        settings = Settings(state_directory=folder, targets=(self.target,))
        engine = SlowEngine(self.target, self.clock) if isinstance(target, Scripted) else None
        self.rounds = Rounds(
            settings, self.target, Turnstile(), self.messages.append, self.clock, random.Random(1), engine=engine
        )
        self.boost = self.rounds.allowance.boost
        self.point = (target.pairs[0].name, Operation.POINT_SELECT)

    def of(self, kind):
        return [message for message in self.messages if isinstance(message, kind)]

    def round(self):
        begun = self.clock.monotonic()
        self.rounds.canary()
        self.clock.advance(max(0.0, begun + 10.0 - self.clock.monotonic()))

    def tick(self):
        """The newest point select."""
        return next(message.tick for message in reversed(self.of(TickDone)) if message.tick.operation == self.point[1])

    def samples(self):
        """Of the newest point select, of each twin."""
        tick = self.tick()
        assert len(tick.encrypted.samples) == len(tick.plain.samples)
        return len(tick.plain.samples)


@pytest.fixture
def orders(tmp_path):
    made = []

    def make(target=None, **scripted):
        made.append(Orders(tmp_path, target or Scripted(name="orders", real_time=False, **scripted)))
        return made[-1]

    yield make
    for each in made:
        each.rounds.close()


def test_ticks_of_the_embedded_engine_grow_to_150_samples_and_go_back(orders):
    operations = (Operation.POINT_SELECT, Operation.FULL_SCAN)
    embedded = orders(
        Embedded(name="embedded", pairs=(Pair(name="phonebook", rows=3000),), operations=operations, standbys=())
    )
    embedded.rounds.begin(snapshot=False)
    embedded.round()
    assert embedded.samples() == 20

    embedded.boost.want({embedded.point, ("phonebook", Operation.FULL_SCAN)})
    embedded.round()
    assert embedded.samples() == 150
    tick = embedded.tick()
    assert tick.dropped is None
    assert tick.encrypted.failures == tick.plain.failures == ()
    positions = sorted(sample.position for variant in Variant for sample in tick.burst(variant).samples)
    assert positions == list(range(300))
    scans = [message.tick for message in embedded.of(TickDone) if message.tick.operation == "full_scan"]
    assert [len(scan.plain.samples) for scan in scans] == [1, 1]

    embedded.boost.want(())
    embedded.round()
    assert embedded.samples() == 20
    assert embedded.of(BoostedNow) == [
        BoostedNow("embedded", keys) for keys in (frozenset(), frozenset({embedded.point}), frozenset())
    ]


def test_the_ordinary_budget_pays_as_ever_and_the_boost_pays_for_the_rest(orders):
    slow = Side(encrypted=True, latency=0.001, spread=0.0, decrypts=10)
    target = orders(a=slow, b=slow.model_copy(update={"encrypted": False}))
    target.round()
    target.round()
    before = target.of(BudgetsUsed)[-1]
    target.boost.want({target.point})
    target.round()

    used = target.of(BudgetsUsed)[-1]
    # Twenty pairs of queries and a discarded one, and the scans; then 130 pairs, each of a millisecond.
    assert (used.used["time"] - before.used["time"]) * 36 == pytest.approx(0.044)
    assert used.used["boost_time"] * 72 == pytest.approx(0.260)
    assert used.bytes_read == (44 + 260) * 10 * 8192
    load = target.rounds.allowance.load_ratio(target.clock.monotonic()) * 3600
    assert load == pytest.approx(used.used["time"] * 36 + 0.260)


def test_a_boosted_tick_ends_when_its_queries_become_slow_and_no_hour_holds_more_than_its_limit(orders):
    slow = Side(encrypted=True, latency=0.05, spread=0.0)
    budgets = BudgetSettings(time_share_ratio=0.5)
    target = orders(
        a=slow, b=slow.model_copy(update={"encrypted": False}), operations=("point_select",), budgets=budgets
    )
    target.boost.want({target.point})
    sizes, shares = set(), []
    for _ in range(3 * 360):
        target.round()
        sizes.add(target.samples())
        shares.append(target.of(BudgetsUsed)[-1].used["boost_time"])

    # A quarter of the interval are 25 pairs of a tenth of a second, and one that was begun in time.
    assert {20} < sizes <= {20, 45, 46}
    assert 0.9 < max(shares) <= 1.0
    assert HOUR_FULL in {message.refused for message in target.of(BoostedNow)}


def test_a_busy_database_refuses_and_says_so(orders):
    target = orders(activity=Activity(host_cpu_ratio=0.97))
    target.round()
    target.boost.want({target.point})
    target.rounds.activity()
    target.round()
    target.round()
    assert target.samples() == 20
    assert target.of(BoostedNow) == [
        BoostedNow("orders", frozenset()),
        BoostedNow("orders", frozenset(), HOST_BUSY),
    ]

    # Its activity is not read any more, and forgotten after two intervals.
    target.round()
    target.round()
    assert target.samples() == 150
    assert target.of(BoostedNow)[-1] == BoostedNow("orders", frozenset({target.point}))


def test_a_failure_among_the_extra_samples_ends_the_tick_evenly(orders):
    # The first round takes 6 queries to warm up, 2 to discard and 40 samples; the second one 42, and then the extra ones.
    target = orders(operations=("point_select",), faults=(Fault(kind="error", first=150, last=150),))
    target.round()
    target.boost.want({target.point})
    target.round()
    assert 20 < target.samples() < 150
    target.round()
    assert target.samples() == 150


def test_without_a_session_nothing_is_boosted(orders):
    lost = Fault(kind="error", call="run", reason="connect", first=700, last=710)
    target = orders(faults=(lost, Fault(kind="error", call="open", reason="connect", first=2)))
    target.boost.want({target.point})
    for _ in range(5):
        target.round()

    assert target.of(CollectorDone)[-1].reason == "connect"
    assert [bool(message.keys) for message in target.of(BoostedNow)] == [True, False]


def test_what_a_thinned_operation_gets_is_told_without_flicker(orders):
    slow = Side(encrypted=True, latency=0.02, spread=0.0)
    budgets = BudgetSettings(time_share_ratio=0.02, boost_time_share_ratio=0.2)
    target = orders(
        a=slow, b=slow.model_copy(update={"encrypted": False}), operations=("point_select",), budgets=budgets
    )
    for _ in range(5):
        target.round()
    assert target.of(BudgetsUsed)[-1].periods[target.point] > 10.0
    target.boost.want({target.point})
    for _ in range(30):
        target.round()

    assert [bool(message.keys) for message in target.of(BoostedNow)] == [False, True]


def test_a_lane_that_gave_a_call_up_says_that_nothing_is_boosted_meanwhile(tmp_path):
    clock = FakeClock()
    messages: list[ToParent] = []
    wedge = Fault(kind="wedge", call="run", first=1000)
    target = Scripted(name="orders", real_time=False, faults=(wedge,), intervals=IntervalSettings(canary=1.0))
    settings = Settings(state_directory=tmp_path, targets=(target,))
    lane = Lane(settings, target, Turnstile(), messages.append, clock, snapshot=False)

    def told():
        return [message.keys for message in messages if isinstance(message, BoostedNow)]

    def later(done):
        clock.advance(1.0)
        lane.offer(CANARY)
        return done()

    point = ("scripted", Operation.POINT_SELECT)
    lane.start()
    try:
        lane.want_boost({point})
        until(lambda: later(lambda: frozenset({point}) in told()), "a boosted round")
        until(lambda: later(lane.abandon_if_stuck), "a call that is given up")
    finally:
        lane.stop()
    assert messages[-1] == BoostedNow("orders", frozenset())
