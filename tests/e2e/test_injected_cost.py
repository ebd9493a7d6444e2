"""Costs put on real twins on purpose: the verdict follows those of one side, and is not moved by those of both.

Every tick is one of the engine's own on a running MariaDB; only the time between ticks is shortened, by telling the series
that ten seconds have passed.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from exporter.config.schema import OperationSettings
from exporter.domain.clock import SystemClock
from exporter.domain.model import Operation, PairFacts, Variant
from exporter.engines.base import Session
from exporter.overhead.evidence import Name
from exporter.overhead.series import Judgement, Series
from exporter.overhead.verdict import State
from exporter.probing.canary import Canary
from exporter.probing.turnstile import Turnstile
from tests.engines.mysql_protocol.canary_targets import measurable, target_of, wait_for_quiet
from tests.servers.mariadb import MariaDbServer

ROWS = 40_000
"""11 MB in each twin."""
POOL_MB = 8
SAMPLES, PERIOD, START = 6, 10.0, 1_800_057_600.0
HOUR = 3600.0
ENCRYPTED, PLAIN = "canary.main_encrypted", "canary.main_plain"


class Twins:
    """A pair on a server of its own, whose pool holds neither twin."""

    def __init__(self, server: MariaDbServer, target: Any, session: Session) -> None:
        self.server, self.target, self.session = server, target, session

    def verified(self) -> PairFacts:
        pair = self.target.pairs[0]
        facts = self.session.verify(pair, 20.0)
        assert facts.valid, facts.problem
        self.session.prepare(pair, 10.0)
        return facts


class Life:
    """A series that is fed by ticks on these twins, judged every minute of its own time."""

    def __init__(self, twins: Twins, budget: float = 1.2) -> None:
        self._name = Name(50, "plain", budget)
        settings = OperationSettings(samples=SAMPLES, timeout=20.0)
        self._canary = Canary(
            "db",
            twins.target.pairs[0],
            Operation.POINT_SELECT,
            settings,
            Turnstile(),
            random.Random(1),
            SystemClock(),
        )
        self._twins, self._facts = twins, twins.verified()
        self.series, self.now, self.usable = Series(START, SAMPLES, threshold=budget), START, 0
        self.decrypts = dict.fromkeys(Variant, 0)

    def verify(self) -> None:
        self._facts = self._twins.verified()

    def over_budget(self, judged: Judgement) -> bool:
        """Whether the median is."""
        return self._name in {breach.name for breach in judged.breaches}

    def live(self, seconds: float, enough: Callable[[Judgement], bool] = lambda _: False) -> Judgement:
        """So long at most; the newest judgement."""
        until = self.now + seconds
        while True:
            for _ in range(6):
                tick = self._canary.tick(self._twins.session, self._facts)
                self.usable += tick.dropped is None
                for variant in Variant:
                    self.decrypts[variant] += tick.burst(variant).work.decrypts or 0
                self.series.add(tick, self.now)
                self.now += PERIOD
            judged = self.series.judge(self.now, PERIOD)
            if enough(judged) or self.now >= until:
                return judged


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    with MariaDbServer("11.8", buffer_pool_mb=POOL_MB) as server:
        target = target_of(server, tmp_path_factory.mktemp("injected"), rows=ROWS)
        with measurable(target) as (session, _):
            wait_for_quiet(session)
            yield Twins(server, target, session)


@contextmanager
def contended(server: MariaDbServer, *tables: str) -> Iterator[None]:
    """Somebody else has these tables for himself, again and again for a millisecond, all of them at once."""
    over, locked, failures = threading.Event(), threading.Event(), []

    def contend() -> None:
        connection = server.connect()
        try:
            with connection.cursor() as cursor:
                while not over.is_set():
                    cursor.execute("LOCK TABLES " + ", ".join(f"{table} WRITE" for table in tables))
                    cursor.execute("SELECT SLEEP(0.001)")
                    cursor.execute("UNLOCK TABLES")
                    locked.set()
        except Exception as error:
            failures.append(error)
        finally:
            connection.close()

    thread = threading.Thread(target=contend)
    thread.start()
    try:
        assert locked.wait(20.0), failures
        yield
    finally:
        over.set()
        thread.join()
    assert failures == []


def test_contention_on_both_sides_is_no_breach_and_on_one_side_it_is(twins: Twins) -> None:
    life = Life(twins)
    with contended(twins.server, ENCRYPTED, PLAIN):
        judged = life.live(1.2 * HOUR)
    assert judged.breaches == ()
    assert judged.state in (State.OK, State.SUSPECT)
    assert life.usable > 0.9 * 1.2 * HOUR / PERIOD
    # It is the cost of encryption that was looked at.
    assert life.decrypts[Variant.ENCRYPTED] > SAMPLES * life.usable / 2
    assert life.decrypts[Variant.PLAIN] == 0

    with contended(twins.server, ENCRYPTED):
        judged = life.live(4 * HOUR, life.over_budget)
    assert life.over_budget(judged)
    assert (judged.state, judged.hour.word) == (State.FIRING, "over_budget")


def test_a_twin_that_truly_costs_more_is_over_its_budget_until_it_is_no_more(twins: Twins) -> None:
    # On a busy machine encryption by itself costs such a read 15 %; the budget leaves room for that, and its interval.
    life = Life(twins, budget=1.4)
    judged = life.live(0.3 * HOUR)
    assert judged.breaches == ()

    twins.server.query(f"ALTER TABLE {ENCRYPTED} PAGE_COMPRESSED=1")
    try:
        life.verify()
        judged = life.live(4 * HOUR, life.over_budget)
        assert life.over_budget(judged)
        assert (judged.state, judged.hour.word) == (State.FIRING, "over_budget")
    finally:
        twins.server.query(f"ALTER TABLE {ENCRYPTED} PAGE_COMPRESSED=0")
    life.verify()
    # The tail of so few samples is not known well enough to end a breach of its own within the hour.
    judged = life.live(3 * HOUR, lambda judged: not life.over_budget(judged))
    assert not life.over_budget(judged)
