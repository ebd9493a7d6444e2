"""When each collector of each target runs: APScheduler interval jobs with a stable phase per target.

A job only hands work to a lane, so it runs inline in the scheduler's own thread. Jobs are coalesced and
never overlap. APScheduler thinks in wall-clock time; `realign` puts its jobs back on track after the
clock stepped (a step back by an hour was seen to silence it for an hour).
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from apscheduler.events import EVENT_JOB_EXECUTED, EVENT_JOB_MISSED, JobExecutionEvent
from apscheduler.executors.debug import DebugExecutor
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger

_SLACK_SECONDS = 1.0
"""A job that has just run may be planned a little further ahead than its interval, when the clock is slewed."""


def phase(target: str, interval: float) -> float:
    """Seconds into each interval at which a target's turn comes: the same in every process and after every restart."""
    digest = hashlib.sha256(target.encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64 * interval


@dataclass
class _Job:
    interval: float
    offset: float
    run: Callable[[], None]
    missed: Callable[[int], None]
    last: datetime | None = None


class Schedule:
    """Interval jobs by name; `take_lateness` hands out how late they were, `missed` of each hears what was left out."""

    def __init__(self) -> None:
        self._scheduler = BackgroundScheduler(timezone=UTC, executors={"default": DebugExecutor()})
        self._scheduler.add_listener(self._executed, EVENT_JOB_EXECUTED)
        self._scheduler.add_listener(self._missed, EVENT_JOB_MISSED)
        self._jobs: dict[str, _Job] = {}
        self._lock = threading.Lock()
        self._changing = threading.RLock()
        self._lateness: list[float] = []

    def every(
        self, interval: float, target: str, collector: str, job: Callable[[], None], missed: Callable[[int], None]
    ) -> None:
        """Run `job` each `interval` seconds in the target's phase; `missed` hears how many runs were left out."""
        name = f"{target}/{collector}"
        with self._changing:
            self._jobs[name] = _Job(interval, phase(name, interval), job, missed)
            self._add(name)

    def drop(self, target: str) -> None:
        """Run nothing for that target any more."""
        with self._changing:
            for name in [name for name in self._jobs if name.rpartition("/")[0] == target]:
                del self._jobs[name]
                with suppress(JobLookupError):
                    self._scheduler.remove_job(name)

    def start(self) -> None:
        self._scheduler.start()

    def stop(self) -> None:
        self._scheduler.shutdown(wait=False)

    def realign(self) -> None:
        """Plan all jobs anew from the present wall-clock time; no run is repeated, none is made up for."""
        with self._changing:
            for name in self._jobs:
                self._add(name)
        self._scheduler.wakeup()

    def astray(self) -> bool:
        """Whether a job is planned further ahead than its interval, as by a clock that went forth and back in between."""
        latest = datetime.now(UTC) + timedelta(seconds=_SLACK_SECONDS)
        with self._changing:
            return any(
                job.next_run_time > latest + timedelta(seconds=self._jobs[job.id].interval)
                for job in self._scheduler.get_jobs()
            )

    def planned(self) -> tuple[str, ...]:
        """The names of the jobs that will run."""
        return tuple(job.id for job in self._scheduler.get_jobs())

    def take_lateness(self) -> tuple[float, ...]:
        """Seconds from planned to real start of every job since the last call."""
        with self._lock:
            taken, self._lateness = self._lateness, []
        return tuple(taken)

    def _add(self, name: str) -> None:
        job = self._jobs[name]
        job.last = None
        now = datetime.now(UTC).timestamp()
        first = now - (now - job.offset) % job.interval + job.interval
        self._scheduler.add_job(
            job.run,
            IntervalTrigger(seconds=job.interval, start_date=datetime.fromtimestamp(first, UTC), timezone=UTC),
            id=name,
            name=name,
            replace_existing=True,
            coalesce=True,
            max_instances=1,
            misfire_grace_time=max(1, round(job.interval / 2)),
        )

    def _executed(self, event: JobExecutionEvent) -> None:
        self._count_left_out(event, 0)
        late = (datetime.now(UTC) - event.scheduled_run_time) / timedelta(seconds=1)
        with self._lock:
            self._lateness.append(max(0.0, late))

    def _missed(self, event: JobExecutionEvent) -> None:
        self._count_left_out(event, 1)

    def _count_left_out(self, event: JobExecutionEvent, itself: int) -> None:
        """Runs that were coalesced into this one leave no event of their own: count the gap before it."""
        job = self._jobs.get(event.job_id)
        if job is None:
            return
        gap = 0
        if job.last is not None:
            gap = round((event.scheduled_run_time - job.last) / timedelta(seconds=job.interval)) - 1
        job.last = event.scheduled_run_time
        if gap + itself > 0:
            job.missed(gap + itself)
