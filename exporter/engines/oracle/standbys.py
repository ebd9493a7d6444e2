"""The standbys of one target: asked side by side, each on a connection of its own that is kept open."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from exporter.domain.clock import Clock, SystemClock
from exporter.domain.errors import AuthenticationFailed, ConnectFailed, TargetError
from exporter.domain.states import ScratchLock, StandbyState
from exporter.engines.oracle.connection import Connection, Connector
from exporter.engines.oracle.dataguard import Answer, AtPrimary, Destination, ask, ask_primary, state_of
from exporter.engines.oracle.deadlines import Deadline
from exporter.engines.oracle.heartbeat import Heartbeats
from exporter.engines.oracle.key_match import KeysSeen

PRIMARY_SHARE = 0.5
"""Of the time for a reading, what the primary may take."""
MARGIN = 0.2
"""Seconds before the end of a reading when the standbys' own deadlines end."""
KEYS_SECONDS = 60.0
"""How often keys are compared: looking at keystores is not free for a database."""
FREE_FAILURES = 3
"""Connects that may fail before the next must wait."""
FIRST_PAUSE, LONGEST_PAUSE = 30.0, 120.0


@dataclass(slots=True)
class _Standby:
    """One standby with its connection. Asked by one thread at a time; `close` by any."""

    name: str
    connector: Connector
    schema: str
    clock: Clock
    connection: Connection | None = None
    closed: bool = False
    failures: int = 0
    not_before: float = 0.0
    unique_name: str = ""
    keys: KeysSeen | None = None
    thread: threading.Thread | None = None
    answer: Answer = field(default_factory=Answer)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def busy(self) -> bool:
        return self.thread is not None and self.thread.is_alive()

    def start(self, compare_keys: bool, timeout: float) -> None:
        """Ask in a thread of its own; `answer` fills as far as it comes."""
        self.answer = answer = Answer()
        self.thread = threading.Thread(
            target=self._run, args=(answer, timeout, compare_keys), name=f"standby-{self.name}", daemon=True
        )
        self.thread.start()

    def close(self) -> None:
        with self.lock:
            self.closed = True
            connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()

    def _run(self, answer: Answer, timeout: float, compare_keys: bool) -> None:
        deadline = Deadline(timeout, "asking the standby")
        kept = self.connection is not None
        try:
            fault = self._asked(answer, deadline, compare_keys)
            # One that rested may have been ended meanwhile, by a switchover for example.
            if isinstance(fault, ConnectFailed) and kept and not answer.reached:
                fault = self._asked(answer, deadline, compare_keys)
            answer.fault = str(fault or "")
        finally:
            self.unique_name = answer.unique_name or self.unique_name
            answer.done = True

    def _asked(self, answer: Answer, deadline: Deadline, compare_keys: bool) -> TargetError | None:
        """What kept it from being asked to the end, if anything."""
        try:
            self._ask(answer, deadline, compare_keys)
        except TargetError as error:
            return error
        return None

    def _ask(self, answer: Answer, deadline: Deadline, compare_keys: bool) -> None:
        """Raises `TargetError` when it cannot be asked any further."""
        connection = self._connected(deadline)
        try:
            ask(connection, self.schema, answer, self.clock, deadline.left, compare_keys)
            self.keys = answer.keys = answer.keys or self.keys
        finally:
            if not connection.alive:
                with self.lock:
                    self.connection = None

    def _connected(self, deadline: Deadline) -> Connection:
        with self.lock:
            connection = self.connection
        if connection is not None and connection.alive:
            return connection
        now = time.monotonic()
        if now < self.not_before:
            raise ConnectFailed("it could not be reached several times, and is tried again within two minutes")
        try:
            connection = self.connector.connect(deadline.left)
        except AuthenticationFailed:
            raise  # what was refused is not tried again anyway
        except TargetError:
            self.failures += 1
            if self.failures > FREE_FAILURES:
                pause = FIRST_PAUSE * 2.0 ** (self.failures - FREE_FAILURES - 1)
                self.not_before = time.monotonic() + min(LONGEST_PAUSE, pause)
            raise
        self.failures, self.not_before = 0, 0.0
        with self.lock:
            if not self.closed:
                self.connection = connection
                return connection
        connection.close()
        raise ConnectFailed("closed")


class Standbys:
    """The standbys of one target, and the heartbeat that they are measured by. One for each session."""

    def __init__(
        self, standbys: Sequence[tuple[str, Connector]], heartbeats: Heartbeats, clock: Clock | None = None
    ) -> None:
        """Connects to nobody yet. `standbys` are names as configured; `heartbeats` outlive the session."""
        self._clock = clock or SystemClock()
        self._heartbeats = heartbeats
        self._keys: KeysSeen | None = None
        self._keys_at = -KEYS_SECONDS
        self._standbys = [_Standby(name, each, heartbeats.schema, self._clock) for name, each in standbys]

    def beat(self, connection: Connection, timeout: float) -> None:
        """Write a heartbeat; see `Heartbeats.beat`."""
        self._heartbeats.beat(connection, timeout)

    def lock(self, connection: Connection) -> ScratchLock | None:
        """Who writes the heartbeats; see `Heartbeats.lock`."""
        return self._heartbeats.lock(connection)

    def states(self, connection: Connection, timeout: float) -> tuple[StandbyState, ...]:
        """One state for each standby, in the order of the configuration.

        A standby that cannot be asked is a state in which everything is unknown but what the primary knows. Raises a
        `TargetError` only when the session on the primary (`connection`) is lost or does not answer in time.
        """
        deadline = time.monotonic() + timeout
        keys = self._clock.monotonic() - self._keys_at >= KEYS_SECONDS
        primary = ask_primary(connection, self._heartbeats.schema, self._clock, timeout * PRIMARY_SHARE, keys)
        if keys:
            self._keys, self._keys_at = primary.keys, self._clock.monotonic()
        primary = replace(primary, keys=self._keys)
        for standby in self._standbys:
            if not standby.busy:
                standby.start(keys or standby.keys is None, max(0.1, deadline - time.monotonic() - MARGIN))
        found = []
        for standby in self._standbys:
            if standby.thread is not None:
                standby.thread.join(max(0.0, deadline - time.monotonic()))
            answer = standby.answer.so_far()
            destination = self._destination(standby, primary)
            found.append(state_of(standby.name, answer, primary, self._heartbeats.memory, destination))
        return tuple(found)

    def close(self) -> None:
        """End all connections, at once; never raises."""
        for standby in self._standbys:
            standby.close()

    def _destination(self, standby: _Standby, primary: AtPrimary) -> Destination | None:
        """What the primary knows of a standby: by its name, or because there is only the one."""
        if standby.unique_name:
            return primary.destinations.get(standby.unique_name)
        only = list(primary.destinations.values())
        return only[0] if len(only) == 1 == len(self._standbys) else None
