"""A server whose twins are both plain, and a DBA who encrypts one of them where it stands."""

from __future__ import annotations

import random
from typing import Any

import pytest

from exporter.config.schema import Settings
from exporter.domain.clock import SystemClock
from exporter.domain.events import Event, EventKind
from exporter.domain.model import Operation, Phase, Slot, Variant
from exporter.overhead.event_watch import EventWatch
from exporter.probing.messages import (
    ActivityRead,
    CollectorDone,
    PairChecked,
    StateRead,
    TargetReached,
    TickDone,
    ToParent,
)
from exporter.probing.rounds import Rounds
from exporter.probing.turnstile import Turnstile
from tests.engines.mysql_protocol.canary_targets import target_of
from tests.engines.mysql_protocol.twins_at_hand import SCHEMA, make, session, twins_on


class Watched:
    """The rounds of a target, and the events in what they say."""

    def __init__(self, target) -> None:
        self.watch, self._now = EventWatch("db"), 1000.0
        self.events: list[Event] = []
        self.said: list[ToParent] = []
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
    def activity(self):
        return [message.activity for message in self.said if isinstance(message, ActivityRead)][-1]

    @property
    def tick(self):
        return [message.tick for message in self.said if isinstance(message, TickDone)][-1]


def plain_only(server, folder) -> Watched:
    """A target with a pair of plain twins on a server."""
    twins = twins_on(server, phase=Phase.AA)
    control = session(server)
    make(control, twins)
    control.close()
    pairs = ({"name": "main", "rows": twins.rows, "phase": "aa"},)
    # On a busy machine a tick takes so long that the budget would hold back the next one.
    more: dict[str, Any] = {"operations": (Operation.POINT_SELECT,), "budgets": {"time_share_ratio": 1.0}}
    return Watched(target_of(server, folder, schema=SCHEMA, pairs=pairs, **more))


@pytest.fixture
def watched(database, tmp_path):
    made = plain_only(database, tmp_path)
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


def test_a_server_without_any_keystore_is_measured(make_mysql, tmp_path) -> None:
    watched = plain_only(make_mysql(component=False), tmp_path)
    try:
        watched.look(3)
        assert (watched.facts.valid, watched.facts.found) == (True, Phase.AA), watched.facts.problem
        assert watched.tick.dropped is None
        assert watched.events == []
        reasons = [message.reason for message in watched.said if isinstance(message, CollectorDone)]
        assert set(reasons) == {None}
    finally:
        watched.rounds.close()


def test_a_restart_of_the_server_is_seen_in_its_sums(make_mariadb, tmp_path) -> None:
    server = make_mariadb("11.8")
    # Of all sums, that of encrypted pages says it for sure: a start reads, and takes its time, but encrypts next to nothing.
    server.query("CREATE DATABASE shop")
    server.query("CREATE TABLE shop.orders (id INT PRIMARY KEY, pad CHAR(200)) ENCRYPTED=YES")
    server.query("INSERT INTO orders SELECT seq, 'x' FROM seq_1_to_5000", database="shop")
    server.query("FLUSH TABLES shop.orders FOR EXPORT")
    watched = plain_only(server, tmp_path)
    try:
        watched.look(3)
        assert watched.events == []
        assert watched.activity.encrypts > 50
        watched.rounds.close()
        server.restart()
        watched.look(3)
        assert [event.kind for event in watched.events] == [EventKind.RESTART]
    finally:
        watched.rounds.close()
