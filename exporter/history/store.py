"""What survives a restart: blocks of five minutes and the newest snapshot of each target, in one SQLite file.

One thread of one process writes; other processes may read at the same time, and write small things.
Every method raises HistoryError when the file cannot be used, and leaves the file as it was before.
"""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from exporter.domain.clock import Clock
from exporter.domain.errors import HistoryError
from exporter.domain.model import SeriesKey, Snapshot
from exporter.history import rows, snapshots
from exporter.history.claim import Claim
from exporter.history.file import PARTS, explain, open_file
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


class History:
    """The open history. Methods may be called from any thread, one at a time does its work.

    `errors` counts what went wrong since it was opened: refused calls and damaged rows.
    """

    def __init__(
        self, path: Path, connection: sqlite3.Connection, retention: float, clock: Clock, claim: Claim | None = None
    ) -> None:
        self.errors = 0
        self._path, self._connection, self._claim = path, connection, claim
        self._identity = _identity(path)
        self._retention, self._clock = retention, clock
        self._lock = threading.Lock()
        self._series: dict[SeriesKey, int] = {}

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
        if self._identity is not None and _identity(self._path) == self._identity:
            return False
        with self._lock, self._explained():
            if self._claim is not None:
                self._claim.release()
                self._claim = Claim(self._path)
            # First of all: at its close SQLite removes a write-ahead log by name, which would be that of the new file.
            with suppress(sqlite3.Error):
                self._connection.close()
            self._connection = open_file(self._path, self._clock.wall())
            self._identity = _identity(self._path)
            self._series.clear()
        _log.warning("%s was removed or exchanged; it is written anew from what is remembered", self._path)
        return True

    def save_blocks(self, blocks: Iterable[tuple[SeriesKey, Block]]) -> None:
        """Store blocks, all or none; a block of the same series and start is replaced."""
        with self._transaction() as connection:
            connection.executemany(
                _SAVE_BLOCK,
                ((self._series_id(connection, key), block.start, *rows.to_row(block)) for key, block in blocks),
            )

    def load_blocks(self, since: float) -> Iterator[tuple[SeriesKey, Block]]:
        """Blocks that start at `since` or later (steady seconds), oldest first; damaged ones are left out and counted.

        Reads page by page; other calls may come in between.
        """
        after: tuple[float, int] = (since, -1)
        while page := self._query(_LOAD_BLOCKS, after):
            for series, start, *rest in page:
                try:
                    yield rows.from_row(rest[:3], start, rest[3:])
                except (ValueError, TypeError) as error:
                    self._skip(f"a block of series {series} at {start:.0f}", error)
            after = (page[-1][1], page[-1][0])

    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Store the snapshot as the newest of its target."""
        try:
            body = snapshots.to_bytes(snapshot)
        except (ValueError, TypeError) as error:
            self.errors += 1
            raise HistoryError(
                f"{self._path}: the snapshot of '{snapshot.target}' cannot be stored ({error})"
            ) from error
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO snapshots (target, started, body) VALUES (?, ?, ?) "
                "ON CONFLICT (target) DO UPDATE SET started = excluded.started, body = excluded.body",
                (snapshot.target, snapshot.started, body),
            )

    def latest_snapshot(self, target: str) -> Snapshot | None:
        """The snapshot stored last for `target`; None when there is none, or it is damaged (counted)."""
        for (body,) in self._query("SELECT body FROM snapshots WHERE target = ?", (target,)):
            try:
                return snapshots.from_bytes(body)
            except (ValueError, TypeError) as error:
                self._skip(f"the snapshot of '{target}'", error)
        return None

    def prune(self) -> int:
        """Delete what is older than the retention, and what a wrong clock put into the future; how many blocks went."""
        now = self._clock.steady()
        limits = (now - self._retention, now + FUTURE_SECONDS)
        with self._transaction() as connection:
            gone = connection.execute("DELETE FROM blocks WHERE start < ? OR start > ?", limits).rowcount
            connection.execute("DELETE FROM snapshots WHERE started < ? OR started > ?", limits)
            connection.execute(
                "DELETE FROM series WHERE NOT EXISTS (SELECT 1 FROM blocks WHERE blocks.series = series.id)"
            )
            self._series.clear()
        self._give_space_back()
        return gone

    def size_bytes(self) -> int:
        """What the history takes on disk, the write-ahead log included."""
        total = 0
        for part in PARTS:
            with suppress(OSError):
                total += self._path.with_name(self._path.name + part).stat().st_size
        return total

    def close(self) -> None:
        """Close the file; further calls raise HistoryError. May be called more than once."""
        with self._lock, suppress(sqlite3.Error):
            self._connection.close()
        if self._claim is not None:
            self._claim.release()

    def _give_space_back(self) -> None:
        """Shrink the file when more than half of it is free; less than that will soon be used again."""
        (((free,),), ((pages,),)) = (self._query(f"PRAGMA {name}_count", ()) for name in ("freelist", "page"))
        if free > pages / 2:
            with self._lock, self._explained():
                # As a script, because a plain `execute` would free a single page.
                self._connection.executescript("PRAGMA incremental_vacuum")

    def _series_id(self, connection: sqlite3.Connection, key: SeriesKey) -> int:
        known = self._series.get(key)
        if known is None:
            connection.execute(
                "INSERT INTO series (target, pair, operation) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", key
            )
            query = "SELECT id FROM series WHERE target = ? AND pair = ? AND operation = ?"
            known = self._series[key] = int(connection.execute(query, key).fetchone()[0])
        return known

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._explained():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                # What was begun may have named series that now do not exist.
                self._series.clear()
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise

    def _query(self, statement: str, values: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        with self._lock, self._explained():
            return self._connection.execute(statement, values).fetchall()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            self.errors += 1
            raise explain(self._path, error) from error
        except HistoryError:
            self.errors += 1
            raise

    def _skip(self, what: str, error: Exception) -> None:
        self.errors += 1
        _log.warning("%s: %s cannot be read (%s) and is left out", self._path, what, error)


def _identity(path: Path) -> tuple[int, int] | None:
    """Tells a file from another that has taken its name; None when there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
