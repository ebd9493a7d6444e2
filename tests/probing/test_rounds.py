"""What is said about a target, call by call, with the scripted engine behind it."""

import random
from collections import Counter
from itertools import pairwise

import pytest

from exporter.config.schema import BudgetSettings, IntervalSettings, PairSettings, Settings
from exporter.domain.clock import FakeClock
from exporter.domain.errors import Reason
from exporter.domain.model import Operation, Phase, TargetFacts
from exporter.domain.states import ScratchLock
from exporter.engines.fake.engine import Engine as FakeEngine
from exporter.engines.fake.engine import Session as FakeSession
from exporter.engines.fake.settings import Fault, Side, Standby, Target
from exporter.probing.budget import Amounts
from exporter.probing.messages import (
    BudgetsUsed,
    CollectorDone,
    LockSeen,
    PairChecked,
    SnapshotDone,
    StandbysRead,
    TargetFailed,
    TargetReached,
    TickDone,
    ToParent,
    collector_intervals,
)
from exporter.probing.rounds import Rounds
from exporter.probing.turnstile import Turnstile


class TimedSession(FakeSession):
    """A session of the scripted engine, whose queries take their time on the clock of the test."""

    clock: FakeClock

    def run(self, *arguments):
        execution = super().run(*arguments)
        self.clock.advance(execution.duration)
        return execution


class TimedEngine(FakeEngine):
    def __init__(self, target, clock):
        super().__init__(target)
        self._clock = clock

    def open(self, timeout):
        session = TimedSession(self._target, self._life)
        session.clock = self._clock
        return session


class Crowded(Turnstile):
    def __init__(self, clock, queue):
        super().__init__()
        self._clock, self._queue = clock, queue

    def bout(self):
        self._clock.advance(self._queue)
        return super().bout()


class Said:
    """The rounds of one scripted target and every message that left them."""

    def __init__(self, folder, timed=False, engine_type=None, queue=0.0, **target):
        """`timed`: queries take their time on the clock of the test. `engine_type` stands in for the scripted engine. Before
        each tick of short queries `queue` seconds pass, in which others are measured."""
        made = Target(**{"name": "orders", "real_time": False, **target})
        self.clock = FakeClock()
        self.messages: list[ToParent] = []
        settings = Settings(state_directory=folder, targets=(made,))
        kind = TimedEngine if timed else engine_type
        self.engine = kind(made, self.clock) if kind else None
        turnstile = Crowded(self.clock, queue) if queue else Turnstile()
        self.rounds = Rounds(
            settings, made, turnstile, self.messages.append, self.clock, random.Random(1), engine=self.engine
        )

    def of(self, kind):
        return [message for message in self.messages if isinstance(message, kind)]


@pytest.fixture
def said(tmp_path):
    def make(**target):
        return Said(tmp_path, **target)

    return make


def test_connections_of_the_twins_are_counted_with_those_of_the_target(said):
    orders = said()
    orders.rounds.canary()
    orders.rounds.canary()

    assert [message.connects for message in orders.of(TargetReached)] == [1, 2]


def test_a_round_measures_every_operation_and_says_when_it_ended(said):
    orders = said()
    orders.rounds.canary()

    assert sorted(message.tick.operation for message in orders.of(TickDone)) == ["full_scan", "point_select"]
    (done,) = orders.of(CollectorDone)
    assert (done.collector, done.reason) == ("canary", None)


def test_after_three_failures_in_a_row_runs_wait_and_are_counted(said):
    orders = said(faults=(Fault(kind="error", call="open", reason=Reason.CONNECT),))
    for _ in range(10):
        orders.rounds.canary()
        orders.clock.advance(10.0)

    failed = orders.of(TargetFailed)
    assert 4 <= len(failed) < 10
    assert all(message.connecting for message in failed)
    assert orders.rounds.take_skipped() == {"back_off": 10 - len(failed)}
    assert not orders.rounds.take_skipped()


def test_a_refused_secret_keeps_nobody_from_asking_again_and_resumes_at_once(said):
    orders = said(faults=(Fault(kind="error", call="open", reason=Reason.AUTH, last=50),))
    for _ in range(60):
        orders.rounds.canary()

    assert [message.reason for message in orders.of(TargetFailed)] == [Reason.AUTH] * 50
    assert not orders.rounds.take_skipped()
    assert len(orders.of(TickDone)) == 10 * 2


def test_what_the_budget_refuses_is_counted_for_each_operation(said):
    orders = said(budgets=BudgetSettings(time_share_ratio=0.01))
    orders.rounds.allowance.governor.charge(None, Amounts(36.0), 0.0, orders.clock.monotonic())
    orders.rounds.canary()

    assert orders.of(TickDone) == []
    assert orders.rounds.take_skipped() == {"budget": 2}
    assert orders.of(CollectorDone)[0].reason is None
    assert orders.of(BudgetsUsed)[0].used["time"] == 1.0


SLOW = {"a": Side(encrypted=True, latency=0.1, decrypts=10), "b": Side(encrypted=False, latency=0.1)}


@pytest.mark.parametrize(
    ("ratio", "low", "high"),
    # A tick of 42 queries takes more than the 3.6 s of the second case: it runs alone in its hour, warm-ups apart.
    [(0.01, 0.008, 0.01), (0.001, 0.0, 5.4 / 3600)],
)
def test_queries_of_a_tenth_of_a_second_never_take_more_than_their_share_of_any_hour(said, ratio, low, high):
    orders = said(**SLOW, timed=True, budgets=BudgetSettings(time_share_ratio=ratio))
    loads = []
    for _ in range(6 * 360):
        begun = orders.clock.monotonic()
        orders.rounds.canary()
        loads.append(orders.rounds.allowance.governor.load_ratio(orders.clock.monotonic()))
        orders.clock.advance(max(0.0, begun + 10.0 - orders.clock.monotonic()))

    assert max(loads) <= high
    assert max(loads[720:]) > low
    assert {message.tick.operation for message in orders.of(TickDone)} == {"full_scan", "point_select"}


def test_what_a_tick_waits_for_those_of_other_targets_is_not_charged(said):
    crowded, alone = said(**SLOW, timed=True, queue=60.0), said(**SLOW, timed=True)
    for orders in (crowded, alone):
        orders.rounds.canary()
    used = [orders.of(BudgetsUsed)[-1].used["time"] for orders in (crowded, alone)]

    assert used[0] == pytest.approx(used[1], rel=0.01)
    assert crowded.clock.monotonic() - alone.clock.monotonic() == pytest.approx(60.0, rel=0.01)


def test_a_tenth_of_the_budget_is_a_tenth_of_the_load(said):
    def load(ratio):
        orders = said(
            a=Side(encrypted=True, latency=0.004), b=Side(encrypted=False, latency=0.004), timed=True,
            budgets=BudgetSettings(time_share_ratio=ratio),
        )  # fmt: skip
        for _ in range(4 * 360):
            begun = orders.clock.monotonic()
            orders.rounds.canary()
            orders.clock.advance(begun + 10.0 - orders.clock.monotonic())
        return orders.rounds.allowance.governor.load_ratio(orders.clock.monotonic())

    assert load(0.01) == pytest.approx(0.01, rel=0.05)
    assert load(0.001) == pytest.approx(0.001, rel=0.1)


def test_both_twins_are_thinned_alike(said):
    orders = said(**SLOW, timed=True)
    for _ in range(720):
        orders.rounds.canary()
        orders.clock.advance(10.0)

    ticks = [message.tick for message in orders.of(TickDone)]
    assert 0 < len(ticks) < 1440
    assert all(len(tick.encrypted.samples) == len(tick.plain.samples) for tick in ticks)
    assert orders.rounds.take_skipped()["budget"] == 1440 - len(ticks)


def test_bytes_are_charged_with_those_of_discarded_queries(said):
    orders = said()
    orders.rounds.canary()
    first, second = (orders.rounds.canary() or orders.of(BudgetsUsed)[-1] for _ in range(2))

    # Twenty samples and a discarded one for each twin, and one scan of each: 44 queries of ten blocks.
    assert first.bytes_read == second.bytes_read == 44 * 10 * 8192
    assert first.bytes_written == 0
    assert orders.of(BudgetsUsed)[0].bytes_read > first.bytes_read
    assert second.used["bytes_read"] == pytest.approx(
        sum(message.bytes_read for message in orders.of(BudgetsUsed)) / (24 * 2**30)
    )


def test_the_budget_of_reading_is_kept_over_any_hour(said):
    limit = 200 * 2**20
    orders = said(budgets=BudgetSettings(bytes_read_per_hour=limit))
    for _ in range(1080):
        orders.rounds.canary()
        orders.clock.advance(10.0)

    used = [message.used["bytes_read"] for message in orders.of(BudgetsUsed)]
    assert 0.9 < max(used[360:]) <= 1.0
    ran = Counter(message.tick.operation for message in orders.of(TickDone))
    # All point selects would read 1.2 GiB in an hour; scans read next to nothing and are not thinned.
    assert ran["full_scan"] == 1080
    assert 3 * 40 <= ran["point_select"] <= 3 * 46


def test_a_pair_for_which_no_sessions_are_left_is_not_measured_and_says_so(said):
    pairs = (PairSettings(name="one"), PairSettings(name="two"))
    orders = said(pairs=pairs, budgets=BudgetSettings(sessions=4))
    for _ in range(3):
        orders.rounds.canary()

    assert {message.tick.pair for message in orders.of(TickDone)} == {"one"}
    assert sum(message.connects for message in orders.of(TargetReached)) == 3
    assert [(failed.reason, failed.connecting) for failed in orders.of(TargetFailed)] == [(Reason.BLOCKED, False)] * 3
    assert "pair two" in orders.of(TargetFailed)[0].words
    assert "budgets.sessions" in orders.of(TargetFailed)[0].words
    assert orders.of(BudgetsUsed)[-1].used["sessions"] == 0.75


def test_sessions_are_given_back_when_they_are_closed(said):
    orders = said(
        faults=(Fault(kind="error", call="run", reason=Reason.CONNECT, first=40, last=40),),
        budgets=BudgetSettings(sessions=3),
    )
    for _ in range(6):
        orders.rounds.canary()

    assert [message.connects for message in orders.of(TargetReached)] == [1, 2, 1, 2]
    orders.rounds.close()
    assert orders.rounds.allowance.sessions.open == 0


def test_a_lost_session_is_one_error_and_a_new_session_next_time(said):
    orders = said(faults=(Fault(kind="error", call="run", reason=Reason.CONNECT, first=40, last=40),))
    for _ in range(6):
        orders.rounds.canary()

    assert [(message.reason, message.connecting) for message in orders.of(TargetFailed)] == [(Reason.CONNECT, False)]
    assert [message.connects for message in orders.of(TargetReached)] == [1, 2, 1, 2]


def test_a_collector_that_ran_into_its_deadline_gives_the_session_up_and_the_back_off_takes_over(said):
    silent = Fault(kind="error", call="activity", reason=Reason.TIMEOUT)
    orders = said(faults=(silent, Fault(kind="error", call="open", reason=Reason.TIMEOUT, first=2)))
    orders.rounds.encryption_state()
    for _ in range(6):
        orders.rounds.activity()

    failed = [(message.reason, message.connecting) for message in orders.of(TargetFailed)]
    assert failed == [(Reason.TIMEOUT, False)] + [(Reason.TIMEOUT, True)] * 4
    assert orders.rounds.take_skipped()["back_off"] == 1
    assert orders.rounds.allowance.sessions.open == 0


def test_the_first_pass_ends_with_a_snapshot_if_asked_to(said):
    orders = said()
    orders.rounds.begin(snapshot=True)

    (done,) = orders.of(SnapshotDone)
    assert {tick.operation for tick in done.snapshot.ticks} == {"full_scan", "point_select"}
    assert done.snapshot.failures == ()
    quiet = said()
    quiet.rounds.begin(snapshot=False)
    assert quiet.of(SnapshotDone) == []


def test_an_invalid_pair_is_named_in_the_snapshot_and_not_measured(said):
    orders = said(b=Side(encrypted=True), pairs=(PairSettings(name="scripted", phase=Phase.ENABLED),))
    orders.rounds.begin(snapshot=True)

    (done,) = orders.of(SnapshotDone)
    assert done.snapshot.ticks == ()
    assert {words for _, _, words in done.snapshot.failures} == {
        "one twin must be encrypted and the other plain, but both are encrypted"
    }


def test_what_a_tick_failed_of_is_said_in_words_and_over_when_it_succeeds(said):
    """A reason alone tells nobody what to do."""
    orders = said(faults=(Fault(kind="error", reason=Reason.BLOCKED, last=200),))
    orders.rounds.canary()
    failed = orders.of(CollectorDone)[-1]
    assert failed.reason is None
    assert failed.words == "point_select on scripted: scripted error of run"

    for _ in range(40):
        orders.rounds.canary()
    assert orders.of(CollectorDone)[-1].words == ""


def test_a_snapshot_names_each_failed_operation_once_and_in_words(said):
    orders = said(faults=(Fault(kind="error", reason=Reason.BLOCKED),))
    orders.rounds.begin(snapshot=True)

    (done,) = orders.of(SnapshotDone)
    assert done.snapshot.failures == (
        ("scripted", Operation.POINT_SELECT, "scripted error of run"),
        ("scripted", Operation.FULL_SCAN, "scripted error of run"),
    )


def test_a_pair_that_could_not_be_built_is_not_called_missing(said):
    fault = Fault(kind="error", call="provision", reason=Reason.UNAVAILABLE)
    orders = said(b=Side(encrypted=True), faults=(fault,))
    orders.rounds.begin(snapshot=True)

    (done,) = orders.of(SnapshotDone)
    assert {words for _, _, words in done.snapshot.failures} == {"scripted error of provision"}


# -- standbys ---------------------------------------------------------------------------------------------

DR = (Standby(name="dr", heartbeat_lag=2.5),)


def beats(orders, seconds, heartbeat=1.0, standby=15.0):
    """Heartbeats and readings of standbys as the schedule makes them."""
    for number in range(int(seconds / heartbeat)):
        orders.clock.advance(heartbeat)
        orders.rounds.heartbeat()
        if number % round(standby / heartbeat) == 0:
            orders.rounds.standby()


def done(orders, collector):
    return [message for message in orders.of(CollectorDone) if message.collector == collector]


def test_collectors_of_standbys_run_only_where_there_are_some(tmp_path):
    def collectors(**target):
        made = Target(name="orders", **target)
        return set(collector_intervals(Settings(state_directory=tmp_path, targets=(made,)), made))

    assert collectors() == {"canary", "encryption_state", "activity"}
    assert collectors(standbys=DR) == {"canary", "encryption_state", "activity", "heartbeat", "standby"}


def test_standbys_are_read_and_told(said):
    orders = said(standbys=DR)
    orders.rounds.standby()

    (read,) = orders.of(StandbysRead)
    assert read.target == "orders"
    assert [dict(state.lags)["heartbeat"] for state in read.standbys] == [2.5]
    assert [message.reason for message in done(orders, "standby")] == [None]


def test_heartbeats_that_go_well_are_told_as_seldom_as_standbys_are_read(said):
    orders = said(standbys=DR)
    orders.rounds.standby()
    beats(orders, 600)

    assert 600 / 15 - 1 <= len(done(orders, "heartbeat")) <= 600 / 14 + 1
    assert all(message.reason is None for message in done(orders, "heartbeat"))
    told = [message.at for message in done(orders, "heartbeat")]
    assert max(later - earlier for earlier, later in pairwise(told)) <= 15.0 + 1e-6


@pytest.mark.parametrize("heartbeat", [0.2, 10.0, 14.0, 30.0])
def test_they_are_told_in_time_whatever_the_intervals_are(said, heartbeat):
    intervals = IntervalSettings(heartbeat=heartbeat, standby=15.0)
    orders = said(standbys=DR, intervals=intervals)
    orders.rounds.standby()
    beats(orders, 300, heartbeat, max(15.0, heartbeat))

    told = [message.at for message in done(orders, "heartbeat")]
    assert max(later - earlier for earlier, later in pairwise(told)) <= max(15.0, heartbeat) + 1e-6


def test_a_heartbeat_that_begins_to_fail_or_to_work_is_told_at_once(said):
    fault = Fault(kind="error", call="heartbeat", reason=Reason.LOCK_TIMEOUT, first=5, last=8)
    orders = said(standbys=DR, faults=(fault,))
    orders.rounds.standby()
    beats(orders, 12, standby=100.0)

    told = [(message.reason, message.at) for message in done(orders, "heartbeat")]
    begun = told[0][1]
    assert [(reason, round(at - begun)) for reason, at in told] == [
        (None, 0),
        (Reason.LOCK_TIMEOUT, 4),
        (None, 8),
    ]
    assert orders.of(TargetFailed) == []


def test_a_heartbeat_knocks_at_no_closed_door(said):
    orders = said(standbys=DR)
    orders.rounds.heartbeat()

    assert orders.messages == []
    orders.rounds.standby()
    orders.rounds.heartbeat()
    assert len(done(orders, "heartbeat")) == 1


def test_a_session_lost_in_a_heartbeat_is_opened_again_by_others(said):
    fault = Fault(kind="error", call="heartbeat", reason=Reason.CONNECT, last=1)
    orders = said(standbys=DR, faults=(fault,))
    orders.rounds.standby()
    orders.rounds.heartbeat()
    orders.rounds.heartbeat()
    orders.rounds.standby()
    orders.rounds.heartbeat()

    assert [(message.reason, message.connecting) for message in orders.of(TargetFailed)] == [(Reason.CONNECT, False)]
    assert [message.reason for message in done(orders, "heartbeat")] == [Reason.CONNECT, None]


def test_standbys_that_cannot_be_read_are_no_failure_of_the_target(said):
    orders = said(standbys=DR, faults=(Fault(kind="error", call="standbys", reason=Reason.TIMEOUT),))
    orders.rounds.standby()

    assert [message.reason for message in done(orders, "standby")] == [Reason.TIMEOUT]
    assert orders.of(TargetFailed) == []
    assert orders.of(StandbysRead) == []


def test_a_snapshot_alone_writes_no_heartbeat_and_reads_no_standby(said):
    broken = tuple(Fault(kind="error", call=call) for call in ("heartbeat", "standbys"))
    orders = said(standbys=DR, faults=broken)
    orders.rounds.connect()
    orders.rounds.snapshot()

    assert {message.collector for message in orders.of(CollectorDone)} <= {"encryption_state"}


# -- the clock that decides --------------------------------------------------------------------------------

TIMED = {
    "clock": "server",
    "a": Side(encrypted=True, latency=0.002, spread=0.0, decrypts=10, server_share=0.5),
    "b": Side(encrypted=False, latency=0.001, spread=0.0, server_share=0.25),
}


def test_a_server_that_times_its_queries_decides(said):
    orders = said(**TIMED)
    orders.rounds.canary()

    assert {message.facts.clock for message in orders.of(TargetReached)} == {"server"}
    for message in orders.of(TickDone):
        assert set(message.tick.encrypted.durations) == {0.001}
        assert set(message.tick.plain.durations) == {0.00025}
    orders.rounds.begin(snapshot=True)
    (done,) = orders.of(SnapshotDone)
    assert {duration for tick in done.snapshot.ticks for duration in tick.plain.durations} == {0.00025}


def test_a_server_that_says_it_times_them_and_does_not_yields_no_tick_for_either_side(said):
    orders = said(**TIMED | {"b": Side(encrypted=False)})
    orders.rounds.canary()

    ticks = [message.tick for message in orders.of(TickDone)]
    assert {tick.dropped for tick in ticks} == {"unavailable"}
    assert all(tick.plain.failures == (Reason.UNAVAILABLE,) for tick in ticks)
    assert "did not say how long the query took" in orders.of(CollectorDone)[-1].words


def test_times_of_two_clocks_never_meet_in_one_statistic(said):
    def epoch(**target):
        orders = said(**TIMED | target)
        orders.rounds.canary()
        return {message.tick.epoch for message in orders.of(TickDone)}

    assert epoch().isdisjoint(epoch(clock="client"))


class TurningSession(FakeSession):
    """A session of the scripted engine whose facts are those of its engine now."""

    def __init__(self, engine):
        super().__init__(engine._target, engine._life)
        self._engine = engine

    def facts(self):
        return self._engine.facts


class TurningEngine(FakeEngine):
    def __init__(self, target, clock):
        super().__init__(target)
        self.facts = TargetFacts("fake", "1", role="primary")

    def open(self, timeout):
        return TurningSession(self)


def test_facts_that_change_are_told_and_a_pair_is_verified_anew_for_another_clock(said):
    orders = said(engine_type=TurningEngine, **TIMED)
    orders.rounds.canary()
    orders.engine.facts = TargetFacts("fake", "1", role="replica", clock="server")
    orders.rounds.canary()
    orders.rounds.canary()

    told = [(message.connects, message.facts.role) for message in orders.of(TargetReached)]
    assert told == [(1, "primary"), (2, "primary"), (0, "replica")]
    assert len(orders.of(PairChecked)) == 2
    epochs = [message.tick.epoch for message in orders.of(TickDone)]
    assert len(set(epochs[:2])) == len(set(epochs[2:])) == 1
    assert epochs[0] != epochs[2]


# -- words ---------------------------------------------------------------------------------------------------


def test_what_a_collector_could_not_read_is_said_without_calling_it_a_failure(said):
    missing = (
        "reads are unknown: GRANT SELECT ON performance_schema.*",
        "CPU is unknown: thread instrumentation is off",
    )
    orders = said(activity={"decrypts": 5, "decrypt_source": "counter", "problems": missing})
    orders.rounds.activity()

    (done,) = orders.of(CollectorDone)
    assert (done.reason, done.words) == (None, "; ".join(missing))
    assert orders.of(TargetFailed) == []


def test_who_has_the_lock_is_told_when_it_changes_and_once_an_interval(said):
    orders = said(scratch_lock_held=False, scratch_lock_holder="process 7", standbys=(Standby(name="near"),))
    elsewhere = LockSeen("orders", ScratchLock(False, "process 7"))
    orders.rounds.encryption_state()
    assert orders.of(LockSeen) == [elsewhere]
    for _ in range(20):
        orders.clock.advance(1.0)
        orders.rounds.heartbeat()
    assert orders.of(LockSeen) == [elsewhere] * 3
    orders.rounds.close()
    orders.rounds.close()
    assert orders.of(LockSeen) == [elsewhere] * 3 + [LockSeen("orders", None)]


def test_where_nothing_is_written_that_is_told_once(said):
    orders = said()
    for _ in range(20):
        orders.clock.advance(10.0)
        orders.rounds.canary()
    assert orders.of(LockSeen) == [LockSeen("orders", None)]
