"""The canary queries on the twins: each one statement on one table, answered with one row.

Every query names its access path, for statistics that differ between the twins must not give them different plans. The
cache of the database is never emptied: `lob_read` is what decrypts at every run, for large objects that are not cached
are read directly from disk each time, without a hidden parameter and without a privilege.
"""

from __future__ import annotations

import math
import random
import zlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from exporter.domain.errors import Unsupported
from exporter.domain.model import Operation
from exporter.engines.oracle.settings import LOB_ROWS, ROW_BYTES
from exporter.engines.oracle.statements import Need, Statement, define

RANGE_ROWS = 5_000
_REMEMBERED_KEYS = 256
_TWIN = ("READ ON {table}",)

POINT = define(
    "canary.point_select",
    "SELECT /*+ INDEX(t) */ id, payload FROM {table} t WHERE id = :1",
    "canary",
    _TWIN,
    needs=(Need.OPEN, Need.TWINS),
    example=(1,),
)
RANGE = define(
    "canary.range_select",
    "SELECT /*+ INDEX(t) NO_PARALLEL(t) */ COUNT(*) AS n, SUM(ORA_HASH(payload)) AS digest FROM {table} t"
    " WHERE id BETWEEN :1 AND :2",
    "canary",
    _TWIN,
    needs=(Need.OPEN, Need.TWINS),
    example=(1, 100),
)
SCAN = define(
    "canary.full_scan",
    "SELECT /*+ FULL(t) NO_PARALLEL(t) */ COUNT(*) AS n, SUM(ORA_HASH(payload)) AS digest FROM {table} t",
    "canary",
    _TWIN,
    needs=(Need.OPEN, Need.TWINS),
)
LOB = define(
    "canary.lob_read",
    # A search for what is not there reads the whole object, and sends nothing of it to the client.
    "SELECT DBMS_LOB.GETLENGTH(data) AS n, DBMS_LOB.INSTR(data, HEXTORAW('00FF00FF')) AS found FROM {table}"
    " WHERE id = :1",
    "canary",
    (*_TWIN, "EXECUTE ON SYS.DBMS_LOB"),
    needs=(Need.OPEN, Need.TWINS),
    example=(1,),
)

_STATEMENTS = {
    Operation.POINT_SELECT: POINT,
    Operation.RANGE_SELECT: RANGE,
    Operation.FULL_SCAN: SCAN,
    Operation.LOB_READ: LOB,
}
OPERATIONS = frozenset(_STATEMENTS)


class _Rolling:
    """Positions 0 <= position < count, all before any comes again; neighbours in time lie far apart.

    So each new key reads what was read longest ago, which is found cold where the table is larger than its share of the
    cache. One of the last 256 keys gets what it got before: both twins read the same.
    """

    def __init__(self, count: int, rng: random.Random) -> None:
        self._count = max(1, count)
        wanted = max(1, round(self._count * (math.sqrt(5.0) - 1.0) / 2.0))
        self._step = next(step for step in range(wanted, 2 * wanted + 2) if math.gcd(step, self._count) == 1)
        self._start, self._turns = rng.randrange(self._count), 0
        self._given: OrderedDict[int, tuple[int, int]] = OrderedDict()

    def at(self, key: int) -> tuple[int, int]:
        """The position for a key, and the number of its cycle."""
        if key not in self._given:
            cycle, turn = divmod(self._turns, self._count)
            self._given[key] = (self._start + turn * self._step) % self._count, cycle
            self._turns += 1
            if len(self._given) > _REMEMBERED_KEYS:
                self._given.popitem(last=False)
        return self._given[key]


class Choices:
    """What the keys of one pair choose, for as long as its twins stay as large as they are.

    `rows_per_block` comes from the newest verification; until there was one, it is an estimate.
    """

    def __init__(self, rows: int, block_bytes: int, rows_per_block: float | None, rng: random.Random) -> None:
        self.rows, self.rows_per_block = rows, rows_per_block
        self._stride = max(1, min(rows, int(rows_per_block or 0.9 * block_bytes / ROW_BYTES)))
        self._blocks = _Rolling(-(-rows // self._stride), rng)
        self._offset = rng.randrange(self._stride)
        self._width = min(RANGE_ROWS, max(1, rows // 10))
        self._slices = _Rolling(-(-rows // self._width), rng)
        self._lobs = _Rolling(min(LOB_ROWS, rows), rng)

    def values(self, operation: Operation, key: int) -> tuple[int, ...]:
        """The values for the statement of an operation; the same for both twins."""
        if operation is Operation.POINT_SELECT:
            block, cycle = self._blocks.at(key)
            first = block * self._stride
            width = min(self._stride, self.rows - first)
            return (1 + first + (self._offset + cycle) % width,)
        if operation is Operation.RANGE_SELECT:
            # The last one is moved back: every stretch is equally long.
            start = 1 + min(self._slices.at(key)[0] * self._width, self.rows - self._width)
            return start, start + self._width - 1
        return (1 + self._lobs.at(key)[0],) if operation is Operation.LOB_READ else ()

    def read_values(self, operation: Operation) -> int:
        """How many values of the payload (or large objects) one run reads."""
        if operation is Operation.FULL_SCAN:
            return self.rows
        return self._width if operation is Operation.RANGE_SELECT else 1


def statement(operation: Operation, table: str) -> Statement:
    """The statement of an operation on a table (`OWNER.NAME`). Raises `Unsupported` for one that is not ours."""
    if operation not in _STATEMENTS:
        raise Unsupported(f"this engine has no operation {operation!s}")
    return _STATEMENTS[operation].on(table=table)


def answer(operation: Operation, rows: Sequence[tuple[Any, ...]]) -> tuple[int, int]:
    """(rows that were read, checksum of what was answered); of a large object its bytes in place of rows."""
    counted = len(rows) if operation is Operation.POINT_SELECT else int(rows[0][0] or 0) if rows else 0
    return counted, zlib.crc32(repr([[str(value) for value in row] for row in rows]).encode())
