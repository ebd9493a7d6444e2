"""How the history of another exporter is merged into this one: all of a file, or nothing.

Both may have measured the same target for a while, and a target may come back to an exporter that still has what it
measured long ago. So what is there already is not overwritten by less:

* Of two blocks of the same five minutes the one with more samples stays. Where one side has an hour joined already, the
  hours are compared whole; otherwise the same minutes would be counted twice.
* Events and baselines are added, the newer snapshot stays, and of an epoch the later look.
* States are taken for a target as a whole, for they belong together: see `Watched`.
"""

from __future__ import annotations

import os
import pwd
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from exporter.domain.clock import Clock
from exporter.domain.errors import HistoryError
from exporter.history.access import Access
from exporter.history.claim import Claim
from exporter.history.file import PARTS, open_file
from exporter.history.order import checked
from exporter.history.records import BROUGHT, LEFT
from exporter.history.store import FUTURE_SECONDS
from exporter.history.transfer import KINDS, Header, Reading, Row
from exporter.history.watched import Watched
from exporter.overhead.stretches import BLOCK, HOUR, hour_of

ROOM = 64 * 2**20
"""Bytes that stay free on the disk, whatever a file holds."""

_BLOCK, _HOUR = (("start", *KINDS[kind][4:]) for kind in ("blocks", "hours"))
_MEASURED = "encrypted_samples + plain_samples"

_REMEDY = "Stop it, import, and start it again; or leave the file to its next start: --at-restart"

Tally = dict[str, Counter[str]]
"""How many rows of each kind are `new`, `replaced` what was there, were there (`same`), gave way to what was there
(`kept`), or are `outside` of the time that is kept."""


class Taken(NamedTuple):
    """What became of a file."""

    header: Header
    tally: Tally

    @property
    def changed(self) -> bool:
        """Whether anything is there now that was not there before."""
        return any(found["new"] or found["replaced"] for found in self.tally.values())


class Intake:
    """Has the history of one path to itself, and begins it where there is none, until `close`. Raises HistoryError: while
    a daemon runs, and when the history belongs to another user, whose daemon could not use it any more.

    With `at_start` it is the daemon itself, which sets a damaged history aside."""

    def __init__(self, path: Path, retention: float, clock: Clock, *, at_start: bool = False) -> None:
        if not at_start:
            refuse_strangers(path)
        self._path, self._retention, self._clock = path, retention, clock
        self._claim = Claim(path) if at_start else Claim(path, _REMEDY)
        self._begun = not path.exists()
        self._used = False
        try:
            self._access = Access(path, open_file(path, clock.wall(), set_aside=at_start))
        except BaseException:
            self._claim.release()
            raise

    def take(self, name: str, pieces: Iterable[bytes]) -> Taken:
        """Merge one file, in one transaction: an error, or a kill, leaves everything as it was. Raises HistoryError."""
        tally: Tally = defaultdict(Counter)
        now = self._clock.steady()
        with self._access.transaction() as connection:
            reading = Reading(name, pieces)
            span = (now - self._retention, now + FUTURE_SECONDS)
            found = checked(reading, lambda: ensure_room(self._path))
            for target, part in groupby(found, key=lambda row: row.target):
                _Target(connection, target, span, tally).take(part)
        self._used = True
        return Taken(reading.header, tally)

    def close(self) -> None:
        """Let a daemon have it. A history that was begun for files that were all refused is gone again."""
        self._access.close()
        if self._begun and not self._used:
            for part in PARTS:
                with suppress(OSError):
                    self._path.with_name(self._path.name + part).unlink(missing_ok=True)
        self._claim.release()


def ensure_room(path: Path) -> None:
    """Raise HistoryError when the disk of the history has too little room: its write-ahead log must fit into the file yet,
    beside what others need."""
    with suppress(OSError):
        disk = os.statvfs(path.parent)
        log = path.with_name(path.name + PARTS[1])
        written = log.stat().st_size if log.exists() else 0
        if disk.f_bavail * disk.f_frsize < written + ROOM:
            raise HistoryError(
                f"{path}: the disk has too little room for what is imported. Free some; nothing of this file was imported"
            )


def refuse_strangers(path: Path) -> None:
    """Raise HistoryError where the history belongs to another user, whose exporter could not use it any more. Whoever is root
    can write anywhere, and what he makes is his."""
    user = os.geteuid()
    held = path if path.exists() else path.parent
    with suppress(FileNotFoundError):
        owner = held.stat().st_uid
        if owner != user and (held is path or user == 0):
            raise HistoryError(
                f"{held}: this belongs to user {_called(owner)}, whose exporter could not use what you write here. "
                f"Import as that user, with `sudo -u {_called(owner)}` or the like"
            )


def _called(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"#{user}"


class _Target:
    """Takes the rows of one target, in their order."""

    def __init__(self, connection: sqlite3.Connection, target: str, span: tuple[float, float], tally: Tally) -> None:
        self._connection, self._target, self._span, self._tally = connection, target, span, tally
        # Before anything is merged, and it cannot be told any more who measured what.
        self._ours, self._theirs = Watched.here(connection, target), Watched()

    def take(self, found: Iterable[Row]) -> None:
        for kind, part in groupby(found, key=lambda row: "series" if row.kind in ("hours", "blocks") else row.kind):
            match kind:
                case "series":
                    self._series(part)
                case "snapshots":
                    self._each(part, self._snapshot)
                case "events":
                    self._each(part, self._event)
                case "epochs":
                    self._each(part, self._epoch)
                case "baselines":
                    self._each(part, self._baseline)
                case _:
                    self._states(part)

    def _each(self, found: Iterable[Row], take: Callable[..., str]) -> None:
        for row in found:
            self._tally[row.kind][take(*row.values)] += 1

    # -- what was measured -------------------------------------------------------------------------------

    def _series(self, found: Iterable[Row]) -> None:
        for key, part in groupby(found, key=lambda row: row.values[:3]):
            self._number = self._series_number(key)
            for hour, together in groupby(part, key=lambda row: hour_of(row.values[3])):
                held = list(together)
                if not self._span[0] <= hour <= self._span[1]:
                    self._count(held, "outside")
                    continue
                for row in held:
                    self._theirs.add(row.values[3], HOUR if row.kind == "hours" else BLOCK, _samples(row))
                self._hour(key, hour, held)

    def _hour(self, key: tuple[Any, ...], hour: float, held: list[Row]) -> None:
        blocks, hours = (self._there(table, hour) for table in ("blocks", "hours"))
        if not hours and all(row.kind == "blocks" for row in held):
            for row in held:
                self._tally["blocks"][self._block(key, row, blocks.get(row.values[3]))] += 1
            return
        ours, theirs = sum(blocks.values()) + sum(hours.values()), sum(map(_samples, held))
        if (blocks or hours) and theirs <= ours:
            self._count(held, "same" if theirs == ours else "kept")
            return
        for table in ("blocks", "hours"):
            self._connection.execute(
                f"DELETE FROM {table} WHERE series = ? AND start >= ? AND start < ?", (self._number, hour, hour + HOUR)
            )
        for row in held:
            self._insert(key, row)
        self._count(held, "replaced" if blocks or hours else "new")

    def _block(self, key: tuple[Any, ...], row: Row, ours: int | None) -> str:
        theirs = _samples(row)
        if ours is not None and theirs <= ours:
            return "same" if theirs == ours else "kept"
        self._insert(key, row)
        return "new" if ours is None else "replaced"

    def _there(self, table: str, hour: float) -> dict[float, int]:
        """Samples by the start of the block, or of the hour."""
        if self._number is None:
            return {}
        query = (
            f"SELECT start, sum({_MEASURED}) FROM {table} WHERE series = ? AND start >= ? AND start < ? GROUP BY start"
        )
        return dict(self._connection.execute(query, (self._number, hour, hour + HOUR)))

    def _insert(self, key: tuple[Any, ...], row: Row) -> None:
        if self._number is None:
            self._connection.execute("INSERT INTO series (target, pair, operation) VALUES (?, ?, ?)", key)
            self._number = self._series_number(key)
        columns = _HOUR if row.kind == "hours" else _BLOCK
        self._connection.execute(
            f"INSERT OR REPLACE INTO {row.kind} (series, {', '.join(columns)}) VALUES (?{', ?' * len(columns)})",
            (self._number, *row.values[3:]),
        )

    def _series_number(self, key: tuple[Any, ...]) -> int | None:
        query = "SELECT id FROM series WHERE target = ? AND pair = ? AND operation = ?"
        found = self._connection.execute(query, key).fetchone()
        return None if found is None else int(found[0])

    def _count(self, held: Iterable[Row], what: str) -> None:
        for row in held:
            self._tally[row.kind][what] += 1

    # -- what there is little of -------------------------------------------------------------------------

    def _snapshot(self, target: str, started: float, body: bytes) -> str:
        if not self._span[0] <= started <= self._span[1]:
            return "outside"
        found = self._one("SELECT started FROM snapshots WHERE target = ?", target)
        if found is not None and found[0] >= started:
            return "same" if found[0] == started else "kept"
        self._connection.execute("INSERT OR REPLACE INTO snapshots VALUES (?, ?, ?)", (target, started, body))
        return "new" if found is None else "replaced"

    def _event(self, target: str, number: str, *columns: Any) -> str:
        cursor = self._connection.execute(
            "INSERT INTO events (target, id, pair, at, not_before, kind, origin, text, taken) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (target, number, *columns),
        )
        return "new" if cursor.rowcount else "same"

    def _epoch(self, target: str, pair: str, epoch: str, seen: float, *columns: Any) -> str:
        found = self._one("SELECT seen FROM epochs WHERE target = ? AND pair = ? AND epoch = ?", target, pair, epoch)
        if found is not None and found[0] >= seen:
            return "same"
        # The later look, as when the daemon itself looks again: those seen longest ago are the first to be forgotten.
        self._connection.execute(
            "INSERT OR REPLACE INTO epochs (target, pair, epoch, seen, phase, slot, content) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (target, pair, epoch, seen, *columns),
        )
        return "new" if found is None else "replaced"

    def _baseline(self, target: str, pair: str, *rest: Any) -> str:
        *columns, event, note, series = rest
        if event:
            known = self._one(
                "SELECT id FROM baselines WHERE target = ? AND pair = ? AND event = ?", target, pair, event
            )
        else:
            known = self._one(
                "SELECT id FROM baselines WHERE target = ? AND pair = ? AND frozen = ? AND since = ? AND until = ? "
                "AND epoch = ? AND phase = ? AND slot = ? AND content = ? AND event = ? AND note = ?",
                *(target, pair, *columns, event, note),
            )
        if known is not None:
            return "same"
        number = self._connection.execute(
            "INSERT INTO baselines (target, pair, frozen, since, until, epoch, phase, slot, content, event, note) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (target, pair, *columns, event, note),
        ).lastrowid
        self._connection.executemany(
            "INSERT INTO baseline_series (baseline, operation, body) VALUES (?, ?, ?)",
            [(number, operation, body) for operation, body in series],
        )
        return "new"

    def _states(self, found: Iterable[Row]) -> None:
        """All of them or none, for they belong together. They count from when the daemon watches the target, be that at
        its next start or later."""
        here = {
            (name.removeprefix(LEFT).removeprefix(BROUGHT), *rest): (not name.startswith(LEFT), version, body)
            for name, *rest, version, body in self._connection.execute(
                "SELECT name, pair, operation, version, body FROM states WHERE target = ?", (self._target,)
            )
        }
        brought = {tuple(row.values[1:4]): (True, *row.values[4:]) for row in found}
        taken = brought != here and (not here or self._theirs.outweighs(self._ours))
        if taken:
            self._connection.execute("DELETE FROM states WHERE target = ?", (self._target,))
            self._connection.executemany(
                "INSERT INTO states (name, target, pair, operation, version, body) VALUES (?, ?, ?, ?, ?, ?)",
                [(BROUGHT + key[0], self._target, *key[1:], *state[1:]) for key, state in brought.items()],
            )
        for key, state in brought.items():
            if here.get(key) == state:
                what = "same"
            elif not taken:
                what = "kept"
            else:
                what = "replaced" if key in here else "new"
            self._tally["states"][what] += 1

    def _one(self, query: str, *values: Any) -> tuple[Any, ...] | None:
        found: tuple[Any, ...] | None = self._connection.execute(query, values).fetchone()
        return found


def _samples(row: Row) -> int:
    sides = dict(zip(KINDS[row.kind], row.values, strict=True))
    return int(sides["encrypted_samples"] + sides["plain_samples"])
