"""The scratch table that is always full: what the operations write to that change rows.

It holds 1 000 rows of a phonebook and for each of them a number that grows with every change. The size of
row 1 is always the same, that of row 2 as well, and so on: whatever is written, the table keeps its pages.
(The other scratch table, which inserting empties and fills, belongs to `phonebook.TABLES`.)
"""

from __future__ import annotations

import apsw

from exporter.engines.sqlite import phonebook

ROWS = 1_000
CHANGED_ROWS = ROWS // 2

CREATE = """
CREATE TABLE IF NOT EXISTS scratch_filled (id INTEGER PRIMARY KEY, name TEXT NOT NULL, region TEXT NOT NULL, area INTEGER NOT NULL, number TEXT NOT NULL, changed INTEGER NOT NULL) STRICT;
"""
INSERT = "INSERT INTO scratch_filled (id, name, region, area, number, changed) VALUES (?, ?, ?, ?, ?, ?)"
UPDATE = "UPDATE scratch_filled SET changed = ? WHERE id % 2 = ?"
# With a condition, since without one the pages would be dropped as they are and no row deleted.
DELETE = "DELETE FROM scratch_filled WHERE id > 0"

_STATE = "SELECT count(*), min(id), max(id), max(changed) FROM scratch_filled"
_UPDATED = "SELECT count(*), sum(id) FROM scratch_filled WHERE changed = ?"
_REPLENISHED = (
    "SELECT count(*), sum(length(name) + length(region)), sum(area), sum(id * area), sum(number) "
    "FROM scratch_filled WHERE changed = ?"
)
_FIRST_CHANGE = 2**40
"""Large from the start: the number is stored in six bytes for as long as anybody lives."""

_Row = tuple[int, str, str, int, str, int]


def rows(key: int, change: int) -> list[_Row]:
    """All rows of the table as a key makes them."""
    made = phonebook.rows(key + 1, key + ROWS)
    return [
        (index, name, phonebook.REGIONS[index % len(phonebook.REGIONS)], area, number, change)
        for index, (_, name, _, area, number) in enumerate(made, start=1)
    ]


def is_there(connection: apsw.Connection) -> bool:
    """Whether the database has the table; one of an earlier version has not."""
    return bool(connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'scratch_filled'").get)


def repaired(connection: apsw.Connection) -> int:
    """Make the table if it is missing and fill it if a row is; the number of the next change.

    The number is larger than all in the table, so what is changed really changes, whatever came before: a
    restart, another machine, a clock set back. SQLite writes nothing for a value that stays the same.
    """
    connection.execute(CREATE)
    count, first, last, newest = connection.execute(_STATE).get
    if (count, first, last) == (ROWS, 1, ROWS):
        return int(newest) + 1
    with connection:
        connection.execute("DELETE FROM scratch_filled")
        connection.executemany(INSERT, rows(0, _FIRST_CHANGE))
    return _FIRST_CHANGE + 1


def updated(connection: apsw.Connection, change: int) -> tuple[object, ...]:
    """What an update has left: number of rows, and which."""
    return tuple(connection.execute(_UPDATED, (change,)).get)


def replenished(connection: apsw.Connection, change: int) -> tuple[object, ...]:
    """What a replenishment has left: number of rows, and what is in them."""
    return tuple(connection.execute(_REPLENISHED, (change,)).get)
