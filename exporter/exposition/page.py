"""The page that is served: rendered in a thread of its own, never during a scrape.

Rendering a large page keeps an interpreter busy for a second; so it happens only when something
changed, and at most a fifth of the time. When rendering fails, the last good page stays until it is too
old to be true, and the failure is counted.
"""

from __future__ import annotations

import gzip
import logging
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client import exposition as text_format
from prometheus_client.core import Metric
from prometheus_client.openmetrics import exposition as openmetrics_format

from exporter.domain.clock import Clock
from exporter.exposition.families import families
from exporter.exposition.sheet import Sheet, samples_of
from exporter.exposition.view import View

SHORTEST_PAUSE = 0.5
LONGEST_PAUSE = 5.0
"""Without any change the page is rendered after that time all the same: gauges expire as time passes."""

PAUSE_PER_RENDERING = 4.0
"""A pause is at least that many times as long as the rendering before it: a fifth of the time is spent."""

log = logging.getLogger(__name__)


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


class Renderer:
    """Keeps the newest page. `view` is called in the thread of the renderer only, or in `render_once`.

    `stale_after` is the age in seconds at which a page is not fresh any more. A page has at most
    `max_series` samples; what is too much is left out from the end of the catalogue and counted.
    """

    def __init__(self, view: Callable[[], View], clock: Clock, max_series: int, stale_after: float) -> None:
        self._view, self._clock = view, clock
        self._max_series, self._stale_after = max_series, stale_after
        self._changed, self._stopping = threading.Event(), threading.Event()
        self._rendering = threading.Lock()
        self._page: Page | None = None
        self._refused = self._errors = 0
        self._took = 0.0
        self._own = CollectorRegistry()
        ProcessCollector(registry=self._own)
        PlatformCollector(registry=self._own)
        GCCollector(registry=self._own)
        self._thread = threading.Thread(target=self._run, name="renderer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout: float = 1.0) -> None:
        """End the thread; waits up to `timeout` seconds for a rendering under way."""
        self._stopping.set()
        self._changed.set()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def changed(self) -> None:
        """Something that the page shows is different now; cheap, from any thread."""
        self._changed.set()

    def current(self) -> Page | None:
        """The newest page; None before the first."""
        return self._page

    def fresh(self) -> bool:
        """Whether there is a page that is young enough to be true."""
        page = self._page
        return page is not None and self._clock.monotonic() - page.rendered_at <= self._stale_after

    @property
    def errors(self) -> int:
        """Renderings that failed."""
        return self._errors

    def render_once(self) -> Page:
        """Render now, in the calling thread; raises what the view or the client library raises."""
        with self._rendering:
            begun = self._clock.monotonic()
            shown = self._capped(families(self._view()))
            series = samples_of(shown)
            collected = _Collected(shown)
            text = text_format.generate_latest(collected)
            modern: bytes = openmetrics_format.generate_latest(collected)  # type: ignore[no-untyped-call]
            page = Page(
                text=text,
                text_gzip=_compressed(text),
                openmetrics=modern,
                openmetrics_gzip=_compressed(modern),
                text_type=text_format.CONTENT_TYPE_PLAIN_0_0_4,
                openmetrics_type=openmetrics_format.CONTENT_TYPE_LATEST,
                rendered_at=begun,
                series=series,
            )
            self._page, self._took = page, self._clock.monotonic() - begun
            return page

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._changed.clear()
            begun = self._clock.monotonic()
            try:
                self.render_once()
            except Exception:
                # A boundary: this thread must outlive whatever goes wrong in one rendering.
                self._errors += 1
                log.exception("the page could not be rendered")
            took = self._clock.monotonic() - begun
            self._stopping.wait(max(SHORTEST_PAUSE, PAUSE_PER_RENDERING * took))
            # A page must not grow stale only because nothing changes.
            self._changed.wait(min(LONGEST_PAUSE, self._stale_after / 3))

    def _capped(self, wanted: list[Metric]) -> list[Metric]:
        """The families that are shown: those about the page itself, then `wanted` as far as they fit."""
        own = list(self._own.collect())
        room = self._max_series - samples_of(own) - samples_of(self._about_page(0))
        kept = []
        for family in wanted:
            # Half a histogram is no histogram.
            whole = family.type == "histogram" and len(family.samples) > room
            fitting = [] if whole else family.samples[: max(0, room)]
            self._refused += len(family.samples) - len(fitting)
            room -= len(fitting)
            family.samples = fitting
            if fitting:
                kept.append(family)
        series = samples_of(own) + samples_of(kept) + samples_of(self._about_page(0))
        return [*self._about_page(series), *kept, *own]

    def _about_page(self, series: int) -> list[Metric]:
        sheet = Sheet()
        sheet.put("tde_exporter_series", series)
        sheet.put("tde_exporter_series_refused_total", self._refused)
        sheet.put("tde_exporter_page_errors_total", self._errors)
        sheet.put("tde_exporter_page_render_seconds", self._took)
        return sheet.families()


class _Collected:
    """Families that were collected once, for both formats."""

    def __init__(self, collected: list[Metric]) -> None:
        self._collected = collected

    def collect(self) -> Iterator[Metric]:
        return iter(self._collected)


def _compressed(page: bytes) -> bytes:
    # Level 1 takes a tenth of the time of level 9 for the same size on such text; no time stamp, so that
    # equal pages are equal.
    return gzip.compress(page, compresslevel=1, mtime=0)
