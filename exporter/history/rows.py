"""Blocks as rows and back. None is stored as NULL: unknown stays unknown."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from typing import Any

from exporter.domain.model import Operation, SeriesKey
from exporter.overhead.sketch import LogSketch
from exporter.overhead.units import UnitPoint
from exporter.overhead.windows import Block, BlockSide

_SIDE = ("samples", "failures", "cold", "cpu_seconds", "decrypts", "encrypts", "blocks_read", "sketch")
COLUMNS = ("epoch", "units", *(f"{side}_{name}" for side in ("encrypted", "plain") for name in _SIDE))
"""Of the table `blocks`, after `series` and `start`, in the order of `to_row`."""

_UNIT = struct.Struct("<ddd")  # Time, latency, CPU; NaN where the CPU is unknown.


def to_row(block: Block) -> tuple[Any, ...]:
    """The values of `COLUMNS`."""
    return (block.epoch, _units_to_bytes(block.units), *_side_to_row(block.encrypted), *_side_to_row(block.plain))


def from_row(key: Sequence[str], start: float, row: Sequence[Any]) -> tuple[SeriesKey, Block]:
    """`key` is target, pair, operation; `row` as made by `to_row`. Raises ValueError when it is damaged."""
    epoch, units, *sides = row
    if len(sides) != 2 * len(_SIDE):
        raise ValueError("a column is missing")
    target, pair, operation = key
    encrypted, plain = _side_from_row(sides[: len(_SIDE)]), _side_from_row(sides[len(_SIDE) :])
    block = Block(start, epoch, encrypted, plain, _units_from_bytes(units))
    return SeriesKey(target, pair, Operation(operation)), block


def _side_to_row(side: BlockSide) -> tuple[Any, ...]:
    return (*(getattr(side, name) for name in _SIDE[:-1]), side.sketch.to_bytes())


def _side_from_row(row: Sequence[Any]) -> BlockSide:
    *numbers, sketch = row
    if not isinstance(sketch, bytes) or any(not isinstance(number, int | float | None) for number in numbers):
        raise ValueError("a value is of the wrong type")
    named = dict(zip(_SIDE[:-1], numbers, strict=True))
    return BlockSide(**named, sketch=LogSketch.from_bytes(sketch))


def _units_to_bytes(units: Sequence[UnitPoint]) -> bytes:
    return b"".join(_UNIT.pack(unit.at, unit.latency, math.nan if unit.cpu is None else unit.cpu) for unit in units)


def _units_from_bytes(data: object) -> tuple[UnitPoint, ...]:
    if not isinstance(data, bytes) or len(data) % _UNIT.size:
        raise ValueError("damaged units")
    return tuple(
        UnitPoint(at, latency, None if math.isnan(cpu) else cpu) for at, latency, cpu in _UNIT.iter_unpack(data)
    )
