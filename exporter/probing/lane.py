"""One worker per target: a queue of one per collector, and a watch on calls that never end.

A hung, slow or dead target costs its own lane and nothing else. A call that outlives its hard deadline
cannot be freed; its thread is abandoned (what it still says is thrown away) and the lane goes on with a
new thread and a new session.
"""

from __future__ import annotations

import logging
import random
import threading
from collections import Counter
from collections.abc import Callable

from exporter.config.schema import Settings, TargetSettings
from exporter.domain.clock import Clock
from exporter.probing.messages import (
    ABANDONED,
    BUSY,
    CANARY,
    ENCRYPTION_STATE,
    HEARTBEAT,
    MISSED,
    STANDBY,
    ToParent,
)
from exporter.probing.rounds import Rounds
from exporter.probing.turnstile import Turnstile

BEGIN = "begin"

log = logging.getLogger(__name__)


class Lane:
    """The lane of one target. `offer` never blocks; work happens in the lane's own daemon thread."""

    def __init__(
        self,
        settings: Settings,
        target: TargetSettings,
        turnstile: Turnstile,
        emit: Callable[[ToParent], None],
        clock: Clock,
        snapshot: bool,
    ) -> None:
        self.settings, self.target = settings, target
        self._turnstile, self._emit, self._clock = turnstile, emit, clock
        self._snapshot = snapshot
        self._changed = threading.Condition()
        self._pending: list[str] = []
        self._not_before: dict[str, float] = {}
        self._longest_jitter = 0.2 * settings.intervals_of(target).canary
        self._rng = random.Random()
        self._running: str | None = None
        self._stopping = False
        self._skipped: Counter[str] = Counter()
        self._worker: _Worker | None = None

    def start(self) -> None:
        self._pending = [BEGIN]
        self._worker = self._new_worker()

    def offer(self, collector: str) -> None:
        """Ask for one run of a collector; skipped and counted when the last one has not ended."""
        with self._changed:
            if collector in self._pending or self._running in (collector, BEGIN) or BEGIN in self._pending:
                self._skipped[BUSY] += 1
                return
            self._pending.append(collector)
            if collector == CANARY:
                # Jitter keeps the ticks from locking on to cron jobs and checkpoints; it sits here, not in
                # the trigger, where it would add up. Other work goes on meanwhile.
                self._not_before[CANARY] = self._clock.monotonic() + self._rng.uniform(0.0, self._longest_jitter)
            self._changed.notify()

    def skipped(self) -> Counter[str]:
        """Runs that did not happen since the last call, by cause."""
        with self._changed:
            counted, self._skipped = self._skipped, Counter()
            return counted

    def count_missed(self, runs: int) -> None:
        with self._changed:
            self._skipped[MISSED] += runs

    def load_ratio(self) -> float:
        return self._worker.rounds.budget.load_ratio(self._clock.monotonic()) if self._worker else 0.0

    def abandon_if_stuck(self) -> bool:
        """Replace the worker if its current call should have ended; True when that was done."""
        with self._changed:
            worker = self._worker
            if worker is None or self._stopping or not worker.stuck(self._clock.monotonic()):
                return False
            worker.abandoned = True
            self._skipped[ABANDONED] += 1
            self._running = None
            self._worker = self._new_worker(worker.rounds)
        log.warning("a call to the database never ended; its thread is abandoned", extra={"target": self.target.name})
        return True

    def stop(self) -> None:
        """Ask the worker to close its session and end; does not wait."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def join(self, timeout: float) -> bool:
        """Wait for the worker's end; False when it is still busy."""
        if self._worker is None:
            return True
        self._worker.thread.join(timeout)
        return not self._worker.thread.is_alive()

    def _new_worker(self, before: Rounds | None = None) -> _Worker:
        worker = _Worker(self, self._rounds)
        if before is not None:
            # The budget belongs to the target, not to the thread.
            worker.rounds.budget = before.budget
        worker.thread.start()
        return worker

    def _rounds(self, worker: _Worker) -> Rounds:
        return Rounds(
            self.settings,
            self.target,
            self._turnstile,
            lambda message: None if worker.abandoned else self._emit(message),
            self._clock,
            random.Random(),
            worker.set_expiry,
        )

    def next_job(self, worker: _Worker) -> str | None:
        """Wait for work; None ends the worker."""
        with self._changed:
            self._running = None if not worker.abandoned else self._running
            while not (self._stopping or worker.abandoned):
                now = self._clock.monotonic()
                due = next((job for job in self._pending if self._not_before.get(job, now) <= now), None)
                if due is not None:
                    self._pending.remove(due)
                    self._running = due
                    return due
                waits = [self._not_before[job] - now for job in self._pending]
                self._changed.wait(min(waits, default=None))
            return None

    def run_job(self, rounds: Rounds, job: str) -> None:
        """Do one piece of work on the calling worker's thread."""
        if job == BEGIN:
            rounds.begin(self._snapshot)
        elif job == ENCRYPTION_STATE:
            rounds.encryption_state()
        elif job == CANARY:
            rounds.canary()
        elif job == HEARTBEAT:
            rounds.heartbeat()
        elif job == STANDBY:
            rounds.standby()
        with self._changed:
            self._skipped.update(rounds.take_skipped())


class _Worker:
    """One thread of a lane with its own session; abandoned as a whole."""

    def __init__(self, lane: Lane, rounds: Callable[[_Worker], Rounds]) -> None:
        self.abandoned = False
        self._expiry: float | None = None
        self._lane = lane
        self.rounds = rounds(self)
        self.thread = threading.Thread(target=self._work, name=f"lane-{lane.target.name}", daemon=True)

    def set_expiry(self, at: float | None) -> None:
        self._expiry = at

    def stuck(self, now: float) -> bool:
        expiry = self._expiry
        return expiry is not None and now > expiry

    def _work(self) -> None:
        while (job := self._lane.next_job(self)) is not None:
            try:
                self._lane.run_job(self.rounds, job)
            except Exception:
                # A boundary: a defect in one engine must not silence its target for ever.
                log.exception("unexpected error in a lane", extra={"target": self._lane.target.name, "job": job})
                self.rounds.close()
        if not self.abandoned:
            self.rounds.close()
