"""A span of time from the history, whether it lies in blocks of five minutes or in hours; and how the one becomes the other."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from itertools import groupby
from typing import Any

from exporter.domain.model import SeriesKey
from exporter.history import rows
from exporter.history.access import Access
from exporter.overhead.stretches import HOUR, Stretch, hour_of, joined, stretch

RECENT_SECONDS = 26 * HOUR
"""Blocks of five minutes are kept for so long: whatever looks at a whole day of them finds it at any minute."""
_HOURS_AT_ONCE = 200
"""Joined in one transaction: a few hundred milliseconds in which nobody else can write."""
_PAGE = 500

_BLOCK = ", ".join(f"b.{name}" for name in rows.COLUMNS)
_HOUR_COLUMNS = ("epoch", "measured", "in_bursts", *rows.COLUMNS[1:])
_HOUR = ", ".join(f"b.{name}" for name in ("measured", "in_bursts", *rows.COLUMNS))
_NAMES = "s.target, s.pair, s.operation"
_SAVE_HOUR = (
    f"INSERT INTO hours (series, start, {', '.join(_HOUR_COLUMNS)}) VALUES (?, ?{', ?' * len(_HOUR_COLUMNS)}) "
    f"ON CONFLICT (series, start, epoch) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _HOUR_COLUMNS)}"
)


def load(
    access: Access, target: str | None, pair: str | None, since: float, until: float
) -> Iterator[tuple[SeriesKey, Stretch]]:
    """What began at `since` or later and ended by `until` (steady seconds), oldest first: hours, then blocks.

    Reads page by page; other calls may come in between. What is damaged is left out and counted.
    """
    where, values = "", []
    for column, value in (("target", target), ("pair", pair)):
        if value is not None:
            where += f" AND s.{column} = ?"
            values.append(value)
    for table, columns, length in (("hours", _HOUR, HOUR), ("blocks", _BLOCK, 300.0)):
        # Of one hour there may be several rows, one for each epoch.
        place = "b.start, b.series, b.epoch"
        query = (
            f"SELECT b.series, b.start, b.epoch, {_NAMES}, {columns} FROM {table} b JOIN series s ON s.id = b.series "
            f"WHERE ({place}) > (?, ?, ?) AND b.start <= ?{where} ORDER BY {place} LIMIT {_PAGE}"
        )
        after: tuple[Any, ...] = (since, -1, "")
        while page := access.query(query, (*after, until - length, *values)):
            for series, start, _, *row in page:
                try:
                    yield _decoded(row[:3], start, row[3:], hours=table == "hours")
                except (ValueError, TypeError) as error:
                    access.skip(f"a block of series {series} at {start:.0f}", error)
            after = (page[-1][1], page[-1][0], page[-1][2])


def join_old(access: Access, now: float) -> int:
    """Join the blocks that are older than `RECENT_SECONDS` to hours; how many blocks that were."""
    limit = hour_of(now - RECENT_SECONDS)
    total = 0
    while gone := _join_some(access, limit):
        total += gone
    return total


def _join_some(access: Access, limit: float) -> int:
    """One transaction: whoever is killed in it leaves everything as it was."""
    with access.transaction() as connection:
        found = connection.execute(
            f"SELECT DISTINCT series, CAST(floor_hour AS REAL) FROM (SELECT series, start - (start % {HOUR:.0f}) AS "
            "floor_hour FROM blocks WHERE start < ?) ORDER BY 2, 1 LIMIT ?",
            (limit, _HOURS_AT_ONCE),
        ).fetchall()
        return sum(_join_hour(access, connection, series, start) for series, start in found)


def _join_hour(access: Access, connection: sqlite3.Connection, series: int, start: float) -> int:
    names = connection.execute("SELECT target, pair, operation FROM series WHERE id = ?", (series,)).fetchone()
    span = (series, start, start + HOUR)
    parts: list[Stretch] = []
    for table, columns in (("hours", _HOUR), ("blocks", _BLOCK)):
        for at, *row in connection.execute(
            f"SELECT b.start, {columns} FROM {table} b WHERE b.series = ? AND b.start >= ? AND b.start < ?", span
        ):
            try:
                parts.append(_decoded(names, at, row, hours=table == "hours")[1])
            except (ValueError, TypeError) as error:
                access.skip(f"a block of series {series} at {at:.0f}", error)
    parts.sort(key=lambda part: part.block.epoch)
    for _, same in groupby(parts, key=lambda part: part.block.epoch):
        hour = joined(list(same))
        epoch, *values = rows.to_row(hour.block)
        connection.execute(_SAVE_HOUR, (series, start, epoch, hour.measured, int(hour.in_bursts), *values))
    return connection.execute("DELETE FROM blocks WHERE series = ? AND start >= ? AND start < ?", span).rowcount


def _decoded(names: Any, start: float, row: list[Any], hours: bool) -> tuple[SeriesKey, Stretch]:
    if not hours:
        key, block = rows.from_row(names, start, row)
        return key, stretch(block)
    measured, in_bursts, *values = row
    key, block = rows.from_row(names, start, values)
    return key, Stretch(block, HOUR, float(measured), bool(in_bursts))
