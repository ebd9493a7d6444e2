"""The history as lines for other programs: CSV for spreadsheets, JSON lines for everything.

A line of CSV is one stretch of one series, five minutes or an hour, with both sides. JSON lines hold the same with the
whole sketch (`LogSketch.to_bytes`, base64), and the events. Unknown is empty or null; a percentile among timeouts is
`inf` in CSV, and null in JSON, which has no infinity.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import math
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from exporter.domain.events import Event
from exporter.domain.model import SeriesKey, Variant
from exporter.history.store import History
from exporter.overhead.blocks import BlockSide
from exporter.overhead.stretches import Stretch

PERCENTILES = (50, 95, 99)
FEWEST_FOR_TAIL = {50: 1, 95: 20, 99: 100}
"""Samples below which a percentile would be no more than the maximum."""

_COUNTS = ("samples", "failures", "cold", "cpu_seconds", "decrypts", "encrypts", "blocks_read")
_NAMES = ("target", "pair", "operation", "start", "seconds", "measured_seconds", "epoch")
COLUMNS = (
    *_NAMES,
    *(f"{variant}_{name}" for variant in Variant for name in (*_COUNTS, *(f"p{p}_seconds" for p in PERCENTILES))),
)
"""Of the CSV, in order."""


def csv_lines(history: History, since: float, until: float, target: str | None = None) -> Iterator[str]:
    """The heading, then a line for each stretch; raises HistoryError. Reads page by page, however much there is."""
    line = io.StringIO()
    writer = csv.writer(line, lineterminator="\n")
    writer.writerow(COLUMNS)
    for key, part in history.load_span(since, until, target):
        yield _taken(line)
        row = _names(key, part)
        sides = [part.block.side(variant) for variant in Variant]
        values = [value for side in sides for value in (*_counts(side).values(), *_percentiles(side).values())]
        writer.writerow(["" if value is None else value for value in (*row.values(), *values)])
    yield _taken(line)


def json_lines(history: History, since: float, until: float, target: str | None = None) -> Iterator[str]:
    """An object for each stretch (`record` is `observation`), then one for each `event`; raises HistoryError."""
    for key, part in history.load_span(since, until, target):
        sides = {
            variant.value: {
                **_counts(part.block.side(variant)),
                **{name: _finite(value) for name, value in _percentiles(part.block.side(variant)).items()},
                "sketch": base64.b64encode(part.block.side(variant).sketch.to_bytes()).decode("ascii"),
            }
            for variant in Variant
        }
        yield _json({"record": "observation", **_names(key, part), **sides})
    for event in reversed(history.records.events(target)):
        if since <= event.at <= until:
            yield _json({"record": "event", **event_dict(event)})


def event_dict(event: Event) -> dict[str, Any]:
    """For JSON."""
    return {
        "id": event.id,
        "target": event.target,
        "pair": event.pair or None,
        "at": moment(event.at),
        "not_before": None if event.before is None else moment(event.before),
        "kind": event.kind.value,
        "origin": event.origin.value,
        "text": event.text,
    }


def moment(at: float) -> str:
    """ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _names(key: SeriesKey, part: Stretch) -> dict[str, Any]:
    block = part.block
    values = (key.target, key.pair, key.operation.value, moment(block.start), part.seconds, part.measured, block.epoch)
    return dict(zip(_NAMES, values, strict=True))


def _counts(side: BlockSide) -> dict[str, Any]:
    return {name: getattr(side, name) for name in _COUNTS}


def _percentiles(side: BlockSide) -> dict[str, float | None]:
    return {
        f"p{percent}_seconds": _short(side.sketch.quantile(percent / 100))
        if side.samples >= FEWEST_FOR_TAIL[percent]
        else None
        for percent in PERCENTILES
    }


def _short(value: float | None) -> float | None:
    """A percentile of a sketch is known to one percent; five digits are more than enough."""
    return None if value is None else float(f"{value:.5g}")


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _taken(line: io.StringIO) -> str:
    text = line.getvalue()
    line.seek(0)
    line.truncate()
    return text


def _json(document: dict[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"), allow_nan=False, ensure_ascii=False) + "\n"
