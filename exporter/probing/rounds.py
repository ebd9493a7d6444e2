"""What is done to one target, call by call: connect, build and verify twins, measure, read states.

Everything here runs in the target's lane. Results leave as messages through `emit`; nothing is kept
but the open session, the newest verification of each pair, the canaries' balance, and what was left out;
what the canaries may use belongs to the target and is given by whoever makes the rounds.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from exporter.config.schema import PairSettings, Settings, TargetSettings
from exporter.domain.clock import Clock
from exporter.domain.errors import Blocked, ConnectFailed, Reason, TargetError
from exporter.domain.model import Operation, PairFacts, Snapshot, TargetFacts, Tick
from exporter.engines import registry
from exporter.engines.base import Engine, Progress, Session
from exporter.probing.allowance import Allowance
from exporter.probing.back_off import BackOff
from exporter.probing.budget import Amounts, Key
from exporter.probing.canary import ABORTING, Canary
from exporter.probing.messages import (
    ACTIVITY,
    BACK_OFF,
    BUDGET,
    CANARY,
    ENCRYPTION_STATE,
    HEARTBEAT,
    SESSIONS,
    STANDBY,
    ActivityRead,
    BudgetsUsed,
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
from exporter.probing.meter import Meter
from exporter.probing.sessions import HeldSessions
from exporter.probing.sparing import Sparing
from exporter.probing.turnstile import Turnstile
from exporter.probing.watched import Watched

CONNECT_TIMEOUT = 10.0
VERIFY_TIMEOUT = 30.0
STATE_TIMEOUT = 30.0
PROVISION_TIMEOUT = 3600.0
HEARTBEAT_TIMEOUT = 2.0
STANDBY_TIMEOUT = 5.0
SNAPSHOT_UNITS = 12
SNAPSHOT_SECONDS = 2.0

_FATAL = tuple(error.reason.value for error in ABORTING)


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
        self._emit, self._clock, self._rng, self._expires = emit, clock, rng, expires
        self._engine = engine or registry.make(target)
        self._session: Session | None = None
        self._facts: dict[str, PairFacts] = {}
        self._warm: set[str] = set()
        self._unbuilt: dict[str, str] = {}
        self._back_off = BackOff(settings.intervals_of(target).canary, rng)
        self.allowance = allowance or Allowance(settings, target)
        self.sessions = HeldSessions(self.allowance.sessions, self._engine.sessions_per_pair)
        self._meter = Meter()
        self._canaries = {
            (pair.name, operation): Canary(
                target.name, pair, operation, settings.operation(operation), turnstile, rng, clock, self._meter
            )
            for pair in target.pairs
            for operation in target.canary_operations
        }
        intervals = settings.intervals_of(target)
        self._beats = Sparing(intervals.standby - intervals.heartbeat)
        self._skipped: Counter[str] = Counter()
        self._round_read: int | None = None
        self._round_written: int | None = None

    # -- the collectors ------------------------------------------------------------------------------

    def canary(self) -> None:
        """Measure every operation once on every valid pair, as far as the budgets allow."""
        self._collect(CANARY, self._measure_all)
        self._emit(self._used())

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
        begun = self._clock.monotonic()
        reason, words = None, ""
        try:
            session.heartbeat(HEARTBEAT_TIMEOUT)
        except TargetError as error:
            reason, words = error.reason, str(error)
            if isinstance(error, ConnectFailed):
                self._failed(error, connecting=False)
        now = self._clock.monotonic()
        done = CollectorDone(self.target.name, HEARTBEAT, now - begun, self._clock.wall(), reason, words)
        if self._beats.passes(done, now):
            self._emit(done)

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
                facts = self._ready(session, canary.pair)
            except Blocked as error:
                failures.append((pair, operation, str(error)))
                continue
            if facts is None or not facts.valid:
                failures.append((pair, operation, self._why_not(pair)))
                continue
            for tick in canary.units(session, facts, units, seconds):
                ticks.append(tick)
            if canary.problem:
                failures.append((pair, operation, canary.problem))
        # Not charged to the budgets of the ticks: it has limits of its own, and happens once an hour at most.
        self._meter.take()
        return Snapshot(self.target.name, started, self._clock.monotonic() - begun, tuple(ticks), tuple(failures))

    def connect(self, progress: Progress | None = None) -> None:
        """Open the session, build missing twins and verify all pairs; raises `TargetError`."""
        session = self._connected()
        for pair in self.target.pairs:
            self._build(session, pair, progress or self._building)
            self._verify(session, pair)

    @property
    def facts(self) -> TargetFacts | None:
        """What the open session found out about its target."""
        return None if self._session is None else self._session.facts()

    def close(self) -> None:
        session, self._session = self._session, None
        self._facts.clear()
        self._warm.clear()
        if session is not None:
            session.close()
        self.sessions.close()

    # -- steps ---------------------------------------------------------------------------------------

    def _collect(self, collector: str, work: Callable[[Session], str]) -> None:
        begun = self._clock.monotonic()
        if self._session is None and not self._back_off.allows(begun):
            self._skipped[BACK_OFF] += 1
            return
        reason, words = None, ""
        try:
            words = work(self._connected())
        except TargetError as error:
            reason, words = error.reason, str(error)
            connecting = self._session is None
            # Standbys that cannot be read say nothing about whether the target can be used.
            if connecting or collector != STANDBY or isinstance(error, ConnectFailed):
                self._failed(error, connecting)
        seconds = self._clock.monotonic() - begun
        self._emit(CollectorDone(self.target.name, collector, seconds, self._clock.wall(), reason, words))

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
            self._meter.connected(opened.facts())
            self._back_off.succeeded()
            seconds = self._clock.monotonic() - begun
            self._emit(TargetReached(self.target.name, opened.facts(), 1, seconds))
        return self._session

    def _failed(self, error: TargetError, connecting: bool) -> None:
        self._emit(TargetFailed(self.target.name, error.reason, str(error), connecting))
        if connecting:
            self._back_off.failed(error, self._clock.monotonic())
        elif isinstance(error, ConnectFailed):
            self.close()

    def _read_state(self, session: Session) -> str:
        """Build and verify all pairs, then read the states; one failure does not hide what else can be found out."""
        first: TargetError | None = None
        for pair in self.target.pairs:
            self._unbuilt.pop(pair.name, None)
            try:
                self._build(session, pair, self._building)
            except TargetError as error:
                if isinstance(error, ABORTING):
                    raise
                first = first or error
                self._unbuilt[pair.name] = str(error)
            self._verify(session, pair)
        state = session.encryption_state(STATE_TIMEOUT)
        self._emit(StateRead(self.target.name, state))
        if first is not None:
            raise first
        return _narrowed(state.problems)

    def _read_activity(self, session: Session) -> str:
        activity = session.activity(STATE_TIMEOUT)
        self._emit(ActivityRead(self.target.name, activity))
        return _narrowed(activity.problems)

    def _read_standbys(self, session: Session) -> str:
        self._emit(StandbysRead(self.target.name, session.standbys(STANDBY_TIMEOUT)))
        return ""

    def _build(self, session: Session, pair: PairSettings, progress: Progress) -> None:
        known = self._facts.get(pair.name)
        if self._engine.self_provisioning and (known is None or not known.valid):
            session.provision(pair, progress, PROVISION_TIMEOUT)

    def _verify(self, session: Session, pair: PairSettings) -> PairFacts:
        facts = session.verify(pair, VERIFY_TIMEOUT)
        self._facts[pair.name] = facts
        self._emit(PairChecked(self.target.name, facts))
        return facts

    def _ready(self, session: Session, pair: PairSettings) -> PairFacts | None:
        """The newest verification of a pair that can be measured now, after warm-up; None when it cannot."""
        self.sessions.prepare(pair.name)
        prepared = session.prepare(pair, CONNECT_TIMEOUT)
        if prepared.connects:
            self._emit(TargetReached(self.target.name, session.facts(), prepared.connects, prepared.connect_seconds))
        facts = self._facts.get(pair.name)
        if facts is None or prepared.changed:
            facts = self._verify(session, pair)
        if facts.attribution is None:
            return None
        if prepared.connects or pair.name not in self._warm:
            for (name, _), canary in self._canaries.items():
                if name == pair.name:
                    canary.warm_up(session, facts)
            self._warm.add(pair.name)
        return facts

    def _measure_all(self, session: Session) -> str:
        """One tick of every operation that the budgets allow now; what went wrong in the first that did not succeed.

        A pair without sessions keeps no other from its turn.
        """
        governor, blocked = self.allowance.governor, None
        for key in governor.order(self._clock.monotonic()):
            if governor.refuses(key, self._clock.monotonic()):
                self._skipped[BUDGET] += 1
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
        begun = self._clock.monotonic()
        facts = None
        try:
            facts = self._ready(session, canary.pair)
        finally:
            # What warms up a whole pair is not the cost of the operation that happens to come first.
            ready = self._charge(None, begun)
            if facts is None:
                governor.passed(key, begun)
        if facts is None:
            return
        try:
            tick = canary.tick(session, facts)
        finally:
            self._charge(key, ready)
        self._emit(TickDone(tick))
        if tick.dropped in _FATAL:
            raise ConnectFailed(f"the session was lost while measuring {canary.operation}")

    def _charge(self, key: Key | None, begun: float) -> float:
        """Charge what was used since `begun`, to an operation or to none; the time now."""
        now = self._clock.monotonic()
        read, written = self._meter.take()
        self._round_read, self._round_written = _sum(self._round_read, read), _sum(self._round_written, written)
        self.allowance.governor.charge(key, Amounts(now - begun, read or 0, written or 0), begun, now)
        return now

    def _used(self) -> BudgetsUsed:
        governor, sessions = self.allowance.governor, self.allowance.sessions
        used = governor.used(self._clock.monotonic()) | {SESSIONS: sessions.open / sessions.most}
        read, written, self._round_read, self._round_written = self._round_read, self._round_written, None, None
        return BudgetsUsed(self.target.name, used, read, written, governor.periods())

    def _why_not(self, pair: str) -> str:
        facts = self._facts.get(pair)
        # That a twin is missing is only the consequence of what kept it from being built.
        return self._unbuilt.get(pair) or (facts.problem if facts is not None else Reason.UNAVAILABLE.value)

    def _building(self, what: str, share: float) -> None:
        self._emit(Building(self.target.name, what, share))


def _narrowed(problems: tuple[str, ...]) -> str:
    """What a collector that read the rest says of what it could not read."""
    return "; ".join(problems)


def _sum(total: int | None, more: int | None) -> int | None:
    """Of what is known; None while nothing is."""
    return total if more is None else more + (total or 0)
