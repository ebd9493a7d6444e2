"""Five minutes of one series: what is kept raw while it matters, and what is handed to the history."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exporter.domain.model import Burst, Tick, Variant, Work
from exporter.overhead.sketch import LogSketch
from exporter.overhead.units import SHORTEST, UnitPoint


@dataclass(frozen=True, slots=True)
class BlockSide:
    """One side of a block. None is unknown, never 0.

    `samples` counts all, `failures` those without an answer (they are the sketch's timeouts).
    `cold` counts samples that touched storage. `cpu_seconds`, `decrypts`, `encrypts` and
    `blocks_read` are sums over the successful samples.
    """

    samples: int = 0
    failures: int = 0
    sketch: LogSketch = field(default_factory=LogSketch)
    cold: int | None = 0
    cpu_seconds: float | None = 0.0
    decrypts: int | None = 0
    encrypts: int | None = 0
    blocks_read: int | None = 0

    @property
    def successes(self) -> int:
        return self.samples - self.failures


@dataclass(frozen=True, slots=True)
class Block:
    """What happened in [`start`, `start` + block length), steady seconds; `start` is a multiple of the length."""

    start: float
    epoch: str
    encrypted: BlockSide = field(default_factory=BlockSide)
    plain: BlockSide = field(default_factory=BlockSide)
    units: tuple[UnitPoint, ...] = ()

    def side(self, variant: Variant) -> BlockSide:
        return self.encrypted if variant is Variant.ENCRYPTED else self.plain


class FloatRow:
    """A growing row of float32: a quarter of what Python's floats in a list would take, or less."""

    __slots__ = ("_count", "_values")

    def __init__(self) -> None:
        self._values: NDArray[np.float32] = np.empty(16, dtype=np.float32)
        self._count = 0

    def extend(self, values: Sequence[float] | NDArray[Any]) -> None:
        end = self._count + len(values)
        if end > self._values.size:
            grown = np.empty(max(end, 2 * self._values.size), dtype=np.float32)
            grown[: self._count] = self._values[: self._count]
            self._values = grown
        self._values[self._count : end] = values
        self._count = end

    def view(self) -> NDArray[np.float32]:
        """The values so far, shape (count,); valid until the next `extend`."""
        return self._values[: self._count]


class SideRecorder:
    """One side of a block while it is being filled."""

    def __init__(self) -> None:
        self._logs = FloatRow()
        self._restored: LogSketch | None = None
        self._live_from = 0
        self._samples = self._failures = 0
        self._cold: int | None = 0
        self._work = Work.nothing()

    def add(self, burst: Burst) -> None:
        durations = np.maximum(np.array(burst.durations, dtype=np.float64), SHORTEST)
        self._logs.extend(np.log(durations))
        self._samples += len(burst.samples)
        self._failures += len(burst.failures)
        self._work = self._work + burst.work
        self._cold = _sum((self._cold, _cold(burst)))

    def restore(self, side: BlockSide) -> None:
        """Takes over what the history kept; only before the first `add` or `restore` of this side's raw values."""
        self._restored = side.sketch.copy()
        live = self._logs.view().copy()
        self._logs = FloatRow()
        self._logs.extend(np.log(side.sketch.expand()))
        self._live_from = self._logs.view().size
        self._logs.extend(live)
        self._samples += side.samples
        self._failures += side.failures
        self._work = self._work + Work(side.cpu_seconds, None, side.blocks_read, side.decrypts, side.encrypts)
        self._cold = _sum((self._cold, side.cold))

    @property
    def log_durations(self) -> NDArray[np.float32]:
        """Natural logarithms of seconds, shape (samples,), +inf for a timeout."""
        return self._logs.view()

    def freeze(self) -> BlockSide:
        sketch = LogSketch() if self._restored is None else self._restored.copy()
        sketch.add(np.exp(self._logs.view()[self._live_from :].astype(np.float64)))
        work = self._work
        return BlockSide(
            self._samples,
            self._failures,
            sketch,
            self._cold,
            work.cpu_seconds,
            work.decrypts,
            work.encrypts,
            work.blocks_read,
        )


class BlockRecorder:
    """A block while it is being filled, and for as long as its window needs the raw values."""

    def __init__(self, start: float, epoch: str) -> None:
        self.start, self.epoch = start, epoch
        self.sides = {variant: SideRecorder() for variant in Variant}
        self.units: list[UnitPoint] = []
        self.by_first = {variant: FloatRow() for variant in Variant}
        self.restored = False
        self._frozen: Block | None = None

    def add(self, tick: Tick, latency: float) -> None:
        """`latency` is the tick's log ratio of medians, NaN when neither side has one."""
        for variant, side in self.sides.items():
            side.add(tick.burst(variant))
        if not np.isnan(latency):
            self.by_first[tick.first].extend((latency,))
        self._frozen = None

    def add_unit(self, unit: UnitPoint) -> None:
        self.units.append(unit)
        self._frozen = None

    def restore(self, block: Block) -> None:
        """Puts what the history kept under what was measured since; once per block."""
        for variant, side in self.sides.items():
            side.restore(block.side(variant))
        self.units[:0] = block.units
        self.restored = True
        self._frozen = None

    def freeze(self) -> Block:
        """The block as it is now; the same object until something is added."""
        if self._frozen is None:
            encrypted, plain = (self.sides[variant].freeze() for variant in (Variant.ENCRYPTED, Variant.PLAIN))
            self._frozen = Block(self.start, self.epoch, encrypted, plain, tuple(self.units))
        return self._frozen


def _cold(burst: Burst) -> int | None:
    """How many successful samples touched storage; None when one of them does not know."""
    return _sum(
        None if sample.work.blocks_read is None else int(sample.work.blocks_read > 0)
        for sample in burst.samples
        if sample.failure is None
    )


def _sum(values: Iterable[int | None]) -> int | None:
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total
