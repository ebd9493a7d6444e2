"""What the dictionary says of a twin: whether it is there and ours, where its parts lie, and what of it is encrypted.

ALL_ views need no grant and show what the account may read; whether a tablespace is encrypted takes one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from exporter.domain.errors import PermissionMissing, QueryFailed
from exporter.engines.oracle.connection import Connection
from exporter.engines.oracle.deadlines import Deadline
from exporter.engines.oracle.statements import Need, define, view

_OPEN = (Need.OPEN,)
TABLE = define(
    "twins.table",
    "SELECT t.tablespace_name, t.num_rows, t.blocks, c.comments FROM all_tables t LEFT JOIN all_tab_comments c"
    " ON c.owner = t.owner AND c.table_name = t.table_name WHERE t.owner = :1 AND t.table_name = :2",
    "twins",
    needs=_OPEN,
    example=("SYS", "DUAL"),
)
OBJECT = define(
    "twins.object",
    "SELECT data_object_id FROM all_objects WHERE owner = :1 AND object_name = :2 AND object_type = 'TABLE'",
    "twins",
    needs=_OPEN,
    example=("SYS", "DUAL"),
)
LOBS = define(
    "twins.lobs",
    "SELECT tablespace_name, cache FROM all_lobs WHERE owner = :1 AND table_name = :2",
    "twins",
    needs=_OPEN,
    example=("SYS", "DUAL"),
)
INDEXES = define(
    "twins.indexes",
    "SELECT tablespace_name, index_name FROM all_indexes WHERE table_owner = :1 AND table_name = :2 AND index_type = 'NORMAL'",
    "twins",
    needs=_OPEN,
    example=("SYS", "DUAL"),
)
COLUMNS = define(
    "twins.encrypted_columns",
    "SELECT column_name, encryption_alg FROM all_encrypted_columns WHERE owner = :1 AND table_name = :2",
    "twins",
    needs=_OPEN,
    example=("SYS", "DUAL"),
)
TABLESPACES = define(
    "twins.tablespaces",
    "SELECT tablespace_name, encrypted FROM dba_tablespaces",
    "twins",
    view("DBA_TABLESPACES"),
    needs=_OPEN,
)
ALGORITHMS = define(
    "twins.algorithms",
    "SELECT t.name, e.encryptionalg FROM v$encrypted_tablespaces e JOIN v$tablespace t"
    " ON t.ts# = e.ts# AND t.con_id = e.con_id WHERE e.encryptedts = 'YES'",
    "twins",
    view("V$ENCRYPTED_TABLESPACES", "V$TABLESPACE"),
)
NOT_THERE = (PermissionMissing, QueryFailed)

_MARKER = re.compile(r"tde-exporter twin v1 (building|complete)(?: .*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table as it is. `marked` and `complete` are what its comment says: that it is ours, and ready."""

    tablespaces: frozenset[str]
    """Of its rows, its large objects and its primary key."""
    marked: bool
    complete: bool
    statistics_rows: int | None
    statistics_blocks: int | None
    object_id: int | None
    columns: Mapping[str, str]
    """Its encrypted columns, with their algorithms."""
    caches_lobs: bool
    indexes: frozenset[str]

    @property
    def rows_per_block(self) -> float | None:
        """As of the newest statistics; None without."""
        if not self.statistics_rows or not self.statistics_blocks:
            return None
        return self.statistics_rows / self.statistics_blocks


def find_table(connection: Connection, owner: str, name: str, deadline: Deadline) -> FoundTable | None:
    """What is known of a table; None when there is none that this account may read."""
    at = (owner, name)
    row = connection.row(TABLE, at, timeout=deadline.step())
    if row is None:
        return None
    marker = _MARKER.fullmatch(str(row[3] or ""))
    found = connection.row(OBJECT, at, timeout=deadline.step())
    lobs = connection.rows(LOBS, at, timeout=deadline.step())
    indexes = connection.rows(INDEXES, at, timeout=deadline.step())
    columns = connection.rows(COLUMNS, at, timeout=deadline.step())
    spaces = [row[0], *(lob[0] for lob in lobs), *(index[0] for index in indexes)]
    return FoundTable(
        tablespaces=frozenset(str(space) for space in spaces if space),
        marked=marker is not None,
        complete=marker is not None and marker[1] == "complete",
        statistics_rows=None if row[1] is None else int(row[1]),
        statistics_blocks=None if row[2] is None else int(row[2]),
        object_id=None if found is None or found[0] is None else int(found[0]),
        columns={str(column): str(algorithm) for column, algorithm in columns},
        caches_lobs=any(lob[1] != "NO" for lob in lobs),
        indexes=frozenset(str(index[1]) for index in indexes),
    )


@dataclass(frozen=True, slots=True)
class Tablespaces:
    """Which tablespaces there are, and which of them are encrypted by what; `problem` says why that is unknown."""

    encrypted: Mapping[str, bool]
    algorithms: Mapping[str, str]
    problem: str = ""
    only_encrypted_listed: bool = False

    def state(self, names: Iterable[str]) -> bool | None:
        """Whether all of them are encrypted (True), or none is (False); None when they differ or it is unknown."""
        states = {self.encrypted_or_not(name) for name in names}
        return states.pop() if len(states) == 1 else None

    def encrypted_or_not(self, name: str) -> bool | None:
        """None for a tablespace that is not listed, or where nothing is known."""
        return self.encrypted.get(name, False if self.only_encrypted_listed else None)

    def algorithm(self, names: Iterable[str]) -> str:
        found = {self.algorithms.get(name, "") for name in names} - {""}
        return ", ".join(sorted(found))


def tablespaces(connection: Connection, deadline: Deadline) -> Tablespaces:
    """All tablespaces of this container. Either of the two sources will do: one has no algorithms, one no plain ones."""
    algorithms: dict[str, str] = {}
    try:
        rows = connection.rows(ALGORITHMS, timeout=deadline.step())
        algorithms, known = {str(name): str(algorithm) for name, algorithm in rows}, True
    except NOT_THERE:
        known = False
    try:
        states = connection.rows(TABLESPACES, timeout=deadline.step())
        return Tablespaces({str(name): state == "YES" for name, state in states}, algorithms)
    except NOT_THERE as error:
        if not known:
            return Tablespaces({}, {}, str(error))
        return Tablespaces(dict.fromkeys(algorithms, True), algorithms, only_encrypted_listed=True)
