"""A server whose twins are both plain, and a DBA who encrypts one of them where it stands."""

from __future__ import annotations

import random

import pytest

from exporter.config.schema import Settings
from exporter.domain.clock import SystemClock
from exporter.domain.events import EventKind
from exporter.domain.model import Operation, Phase, Slot, Variant
from exporter.overhead.event_watch import EventWatch
from exporter.probing.messages import ActivityRead, PairChecked, StateRead, TargetReached, TickDone
from exporter.probing.rounds import Rounds
from exporter.probing.turnstile import Turnstile
from tests.engines.mysql_protocol.canary_targets import target_of
from tests.engines.mysql_protocol.twins_at_hand import SCHEMA, make, session, twins_on


class Watched:
    """The rounds of a target, and the events in what they say."""

    def __init__(self, target) -> None:
        self.watch, self.events = EventWatch("db"), []
        self.said, self._now = [], 1000.0
        settings = Settings(targets=(target,))
        self.rounds = Rounds(settings, target, Turnstile(), self._hear, SystemClock(), random.Random(1))

    def _hear(self, message) -> None:
        self._now += 60.0
        self.said.append(message)
        match message:
            case TargetReached():
                self.events += self.watch.facts(message.facts, self._now)
            case PairChecked():
                self.events += self.watch.pair(message.facts, self._now)
            case StateRead():
                self.events += self.watch.state(message.state, self._now)
            case ActivityRead():
                self.events += self.watch.activity(message.activity, self._now)

    def look(self, times: int = 1) -> None:
        for _ in range(times):
            self.rounds.encryption_state()
            self.rounds.activity()
            self.rounds.canary()

    @property
    def facts(self):
        return [message.facts for message in self.said if isinstance(message, PairChecked)][-1]

    @property
    def tick(self):
        return [message.tick for message in self.said if isinstance(message, TickDone)][-1]


@pytest.fixture
def watched(database, tmp_path):
    twins = twins_on(database, phase=Phase.AA)
    control = session(database)
    make(control, twins)
    control.close()
    pairs = ({"name": "main", "rows": twins.rows, "phase": "aa"},)
    made = Watched(target_of(database, tmp_path, schema=SCHEMA, pairs=pairs, operations=(Operation.POINT_SELECT,)))
    yield made
    made.rounds.close()


@pytest.mark.parametrize("slot", Slot)
def test_a_twin_that_is_encrypted_where_it_stands_is_the_enablement(database, watched, slot) -> None:
    watched.look(3)
    assert watched.events == []
    assert (watched.facts.valid, watched.facts.found) == (True, Phase.AA)
    assert watched.tick.dropped is None
    before = watched.facts.epoch

    enabled = twins_on(database)
    table = enabled.table(slot)
    database.query(enabled.conversion(Slot.A).replace(enabled.table(Slot.A), table))
    watched.look(4)
    assert [event.kind for event in watched.events] == [EventKind.ENABLEMENT], watched.events
    assert watched.events[0].pair == "main"
    assert (watched.facts.valid, watched.facts.found) == (True, Phase.ENABLED), watched.facts.problem
    assert watched.facts.attribution == {Variant.ENCRYPTED: slot, Variant.PLAIN: slot.other}
    assert watched.facts.epoch != before
    assert watched.tick.epoch == watched.facts.epoch

    # The session was lost and made anew: that is no event.
    watched.rounds.close()
    watched.look(2)
    assert len(watched.events) == 1
