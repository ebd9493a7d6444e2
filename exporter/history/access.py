"""One connection to the history file, shared by all threads of a process: one at a time does its work."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from exporter.domain.errors import HistoryError
from exporter.history.file import explain, is_damage, suspect

_log = logging.getLogger(__name__)


class Access:
    """Transactions and queries, with every error of SQLite put into words.

    `errors` counts what went wrong: refused calls and damaged rows. `rolled_back` is called when a transaction failed.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.errors = 0
        self.path, self.connection = path, connection
        self.rolled_back: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        self._version: int | None = None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing; raises HistoryError."""
        with self.alone() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                self.rolled_back()
                with suppress(sqlite3.Error):
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def alone(self) -> Iterator[sqlite3.Connection]:
        """The connection while nobody else of this process uses it; raises HistoryError."""
        with self._lock:
            try:
                yield self.connection
            except sqlite3.Error as error:
                self.errors += 1
                if is_damage(error):
                    suspect(self.path)
                raise explain(self.path, error) from error
            except HistoryError:
                self.errors += 1
                raise

    def query(self, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """All rows; raises HistoryError."""
        with self.alone() as connection:
            return connection.execute(statement, values).fetchall()

    def changed_elsewhere(self) -> bool:
        """Whether another process (or another connection) has written since the last call; True at the first."""
        ((version,),) = self.query("PRAGMA data_version")
        before, self._version = self._version, version
        return bool(before != version)

    def skip(self, what: str, error: Exception) -> None:
        """Count and log something damaged that is left out."""
        self.errors += 1
        _log.warning("%s: %s cannot be read (%s) and is left out", self.path, what, error)

    def close(self) -> None:
        """May be called more than once; further calls of the others raise HistoryError."""
        with self._lock, suppress(sqlite3.Error):
            self.connection.close()
