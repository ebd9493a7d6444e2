"""A page in parts: what it says of one target, or of the exporter itself."""

from __future__ import annotations

import gzip
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client import exposition as text_format
from prometheus_client.core import Metric
from prometheus_client.openmetrics import exposition as openmetrics_format

from exporter.exposition.lines import both_formats

EXPORTER = ""
"""The part of the exporter itself: all that is about no target."""
MOST_KEPT = 100
"""Parts that stay rendered: several Prometheus servers ask for the same ones."""


@dataclass(frozen=True, slots=True)
class Page:
    """One rendering in both formats. `rendered_at` is monotonic; `series` counts sample lines."""

    text: bytes
    text_gzip: bytes
    openmetrics: bytes
    openmetrics_gzip: bytes
    text_type: str
    openmetrics_type: str
    rendered_at: float
    series: int


def page_of(families: Sequence[Metric], rendered_at: float) -> Page:
    """Both formats of these families; raises what the client library raises."""
    text, modern = both_formats(families)
    return Page(
        text=text,
        text_gzip=_compressed(text),
        openmetrics=modern,
        openmetrics_gzip=_compressed(modern),
        text_type=text_format.CONTENT_TYPE_PLAIN_0_0_4,
        openmetrics_type=openmetrics_format.CONTENT_TYPE_LATEST,
        rendered_at=rendered_at,
        series=sum(len(family.samples) for family in families),
    )


class Parts:
    """The families of one page, to be asked for in parts. Not thread-safe; whoever asks first waits for the sorting."""

    def __init__(self, families: Sequence[Metric], rendered_at: float) -> None:
        self._families, self._rendered_at = families, rendered_at
        self._by_target: dict[str, list[Metric]] | None = None
        self._kept: OrderedDict[str, Page] = OrderedDict()

    def part(self, target: str) -> Page:
        """What the page says of a target, or with `EXPORTER` of none; empty when it says nothing."""
        if target in self._kept:
            self._kept.move_to_end(target)
            return self._kept[target]
        if self._by_target is None:
            self._by_target = _sorted(self._families)
        page = page_of(self._by_target.get(target, []), self._rendered_at)
        self._kept[target] = page
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return page


def _sorted(families: Sequence[Metric]) -> dict[str, list[Metric]]:
    """By target, each with the families that it has samples of."""
    found: dict[str, list[Metric]] = defaultdict(list)
    for family in families:
        mine: dict[str, Metric] = {}
        for sample in family.samples:
            target = sample.labels.get("target", EXPORTER)
            if target not in mine:
                mine[target] = Metric(family.name, family.documentation, family.type, family.unit)
                found[target].append(mine[target])
            mine[target].samples.append(sample)
    return found


def _compressed(page: bytes) -> bytes:
    # Level 1 takes a tenth of the time of level 9 for the same size on such text; no time stamp, so that
    # equal pages are equal.
    return gzip.compress(page, compresslevel=1, mtime=0)
