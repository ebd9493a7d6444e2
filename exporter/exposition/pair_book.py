"""The pairs of one target: what was found of them, what was counted, and what is said of their series."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from exporter.config.schema import PairSettings, TargetSettings
from exporter.domain.model import Operation, PairFacts, Phase, SeriesKey, TargetFacts, Tick, Variant
from exporter.exposition.counters import SideCounts
from exporter.exposition.judgements import Circumstances, shown
from exporter.exposition.screening import ScreenedTick
from exporter.exposition.series_book import Judged
from exporter.exposition.view import PairView, SeriesView
from exporter.overhead.epochs import joined
from exporter.overhead.failing import FailingSide

UNUSABLE = "unusable"
"""Why a tick is dropped that was measured on a pair that is not valid, or that lost samples on the way."""

Judgements = Mapping[SeriesKey, Judged]


class PairBook:
    """Not thread-safe: the ledger's lock guards it. Times are paced seconds."""

    def __init__(self, target: TargetSettings, pair: PairSettings, expiry: float) -> None:
        self._target, self._expiry = target, expiry
        self.name, self._phase = pair.name, pair.phase
        self._sides = {
            operation: {variant: SideCounts(operation) for variant in Variant} for operation in target.canary_operations
        }
        self._checked: tuple[PairFacts, float] | None = None
        self._failing: FailingSide | None = None

    # -- what comes in -----------------------------------------------------------------------------------

    def checked(self, facts: PairFacts, now: float) -> None:
        """It was verified."""
        self._checked = (facts, now)
        if self.certifying:
            self._failing = None

    def tick(self, tick: Tick, result: ScreenedTick, target: TargetFacts | None, epoch_event: str) -> Tick:
        """Count a tick of one of its operations; the tick as it may enter statistics, dropped where it may not."""
        for variant, side in self._sides[tick.operation].items():
            side.add(result.tick.burst(variant), len(tick.burst(variant).samples), target, result.tick.started)
        if not self.certifying:
            self._failing = self._failing or FailingSide()
            self._failing.add(result.tick)
        usable = result.whole and self.valid
        dropped = result.tick.dropped or (None if usable else UNUSABLE)
        return replace(result.tick, epoch=joined(result.tick.epoch, epoch_event), dropped=dropped)

    def take_over(self, old: PairBook) -> None:
        """Go on counting where the same pair was under other settings."""
        self._sides |= {operation: sides for operation, sides in old._sides.items() if operation in self._sides}

    def lost(self) -> None:
        """Its probe process is down: whatever was found is not known any more."""
        self._checked = self._failing = None

    # -- what is known -----------------------------------------------------------------------------------

    @property
    def facts(self) -> PairFacts | None:
        """What the last verification found, however long ago."""
        return None if self._checked is None else self._checked[0]

    @property
    def valid(self) -> bool:
        """Whether the last verification found it valid."""
        return self._checked is not None and self._checked[0].valid

    @property
    def certifying(self) -> bool:
        """Whether its twins are both plain and meant to be: as found, else as configured."""
        return self._phase is Phase.AA and (self._checked is None or self._checked[0].certifying)

    @property
    def found_certifying(self) -> bool | None:
        """The same as found; None where verification cannot tell, which must end no breach."""
        known = self._checked is not None and self._checked[0].found is not None
        return self.certifying if known or self._phase is Phase.ENABLED else None

    @property
    def problem(self) -> str:
        """Why it is not valid, in words."""
        return f"pair {self.name}: {self._checked[0].problem}" if self._checked and self._checked[0].problem else ""

    def knows(self, operation: Operation) -> bool:
        """Whether that operation is configured."""
        return operation in self._sides

    def view(
        self,
        now: float,
        judgements: Judgements,
        up: bool | None,
        measured: bool,
        epoch_event: str,
    ) -> PairView:
        """What is shown; `measured`: canaries worked lately."""
        facts = self._checked[0] if self._checked and now - self._checked[1] <= self._expiry else None
        speaks = measured and facts is not None and facts.valid
        circumstances = Circumstances(up, speaks, None if facts is None else joined(facts.epoch, epoch_event))

        def series(operation: Operation) -> SeriesView:
            sides = {variant: side.view() for variant, side in self._sides[operation].items()}
            judged = judgements.get(SeriesKey(self._target.name, self.name, operation), Judged())
            return shown(SeriesView(operation, MappingProxyType(sides)), judged, circumstances)

        return PairView(
            self.name,
            self._phase if facts is None else facts.found or self._phase,
            tuple(series(operation) for operation in self._sides),
            facts,
            failing=None if self._failing is None or not up else self._failing.failing,
        )
