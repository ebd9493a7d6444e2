"""The composition root: builds everything, connects it, and takes it down again within five seconds."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable

from exporter import __version__, logs
from exporter.boosting import ask_for_samples
from exporter.chronicle import Chronicle
from exporter.config.changes import between, own, refuse_fixed
from exporter.config.schema import Settings
from exporter.console import Progress, tell
from exporter.domain.clock import Clock
from exporter.domain.errors import HistoryError
from exporter.domain.model import SeriesKey
from exporter.domain.sharding import Shard, shard_of
from exporter.exposition.ledger import Ledger
from exporter.exposition.page import Renderer
from exporter.exposition.view import View
from exporter.history.store import History
from exporter.landing import landing
from exporter.overhead.windows import Block
from exporter.probing.messages import (
    BoostedNow,
    Building,
    CollectorDone,
    PairChecked,
    SnapshotDone,
    StandbysRead,
    ToParent,
)
from exporter.probing.supervisor import Supervisor
from exporter.promptness import settle
from exporter.reloading import Outcome, Requests, attempt
from exporter.snapshot_table import snapshot_text
from exporter.stopping import STOP_WITHIN, take_down
from exporter.troubles import Troubles
from exporter.verdicts import Verdicts
from exporter.web.routes import AppState
from exporter.web.security.live import Security
from exporter.web.server import WebServer, bind

STEP_SECONDS = 1.0
"""What an operator writes into the history (marks, baselines) is seen this soon."""
SAVE_SECONDS = 8.0
"""What a kill loses of the history is less than ten seconds, with what a save and the step before it may take."""
PAGE_STALE = 60.0
"""Seconds. Pages are rendered every few seconds, whatever the intervals of the targets are: an older one means that
rendering does not work, and its numbers may be wrong."""
PRUNE_SECONDS = 3600.0
SNAPSHOT_AGE = 3600.0
"""A target whose last snapshot is younger begins without one: a restart loop must not become a load."""
LOOP_LATE = 10.0
LAST_RESORT = 0.3
"""Seconds after the end of all budgets at which the process ends whatever hangs."""

HISTORY, VERDICTS = "history", "verdicts"

log = logging.getLogger(__name__)


class App:
    """The daemon. `talkative` tells a person on standard output what happens at the start; `stop` ends `run`.

    `settings` are the whole configuration; the targets of other shards are left alone.
    `load` reads the configuration anew and raises TdeExporterError; `reloads` hears who wants that.
    """

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        talkative: bool = False,
        stop: threading.Event | None = None,
        load: Callable[[], Settings] | None = None,
        reloads: Requests | None = None,
    ) -> None:
        self._whole, self._clock, self._talkative = settings, clock, talkative
        self.settings = settings = own(settings)
        self._stop, self._probed = stop or threading.Event(), threading.Event()
        self._started = clock.wall()
        self._troubles = Troubles(log, clock)
        self._load, self.reloads = load or (lambda: self._whole), reloads or Requests(clock)
        self._security = security = Security(settings.web.config_file)
        # The port first: when it is taken, nothing has been started yet.
        self._socket = bind(settings.web.listen_address, settings.web.port)
        try:
            self.history = History.keep(settings.history_path, settings.history.retention, clock)
        except BaseException:
            self._socket.close()
            raise
        self.ledger = Ledger(settings, clock, self._whole)
        self.chronicle = Chronicle(settings, self.history, self.ledger, clock, self._history_failed)
        self.verdicts = Verdicts(self.history, self.ledger, clock, self._history_failed)
        self._restore()
        self.renderer = Renderer(self._view, clock, settings.web.max_series, PAGE_STALE)
        self.supervisor = Supervisor(settings, clock, self._deliver, self._up_changed, self._wants_snapshot, self._gone)
        self._assign()
        self._seen = self.ledger.view()
        state = AppState(
            pages=self.renderer,
            healthy=self._healthy,
            ready=self._ready,
            landing=lambda: landing(self._seen, self._started, clock.wall()),
            targets=lambda: {target.name: target.engine for target in self.settings.targets},
            elsewhere=self._elsewhere,
            reload=self.reloads.ask,
        )
        self.web = WebServer(state, settings.web, self._socket, security)
        self._open_to_all = not security.rules.asks_who
        self._saved: dict[tuple[SeriesKey, float], Block] = {}
        self._awaited = {target.name for target in settings.targets}
        self._progress = Progress()
        self._keeper = threading.Thread(target=self._keep_history, name="history", daemon=True)

    def run(self) -> int:
        """Serve until `stop` is set; the exit code."""
        if self._open_to_all and not self.web.loopback:
            log.warning(
                "metrics and pages can be read by everybody who reaches this address; web.config_file can ask for passwords",
                extra={"address": self.settings.web.listen_address},
            )
        settle()
        self.web.start()
        self.renderer.start()
        self._keeper.start()
        if not self._stop.is_set():
            self.supervisor.start()
            if self._talkative:
                tell(f"tde-exporter {__version__} serves on {self.web.url}")
        # Nothing else happens in this thread: a signal is only heard between two of its own steps, and a
        # locked file or a slow disk would put it off.
        self._stop.wait()
        self._shut_down()
        return 0

    def _view(self) -> View:
        # The landing page shows the view that the metrics were rendered from, and so computes nothing.
        self.ledger.web = self.web.view()
        self._seen = self.ledger.view()
        return self._seen

    # -- what arrives ---------------------------------------------------------------------------------

    def _deliver(self, process: int, message: ToParent) -> None:
        # First the events: what changed is not mixed with what was before.
        self.chronicle.hear(message)
        self.ledger.apply(message, process)
        self.renderer.changed()
        match message:
            case SnapshotDone():
                self._save_snapshot(message)
            case CollectorDone():
                self._awaited.discard(message.target)
                self._hear(message.words, message.target, message.collector)
            case PairChecked():
                self._hear(message.facts.problem, message.target, message.facts.pair)
            case BoostedNow():
                self._hear(message.refused, message.target, "boost")
            case StandbysRead():
                for state in message.standbys:
                    self._hear(state.problem, message.target, state.standby, state.channel)
            case Building() if self._talkative:
                self._progress(f"{message.target}: {message.what}", message.share)
            case _:
                pass

    def _hear(self, words: str, *about: str) -> None:
        # What is being stopped fails, of course.
        if not self._stop.is_set():
            self._troubles.hear(words, *about)

    def _up_changed(self, process: int, up: bool) -> None:
        self.ledger.process_up(process, up)
        self.renderer.changed()

    def _gone(self, process: int) -> None:
        self.ledger.process_gone(process)
        self.renderer.changed()

    def _assign(self) -> None:
        for process, share in self.supervisor.shares.items():
            self.ledger.assign(process, share.targets)

    def _save_snapshot(self, message: SnapshotDone) -> None:
        snapshot = message.snapshot
        if snapshot.ticks:
            try:
                self.history.save_snapshot(snapshot)
            except HistoryError as error:
                self._history_failed(error)
        if self._talkative:
            self._progress.done()
            rows = self.ledger.snapshot_rows(snapshot.target)
            tell(f"\n{snapshot_text(snapshot, rows, self.ledger.facts(snapshot.target))}\n")

    def _wants_snapshot(self, target: str) -> bool:
        try:
            taken = self.history.snapshot_taken(target)
        except HistoryError as error:
            self._history_failed(error)
            return False
        return taken is None or not 0.0 <= self._clock.wall() - taken < SNAPSHOT_AGE

    # -- history ---------------------------------------------------------------------------------------

    def _restore(self) -> None:
        try:
            self.chronicle.restore()
            self.verdicts.restore()
            self._restore_snapshots(target.name for target in self.settings.targets)
        except HistoryError as error:
            self._history_failed(error)
        # Rows that are damaged are left out without an error, and counted.
        self.ledger.state_errors(self.history.errors)

    def _restore_snapshots(self, targets: Iterable[str]) -> None:
        for name in targets:
            if latest := self.history.latest_snapshot(name):
                self.ledger.restore_snapshot(latest)

    def _keep_history(self) -> None:
        self._pruned = self._saved_at = stepped = self._clock.monotonic()
        while not self._stop.is_set():
            if (waiting := self.reloads.wait(STEP_SECONDS, self._stop)) is not None:
                begun = self._clock.monotonic()
                waiting.answer(self._reload())
                self.reloads.took(self._clock.monotonic() - begun)
            if self._clock.monotonic() - stepped >= STEP_SECONDS:
                stepped = self._clock.monotonic()
                self._step()
        self._probed.wait()
        self._save_blocks()
        self.chronicle.close()
        self.verdicts.close()
        self.history.close()

    def _step(self) -> None:
        ask_for_samples(self.settings, self.ledger, self.supervisor)
        if self._clock.monotonic() - self._saved_at >= SAVE_SECONDS or self.chronicle.freezes:
            self._saved_at = self._clock.monotonic()
            self._save_blocks()
        self.chronicle.step()
        self._step_verdicts()
        if self._clock.monotonic() - self._pruned > PRUNE_SECONDS:
            self._pruned = self._clock.monotonic()
            try:
                self.history.prune()
            except HistoryError as error:
                self._history_failed(error)

    def _save_blocks(self) -> None:
        blocks = {(key, block.start): (key, block) for key, block in self.ledger.blocks()}
        # A block is the same object until something is added to it; an hour of them need not be written each time.
        news = [held for place, held in blocks.items() if self._saved.get(place) is not held[1]]
        try:
            if self.history.begin_anew_if_gone():
                news = list(blocks.values())
                self.chronicle.write_anew()
                self.verdicts.write_anew()
            self.history.save_blocks(news)
            self._saved = {place: block for place, (_, block) in blocks.items()}
            self.ledger.state_size(self.history.size_bytes())
            self._troubles.hear("", HISTORY)
        except HistoryError as error:
            self._history_failed(error)

    def _step_verdicts(self) -> None:
        try:
            self.verdicts.step()
            self._troubles.hear("", VERDICTS)
        except Exception as error:
            # A boundary: whatever is wrong with a verdict, observations are kept, and this thread must go on.
            log.debug("no verdict", exc_info=True)
            self._troubles.hear(f"no verdict can be made: {error!r}", VERDICTS)

    def _history_failed(self, error: HistoryError) -> None:
        self.ledger.state_errors(self.history.errors)
        self._troubles.hear(str(error), HISTORY)

    # -- another configuration ---------------------------------------------------------------------------

    def _reload(self) -> Outcome:
        """In the thread that keeps the history, whose state it changes."""
        outcome = attempt(self._read_anew, self._take_up)
        if not outcome.done:
            self.ledger.change_refused()
        self.renderer.changed()
        return outcome

    def _read_anew(self) -> Settings:
        settings = self._load()
        refuse_fixed(self.settings, settings)
        self._security.refresh()
        return settings

    def _elsewhere(self, target: str) -> str:
        """In words, where a target is measured that is not measured here; empty for one that is not configured."""
        if self._whole.target(target) is None:
            return ""
        count = self._whole.own_shard.count
        return f"shard {Shard(shard_of(target, count), count)} measures it, and this is shard {self._whole.shard}"

    def _take_up(self, whole: Settings) -> str:
        settings = own(whole)
        changes = between(self.settings, settings)
        if changes.leaving:
            self._save_blocks()
        if settings.log != self.settings.log:
            logs.configure(settings.log.level, settings.log.format)
        number = self.supervisor.hush(changes.leaving)
        anew = self.ledger.change(settings, changes, whole)
        steps: tuple[Callable[[], None], ...] = (
            lambda: self.chronicle.change(settings, changes),
            lambda: self.verdicts.change(changes, anew),
            lambda: self._restore_snapshots(changes.added),
        )
        for step in steps:
            try:
                step()
            except HistoryError as error:
                self._history_failed(error)
        self.history.retention, self.renderer.max_series = settings.history.retention, settings.web.max_series
        self.settings, self._whole = settings, whole
        self._awaited -= changes.removed
        self._troubles.forget(changes.removed)
        self.supervisor.reassign(settings, changes, number)
        self._assign()
        return changes.words

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

    def _shut_down(self) -> None:
        last_resort = threading.Timer(STOP_WITHIN + LAST_RESORT, _end_now)
        last_resort.daemon = True
        last_resort.start()
        self._progress.done()
        self.reloads.wake()
        take_down(self._clock, self.web, self.supervisor, self.renderer, self._kept)
        last_resort.cancel()

    def _kept(self, timeout: float) -> bool:
        self._probed.set()
        self._keeper.join(timeout)
        return not self._keeper.is_alive()


def _end_now() -> None:
    """A part that hangs must not keep the process from ending in time; committed history is safe on disk."""
    log.error("shutting down takes too long; the process ends at once")
    os._exit(0)
