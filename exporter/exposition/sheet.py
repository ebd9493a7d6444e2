"""Families of the client library in the making, through the catalogue and nothing else.

The client library accepts names that are not legal, samples twice, and values that are no numbers; so
what reaches it is checked here: a name or label that the catalogue does not know raises at once, a
value that is unknown or not finite gives no sample, and a second sample with the same name and labels
is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.utils import floatToGoString

from exporter.exposition.catalogue import CATALOGUE, SOMETIMES, Kind
from exporter.exposition.view import HistogramView


class Sheet:
    """Families in the making. `bound` labels are added to every sample put through the returned sheet."""

    def __init__(self, parent: Sheet | None = None, bound: dict[str, str] | None = None) -> None:
        self._bound = bound or {}
        self._families: dict[str, Metric] = {} if parent is None else parent._families
        self._seen: set[tuple[str, tuple[str, ...]]] = set() if parent is None else parent._seen

    def bound(self, **labels: str) -> Sheet:
        """A sheet that writes into the same families with these labels already given."""
        return Sheet(self, {**self._bound, **labels})

    def put(self, name: str, value: float | None, **labels: str) -> None:
        """One sample; none when the value is unknown. Raises KeyError for what the catalogue does not know."""
        values = self._label_values(name, labels)
        if value is None or not math.isfinite(value) or self._repeated(name, values):
            return
        family = self._family(name)
        if not SOMETIMES.isdisjoint(CATALOGUE[name].labels):
            present = zip(CATALOGUE[name].labels, values, strict=True)
            family.add_sample(name, {key: word for key, word in present if word or key not in SOMETIMES}, float(value))
            return
        assert isinstance(family, GaugeMetricFamily | CounterMetricFamily)
        family.add_metric(values, float(value))

    def put_histogram(self, name: str, histogram: HistogramView, **labels: str) -> None:
        """All samples of one histogram."""
        values = self._label_values(name, labels)
        if self._repeated(name, values):
            return
        bounds = [*map(floatToGoString, CATALOGUE[name].buckets), "+Inf"]
        family = self._family(name)
        assert isinstance(family, HistogramMetricFamily)
        family.add_metric(values, list(zip(bounds, histogram.counts, strict=True)), histogram.total)

    def families(self) -> list[Metric]:
        """Those that have samples, in the order of the catalogue."""
        return [self._families[name] for name in CATALOGUE if name in self._families]

    def _label_values(self, name: str, labels: dict[str, str]) -> list[str]:
        given = {**self._bound, **labels}
        wanted = CATALOGUE[name].labels
        if labels.keys() - set(wanted):
            raise KeyError(f"{name} has no label {sorted(labels.keys() - set(wanted))}")
        return [given.get(label, "") if label in SOMETIMES else given[label] for label in wanted]

    def _repeated(self, name: str, values: list[str]) -> bool:
        identity = (name, tuple(values))
        repeated = identity in self._seen
        self._seen.add(identity)
        return repeated

    def _family(self, name: str) -> Metric:
        if (family := self._families.get(name)) is None:
            metric = CATALOGUE[name]
            make = {Kind.COUNTER: CounterMetricFamily, Kind.HISTOGRAM: HistogramMetricFamily}
            family = make.get(metric.kind, GaugeMetricFamily)(name, metric.help, labels=metric.labels)
            self._families[name] = family
        return family


def samples_of(families: Iterable[Metric]) -> int:
    """How many sample lines the families make."""
    return sum(len(family.samples) for family in families)
