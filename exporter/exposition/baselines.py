"""What the baselines and events of one target make of its view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from exporter.domain.events import Event
from exporter.domain.model import Operation, PairFacts, SeriesKey, Variant
from exporter.exposition.series_book import Levels
from exporter.exposition.view import PairView, SeriesView
from exporter.overhead.baseline import PairBaseline, SeriesBaseline, chosen, compare, reference
from exporter.overhead.event_watch import newest_of
from exporter.overhead.ratio import Ratio

NONE = "no baseline"
OTHER_DATA = "the twins hold other data than when the baseline was frozen"
TURNED = "the twin that was encrypted in the baseline is the plain one now"


class BaselineBook:
    """Not thread-safe: the ledger's lock guards it."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._chosen: dict[str, PairBaseline] = {}
        self.events: tuple[Event, ...] = ()

    def set_baselines(self, baselines: Iterable[PairBaseline]) -> None:
        """All baselines of the target; for each pair one is chosen."""
        by_pair: dict[str, list[PairBaseline]] = {}
        for baseline in baselines:
            by_pair.setdefault(baseline.pair, []).append(baseline)
        found = {pair: chosen(held) for pair, held in by_pair.items()}
        self._chosen = {pair: baseline for pair, baseline in found.items() if baseline is not None}

    def set_events(self, events: Iterable[Event]) -> None:
        """All events of the target that are known."""
        self.events = newest_of(events)

    @property
    def wanted(self) -> list[SeriesKey]:
        """The series whose present levels are asked for."""
        return [
            SeriesKey(self._target, pair, operation)
            for pair, baseline in self._chosen.items()
            for operation in baseline.series
        ]

    def references(self, pair: str, facts: PairFacts | None) -> dict[Operation, dict[int, Ratio]] | None:
        """What the ratios of a pair are held against, by operation: those of the baseline, sides as they are now.

        Empty without a baseline that fits; None while it cannot be told whether one does, for that ends no breach.
        """
        baseline = self._chosen.get(pair)
        if baseline is None:
            return {}
        if facts is None or not facts.valid:
            return None
        words, swapped = _fits(baseline, facts)
        return {} if words else {operation: reference(one, swapped) for operation, one in baseline.series.items()}

    def shown(self, pair: PairView, levels: Mapping[SeriesKey, Levels]) -> PairView:
        """The same pair with its baseline. Numbers of a baseline that does not fit the twins are not shown."""
        baseline = self._chosen.get(pair.name)
        if baseline is None:
            return replace(pair, baseline_words=NONE)
        words, swapped = _fits(baseline, pair.facts)
        if words or pair.facts is None:
            return replace(pair, baseline=baseline, baseline_words=words)
        series = tuple(self._compared(one, pair.name, baseline, levels, swapped) for one in pair.series)
        return replace(pair, baseline=baseline, series=series)

    def _compared(
        self, series: SeriesView, pair: str, baseline: PairBaseline, levels: Mapping[SeriesKey, Levels], swapped: bool
    ) -> SeriesView:
        frozen = baseline.series.get(series.operation)
        if frozen is None:
            return series
        compared = None
        if series.summary is not None:
            present = levels.get(SeriesKey(self._target, pair, series.operation), {})
            compared = compare(series.summary.latency_ratio, present, frozen, swapped)
        return replace(series, baseline=_turned(frozen) if swapped else frozen, compared=compared)


def _fits(baseline: PairBaseline, facts: PairFacts | None) -> tuple[str, bool]:
    """Why a baseline cannot be held against what is there now, and whether its sides change places."""
    if facts is None or facts.attribution is None:
        return "", False
    slot = facts.attribution[Variant.ENCRYPTED]
    if baseline.content and facts.twin(slot).digest not in (None, baseline.content):
        return OTHER_DATA, False
    swapped = slot is not baseline.slot
    # While both were plain it was open which one would be encrypted; later on it was not.
    return (TURNED, False) if swapped and not baseline.plain else ("", swapped)


def _turned(series: SeriesBaseline) -> SeriesBaseline:
    sides = {variant: series.sides[variant.other] for variant in Variant}
    return replace(series, sides=sides, ratio=reference(series, swapped=True))
