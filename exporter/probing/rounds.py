"""What is done to one target, call by call: connect, build and verify twins, measure, read states.

Everything here runs in the target's lane. Results leave as messages through `emit`, without a secret; nothing is
kept but the open session, what is known of its pairs, the canaries' balance, and what was left out. The engine, and
what the canaries may use, belong to the target and are given by whoever makes the rounds.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from exporter.config.schema import Settings, TargetSettings
from exporter.domain.clock import Clock
from exporter.domain.errors import Blocked, ConnectFailed, DeadlineExceeded, TargetError
from exporter.domain.model import Operation, Snapshot, TargetFacts, Tick
from exporter.engines import registry
from exporter.engines.base import Engine, Progress, Session
from exporter.probing.allowance import Allowance
from exporter.probing.back_off import BackOff
from exporter.probing.budget import Key
from exporter.probing.canary import ABORTING, Canary
from exporter.probing.charging import Charging, TickCharge
from exporter.probing.heartbeats import Heartbeats
from exporter.probing.lock_news import LockNews
from exporter.probing.messages import (
    ACTIVITY,
    BACK_OFF,
    BUDGET,
    CANARY,
    ENCRYPTION_STATE,
    STANDBY,
    ActivityRead,
    BoostedNow,
    Building,
    CollectorDone,
    PairChecked,
    SnapshotDone,
    StandbysRead,
    StateRead,
    TargetFailed,
    TargetReached,
    TickDone,
    ToParent,
)
from exporter.probing.redaction import redacted
from exporter.probing.sessions import HeldSessions
from exporter.probing.turnstile import Turnstile
from exporter.probing.twins import VERIFY_TIMEOUT as VERIFY_TIMEOUT  # for commands, which keep the same deadlines
from exporter.probing.twins import Twins
from exporter.probing.watched import Watched

CONNECT_TIMEOUT = 10.0
STATE_TIMEOUT = 30.0
STANDBY_TIMEOUT = 5.0
SNAPSHOT_UNITS = 12
SNAPSHOT_SECONDS = 2.0

_FATAL = tuple(error.reason.value for error in ABORTING)
_ENDING = (ConnectFailed, DeadlineExceeded)
"""Errors of a collector after which its session is given up: it is lost, or nobody knows what state it is in. Connecting
anew is what the back-off watches over, and what says by its own reason how the server is."""


class Rounds:
    """The work on one target. Used by one thread at a time."""

    def __init__(
        self,
        settings: Settings,
        target: TargetSettings,
        turnstile: Turnstile,
        emit: Callable[[ToParent], None],
        clock: Clock,
        rng: random.Random,
        expires: Callable[[float | None], None] = lambda _: None,
        allowance: Allowance | None = None,
        engine: Engine | None = None,
    ) -> None:
        self.settings, self.target = settings, target
        self._clock, self._rng, self._expires = clock, rng, expires
        # The one way out for whatever a driver or a server said.
        self._emit: Callable[[ToParent], None] = lambda message: emit(redacted(message))
        self._engine = engine or registry.make(target)
        self._session: Session | None = None
        self._told: TargetFacts | None = None
        intervals = settings.intervals_of(target)
        self._back_off = BackOff(intervals.canary, rng)
        self._charging = Charging(target.name, allowance or Allowance(settings, target), clock)
        self.sessions = HeldSessions(self.allowance.sessions, self._engine.sessions_per_pair)
        meter = self._charging.meter
        self._canaries = {
            (pair.name, operation): Canary(
                target.name, pair, operation, settings.operation(operation), turnstile, rng, clock, meter
            )
            for pair in target.pairs
            for operation in target.canary_operations
        }
        self._twins = Twins(
            self._engine.self_provisioning,
            self.sessions,
            self._canaries.values(),
            lambda facts: self._emit(PairChecked(target.name, facts)),
            self._reached,
        )
        self._heartbeats = Heartbeats(target.name, clock, intervals.standby - intervals.heartbeat)
        self._locks = LockNews(target.name, intervals.canary)
        self._skipped: Counter[str] = Counter()
        self._boosted: BoostedNow | None = None

    @property
    def allowance(self) -> Allowance:
        """What the canaries may use; it can be exchanged."""
        return self._charging.allowance

    @allowance.setter
    def allowance(self, allowance: Allowance) -> None:
        self._charging.allowance = allowance

    # -- the collectors ------------------------------------------------------------------------------

    def canary(self) -> None:
        """Measure every operation once on every valid pair, as far as the budgets allow."""
        self.allowance.boost.begin_round(self._clock.paced())
        self._collect(CANARY, self._measure_all)
        self._emit(self._charging.used())
        boosted = self.allowance.boost.state()
        if boosted != self._boosted:
            self._boosted = boosted
            self._emit(boosted)

    def encryption_state(self) -> None:
        """Verify which twin is encrypted and read keystores and inventory."""
        self._collect(ENCRYPTION_STATE, self._read_state)

    def activity(self) -> None:
        """Read what the whole instance does."""
        self._collect(ACTIVITY, self._read_activity)

    def heartbeat(self) -> None:
        """Write the heartbeat of the standbys, in an open session only: it beats too often to knock at doors.

        The parent hears when the outcome changes, and about as often as the standbys are read.
        """
        session = self._session
        if session is None:
            return
        done, failed = self._heartbeats.beat(session)
        if isinstance(failed, ConnectFailed):
            self._failed(failed, connecting=False)
        if done is not None:
            self._emit(done)
        self._tell_lock()

    def standby(self) -> None:
        """Read how far the standbys are."""
        self._collect(STANDBY, self._read_standbys)

    def take_skipped(self) -> Counter[str]:
        """Runs that were left out since the last call, by cause."""
        taken, self._skipped = self._skipped, Counter()
        return taken

    def begin(self, snapshot: bool) -> None:
        """The first pass: connect, build what is missing, verify, and measure densely if asked to."""
        self.encryption_state()
        if snapshot and self._session is not None:
            try:
                self._emit(SnapshotDone(self.snapshot()))
            except TargetError as error:
                self._failed(error, connecting=False)

    def snapshot(
        self,
        units: int = SNAPSHOT_UNITS,
        seconds: float = SNAPSHOT_SECONDS,
        progress: Progress = lambda _what, _share: None,
    ) -> Snapshot:
        """Measure all pairs and operations back to back; raises `TargetError` when there is no session."""
        session = self._connected()
        started, begun = self._clock.wall(), self._clock.monotonic()
        ticks: list[Tick] = []
        failures: list[tuple[str, Operation, str]] = []
        for number, ((pair, operation), canary) in enumerate(self._canaries.items()):
            progress(f"measuring {operation} on {pair}", number / len(self._canaries))
            try:
                facts = self._twins.ready(session, canary.pair)
            except Blocked as error:
                failures.append((pair, operation, str(error)))
                continue
            if facts is None or not facts.valid:
                failures.append((pair, operation, self._twins.why_not(pair)))
                continue
            for tick in canary.units(session, facts, units, seconds):
                ticks.append(tick)
            if canary.problem:
                failures.append((pair, operation, canary.problem))
        # Not charged to the budgets of the ticks: it has limits of its own, and happens once an hour at most.
        self._charging.meter.take()
        seconds = self._clock.monotonic() - begun
        return redacted(Snapshot(self.target.name, started, seconds, tuple(ticks), tuple(failures)))

    def connect(self, progress: Progress | None = None) -> None:
        """Open the session, build missing twins and verify all pairs; raises `TargetError`."""
        session = self._connected()
        for pair in self.target.pairs:
            self._twins.build(session, pair, progress or self._building)
            self._twins.verify(session, pair)

    @property
    def facts(self) -> TargetFacts | None:
        """What the open session found out about its target."""
        return None if self._session is None else self._session.facts()

    def close(self) -> None:
        session, self._session = self._session, None
        self._twins.forget()
        if session is not None:
            session.close()
        self.sessions.close()
        self._tell_lock()

    # -- steps ---------------------------------------------------------------------------------------

    def _collect(self, collector: str, work: Callable[[Session], str]) -> None:
        begun = self._clock.monotonic()
        if self._session is None and not self._back_off.allows(self._clock.paced()):
            self._skipped[BACK_OFF] += 1
            return
        reason, words = None, ""
        try:
            session = self._connected()
            words = work(session)
            if session.facts() != self._told:
                # It found out more, or there was a switchover.
                self._reached(session, 0, 0.0)
        except TargetError as error:
            reason, words = error.reason, str(error)
            connecting = self._session is None
            # Standbys that cannot be read say nothing about whether the target can be used.
            if connecting or collector != STANDBY or isinstance(error, ConnectFailed):
                self._failed(error, connecting)
        seconds = self._clock.monotonic() - begun
        self._emit(CollectorDone(self.target.name, collector, seconds, self._clock.wall(), reason, words))
        self._tell_lock()

    def _connected(self) -> Session:
        if self._session is None:
            begun = self._clock.monotonic()
            self.sessions.connect(self.target.name)
            try:
                opened = Watched(self._expires, self._clock).open(self._engine, CONNECT_TIMEOUT)
            except TargetError:
                self.sessions.close()
                raise
            self._session = opened
            self._back_off.succeeded()
            self._reached(opened, 1, self._clock.monotonic() - begun)
        return self._session

    def _failed(self, error: TargetError, connecting: bool) -> None:
        self._emit(TargetFailed(self.target.name, error.reason, str(error), connecting))
        if connecting:
            self._back_off.failed(error, self._clock.paced())
        elif isinstance(error, _ENDING):
            self.close()

    def _read_state(self, session: Session) -> str:
        """Build and verify all pairs, then read the states; one failure does not hide what else can be found out."""
        unbuilt = self._twins.refresh(session, self.target.pairs, self._building)
        state = session.encryption_state(STATE_TIMEOUT)
        self._emit(StateRead(self.target.name, state))
        if unbuilt is not None:
            raise unbuilt
        return _narrowed(state.problems)

    def _read_activity(self, session: Session) -> str:
        activity = session.activity(STATE_TIMEOUT)
        self.allowance.boost.read_activity(activity, self._clock.paced())
        self._emit(ActivityRead(self.target.name, activity))
        return _narrowed(activity.problems)

    def _read_standbys(self, session: Session) -> str:
        self._emit(StandbysRead(self.target.name, session.standbys(STANDBY_TIMEOUT)))
        return ""

    def _measure_all(self, session: Session) -> str:
        """One tick of every operation that the budgets allow now; what went wrong in the first that did not succeed.

        A pair without sessions keeps no other from its turn.
        """
        governor, blocked = self.allowance.governor, None
        for key in governor.order(self._clock.paced()):
            if governor.refuses(key, self._clock.paced()):
                self._skipped[BUDGET] += 1
                self.allowance.boost.not_due(key, self._clock.paced())
                continue
            try:
                self._measure(session, key)
            except Blocked as error:
                blocked = blocked or error
        if blocked is not None:
            raise blocked
        failed = next((canary for canary in self._canaries.values() if canary.problem), None)
        if failed is None:
            return ""
        where = f"{failed.operation} on {failed.pair.name}"
        # Some engines say so themselves.
        return failed.problem if failed.problem.startswith(where) else f"{where}: {failed.problem}"

    def _measure(self, session: Session, key: Key) -> None:
        """One tick, charged to the budgets whatever becomes of it."""
        canary, governor = self._canaries[key], self.allowance.governor
        begun = self._clock.paced()
        facts = None
        try:
            facts = self._twins.ready(session, canary.pair)
        finally:
            # What warms up a whole pair is not the cost of the operation that happens to come first.
            self._charging.charge(None, begun)
            if facts is None:
                governor.passed(key, begun)
        if facts is None:
            return
        # Waiting for the ticks of others costs the target nothing.
        with canary.bout():
            charge = TickCharge(self._charging, key, self._clock.paced(), self._clock)
            try:
                tick = canary.tick(session, facts, more=charge.more())
            finally:
                charge.settle()
        self._emit(TickDone(tick))
        if tick.dropped in _FATAL:
            raise ConnectFailed(f"the session was lost while measuring {canary.operation}")

    def _reached(self, session: Session, connects: int, seconds: float) -> None:
        """Sessions were opened, or the target is not what it was said to be."""
        self._told = session.facts()
        self._charging.meter.connected(self._told)
        self._emit(TargetReached(self.target.name, self._told, connects, seconds))

    def _tell_lock(self) -> None:
        if (news := self._locks.of(self._session, self._clock.paced())) is not None:
            self._emit(news)

    def _building(self, what: str, share: float) -> None:
        self._emit(Building(self.target.name, what, share))


def _narrowed(problems: tuple[str, ...]) -> str:
    """What a collector that read the rest says of what it could not read."""
    return "; ".join(problems)
