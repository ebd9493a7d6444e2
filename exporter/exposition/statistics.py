"""The statistics of all series, kept apart from the counters, so that heavy statistics delay no message.

Ticks are queued by whoever delivers messages and taken by whoever asks for numbers. A judgement costs
some tenths of a millisecond; one call of `judged` spends a bounded time on those that changed, oldest first,
and answers with the previous one for the rest.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from exporter.config.schema import PairSettings, Settings, TargetSettings
from exporter.domain.clock import Clock
from exporter.domain.model import Operation, SeriesKey, Tick
from exporter.exposition.series_book import Change, Dated, Judged, Levels, Outline, Plan, SeriesBook
from exporter.overhead.evidence import Name
from exporter.overhead.ratio import Ratio
from exporter.overhead.windows import Block

log = logging.getLogger(__name__)

MOST_WAITING = 64
"""Ticks that may wait for each series; a tick of forty samples takes ten kilobytes until it is in its window."""

MOST_SECONDS = 0.1
"""What one call may spend on judgements, give or take one of them."""

OLDEST_JUDGEMENT = 60.0
"""A series is judged anew after that time even if no tick came: samples leave the window, and silence says something."""

NOBODY_LOOKED = 30.0
"""After that time whoever keeps the daemon going judges a series, whether or not somebody looks at the page."""

Plans = Mapping[SeriesKey, Plan]


def outlines_of(settings: Settings) -> dict[SeriesKey, Outline]:
    """All series of a configuration."""

    def outline(target: TargetSettings, pair: PairSettings, operation: Operation) -> Outline:
        measured = settings.operation(operation)
        besides = (95,) if measured.percentile_95 else ()
        return Outline(pair.phase, measured.samples, settings.intervals_of(target).canary, besides)

    return {
        SeriesKey(target.name, pair.name, operation): outline(target, pair, operation)
        for target in settings.targets
        for pair in target.pairs
        for operation in target.canary_operations
    }


class Statistics:
    """All series and what they say. Thread-safe; `offer` waits only when nobody asked for numbers for long.

    `outlines` names all series that there are.
    """

    def __init__(self, outlines: Mapping[SeriesKey, Outline], clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        began = clock.steady()
        self._books = {key: SeriesBook(key, outline, began) for key, outline in outlines.items()}
        self._plans = {key: Plan(outline.period) for key, outline in outlines.items()}

    # -- what comes in -----------------------------------------------------------------------------------

    def offer(self, tick: Tick) -> None:
        """Queue a tick that was tried, one that was dropped as well; ticks of series nobody configured are ignored."""
        book = self._books.get(SeriesKey(tick.target, tick.pair, tick.operation))
        if book is not None and book.offer(tick, self._clock.steady()) > MOST_WAITING:
            with self._lock:
                book.drain()

    def certifying(self, target: str, pair: str, certifying: bool) -> None:
        """Whether both twins of a pair are plain now: then its series have no verdict. Waits for nobody."""
        for key, book in self._books.items():
            if (key.target, key.pair) == (target, pair):
                book.certify(certifying, self._clock.steady())

    def hold_off(self, target: str, at: float) -> None:
        """A database was restarted, or another one took over, at `at` (steady seconds). Waits for nobody."""
        for key, book in self._books.items():
            if key.target == target:
                book.hold_off(at)

    def set_references(self, key: SeriesKey, ratios: Mapping[int, Ratio] | None) -> None:
        """What the twins of a series differed by in the baseline, by percentile; None where there is none. Waits for nobody."""
        if book := self._books.get(key):
            book.refer(ratios, self._clock.steady())

    def change(self, outlines: Mapping[SeriesKey, Outline], fresh: Collection[str]) -> frozenset[SeriesKey]:
        """From now on there are these series and no others; those of the targets `fresh` begin anew. What was known of one
        that is measured otherwise than before goes on, as after a restart.

        Which series do not have all that the history has of them.
        """
        with self._lock:
            now, books = self._clock.steady(), dict[SeriesKey, SeriesBook]()
            anew = set()
            for key, outline in outlines.items():
                old = None if key.target in fresh else self._books.get(key)
                if old is not None and old.outline == outline:
                    books[key] = old
                    continue
                anew.add(key)
                books[key] = book = SeriesBook(key, outline, now)
                if old is not None:
                    book.take_over(old, now)
            self._plans = {key: Plan(outline.period) for key, outline in outlines.items()}
            self._books = books
            return frozenset(anew)

    def restore(self, key: SeriesKey, block: Block) -> None:
        """Take a block of the last day that an earlier process wrote down; one that cannot be true is left out."""
        with self._lock:
            if book := self._books.get(key):
                try:
                    book.restore(block, self._clock.steady())
                except ValueError as error:
                    log.warning("a block of the history is left out: %s", error)

    def restore_state(self, key: SeriesKey, state: Mapping[str, Any]) -> None:
        """Take what else an earlier process wrote down (`states`), before blocks and ticks. Raises ValueError when it is
        damaged."""
        with self._lock:
            if book := self._books.get(key):
                book.restore_state(state)

    def date(self, key: SeriesKey, name: Name, dated: Dated) -> None:
        """When what led to a breach began."""
        with self._lock:
            if book := self._books.get(key):
                book.date(name, dated)

    # -- what comes out ----------------------------------------------------------------------------------

    def judge(self, plans: Plans, *, unseen_for: float = 0.0) -> None:
        """Judge, for a bounded time, the series that changed or were last judged long ago; of these only such as were
        not judged for `unseen_for` seconds. `plans` holds how they are measured now, where that is known."""
        with self._lock:
            self._drain()
            begun = self._clock.monotonic()
            for book in sorted(self._books.values(), key=lambda book: book.judged):
                now = self._clock.paced()
                if self._clock.monotonic() - begun > MOST_SECONDS or now - book.judged < unseen_for:
                    break
                if book.changed or now - book.judged >= OLDEST_JUDGEMENT:
                    book.judge(self._clock.steady(), plans.get(book.key) or self._plans[book.key], now)

    def judged(self, plans: Plans) -> dict[SeriesKey, Judged]:
        """The newest judgement of every series."""
        self.judge(plans)
        with self._lock:
            return {key: book.known(self._clock) for key, book in self._books.items()}

    def changes(self) -> list[Change]:
        """The breaches that began and ended since the last call."""
        with self._lock:
            found = [change for book in self._books.values() for change in book.changes]
            for book in self._books.values():
                book.changes.clear()
        return sorted(found, key=lambda change: change.at)

    def lasting(self) -> list[Change]:
        """The breaches that last, as when they began."""
        with self._lock:
            return [change for book in self._books.values() for change in book.lasting()]

    def boost_wanted(self, target: str) -> frozenset[tuple[str, Operation]]:
        """Pairs and operations of a target of which more samples would bring a decision nearer. Waits for nobody."""
        return frozenset(
            (key.pair, key.operation) for key, book in self._books.items() if key.target == target and book.boost_wanted
        )

    def blocks(self) -> list[tuple[SeriesKey, Block]]:
        """Every block in the windows of an hour, for the history."""
        with self._lock:
            self._drain()
            return [(key, block) for key, book in self._books.items() for block in book.series.window.blocks()]

    def states(self) -> Iterator[tuple[SeriesKey, dict[str, Any]]]:
        """What must be kept of each series beside its blocks; whoever delivers ticks may go on in between."""
        for key, book in self._books.items():
            with self._lock:
                book.drain()
                state = book.to_state()
            yield key, state

    def levels(self, keys: Iterable[SeriesKey]) -> dict[SeriesKey, Levels]:
        """What the closed blocks of some series say about each side for itself."""
        with self._lock:
            self._drain()
            now = self._clock.steady()
            return {key: self._books[key].level(now) for key in keys if key in self._books}

    def _drain(self) -> None:
        for book in self._books.values():
            book.drain()
