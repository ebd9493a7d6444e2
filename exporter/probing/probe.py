"""One probe process as its parent sees it: started, told, listened to, ended."""

from __future__ import annotations

import contextlib
import logging
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterable
from multiprocessing.connection import Connection

from exporter.domain.clock import Clock
from exporter.domain.model import Operation
from exporter.probing.messages import (
    Assignment,
    Beat,
    BoostWanted,
    Reassignment,
    Stop,
    ToChild,
    ToParent,
    target_of,
)

START_SECONDS = 30.0
"""How long a new process may take to its first sign of life; imports on a busy machine are slow."""
HUSH_SECONDS = 2.0
"""How long a message that is being used may hold up a reassignment."""

Deliver = Callable[[int, ToParent], None]
UpChanged = Callable[[int, bool], None]

log = logging.getLogger(__name__)


class Probe:
    """One probe process, the thread that listens to it, and the one that talks to it."""

    def __init__(self, assignment: Assignment, clock: Clock, deliver: Deliver, up_changed: UpChanged) -> None:
        self.assignment = assignment
        self._clock, self._deliver, self._up_changed = clock, deliver, up_changed
        self.started = self._heard = clock.monotonic()
        self._alive = self._disowned = False
        self.retired = False
        """It was told to end, and nothing it says about targets is heard any more."""
        self._assigned = threading.Event()
        self._words: queue.SimpleQueue[ToChild | None] = queue.SimpleQueue()
        self._hearing = threading.Lock()
        self._hushed: dict[str, int] = {}
        self.retired_at = 0.0
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
        # A thread of its own: a child that hangs does not read, and a long list of targets does not fit into the pipe.
        self._talker = threading.Thread(target=self._talk, name=f"probe-{assignment.process}-talker", daemon=True)
        try:
            self._talker.start()
            self._listener.start()
        except RuntimeError:
            self._words.put(None)
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
        """Say what it was not told yet; a new process was told that nothing is wanted. Never blocks."""
        if not self._alive:
            return
        for message in wanted:
            if self._boosts.get(message.target, frozenset()) != message.keys:
                self._words.put(message)
                self._boosts[message.target] = message.keys

    def hush(self, targets: Collection[str], number: int) -> None:
        """Hear nothing about these targets until the child has answered the reassignment of that number."""
        heard = self._hearing.acquire(timeout=HUSH_SECONDS)
        self._hushed |= dict.fromkeys(targets, number)
        if heard:
            self._hearing.release()

    def reassign(self, message: Reassignment) -> None:
        """Exchange targets. Never blocks."""
        for name in message.leaving:
            self._boosts.pop(name, None)
        self._words.put(message)

    def retire(self, now: float) -> None:
        """Have it end by itself, for nothing is left to it; `now`: monotonic seconds."""
        self.retired, self.retired_at = True, now
        self.ask_to_stop()

    def ask_to_stop(self) -> None:
        if not self._assigned.is_set():
            # It has nothing to close yet, and our end of the pipe may be busy with its assignment.
            self._child.kill()
            return
        self._words.put(Stop())

    def wait(self, timeout: float) -> None:
        """Wait up to `timeout` seconds until it has ended by itself."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(timeout)

    def kill(self) -> None:
        """Have it end at once; does not wait."""
        self._child.kill()

    def end(self, timeout: float = 1.0) -> None:
        """Kill it, and take down what listens and talks to it; waits up to `timeout` seconds in all, never longer."""
        until = self._clock.monotonic() + timeout

        def left() -> float:
            return max(0.0, until - self._clock.monotonic())

        self.kill()
        self.wait(left())
        self._words.put(None)
        self._listener.join(left())
        if self._listener.is_alive():
            # It is stuck with a message, and must not speak for the successor of this process later on.
            self._disowned = True
            self._up_changed(self.assignment.process, False)
        self._talker.join(left())
        with contextlib.suppress(OSError):
            self._connection.close()

    def _talk(self) -> None:
        try:
            self._connection.send(self.assignment)
            self._assigned.set()
            while (message := self._words.get()) is not None:
                self._connection.send(message)
        except OSError:
            # It has ended, as the listener notices.
            return

    def _listen(self) -> None:
        try:
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
        with self._hearing:
            if isinstance(message, Beat):
                self._hushed = {name: number for name, number in self._hushed.items() if number > message.reassigned}
            elif self.retired or target_of(message) in self._hushed:
                return
            try:
                self._deliver(self.assignment.process, message)
            except Exception:
                # A boundary: a defect on our side of the pipe is no reason to stop listening.
                log.exception("a message could not be used", extra={"message_type": type(message).__name__})
