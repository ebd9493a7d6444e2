"""The canary operations on one twin, each timed by itself.

Between the two readings of the clock there is nothing but the driver's own calls. Counters come from
the pager of the connection that did the work: `CACHE_MISS` counts pages that were read, and in an
encrypted file each of them was decrypted; `CACHE_WRITE` counts pages that were encrypted and written.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter_ns, thread_time_ns

import apsw

from exporter.domain.model import Execution, Operation, Work
from exporter.engines.sqlite import phonebook
from exporter.engines.sqlite.files import Connections, Identity

_POINT = "SELECT name, number FROM phonebook WHERE id = ?"
_SCAN = "SELECT count(*), sum(length(name)), sum(area) FROM phonebook"
_INSERT = "INSERT INTO scratch (id, name, area) VALUES (?, ?, ?)"
_WRITTEN = "SELECT count(*), sum(length(name)), sum(area), sum(id * area) FROM scratch"

_LARGEST_CACHE_BYTES = 256 * 2**20
_COLD_CACHE_KIBIBYTES = 2048
_NANO = 1e-9


@dataclass(frozen=True, slots=True)
class OpenTwin:
    """A twin with its connections: `warm` keeps all its pages in memory, `cold` is made to forget them.

    All writing goes over `warm`: what another connection wrote would make it drop its cache.
    """

    path: Path
    identity: Identity
    encrypted: bool
    warm: apsw.Connection
    cold: apsw.Connection


def open_twin(connections: Connections, path: Path, found: Identity) -> OpenTwin:
    """Two connections to a twin. Raises what `Connections.open` raises."""
    warm, cipher = connections.open(path)
    try:
        warm.pragma("synchronous", "normal")
        size = min(_LARGEST_CACHE_BYTES, max(path.stat().st_size * 5 // 4, 2**20))
        warm.pragma("cache_size", -(size // 1024))
        cold = connections.connect(path, cipher)
    except BaseException:
        connections.close(warm)
        raise
    # A scan of a table that is larger than this cache finds nothing in it anyway, and memory is not
    # allocated and freed by the megabyte inside the timed section.
    cold.pragma("cache_size", -_COLD_CACHE_KIBIBYTES)
    return OpenTwin(path, found, cipher is not None, warm, cold)


def point_select(twin: OpenTwin, rows: int, key: int) -> Execution:
    """One row by its primary key."""
    return _query(twin, twin.warm, _POINT, (1 + key % rows,))


def full_scan(twin: OpenTwin, rows: int, key: int) -> Execution:
    """Every row of the table, from memory once the connection is warm."""
    return _query(twin, twin.warm, _SCAN, ())


def full_scan_cold(twin: OpenTwin, rows: int, key: int) -> Execution:
    """Every row of the table, every page read from the file (from the system's cache) and decrypted."""
    twin.cold.pragma("shrink_memory")
    return _query(twin, twin.cold, _SCAN, ())


def _query(twin: OpenTwin, connection: apsw.Connection, sql: str, values: tuple[int, ...]) -> Execution:
    cursor = connection.cursor()
    missed = connection.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0]
    cpu = thread_time_ns()
    start = perf_counter_ns()
    cursor.execute(sql, values)
    executed = perf_counter_ns()
    answer = cursor.fetchall()
    fetched = perf_counter_ns()
    cpu = thread_time_ns() - cpu
    missed = connection.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0] - missed
    return Execution(
        execute_seconds=(executed - start) * _NANO,
        fetch_seconds=(fetched - executed) * _NANO,
        work=Work(cpu * _NANO, None, missed, missed if twin.encrypted else 0, 0),
        answer=(len(answer), phonebook.checksum(answer)),
    )


def insert_batch(twin: OpenTwin, rows: int, key: int) -> Execution:
    """A transaction of 500 rows into the scratch table, which was emptied before; the commit is timed apart.

    Killed at any moment it leaves a scratch table with no rows or all of them, and the next run
    empties it.
    """
    connection = twin.warm
    batch = phonebook.batch(key)
    connection.execute("DELETE FROM scratch")
    try:
        connection.execute("BEGIN IMMEDIATE")
        cursor = connection.cursor()
        before = _counters(connection)
        cpu = thread_time_ns()
        start = perf_counter_ns()
        cursor.executemany(_INSERT, batch)
        executed = perf_counter_ns()
        cursor.execute("COMMIT")
        committed = perf_counter_ns()
        cpu = thread_time_ns() - cpu
        missed, written = (now - then for now, then in zip(_counters(connection), before, strict=True))
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    answer = connection.execute(_WRITTEN).fetchall()
    # A reader in another process may hold the log; the next run tries again.
    with contextlib.suppress(apsw.BusyError):
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    return Execution(
        execute_seconds=(executed - start) * _NANO,
        fetch_seconds=0.0,
        commit_seconds=(committed - executed) * _NANO,
        work=Work(cpu * _NANO, None, missed, missed if twin.encrypted else 0, written if twin.encrypted else 0),
        answer=(len(batch), phonebook.checksum(answer)),
    )


def _counters(connection: apsw.Connection) -> tuple[int, int]:
    return (
        connection.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0],
        connection.status(apsw.SQLITE_DBSTATUS_CACHE_WRITE)[0],
    )


OPERATIONS: dict[Operation, Callable[[OpenTwin, int, int], Execution]] = {
    Operation.POINT_SELECT: point_select,
    Operation.FULL_SCAN: full_scan,
    Operation.FULL_SCAN_COLD: full_scan_cold,
    Operation.INSERT_BATCH: insert_batch,
}
