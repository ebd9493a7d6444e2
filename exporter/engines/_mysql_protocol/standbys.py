"""The replicas of one target: asking them side by side, and making of their answers what is known of each channel."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from exporter.domain.clock import Clock, SystemClock
from exporter.domain.errors import AuthenticationFailed, ConnectFailed, PermissionMissing, QueryFailed, TargetError
from exporter.domain.states import StandbyState
from exporter.engines._mysql_protocol.channels import Answer, Sources, states_of
from exporter.engines._mysql_protocol.connection import Connection, Connector
from exporter.engines._mysql_protocol.heartbeat import (
    Heartbeats,
    Step,
    lost,
    no_select,
    read_clock,
    read_identity,
    read_row,
    steps,
)
from exporter.engines._mysql_protocol.key_match import KeyLook, KeysSeen, compared
from exporter.engines._mysql_protocol.replica_status import (
    FOLLOWED,
    WORKERS,
    Channel,
    StatusReader,
    not_permitted,
)
from exporter.engines.beats import Primary

PRIMARY_SHARE = 0.5
"""Of the time for a reading, what the primary may take."""
MARGIN = 0.2
"""Seconds before the end of a reading when the standbys' own deadlines end; the watchdog may be late by a part of it."""
FREE_FAILURES = 3
"""Connects that may fail before the next must wait: servers count broken ones and block a host in the end."""
FIRST_PAUSE, LONGEST_PAUSE = 30.0, 120.0


@dataclass(frozen=True, slots=True)
class _Question:
    """What the standbys are asked with: the primary's keys (None: they are not compared)."""

    keys: KeysSeen | None


@dataclass(slots=True)
class _Standby:
    """One standby with its connection. Asked by one thread at a time; `close` by any."""

    name: str
    connector: Connector
    schema: str
    clock: Clock
    look: KeyLook | None
    status: StatusReader = field(default_factory=StatusReader)
    sources: Sources = field(default_factory=Sources)
    connection: Connection | None = None
    closed: bool = False
    failures: int = 0
    not_before: float = 0.0
    thread: threading.Thread | None = None
    answer: Answer = field(default_factory=Answer)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def busy(self) -> bool:
        return self.thread is not None and self.thread.is_alive()

    def start(self, question: _Question, timeout: float) -> None:
        """Ask in a thread of its own; `answer` fills as far as it comes."""
        self.answer = answer = Answer()
        self.thread = threading.Thread(
            target=self._run, args=(question, answer, timeout), name=f"standby-{self.name}", daemon=True
        )
        self.thread.start()

    def close(self) -> None:
        with self.lock:
            self.closed = True
            connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()

    def _run(self, question: _Question, answer: Answer, timeout: float) -> None:
        step = steps(timeout, "asking the standby")
        kept = self.connection is not None
        try:
            self._ask(question, answer, step)
        except ConnectFailed as error:
            # One that rested may have been ended meanwhile, by a restart of the server for example.
            if not kept or answer.reached:
                answer.fault = str(error)
                return
            try:
                self._ask(question, answer, step)
            except TargetError as again:
                answer.fault = str(again)
        except TargetError as error:
            answer.fault = str(error)
        finally:
            answer.done = True

    def _ask(self, question: _Question, answer: Answer, step: Step) -> None:
        """Everything, the most important first. Raises `TargetError` when it cannot be asked any further."""
        connection = self._connected(step)
        try:
            self._ask_row(connection, answer, step)
            self._ask_status(connection, answer, step)
            answer.clock = read_clock(connection, self.clock, step())
            if self.look is not None and question.keys is not None:
                answer.key_match, answer.key_problem = compared(question.keys, self.look(connection, step()))
        finally:
            if not connection.alive:
                with self.lock:
                    self.connection = None

    def _ask_row(self, connection: Connection, answer: Answer, step: Step) -> None:
        at = self.clock.monotonic()
        try:
            answer.row = read_row(connection, self.schema, step())
            answer.row_problem = "" if answer.row else "it has no heartbeat yet"
        except PermissionMissing:
            answer.row_problem = no_select("its heartbeat", self.schema)
        except TargetError as error:
            if lost(error):
                raise
            answer.row_problem = f"its heartbeat cannot be read: {error}"
        answer.reached, answer.row_at = True, at

    def _ask_status(self, connection: Connection, answer: Answer, step: Step) -> None:
        answer.status_at = self.clock.monotonic()
        try:
            channels = self.status.read(lambda sql: connection.named(sql, timeout=step()))
            if any(channel.applier_fault == FOLLOWED for channel in channels):
                channels = _with_first_faults(channels, connection, step)
            answer.channels = channels
        except PermissionMissing:
            answer.status_problem = not_permitted(connection.is_mariadb)
        except TargetError as error:
            if lost(error):
                raise
            answer.status_problem = f"the status of its replication cannot be read: {error}"

    def _connected(self, step: Step) -> Connection:
        with self.lock:
            connection = self.connection
        if connection is not None and connection.alive:
            return connection
        now = time.monotonic()
        if now < self.not_before:
            raise ConnectFailed(f"it could not be reached, and is tried again in {self.not_before - now:.0f} s")
        try:
            connection = self.connector.connect(step())
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


def _with_first_faults(channels: tuple[Channel, ...], connection: Connection, step: Step) -> tuple[Channel, ...]:
    """Where the server names an error that only followed from another one, that one."""
    try:
        first = dict(connection.rows(WORKERS, timeout=step()))
    except (PermissionMissing, QueryFailed):
        return channels
    return tuple(
        replace(channel, applier_fault=first.get(channel.name, FOLLOWED))
        if channel.applier_fault == FOLLOWED
        else channel
        for channel in channels
    )


class Standbys:
    """The standbys of one target, each on a connection of its own that is kept open."""

    def __init__(
        self,
        standbys: Sequence[tuple[str, Connector]],
        heartbeats: Heartbeats,
        clock: Clock | None = None,
        look: KeyLook | None = None,
    ) -> None:
        """Connects to nobody yet. `standbys` are names as configured, `look` tells the keys of a server."""
        clock = clock or SystemClock()
        self._heartbeats, self._clock, self._look = heartbeats, clock, look
        self._standbys = [_Standby(name, each, heartbeats.schema, clock, look) for name, each in standbys]
        self._known: tuple[Connection, tuple[int, str]] | None = None

    def states(self, control: Connection, timeout: float) -> tuple[StandbyState, ...]:
        """One state for each channel of each standby, in the order of the configuration.

        A standby that cannot be asked is one state (for each channel known) in which everything is unknown. Raises a
        `TargetError` only when the session on the primary is lost or does not answer in time.
        """
        deadline = time.monotonic() + timeout
        primary, keys, problem = self._primary(control, steps(timeout * PRIMARY_SHARE, "asking the primary"))
        for standby in self._standbys:
            if not standby.busy:
                standby.start(_Question(keys), max(0.1, deadline - time.monotonic() - MARGIN))
        found: list[StandbyState] = []
        for standby in self._standbys:
            if standby.thread is not None:
                standby.thread.join(max(0.0, deadline - time.monotonic()))
            answer = standby.answer.so_far()
            beats = self._heartbeats
            found += states_of(
                standby.name, answer, standby.sources, primary, problem, beats.memory, beats.position_problem
            )
        return tuple(found)

    def close(self) -> None:
        """End all connections, at once; never raises."""
        for standby in self._standbys:
            standby.close()

    def _primary(self, control: Connection, step: Step) -> tuple[Primary, KeysSeen | None, str]:
        """The primary, its keys, and what of it cannot be known."""
        if self._known is None or self._known[0] is not control:
            self._known = control, read_identity(control, step())
        server, uuid = self._known[1]
        row, problem = None, ""
        try:
            row = read_row(control, self._heartbeats.schema, step())
        except PermissionMissing:
            problem = no_select("the heartbeat of the primary", self._heartbeats.schema)
        except TargetError as error:
            if lost(error):
                raise
            problem = f"the heartbeat of the primary cannot be read: {error}"
        clock = read_clock(control, self._clock, step())
        keys = self._look(control, step()) if self._look else None
        return Primary(server, uuid, row, clock), keys, problem
