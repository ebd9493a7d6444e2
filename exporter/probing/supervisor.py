"""The parent's side of the probe processes: start, listen, notice death and silence, start again, stop."""

from __future__ import annotations

import contextlib
import logging
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from multiprocessing.connection import Connection

from exporter.config.schema import Settings, TargetSettings
from exporter.domain.clock import Clock
from exporter.domain.model import Operation
from exporter.probing.messages import Assignment, Beat, BoostWanted, Stop, ToParent

CHECK_SECONDS = 0.5
FROZEN_SECONDS = 1.5
"""A check that comes this much later than the last one shows that this process did not run in between."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
HEALTHY_AFTER = 60.0
ATTENTIVE_SECONDS = 3.0
"""A process that was not heard for longer may not read either, and is told nothing: a pipe that is full would hold up the
supervising loop."""
START_SECONDS = 30.0
"""How long a new process may take to its first sign of life; imports on a busy machine are slow."""

log = logging.getLogger(__name__)

Deliver = Callable[[int, ToParent], None]
UpChanged = Callable[[int, bool], None]


def share(targets: Sequence[TargetSettings], processes: int) -> list[tuple[str, ...]]:
    """Deal the targets out to processes, none of which is empty: to at most that many those that keep no company, and
    to one more for each company."""
    companies: dict[str, list[str]] = {"": []}
    for target in targets:
        companies.setdefault(target.company, []).append(target.name)
    everybody = tuple(companies.pop(""))
    count = min(processes, len(everybody))
    return [*(everybody[number::count] for number in range(count)), *(tuple(names) for names in companies.values())]


class Probe:
    """One probe process and the thread that listens to it."""

    def __init__(self, assignment: Assignment, clock: Clock, deliver: Deliver, up_changed: UpChanged) -> None:
        self.assignment = assignment
        self._clock, self._deliver, self._up_changed = clock, deliver, up_changed
        self.started = self._heard = clock.monotonic()
        self._alive = self._disowned = False
        self._assigned = threading.Event()
        self._boosts: dict[str, frozenset[tuple[str, Operation]]] = {}
        ours, theirs = socket.socketpair()
        with ours, theirs:
            # No shell, fixed arguments, no secret among them: the settings travel through the pipe. A
            # session of its own keeps a Ctrl-C at the terminal from reaching it.
            self._child = subprocess.Popen(
                [sys.executable, "-P", "-m", "exporter.probing.process", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
            self._connection: Connection = Connection(ours.detach())
        self._listener = threading.Thread(target=self._listen, name=f"probe-{assignment.process}", daemon=True)
        try:
            self._listener.start()
        except RuntimeError:
            self._child.kill()
            self._child.wait()
            self._connection.close()
            raise

    @property
    def pid(self) -> int:
        return self._child.pid

    def running(self) -> bool:
        return self._child.poll() is None

    def exit_words(self) -> str:
        code = self._child.returncode
        return f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with code {code}"

    def silence(self) -> float:
        """Seconds since the last message."""
        return self._clock.monotonic() - self._heard

    def patience(self, heartbeat_timeout: float) -> float:
        return heartbeat_timeout if self._alive else max(heartbeat_timeout, START_SECONDS)

    def excuse(self) -> None:
        """Forget the silence until now."""
        self._heard = self._clock.monotonic()

    def want_boost(self, wanted: Iterable[BoostWanted]) -> None:
        """Say what it was not told yet; a new process was told that nothing is wanted, and one that is silent now hears it
        when it speaks again."""
        if not self._alive or self.silence() > ATTENTIVE_SECONDS:
            return
        for message in wanted:
            if self._boosts.get(message.target, frozenset()) != message.keys:
                with contextlib.suppress(OSError):
                    self._connection.send(message)
                self._boosts[message.target] = message.keys

    def ask_to_stop(self) -> None:
        if not self._assigned.is_set():
            # It has nothing to close yet, and our end of the pipe may be busy with its assignment.
            self._child.kill()
            return
        with contextlib.suppress(OSError):
            self._connection.send(Stop())

    def end(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for the end, then kill; never hangs."""
        try:
            self._child.wait(timeout)
        except subprocess.TimeoutExpired:
            self._child.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(1.0)
        self._listener.join(1.0)
        if self._listener.is_alive():
            # It is stuck with a message, and must not speak for the successor of this process later on.
            self._disowned = True
            self._up_changed(self.assignment.process, False)
        with contextlib.suppress(OSError):
            self._connection.close()

    def _listen(self) -> None:
        try:
            # Here, and not where the process was started: a child that hangs does not read, and a long
            # list of targets does not fit into the pipe.
            self._connection.send(self.assignment)
            self._assigned.set()
            while not self._disowned:
                message = self._connection.recv()
                self._heard = self._clock.monotonic()
                if not self._alive and isinstance(message, Beat):
                    self._alive = True
                    self._up_changed(self.assignment.process, True)
                self._hand_on(message)
        except (EOFError, OSError):
            pass
        except Exception:
            # A boundary: a message that cannot be read means that the process is not to be trusted.
            log.exception("a probe process sent something unreadable", extra={"probe": self.assignment.process})
            self._child.kill()
        if not self._disowned:
            self._up_changed(self.assignment.process, False)

    def _hand_on(self, message: ToParent) -> None:
        try:
            self._deliver(self.assignment.process, message)
        except Exception:
            # A boundary: a defect on our side of the pipe is no reason to stop listening.
            log.exception("a message could not be used", extra={"message_type": type(message).__name__})


class Supervisor:
    """Keeps one probe process per share of the targets alive."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        deliver: Deliver,
        up_changed: UpChanged,
        wants_snapshot: Callable[[str], bool],
    ) -> None:
        self._settings, self._clock = settings, clock
        self._deliver, self._up_changed, self._wants_snapshot = deliver, up_changed, wants_snapshot
        self.shares = share(settings.targets, settings.probes.processes)
        self._probes: dict[int, Probe] = {}
        self._boosts: dict[str, BoostWanted] = {}
        self._pauses: dict[int, float] = {}
        self._not_before: dict[int, float] = {}
        self._stopping = threading.Event()
        self._ticked = clock.monotonic()
        self._thread = threading.Thread(target=self._watch, name="supervisor", daemon=True)

    def start(self) -> None:
        for process in range(len(self.shares)):
            self._start(process)
        self._thread.start()

    def pids(self) -> dict[int, int]:
        return {process: probe.pid for process, probe in self._probes.items()}

    def loop_age(self) -> float:
        """Seconds since the supervising loop last went round; large when it hangs."""
        return self._clock.monotonic() - self._ticked

    def want_boost(self, target: str, keys: frozenset[tuple[str, Operation]]) -> None:
        """More samples of these (pair, operation) of a target are wanted, and of no others. The process that has it is told
        within a second, and so is every successor of that process. Never blocks."""
        self._boosts[target] = BoostWanted(target, keys)

    def stop(self, timeout: float) -> None:
        """End all processes within `timeout` seconds, by force if they do not listen; there may be none yet."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(1.0)
        probes = list(self._probes.values())
        for probe in probes:
            probe.ask_to_stop()
        deadline = self._clock.monotonic() + timeout
        for probe in probes:
            probe.end(max(0.0, deadline - self._clock.monotonic()))

    def _watch(self) -> None:
        slept = self._clock.monotonic()
        while not self._stopping.wait(CHECK_SECONDS):
            self._ticked = self._clock.monotonic()
            if self._ticked - slept > FROZEN_SECONDS:
                # We were stopped ourselves (a signal, a frozen container) and heard nobody meanwhile.
                for probe in self._probes.values():
                    probe.excuse()
            for process in range(len(self.shares)):
                self._check(process)
                self._pass_on_boosts(process)
            slept = self._clock.monotonic()

    def _check(self, process: int) -> None:
        now = self._clock.monotonic()
        probe = self._probes.get(process)
        if probe is None:
            if now >= self._not_before.get(process, 0.0):
                self._start(process)
            return
        if not probe.running():
            words = probe.exit_words()
        elif probe.silence() > probe.patience(self._settings.probes.heartbeat_timeout):
            words = f"was silent for {probe.silence():.0f} s and is killed"
        else:
            return
        del self._probes[process]
        probe.end(0.0)
        if now - probe.started > HEALTHY_AFTER:
            self._pauses.pop(process, None)
        pause = self._next_pause(process, now)
        log.warning(f"a probe process {words}; it is started again", extra={"probe": process, "pause_seconds": pause})

    def _pass_on_boosts(self, process: int) -> None:
        if (probe := self._probes.get(process)) is not None:
            probe.want_boost([self._boosts[name] for name in self.shares[process] if name in self._boosts])

    def _next_pause(self, process: int, now: float) -> float:
        pause = self._pauses.get(process, FIRST_PAUSE)
        self._pauses[process] = min(LONGEST_PAUSE, 2 * pause)
        self._not_before[process] = now + pause
        return pause

    def _start(self, process: int) -> None:
        targets = self.shares[process]
        assignment = Assignment(
            process=process,
            settings=self._settings,
            targets=targets,
            snapshots=frozenset(name for name in targets if self._wants_snapshot(name)),
        )
        try:
            self._probes[process] = Probe(assignment, self._clock, self._deliver, self._up_changed)
        except (OSError, RuntimeError) as error:
            # No file descriptors, processes or threads left: that may pass.
            pause = self._next_pause(process, self._clock.monotonic())
            fields = {"probe": process, "pause_seconds": pause, "error": str(error)}
            log.error("a probe process cannot be started; it is tried again", extra=fields)
