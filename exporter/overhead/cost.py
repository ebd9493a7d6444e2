"""What it costs to decrypt one page or value: what the encrypted twin takes more, per decrypt; and what all decrypts cost.

It holds as far as the twins differ in nothing but encryption: same data, same layout, same plan, so that all CPU that
the encrypted side takes more went into decrypting. Operations that also encrypt are left out, for nobody can tell which
of the two took it. Where CPU cannot be measured, time is taken in its place: then waiting is in the figure, and it is
the cost of a decrypt to the one who waits, not to the machine.

Each unit (a block of five minutes, or an AB+BA unit of a dense measurement, so that both orders are in it) gives one
difference and the decrypts that go with it; estimate and interval are those of a regression through the origin by
signed ranks (`hodges_lehmann.slope`). In simulations with constant decrypts it errs as the mean of the quotients does,
by a third less where decrypts vary, and, unlike least squares, a few disturbed units hardly move it (root mean square
error 6 % against 25 %). To take out differences in the blocks read as well gained nothing: on the encrypted side each
block read is a decrypt. Like every interval here it has a second level, for what differs from one start to the next.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

import numpy as np

from exporter.domain.model import Work
from exporter.overhead import formats
from exporter.overhead.blocks import Block, BlockSide
from exporter.overhead.hodges_lehmann import slope
from exporter.overhead.sketch import BUCKETS_PER_DOUBLING, LogSketch
from exporter.overhead.two_level import DEFAULT_TAU, Z

VALUE = "value"
CPU, TIME = "cpu", "time"


class CostPoint(NamedTuple):
    """One unit, per run: decrypts, what the encrypted side took more, and what it took in all, in seconds.

    `source` is `CPU` or `TIME`.
    """

    decrypts: float
    difference: float
    encrypted: float
    source: str = CPU


class Interval(NamedTuple):
    """An estimate with its bounds; an unknown bound is None."""

    estimate: float
    lower: float | None
    upper: float | None


@dataclass(frozen=True, slots=True)
class DecryptCost:
    """Seconds per decrypt with the two-sided 95 % interval, from `units` units; of CPU unless `source` is `TIME`.

    `lower` may be negative: then no cost has been shown.
    """

    seconds: float
    lower: float
    upper: float
    units: int
    source: str = CPU

    def to_dict(self) -> dict[str, float | int | str]:
        """For JSON."""
        return {
            "seconds": self.seconds,
            "lower": self.lower,
            "upper": self.upper,
            "units": self.units,
            "source": self.source,
        }

    def words(self, unit: str | None, block_bytes: int | None) -> str:
        """`a page decrypted costs 1.91 µs (1.82 … 2.01) of CPU, 0.24 µs per KiB`."""
        figure = formats.duration_with_interval(self.seconds, self.lower, self.upper)
        text = f"a {'value' if unit == VALUE else 'page'} decrypted costs {figure} of {'CPU' if self.source == CPU else 'time'}"
        if unit == VALUE or not block_bytes:
            return text
        return f"{text}, {formats.duration(self.seconds / (block_bytes / 1024))} per KiB"


def point(
    encrypted: Work,
    encrypted_runs: int,
    plain: Work,
    plain_runs: int,
    encrypted_seconds: float | None = None,
    plain_seconds: float | None = None,
) -> CostPoint | None:
    """One unit from the sums over the successful runs of both sides; None when it says nothing about decrypting.

    `encrypted_seconds` and `plain_seconds` are what the runs took together; they count where the CPU is not known.
    """
    decrypts = encrypted.decrypts
    if not decrypts or encrypted.encrypts or not encrypted_runs or not plain_runs:
        return None
    mine, theirs, source = encrypted.cpu_seconds, plain.cpu_seconds, CPU
    if mine is None or theirs is None:
        mine, theirs, source = encrypted_seconds, plain_seconds, TIME
    if mine is None or theirs is None:
        return None
    mine, theirs = mine / encrypted_runs, theirs / plain_runs
    return CostPoint(decrypts / encrypted_runs, mine - theirs, mine, source)


def of_blocks(blocks: Iterable[Block], tau: float = DEFAULT_TAU) -> DecryptCost | None:
    """From the blocks of a window; None without the six that an interval takes."""
    return of_points((_of_block(block) for block in blocks), tau)


def of_points(points: Iterable[CostPoint | None], tau: float = DEFAULT_TAU) -> DecryptCost | None:
    """From units; None when they are too few for an interval. Time counts only where there are too few with CPU."""
    known = [found for found in points if found is not None]
    by_source = ([one for one in known if one.source == source] for source in (CPU, TIME))
    return next((found for chosen in by_source if (found := _of_chosen(chosen, tau)) is not None), None)


def _of_chosen(points: Sequence[CostPoint], tau: float) -> DecryptCost | None:
    found = slope([one.difference for one in points], [one.decrypts for one in points])
    if found is None:
        return None
    estimate, lower, upper = found
    # What moves the ratio of the twins by tau from start to start moves the difference by tau of the encrypted side.
    between = Z * tau * median(one.encrypted / one.decrypts for one in points)
    return DecryptCost(
        estimate,
        estimate - math.hypot(estimate - lower, between),
        estimate + math.hypot(upper - estimate, between),
        len(points),
        points[0].source,
    )


def tightest(costs: Iterable[DecryptCost | None]) -> DecryptCost | None:
    """The one of several operations that knows best: the narrowest interval in seconds per decrypt, CPU before time.

    They are not averaged: an operation with few decrypts in much other work only adds noise.
    """
    known = (cost for cost in costs if cost is not None)
    return min(known, key=lambda cost: (cost.source != CPU, cost.upper - cost.lower), default=None)


def cores(decrypts: float | None, encrypts: float | None, cost: DecryptCost | None) -> Interval | None:
    """How many CPU cores encryption uses now, from the rates (per second) of a whole instance.

    Assumes that to encrypt costs as much as to decrypt, that the instance's blocks or values are like those of the
    pair, and that their CPU is spent on its own cores. None when the decrypts or the cost are not known, or when the
    cost is one of time. Where encrypts are not known, the upper bound is not either. No bound is below 0.
    """
    if decrypts is None or cost is None or cost.source != CPU:
        return None
    rate = decrypts + (encrypts or 0.0)
    lower, upper = max(0.0, rate * cost.lower), max(0.0, rate * cost.upper)
    return Interval(max(0.0, rate * cost.seconds), lower, None if encrypts is None else upper)


def _of_block(block: Block) -> CostPoint | None:
    encrypted, plain = block.encrypted, block.plain
    seconds: tuple[float | None, float | None] = (None, None)
    # Where runs failed, those that would have taken longest are missing from the time.
    if (encrypted.cpu_seconds is None or plain.cpu_seconds is None) and not encrypted.failures + plain.failures:
        seconds = _seconds(encrypted.sketch), _seconds(plain.sketch)
    return point(_work(encrypted), encrypted.successes, _work(plain), plain.successes, *seconds)


def _seconds(sketch: LogSketch) -> float | None:
    """What all samples took together, within about a tenth of what a bucket is wide."""
    places, counts = sketch.arrays()
    return float((counts * np.exp2((places - 0.5) / BUCKETS_PER_DOUBLING)).sum()) if places.size else None


def _work(side: BlockSide) -> Work:
    return Work(side.cpu_seconds, None, side.blocks_read, side.decrypts, side.encrypts)
