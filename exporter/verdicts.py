"""The verdicts of all series, between the ledger and the history: kept, dated, and told in the log.

Everything happens in `step`, in the thread that keeps the history, but for what is taken up at the start. What could not
be written is tried again.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import chain
from typing import Any

from exporter.breach_words import exceeded, since
from exporter.config.changes import Changes
from exporter.domain.clock import Clock
from exporter.domain.errors import HistoryError
from exporter.domain.model import Operation, SeriesKey
from exporter.exposition.ledger import Ledger
from exporter.exposition.series_book import WINDOWS, Change, Dated
from exporter.history.records import STATE_VERSION, VERDICT, WANDERING, State, StateKey
from exporter.history.store import History
from exporter.overhead.onset import find_onset
from exporter.overhead.windows import Block

SAVE_SECONDS = 10.0
SHARE = 100.0
"""States are written at most that part of the time: with a thousand series they are a MiB, and take half a second."""
HOUR_SECONDS, DAY_SECONDS = 3900.0, 26 * 3600.0
"""What the windows of an hour, and those of a day, are filled with at the start."""
START_SECONDS, STEP_SECONDS = 1.0, 0.2
"""What the start, and one step, may spend on filling days, give or take one block: a day of a series takes a tenth of a
second. The same holds for dating breaches."""
REVISED_SECONDS = 2400.0
"""A breach is dated when it begins and once more after that time: a split leaves half an hour on either side, and
what doubles the cost is found sooner."""

BLOCK = 300.0

log = logging.getLogger(__name__)


class Verdicts:
    """Not thread-safe. `failed` hears of every error of the history."""

    def __init__(self, history: History, ledger: Ledger, clock: Clock, failed: Callable[[HistoryError], None]) -> None:
        self._history, self._ledger = history, ledger
        self._clock, self._failed = clock, failed
        self._older: Iterator[tuple[SeriesKey, Block]] = iter(())
        self._saved: dict[StateKey, bytes] = {}
        self._learned: dict[StateKey, list[object]] = {}
        self._due = clock.monotonic() + SAVE_SECONDS
        self._undated: deque[Change] = deque()
        self._again: list[Change] = []

    # -- the start ---------------------------------------------------------------------------------------

    def restore(self) -> None:
        """Take up what an earlier process knew, before any tick: all verdicts, the last hour of blocks, and as much of the
        last day as is quickly read; `step` reads the rest. Raises HistoryError."""
        self._restore_states()
        self._again = self._to_date_again()
        now = self._clock.steady()
        for key, block in self._history.load_blocks(now - HOUR_SECONDS):
            self._ledger.restore(key, block)
        self._older = self._history.load_blocks(now - DAY_SECONDS, now - HOUR_SECONDS)
        self._fill_days(START_SECONDS)

    def change(self, changes: Changes, anew: Collection[SeriesKey]) -> None:
        """Forget the verdicts on targets that are configured no more; take up those that were imported for new ones, and
        fill the series `anew` from the history: the last hour at once, `step` the rest of the day. Raises HistoryError."""
        gone = changes.removed
        # Of changed ones everything is written once more: so nothing is remembered of series that they have no more.
        self._saved = {place: body for place, body in self._saved.items() if place.target not in changes.leaving}
        self._learned = {place: parts for place, parts in self._learned.items() if place.target not in changes.leaving}
        self._undated = deque(change for change in self._undated if change.key.target not in gone)
        self._again = [change for change in self._again if change.key.target not in gone]
        self._restore_states(changes.added)
        self._again += [change for change in self._to_date_again() if change.key.target in changes.added]
        now = self._clock.steady()
        for target in sorted({key.target for key in anew}):
            wanted = frozenset(key for key in anew if key.target == target)
            for key, block in self._blocks_of(target, wanted, now - HOUR_SECONDS, now + BLOCK):
                self._ledger.restore(key, block)
            self._older = chain(
                self._older, self._blocks_of(target, wanted, now - DAY_SECONDS, now - HOUR_SECONDS + BLOCK)
            )

    def _blocks_of(
        self, target: str, wanted: Collection[SeriesKey], since: float, until: float
    ) -> Iterator[tuple[SeriesKey, Block]]:
        for key, stretch in self._history.load_span(since, until, target):
            if key in wanted and stretch.seconds == BLOCK:
                yield key, stretch.block

    def _restore_states(self, targets: Collection[str] | None = None) -> None:
        """Those of some targets, or of all."""
        if targets is not None and not targets:
            return
        wandering = self._history.records.states(WANDERING)
        for place, state in self._history.records.states(VERDICT).items():
            if targets is not None and place.target not in targets:
                continue
            try:
                key = SeriesKey(place.target, place.pair, Operation(place.operation))
                self._restore_state(key, place, _decoded(state), wandering.get(place._replace(name=WANDERING)))
            except ValueError as error:
                self._left_out(place, error)

    def _to_date_again(self) -> list[Change]:
        # What began longer ago was dated when there was more to date it by.
        late = self._clock.steady() - REVISED_SECONDS - HOUR_SECONDS
        return [change for change in self._ledger.lasting() if change.at > late]

    def _restore_state(self, key: SeriesKey, place: StateKey, body: dict[str, Any], windows: State | None) -> None:
        """Raises ValueError."""
        try:
            self._ledger.restore_state(key, body | ({} if windows is None else _decoded(windows)))
        except ValueError as error:
            # How much a ratio wanders can be learned anew; a breach that is forgotten ends for no reason.
            self._ledger.restore_state(key, body)
            self._left_out(place._replace(name=WANDERING), error)

    def _left_out(self, place: StateKey, error: ValueError) -> None:
        what = "verdict" if place.name == VERDICT else "wandering"
        about = {"target": place.target, "pair": place.pair, "operation": place.operation}
        log.warning("the %s of a series is left out: %s", what, error, extra=about)

    def _fill_days(self, seconds: float = STEP_SECONDS) -> None:
        begun = self._clock.monotonic()
        for key, block in self._older:
            self._ledger.restore(key, block)
            if self._clock.monotonic() - begun > seconds:
                return
        self._older = iter(())

    # -- as time passes ----------------------------------------------------------------------------------

    def step(self) -> None:
        """Judge what nobody looked at, date and tell what began and ended, write it down. About once a second."""
        self._ledger.judge()
        changes = self._ledger.changes()
        for change in changes:
            if change.begun:
                self._undated.append(change)
            else:
                ended = "no longer asked" if change.dropped else "no longer over budget"
                log.info("%s: %s", ended, exceeded(change.name), extra=_about(change))
        try:
            if self._date() or changes or self._clock.monotonic() >= self._due:
                self._write()
            self._fill_days()
        except HistoryError as error:
            self._failed(error)

    def write_anew(self) -> None:
        """The history was begun anew: everything goes into it again."""
        self._saved.clear()
        self._learned.clear()

    def close(self) -> None:
        """Write what is known, for the next process."""
        self._due = float("-inf")
        self.step()

    def _write(self) -> None:
        begun = self._clock.monotonic()
        states: dict[StateKey, bytes] = {}
        learned: dict[StateKey, list[object]] = {}
        for key, state in self._ledger.states():
            windows = {part: state.pop(part) for part in WINDOWS}
            states[StateKey.of(VERDICT, key)] = _encoded(state)
            # They are most of it, and the same objects for an hour.
            place, parts = StateKey.of(WANDERING, key), list(windows.values())
            if not _same(self._learned.get(place), parts):
                states[place], learned[place] = _encoded(windows), parts
        news = {place: body for place, body in states.items() if self._saved.get(place) != body}
        try:
            if news:
                self._history.records.record(states={place: State(STATE_VERSION, body) for place, body in news.items()})
                self._saved |= {place: body for place, body in news.items() if place.name == VERDICT}
                self._learned |= learned
        finally:
            now = self._clock.monotonic()
            self._due = now + max(SAVE_SECONDS, SHARE * (now - begun))

    # -- dating ------------------------------------------------------------------------------------------

    def _date(self) -> bool:
        """Date what began, and once more what began a while ago; whether anything was found."""
        until, found = self._clock.monotonic() + STEP_SECONDS, False
        while self._undated and self._clock.monotonic() <= until:
            change = self._undated.popleft()
            self._again.append(change)
            dated = self._dated(change)
            found |= dated is not None
            self._tell(change, dated)
        due = self._clock.steady() - REVISED_SECONDS
        for change in [change for change in self._again if change.at <= due]:
            if self._clock.monotonic() > until:
                break
            self._again.remove(change)
            found |= self._dated(change) is not None
        return found

    def _dated(self, change: Change) -> Dated | None:
        """When it began, as far as that shows; the ledger hears of it."""
        key = change.key
        try:
            blocks = self._last_day(key, change.at)
        except HistoryError as error:
            self._failed(error)
            return None
        events = [self._clock.steady_at(event.at) for event in self._ledger.events(key.target)]
        # What an event opened an epoch for may be what costs more: then all of the newest epoch does.
        newest = [block for block in blocks if block.epoch == blocks[-1].epoch]
        found = (find_onset(part, change.ratio, events, BLOCK) for part in (newest, blocks))
        onset = next((one for one in found if one is not None), None)
        if onset is None:
            return None
        # A block is known by its start, and what it holds may have begun anywhere in it.
        dated = Dated(onset.at, max(onset.at - onset.earliest, onset.latest - onset.at) + BLOCK)
        self._ledger.date(key, change.name, dated)
        return dated

    def _last_day(self, key: SeriesKey, at: float) -> list[Block]:
        """The closed blocks of the day before `at` and since, as far as the history has them."""
        since, now = at - DAY_SECONDS + 7200.0, self._clock.steady()
        stretches = self._history.load_span(since, now, key.target, key.pair)
        return [found.block for of, found in stretches if of == key and found.seconds == BLOCK]

    def _tell(self, change: Change, dated: Dated | None) -> None:
        onset = None if dated is None else self._clock.wall_at(dated.onset)
        told = since(onset, None if dated is None else self._clock.real(dated.uncertainty), self._clock.wall())
        about = _about(change) | ({"since": told.removeprefix("since ")} if told else {})
        log.warning("over budget: %s", exceeded(change.name), extra=about)


def _about(change: Change) -> dict[str, object]:
    return {"target": change.key.target, "pair": change.key.pair, "operation": change.key.operation.value}


def _same(known: list[object] | None, parts: list[object]) -> bool:
    return known is not None and all(one is other for one, other in zip(known, parts, strict=True))


def _encoded(state: Mapping[str, Any]) -> bytes:
    return json.dumps(state, separators=(",", ":"), allow_nan=False).encode()


def _decoded(state: State) -> dict[str, Any]:
    """Raises ValueError."""
    if state.version != STATE_VERSION:
        raise ValueError(f"unknown version {state.version}")
    body = json.loads(state.body)
    if not isinstance(body, dict):
        raise ValueError("it is no object")
    return body
