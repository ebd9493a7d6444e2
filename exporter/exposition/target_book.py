"""What is known about one target: from its messages to its part of a view.

Times of expiry are paced seconds; what is shown is Unix time as the probe process noted it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from exporter.config.schema import Settings, TargetSettings
from exporter.domain.errors import Reason
from exporter.domain.model import (
    CONTENDED,
    Operation,
    PairFacts,
    Phase,
    SeriesKey,
    Snapshot,
    TargetFacts,
    Tick,
    Variant,
)
from exporter.domain.states import EncryptionState
from exporter.exposition.activity import ActivityBook
from exporter.exposition.baselines import BaselineBook
from exporter.exposition.budgets import BudgetBook
from exporter.exposition.counters import SideCounts
from exporter.exposition.facts import screened_facts, screened_pair, screened_state
from exporter.exposition.screening import LONGEST_LIST, number, screened, screened_snapshot, words
from exporter.exposition.standbys import StandbyBook
from exporter.exposition.statistics import Levels
from exporter.exposition.view import CollectorView, PairView, SeriesView, TargetView
from exporter.overhead.epochs import joined
from exporter.overhead.snapshot import SnapshotRow
from exporter.overhead.windows import SeriesSummary
from exporter.probing.messages import (
    ACTIVITY,
    CANARY,
    ENCRYPTION_STATE,
    HEARTBEAT,
    STANDBY,
    ActivityRead,
    BudgetsUsed,
    Building,
    CollectorDone,
    PairChecked,
    StandbysRead,
    StateRead,
    TargetFailed,
    TargetReached,
    collector_intervals,
)

SHORTEST_EXPIRY = 3.0
"""Seconds that a gauge lives at least: with intervals of a second, two of them are within what a busy machine delays."""

UNREACHABLE = frozenset({Reason.CONNECT, Reason.AUTH, Reason.TLS, Reason.TIMEOUT, Reason.UNAVAILABLE})
"""Reasons that mean: the database could not be used. Others concern one collector."""

Summaries = Mapping[SeriesKey, SeriesSummary]


class _Collector:
    """The outcomes of one collector."""

    def __init__(self, name: str, interval: float) -> None:
        self._name, self._expiry = name, max(2 * interval, SHORTEST_EXPIRY)
        self._done: float | None = None
        self._succeeded = False
        self._seconds: float | None = None
        self._last_success: float | None = None
        self._words = ""

    def done(self, message: CollectorDone, now: float) -> int:
        seconds, at = number(message.seconds), number(message.at)
        self._done, self._seconds, self._succeeded = now, seconds, message.reason is None
        self._words = words(message.words, LONGEST_LIST)
        if self._succeeded and at is not None:
            self._last_success = at
        return (seconds is None) + (at is None)

    def lost(self) -> None:
        self._done = None

    @property
    def problem(self) -> str:
        """What went wrong in words: the whole run, or single queries of a round of canaries."""
        return "" if self._succeeded and self._name != CANARY else self._words

    def view(self, now: float) -> CollectorView | None:
        if self._done is None and self._last_success is None:
            return None
        recent = self._done is not None and now - self._done <= self._expiry
        return CollectorView(
            self._name,
            None if self._done is None else self._succeeded and recent,
            self._seconds if recent else None,
            self._last_success,
            self._words if recent and not self.problem else "",
        )


class TargetBook:
    """One configured target. Not thread-safe: the ledger's lock guards it."""

    def __init__(self, settings: Settings, target: TargetSettings) -> None:
        intervals = collector_intervals(settings, target)
        self.settings = target
        self._load_limit = settings.budgets_of(target).time_share_ratio
        self._budgets = BudgetBook(settings, target)
        self._canary_expiry = max(2 * intervals[CANARY], SHORTEST_EXPIRY)
        self._state_expiry = max(2 * intervals[ENCRYPTION_STATE], SHORTEST_EXPIRY)
        if target.standbys:
            # Heartbeats that go well are told as seldom as the standbys are read.
            intervals[HEARTBEAT] = max(intervals[HEARTBEAT], intervals[STANDBY])
        self._collectors = {name: _Collector(name, interval) for name, interval in intervals.items()}
        self._activity = ActivityBook(max(2 * intervals[ACTIVITY], SHORTEST_EXPIRY))
        self._standbys = StandbyBook(target.standbys, max(2 * intervals.get(STANDBY, 0.0), SHORTEST_EXPIRY))
        self._sides = {
            (pair.name, operation, variant): SideCounts(operation)
            for pair in target.pairs
            for operation in target.canary_operations
            for variant in Variant
        }
        self._errors = Counter(dict.fromkeys(sorted(UNREACHABLE), 0))
        self._connects, self._connect_seconds = 0, 0.0
        self._ticks = self._contended = self._invalid = 0
        self._pairs: dict[str, tuple[PairFacts, float]] = {}
        self._state: tuple[EncryptionState, float] | None = None
        self._key_activated: dict[str, float] = {}
        self._facts: TargetFacts | None = None
        self._building: tuple[str, float] | None = None
        self._load: float | None = None
        self._problem = ""
        self.baselines = BaselineBook(target.name)
        self.epoch_event = ""
        """The id of the newest event that opened an epoch."""
        self._lost = self._reached = False
        self._canary_works: bool | None = None
        self._shut_out = False
        self._round_ticks = self._round_successes = 0
        self._worked: float | None = None
        self._canary_worked: float | None = None

    # -- messages ----------------------------------------------------------------------------------------

    def reached(self, message: TargetReached, now: float) -> None:
        self._works(now)
        self._problem = ""
        self._shut_out = False if message.connects > 0 else self._shut_out
        self._facts = screened_facts(message.facts)
        self._connects += max(0, message.connects)
        self._connect_seconds += self._believed(message.seconds, number) or 0.0

    def failed(self, message: TargetFailed) -> None:
        self._lost = False
        self._problem = words(message.words) or message.reason.value
        if message.connecting or message.reason in UNREACHABLE:
            self._errors[message.reason] += 1
        if message.connecting or message.reason in UNREACHABLE:
            self._reached = False

    def tick(self, tick: Tick, now: float) -> Tick | None:
        """Count a tick; the tick as it may enter statistics, None when it may not."""
        pair = self._pairs.get(tick.pair)
        if (tick.pair, tick.operation, Variant.PLAIN) not in self._sides:
            self._invalid += 1
            return None
        result = screened(tick)
        self._invalid += result.invalid
        self._ticks += 1
        self._contended += tick.dropped == CONTENDED
        self._round_ticks += 1
        for variant in Variant:
            burst = result.tick.burst(variant)
            side = self._sides[tick.pair, tick.operation, variant]
            side.add(burst, len(tick.burst(variant).samples), self._facts, result.tick.started)
            if len(burst.failures) < len(burst.samples):
                self._round_successes += 1
                self._canary_worked = now
                self._works(now)
        if not result.usable or pair is None or not pair[0].valid:
            return None
        return replace(result.tick, epoch=joined(result.tick.epoch, self.epoch_event))

    def pair_checked(self, message: PairChecked, now: float) -> None:
        if all(message.facts.pair != pair.name for pair in self.settings.pairs):
            self._invalid += 1
            return
        facts, invalid = screened_pair(message.facts)
        self._invalid += invalid
        self._pairs[facts.pair] = (facts, now)
        self._works(now)

    def state_read(self, message: StateRead, now: float) -> None:
        state, invalid = screened_state(message.state)
        self._invalid += invalid
        self._state = (state, now)
        self._key_activated = {
            keystore.name: keystore.key_activated for keystore in state.keystores if keystore.key_activated is not None
        }
        self._works(now)

    def activity_read(self, message: ActivityRead, now: float) -> None:
        self._invalid += self._activity.read(message.activity, now)
        self._works(now)

    def standbys_read(self, message: StandbysRead, now: float) -> None:
        self._invalid += self._standbys.read(message.standbys, now)

    def collector_done(self, message: CollectorDone, now: float) -> None:
        collector = self._collectors.get(message.collector)
        if collector is None:
            self._invalid += 1
            return
        self._invalid += collector.done(message, now)
        self._building = None
        if message.reason is None:
            self._works(now)
            self._problem = ""
        elif message.reason is Reason.CONNECT or (
            message.reason in UNREACHABLE and message.collector not in (HEARTBEAT, STANDBY)
        ):
            self._lost, self._reached = False, False
        if message.collector == CANARY:
            self._end_round(message.reason, now)

    def building(self, message: Building, now: float) -> None:
        share = self._believed(message.share, number)
        self._building = (words(message.what), min(1.0, share or 0.0))
        self._works(now)

    def load(self, share: object) -> None:
        self._load = self._believed(share, number)

    def budgets_used(self, message: BudgetsUsed, now: float) -> None:
        self._invalid += self._budgets.used(message, now)

    def snapshot_done(self, snapshot: Snapshot) -> Snapshot:
        """The dense measurement as it can be believed.

        It is not counted, for it stands outside the ticks; nor does it prove that the target is up, for
        it may come from the history.
        """
        believed, invalid = screened_snapshot(snapshot)
        self._invalid += invalid
        return believed

    def lost(self) -> None:
        """Its probe process is down: whatever was known is not known any more."""
        self._lost, self._reached = True, False
        self._canary_works = self._canary_worked = self._worked = None
        self._shut_out = False
        self._round_ticks = self._round_successes = 0
        self._state = self._facts = self._building = self._load = None
        self._pairs.clear()
        self._standbys.lost()
        self._activity.lost()
        self._budgets.lost()
        for collector in self._collectors.values():
            collector.lost()

    def valid(self, pair: str) -> bool:
        """Whether the last verification of that pair found it valid."""
        return pair in self._pairs and self._pairs[pair][0].valid

    @property
    def certifying(self) -> frozenset[str]:
        """Names of the pairs whose twins are both plain and meant to be: as found, else as configured."""
        names = set(self.settings.certifying)
        return frozenset(name for name in names if name not in self._pairs or self._pairs[name][0].certifying)

    @property
    def facts(self) -> TargetFacts | None:
        """What the last connect found out; None while the probe process is down."""
        return self._facts

    # -- the view ----------------------------------------------------------------------------------------

    def view(
        self,
        now: float,
        summaries: Summaries,
        snapshot: tuple[SnapshotRow, ...],
        taken: float | None,
        levels: Mapping[SeriesKey, Levels],
    ) -> TargetView:
        slowest = max(self._canary_expiry, self._state_expiry)
        heard = self._worked is not None and now - self._worked <= slowest
        up = self._reached and heard and self._canary_works is not False and not self._shut_out
        collectors = [collector.view(now) for collector in self._collectors.values()]
        return TargetView(
            name=self.settings.name,
            engine=self.settings.engine,
            up=None if self._lost else up,
            pairs=tuple(
                self.baselines.shown(self._pair_view(pair.name, pair.phase, now, summaries), levels)
                for pair in self.settings.pairs
            ),
            problem=self._words(),
            facts=self._facts if heard else None,
            connects=self._connects,
            connect_seconds=self._connect_seconds,
            connection_errors=MappingProxyType(dict(self._errors)),
            ticks=self._ticks,
            contended=self._contended,
            load=self._load,
            load_limit=None if self._lost else self._load_limit,
            budgets=self._budgets.shares(now),
            bytes_read=self._budgets.bytes_read,
            bytes_written=self._budgets.bytes_written,
            invalid_values=self._invalid,
            state=self._state[0] if self._state and now - self._state[1] <= self._state_expiry else None,
            key_activated=MappingProxyType(dict(self._key_activated)),
            collectors=tuple(collector for collector in collectors if collector is not None),
            building=self._building,
            snapshot=tuple(row for row in snapshot if self.valid(row.pair)),
            snapshot_taken=taken,
            standbys=() if self._lost else self._standbys.view(now),
            activity=self._activity.view(now),
            events=self.baselines.events,
        )

    def _pair_view(self, name: str, phase: Phase, now: float, summaries: Summaries) -> PairView:
        checked = self._pairs.get(name)
        facts = checked[0] if checked and now - checked[1] <= self._state_expiry else None
        measured = self._canary_worked is not None and now - self._canary_worked <= self._canary_expiry
        speaks = measured and facts is not None and facts.valid

        def series(operation: Operation) -> SeriesView:
            summary = summaries.get(SeriesKey(self.settings.name, name, operation)) if speaks else None
            if summary is not None and facts is not None and summary.epoch != joined(facts.epoch, self.epoch_event):
                # What was measured before the change says nothing about what is there now.
                summary = None
            sides = {variant: self._sides[name, operation, variant].view() for variant in Variant}
            return self._budgets.rated(SeriesView(operation, MappingProxyType(sides), summary), name, now)

        phase = phase if facts is None else facts.found or phase
        return PairView(name, phase, tuple(series(operation) for operation in self.settings.canary_operations), facts)

    def _words(self) -> str:
        if self._problem:
            return self._problem
        problems = [collector.problem for collector in self._collectors.values()]
        problems += [f"pair {name}: {facts.problem}" for name, (facts, _) in self._pairs.items() if facts.problem]
        return next((problem for problem in problems if problem), "")

    def _works(self, now: float) -> None:
        self._worked = now
        self._lost, self._reached = False, True

    def _end_round(self, reason: Reason | None, now: float) -> None:
        """Judge a round of canaries: one in which every sample failed did not use the database.

        A round without ticks (budget used up, no valid pair) tells nothing new: what was shown stays. Where no session
        for canaries is to be had, others that work do not make the target usable.
        """
        self._shut_out = reason in UNREACHABLE
        if self._round_ticks:
            self._canary_works = self._round_successes > 0
        if reason is None and self._canary_works is not False:
            self._canary_worked = now
        self._round_ticks = self._round_successes = 0

    def _believed(self, value: object, kind: Callable[[object], float | None]) -> float | None:
        found = kind(value)
        self._invalid += found is None
        return found
