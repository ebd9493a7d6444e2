"""The composition root: builds everything, connects it, and takes it down again within five seconds."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from types import FrameType

from exporter import __version__
from exporter.config.schema import Settings
from exporter.console import Progress
from exporter.domain.clock import Clock
from exporter.domain.errors import HistoryError
from exporter.domain.model import SeriesKey
from exporter.exposition.ledger import Ledger
from exporter.exposition.page import Renderer
from exporter.exposition.view import View
from exporter.history.store import History
from exporter.landing import landing
from exporter.overhead.windows import Block
from exporter.probing.messages import Building, CollectorDone, SnapshotDone, TargetFailed, ToParent
from exporter.probing.supervisor import Supervisor
from exporter.snapshot_table import snapshot_text
from exporter.web.routes import AppState
from exporter.web.server import WebServer, bind

SAVE_SECONDS = 10.0
PRUNE_SECONDS = 3600.0
SNAPSHOT_AGE = 3600.0
"""A target whose last snapshot is younger begins without one: a restart loop must not become a load."""
LOOP_LATE = 10.0
STOP_WITHIN = 4.5

log = logging.getLogger(__name__)


class App:
    """The daemon. `talkative` tells a person on standard output what happens at the start."""

    def __init__(self, settings: Settings, clock: Clock, talkative: bool = False) -> None:
        self.settings, self._clock, self._talkative = settings, clock, talkative
        self._stop = threading.Event()
        self._started = clock.wall()
        # The port first: when it is taken, nothing has been started yet.
        self._socket = bind(settings.web.listen_address, settings.web.port)
        self.history = History.open(settings.history_path, settings.history.retention, clock)
        self.ledger = Ledger(settings, clock)
        self._restore()
        canary = max(settings.intervals_of(target).canary for target in settings.targets)
        self.renderer = Renderer(self._view, clock, settings.web.max_series, stale_after=max(30.0, 3 * canary))
        self.supervisor = Supervisor(settings, clock, self._deliver, self._up_changed, self._wants_snapshot)
        for process, targets in enumerate(self.supervisor.shares):
            self.ledger.assign(process, targets)
        self._seen = self.ledger.view()
        state = AppState(
            pages=self.renderer,
            healthy=self._healthy,
            ready=self._ready,
            landing=lambda: landing(self._seen, self._started, clock.wall()),
        )
        self.web = WebServer(state, settings.web, self._socket)
        self._saved: dict[tuple[SeriesKey, float], Block] = {}
        self._awaited = {target.name for target in settings.targets}
        self._progress = Progress()

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT; the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        self.web.start()
        self.renderer.start()
        self.supervisor.start()
        if self._talkative:
            print(f"tde-exporter {__version__} serves on {self.web.url}", flush=True)
        self._keep_history()
        self._shut_down()
        return 0

    def stop(self) -> None:
        """Ask `run` to end; may be called from any thread."""
        self._stop.set()

    def _view(self) -> View:
        # The landing page shows the view that the metrics were rendered from, and so computes nothing.
        self._seen = self.ledger.view()
        return self._seen

    # -- what arrives ---------------------------------------------------------------------------------

    def _deliver(self, process: int, message: ToParent) -> None:
        self.ledger.apply(message, process)
        self.renderer.changed()
        match message:
            case SnapshotDone():
                self._save_snapshot(message)
            case CollectorDone():
                self._awaited.discard(message.target)
            case Building() if self._talkative:
                self._progress(f"{message.target}: {message.what}", message.share)
            case TargetFailed():
                log.info("target failed", extra={"target": message.target, "reason": message.reason.value})
            case _:
                pass

    def _up_changed(self, process: int, up: bool) -> None:
        self.ledger.process_up(process, up)
        self.renderer.changed()

    def _save_snapshot(self, message: SnapshotDone) -> None:
        snapshot = message.snapshot
        try:
            self.history.save_snapshot(snapshot)
        except HistoryError as error:
            self._history_failed(error)
        if self._talkative:
            self._progress.done()
            rows = self.ledger.snapshot_rows(snapshot.target)
            print(f"\n{snapshot_text(snapshot, rows, self.ledger.facts(snapshot.target))}\n", flush=True)

    def _wants_snapshot(self, target: str) -> bool:
        try:
            latest = self.history.latest_snapshot(target)
        except HistoryError as error:
            self._history_failed(error)
            return False
        return latest is None or not 0.0 <= self._clock.wall() - latest.started < SNAPSHOT_AGE

    # -- history ---------------------------------------------------------------------------------------

    def _restore(self) -> None:
        try:
            for key, block in self.history.load_blocks(self._clock.steady() - 3600.0):
                self.ledger.restore(key, block)
            for target in self.settings.targets:
                if latest := self.history.latest_snapshot(target.name):
                    self.ledger.restore_snapshot(latest)
        except HistoryError as error:
            self._history_failed(error)
        # Rows that are damaged are left out without an error, and counted.
        self.ledger.state_errors(self.history.errors)

    def _keep_history(self) -> None:
        pruned = self._clock.monotonic()
        while not self._stop.wait(SAVE_SECONDS):
            self._save_blocks()
            if self._clock.monotonic() - pruned > PRUNE_SECONDS:
                pruned = self._clock.monotonic()
                try:
                    self.history.prune()
                except HistoryError as error:
                    self._history_failed(error)

    def _save_blocks(self) -> None:
        blocks = {(key, block.start): (key, block) for key, block in self.ledger.blocks()}
        # A block is the same object until something is added to it; an hour of them need not be written each time.
        news = [held for place, held in blocks.items() if self._saved.get(place) is not held[1]]
        try:
            self.history.save_blocks(news)
            self._saved = {place: block for place, (_, block) in blocks.items()}
            self.ledger.state_size(self.history.size_bytes())
        except HistoryError as error:
            self._history_failed(error)

    def _history_failed(self, error: HistoryError) -> None:
        self.ledger.state_errors(self.history.errors)
        log.error("the history cannot be used", extra={"error": str(error)})

    # -- health and the end ----------------------------------------------------------------------------

    def _healthy(self) -> tuple[bool, str]:
        age = self.supervisor.loop_age()
        if age > LOOP_LATE:
            return False, f"the supervising loop has not gone round for {age:.0f} s"
        return True, "the scheduler loop lives"

    def _ready(self) -> tuple[bool, str]:
        if waiting := sorted(self._awaited):
            return False, f"first pass not done: {', '.join(waiting[:5])}{' …' if len(waiting) > 5 else ''}"
        if not self.renderer.fresh():
            return False, "the page is stale"
        return True, "ready"

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stop.set()

    def _shut_down(self) -> None:
        self._progress.done()
        last_resort = threading.Timer(STOP_WITHIN, _end_now)
        last_resort.daemon = True
        last_resort.start()
        self.web.stop(0.5)
        self.supervisor.stop(2.5)
        self.renderer.stop()
        self._save_blocks()
        self.history.close()
        last_resort.cancel()


def _end_now() -> None:
    """A part that hangs must not keep the process from ending in time; committed history is safe on disk."""
    log.error("shutting down takes too long; the process ends at once")
    sys.stdout.flush()
    os._exit(0)
