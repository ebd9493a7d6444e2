"""What waits in a lane, and what does not have to."""

import threading

import pytest

from exporter.config.schema import IntervalSettings, Settings
from exporter.domain.clock import SystemClock
from exporter.engines.fake.settings import Fault, Standby, Target
from exporter.probing.lane import Lane
from exporter.probing.messages import CollectorDone, StandbysRead, TickDone
from exporter.probing.turnstile import Turnstile

PATIENCE = 100.0


class Heard:
    """Every message of one lane, and a way to wait for some."""

    def __init__(self):
        self.messages = []
        self._changed = threading.Condition()

    def __call__(self, message):
        with self._changed:
            self.messages.append(message)
            self._changed.notify_all()

    def of(self, kind, collector=None):
        return [
            message
            for message in self.messages
            if isinstance(message, kind) and (collector is None or message.collector == collector)
        ]

    def until(self, condition, what):
        with self._changed:
            assert self._changed.wait_for(condition, PATIENCE), f"waited in vain for {what}"


@pytest.fixture
def made(tmp_path):
    lanes = []

    def make(**target):
        orders = Target(name="orders", real_time=False, standbys=(Standby(name="dr"),), **target)
        heard = Heard()
        settings = Settings(state_directory=tmp_path, targets=(orders,))
        lane = Lane(settings, orders, Turnstile(), heard, SystemClock(), snapshot=False)
        lanes.append(lane)
        lane.start()
        heard.until(lambda: heard.of(CollectorDone, "encryption_state"), "the first pass")
        return lane, heard

    yield make
    for lane in lanes:
        lane.stop()
        assert lane.join(PATIENCE)


def test_a_canary_that_waits_for_its_moment_holds_up_neither_heartbeats_nor_standbys(made):
    lane, heard = made(intervals=IntervalSettings(canary=3600.0))
    lane.offer("canary")
    lane.offer("canary")
    for reading in (1, 2, 3):
        lane.offer("heartbeat")
        lane.offer("standby")
        heard.until(lambda number=reading: len(heard.of(CollectorDone, "standby")) == number, "the standbys")
    assert len(heard.of(StandbysRead)) == 3

    assert heard.of(TickDone) == []
    assert heard.of(CollectorDone, "heartbeat") != []
    # The second canary was offered while the first one still waited.
    assert lane.skipped()["busy"] == 1


def test_the_canary_runs_when_its_moment_has_come(made):
    lane, heard = made(intervals=IntervalSettings(canary=1.0))
    lane.offer("canary")

    heard.until(lambda: heard.of(CollectorDone, "canary"), "the canary")
    assert len(heard.of(TickDone)) == 2


def test_what_comes_during_a_long_heartbeat_waits_once_and_is_skipped_the_second_time(made):
    lane, heard = made(faults=(Fault(kind="hang", call="heartbeat", last=1),))
    lane.offer("heartbeat")
    lane.offer("standby")
    lane.offer("standby")

    heard.until(lambda: heard.of(CollectorDone, "standby"), "the standbys")
    assert lane.skipped()["busy"] == 1
    assert [message.reason for message in heard.of(CollectorDone, "heartbeat")] == ["timeout"]


def test_an_idle_lane_ends_when_it_is_told_to(made):
    lane, _ = made()
    lane.stop()

    assert lane.join(PATIENCE)
