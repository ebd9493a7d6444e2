"""The probe process: lanes and schedule for its share of the targets, apart from the process that serves.

Started as `python -m exporter.probing.process FD`, where FD is its end of a socket pair. The first message
it receives is its `Assignment`. It ends when told to, when the parent is gone, or on its own when too many
lanes had to be abandoned.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import queue
import resource
import signal
import sys
import threading
from collections.abc import Mapping
from multiprocessing.connection import Connection

from exporter import logs
from exporter.config.changes import only
from exporter.config.schema import Settings, TargetSettings
from exporter.domain.clock import StepDetector, SystemClock
from exporter.probing.headroom import Headroom
from exporter.probing.lane import Lane, Legacy
from exporter.probing.messages import (
    Assignment,
    Beat,
    BoostWanted,
    Reassignment,
    Stop,
    ToParent,
)
from exporter.probing.noise import NullCanary
from exporter.probing.roster import Roster
from exporter.probing.schedule import Schedule
from exporter.probing.turnstile import Turnstile

BEAT_SECONDS = 1.0
COLLECT_GARBAGE_EVERY = 60
QUEUE_LENGTH = 10_000
STOP_SECONDS = 2.0
TOO_MANY_HANGING, TOO_MANY_HANGING_OF_A_LANE = 8, 2
"""A probe process that holds this many abandoned threads, plus so many for each of its lanes, ends: every start
costs the healthy targets of the process their sessions, so a few that hang must not bring it about soon."""
EXIT_TOO_MANY_HANGING = 3
PATIENCE_WITHOUT_SESSIONS = 3600.0
"""Seconds that a process lives at least before it ends because hung calls hold all sessions of a target. They may be
open on the server, so no more are opened; but only the end of the process closes them, and its other targets
pause for that, so it happens once an hour at most."""

log = logging.getLogger(__name__)


class Outbox:
    """Messages to the parent, sent by a thread of their own so that a slow parent never holds up a lane."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._waiting: queue.Queue[ToParent | None] = queue.Queue(QUEUE_LENGTH)
        self._dropped = 0
        self._thread = threading.Thread(target=self._send, name="outbox", daemon=True)
        self._thread.start()

    def put(self, message: ToParent) -> None:
        try:
            self._waiting.put_nowait(message)
        except queue.Full:
            self._dropped += 1

    def take_dropped(self) -> int:
        dropped, self._dropped = self._dropped, 0
        return dropped

    def flush(self, timeout: float) -> None:
        """Send what waits, for at most `timeout` seconds."""
        with contextlib.suppress(queue.Full):
            self._waiting.put_nowait(None)
        self._thread.join(timeout)

    def _send(self) -> None:
        while (message := self._waiting.get()) is not None:
            try:
                self._connection.send(message)
            except OSError:
                # The parent is gone; the inbox sees that too and ends the process.
                return


class ProbeProcess:
    """Everything that runs in one probe process."""

    def __init__(self, assignment: Assignment, outbox: Outbox) -> None:
        self._assignment, self._outbox = assignment, outbox
        self._clock = SystemClock()
        self._steps = StepDetector(self._clock)
        self._turnstile = Turnstile()
        self._noise = NullCanary(self._turnstile)
        self._schedule = Schedule()
        self._stopping, self._begun = threading.Event(), threading.Event()
        self._roster = Roster(self._lane, self._schedule, self._clock)
        self._headroom = Headroom()
        self._reassigned = 0

    def run(self) -> int:
        """Work until told to stop; the exit code."""
        # Collections are made between timed sections, never by chance inside one.
        gc.disable()
        gc.freeze()
        # The first sign of life comes before anything is said about a target.
        self._outbox.put(Beat(process=self._assignment.process))
        self._headroom.keep(len(self._assignment.targets))
        self._roster.join(only(self._assignment.settings, self._assignment.targets), self._assignment.snapshots)
        self._schedule.start()
        self._begun.set()
        beats = 0
        while not self._stopping.wait(BEAT_SECONDS):
            beats += 1
            self._beat()
            self._headroom.keep(len(self._roster.lanes))
            if beats % COLLECT_GARBAGE_EVERY == 0 or self._roster.take_litter():
                with self._turnstile.turn():
                    gc.collect()
            if reason := reason_to_end(self._roster.lanes, beats * BEAT_SECONDS, self._roster.hanging()):
                log.error(f"{reason}; the probe process ends, to be started afresh")
                self._outbox.flush(1.0)
                return EXIT_TOO_MANY_HANGING
        self._close()
        return 0

    def stop(self) -> None:
        self._stopping.set()

    def want_boost(self, wanted: BoostWanted) -> None:
        """Hand on what the parent wants; a target of another process is none of ours."""
        self._roster.want_boost(wanted.target, wanted.keys)

    def reassign(self, wanted: Reassignment) -> None:
        """Give up targets and take others, as soon as this process has begun."""
        self._begun.wait()
        logs.configure(wanted.settings.log.level, wanted.settings.log.format)
        try:
            self._roster.leave(wanted.leaving)
            self._reassigned = wanted.number
            self._outbox.put(Beat(process=self._assignment.process, reassigned=wanted.number))
            self._roster.join(wanted.settings, wanted.snapshots)
        except Exception:
            # A boundary: whoever does not listen any more could not be told to stop either.
            log.exception("targets could not be exchanged")

    def _lane(self, settings: Settings, target: TargetSettings, snapshot: bool, legacy: Legacy) -> Lane:
        return Lane(settings, target, self._turnstile, self._outbox.put, self._clock, snapshot, legacy)

    def _beat(self) -> None:
        step = self._steps.check()
        # A clock that went forth and back between two beats shows no step, but has left its traces in the plan.
        stepped = bool(step) or self._schedule.astray()
        if stepped:
            log.warning("the wall clock stepped; all jobs are planned anew", extra={"step_seconds": round(step, 3)})
            self._schedule.realign()
        abandoned = self._roster.step()
        lanes = self._roster.lanes
        self._outbox.put(
            Beat(
                process=self._assignment.process,
                lateness=self._schedule.take_lateness(),
                skipped={
                    (name, cause): count for name, lane in lanes.items() for cause, count in lane.skipped().items()
                },
                noise=self._noise.measure(),
                abandoned=abandoned,
                clock_steps=int(stepped),
                dropped=self._outbox.take_dropped(),
                load_ratios={name: lane.load_ratio() for name, lane in lanes.items()},
                reassigned=self._reassigned,
            )
        )

    def _close(self) -> None:
        self._schedule.stop()
        lanes = self._roster.stop()
        deadline = self._clock.monotonic() + STOP_SECONDS
        for lane in lanes:
            lane.join(max(0.0, deadline - self._clock.monotonic()))
        self._outbox.flush(1.0)


def reason_to_end(lanes: Mapping[str, Lane], age: float, others: int = 0) -> str:
    """Why only a new process can go on as it should; empty while this one, `age` seconds old, can.

    `others`: calls that hang and belong to none of these lanes.
    """
    hanging = others + sum(lane.hanging() for lane in lanes.values())
    if hanging >= TOO_MANY_HANGING + TOO_MANY_HANGING_OF_A_LANE * len(lanes):
        return f"{hanging} calls never ended, which is too many"
    if age >= PATIENCE_WITHOUT_SESSIONS:
        for name, lane in lanes.items():
            if lane.out_of_sessions():
                return f"calls that never ended hold all sessions that budgets.sessions allows on {name}"
    return ""


def _obey(connection: Connection, probe: ProbeProcess) -> None:
    try:
        while not isinstance(message := connection.recv(), Stop):
            if isinstance(message, BoostWanted):
                probe.want_boost(message)
            elif isinstance(message, Reassignment):
                probe.reassign(message)
    except (EOFError, OSError):
        # Without its parent nobody reads what this process measures. Its locks go with it.
        os._exit(0)
    probe.stop()


def raise_file_limit() -> None:
    """As many open files as this process may have. A target takes four and more, and the soft limit that most systems set
    (1024) is meant for programs that put descriptors into bit fields, which nothing here does."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main(argv: list[str]) -> None:
    """Entry point of the child; never returns."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise_file_limit()
    connection: Connection = Connection(int(argv[1]))
    try:
        assignment = connection.recv()
    except (EOFError, OSError):
        os._exit(0)
    logs.configure(assignment.settings.log.level, assignment.settings.log.format)
    probe = ProbeProcess(assignment, Outbox(connection))
    threading.Thread(target=_obey, args=(connection, probe), name="inbox", daemon=True).start()
    code = probe.run()
    logging.shutdown()
    # Threads that hang in a driver must not keep the process alive.
    os._exit(code)


if __name__ == "__main__":
    main(sys.argv)
