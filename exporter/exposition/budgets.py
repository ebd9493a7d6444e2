"""What is known of the budgets of one target, and what its operations can say at the rate that they allow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType

from exporter.config.schema import Settings, TargetSettings
from exporter.domain.model import Operation, Phase
from exporter.exposition.screening import count, number
from exporter.exposition.view import PairView, SeriesView
from exporter.overhead.tiers import tier
from exporter.probing.messages import BUDGETS, BudgetsUsed

SHORTEST_EXPIRY = 3.0


class BudgetBook:
    """Sums since the start, and shares and rates as of the last round. Times are paced seconds."""

    def __init__(self, settings: Settings, target: TargetSettings) -> None:
        self._interval = settings.intervals_of(target).canary
        self._expiry = max(2 * self._interval, SHORTEST_EXPIRY)
        self._samples = {operation: settings.operation(operation).samples for operation in target.canary_operations}
        self._heard: float | None = None
        self._shares: dict[str, float] = {}
        self._periods: dict[tuple[str, Operation], float] = {}
        self._boosted: frozenset[tuple[str, Operation]] | None = None
        self.bytes_read: int | None = None
        self.bytes_written: int | None = None

    def used(self, message: BudgetsUsed, now: float) -> int:
        """Take what a round left behind; the number of values in it that cannot be true."""
        read, written = count(message.bytes_read), count(message.bytes_written)
        if read is not None:
            self.bytes_read = read + (self.bytes_read or 0)
        if written is not None:
            self.bytes_written = written + (self.bytes_written or 0)
        shares = {name: number(message.used.get(name)) for name in BUDGETS if name in message.used}
        periods = {key: number(period) for key, period in message.periods.items()}
        self._shares = {name: share for name, share in shares.items() if share is not None}
        self._periods = {key: period for key, period in periods.items() if period}
        self._heard = now
        return (
            (read is None and message.bytes_read is not None)
            + (written is None and message.bytes_written is not None)
            + (len(message.used) - len(self._shares))
            + (len(periods) - len(self._periods))
        )

    def set_boosted(self, keys: Iterable[tuple[str, Operation]]) -> None:
        """Of which (pair, operation) more samples than configured are taken now."""
        self._boosted = frozenset(keys)

    def lost(self) -> None:
        """Nobody knows any more; what was summed up stays true."""
        self._heard = self._boosted = None

    def take_over(self, old: BudgetBook) -> None:
        """Go on counting where the same target was under other settings."""
        self.bytes_read, self.bytes_written = old.bytes_read, old.bytes_written

    def shares(self, now: float) -> Mapping[str, float]:
        """Share in use of each budget that is known, by name."""
        return MappingProxyType(dict(self._shares) if self._known(now) else {})

    def period(self, pair: str, operation: Operation, now: float) -> float:
        """Seconds from tick to tick of an operation: as planned, where that is known, else as configured."""
        return self._planned(pair, operation, now) or self._interval

    def rated(self, pair: PairView, now: float) -> PairView:
        """The pair with the rates and tiers of its operations, and which are boosted, as far as these are known."""
        return replace(pair, series=tuple(self._rated(series, pair, now) for series in pair.series))

    def _rated(self, series: SeriesView, pair: PairView, now: float) -> SeriesView:
        period = self._planned(pair.name, series.operation, now)
        if period is None:
            return series
        in_bursts = self._samples[series.operation] > 1 and pair.phase is Phase.ENABLED
        boosted = None if self._boosted is None else (pair.name, series.operation) in self._boosted
        return replace(
            series,
            tier=tier(self._samples[series.operation], period),
            period=period,
            thinned=period > self._interval,
            boosted=boosted if in_bursts else None,
        )

    def _planned(self, pair: str, operation: Operation, now: float) -> float | None:
        return self._periods.get((pair, operation)) if self._known(now) else None

    def _known(self, now: float) -> bool:
        return self._heard is not None and now - self._heard <= self._expiry
