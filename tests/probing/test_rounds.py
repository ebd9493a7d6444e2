"""What is said about a target, call by call, with the scripted engine behind it."""

import random

import pytest

from exporter.config.schema import BudgetSettings, PairSettings, Settings
from exporter.domain.clock import FakeClock
from exporter.domain.errors import Reason
from exporter.domain.model import Operation, Phase
from exporter.engines.fake.settings import Fault, Side, Target
from exporter.probing.messages import CollectorDone, SnapshotDone, TargetFailed, TargetReached, TickDone, ToParent
from exporter.probing.rounds import Rounds
from exporter.probing.turnstile import Turnstile


class Said:
    """The rounds of one scripted target and every message that left them."""

    def __init__(self, folder, **target):
        made = Target(**{"name": "orders", "real_time": False, **target})
        self.clock = FakeClock()
        self.messages: list[ToParent] = []
        settings = Settings(state_directory=folder, targets=(made,))
        self.rounds = Rounds(
            settings, made, Turnstile(), self.messages.append, self.clock, random.Random(1), lambda _at: None
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


def test_a_refused_secret_is_not_tried_again_within_the_hour(said):
    orders = said(faults=(Fault(kind="error", call="open", reason=Reason.AUTH),))
    for _ in range(300):
        orders.rounds.canary()
        orders.clock.advance(10.0)

    assert len(orders.of(TargetFailed)) == 1
    assert orders.rounds.take_skipped() == {"back_off": 299}


def test_what_the_budget_refuses_is_counted_for_each_operation(said):
    orders = said(budgets=BudgetSettings(time_share_ratio=0.01))
    orders.rounds.budget.spend(3600.0, orders.clock.monotonic())
    orders.rounds.canary()

    assert orders.of(TickDone) == []
    assert orders.rounds.take_skipped() == {"budget": 2}
    assert orders.of(CollectorDone)[0].reason is None


def test_a_lost_session_is_one_error_and_a_new_session_next_time(said):
    orders = said(faults=(Fault(kind="error", call="run", reason=Reason.CONNECT, first=40, last=40),))
    for _ in range(6):
        orders.rounds.canary()

    assert [(message.reason, message.connecting) for message in orders.of(TargetFailed)] == [(Reason.CONNECT, False)]
    assert [message.connects for message in orders.of(TargetReached)] == [1, 2, 1, 2]


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
