"""What is known about one target: from its messages to its part of a view.

Times of expiry are paced seconds; what is shown is Unix time as the probe process noted it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType

from exporter.config.schema import Settings, TargetSettings
from exporter.domain.model import CONTENDED, Operation, SeriesKey, Snapshot, TargetFacts, Tick, Variant
from exporter.domain.states import EncryptionState
from exporter.exposition.activity import ActivityBook
from exporter.exposition.baselines import BaselineBook
from exporter.exposition.budgets import BudgetBook
from exporter.exposition.collectors import SHORTEST_EXPIRY, CollectorBook
from exporter.exposition.facts import screened_facts, screened_pair, screened_state
from exporter.exposition.lock_book import LockBook
from exporter.exposition.pair_book import Judgements, PairBook
from exporter.exposition.reach import UNREACHABLE, Reach
from exporter.exposition.screening import number, screened, screened_snapshot, words
from exporter.exposition.series_book import Levels, Plan
from exporter.exposition.standbys import StandbyBook
from exporter.exposition.view import ActivityView, PairView, TargetView
from exporter.overhead.cost import Interval, cores, tightest
from exporter.overhead.ratio import Ratio
from exporter.overhead.snapshot import SnapshotRow
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
    LockSeen,
    PairChecked,
    StandbysRead,
    StateRead,
    TargetFailed,
    TargetReached,
    collector_intervals,
)


class TargetBook:
    """One configured target. Not thread-safe: the ledger's lock guards it."""

    def __init__(self, settings: Settings, target: TargetSettings) -> None:
        intervals = collector_intervals(settings, target)
        self.settings = target
        budgets = settings.budgets_of(target)
        self._load_limit = budgets.time_share_ratio + budgets.boost_time_share_ratio
        self._budgets = BudgetBook(settings, target)
        canary_expiry = max(2 * intervals[CANARY], SHORTEST_EXPIRY)
        self._state_expiry = max(2 * intervals[ENCRYPTION_STATE], SHORTEST_EXPIRY)
        self._reach = Reach(canary_expiry, self._state_expiry)
        if target.standbys:
            # Heartbeats that go well are told as seldom as the standbys are read.
            intervals[HEARTBEAT] = max(intervals[HEARTBEAT], intervals[STANDBY])
        self._collectors = {name: CollectorBook(name, interval) for name, interval in intervals.items()}
        self._activity = ActivityBook(max(2 * intervals[ACTIVITY], SHORTEST_EXPIRY))
        self._standbys = StandbyBook(target.standbys, max(2 * intervals.get(STANDBY, 0.0), SHORTEST_EXPIRY))
        # A lock is kept as long as its session, whatever the lane is busy with.
        self._lock = LockBook(max(canary_expiry, self._state_expiry))
        self._pairs = {pair.name: PairBook(target, pair, self._state_expiry) for pair in target.pairs}
        self._errors = Counter(dict.fromkeys(sorted(UNREACHABLE), 0))
        self._connects, self._connect_seconds = 0, 0.0
        self._ticks = self._contended = self._invalid = 0
        self._state: tuple[EncryptionState, float] | None = None
        self._key_activated: dict[str, float] = {}
        self._facts: TargetFacts | None = None
        self._building: tuple[str, float] | None = None
        self._load: float | None = None
        self._problem = ""
        self.baselines = BaselineBook(target.name)
        self.epoch_event = ""
        """The id of the newest event that opened an epoch."""

    # -- messages ----------------------------------------------------------------------------------------

    def reached(self, message: TargetReached, now: float) -> None:
        self._reach.connected(message, now)
        self._problem = ""
        self._facts = screened_facts(message.facts)
        self._connects += max(0, message.connects)
        self._connect_seconds += self._believed(message.seconds, number) or 0.0

    def failed(self, message: TargetFailed) -> None:
        self._problem = words(message.words) or message.reason.value
        if self._reach.failed(message):
            self._errors[message.reason] += 1

    def tick(self, tick: Tick, now: float) -> Tick | None:
        """Count a tick; the tick as it may enter statistics, dropped where it may not. None where nobody configured it."""
        pair = self._pairs.get(tick.pair)
        if pair is None or not pair.knows(tick.operation):
            self._invalid += 1
            return None
        result = screened(tick)
        self._invalid += result.invalid
        self._ticks += 1
        self._contended += tick.dropped == CONTENDED
        self._reach.tick()
        counted = pair.tick(tick, result, self._facts, self.epoch_event)
        for variant in Variant:
            self._reach.burst(counted.burst(variant), now)
        return counted

    def pair_checked(self, message: PairChecked, now: float) -> None:
        pair = self._pairs.get(message.facts.pair)
        if pair is None:
            self._invalid += 1
            return
        facts, invalid = screened_pair(message.facts)
        self._invalid += invalid
        pair.checked(facts, now)
        self._reach.works(now)

    def state_read(self, message: StateRead, now: float) -> None:
        state, invalid = screened_state(message.state)
        self._invalid += invalid
        self._state = (state, now)
        self._key_activated = {
            keystore.name: keystore.key_activated for keystore in state.keystores if keystore.key_activated is not None
        }
        self._reach.works(now)

    def activity_read(self, message: ActivityRead, now: float) -> None:
        self._invalid += self._activity.read(message.activity, now)
        self._reach.works(now)

    def standbys_read(self, message: StandbysRead, now: float) -> None:
        self._invalid += self._standbys.read(message.standbys, now)

    def lock_seen(self, message: LockSeen, now: float) -> None:
        self._invalid += self._lock.seen(message.lock, now)

    def collector_done(self, message: CollectorDone, now: float) -> None:
        collector = self._collectors.get(message.collector)
        if collector is None:
            self._invalid += 1
            return
        self._invalid += collector.done(message, now)
        self._building = None
        self._reach.collector_done(message, now)
        if message.reason is None:
            self._problem = ""

    def building(self, message: Building, now: float) -> None:
        share = self._believed(message.share, number)
        self._building = (words(message.what), min(1.0, share or 0.0))
        self._reach.works(now)

    def load(self, share: object) -> None:
        self._load = self._believed(share, number)

    def budgets_used(self, message: BudgetsUsed, now: float) -> None:
        self._invalid += self._budgets.used(message, now)

    def set_boosted(self, keys: Iterable[tuple[str, Operation]]) -> None:
        """Of which (pair, operation) more samples than configured are taken now."""
        self._budgets.set_boosted(keys)

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
        self._reach.lost()
        self._state = self._facts = self._building = self._load = None
        for pair in self._pairs.values():
            pair.lost()
        self._standbys.lost()
        self._lock.lost()
        self._activity.lost()
        self._budgets.lost()
        for collector in self._collectors.values():
            collector.lost()

    def take_over(self, old: TargetBook) -> None:
        """Go on counting where the same target was under other settings; what is true now has to be found out anew."""
        self._errors, self._key_activated = old._errors, old._key_activated
        self._connects, self._connect_seconds = old._connects, old._connect_seconds
        self._ticks, self._contended, self._invalid = old._ticks, old._contended, old._invalid
        self.baselines, self.epoch_event = old.baselines, old.epoch_event
        self._budgets.take_over(old._budgets)
        for name, pair in self._pairs.items():
            if (before := old._pairs.get(name)) is not None:
                pair.take_over(before)

    def valid(self, pair: str) -> bool:
        """Whether the last verification of that pair found it valid."""
        return pair in self._pairs and self._pairs[pair].valid

    @property
    def certifying(self) -> frozenset[str]:
        """Names of the pairs whose twins are both plain and meant to be: as found, else as configured."""
        return frozenset(name for name, pair in self._pairs.items() if pair.certifying)

    def found_certifying(self, pair: str) -> bool | None:
        """Whether that pair was found to be such a one; None where nobody can tell."""
        return self._pairs[pair].found_certifying if pair in self._pairs else None

    def references(self) -> Iterator[tuple[SeriesKey, Mapping[int, Ratio] | None]]:
        """What the ratios of each series are held against, as far as that can be told: of a baseline, None without one."""
        for name, pair in self._pairs.items():
            found = self.baselines.references(name, pair.facts)
            if found is not None:
                for operation in self.settings.canary_operations:
                    yield SeriesKey(self.settings.name, name, operation), found.get(operation)

    def plans(self, now: float) -> Iterator[tuple[SeriesKey, Plan]]:
        """How each series is measured now."""
        unreachable = not self._reach.up(now)
        for name in self._pairs:
            for operation in self.settings.canary_operations:
                period = self._budgets.period(name, operation, now)
                yield SeriesKey(self.settings.name, name, operation), Plan(period, unreachable)

    @property
    def facts(self) -> TargetFacts | None:
        """What the last connect found out; None while the probe process is down."""
        return self._facts

    # -- the view ----------------------------------------------------------------------------------------

    def view(
        self,
        now: float,
        judgements: Judgements,
        snapshot: tuple[SnapshotRow, ...],
        taken: float | None,
        levels: Mapping[SeriesKey, Levels],
    ) -> TargetView:
        up, activity = self._reach.up(now), self._activity.view(now)
        collectors = [collector.view(now) for collector in self._collectors.values()]
        pairs = tuple(self._pair_view(pair, now, judgements, up, levels) for pair in self._pairs.values())
        facts = self._facts if self._reach.heard(now) else None
        return TargetView(
            name=self.settings.name,
            engine=self.settings.engine,
            up=up,
            pairs=pairs,
            problem=self._words(),
            facts=facts,
            connects=self._connects,
            connect_seconds=self._connect_seconds,
            connection_errors=MappingProxyType(dict(self._errors)),
            ticks=self._ticks,
            contended=self._contended,
            load=self._load,
            load_limit=None if self._reach.unknown else self._load_limit,
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
            standbys=() if self._reach.unknown else self._standbys.view(now),
            activity=activity,
            lock=self._lock.view(now),
            events=self.baselines.events,
            cores=_cores(activity, pairs, facts),
        )

    def _pair_view(
        self, pair: PairBook, now: float, judgements: Judgements, up: bool | None, levels: Mapping[SeriesKey, Levels]
    ) -> PairView:
        shown = pair.view(now, judgements, up, self._reach.measured(now), self.epoch_event)
        view = self._budgets.rated(shown, now)
        return self.baselines.shown(view, levels)

    def _words(self) -> str:
        if self._problem:
            return self._problem
        problems = [collector.problem for collector in self._collectors.values()]
        problems += [pair.problem for pair in self._pairs.values()]
        return next((problem for problem in problems if problem), "")

    def _believed(self, value: object, kind: Callable[[object], float | None]) -> float | None:
        found = kind(value)
        self._invalid += found is None
        return found


def _cores(activity: ActivityView | None, pairs: Iterable[PairView], facts: TargetFacts | None) -> Interval | None:
    """What all decrypts of the instance take, by the cost that the twins know best; of the same unit only."""
    if activity is None or facts is None or activity.reading.decrypt_unit != facts.decrypt_unit:
        return None
    cost = tightest(pair.decrypt_cost for pair in pairs)
    return cores(activity.decrypts_per_second, activity.encrypts_per_second, cost)
