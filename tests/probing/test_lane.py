"""A lane and calls that never end: what is said, what is held, and how often that may happen."""

import fcntl
import threading
from functools import partial

import pytest

from exporter.config.schema import BudgetSettings, IntervalSettings, Settings
from exporter.domain.clock import FakeClock
from exporter.domain.errors import Reason
from exporter.domain.model import Operation
from exporter.engines.fake.settings import Fault
from exporter.engines.fake.settings import Target as Scripted
from exporter.engines.sqlite.settings import Pair
from exporter.engines.sqlite.settings import Target as Embedded
from exporter.probing.lane import DEFECT_SECONDS, FIRST_REST, LONGEST_REST, Lane
from exporter.probing.messages import (
    ABANDONED,
    CANARY,
    ENCRYPTION_STATE,
    Building,
    CollectorDone,
    TargetReached,
    TickDone,
    ToParent,
)
from exporter.probing.process import reason_to_end
from exporter.probing.turnstile import Turnstile
from tests import processes

AN_HOUR_AND_MORE = 4000.0
"""Longer than any deadline of a call."""


class Tried:
    """One lane on a clock that the test moves."""

    def __init__(self, folder, target):
        self.clock = FakeClock()
        self.messages: list[ToParent] = []
        settings = Settings(state_directory=folder, targets=(target.resolved(folder),))
        self.lane = Lane(settings, settings.targets[0], Turnstile(), self.messages.append, self.clock, snapshot=False)

    def of(self, kind):
        return [message for message in self.messages if isinstance(message, kind)]

    def abandoned(self):
        """Wait until a call hangs and is given up."""
        until(self._later, "an abandoned call")

    def _later(self):
        self.clock.advance(1.0)
        return self.lane.abandon_if_stuck()


until = partial(processes.until, patience=100.0)


@pytest.fixture
def tried(tmp_path):
    made = []

    def make(target):
        made.append(Tried(tmp_path, target))
        return made[-1]

    yield make
    for each in made:
        each.lane.stop()


def wedged(call):
    return Scripted(name="orders", real_time=False, faults=(Fault(kind="wedge", call=call),))


def test_a_call_that_never_ends_is_said_like_any_other_failure(tried):
    """Otherwise a target that never answers would never be known to be down, and the first pass never be done."""
    orders = tried(wedged("open"))
    orders.lane.start()
    orders.clock.advance(5.0)
    assert not orders.lane.abandon_if_stuck()
    orders.abandoned()

    (done,) = orders.of(CollectorDone)
    assert (done.collector, done.reason) == (ENCRYPTION_STATE, Reason.TIMEOUT)
    assert done.seconds > 5.0


def test_an_error_that_nobody_foresaw_is_said_like_any_other_failure_and_logged_once_a_minute(tried, caplog):
    orders = tried(Scripted(name="orders", real_time=False, faults=(Fault(kind="defect", call="open"),)))
    orders.lane.start()

    def told(times: int) -> bool:
        return len(orders.of(CollectorDone)) == times

    until(lambda: orders.of(CollectorDone), "the defect")
    for runs in range(2, 5):
        orders.lane.offer(ENCRYPTION_STATE)
        until(partial(told, runs), "the next one")
    said = orders.of(CollectorDone)
    assert {(done.collector, done.reason) for done in said} == {(ENCRYPTION_STATE, Reason.QUERY)}
    assert all("ZeroDivisionError" in done.words for done in said)
    # Of the first pass, and of the work that came again and again.
    assert [record.exc_info is not None for record in caplog.records] == [True, True]

    orders.clock.advance(DEFECT_SECONDS)
    orders.lane.offer(ENCRYPTION_STATE)
    until(lambda: len(caplog.records) == 3, "it to be logged once more")


def test_a_target_that_hangs_again_and_again_rests_ever_longer(tried):
    orders = tried(wedged("open"))
    orders.lane.start()
    rests = []
    for _ in range(9):
        orders.abandoned()
        given_up = orders.clock.monotonic()
        orders.lane.skipped()
        orders.lane.offer(ENCRYPTION_STATE)
        while orders.lane.skipped()[ABANDONED]:
            orders.clock.advance(1.0)
            orders.lane.abandon_if_stuck()
            orders.lane.offer(ENCRYPTION_STATE)
        rests.append(orders.clock.monotonic() - given_up)

    assert rests[0] == 0.0
    assert rests[1] == pytest.approx(FIRST_REST, abs=2.0)
    assert rests[2] == pytest.approx(2 * FIRST_REST, abs=2.0)
    assert rests[5:7] == pytest.approx([LONGEST_REST] * 2, abs=2.0)
    assert orders.lane.hanging() == 9


def test_what_happened_an_hour_ago_is_forgotten(tried):
    orders = tried(wedged("open"))
    orders.lane.start()
    for _ in range(3):
        orders.abandoned()
        orders.clock.advance(AN_HOUR_AND_MORE)
        orders.lane.abandon_if_stuck()
        orders.lane.skipped()
        orders.lane.offer(ENCRYPTION_STATE)
        assert not orders.lane.skipped()[ABANDONED]


def test_the_target_is_measured_again_after_a_single_hang(tried):
    quick = IntervalSettings(canary=1.0)
    fault = Fault(kind="wedge", call="run", last=1)
    orders = tried(Scripted(name="orders", real_time=False, intervals=quick, faults=(fault,)))
    orders.lane.start()
    until(lambda: orders.of(CollectorDone), "the first pass")
    orders.lane.offer(CANARY)
    orders.abandoned()
    orders.lane.offer(CANARY)

    until(lambda: orders.clock.advance(0.1) or orders.of(TickDone), "a tick of the successor")
    assert orders.lane.hanging() == 1


def test_the_successor_of_a_thread_that_was_given_up_works_with_the_same_engine(tried):
    """The engine knows which secret the server refused; another one would send it again."""
    orders = tried(wedged("open"))
    orders.lane.start()
    first = orders.lane._worker.rounds
    orders.abandoned()
    second = orders.lane._worker.rounds

    assert second is not first
    assert second._engine is first._engine


def test_sessions_of_a_call_that_never_ends_stay_counted_and_end_the_process_after_an_hour(tried):
    fault = Fault(kind="wedge", call="run", last=1)
    target = Scripted(name="orders", real_time=False, faults=(fault,), budgets=BudgetSettings(sessions=3))
    orders = tried(target)
    orders.lane.start()
    until(lambda: orders.of(CollectorDone), "the first pass")
    assert not orders.lane.out_of_sessions()
    orders.lane.offer(CANARY)
    orders.abandoned()
    orders.lane.offer(CANARY)

    until(
        lambda: orders.clock.advance(0.1) or orders.of(CollectorDone)[-1].reason is Reason.BLOCKED,
        "words about sessions",
    )
    assert sum(message.connects for message in orders.of(TargetReached)) == 3
    lanes = {"orders": orders.lane}
    assert reason_to_end(lanes, 3599.0) == ""
    assert "budgets.sessions allows on orders" in reason_to_end(lanes, 3600.0)
    assert reason_to_end({}, 3600.0) == ""


def test_an_abandoned_call_that_ends_after_all_lets_go_of_its_session(tried, tmp_path):
    """A lock that it kept would shut out its own successor."""
    target = Embedded(
        name="embedded", pairs=(Pair(name="phonebook", rows=20_000),), operations=(Operation.INSERT_BATCH,)
    )
    embedded = tried(target)
    embedded.lane.start()
    until(lambda: embedded.of(Building), "twins that are being built")
    assert not free(tmp_path / "targets/embedded/lock")
    embedded.clock.advance(AN_HOUR_AND_MORE)
    assert embedded.lane.abandon_if_stuck()

    until(lambda: not embedded.lane.hanging(), "the end of the abandoned thread")
    assert free(tmp_path / "targets/embedded/lock")
    said = len(embedded.messages)
    embedded.lane.offer(ENCRYPTION_STATE)
    until(lambda: len(embedded.of(CollectorDone)) == 2, "the successor's pass")
    assert embedded.of(CollectorDone)[1].reason is None
    assert said < len(embedded.messages)


def free(lock):
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_threads_end_with_the_lane(tried):
    before = threading.active_count()
    orders = tried(Scripted(name="orders", real_time=False))
    orders.lane.start()
    until(lambda: orders.of(CollectorDone), "the first pass")
    orders.lane.stop()

    assert orders.lane.join(30.0)
    assert threading.active_count() <= before
