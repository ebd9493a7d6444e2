"""The canary queries on the twins: each one statement on one table, answered with one row.

What a key chooses is the same on both twins: one row, a stretch of neighbouring rows, or a stretch of areas, which are
scattered over the rows, so that a share of the areas is that share of the rows. `rolling` says why in which order.

Every query names its index, for statistics that differ between the twins must not give them different plans. No answer
is longer than a row: fetching rows costs the client far more than decryption costs the server.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from typing import Any

from exporter.domain.errors import Unsupported
from exporter.domain.model import Operation
from exporter.engines._mysql_protocol.rolling import RollingRows, RollingSlices
from exporter.engines._mysql_protocol.settings import ROW_BYTES
from exporter.engines._mysql_protocol.twins import AREAS

OPERATIONS = frozenset(
    {
        Operation.POINT_SELECT,
        Operation.RANGE_SELECT,
        Operation.INDEX_COUNT,
        Operation.SORTED_SELECT,
        Operation.FULL_SCAN,
    }
)
READING_AHEAD = frozenset({Operation.RANGE_SELECT, Operation.FULL_SCAN})
"""Operations that go through neighbouring pages: threads of the server read ahead, and decrypt what they read."""
RANGE_ROWS = 5_000

_STATEMENTS = {
    Operation.POINT_SELECT: "SELECT id, area, name, pad FROM {table} FORCE INDEX (PRIMARY) WHERE id = %s",
    Operation.RANGE_SELECT: (
        "SELECT COUNT(*), SUM(LENGTH(pad)), SUM(area) FROM {table} FORCE INDEX (PRIMARY) WHERE id BETWEEN %s AND %s"
    ),
    Operation.INDEX_COUNT: "SELECT COUNT(*) FROM {table} FORCE INDEX (area) WHERE area BETWEEN %s AND %s",
    # The order is part of the answer, for a server may leave a sorting out that nobody sees.
    Operation.SORTED_SELECT: (
        "SELECT COUNT(*), BIT_XOR(CRC32(CONCAT(place, name))) FROM (SELECT name, ROW_NUMBER() OVER (ORDER BY name, id)"
        " AS place FROM {table} FORCE INDEX (area) WHERE area BETWEEN %s AND %s) sorted"
    ),
    # Never COUNT(*) alone: it would read the smallest index, and MySQL does it in threads that nobody accounts for.
    Operation.FULL_SCAN: "SELECT COUNT(*), SUM(LENGTH(pad)), SUM(area) FROM {table} FORCE INDEX (PRIMARY)",
}


class Choices:
    """What the keys of one pair choose, for as long as its twins stay as large as they are.

    `rows_per_page` comes from the newest verification; until there was one, it is an estimate on the low side.
    """

    def __init__(self, rows: int, page_bytes: int, rows_per_page: float | None, rng: random.Random) -> None:
        self.rows, self.rows_per_page = rows, rows_per_page
        self._point = RollingRows(rows, rows_per_page or 0.9 * page_bytes / ROW_BYTES, rng)
        self._slices = {
            Operation.RANGE_SELECT: RollingSlices(1, rows, min(RANGE_ROWS, max(1, rows // 10)), rng),
            Operation.INDEX_COUNT: RollingSlices(0, AREAS, AREAS // 10, rng),
            Operation.SORTED_SELECT: RollingSlices(0, AREAS, AREAS // 100, rng),
        }

    def values(self, operation: Operation, key: int) -> tuple[int, ...]:
        """The values for the statement of an operation; the same for both twins."""
        if operation is Operation.POINT_SELECT:
            return (self._point.id(key),)
        slices = self._slices.get(operation)
        return slices.bounds(key) if slices is not None else ()


def statement(operation: Operation, table: str) -> str:
    """The SQL of an operation on a table (quoted, with its schema). Raises `Unsupported` for one that is not ours."""
    if operation not in _STATEMENTS:
        raise Unsupported(f"this engine has no operation {operation!s}")
    return _STATEMENTS[operation].format(table=table)


def answer(operation: Operation, rows: Sequence[tuple[Any, ...]]) -> tuple[int, int]:
    """(rows that were read, checksum of what was answered)."""
    counted = len(rows) if operation is Operation.POINT_SELECT else int(rows[0][0]) if rows else 0
    return counted, zlib.crc32(repr([[str(value) for value in row] for row in rows]).encode())
