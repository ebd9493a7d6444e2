"""In which order the rows of an export stand: so they can be merged hour by hour, and none of them comes twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from exporter.history.soundness import check, name
from exporter.history.transfer import KINDS, Reading, Row
from exporter.overhead.stretches import hour_of

_MOST_IN_AN_HOUR = 1000
"""Rows of one series: twelve blocks, or an hour for each epoch."""
_MOST_STATES_BYTES = 64 * 2**20
"""Of one target. Those of a thousand series are a tenth of that."""
_LOOK_EVERY = 500


def place(row: Row) -> tuple[Any, ...]:
    """Of a row of `hours` or `blocks`, where it stands among those of its series."""
    start = row.values[3]
    if row.kind == "hours":
        return hour_of(start), 0, start, row.values[6]
    return hour_of(start), 1, start, ""


def checked(reading: Reading, room: Callable[[], None] = lambda: None) -> Iterator[Row]:
    """The rows, each sound and in its place; `room` is called now and then. Raises HistoryError."""
    order = {target: number for number, target in enumerate(reading.header.targets)}
    try:
        for target in order:
            name(target)
    except ValueError as error:
        raise reading.refusal(str(error)) from None
    before: tuple[Any, ...] = ()
    group, together = before, 0
    for number, row in enumerate(reading.rows()):
        if number % _LOOK_EVERY == 0:
            room()
        try:
            check(row)
            if row.target not in order:
                raise ValueError("its target is not one of those that the first line names")
            here = (order[row.target], _ORDER[row.kind], *_within(row, number))
            if here <= before:
                raise ValueError("a row is there twice, or not in its place")
            same, size, most = _together(row, here)
            group, together = same, size + (together if group == same else 0)
            if together > most:
                raise ValueError("too much belongs to one hour, or to one target")
            before = here
        except ValueError as error:
            raise reading.refusal(str(error)) from None
        yield row


_ORDER = {kind: number for number, kind in enumerate(KINDS)} | {"blocks": 0}


def _within(row: Row, number: int) -> tuple[Any, ...]:
    """Where a row stands among those of its target and kind."""
    match row.kind:
        case "hours" | "blocks":
            return (*row.values[1:3], *place(row))
        case "snapshots":
            return ()
        case "baselines":
            # All pairs of a target are frozen at once.
            return (row.values[2], number)
        case _:
            return tuple(map(str, row.values[1:4]))


def _together(row: Row, here: tuple[Any, ...]) -> tuple[tuple[Any, ...], int, int]:
    """What a row is held in memory with, how much it adds to that, and how much may be held."""
    if row.kind == "states":
        return here[:2], len(row.values[-1]) + 100, _MOST_STATES_BYTES
    return here[:5], 1, _MOST_IN_AN_HOUR
