"""Whether a row that comes from elsewhere is one that the daemon could have written: types, ranges, and that its readers
can decode it. What passes here is never met by surprise, at night, by a daemon that restores it.

Every check raises ValueError.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from exporter.config.schema import NAME_PATTERN
from exporter.domain.events import EventKind, Origin
from exporter.domain.model import Operation, Phase, SeriesKey, Slot
from exporter.history import baselines, records, rows, snapshots
from exporter.history.transfer import Row, strict_json
from exporter.overhead.blocks import Block
from exporter.overhead.event_watch import EventWatch
from exporter.overhead.series import Series
from exporter.overhead.sketch import BUCKETS_PER_DOUBLING, LogSketch
from exporter.overhead.stretches import BLOCK, HOUR

MOST_UNPACKED = 32 * 2**20
"""Bytes of a compressed body."""

_LATEST = 1e11
"""Seconds since 1970: some three thousand years, and all that a date can be made of."""
_LARGEST = 2.0**62
"""What the history can keep as a whole number; more than is believed of anything that is measured."""
_MOST_SAMPLES = 2_000_000
"""Of one side in five minutes; two hundred a second are six in a hundred of that."""
_MOST_DEEP = 12
_FARTHEST_BUCKET = 1100 * BUCKETS_PER_DOUBLING
_LARGEST_LOG = 100.0
_LARGEST_RATIO = 1e150
"""So that one divided by another is a number yet, and not 0."""
_NAME, _ID = re.compile(NAME_PATTERN.removesuffix("$")), re.compile(r"[0-9A-Za-z_-]{1,64}")
_LONGEST = 4000


def check(row: Row) -> None:
    """The one check for everything."""
    try:
        name(row.target)
        _CHECKS[row.kind](*row.values)
    except (TypeError, KeyError, AttributeError, IndexError, OverflowError, RecursionError) as error:
        raise ValueError("a value is of the wrong type") from error


def name(value: Any) -> None:
    """Of a target or a pair."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError("a name is none")


def block_of(key: tuple[str, str, str], start: float, columns: tuple[Any, ...], length: float) -> Block:
    """What is in a row of `blocks` or `hours`, decoded."""
    name(key[1])
    _moment(start)
    if start % length:
        raise ValueError("a time is not the start of a block")
    _text(columns[0])
    block = rows.from_row(key, start, columns)[1]
    for side in (block.encrypted, block.plain):
        _count(side.samples, _MOST_SAMPLES * length / BLOCK)
        _count(side.failures, side.samples)
        for value in (side.cold, side.cpu_seconds, side.decrypts, side.encrypts, side.blocks_read):
            if value is not None:
                _number(value)
        _sketch(side.sketch)
        if side.sketch.count != side.samples:
            raise ValueError("a sketch does not match the number of samples")
    for unit in block.units:
        _moment(unit.at)
        if math.isnan(unit.latency) or not (unit.cpu is None or math.isfinite(unit.cpu)):
            raise ValueError("a unit is not a number")
    return block


# -- one for each kind ---------------------------------------------------------------------------------------


def _hours(target: str, pair: str, operation: str, start: float, measured: Any, in_bursts: Any, *columns: Any) -> None:
    block_of((target, pair, operation), start, columns, HOUR)
    _number(measured, HOUR)
    _count(in_bursts, 1)


def _blocks(target: str, pair: str, operation: str, start: float, *columns: Any) -> None:
    block_of((target, pair, operation), start, columns, BLOCK)


def _snapshot(target: str, started: float, body: bytes) -> None:
    _moment(started)
    _bounded(_unpacked(body))
    snapshot = snapshots.from_bytes(body)
    if snapshot.target != target or snapshot.started != started:
        raise ValueError("a snapshot is of another target or time")
    _number(snapshot.seconds)
    for pair, _, words in snapshot.failures:
        name(pair)
        _text(words)
    for tick in snapshot.ticks:
        name(tick.pair)
        _text(tick.epoch)
        _moment(tick.started)
        _count(tick.unit)
        if tick.dropped is not None:
            _text(tick.dropped)
        for sample in (*tick.encrypted.samples, *tick.plain.samples):
            if sample.duration != math.inf:
                _number(sample.duration)
            for value in (sample.position, sample.execute_seconds, sample.fetch_seconds, sample.commit_seconds):
                _number(value)
            work = sample.work
            for known in (work.cpu_seconds, work.server_seconds, work.blocks_read, work.decrypts, work.encrypts):
                if known is not None:
                    _number(known)


def _event(
    _: str, number: Any, pair: Any, at: Any, not_before: Any, kind: Any, origin: Any, text: Any, taken: Any
) -> None:
    if not isinstance(number, str) or not _ID.fullmatch(number):
        raise ValueError("the id of an event is none")
    if pair != "":
        name(pair)
    _moment(at)
    if not_before is not None:
        _moment(not_before)
    EventKind(kind)
    Origin(origin)
    _text(text)
    _count(taken, 1)


def _epoch(_: str, pair: Any, epoch: Any, seen: Any, phase: Any, slot: Any, content: Any) -> None:
    name(pair)
    _moment(seen)
    Phase(phase)
    Slot(slot)
    for value in (epoch, content):
        _text(value)


def _baseline(
    _: str,
    pair: Any,
    frozen: Any,
    since: Any,
    until: Any,
    epoch: Any,
    phase: Any,
    slot: Any,
    content: Any,
    event: Any,
    note: Any,
    series: tuple[tuple[str, bytes], ...],
) -> None:
    name(pair)
    for at in (frozen, since, until):
        _moment(at)
    Phase(phase)
    Slot(slot)
    for value in (epoch, content, event, note):
        _text(value)
    if not series or len(dict(series)) != len(series):
        raise ValueError("a baseline has no series, or one of them twice")
    for operation, body in series:
        Operation(operation)
        series_baseline(body)


def series_baseline(body: bytes) -> None:
    """One operation of a baseline."""
    _bounded(_unpacked(body))
    found = baselines.from_bytes(body)
    _count(found.blocks)
    _number(found.seconds)
    for ratio in found.ratio.values():
        _count(ratio.samples)
        for value in (ratio.estimate, ratio.lower, ratio.upper):
            if value is not None:
                _number(value, _LARGEST_RATIO)
                if value < 1 / _LARGEST_RATIO and (value or value is ratio.estimate):
                    raise ValueError("a ratio is out of range")
    for side in found.sides.values():
        _count(side.samples)
        _count(side.failures)
        _sketch(side.sketch)
        for level in side.levels.values():
            if not isinstance(level.log, int | float) or not -_LARGEST_LOG <= level.log <= _LARGEST_LOG:
                raise ValueError("a percentile is out of range")
            if level.error is not None:
                _number(level.error, _LARGEST_LOG)


def _state(target: str, kind: Any, pair: Any, operation: Any, version: Any, body: bytes) -> None:
    if version != records.STATE_VERSION or kind not in _STATES:
        raise ValueError("a state is of a kind or version that this exporter does not know. Upgrade this one")
    if kind in (records.OPEN_EPOCH, records.EVENT_WATCH) and (pair, operation) != ("", ""):
        raise ValueError("a state of a target is that of a pair")
    if kind == records.OPEN_EPOCH:
        if not _ID.fullmatch(body.decode("ascii")):
            raise ValueError("the id of an event is none")
        return
    document = _bounded(body)
    if not isinstance(document, dict):
        raise ValueError("a state is no object")
    if kind == records.EVENT_WATCH:
        EventWatch.from_state(target, document)
        for _, read in document["facts"].values():
            _moment(read)
        return
    SeriesKey(target, pair, Operation(operation))
    name(pair)
    _series_state(kind, document)


_STATES = (records.EVENT_WATCH, records.OPEN_EPOCH, records.VERDICT, records.WANDERING)


def _series_state(kind: str, document: Mapping[str, Any]) -> None:
    """With the detectors of one sample in a tick, and of several."""
    for samples in (1, 2):
        series = Series(0.0, samples)
        fresh = series.to_state()
        parts = {"hours", "six_hours"}
        if kind == records.WANDERING and not document.keys() <= parts:
            raise ValueError("what a ratio wanders by is damaged")
        given = fresh if kind == records.WANDERING else {part: fresh[part] for part in parts}
        series.restore_state({**given, **document})
    if kind == records.VERDICT:
        try:
            times = [entry[3] for entry in (*document["verdict"]["breaches"], *document.get("dates", ()))]
        except (KeyError, TypeError, IndexError):
            raise ValueError("the breaches of a series are damaged") from None
        for at in times:
            _moment(at)
        for dated in document.get("dates", ()):
            percentile, reference, threshold, _, uncertainty = dated
            for value in (percentile, threshold, uncertainty):
                _number(value, _LATEST)
            _text(reference)


_CHECKS: dict[str, Callable[..., None]] = {
    "hours": _hours,
    "blocks": _blocks,
    "snapshots": _snapshot,
    "events": _event,
    "epochs": _epoch,
    "baselines": _baseline,
    "states": _state,
}


# -- values ------------------------------------------------------------------------------------------------


def _moment(value: Any) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0.0 <= value <= _LATEST:
        raise ValueError("a time is out of range")


def _number(value: Any, most: float = _LARGEST) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError("a number is out of range")


def _count(value: Any, most: float = 2.0**53) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError("a count is out of range")


def _text(value: Any) -> None:
    # Such text is printed at terminals, and stands on pages.
    if not isinstance(value, str) or len(value) > _LONGEST or not value.isprintable():
        raise ValueError("a text is too long, or holds what is no text")


def _sketch(sketch: LogSketch) -> None:
    places, _ = sketch.arrays()
    if places.size and not -_FARTHEST_BUCKET <= places[0] <= places[-1] <= _FARTHEST_BUCKET:
        raise ValueError("a sketch holds times that there are not")


def _unpacked(body: bytes) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        found = unpacker.decompress(body, MOST_UNPACKED)
    except zlib.error:
        raise ValueError("a body is damaged") from None
    if not unpacker.eof:
        raise ValueError("a body is damaged, or too large")
    return found


def _bounded(body: bytes) -> Any:
    """The JSON in a body, with numbers that are numbers, and not nested deeper than what is written here."""
    document = strict_json(body)
    _walk(document, _MOST_DEEP)
    return document


def _walk(value: Any, deep: int) -> None:
    if deep < 0:
        raise ValueError("a body is nested too deeply")
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            _walk(one, deep - 1)
    elif isinstance(value, int | float) and not -_LARGEST <= value <= _LARGEST:
        raise ValueError("a number is out of range")
    elif isinstance(value, str) and len(value) > 2**20:
        raise ValueError("a text is too long")
