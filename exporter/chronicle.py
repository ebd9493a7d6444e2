"""Events, epochs and baselines of all targets, between what arrives, the history, and the ledger.

What arrives is looked at at once, for an event opens a new epoch before the next tick is counted. Everything that
touches the history happens in `step`, in the thread that keeps it; what could not be written is tried again.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Collection, Iterable

from exporter.config.changes import Changes
from exporter.config.schema import Settings
from exporter.domain.clock import Clock
from exporter.domain.errors import HistoryError, TdeExporterError
from exporter.domain.events import COOLS, FREEZES_BASELINE, OPENS_EPOCH, Event, Origin
from exporter.domain.model import PairFacts
from exporter.exposition.activity import screened_activity
from exporter.exposition.facts import screened_facts, screened_pair, screened_state
from exporter.exposition.ledger import Ledger
from exporter.exposition.screening import words
from exporter.freezing import USUAL_SECONDS, freeze_pair
from exporter.history.records import EVENT_WATCH, OPEN_EPOCH, STATE_VERSION, State, StateKey
from exporter.history.store import History
from exporter.overhead.event_watch import EventWatch
from exporter.probing.messages import ActivityRead, PairChecked, StateRead, TargetReached, ToParent

SAVE_SECONDS = 10.0
"""What is only known, and no event, is written this often."""
LATE_SECONDS = 3600.0
"""A mark for a moment longer ago than the window of the statistics opens no epoch: nothing from before is in it."""
MOST_KNOWN = 500
"""Events of one target that are kept in memory."""


log = logging.getLogger(__name__)


class Chronicle:
    """Thread-safe. `failed` hears of every error of the history."""

    def __init__(
        self, settings: Settings, history: History, ledger: Ledger, clock: Clock, failed: Callable[[HistoryError], None]
    ) -> None:
        self._settings, self._history, self._ledger, self._clock, self._failed = (
            settings,
            history,
            ledger,
            clock,
            failed,
        )
        self._lock = threading.Lock()
        names = [target.name for target in settings.targets]
        self._watches = {name: EventWatch(name) for name in names}
        self._saved = dict.fromkeys(names, 0)
        self._events: dict[str, dict[str, Event]] = {name: {} for name in names}
        self._epochs: dict[str, str] = {}
        self._unsaved: dict[str, Event] = {}
        self._checked: dict[tuple[str, str], tuple[PairFacts, float]] = {}
        self._noted: dict[tuple[str, str], str] = {}
        self._due: list[Event] = []
        self._wrote = clock.monotonic()

    def restore(self) -> None:
        """Take up what an earlier process knew; before anything is heard. Raises HistoryError."""
        self._history.records.forget_states(self._watches.keys())
        self._restore_states(self._watches.keys())
        self._history.changed_elsewhere()
        self._read(self._watches.keys())

    def _restore_states(self, targets: Collection[str]) -> None:
        """Of targets of which nothing is heard yet."""
        if not targets:
            return
        known, opened = (self._history.records.states(name) for name in (EVENT_WATCH, OPEN_EPOCH))
        with self._lock:
            for key, state in known.items():
                if key.target not in targets:
                    continue
                try:
                    if state.version != STATE_VERSION:
                        raise ValueError(f"unknown version {state.version}")
                    self._watches[key.target] = EventWatch.from_state(key.target, json.loads(state.body))
                except (ValueError, KeyError) as error:
                    log.warning("what was known of '%s' is left out: %s", key.target, error)
            for key, state in opened.items():
                if key.target in targets:
                    self._open_epoch(key.target, state.body.decode("ascii", "replace"))

    def change(self, settings: Settings, changes: Changes) -> None:
        """Forget what was known of targets that are configured no more, and take up what the history has of new ones.
        Raises HistoryError when that cannot be read."""
        with self._lock:
            self._settings = settings
            for name in changes.removed:
                for known in (self._watches, self._saved, self._events, self._epochs):
                    known.pop(name, None)
            for name in changes.added:
                self._watches[name], self._saved[name], self._events[name] = EventWatch(name), 0, {}
            pairs = {(target.name, pair.name) for target in settings.targets for pair in target.pairs}
            self._checked = {place: held for place, held in self._checked.items() if place in pairs}
            self._noted = {place: epoch for place, epoch in self._noted.items() if place in pairs}
        self._history.records.forget_states(self._watches.keys())
        self._restore_states(changes.added)
        self._read(changes.added)

    # -- what arrives ------------------------------------------------------------------------------------

    def hear(self, message: ToParent) -> None:
        """Look for events in one message; takes microseconds."""
        at = self._clock.wall()
        with self._lock:
            match message:
                case TargetReached(target, facts) if watch := self._watches.get(target):
                    found = watch.facts(screened_facts(facts), at)
                case PairChecked(target, facts) if watch := self._watches.get(target):
                    pair = screened_pair(facts)[0]
                    found = watch.pair(pair, at)
                    self._checked[target, pair.pair] = (pair, at)
                case StateRead(target, state) if watch := self._watches.get(target):
                    found = watch.state(screened_state(state)[0], at)
                case ActivityRead(target, activity) if watch := self._watches.get(target):
                    found = watch.activity(screened_activity(activity)[0], at)
                case _:
                    return
            for event in found:
                log.info("event", extra={"target": event.target, "kind": event.kind.value, "what": event.text})
                self._unsaved[event.id] = event
                self._take(event)
            if found:
                self._show(found)

    # -- what is kept ------------------------------------------------------------------------------------

    @property
    def freezes(self) -> bool:
        """Whether the next step will freeze a baseline: the newest observations should be in the history by then."""
        with self._lock:
            return any(event.kind in FREEZES_BASELINE for event in self._due)

    def step(self) -> None:
        """Write what is new, read what others wrote, freeze what is due. Once a second; cheap when nothing happened."""
        try:
            if self._history.changed_elsewhere():
                self._read(self._watches.keys())
            self._write()
            self._freeze()
        except HistoryError as error:
            self._failed(error)

    def write_anew(self) -> None:
        """The history was begun anew: all that is known goes into it again, as far as it is remembered."""
        with self._lock:
            self._unsaved = {key: event for events in self._events.values() for key, event in events.items()}
            self._saved = dict.fromkeys(self._saved, -1)
            self._noted.clear()

    def close(self) -> None:
        """Write what is known, for the next process."""
        self._wrote = float("-inf")
        self.step()

    # -- steps -------------------------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        """Remember an event that is new, and draw the conclusions. The caller shows it."""
        current = self._events[event.target].get(self._epochs.get(event.target, ""))
        self._remember(event)
        late = self._clock.wall() - event.at >= LATE_SECONDS or (current is not None and current.at > event.at)
        if event.kind in OPENS_EPOCH and not late:
            self._open_epoch(event.target, event.id)
            self._saved[event.target] = -1
        if event.kind in COOLS:
            self._ledger.hold_off(event.target, event.at)
        self._due.append(event)

    def _remember(self, event: Event) -> None:
        events = self._events[event.target]
        events[event.id] = event
        if len(events) > MOST_KNOWN:
            del events[min(events.values(), key=lambda held: held.at).id]

    def _open_epoch(self, target: str, event: str) -> None:
        if target in self._watches:
            self._epochs[target] = event
            self._ledger.open_epoch(target, event)

    def _show(self, events: Iterable[Event]) -> None:
        for target in {event.target for event in events}:
            self._ledger.set_events(target, self._events[target].values())

    def _read(self, targets: Collection[str]) -> None:
        """Take in what is in the history of these targets: at first, and when another process has written."""
        untaken = self._history.records.untaken() if targets else set()
        for target in targets:
            watch = self._watches[target]
            baselines = self._history.baselines.all(target)
            found = self._history.records.events(target, MOST_KNOWN)
            with self._lock:
                for event in reversed(found):
                    if event.id in self._events[target]:
                        continue
                    if event.id not in untaken:
                        self._remember(event)
                        continue
                    if event.origin is Origin.MARKED:
                        watch.marked(event)
                    self._take(event)
                self._ledger.set_events(target, self._events[target].values())
            self._ledger.set_baselines(target, baselines)

    def _write(self) -> None:
        with self._lock:
            events = dict(self._unsaved)
            stale = self._clock.monotonic() - self._wrote >= SAVE_SECONDS
            changed = {
                target: watch.changes
                for target, watch in self._watches.items()
                if self._saved[target] != watch.changes and (stale or events or self._saved[target] < 0)
            }
            states = {}
            for target in changed:
                body = json.dumps(self._watches[target].to_state(), separators=(",", ":")).encode()
                states[StateKey(EVENT_WATCH, target)] = State(STATE_VERSION, body)
                if target in self._epochs:
                    states[StateKey(OPEN_EPOCH, target)] = State(STATE_VERSION, self._epochs[target].encode())
            checked = {place: held for place, held in self._checked.items() if self._noted.get(place) != held[0].epoch}
            waiting = {event.id for event in self._due}
        if events or states:
            self._history.records.record(events.values(), states)
            self._history.records.taken(events.keys() - waiting)
        for (target, pair), (facts, at) in checked.items():
            self._history.records.save_epoch(target, facts, at)
            self._noted[target, pair] = facts.epoch
        with self._lock:
            for key in events:
                self._unsaved.pop(key, None)
            self._saved |= {target: number for target, number in changed.items() if target in self._watches}
            if states:
                self._wrote = self._clock.monotonic()

    def _freeze(self) -> None:
        """Draw the last conclusion from each new event: keep what was measured before as a baseline."""
        while True:
            with self._lock:
                if not self._due:
                    return
                event = self._due[0]
            if event.kind in FREEZES_BASELINE and (target := self._settings.target(event.target)):
                for pair in target.pairs:
                    if event.pair in ("", pair.name):
                        self._freeze_pair(event, pair.name)
                self._ledger.set_baselines(event.target, self._history.baselines.all(event.target))
            self._history.records.taken([event.id])
            with self._lock:
                self._due.remove(event)

    def _freeze_pair(self, event: Event, pair: str) -> None:
        # Between the last look and the first that saw it, nobody knows what was measured.
        until = self._clock.steady_at(event.before if event.before is not None else event.at)
        try:
            baseline = freeze_pair(
                self._history,
                event.target,
                pair,
                until - USUAL_SECONDS,
                until,
                self._clock.wall(),
                event.id,
                event.text,
            )
        except HistoryError:
            raise
        except TdeExporterError as error:
            log.info("no baseline", extra={"event": event.id, "why": words(error)})
            return
        number = self._history.baselines.save(baseline).id
        log.info("a baseline was frozen", extra={"baseline": number, "target": event.target, "pair": pair})
