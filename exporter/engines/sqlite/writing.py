"""The writing operations on one twin.

Each repairs first, untimed, what an earlier run may have left, so that their order does not matter; a process
killed at any moment leaves a table with all changes of its transaction or none. Each cuts the write-ahead log
at the end, so that neither the log nor the file grows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns, thread_time_ns

import apsw

from exporter.domain.model import Execution, Work
from exporter.engines.sqlite import phonebook, scratch
from exporter.engines.sqlite.twin import OpenTwin

_INSERT = "INSERT INTO scratch (id, name, area) VALUES (?, ?, ?)"
_WRITTEN = "SELECT count(*), sum(length(name)), sum(area), sum(id * area) FROM scratch"

_LOG_HEADER_BYTES = 32
_FRAME_HEADER_BYTES = 24
_NANO = 1e-9


def insert_batch(twin: OpenTwin, rows: int, key: int) -> Execution:
    """A transaction of 500 rows into the scratch table, which was emptied before; the commit is timed apart."""
    connection = twin.warm
    batch = phonebook.batch(key)
    connection.execute("DELETE FROM scratch")
    transaction = _transaction(connection, lambda cursor: cursor.executemany(_INSERT, batch))
    answer = connection.execute(_WRITTEN).fetchall()
    _cut_log(connection)
    return transaction.execution(twin, (len(batch), phonebook.checksum(answer)))


def update_batch(twin: OpenTwin, rows: int, key: int) -> Execution:
    """One statement that changes 500 rows of the filled scratch table, every second one."""
    connection = twin.warm
    change = scratch.repaired(connection)
    transaction = _update(connection, change, key)
    answer = scratch.updated(connection, change)
    _cut_log(connection)
    return transaction.execution(twin, (scratch.CHANGED_ROWS, phonebook.checksum(answer)))


def delete_replenish(twin: OpenTwin, rows: int, key: int) -> Execution:
    """One transaction that deletes all 1 000 rows of the filled scratch table and inserts as many again."""
    connection = twin.warm
    change = scratch.repaired(connection)
    batch = scratch.rows(key, change)

    def replace(cursor: apsw.Cursor) -> None:
        cursor.execute(scratch.DELETE)
        cursor.executemany(scratch.INSERT, batch)

    transaction = _transaction(connection, replace)
    answer = scratch.replenished(connection, change)
    _cut_log(connection)
    return transaction.execution(twin, (len(batch), phonebook.checksum(answer)))


def checkpoint(twin: OpenTwin, rows: int, key: int) -> Execution:
    """Copies the pages of one update, committed before and untimed, from the log into the file.

    The pager does not count this: pages are decrypted and encrypted again below it, as they are read from the
    log and written to the file. Their number is the size of the log, which was empty before the update and took
    one transaction, so no page is in it twice: whatever is in the log is copied. (SQLite itself tells the number
    only for checkpoints that leave the log as long as it is.)

    Raises apsw.BusyError when another process holds the log.
    """
    connection = twin.warm
    change = scratch.repaired(connection)
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    _update(connection, change, key)
    answer = scratch.updated(connection, change)
    pages = pages_in_log(connection)
    cpu = thread_time_ns()
    start = perf_counter_ns()
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    done = perf_counter_ns()
    cpu = thread_time_ns() - cpu
    ciphered = pages if twin.encrypted else 0
    return Execution(
        execute_seconds=(done - start) * _NANO,
        fetch_seconds=0.0,
        work=Work(cpu * _NANO, None, pages, ciphered, ciphered),
        answer=(scratch.CHANGED_ROWS, phonebook.checksum(answer)),
    )


def pages_in_log(connection: apsw.Connection) -> int:
    """Number of pages in the write-ahead log, those included that are in it more than once."""
    size = Path(connection.filename_wal).stat().st_size
    return max(0, size - _LOG_HEADER_BYTES) // (_FRAME_HEADER_BYTES + phonebook.PAGE_SIZE)


@dataclass(frozen=True, slots=True)
class _Transaction:
    """One timed transaction: nanoseconds, and pages read and written by the pager."""

    executing: int
    committing: int
    cpu: int
    missed: int
    written: int

    def execution(self, twin: OpenTwin, answer: tuple[int, int]) -> Execution:
        decrypts, encrypts = (self.missed, self.written) if twin.encrypted else (0, 0)
        return Execution(
            execute_seconds=self.executing * _NANO,
            fetch_seconds=0.0,
            commit_seconds=self.committing * _NANO,
            work=Work(self.cpu * _NANO, None, self.missed, decrypts, encrypts),
            answer=answer,
        )


def _update(connection: apsw.Connection, change: int, key: int) -> _Transaction:
    return _transaction(connection, lambda cursor: cursor.execute(scratch.UPDATE, (change, key % 2)))


def _transaction(connection: apsw.Connection, statements: Callable[[apsw.Cursor], object]) -> _Transaction:
    """Execute `statements` in one transaction; its beginning is not timed, its commit apart."""
    cursor = connection.cursor()
    try:
        cursor.execute("BEGIN IMMEDIATE")
        before = _counters(connection)
        cpu = thread_time_ns()
        start = perf_counter_ns()
        statements(cursor)
        executed = perf_counter_ns()
        cursor.execute("COMMIT")
        committed = perf_counter_ns()
        cpu = thread_time_ns() - cpu
        missed, written = (now - then for now, then in zip(_counters(connection), before, strict=True))
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    return _Transaction(executed - start, committed - executed, cpu, missed, written)


def _counters(connection: apsw.Connection) -> tuple[int, int]:
    return (
        connection.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0],
        connection.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)[0],
    )


def _cut_log(connection: apsw.Connection) -> None:
    # A reader in another process may hold the log; the next run tries again.
    with contextlib.suppress(apsw.BusyError):
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
