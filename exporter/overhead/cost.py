"""What it costs to decrypt one page or value: the CPU that the encrypted twin takes more, per decrypt.

A first figure. It holds as far as the twins differ in nothing but encryption: same data, same layout, same plan, so that
all CPU that the encrypted side takes more went into decrypting. Operations that also encrypt are left out, for
nobody can tell which of the two took it. Where CPU cannot be measured there is no figure.

Each unit (a block of five minutes, or an AB+BA unit of a dense measurement, so that both orders are in it) gives one
difference; estimate and interval are Hodges and Lehmann's, on the differences themselves. Like every
interval here it has a second level, for what differs from one start to the next (`two_level`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from exporter.domain.model import Work
from exporter.overhead import formats
from exporter.overhead.blocks import Block, BlockSide
from exporter.overhead.hodges_lehmann import location
from exporter.overhead.two_level import DEFAULT_TAU, Z

VALUE = "value"


class CostPoint(NamedTuple):
    """One unit, in CPU seconds per decrypt: what the encrypted side took more, and what it took in all."""

    difference: float
    encrypted: float


@dataclass(frozen=True, slots=True)
class DecryptCost:
    """CPU seconds per decrypt with the two-sided 95 % interval, from `units` units.

    `lower` may be negative: then no cost has been shown.
    """

    seconds: float
    lower: float
    upper: float
    units: int

    def to_dict(self) -> dict[str, float | int]:
        """For JSON."""
        return {"seconds": self.seconds, "lower": self.lower, "upper": self.upper, "units": self.units}

    def words(self, unit: str | None, block_bytes: int | None) -> str:
        """`a page decrypted costs 1.91 µs (1.82 … 2.01) of CPU, 0.24 µs per KiB`."""
        figure = formats.duration_with_interval(self.seconds, self.lower, self.upper)
        text = f"a {'value' if unit == VALUE else 'page'} decrypted costs {figure} of CPU"
        if unit == VALUE or not block_bytes:
            return text
        return f"{text}, {formats.duration(self.seconds / (block_bytes / 1024))} per KiB"


def point(encrypted: Work, encrypted_runs: int, plain: Work, plain_runs: int) -> CostPoint | None:
    """One unit from the sums over the successful runs of both sides; None when it says nothing about decrypting."""
    decrypts = encrypted.decrypts
    if not decrypts or encrypted.encrypts or not encrypted_runs or not plain_runs:
        return None
    if encrypted.cpu_seconds is None or plain.cpu_seconds is None:
        return None
    per_run = decrypts / encrypted_runs
    mine, theirs = encrypted.cpu_seconds / encrypted_runs, plain.cpu_seconds / plain_runs
    return CostPoint((mine - theirs) / per_run, mine / per_run)


def of_blocks(blocks: Iterable[Block]) -> DecryptCost | None:
    """From the blocks of a window; None without the six that an interval takes."""
    return of_points(
        point(_work(block.encrypted), block.encrypted.successes, _work(block.plain), block.plain.successes)
        for block in blocks
    )


def of_points(points: Iterable[CostPoint | None]) -> DecryptCost | None:
    """From units; None when they are too few for an interval."""
    known = [found for found in points if found is not None]
    found = location([one.difference for one in known])
    if found is None:
        return None
    estimate, lower, upper = found
    # What moves the ratio of the twins by tau from start to start moves the difference by tau of the encrypted side.
    between = Z * DEFAULT_TAU * median(one.encrypted for one in known)
    return DecryptCost(
        estimate,
        estimate - math.hypot(estimate - lower, between),
        estimate + math.hypot(upper - estimate, between),
        len(known),
    )


def tightest(costs: Iterable[DecryptCost | None]) -> DecryptCost | None:
    """The one of several operations that knows best: the narrowest interval in seconds per decrypt.

    They are not averaged: an operation with few decrypts in much other work only adds noise.
    """
    return min((cost for cost in costs if cost is not None), key=lambda cost: cost.upper - cost.lower, default=None)


def _work(side: BlockSide) -> Work:
    return Work(side.cpu_seconds, None, side.blocks_read, side.decrypts, side.encrypts)
