"""The watchdog cancels what lasts too long, again and again, and never what comes after."""

import gc
import threading
import time

import apsw
import pytest

from exporter.engines.deadline import Guard
from tests.stopwatch import Stopwatch

PATIENCE = 50.0
ENDLESS = "WITH RECURSIVE n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT count(*) FROM n"


def test_an_endless_statement_is_cancelled_and_the_connection_lives_on():
    connection = apsw.Connection(":memory:")
    guard = Guard(connection.interrupt)
    watch = Stopwatch()
    with pytest.raises(apsw.InterruptError), guard.limit(0.1):
        connection.execute(ENDLESS)

    assert watch.passed >= 0.1
    assert watch.seconds < 0.1 + 5 * 0.1
    assert guard.fired
    assert connection.execute("SELECT 1").get == 1


def test_it_cancels_again_while_the_limit_stays_expired():
    calls = threading.Semaphore(0)
    guard = Guard(calls.release)
    with guard.limit(0.0):
        for _ in range(3):
            assert calls.acquire(timeout=PATIENCE)


def test_what_ends_in_time_is_not_cancelled():
    cancelled, probe = [], threading.Event()
    guard = Guard(lambda: cancelled.append(1))
    with guard.limit(30.0):
        assert not guard.expired
        assert 0 < guard.remaining <= 30.0
    # A second guard that fires proves that the watchdog went round since.
    other = Guard(probe.set)
    with other.limit(0.0):
        assert probe.wait(PATIENCE)

    assert not guard.fired
    assert not cancelled


def test_nothing_is_cancelled_after_the_limit_was_left():
    calls, seen = [], threading.Event()

    def cancel():
        calls.append(1)
        seen.set()

    guard = Guard(cancel)
    with guard.limit(0.0):
        assert seen.wait(PATIENCE)
    after = len(calls)
    probe = threading.Semaphore(0)
    other = Guard(probe.release)
    with other.limit(0.0):
        for _ in range(3):
            assert probe.acquire(timeout=PATIENCE)

    assert len(calls) == after


def test_leaving_waits_for_a_cancellation_under_way():
    entered, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def slow_cancel():
        entered.set()
        may_end.wait(PATIENCE)
        ended.set()

    guard = Guard(slow_cancel)
    with guard.limit(0.0):
        assert entered.wait(PATIENCE)
        threading.Timer(0.05, may_end.set).start()

    assert ended.is_set()


def test_work_that_ends_too_late_by_itself_is_late():
    guard = Guard(lambda: None)
    fired = []
    for seconds in (0.0, 30.0):
        with guard.limit(seconds):
            pass
        fired.append(guard.fired)

    assert fired == [True, False]


def test_a_failing_cancel_does_not_stop_the_watchdog():
    failed, probe = threading.Event(), threading.Event()

    def fail():
        failed.set()
        raise RuntimeError

    guard, other = Guard(fail), Guard(probe.set)
    with guard.limit(0.0):
        assert failed.wait(PATIENCE)
    with other.limit(0.0):
        assert probe.wait(PATIENCE)


def test_forgotten_guards_are_not_kept_alive():
    ended = threading.Event()

    class Owner:
        def __init__(self):
            self.guard = Guard(self.cancel)

        def cancel(self):
            pass

        def __del__(self):
            ended.set()

    Owner()
    deadline = time.monotonic() + PATIENCE
    while not ended.is_set() and time.monotonic() < deadline:
        gc.collect()
        ended.wait(0.02)

    assert ended.is_set()
