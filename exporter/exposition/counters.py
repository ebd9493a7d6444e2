"""Sums since the start: per side of an operation, and histograms of the exporter itself."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from types import MappingProxyType

from exporter.domain.errors import Reason
from exporter.domain.model import Burst, Number, Operation, TargetFacts
from exporter.exposition.screening import number
from exporter.exposition.view import CipherUnit, HistogramView, SideView
from exporter.probing.operations import CATALOGUE


class SideCounts:
    """What one operation on one side of a pair added up to. Takes screened bursts only.

    A sum of something unknown does not exist: it begins with the first value that is known.
    """

    def __init__(self, operation: Operation) -> None:
        phases = ("execute", "fetch", "commit") if CATALOGUE[operation].writes else ("execute", "fetch")
        self._phase_seconds = dict.fromkeys(phases, 0.0)
        self._failures = Counter({Reason.TIMEOUT: 0})
        self._decrypts: Counter[CipherUnit] = Counter()
        self._encrypts: Counter[CipherUnit] = Counter()
        self._writes = CATALOGUE[operation].writes
        self._cpu_seconds: float | None = None
        self._server_seconds: float | None = None
        self._blocks_read: int | None = None
        self._runs = 0
        self._last_success: float | None = None

    def add(self, burst: Burst, attempts: int, facts: TargetFacts | None, started: float) -> None:
        """Take what is believed of `attempts` samples that `started` then (Unix time).

        `facts` tell what its decrypts are counted in.
        """
        self._runs += attempts
        self._failures.update(burst.failures)
        unit = _cipher_unit(facts)
        for sample in burst.samples:
            if sample.failure is not None:
                continue
            self._last_success = max(started, self._last_success or 0.0)
            self._add_phase("execute", sample.execute_seconds)
            self._add_phase("fetch", sample.fetch_seconds)
            self._add_phase("commit", sample.commit_seconds)
            work = sample.work
            self._cpu_seconds = _sum(self._cpu_seconds, work.cpu_seconds)
            self._server_seconds = _sum(self._server_seconds, work.server_seconds)
            self._blocks_read = _sum(self._blocks_read, work.blocks_read)
            if unit is not None:
                _count(self._decrypts, unit, work.decrypts)
                if self._writes or work.encrypts:
                    # A reading operation encrypts nothing; should one do, it is shown.
                    _count(self._encrypts, unit, work.encrypts)

    def view(self) -> SideView:
        return SideView(
            runs=self._runs,
            failures=MappingProxyType(dict(self._failures)),
            phase_seconds=MappingProxyType(dict(self._phase_seconds)),
            cpu_seconds=self._cpu_seconds,
            server_seconds=self._server_seconds,
            blocks_read=self._blocks_read,
            decrypts=MappingProxyType(dict(self._decrypts)),
            encrypts=MappingProxyType(dict(self._encrypts)),
            last_success=self._last_success,
        )

    def _add_phase(self, phase: str, seconds: float) -> None:
        if phase in self._phase_seconds or seconds:
            self._phase_seconds[phase] = self._phase_seconds.get(phase, 0.0) + seconds


class Histogram:
    """Counts of observations by upper bound; what is not a time is left out."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def observe(self, values: Iterable[object]) -> None:
        for value in values:
            if (seconds := number(value)) is not None:
                self._counts[bisect_left(self._bounds, seconds)] += 1
                self._total += seconds

    def view(self) -> HistogramView:
        running, cumulative = 0, []
        for count in self._counts:
            running += count
            cumulative.append(running)
        return HistogramView(tuple(cumulative), self._total)


def _sum(total: Number | None, value: Number | None) -> Number | None:
    if value is None:
        return total
    return value if total is None else total + value


def _count(totals: Counter[CipherUnit], unit: CipherUnit, value: int | None) -> None:
    if value is not None:
        totals[unit] += value


def _cipher_unit(facts: TargetFacts | None) -> CipherUnit | None:
    if facts is None or facts.decrypt_unit is None or facts.decrypt_source is None:
        return None
    return facts.decrypt_unit, facts.decrypt_source
