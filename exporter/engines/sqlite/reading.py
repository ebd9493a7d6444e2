"""The reading operations on one twin: each is one statement, answered with one row.

What a key chooses is the same on both twins: a row, a stretch of neighbouring rows, or a stretch of areas,
which are spread evenly over the rows, so that a share of the areas is about that share of the rows.
"""

from __future__ import annotations

from itertools import islice
from time import perf_counter_ns, thread_time_ns

import apsw

from exporter.domain.errors import QueryFailed
from exporter.domain.model import Execution, Work
from exporter.engines.sqlite import phonebook
from exporter.engines.sqlite.twin import OpenTwin

POINT = "SELECT name, number FROM phonebook WHERE id = ?"
RANGE = "SELECT count(*), sum(length(name)), sum(area) FROM phonebook WHERE id BETWEEN ? AND ?"
COUNT = "SELECT count(*) FROM phonebook WHERE area BETWEEN ? AND ?"
# The order is part of the answer, one digit of each row in the order of the names: a planner cannot leave the
# sorting out, as it may for an ordered subquery whose order nobody sees.
SORTED = (
    "SELECT count(*), group_concat(substr(number, -1), '' ORDER BY name, id) FROM phonebook WHERE area BETWEEN ? AND ?"
)
SCAN = "SELECT count(*), sum(length(name)), sum(area) FROM phonebook"

_RANGE_ROWS = 5_000
_COUNTED_AREAS = phonebook.AREAS // 10
_SORTED_AREAS = phonebook.AREAS // 100
_MOST_ROWS = 1000
"""Of an answer, which has one. A file that somebody exchanged may have any number for one key."""
_NANO = 1e-9


def _row(rows: int, key: int) -> tuple[int]:
    return (1 + key % rows,)


def _neighbours(rows: int, key: int) -> tuple[int, int]:
    """First and last of 5 000 neighbouring rows, or of a tenth of a table that has less than ten times as many."""
    count = min(_RANGE_ROWS, rows // 10)
    first = 1 + key % (rows - count + 1)
    return first, first + count - 1


def _stretch_of_areas(count: int, key: int) -> tuple[int, int]:
    first = phonebook.FIRST_AREA + key % (phonebook.AREAS - count + 1)
    return first, first + count - 1


def point_select(twin: OpenTwin, rows: int, key: int) -> Execution:
    """One row by its primary key."""
    return _query(twin, twin.warm, POINT, _row(rows, key))


def point_select_cold(twin: OpenTwin, rows: int, key: int) -> Execution:
    """One row by its primary key, and every page on the way to it read from the file."""
    return _query(twin, _emptied(twin), POINT, _row(rows, key))


def range_select(twin: OpenTwin, rows: int, key: int) -> Execution:
    """An aggregate over neighbouring rows, found by their primary keys."""
    return _query(twin, twin.warm, RANGE, _neighbours(rows, key))


def range_select_cold(twin: OpenTwin, rows: int, key: int) -> Execution:
    """The same, every page read from the file."""
    return _query(twin, _emptied(twin), RANGE, _neighbours(rows, key))


def index_count(twin: OpenTwin, rows: int, key: int) -> Execution:
    """Counts about a tenth of the rows without reading any of them: the index says it all."""
    return _query(twin, twin.warm, COUNT, _stretch_of_areas(_COUNTED_AREAS, key))


def index_count_cold(twin: OpenTwin, rows: int, key: int) -> Execution:
    """The same, every page of that part of the index read from the file."""
    return _query(twin, _emptied(twin), COUNT, _stretch_of_areas(_COUNTED_AREAS, key))


def sorted_select(twin: OpenTwin, rows: int, key: int) -> Execution:
    """About a hundredth of the rows, found by the index and sorted by their names, which no index has."""
    return _query(twin, twin.warm, SORTED, _stretch_of_areas(_SORTED_AREAS, key))


def sorted_select_cold(twin: OpenTwin, rows: int, key: int) -> Execution:
    """The same, every page read from the file: nearly one for each row, for they lie scattered."""
    return _query(twin, _emptied(twin), SORTED, _stretch_of_areas(_SORTED_AREAS, key))


def full_scan(twin: OpenTwin, rows: int, key: int) -> Execution:
    """Every row of the table, from memory once the connection is warm."""
    return _query(twin, twin.warm, SCAN, ())


def full_scan_cold(twin: OpenTwin, rows: int, key: int) -> Execution:
    """Every row of the table, every page read from the file (from the system's cache) and decrypted."""
    return _query(twin, _emptied(twin), SCAN, ())


def _emptied(twin: OpenTwin) -> apsw.Connection:
    """The connection that is made to forget, with nothing left in its cache."""
    twin.cold.pragma("shrink_memory")
    return twin.cold


def _query(twin: OpenTwin, connection: apsw.Connection, sql: str, values: tuple[int, ...]) -> Execution:
    cursor = connection.cursor()
    missed = connection.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0]
    cpu = thread_time_ns()
    start = perf_counter_ns()
    cursor.execute(sql, values)
    executed = perf_counter_ns()
    answer = list(islice(cursor, _MOST_ROWS + 1))
    fetched = perf_counter_ns()
    cpu = thread_time_ns() - cpu
    missed = connection.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0] - missed
    if len(answer) > _MOST_ROWS:
        raise QueryFailed(f"{twin.path}: the answer has more rows than one; this is no twin of ours, move it away")
    return Execution(
        execute_seconds=(executed - start) * _NANO,
        fetch_seconds=(fetched - executed) * _NANO,
        work=Work(cpu * _NANO, None, missed, missed if twin.encrypted else 0, 0),
        answer=(len(answer), phonebook.checksum(answer)),
    )
