"""Baselines in the history: one row each, and one for each of their operations as compressed JSON.

::

    {"schema": 1, "blocks": …, "seconds": …,
     "ratio": {"50": [estimate, lower, upper, samples], …},
     "sides": {"encrypted": {"samples": …, "failures": …, "sketch": base64, "levels": {"50": [log, error], …}}, …}}
"""

from __future__ import annotations

import base64
import json
import sqlite3
import zlib
from dataclasses import replace
from typing import Any

from exporter.domain.model import Operation, Phase, Slot, Variant
from exporter.history.access import Access
from exporter.overhead.baseline import BaselineSide, Level, PairBaseline, SeriesBaseline
from exporter.overhead.ratio import Ratio
from exporter.overhead.sketch import LogSketch

SCHEMA = 1
MOST_AUTOMATIC = 20
"""Baselines of one pair that were frozen for an event; the oldest of more are removed. Others stay until dropped."""

_COLUMNS = "target, pair, frozen, since, until, epoch, phase, slot, content, event, note"


class Baselines:
    """Raises HistoryError; every method is one transaction."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def save(self, baseline: PairBaseline) -> PairBaseline:
        """Store a baseline; the same with the number that it got. For one event and pair, the first stays."""
        row = (
            *(baseline.target, baseline.pair, baseline.frozen, baseline.since, baseline.until, baseline.epoch),
            *(baseline.phase.value, baseline.slot.value, baseline.content, baseline.event, baseline.note),
        )
        with self._access.transaction() as connection:
            if baseline.event and (known := _of_event(connection, baseline)) is not None:
                return replace(baseline, id=known)
            cursor = connection.execute(f"INSERT INTO baselines ({_COLUMNS}) VALUES ({', '.join('?' * len(row))})", row)
            number = int(cursor.lastrowid or 0)
            connection.executemany(
                "INSERT INTO baseline_series (baseline, operation, body) VALUES (?, ?, ?)",
                [(number, operation.value, to_bytes(series)) for operation, series in baseline.series.items()],
            )
        return replace(baseline, id=number)

    def all(self, target: str | None = None) -> list[PairBaseline]:
        """All baselines, or those of one target, newest first; what is damaged is left out and counted."""
        where, values = ("WHERE target = ?", (target,)) if target is not None else ("", ())
        rows = self._access.query(f"SELECT id, {_COLUMNS} FROM baselines {where} ORDER BY frozen DESC, id DESC", values)
        found = []
        for number, *row in rows:
            try:
                found.append(self._baseline(number, row))
            except (ValueError, TypeError) as error:
                self._access.skip(f"baseline {number}", error)
        return found

    def drop(self, number: int) -> bool:
        """Remove a baseline; whether there was one."""
        with self._access.transaction() as connection:
            return _remove(connection, [number]) > 0

    def _baseline(self, number: int, row: list[Any]) -> PairBaseline:
        target, pair, frozen, since, until, epoch, phase, slot, content, event, note = row
        if not all(isinstance(time, float) for time in (frozen, since, until)):
            raise ValueError("a time is of the wrong type")
        series: dict[Operation, SeriesBaseline] = {}
        for operation, body in self._access.query(
            "SELECT operation, body FROM baseline_series WHERE baseline = ? ORDER BY operation", (number,)
        ):
            try:
                series[Operation(operation)] = from_bytes(body)
            except (ValueError, TypeError) as error:
                self._access.skip(f"{operation} of baseline {number}", error)
        return PairBaseline(
            *(target, pair, frozen, since, until, epoch, Phase(phase), Slot(slot), content, series, event, note),
            id=number,
        )


def prune(connection: sqlite3.Connection) -> None:
    """Remove the oldest of too many automatic baselines; inside a transaction."""
    rows = connection.execute(
        "SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY target, pair ORDER BY frozen DESC, id DESC) AS number "
        "FROM baselines WHERE event != '') WHERE number > ?",
        (MOST_AUTOMATIC,),
    ).fetchall()
    _remove(connection, [number for (number,) in rows])


def to_bytes(series: SeriesBaseline) -> bytes:
    """The inverse of `from_bytes`."""
    document = {
        "schema": SCHEMA,
        "blocks": series.blocks,
        "seconds": series.seconds,
        "ratio": {
            str(percent): [ratio.estimate, ratio.lower, ratio.upper, ratio.samples]
            for percent, ratio in series.ratio.items()
        },
        "sides": {
            variant.value: {
                "samples": side.samples,
                "failures": side.failures,
                "sketch": base64.b64encode(side.sketch.to_bytes()).decode("ascii"),
                "levels": {str(percent): [level.log, level.error] for percent, level in side.levels.items()},
            }
            for variant, side in series.sides.items()
        },
    }
    return zlib.compress(json.dumps(document, separators=(",", ":"), allow_nan=False).encode())


def from_bytes(body: bytes) -> SeriesBaseline:
    """Raises ValueError or TypeError when the bytes are not a baseline of this schema."""
    try:
        document = json.loads(zlib.decompress(body))
        if document["schema"] != SCHEMA:
            raise ValueError(f"unknown schema {document['schema']} of a baseline")
        ratio = {int(percent): Ratio(*_numbers(values, 4)) for percent, values in document["ratio"].items()}
        sides = {variant: _side(document["sides"][variant.value]) for variant in Variant}
        return SeriesBaseline(sides, ratio, int(document["blocks"]), float(document["seconds"]))
    except (zlib.error, KeyError, AttributeError) as error:
        raise ValueError("damaged baseline") from error


def _side(document: dict[str, Any]) -> BaselineSide:
    sketch = LogSketch.from_bytes(base64.b64decode(document["sketch"], validate=True))
    levels = {int(percent): Level(*_numbers(values, 2)) for percent, values in document["levels"].items()}
    return BaselineSide(int(document["samples"]), int(document["failures"]), sketch, levels)


def _numbers(values: list[Any], many: int) -> list[Any]:
    if len(values) != many or not all(isinstance(value, int | float | None) for value in values):
        raise ValueError("damaged baseline")
    return values


def _of_event(connection: sqlite3.Connection, baseline: PairBaseline) -> int | None:
    row = connection.execute(
        "SELECT id FROM baselines WHERE target = ? AND pair = ? AND event = ?",
        (baseline.target, baseline.pair, baseline.event),
    ).fetchone()
    return None if row is None else int(row[0])


def _remove(connection: sqlite3.Connection, numbers: list[int]) -> int:
    connection.executemany("DELETE FROM baseline_series WHERE baseline = ?", [(number,) for number in numbers])
    return sum(connection.execute("DELETE FROM baselines WHERE id = ?", (number,)).rowcount for number in numbers)
