"""The page that is served: rendered in a thread of its own, never during a scrape.

Rendering a large page keeps an interpreter busy for a second; so it happens only when something
changed, and at most a fifth of the time unless the page would grow stale. When rendering fails, the last
good page stays until it is too old to be true, and the failure is counted.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import Metric

from exporter.domain.clock import Clock
from exporter.exposition.families import families
from exporter.exposition.parts import Page, Parts, page_of
from exporter.exposition.sheet import Sheet, samples_of
from exporter.exposition.view import View

SHORTEST_PAUSE = 0.5
LONGEST_PAUSE = 5.0
"""Without any change the page is rendered after that time all the same: gauges expire as time passes."""

PAUSE_PER_RENDERING = 4.0
"""A pause is at least that many times as long as the rendering before it: a fifth of the time is spent. Where a machine is
so busy that this would let the page grow stale, more of it is: an old page helps nobody."""

log = logging.getLogger(__name__)


class Renderer:
    """Keeps the newest page. `view` is called in the thread of the renderer only, or in `render_once`.

    `stale_after` is the age in seconds at which a page is not fresh any more. A page has at most
    `max_series` samples; what is too much is left out from the end of the catalogue and counted.
    """

    def __init__(self, view: Callable[[], View], clock: Clock, max_series: int, stale_after: float) -> None:
        self._view, self._clock = view, clock
        self.max_series, self._stale_after = max_series, stale_after
        self._changed, self._stopping = threading.Event(), threading.Event()
        self._rendering = threading.Lock()
        self._page: Page | None = None
        self._parts: Parts | None = None
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

    def part(self, target: str) -> Page | None:
        """What the newest page says of one target, or with `parts.EXPORTER` of none; None before the first page.

        For one thread; the first call after a rendering takes some milliseconds.
        """
        parts = self._parts
        return None if parts is None else parts.part(target)

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
            page = page_of(shown, begun)
            self._page, self._took = page, self._clock.monotonic() - begun
            self._parts = Parts(shown, begun)
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
            self._stopping.wait(max(SHORTEST_PAUSE, min(PAUSE_PER_RENDERING * took, self._stale_after / 3)))
            # A page must not grow stale only because nothing changes.
            self._changed.wait(min(LONGEST_PAUSE, self._stale_after / 3))

    def _capped(self, wanted: list[Metric]) -> list[Metric]:
        """The families that are shown: those about the page itself, then `wanted` as far as they fit."""
        own = list(self._own.collect())
        room = self.max_series - samples_of(own) - samples_of(self._about_page(0))
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
