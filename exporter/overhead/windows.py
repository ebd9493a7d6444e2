"""The last hour of one series, and what it says about the cost of encryption.

The window is the block that is open now and the closed blocks that began in the `length` seconds
before it: 60 to 65 minutes by default. Percentiles, counts and unit ratios use all of it; paired
exceedance uses the closed blocks only, so it changes once per block and always compares whole
blocks. A window holds one epoch: what is measured in another one clears everything first.

Memory is bounded by what is measured in the window: 4 bytes for each sample, and four numbers for
each tick. Everything here is steady seconds (`Clock.steady`), which never step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from exporter.domain.model import Tick, Variant
from exporter.overhead.blocks import Block, BlockRecorder, BlockSide
from exporter.overhead.cost import DecryptCost, of_blocks
from exporter.overhead.dither import dither
from exporter.overhead.hodges_lehmann import FEWEST_UNITS, hodges_lehmann
from exporter.overhead.percentiles import percentiles
from exporter.overhead.pex import paired_exceedance
from exporter.overhead.ratio import Ratio, exponential
from exporter.overhead.two_level import DEFAULT_TAU, two_level
from exporter.overhead.units import UnitPairing, UnitPoint, log_ratios, thin
from exporter.overhead.words import Word, is_blind, word_of_window

__all__ = ["Block", "BlockSide", "SeriesSummary", "SeriesWindow"]

PERCENTILES = (50, 99)
FEWEST_FOR_TAIL = 100
"""Samples below which a 99th percentile would be no more than the maximum."""
FEWEST_TICKS_FOR_BIAS = 20

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class SeriesSummary:
    """What one window says. What is unknown or below its gate is absent or None, never 0.

    `samples` always has both sides. `percentiles` holds seconds per side and percentile (50 from one
    sample on, 99 from 100 on; +inf when the percentile lies among the timeouts). `cold_ratio` is the
    share of successful samples that touched storage. `latency_ratio` holds encrypted / plain by
    percentile. `decrypts_per_sample`, `encrypts_per_sample` and `cpu_per_sample` (seconds) are means
    over the successful samples. `order_bias` is the median ratio of ticks that the encrypted side began, divided by that
    of the others; far from 1, the order of the sides matters more than it should. `blind` is true
    when nothing of the encrypted side went through the cipher, None for pairs that are being certified:
    they have no encrypted side. `word` is one of `words.Word`. `decrypt_cost` is None also for operations that
    decrypt nothing, or encrypt as well.
    """

    epoch: str
    samples: dict[Variant, int]
    percentiles: dict[Variant, dict[int, float]]
    cold_ratio: dict[Variant, float]
    latency_ratio: dict[int, Ratio]
    cpu_ratio: Ratio | None
    order_bias: float | None
    blind: bool | None
    decrypts_per_sample: dict[Variant, float]
    encrypts_per_sample: dict[Variant, float]
    cpu_per_sample: dict[Variant, float]
    word: str
    decrypt_cost: DecryptCost | None = None


class SeriesWindow:
    """One operation on one pair of one target. Not thread-safe; call it from one thread.

    `tau` gives the second level of the interval of a figure (`"50"`, `"99"`, `"cpu"`; see `tau.Wandering`).
    """

    def __init__(
        self,
        length: float = 3600,
        block: float = 300,
        percentiles: Sequence[int] = PERCENTILES,
        tau: Callable[[str], float] = lambda _figure: DEFAULT_TAU,
    ) -> None:
        if not 0 < block <= length:
            raise ValueError("a window consists of at least one block")
        self._length, self._block = length, block
        self._percents, self._tau = tuple(sorted(percentiles)), tau
        self.newest_unit: UnitPoint | None = None
        self._blocks: dict[float, BlockRecorder] = {}
        self._pairing = UnitPairing()
        self._epoch = ""
        self._newest = -math.inf
        self._live = False
        self._bursts: bool | None = None
        self._changes = 0  # Counts everything that changes what the window holds.
        self._unit_changes = 0
        self._memory: dict[str, tuple[object, Any]] = {}

    def add(self, tick: Tick, at: float) -> bool:
        """Takes a tick that ended at `at`; whether it entered the statistics.

        Left out are dropped ticks, ticks whose sides differ in the number of samples (they would
        bias every comparison), ticks with a duration that is negative or NaN, and ticks older than
        the window.
        """
        self.newest_unit = None  # Set where this tick completes one.
        if tick.dropped is not None or not _sound(tick):
            return False
        self._prune(at)
        start = math.floor(at / self._block) * self._block
        if start < self._oldest:
            return False
        if tick.epoch != self._epoch:
            self._clear(tick.epoch)
        self._live = True
        self._bursts = bool(self._bursts) or len(tick.plain.samples) > 1
        latency, cpu = log_ratios(tick)
        recorder = self._recorder(start)
        recorder.add(tick, latency)
        self._changes += 1
        if not math.isnan(latency) and (unit := self._pairing.add(tick.first, (latency, cpu, at))):
            recorder.add_unit(unit)
            self.newest_unit = unit
            self._unit_changes += 1
        return True

    def restore(self, block: Block) -> None:
        """Takes over a block from the history after a restart; a second time it is ignored.

        Of blocks of several epochs the latest wins, and what is measured live wins over all of them.
        Raises ValueError when the sides of the block differ in their number of samples.
        """
        if block.encrypted.samples != block.plain.samples:
            raise ValueError(f"unequal sides in the block of {block.start}")
        for side in (block.encrypted, block.plain):
            if side.sketch.count != side.samples:
                raise ValueError(f"the sketch does not match the count in the block of {block.start}")
        if block.epoch != self._epoch:
            if self._live or any(start > block.start for start in self._blocks):
                return
            self._clear(block.epoch)
        recorder = self._recorder(block.start)
        if not recorder.restored:
            recorder.restore(block)
            self._changes += 1
            self._unit_changes += 1
            self._memory.clear()

    def blocks(self) -> tuple[Block, ...]:
        """All blocks that hold anything, oldest first, the open one included; unchanged blocks are the same objects."""
        return tuple(self._blocks[start].freeze() for start in sorted(self._blocks))

    def pool(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """All log durations in the window, (encrypted, plain), shape (samples,) each, +inf for a timeout."""
        return self._logs(Variant.ENCRYPTED, self._blocks), self._logs(Variant.PLAIN, self._blocks)

    def summary(self, now: float, *, certifying: bool = False) -> SeriesSummary:
        """What the window says at `now`; `certifying` for pairs whose twins are both plain.

        Cheap when nothing changed. Ratios are recomputed only when the blocks or units they rest on changed.
        """
        self._prune(now)
        frozen = self.blocks()
        sides = {variant: [block.side(variant) for block in frozen] for variant in Variant}
        samples = {variant: sum(side.samples for side in sides[variant]) for variant in Variant}
        latency = self._latency_ratios(now)
        blind = None if certifying else _blind(sides[Variant.ENCRYPTED])
        word: Word = word_of_window(
            certifying=certifying, samples=samples[Variant.ENCRYPTED], blind=blind, ratios=latency
        )
        return SeriesSummary(
            epoch=self._epoch,
            samples=samples,
            percentiles=self._remember("percentiles", self._changes, self._percentiles),
            cold_ratio=_per_success(sides, lambda side: side.cold),
            latency_ratio=latency,
            cpu_ratio=two_level(self._remember("cpu", self._unit_changes, self._cpu_ratio), self._tau("cpu")),
            order_bias=self._remember("bias", self._changes, self._order_bias),
            blind=blind,
            decrypts_per_sample=_per_success(sides, lambda side: side.decrypts),
            encrypts_per_sample=_per_success(sides, lambda side: side.encrypts),
            cpu_per_sample=_per_success(sides, lambda side: side.cpu_seconds),
            word=word.value,
            decrypt_cost=None if certifying else self._remember("cost", self._changes, lambda: of_blocks(frozen)),
        )

    def window_ratios(self, now: float) -> dict[str, Ratio]:
        """The ratio of each figure with the interval of this window alone, before the second level."""
        found = {str(percent): ratio for percent, ratio in self._own_ratios(now).items()}
        cpu = self._remember("cpu", self._unit_changes, self._cpu_ratio)
        return found if cpu is None else found | {"cpu": cpu}

    def _latency_ratios(self, now: float) -> dict[int, Ratio]:
        found = {percent: two_level(own, self._tau(str(percent))) for percent, own in self._own_ratios(now).items()}
        return {percent: ratio for percent, ratio in found.items() if ratio is not None}

    def _own_ratios(self, now: float) -> dict[int, Ratio]:
        if not self._in_bursts():
            ratio = self._remember("latency", self._unit_changes, self._unit_ratio)
            return {} if ratio is None else {50: ratio}
        closed = [start for start in sorted(self._blocks) if start + self._block <= now]
        return self._remember("exceedance", (self._epoch, *closed), lambda: self._exceedance(closed))

    def _exceedance(self, closed: list[float]) -> dict[int, Ratio]:
        if not closed:
            return {}
        encrypted, plain = dither(self._logs(Variant.ENCRYPTED, closed), self._logs(Variant.PLAIN, closed))
        sizes = [self._blocks[start].sides[Variant.PLAIN].log_durations.size for start in closed]
        numbers = np.repeat(np.arange(len(closed)), sizes)
        found = {
            percent: paired_exceedance(encrypted, numbers, plain, numbers, percent / 100) for percent in self._percents
        }
        return {percent: ratio for percent, ratio in found.items() if ratio is not None}

    def _unit_ratio(self) -> Ratio | None:
        return _gated(hodges_lehmann([unit.latency for unit in thin(self._units())]))

    def _cpu_ratio(self) -> Ratio | None:
        known = [unit for unit in self._units() if unit.cpu is not None]
        return _gated(hodges_lehmann([unit.cpu for unit in thin(known) if unit.cpu is not None]))

    def _percentiles(self) -> dict[Variant, dict[int, float]]:
        found: dict[Variant, dict[int, float]] = {}
        for variant in Variant:
            logs = self._logs(variant, self._blocks)
            wanted = tuple(one for one in self._percents if one <= 50 or logs.size >= FEWEST_FOR_TAIL)
            values = percentiles(logs, wanted) if logs.size else ()
            found[variant] = {percent: math.exp(value) for percent, value in zip(wanted, values, strict=False)}
        return found

    def _order_bias(self) -> float | None:
        medians = []
        for first in (Variant.ENCRYPTED, Variant.PLAIN):
            rows = [recorder.by_first[first].view() for recorder in self._blocks.values()]
            ticks = np.concatenate(rows) if rows else np.empty(0)
            if ticks.size < FEWEST_TICKS_FOR_BIAS:
                return None
            medians.append(percentiles(ticks, (50,))[0])
        if not all(map(math.isfinite, medians)):
            return None
        return exponential(medians[0] - medians[1])

    def _units(self) -> list[UnitPoint]:
        return [unit for start in sorted(self._blocks) for unit in self._blocks[start].units]

    def _logs(self, variant: Variant, starts: Iterable[float]) -> NDArray[np.float32]:
        rows = [self._blocks[start].sides[variant].log_durations for start in sorted(starts)]
        return np.concatenate(rows) if rows else np.empty(0, dtype=np.float32)

    def _in_bursts(self) -> bool:
        """Whether the series is measured in bursts; before the first live tick, by what the history kept.

        A unit is two ticks: with bursts it stands for at least four samples per side, else for two.
        """
        if self._bursts is not None:
            return self._bursts
        samples = sum(recorder.sides[Variant.PLAIN].log_durations.size for recorder in self._blocks.values())
        return samples > 3 * len(self._units()) + 3

    @property
    def _oldest(self) -> float:
        """Start of the oldest block of the window, by the newest time that was ever heard of."""
        return math.floor(self._newest / self._block) * self._block - self._length

    def _prune(self, now: float) -> None:
        """Drops blocks that left the window, and any from the future (the clock of an earlier run was ahead)."""
        self._newest = max(now, self._newest)
        oldest, latest = self._oldest, self._newest + self._block
        gone = [start for start in self._blocks if not oldest <= start <= latest]
        for start in gone:
            del self._blocks[start]
        if gone:
            self._changes += 1
            self._unit_changes += 1

    def _recorder(self, start: float) -> BlockRecorder:
        if start not in self._blocks:
            self._blocks[start] = BlockRecorder(start, self._epoch)
        return self._blocks[start]

    def _clear(self, epoch: str) -> None:
        self._blocks.clear()
        self._pairing.clear()
        self._memory.clear()
        self._epoch, self._bursts = epoch, None

    def _remember(self, what: str, key: object, compute: Callable[[], _Result]) -> _Result:
        """The last result for `what`, computed anew only when `key` changed."""
        kept = self._memory.get(what)
        if kept is None or kept[0] != key:
            kept = self._memory[what] = (key, compute())
        result: _Result = kept[1]
        return result


def _sound(tick: Tick) -> bool:
    durations = tick.encrypted.durations + tick.plain.durations
    return len(tick.encrypted.samples) == len(tick.plain.samples) > 0 and all(value >= 0 for value in durations)


def _gated(ratio: Ratio | None) -> Ratio | None:
    """A ratio without enough units for an interval is not published."""
    return None if ratio is None or ratio.samples < FEWEST_UNITS else ratio


def _blind(sides: list[BlockSide]) -> bool | None:
    """Whether nothing of the successful samples went through the cipher; None when that is not known."""
    blind = is_blind([count for side in sides for count in (side.decrypts, side.encrypts)])
    return None if blind and not sum(side.successes for side in sides) else blind


def _per_success(
    sides: dict[Variant, list[BlockSide]], value: Callable[[BlockSide], float | None]
) -> dict[Variant, float]:
    """Mean per successful sample for each side that knows it in every block."""
    means: dict[Variant, float] = {}
    for variant, blocks in sides.items():
        values = [value(side) for side in blocks]
        known = [item for item in values if item is not None]
        successes = sum(side.successes for side in blocks)
        if successes and len(known) == len(values):
            means[variant] = sum(known) / successes
    return means
