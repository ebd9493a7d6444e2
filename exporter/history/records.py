"""What there is little of, and what is kept as long as it is asked for: events, epochs, detectors' states."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from exporter.domain.events import Event, EventKind, Origin
from exporter.domain.model import PairFacts, Phase, SeriesKey, Slot, Variant
from exporter.history.access import Access

MOST_EVENTS = 2000
"""Of one target; older ones are removed."""
MOST_EPOCHS = 200
"""Of one pair; older ones are removed."""

STATE_VERSION = 1
"""Of the bodies of all states that there are."""
EVENT_WATCH, OPEN_EPOCH = "event_watch", "epoch"
"""Names of the states of a target: what is known of it, and the event that opened its epoch."""
VERDICT, WANDERING = "overhead", "overhead_wandering"
"""Names of the states of a series: what changes with each tick, and what changes once an hour and is most of it."""

LEFT, BROUGHT = "left:", "brought:"
"""Before the name of a state that no detector reads. `left:` is one of a target that is watched here no more: it can still
be exported, but should the target come back, somebody else may have watched it since. `brought:` is one that was imported:
it counts from the moment on at which the target is watched here."""

_EVENT_COLUMNS = "target, at, kind, text, origin, pair, not_before"


class StateKey(NamedTuple):
    """Whose state it is: a detector's name, and what it watches. What a name does not concern is empty."""

    name: str
    target: str
    pair: str = ""
    operation: str = ""

    @classmethod
    def of(cls, name: str, series: SeriesKey) -> StateKey:
        """The state that a detector has for a series."""
        return cls(name, series.target, series.pair, series.operation.value)


class State(NamedTuple):
    """Bytes that only their owner understands, and the version of their form by its own count."""

    version: int
    body: bytes


class Epoch(NamedTuple):
    """What verification found in an epoch: the phase, which twin was (or played) the encrypted side, the data."""

    phase: Phase
    slot: Slot
    content: str


class Records:
    """Raises HistoryError; every method is one transaction."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def record(self, events: Iterable[Event] = (), states: Mapping[StateKey, State] | None = None) -> None:
        """Store events and states together: what a detector found, and that it found it. What is there already stays
        (events) or is replaced (states)."""
        with self._access.transaction() as connection:
            for event in events:
                _insert(connection, event)
            connection.executemany(
                "INSERT INTO states (name, target, pair, operation, version, body) VALUES (?, ?, ?, ?, ?, ?) "
                "ON CONFLICT DO UPDATE SET version = excluded.version, body = excluded.body",
                [(*key, *state) for key, state in (states or {}).items()],
            )

    def events(self, target: str | None = None, most: int = MOST_EVENTS) -> list[Event]:
        """The newest events, newest first: of one target, or of all of them."""
        where, values = ("WHERE target = ?", (target,)) if target is not None else ("", ())
        found = []
        for row in self._access.query(
            f"SELECT {_EVENT_COLUMNS} FROM events {where} ORDER BY at DESC, id LIMIT ?", (*values, most)
        ):
            try:
                found.append(_event(row))
            except ValueError as error:
                self._access.skip(f"an event of '{row[0]}'", error)
        return found

    def untaken(self) -> set[str]:
        """Ids of the events from which the daemon has not drawn its conclusions yet."""
        return {str(key) for (key,) in self._access.query("SELECT id FROM events WHERE taken = 0")}

    def taken(self, ids: Iterable[str]) -> None:
        """The conclusions from these events are drawn."""
        with self._access.transaction() as connection:
            connection.executemany("UPDATE events SET taken = 1 WHERE id = ?", [(key,) for key in ids])

    def states(self, name: str) -> dict[StateKey, State]:
        """All states of one detector."""
        rows = self._access.query(
            "SELECT name, target, pair, operation, version, body FROM states WHERE name = ?", (name,)
        )
        return {StateKey(*row[:4]): State(*row[4:]) for row in rows}

    def forget_states(self, targets: Collection[str]) -> None:
        """From now on these targets are watched: their states are those that were imported, where there are any, else what
        an earlier process knew. Those of all others are set aside; no detector finds them again."""
        watched = sorted(targets)
        own = f"target IN ({', '.join('?' * len(watched))})"
        with self._access.transaction() as connection:
            connection.execute(f"DELETE FROM states WHERE name LIKE '{LEFT}%' AND {own}", watched)
            brought = f"name LIKE '{BROUGHT}%' AND {own}"
            connection.execute(
                "DELETE FROM states WHERE name NOT LIKE '%:%' AND target IN "
                f"(SELECT target FROM states WHERE {brought})",
                watched,
            )
            connection.execute(f"UPDATE states SET name = substr(name, {len(BROUGHT) + 1}) WHERE {brought}", watched)
            connection.execute(
                f"UPDATE OR REPLACE states SET name = '{LEFT}' || name WHERE name NOT LIKE '%:%' AND NOT {own}", watched
            )

    def save_epoch(self, target: str, facts: PairFacts, seen: float) -> None:
        """Note what an epoch is; only of valid pairs, for others are not measured."""
        if not facts.valid or facts.found is None or facts.attribution is None:
            return
        slot = facts.attribution[Variant.ENCRYPTED]
        row = (target, facts.pair, facts.epoch, seen, facts.found.value, slot.value, facts.twin(slot).digest or "")
        with self._access.transaction() as connection:
            connection.execute(
                "INSERT INTO epochs (target, pair, epoch, seen, phase, slot, content) VALUES (?, ?, ?, ?, ?, ?, ?) "
                "ON CONFLICT DO UPDATE SET seen = excluded.seen, content = excluded.content",
                row,
            )

    def epoch(self, target: str, pair: str, found: str) -> Epoch | None:
        """What verification found in an epoch; None where that was not written down."""
        rows = self._access.query(
            "SELECT phase, slot, content FROM epochs WHERE target = ? AND pair = ? AND epoch = ?", (target, pair, found)
        )
        try:
            return Epoch(Phase(rows[0][0]), Slot(rows[0][1]), str(rows[0][2])) if rows else None
        except ValueError as error:
            self._access.skip(f"an epoch of '{target}'", error)
            return None


def prune(connection: sqlite3.Connection) -> None:
    """Keep the newest of what would else grow for ever, and no state set aside of which no observation is left; inside a
    transaction."""
    connection.execute("DELETE FROM states WHERE name LIKE '%:%' AND target NOT IN (SELECT target FROM series)")
    connection.execute(
        "DELETE FROM events WHERE id IN (SELECT id FROM (SELECT id, row_number() OVER "
        "(PARTITION BY target ORDER BY at DESC) AS number FROM events) WHERE number > ?)",
        (MOST_EVENTS,),
    )
    connection.execute(
        "DELETE FROM epochs WHERE (target, pair, epoch) IN (SELECT target, pair, epoch FROM (SELECT target, pair, epoch, "
        "row_number() OVER (PARTITION BY target, pair ORDER BY seen DESC) AS number FROM epochs) WHERE number > ?)",
        (MOST_EPOCHS,),
    )


def _insert(connection: sqlite3.Connection, event: Event) -> None:
    connection.execute(
        f"INSERT INTO events (id, {_EVENT_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (
            event.id,
            event.target,
            event.at,
            event.kind.value,
            event.text,
            event.origin.value,
            event.pair,
            event.before,
        ),
    )


def _event(row: tuple[Any, ...]) -> Event:
    target, at, kind, text, origin, pair, before = row
    if not isinstance(at, float) or not isinstance(before, float | None):
        raise ValueError("a time is of the wrong type")
    return Event(str(target), at, EventKind(kind), str(text), Origin(origin), str(pair), before)
