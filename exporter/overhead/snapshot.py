"""What a dense back-to-back measurement says: one row per pair and operation."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from exporter.domain.model import Burst, Operation, Sample, Snapshot, Tick, Variant, Work
from exporter.overhead import cost
from exporter.overhead.hodges_lehmann import hodges_lehmann
from exporter.overhead.percentiles import percentile
from exporter.overhead.ratio import Ratio
from exporter.overhead.two_level import two_level
from exporter.overhead.units import UnitPairing, UnitPoint, log_ratios
from exporter.overhead.words import Word, is_blind, word_of_window


@dataclass(frozen=True, slots=True)
class SnapshotRow:
    """One operation on one pair. What is unknown is None, never 0.

    `encrypted_seconds` and `plain_seconds` are the median samples; None when most samples of that
    side failed. `latency` and `cpu` are encrypted / plain over AB+BA units (`Ratio.samples` counts
    those), without interval below six units. `decrypts_per_sample` and `encrypts_per_sample` are
    means over the successful samples of the encrypted side. `samples` counts per side, `failures`
    both sides together. `blind`: nothing of the encrypted side went through the cipher; None when
    that is not known, and for pairs that are being certified, which have no encrypted side. `word` is
    the verdict, one of `words.Word`. `decrypt_cost` is None where nothing was decrypted, or encrypted as well.
    """

    pair: str
    operation: Operation
    encrypted_seconds: float | None
    plain_seconds: float | None
    latency: Ratio | None
    cpu: Ratio | None
    decrypts_per_sample: float | None
    encrypts_per_sample: float | None
    samples: int
    failures: int
    blind: bool | None
    word: Word
    decrypt_cost: cost.DecryptCost | None = None

    def to_dict(self) -> dict[str, Any]:
        """For JSON: plain types, never infinite, never NaN."""
        return {
            "pair": self.pair,
            "operation": self.operation.value,
            "encrypted_seconds": self.encrypted_seconds,
            "plain_seconds": self.plain_seconds,
            "latency": None if self.latency is None else self.latency.to_dict(),
            "cpu": None if self.cpu is None else self.cpu.to_dict(),
            "decrypts_per_sample": self.decrypts_per_sample,
            "encrypts_per_sample": self.encrypts_per_sample,
            "samples": self.samples,
            "failures": self.failures,
            "blind": self.blind,
            "word": self.word.value,
            "decrypt_cost": None if self.decrypt_cost is None else self.decrypt_cost.to_dict(),
        }


def summarise(snapshot: Snapshot, certifying: Collection[str] = ()) -> tuple[SnapshotRow, ...]:
    """One row for each pair and operation, in the order in which they were first measured.

    `certifying` names the pairs whose twins are meant to be both plain.

    A unit with a dropped tick, or with a tick whose sides differ in the number of samples, is left
    out as a whole. A unit that never got its second tick (the measurement was cut short) counts
    for medians and decrypts, where order does not matter much, but not for the ratios.
    """
    series: dict[tuple[str, Operation], list[Tick]] = {}
    for tick in snapshot.ticks:
        series.setdefault((tick.pair, tick.operation), []).append(tick)
    return tuple(_row(pair, operation, ticks, pair in certifying) for (pair, operation), ticks in series.items())


def _row(pair: str, operation: Operation, ticks: Sequence[Tick], certifying: bool) -> SnapshotRow:
    spoilt = {
        tick.unit
        for tick in ticks
        if tick.dropped is not None or len(tick.encrypted.samples) != len(tick.plain.samples)
    }
    kept = [tick for tick in ticks if tick.unit not in spoilt]
    units = _units(kept)
    encrypted = [sample for tick in kept for sample in tick.encrypted.samples]
    plain = [sample for tick in kept for sample in tick.plain.samples]
    decrypts = _per_success(encrypted, lambda work: work.decrypts)
    encrypts = _per_success(encrypted, lambda work: work.encrypts)
    blind = None if certifying else is_blind((decrypts, encrypts))
    latency = two_level(hodges_lehmann([unit.latency for unit in units]))
    ratios = {50: latency} if latency is not None and latency.has_interval else {}
    return SnapshotRow(
        pair=pair,
        operation=operation,
        encrypted_seconds=_median(encrypted),
        plain_seconds=_median(plain),
        latency=latency,
        cpu=two_level(hodges_lehmann([unit.cpu for unit in units if unit.cpu is not None])),
        decrypts_per_sample=decrypts,
        encrypts_per_sample=encrypts,
        samples=len(encrypted),
        failures=sum(sample.failure is not None for sample in (*encrypted, *plain)),
        blind=blind,
        word=word_of_window(certifying=certifying, samples=len(encrypted), blind=blind, ratios=ratios),
        decrypt_cost=None if certifying else cost.of_points(_cost_points(kept)),
    )


def _units(ticks: Sequence[Tick]) -> list[UnitPoint]:
    by_number: dict[int, UnitPairing] = {}
    units = []
    for tick in ticks:
        latency, cpu = log_ratios(tick)
        if not math.isnan(latency):
            pairing = by_number.setdefault(tick.unit, UnitPairing())
            if unit := pairing.add(tick.first, (latency, cpu, tick.started)):
                units.append(unit)
    return units


def _cost_points(ticks: Sequence[Tick]) -> Iterator[cost.CostPoint | None]:
    """One for each unit that was measured in both orders."""
    by_number: dict[int, list[Tick]] = {}
    for tick in ticks:
        by_number.setdefault(tick.unit, []).append(tick)
    for unit in by_number.values():
        if {tick.first for tick in unit} == set(Variant):
            encrypted, plain = (
                [tick.burst(variant) for tick in unit] for variant in (Variant.ENCRYPTED, Variant.PLAIN)
            )
            yield cost.point(*_sum(encrypted), *_sum(plain), _seconds(encrypted), _seconds(plain))


def _sum(bursts: Sequence[Burst]) -> tuple[Work, int]:
    """The work of all successful samples, and how many they are."""
    work, runs = Work.nothing(), 0
    for burst in bursts:
        work = work + burst.work
        runs += len(burst.samples) - len(burst.failures)
    return work, runs


def _seconds(bursts: Sequence[Burst]) -> float | None:
    """What all samples took together; None where one of them failed: those that would take longest are missing then."""
    total = sum(duration for burst in bursts for duration in burst.durations)
    return total if math.isfinite(total) else None


def _median(samples: Sequence[Sample]) -> float | None:
    middle = percentile(np.array([sample.duration for sample in samples]), 50)
    return middle if middle is not None and math.isfinite(middle) else None


def _per_success(samples: Sequence[Sample], value: Callable[[Work], int | None]) -> float | None:
    values = [value(sample.work) for sample in samples if sample.failure is None]
    known = [item for item in values if item is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
