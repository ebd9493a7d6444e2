"""What a history holds of some targets, row by row, as of one moment, to be taken to another exporter.

Read in one transaction on a connection of its own, while a daemon may be writing; memory stays flat.
"""

from __future__ import annotations

import heapq
import sqlite3
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from exporter.domain.clock import Clock
from exporter.history import rows
from exporter.history.access import Access
from exporter.history.file import open_file
from exporter.history.order import place
from exporter.history.records import BROUGHT, EVENT_WATCH, LEFT, OPEN_EPOCH, VERDICT, WANDERING
from exporter.history.soundness import check, name, series_baseline
from exporter.history.transfer import LONGEST_LINE, Row

Heard = Callable[[int, int], None]
"""Of how many rows, of how many, something was said."""

_TARGETS = "SELECT target FROM ({})".format(
    " UNION ".join(
        f"SELECT target FROM {table}" for table in ("series", "snapshots", "events", "epochs", "baselines", "states")
    )
)
_STATES = (EVENT_WATCH, OPEN_EPOCH, VERDICT, WANDERING)


class Departure:
    """One consistent look at a history. Every method raises HistoryError. `damaged` counts rows that cannot be read, and
    were left out."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._access = Access(path, open_file(path, clock.wall(), set_aside=False))
        self._began = False
        self.damaged = 0

    def close(self) -> None:
        """Ends the look."""
        self._access.close()

    def targets(self) -> list[str]:
        """All targets of which it holds anything, configured or not; sorted."""
        with self._access.alone() as connection:
            self._begin(connection)
            found = [str(target) for (target,) in connection.execute(_TARGETS)]
        return sorted(target for target in found if _is_name(target))

    def rows(self, targets: Collection[str], heard: Heard = lambda done, total: None) -> Iterator[Row]:
        """Everything of these targets, each row sound. For each target in order: what was measured, by series, the hours
        of each hour before the blocks; then what there is little of."""
        with self._access.alone() as connection:
            self._begin(connection)
            total, done = self._measured(connection, targets), 0
            for target in sorted(targets):
                for row in self._of(connection, target):
                    done += row.kind in ("hours", "blocks")
                    heard(done, total)
                    if self._sound(row):
                        yield row

    # -- steps -------------------------------------------------------------------------------------------

    def _begin(self, connection: sqlite3.Connection) -> None:
        """From its first query on, a transaction sees the file as it was then."""
        if not self._began:
            connection.execute("BEGIN")
            self._began = True

    def _measured(self, connection: sqlite3.Connection, targets: Collection[str]) -> int:
        names = dict(connection.execute("SELECT id, target FROM series"))
        counts = (
            connection.execute(f"SELECT series, count(*) FROM {table} GROUP BY series") for table in ("blocks", "hours")
        )
        return sum(number for found in counts for series, number in found if names.get(series) in targets)

    def _of(self, connection: sqlite3.Connection, target: str) -> Iterator[Row]:
        series = connection.execute("SELECT pair, operation, id FROM series WHERE target = ?", (target,)).fetchall()
        for pair, operation, number in sorted(series):
            yield from _series(connection, (target, pair, operation), number)
        for kind, query in _QUERIES.items():
            with closing(connection.execute(query, (target,))) as found:
                for row in found:
                    yield Row(kind, row)
        yield from self._baselines(connection, target)
        yield from _states(connection, target)

    def _baselines(self, connection: sqlite3.Connection, target: str) -> Iterator[Row]:
        held = connection.execute(
            "SELECT target, pair, frozen, since, until, epoch, phase, slot, content, event, note, id "
            "FROM baselines WHERE target = ? ORDER BY frozen, id",
            (target,),
        ).fetchall()
        for *columns, number in held:
            parts = connection.execute(
                "SELECT operation, body FROM baseline_series WHERE baseline = ? ORDER BY operation", (number,)
            ).fetchall()
            # One operation that is damaged leaves the others as they are.
            yield Row("baselines", (*columns, tuple(part for part in parts if self._reads(part[1]))))

    def _reads(self, body: bytes) -> bool:
        try:
            series_baseline(body)
        except (ValueError, TypeError, KeyError, AttributeError):
            self.damaged += 1
            return False
        return True

    def _sound(self, row: Row) -> bool:
        try:
            if sum(len(value) for value in row.values if isinstance(value, bytes)) > LONGEST_LINE // 2:
                raise ValueError("a row is too long")
            check(row)
        except ValueError:
            self.damaged += 1
            return False
        return True


_QUERIES = {
    "snapshots": "SELECT target, started, body FROM snapshots WHERE target = ?",
    "events": "SELECT target, id, pair, at, not_before, kind, origin, text, taken FROM events WHERE target = ? ORDER BY id",
    "epochs": "SELECT target, pair, epoch, seen, phase, slot, content FROM epochs WHERE target = ? ORDER BY pair, epoch",
}


def _series(connection: sqlite3.Connection, key: tuple[str, str, str], number: int) -> Iterator[Row]:
    columns = ", ".join(rows.COLUMNS)
    hours = connection.execute(
        f"SELECT start, measured, in_bursts, {columns} FROM hours WHERE series = ? ORDER BY start, epoch", (number,)
    )
    blocks = connection.execute(f"SELECT start, {columns} FROM blocks WHERE series = ? ORDER BY start", (number,))
    with closing(hours), closing(blocks):
        yield from heapq.merge(
            (Row("hours", (*key, *row)) for row in hours),
            (Row("blocks", (*key, *row)) for row in blocks),
            key=place,
        )


def _states(connection: sqlite3.Connection, target: str) -> Iterator[Row]:
    """Under the names that the detectors know, whichever of them count here; those that are read here come first."""
    found: dict[tuple[str, str, str], tuple[Any, ...]] = {}
    for kind, *rest in connection.execute(
        "SELECT name, pair, operation, version, body FROM states WHERE target = ? ORDER BY name, pair, operation",
        (target,),
    ):
        plain = kind.removeprefix(LEFT).removeprefix(BROUGHT)
        if plain in _STATES and (plain == kind or (plain, *rest[:2]) not in found):
            found[plain, rest[0], rest[1]] = (target, plain, *rest)
    for key in sorted(found):
        yield Row("states", found[key])


def _is_name(target: str) -> bool:
    try:
        name(target)
    except ValueError:
        return False
    return True
