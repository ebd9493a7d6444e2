"""What survives a restart, in one SQLite file: blocks of five minutes, and hours once they are a day old; the newest
snapshot of each target; events, epochs, baselines, and the states of detectors.

One thread of one process writes; other processes may read at the same time, and write small things.
Every method raises HistoryError when the file cannot be used, and leaves the file as it was before.
"""

from __future__ import annotations

import logging
import math
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Self

from exporter.domain.clock import Clock
from exporter.domain.errors import HistoryError
from exporter.domain.model import SeriesKey, Snapshot
from exporter.history import baselines, records, rows, snapshots, spans
from exporter.history.access import Access
from exporter.history.baselines import Baselines
from exporter.history.claim import Claim
from exporter.history.file import PARTS, open_file
from exporter.history.records import Records
from exporter.overhead.stretches import Stretch
from exporter.overhead.windows import Block

FUTURE_SECONDS = 86400.0
"""What lies further ahead than this was stored while the clock was wrong, and would never grow old."""

_PAGE = 1000
_log = logging.getLogger(__name__)

_SAVE_BLOCK = (
    f"INSERT INTO blocks (series, start, {', '.join(rows.COLUMNS)}) VALUES (?, ?{', ?' * len(rows.COLUMNS)}) "
    f"ON CONFLICT (series, start) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in rows.COLUMNS)}"
)
_LOAD_BLOCKS = (
    f"SELECT series, start, target, pair, operation, {', '.join(rows.COLUMNS)} "
    "FROM blocks JOIN series ON series.id = blocks.series WHERE (start, series) > (?, ?) "
    f"ORDER BY start, series LIMIT {_PAGE}"
)


class Rows(NamedTuple):
    """How many rows there are of a kind, and from when to when (steady seconds)."""

    number: int
    oldest: float | None
    newest: float | None


class Info(NamedTuple):
    """What a history holds."""

    version: int
    series: int
    blocks: Rows
    hours: Rows
    events: int
    baselines: int


class History:
    """The open history. Methods may be called from any thread, one at a time does its work.

    `errors` counts what went wrong since it was opened: refused calls and damaged rows. Events, epochs and states are
    in `records`, baselines in `baselines`.
    """

    def __init__(
        self, path: Path, connection: sqlite3.Connection, retention: float, clock: Clock, claim: Claim | None = None
    ) -> None:
        self.path = path
        self._access, self._claim = Access(path, connection), claim
        self.records, self.baselines = Records(self._access), Baselines(self._access)
        self._identity = _identity(path)
        self.retention, self._clock = retention, clock
        """Seconds."""
        self._series: dict[SeriesKey, int] = {}
        # What was begun may have named series that now do not exist.
        self._access.rolled_back = self._series.clear

    @property
    def errors(self) -> int:
        return self._access.errors

    @property
    def _connection(self) -> sqlite3.Connection:
        return self._access.connection

    @classmethod
    def open(cls, path: Path, retention: float, clock: Clock, *, set_aside: bool = True) -> Self:
        """Open or begin the history at `path`; `retention` in seconds.

        Creates directory and file, checks the file, and sets a damaged one aside with a warning
        (never with `set_aside=False`, for processes other than the daemon). Raises HistoryError.
        """
        return cls(path, open_file(path, clock.wall(), set_aside=set_aside), retention, clock)

    @classmethod
    def keep(cls, path: Path, retention: float, clock: Clock) -> Self:
        """Open or begin the history as the one daemon that writes it; see `open`.

        Raises HistoryError when another one has it: each would replace the blocks of the other by its own.
        """
        claim = Claim(path)
        try:
            return cls(path, open_file(path, clock.wall()), retention, clock, claim)
        except BaseException:
            claim.release()
            raise

    def begin_anew_if_gone(self) -> bool:
        """Begin a new history, if the file was removed or another has taken its name; True when that was done.

        What is written to the old one would be read by nobody.
        """
        if self._identity is not None and _identity(self.path) == self._identity:
            return False
        with self._access.alone() as old:
            if self._claim is not None:
                self._claim.renew()
            # Should the new one not be opened, the old one's return is a change as well: its connection is closed now.
            self._identity = None
            # First of all: at its close SQLite removes a write-ahead log by name, which would be that of the new file.
            with suppress(sqlite3.Error):
                old.close()
            self._access.connection = open_file(self.path, self._clock.wall())
            self._identity = _identity(self.path)
            self._series.clear()
        _log.warning("%s was removed or exchanged; it is written anew from what is remembered", self.path)
        return True

    def changed_elsewhere(self) -> bool:
        """Whether another process has written since the last call (True at the first); costs microseconds."""
        return self._access.changed_elsewhere()

    def save_blocks(self, blocks: Iterable[tuple[SeriesKey, Block]]) -> None:
        """Store blocks, all or none; a block of the same series and start is replaced."""
        with self._access.transaction() as connection:
            connection.executemany(
                _SAVE_BLOCK,
                ((self._series_id(connection, key), block.start, *rows.to_row(block)) for key, block in blocks),
            )

    def load_blocks(self, since: float, until: float = math.inf) -> Iterator[tuple[SeriesKey, Block]]:
        """Blocks that start at `since` or later and before `until` (steady seconds), oldest first; damaged ones are left
        out and counted.

        Reads page by page; other calls may come in between.
        """
        after: tuple[float, int] = (since, -1)
        while page := self._access.query(_LOAD_BLOCKS, after):
            for series, start, *rest in page:
                if start >= until:
                    return
                try:
                    yield rows.from_row(rest[:3], start, rest[3:])
                except (ValueError, TypeError) as error:
                    self._access.skip(f"a block of series {series} at {start:.0f}", error)
            after = (page[-1][1], page[-1][0])

    def load_span(
        self, since: float, until: float, target: str | None = None, pair: str | None = None
    ) -> Iterator[tuple[SeriesKey, Stretch]]:
        """What was measured in a span of time (steady seconds), in hours where it is old, else in blocks; hours first,
        each oldest first. Reads page by page; damaged ones are left out and counted."""
        return spans.load(self._access, target, pair, since, until)

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Store the snapshot as the newest of its target."""
        try:
            body = snapshots.to_bytes(snapshot)
        except (ValueError, TypeError) as error:
            self._access.errors += 1
            raise HistoryError(
                f"{self.path}: the snapshot of '{snapshot.target}' cannot be stored ({error})"
            ) from error
        with self._access.transaction() as connection:
            connection.execute(
                "INSERT INTO snapshots (target, started, body) VALUES (?, ?, ?) "
                "ON CONFLICT (target) DO UPDATE SET started = excluded.started, body = excluded.body",
                (snapshot.target, snapshot.started, body),
            )

    def latest_snapshot(self, target: str) -> Snapshot | None:
        """The snapshot stored last for `target`; None when there is none, or it is damaged (counted)."""
        for (body,) in self._access.query("SELECT body FROM snapshots WHERE target = ?", (target,)):
            try:
                return snapshots.from_bytes(body)
            except (ValueError, TypeError) as error:
                self._access.skip(f"the snapshot of '{target}'", error)
        return None

    def snapshot_taken(self, target: str) -> float | None:
        """When the snapshot stored last for `target` was begun (Unix time); cheaper than to read it."""
        found = self._access.query("SELECT started FROM snapshots WHERE target = ?", (target,))
        return float(found[0][0]) if found else None

    def prune(self) -> int:
        """Delete what is older than the retention, and what a wrong clock put into the future; join the blocks of days
        gone by to hours. How many blocks went."""
        now = self._clock.steady()
        limits = (now - self.retention, now + FUTURE_SECONDS)
        with self._access.transaction() as connection:
            gone = connection.execute("DELETE FROM blocks WHERE start < ? OR start > ?", limits).rowcount
            connection.execute("DELETE FROM hours WHERE start < ? OR start > ?", limits)
            connection.execute("DELETE FROM snapshots WHERE started < ? OR started > ?", limits)
            records.prune(connection)
            baselines.prune(connection)
        gone += spans.join_old(self._access, now)
        with self._access.transaction() as connection:
            connection.execute(
                "DELETE FROM series WHERE NOT EXISTS (SELECT 1 FROM blocks WHERE blocks.series = series.id) "
                "AND NOT EXISTS (SELECT 1 FROM hours WHERE hours.series = series.id)"
            )
            self._series.clear()
        self._give_space_back()
        return gone

    def size_bytes(self) -> int:
        """What the history takes on disk, the write-ahead log included."""
        total = 0
        for part in PARTS:
            with suppress(OSError):
                total += self.path.with_name(self.path.name + part).stat().st_size
        return total

    def info(self) -> Info:
        """What it holds; reads an index for each table."""
        ((version,),) = self._access.query("PRAGMA user_version")
        blocks, hours = (
            Rows(*self._access.query(f"SELECT count(*), min(start), max(start) FROM {table}")[0])
            for table in ("blocks", "hours")
        )
        series, events, held = (
            self._access.query(f"SELECT count(*) FROM {table}")[0][0] for table in ("series", "events", "baselines")
        )
        return Info(version, series, blocks, hours, events, held)

    def close(self) -> None:
        """Close the file; further calls raise HistoryError. May be called more than once."""
        self._access.close()
        if self._claim is not None:
            self._claim.release()

    def _give_space_back(self) -> None:
        """Shrink the file when more than half of it is free; less than that will soon be used again."""
        (((free,),), ((pages,),)) = (self._access.query(f"PRAGMA {name}_count", ()) for name in ("freelist", "page"))
        if free > pages / 2:
            with self._access.alone() as connection:
                # As a script, because a plain `execute` would free a single page.
                connection.executescript("PRAGMA incremental_vacuum")

    def _series_id(self, connection: sqlite3.Connection, key: SeriesKey) -> int:
        known = self._series.get(key)
        if known is None:
            connection.execute(
                "INSERT INTO series (target, pair, operation) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", key
            )
            query = "SELECT id FROM series WHERE target = ? AND pair = ? AND operation = ?"
            known = self._series[key] = int(connection.execute(query, key).fetchone()[0])
        return known


def _identity(path: Path) -> tuple[int, int] | None:
    """Tells a file from another that has taken its name; None when there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
