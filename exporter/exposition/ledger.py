"""The parent's accumulator: every message of the probe processes goes in, views come out."""

from __future__ import annotations

import platform
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from exporter import __version__
from exporter.config.changes import Changes, fingerprint
from exporter.config.schema import Settings
from exporter.domain.clock import Clock
from exporter.domain.events import Event
from exporter.domain.model import Operation, SeriesKey, Snapshot, TargetFacts
from exporter.exposition.catalogue import LATENESS_BUCKETS, NOISE_BUCKETS
from exporter.exposition.counters import Histogram
from exporter.exposition.noise import NoiseHour
from exporter.exposition.screening import count, screened_snapshot
from exporter.exposition.series_book import Change, Dated, Plan
from exporter.exposition.statistics import NOBODY_LOOKED, Statistics, outlines_of
from exporter.exposition.target_book import TargetBook
from exporter.exposition.view import ConfigView, ExporterView, View, WebView
from exporter.overhead.baseline import PairBaseline
from exporter.overhead.evidence import Name
from exporter.overhead.snapshot import SnapshotRow, summarise
from exporter.overhead.windows import Block
from exporter.probing.messages import (
    SKIP_REASONS,
    ActivityRead,
    Beat,
    BoostedNow,
    BudgetsUsed,
    Building,
    CollectorDone,
    LockSeen,
    PairChecked,
    SnapshotDone,
    StandbysRead,
    StateRead,
    TargetFailed,
    TargetReached,
    TickDone,
    ToParent,
    target_of,
)


class Ledger:
    """Counts what happened and knows what is true now. Thread-safe.

    Rules, in short: unknown is never 0; counters of known label sets start at 0 (not those of every
    possible failure: thirteen reasons for each side of each operation would be half of a target's
    series, so only timeouts start at 0); gauges of a target that cannot be read are gone after two
    intervals of the collector they come from; overhead exists only while its pair is valid; what
    cannot be true is ignored and counted.

    `apply`, `process_up` and the state methods take microseconds; `view`, `blocks` and
    `snapshot_rows` may take tenths of a second and keep none of the others waiting.
    """

    def __init__(self, settings: Settings, clock: Clock, whole: Settings | None = None) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._books = {target.name: TargetBook(settings, target) for target in settings.targets}
        self._statistics = Statistics(outlines_of(settings), clock)
        # Held by whoever makes a view, and by whoever exchanges the targets: no view shows half of an exchange.
        self._whole = threading.Lock()
        self._config = _config_view(whole or settings, len(settings.targets), clock)
        self._snapshots: dict[str, Snapshot] = {}
        self._rows: dict[str, tuple[Snapshot, tuple[SnapshotRow, ...]]] = {}
        self._served_by: dict[str, int] = {}
        self._processes: dict[int, bool] = {}
        self._starts: Counter[int] = Counter()
        self._skipped = Counter(dict.fromkeys(SKIP_REASONS, 0))
        self._lateness, self._noise = Histogram(LATENESS_BUCKETS), Histogram(NOISE_BUCKETS)
        self._noise_hour = NoiseHour()
        self._abandoned = self._clock_steps = self._dropped = self._state_errors = 0
        self._state_bytes: int | None = None
        self.web: WebView | None = None
        """What the web server says of itself, for the next view."""

    # -- what comes in -----------------------------------------------------------------------------------

    def apply(self, message: ToParent, process: int) -> None:
        """Take one message of a probe process; what concerns nobody configured is ignored."""
        with self._lock:
            now = self._clock.paced()
            if isinstance(message, Beat):
                self._beat(message, now)
                return
            target = target_of(message)
            if book := self._books.get(target):
                if not isinstance(message, SnapshotDone):
                    self._served_by[target] = process
                self._note(book, message, now)

    def assign(self, process: int, targets: Iterable[str]) -> None:
        """Say beforehand which targets a probe process serves; otherwise its messages tell. Nothing is known about them
        before it is up."""
        with self._lock:
            served = dict.fromkeys(targets, process)
            self._served_by.update(served)
            if not self._processes.setdefault(process, False):
                for target in served.keys() & self._books.keys():
                    self._books[target].lost()

    def process_up(self, process: int, up: bool) -> None:
        """A probe process came up or went down; when it is down, nothing is known about its targets."""
        with self._lock:
            self._starts[process] += up and not self._processes.get(process, False)
            self._processes[process] = up
            if not up:
                for target, book in self._books.items():
                    if self._served_by.get(target) == process:
                        book.lost()

    def process_gone(self, process: int) -> None:
        """There will be no probe process of that number any more, or one that has nothing to do with it."""
        with self._lock:
            self._processes.pop(process, None)
            self._starts.pop(process, None)

    def restore_state(self, key: SeriesKey, state: Mapping[str, Any]) -> None:
        """Take what `states` gave to an earlier process, before its blocks. Raises ValueError when it is damaged."""
        self._statistics.restore_state(key, state)

    def restore(self, key: SeriesKey, block: Block) -> None:
        """Take a block of observations of the last day from the history."""
        self._statistics.restore(key, block)

    def restore_snapshot(self, snapshot: Snapshot) -> None:
        """Take a dense measurement from the history; it says nothing about whether the target is up now."""
        with self._lock:
            if snapshot.target in self._books:
                self._snapshots[snapshot.target] = screened_snapshot(snapshot)[0]

    def set_events(self, target: str, events: Iterable[Event]) -> None:
        """All events of a target that are known; the newest are shown."""
        with self._lock:
            if book := self._books.get(target):
                book.baselines.set_events(events)

    def set_baselines(self, target: str, baselines: Iterable[PairBaseline]) -> None:
        """All baselines of a target."""
        with self._lock:
            if book := self._books.get(target):
                book.baselines.set_baselines(baselines)
                self._refer(book)

    def hold_off(self, target: str, at: float) -> None:
        """A database was restarted, or another one took over, at `at` (Unix time): its caches are cold."""
        self._statistics.hold_off(target, self._clock.steady_at(at))

    def date(self, key: SeriesKey, name: Name, dated: Dated) -> None:
        """When what led to a breach began."""
        self._statistics.date(key, name, dated)

    def open_epoch(self, target: str, event: str) -> None:
        """From now on nothing is mixed with what was measured before that event (its id)."""
        with self._lock:
            if book := self._books.get(target):
                book.epoch_event = event

    def state_size(self, size: int) -> None:
        """Size of the history on disk in bytes."""
        with self._lock:
            self._state_bytes = count(size)

    def state_errors(self, errors: int) -> None:
        """How often the history could not be read or written since the start; never falls."""
        with self._lock:
            self._state_errors = max(self._state_errors, errors)

    def change(self, settings: Settings, changes: Changes, whole: Settings | None = None) -> frozenset[SeriesKey]:
        """Take up other settings, between two views; `whole` are those with the targets of other shards. What was
        counted of targets that are kept or changed goes on, what was known of removed ones is gone.

        Which series shall be filled from the history: those of added targets, and those that are measured otherwise.
        """
        outlines = outlines_of(settings)
        made = {
            target.name: TargetBook(settings, target) for target in settings.targets if target.name not in changes.kept
        }
        for book in made.values():
            book.lost()
        with self._whole:
            with self._lock:
                books = {target.name: made.get(target.name) or self._books[target.name] for target in settings.targets}
                for name in changes.changed:
                    books[name].take_over(self._books[name])
                self._books = books
                for name in changes.removed:
                    for held in (self._snapshots, self._rows, self._served_by):
                        held.pop(name, None)
            anew = self._statistics.change(outlines, changes.added)
            with self._lock:
                self._config = _config_view(whole or settings, len(settings.targets), self._clock)
        return anew

    def change_refused(self) -> None:
        """There is a configuration that could not be taken up."""
        with self._lock:
            self._config = replace(self._config, reloaded=False)

    # -- what comes out ----------------------------------------------------------------------------------

    def blocks(self) -> list[tuple[SeriesKey, Block]]:
        """All blocks of observations, for the history."""
        return self._statistics.blocks()

    def judge(self) -> None:
        """Judge what nobody has looked at for a while; for a bounded time. Call it about once a second."""
        self._statistics.judge(self._plans(), unseen_for=NOBODY_LOOKED)

    def changes(self) -> list[Change]:
        """The breaches that began and ended since the last call, oldest first."""
        return self._statistics.changes()

    def lasting(self) -> list[Change]:
        """The breaches that last, as when they began."""
        return self._statistics.lasting()

    def states(self) -> Iterator[tuple[SeriesKey, dict[str, Any]]]:
        """What a restart needs of each series beside its blocks, for JSON; some tenths of a millisecond each."""
        return self._statistics.states()

    def boost_wanted(self, target: str) -> frozenset[tuple[str, Operation]]:
        """Pairs and operations of which more samples would bring a decision nearer."""
        return self._statistics.boost_wanted(target)

    def events(self, target: str) -> tuple[Event, ...]:
        """The newest events of a target, newest first."""
        with self._lock:
            book = self._books.get(target)
            return () if book is None else book.baselines.events

    def snapshot_rows(self, target: str) -> tuple[SnapshotRow, ...]:
        """The latest dense measurement of a target, judged; empty when there was none."""
        with self._lock:
            snapshot = self._snapshots.get(target)
            cached = self._rows.get(target)
        if snapshot is None:
            return ()
        if cached is not None and cached[0] is snapshot:
            return cached[1]
        with self._lock:
            book = self._books.get(target)
            certifying = frozenset[str]() if book is None else book.certifying
        rows = summarise(snapshot, certifying)
        with self._lock:
            if target in self._books:
                self._rows[target] = (snapshot, rows)
        return rows

    def facts(self, target: str) -> TargetFacts | None:
        """What was found out about a target at its last connect."""
        with self._lock:
            book = self._books.get(target)
            return None if book is None else book.facts

    def view(self) -> View:
        """Everything as it is now."""
        with self._whole:
            judgements = self._statistics.judged(self._plans())
            rows = {target: self.snapshot_rows(target) for target in self._books}
            with self._lock:
                wanted = [key for book in self._books.values() for key in book.baselines.wanted]
            levels = self._statistics.levels(wanted)
            with self._lock:
                now = self._clock.paced()
                targets = tuple(
                    book.view(now, judgements, rows[name], self._taken(name), levels)
                    for name, book in self._books.items()
                )
                return View(self._clock.wall(), targets, self._exporter_view(now))

    # -- steps -------------------------------------------------------------------------------------------

    def _note(self, book: TargetBook, message: ToParent, now: float) -> None:
        match message:
            case TickDone(tick):
                if (counted := book.tick(tick, now)) is not None:
                    self._statistics.offer(counted)
            case TargetReached():
                book.reached(message, now)
            case TargetFailed():
                book.failed(message)
            case PairChecked():
                book.pair_checked(message, now)
                name = message.facts.pair
                if (certifying := book.found_certifying(name)) is not None:
                    self._statistics.certifying(book.settings.name, name, certifying)
                self._refer(book)
            case StateRead():
                book.state_read(message, now)
            case ActivityRead():
                book.activity_read(message, now)
            case StandbysRead():
                book.standbys_read(message, now)
            case CollectorDone():
                book.collector_done(message, now)
            case LockSeen():
                book.lock_seen(message, now)
            case BudgetsUsed():
                book.budgets_used(message, now)
            case BoostedNow():
                book.set_boosted(message.keys)
            case Building():
                book.building(message, now)
            case SnapshotDone(snapshot):
                self._snapshots[snapshot.target] = book.snapshot_done(snapshot)
            case _:
                raise TypeError(f"a probe process does not say {type(message).__name__}")

    def _refer(self, book: TargetBook) -> None:
        """Baselines came or went, or the twins changed places: what each series is held against."""
        for key, ratios in book.references():
            self._statistics.set_references(key, ratios)

    def _plans(self) -> dict[SeriesKey, Plan]:
        with self._lock:
            now = self._clock.paced()
            return dict(plan for book in self._books.values() for plan in book.plans(now))

    def _beat(self, beat: Beat, now: float) -> None:
        self._lateness.observe(beat.lateness)
        self._noise.observe(beat.noise)
        self._noise_hour.observe(beat.noise, now)
        for (_, cause), runs in beat.skipped.items():
            if cause in self._skipped:
                self._skipped[cause] += max(0, runs)
        self._abandoned += max(0, beat.abandoned)
        self._clock_steps += max(0, beat.clock_steps)
        self._dropped += max(0, beat.dropped)
        for target, share in beat.load_ratios.items():
            if book := self._books.get(target):
                book.load(share)

    def _taken(self, target: str) -> float | None:
        snapshot = self._snapshots.get(target)
        return None if snapshot is None else snapshot.started

    def _exporter_view(self, now: float) -> ExporterView:
        return ExporterView(
            version=__version__,
            python=platform.python_version(),
            processes=MappingProxyType(dict(self._processes)),
            process_starts=MappingProxyType({process: self._starts[process] for process in self._processes}),
            skipped=MappingProxyType(dict(self._skipped)),
            lateness=self._lateness.view(),
            noise=self._noise.view(),
            lanes_abandoned=self._abandoned,
            clock_steps=self._clock_steps,
            messages_dropped=self._dropped,
            state_bytes=self._state_bytes,
            state_errors=self._state_errors,
            recent_noise=self._noise_hour.view(now),
            config=self._config,
            web=self.web,
        )


def _config_view(whole: Settings, own: int, clock: Clock) -> ConfigView:
    return ConfigView(True, clock.wall(), fingerprint(whole), whole.own_shard, own, len(whole.targets))
