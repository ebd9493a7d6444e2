"""Blocks that grow old are joined to hours: the sketches merge without loss, only the order within the hour is lost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from exporter.domain.model import Variant
from exporter.overhead.blocks import Block, BlockSide
from exporter.overhead.sketch import LogSketch
from exporter.overhead.units import UnitPoint, thin

BLOCK = 300.0
HOUR = 3600.0
UNITS_PER_HOUR = 2
"""Units of an hour are averaged to so many: what disturbs neighbours alike must not count several times."""

_Number = TypeVar("_Number", int, float)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A block as the history keeps it: of `seconds`, five minutes or an hour.

    `measured` is the time that it was measured in, in whole blocks. `in_bursts`: with several samples in a tick; of an
    hour, this cannot be told by its units any more, for they are averages.
    """

    block: Block
    seconds: float
    measured: float
    in_bursts: bool


def stretch(block: Block) -> Stretch:
    """A block of five minutes. A unit is two ticks: with bursts it stands for at least four samples per side, else for
    two."""
    return Stretch(block, BLOCK, BLOCK, block.plain.samples > 3 * len(block.units) + 3)


def hour_of(start: float) -> float:
    """Start of the hour that a block belongs to."""
    return math.floor(start / HOUR) * HOUR


def joined(parts: Sequence[Stretch]) -> Stretch:
    """One hour from stretches of it, all of one epoch. Raises ValueError when there are none, or they do not belong
    together."""
    hours = {(hour_of(part.block.start), part.block.epoch) for part in parts}
    if len(hours) != 1:
        raise ValueError(f"no hour from parts of {len(hours)}")
    ((start, epoch),) = hours
    blocks = [part.block for part in sorted(parts, key=lambda part: part.block.start)]
    units: list[UnitPoint] = [unit for block in blocks for unit in block.units]
    encrypted, plain = (
        _side([block.side(variant) for block in blocks]) for variant in (Variant.ENCRYPTED, Variant.PLAIN)
    )
    whole = Block(start, epoch, encrypted, plain, thin(units, UNITS_PER_HOUR))
    return Stretch(whole, HOUR, sum(part.measured for part in parts), any(part.in_bursts for part in parts))


def _side(sides: Sequence[BlockSide]) -> BlockSide:
    def total(value: Callable[[BlockSide], _Number | None]) -> _Number | None:
        values = [value(side) for side in sides]
        known = [one for one in values if one is not None]
        return sum(known) if len(known) == len(values) else None

    return BlockSide(
        samples=sum(side.samples for side in sides),
        failures=sum(side.failures for side in sides),
        sketch=merged(side.sketch for side in sides),
        cold=total(lambda side: side.cold),
        cpu_seconds=total(lambda side: side.cpu_seconds),
        decrypts=total(lambda side: side.decrypts),
        encrypts=total(lambda side: side.encrypts),
        blocks_read=total(lambda side: side.blocks_read),
    )


def merged(sketches: Iterable[LogSketch]) -> LogSketch:
    """All of them in one."""
    whole = LogSketch()
    for sketch in sketches:
        whole.merge(sketch)
    return whole
