"""One worker per target: a queue of one per collector, and a watch on calls that never end.

A hung, slow or dead target costs its own lane and nothing else. A call that outlives its hard deadline
cannot be freed; its thread is abandoned (what it still says is thrown away) and the lane goes on with a
new thread and a new session: at once for the first time, after ever longer rests when that happens again.
"""

from __future__ import annotations

import logging
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from exporter.config.schema import Settings, TargetSettings
from exporter.domain.clock import Clock
from exporter.domain.errors import Cancelled, Reason
from exporter.engines import registry
from exporter.engines.base import Engine
from exporter.probing.allowance import Allowance
from exporter.probing.budget import Key
from exporter.probing.messages import (
    ABANDONED,
    ACTIVITY,
    BUSY,
    CANARY,
    COLLECTORS,
    ENCRYPTION_STATE,
    HEARTBEAT,
    MISSED,
    STANDBY,
    BoostedNow,
    CollectorDone,
    ToParent,
)
from exporter.probing.rounds import Rounds
from exporter.probing.sessions import SessionCap
from exporter.probing.turnstile import Turnstile

BEGIN = "begin"
FIRST_REST, LONGEST_REST = 60.0, 900.0
REMEMBERED = 3600.0
"""Seconds after which an abandoned call is forgotten. The rests keep the threads that one target can hang up
below ten an hour, however it hangs."""
LEAVE_SECONDS = 10.0
"""What a lane that was left may take to end when it is in no call."""
DEFECT_SECONDS = 60.0
"""Seconds between two tracebacks of the same kind of error in the same work."""

log = logging.getLogger(__name__)


class Legacy(NamedTuple):
    """What a lane takes over from one that probed the same target under other settings: sessions that may still be open,
    an engine that knows which secrets were refused, and what was used of the budgets."""

    sessions: SessionCap | None = None
    engine: Engine | None = None
    allowance: Allowance | None = None


NO_LEGACY = Legacy()


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
        legacy: Legacy = NO_LEGACY,
    ) -> None:
        self.settings, self.target = settings, target
        self._turnstile, self._emit, self._clock = turnstile, emit, clock
        self._snapshot = snapshot
        # The budgets belong to the target, not to a thread. So does the engine: it knows which secret was refused.
        self._engine: Engine | None = None
        self._former = legacy.engine
        self._allowance = Allowance(settings, target, legacy.sessions)
        if legacy.allowance is not None:
            self._allowance.succeed(legacy.allowance)
        self._changed, self._speaking = threading.Condition(), threading.Lock()
        self._pending: list[str] = []
        self._not_before: dict[str, float] = {}
        self._longest_jitter = clock.real(0.2 * settings.intervals_of(target).canary)
        self._rng = random.Random()
        self._running: str | None = None
        self._stopping = False
        self._skipped: Counter[str] = Counter()
        self._worker: _Worker | None = None
        self._begun = 0.0
        self._abandoned: list[float] = []
        self._rest_until = 0.0
        self._hanging: list[_Worker] = []
        self._left: float | None = None
        self._told_defects: dict[tuple[str, str], float] = {}

    def start(self) -> None:
        # Not before: this loads a driver, and a process says that it lives before it does what takes time.
        self._engine = registry.make(self.target)
        if self._former is not None and type(self._former) is type(self._engine):
            self._engine.succeed(self._former)
        self._former = None
        self._pending = [BEGIN]
        self._worker = self._new_worker()

    def offer(self, collector: str) -> None:
        """Ask for one run of a collector; skipped and counted when the last one has not ended, or the lane rests."""
        with self._changed:
            if self._worker is None:
                self._skipped[ABANDONED] += 1
                return
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
        return self._allowance.load_ratio(self._clock.paced())

    def want_boost(self, keys: Iterable[Key]) -> None:
        """Take more samples of these operations, and of no others, as far as that is allowed."""
        self._allowance.boost.want(keys)

    def out_of_sessions(self) -> bool:
        """Whether calls that never ended hold so many sessions that this target cannot be measured any more."""
        return self._worker is not None and self._worker.rounds.sessions.out_of_reach

    def hanging(self) -> int:
        """Abandoned threads whose call has still not ended."""
        with self._changed:
            self._hanging = [worker for worker in self._hanging if worker.thread.is_alive()]
            return len(self._hanging)

    def abandon_if_stuck(self) -> bool:
        """Give the worker up if its current call should have ended; True when that was done.

        Also ends a rest that is over, and so is to be called every second or so.
        """
        now = self._clock.monotonic()
        with self._changed:
            worker = self._worker
            if self._stopping:
                return False
            if worker is None:
                if now >= self._rest_until:
                    self._worker = self._new_worker()
                return False
            if not worker.stuck(now):
                return False
            worker.abandoned = True
            self._hanging.append(worker)
            # Should its call end after hours, that time must not use up what its successor lives on.
            worker.rounds.allowance = Allowance(self.settings, self.target)
            self._skipped[ABANDONED] += 1
            collector, seconds = (self._running if self._running in COLLECTORS else ENCRYPTION_STATE), now - self._begun
            self._running = None
            rest = self._next_rest(now)
            self._rest_until = now + rest
            self._worker = None if rest else self._new_worker()
        words = "a call to the database never ended"
        self._emit(
            CollectorDone(
                self.target.name, collector, seconds, self._clock.wall(), Reason.TIMEOUT, f"{words}; given up"
            )
        )
        # Nothing is measured until its successor has made a round, and says what it boosts.
        self._emit(BoostedNow(self.target.name, frozenset()))
        fields = {"target": self.target.name, "collector": collector, "rest_seconds": rest}
        log.warning(f"{words}; its thread is abandoned", extra=fields)
        return True

    def _next_rest(self, now: float) -> float:
        self._abandoned = [*(at for at in self._abandoned if now - at < REMEMBERED), now]
        again = len(self._abandoned) - 2
        return 0.0 if again < 0 else min(LONGEST_REST, FIRST_REST * 2.0**again)

    def met_defect(self, job: str, error: Exception) -> None:
        """Tell of an error that nobody foresaw as of any other failure; what it was stands in the log, once a minute at most."""
        now = self._clock.monotonic()
        collector, kind = job if job in COLLECTORS else ENCRYPTION_STATE, type(error).__name__
        if now - self._told_defects.get((job, kind), -DEFECT_SECONDS) >= DEFECT_SECONDS:
            self._told_defects[job, kind] = now
            log.error("unexpected error in a lane", exc_info=error, extra={"target": self.target.name, "job": job})
        words = f"unexpected error ({kind}), a defect of this exporter; its log says more"
        self._emit(
            CollectorDone(self.target.name, collector, now - self._begun, self._clock.wall(), Reason.QUERY, words)
        )

    def stop(self) -> None:
        """Ask the worker to close its session and end; does not wait."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def join(self, timeout: float) -> bool:
        """Wait for the worker's end; False when it is still busy."""
        worker = self._worker
        if worker is None:
            return True
        worker.thread.join(timeout)
        return not worker.thread.is_alive()

    # -- the end of a lane whose target is configured no more ---------------------------------------------

    def leave(self) -> None:
        """Say nothing from now on, make no further call, close the session and end; does not wait."""
        with self._changed, self._speaking:
            self._stopping, self._left = True, self._clock.monotonic()
            if self._worker is not None:
                self._worker.abandoned = True
            self._changed.notify_all()

    def ended(self) -> bool:
        """Whether nobody is at work any more, but for those whose call hangs."""
        worker = self._worker
        return worker is None or not worker.thread.is_alive()

    def give_up_if_stuck(self) -> bool:
        """Wait no longer for the end of a lane that was left, if its last call should have ended; True when that was done."""
        now = self._clock.monotonic()
        with self._changed:
            worker = self._worker
            if worker is None or self._left is None or not worker.thread.is_alive():
                return False
            # The end of a session is not announced by who was left.
            if not worker.stuck(now) and (worker.calling or now - self._left <= LEAVE_SECONDS):
                return False
            self._hanging.append(worker)
            self._worker = None
        log.warning(
            "a call to a database that is not configured any more never ended", extra={"target": self.target.name}
        )
        return True

    def legacy(self) -> Legacy:
        """What a successor has to take over."""
        return Legacy(self._allowance.sessions if self.hanging() else None, self._engine, self._allowance)

    # -- the worker ---------------------------------------------------------------------------------------

    def _say(self, worker: _Worker, message: ToParent) -> None:
        with self._speaking:
            if not worker.abandoned:
                self._emit(message)

    def _new_worker(self) -> _Worker:
        worker = _Worker(self, self._rounds)
        worker.thread.start()
        return worker

    def _rounds(self, worker: _Worker) -> Rounds:
        return Rounds(
            self.settings,
            self.target,
            self._turnstile,
            partial(self._say, worker),
            self._clock,
            random.Random(),
            worker.set_expiry,
            self._allowance,
            self._engine,
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
                    self._running, self._begun = due, now
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
        elif job == ACTIVITY:
            rounds.activity()
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
        """Note when the call that begins must have ended, None: it has.

        Raises `Cancelled` once the worker is abandoned: its successor is at work, and calls nothing beside it.
        """
        if at is not None and self.abandoned:
            raise Cancelled("given up: a call of this session did not end in time")
        self._expiry = at

    @property
    def calling(self) -> bool:
        """Whether a call is under way that must have ended at a known time."""
        return self._expiry is not None

    def stuck(self, now: float) -> bool:
        expiry = self._expiry
        return expiry is not None and now > expiry

    def _work(self) -> None:
        while (job := self._lane.next_job(self)) is not None:
            try:
                self._lane.run_job(self.rounds, job)
            except Exception as error:
                # A boundary: a defect in one engine must not silence its target for ever.
                if not self.abandoned:
                    self._lane.met_defect(job, error)
                self.rounds.close()
        # Abandoned or not: a session that got free after all must not keep what it holds, a lock above all.
        self.rounds.close()
