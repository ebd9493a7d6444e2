"""The primary's end of one standby: starts its process, ships changes to it, hears how far it is.

Nothing here waits. What the standby does not take is kept, up to a bound; then it is dropped, and the standby
gets all that the primary holds (a seed) once it takes something again.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections import deque
from pathlib import Path

from exporter.engines.sqlite.heartbeat import Primary
from exporter.engines.sqlite.replica import Position
from exporter.engines.sqlite.shipping import CHANGE, HELLO, REPORT, SEED, Change, Frame, Hello, Report, Wire

MOST_KEPT_BYTES = 2**20
SEND_AHEAD_BYTES = 2**16
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
HEALTHY_AFTER = 60.0
CLOSE_SECONDS = 0.15

STARTING = "the applier is starting"


class Link:
    """One standby of a primary. `problem` says in words why it does not apply, empty while all is well.

    `position` is the last one that it is known to have applied, also while it does not run.
    """

    def __init__(self, name: str, path: Path, most_kept: int = MOST_KEPT_BYTES) -> None:
        self.name, self.path = name, path
        self.problem = STARTING
        self.report: Report | None = None
        self.position: Position | None = None
        self._most_kept = most_kept
        self._process: subprocess.Popen[bytes] | None = None
        self._wire: Wire | None = None
        self._kept: deque[Change] = deque()
        self._kept_bytes = 0
        self._next: int | None = None
        self._generation = ""
        self._seeds = 0
        self._needs_seed = False
        self._started = self._not_before = 0.0
        self._pause = FIRST_PAUSE

    @property
    def running(self) -> bool:
        """Whether its process runs and has said something."""
        return self._process is not None and self.report is not None

    @property
    def in_step(self) -> bool:
        """Whether its last report is about the history that the primary writes."""
        report = self.report
        return report is not None and report.generation == self._generation != "" and report.seeds >= self._seeds

    def keep(self, change: Change) -> None:
        """Take a change to be shipped."""
        self._kept.append(change)
        self._kept_bytes += len(change.changeset)
        while self._kept_bytes > self._most_kept:
            self._drop_oldest()

    def tend(self, primary: Primary, *, start: bool) -> None:
        """Hear and ship what can be heard and shipped now; start the process when it is due, if `start` says so.

        Raises what `Primary.content` raises.
        """
        if self._process is None and start and time.monotonic() >= self._not_before:
            self._start(primary)
        wire = self._wire
        if wire is None or self._process is None:
            return
        try:
            for frame in wire.take():
                self._hear(frame, primary)
            self._ship(wire, primary)
            wire.flush()
        except EOFError:
            self._ended()

    def close(self) -> None:
        """End the process: by the end of its socket, or by force; waits a moment."""
        process, wire = self._process, self._wire
        self._process = self._wire = self.report = None
        if wire is not None:
            wire.close()
        if process is not None:
            try:
                process.wait(CLOSE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(CLOSE_SECONDS)

    def _start(self, primary: Primary) -> None:
        key = primary.key
        if key is None:
            return
        self._started = time.monotonic()
        self._not_before = self._started + self._pause
        try:
            self._process, ours = _spawn()
        except OSError as error:
            self.problem = f"the applier cannot be started: {error.strerror}"
            self._pause = min(LONGEST_PAUSE, 2 * self._pause)
            return
        self._wire, self.report, self.problem = Wire(ours), None, STARTING
        self._next, self._needs_seed, self._seeds = None, False, 0
        self._wire.put(HELLO, Hello(str(self.path), primary.ciphers, key.pragma, primary.nonce).encode())

    def _ended(self) -> None:
        process = self._process
        assert process is not None
        self.close()
        code = process.returncode
        how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with code {code}"
        self.problem = f"the applier is not running: it {how}"
        now = time.monotonic()
        if now - self._started > HEALTHY_AFTER:
            self._pause = FIRST_PAUSE
        self._not_before = now + self._pause
        self._pause = min(LONGEST_PAUSE, 2 * self._pause)

    def _hear(self, frame: Frame, primary: Primary) -> None:
        if frame.kind != REPORT:
            return
        report = self.report = Report.decode(frame.body)
        self.problem = report.problem
        if not report.fingerprint or report.seeds < self._seeds:
            # Its file is not open; or a seed is on its way, and it said this before that came.
            return
        if report.lost or report.generation != primary.at.generation or (report.applied or 0) > primary.at.sequence:
            self._needs_seed = True
            return
        self.position = Position(report.generation, report.applied or 0)
        if self._next is None:
            self._next = (report.applied or 0) + 1
        while self._kept and self._kept[0].sequence <= (report.applied or 0):
            self._drop_oldest()

    def _ship(self, wire: Wire, primary: Primary) -> None:
        self._generation = primary.at.generation
        if self.report is None or not self.report.fingerprint:
            return
        oldest = self._kept[0].sequence if self._kept else primary.at.sequence + 1
        if self._next is not None and self._next < oldest:
            self._needs_seed = True
        if self._needs_seed and not wire.pending:
            content = primary.content()
            wire.put(SEED, content.encode())
            self._seeds += 1
            self._needs_seed, self._next = False, content.sequence + 1
        if self._needs_seed or self._next is None:
            return
        for change in self._kept:
            if wire.pending > SEND_AHEAD_BYTES:
                break
            if change.sequence >= self._next:
                wire.put(CHANGE, change.encode())
                self._next = change.sequence + 1

    def _drop_oldest(self) -> None:
        self._kept_bytes -= len(self._kept.popleft().changeset)


def _spawn() -> tuple[subprocess.Popen[bytes], socket.socket]:
    """The standby's process and our end of the socket to it. Raises OSError."""
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            # No shell, fixed arguments, no secret among them. A session of its own keeps a Ctrl-C away from it.
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "exporter.engines.sqlite.applier", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
    except BaseException:
        ours.close()
        raise
    return process, ours
