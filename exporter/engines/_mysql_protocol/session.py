"""An open conversation with a server of the MySQL family.

One connection (`control`) serves everything but the canary queries; each pair has one for those, on which both twins are
measured by turns. Either is replaced without a word when it was lost or cut.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from exporter.config.schema import PairSettings
from exporter.domain.errors import Cancelled, ConnectFailed, DeadlineExceeded, KeystoreFailed, TargetError, Unsupported
from exporter.domain.model import Execution, Operation, PairFacts, Slot, TargetFacts
from exporter.domain.states import Activity, EncryptionState, ScratchLock, StandbyState
from exporter.engines._mysql_protocol import operations
from exporter.engines._mysql_protocol.activity import ActivityReader
from exporter.engines._mysql_protocol.connection import Connection, Connector
from exporter.engines._mysql_protocol.counters import Counters, TwinTable
from exporter.engines._mysql_protocol.deadlines import Deadline
from exporter.engines._mysql_protocol.failures import TableUnreadable
from exporter.engines._mysql_protocol.heartbeat import Heartbeats
from exporter.engines._mysql_protocol.identity import Identity
from exporter.engines._mysql_protocol.key_match import KeyLook
from exporter.engines._mysql_protocol.operations import Choices
from exporter.engines._mysql_protocol.provisioning import TableEncryptionReader, provision
from exporter.engines._mysql_protocol.removal import drop
from exporter.engines._mysql_protocol.settings import MySqlProtocolTarget, TwinPair
from exporter.engines._mysql_protocol.standbys import Standbys
from exporter.engines._mysql_protocol.threads import ServerThread
from exporter.engines._mysql_protocol.twins import Ddl, Twins
from exporter.engines._mysql_protocol.verification import KeystoreFailure, verify_pair
from exporter.engines.base import Prepared, Progress, Provisioned, StatementOutcome
from exporter.engines.host import Host

REDISCOVER_SECONDS = 300.0
REAP_SECONDS = 2.0


class StateReader(Protocol):
    """Reads keystores and the inventory."""

    def read(self, connection: Connection, timeout: float) -> EncryptionState: ...
    def note_unreadable(self, unreadable: bool) -> None: ...


class MakeCounters(Protocol):
    """Makes the counters of one canary connection."""

    def __call__(self, control: Connection, canary: Connection, host: Host, page_bytes: int) -> Counters: ...


@dataclass(frozen=True, slots=True)
class Flavour:
    """What differs between the servers."""

    engine: str
    ddl: Ddl
    counters: MakeCounters
    table_encryption: TableEncryptionReader
    keystore_failure: KeystoreFailure
    keys: KeyLook


@dataclass(frozen=True, slots=True)
class Lasting:
    """What outlives a session: it remembers something that the next one needs."""

    heartbeats: Heartbeats
    activity: ActivityReader
    states: StateReader
    host: Host


@dataclass(frozen=True, slots=True)
class Connections:
    """How to connect: to the target, for a purpose, and to its standbys."""

    to_target: Callable[[str], Connector]
    to_standbys: Sequence[tuple[str, Connector]]


@dataclass(slots=True)
class _Canary:
    """The connection of one pair, its counters, and which of the facts about them were told."""

    connection: Connection
    counters: Counters
    told: tuple[str, str, str | None]
    looked: float
    stale: bool = False


class Session:
    """Satisfies `engines.base.Session`."""

    def __init__(
        self,
        target: MySqlProtocolTarget,
        flavour: Flavour,
        lasting: Lasting,
        connections: Connections,
        control: Connection,
        identity: Identity,
        server: ServerThread | None,
    ) -> None:
        """`server` is the thread that serves `control`, where that is on this machine."""
        self._target, self._flavour, self._lasting, self._connect = target, flavour, lasting, connections.to_target
        self._control, self._identity, self._server = control, identity, server
        self._canaries: dict[str, _Canary] = {}
        self._orphans: list[int] = []
        self._choices: dict[str, Choices] = {}
        self._verified: dict[str, PairFacts] = {}
        self._unreadable: set[str] = set()
        self._rng, self._turn, self._closing = random.Random(), threading.Lock(), threading.Event()
        self._standbys = Standbys(connections.to_standbys, lasting.heartbeats, look=flavour.keys)

    def facts(self) -> TargetFacts:
        known, found = self._identity, next(iter(self._canaries.values()), None)
        return TargetFacts(
            flavor=known.flavor,
            version=known.version,
            role=known.role,
            open_mode=known.open_mode,
            edition=known.edition,
            cpu_source=found.counters.cpu_source if found else "",
            decrypt_unit="block",
            decrypt_source=found.counters.decrypt_source if found else None,
            clock=found.counters.clock if found else "client",
            shared_costs=known.shared_costs,
            scope="tablespace",
            block_bytes=known.page_bytes,
        )

    # -- twins -----------------------------------------------------------------------------------

    def provision(self, pair: PairSettings, progress: Progress, timeout: float) -> Provisioned:
        with self._call(timeout, "provision") as deadline:
            control = self._controlled(deadline)
            return provision(control, self._twins(pair), self._flavour.table_encryption, progress, deadline.left)

    def drop(self, pair: PairSettings, timeout: float) -> tuple[str, ...]:
        with self._call(timeout, "drop") as deadline:
            self._verified.pop(pair.name, None)
            return drop(self._controlled(deadline), self._twins(pair), deadline.left)

    def verify(self, pair: PairSettings, timeout: float) -> PairFacts:
        with self._call(timeout, "verify") as deadline:
            control = self._controlled(deadline)
            facts = verify_pair(
                control,
                self._twins(pair),
                self._flavour.table_encryption,
                deadline.left,
                tried=partial(self._tried, pair.name),
                keystore_failure=self._flavour.keystore_failure,
            )
            self._verified[pair.name] = facts
            return facts

    def _tried(self, pair: str, unreadable: bool) -> None:
        (self._unreadable.add if unreadable else self._unreadable.discard)(pair)
        self._lasting.states.note_unreadable(bool(self._unreadable))

    # -- canaries --------------------------------------------------------------------------------

    def prepare(self, pair: PairSettings, timeout: float) -> Prepared:
        """See `engines.base.Session`. Opens the pair's connection, or makes sure that it still is one; every few minutes
        looks for counters that somebody has switched on or off. When what they tell has changed, the connection is made
        anew, so that nobody mixes the samples before with those after."""
        with self._call(timeout, "prepare") as deadline:
            begun = time.monotonic()
            held = self._canaries.get(pair.name)
            if held is not None and self._is_usable(held, deadline):
                return Prepared()
            self._open_canary(pair, deadline)
            return Prepared(1, time.monotonic() - begun)

    def run(self, pair: PairSettings, slot: Slot, operation: Operation, key: int, timeout: float) -> Execution:
        twins = self._twins(pair)
        sql = operations.statement(operation, twins.table(slot))
        with self._call(timeout, f"{operation} on {pair.name}") as deadline:
            held = self._canaries.get(pair.name)
            if held is None or not held.connection.alive:
                held = self._open_canary(pair, deadline)
            values = self._chosen(twins).values(operation, key)
            twin = self._twin_table(twins, slot)
            held.connection.limit(deadline.step())
            before = held.counters.before(twin, operation, deadline)
            try:
                timed = held.connection.timed(sql, values, timeout=deadline.step())
            except (TableUnreadable, KeystoreFailed) as error:
                raise self._explained(error, twins, slot, deadline) from None
            except DeadlineExceeded:
                if not held.connection.alive:
                    self._orphans.append(held.connection.id)
                raise
            try:
                after = held.counters.after(twin, operation, before, deadline)
            except TargetError:
                held.stale = True
                raise
            return Execution(
                execute_seconds=timed.execute_seconds,
                fetch_seconds=timed.fetch_seconds,
                work=held.counters.work(twin, operation, before, after),
                answer=operations.answer(operation, timed.rows),
            )

    # -- states ----------------------------------------------------------------------------------

    def encryption_state(self, timeout: float) -> EncryptionState:
        with self._call(timeout, "encryption_state") as deadline:
            return self._lasting.states.read(self._controlled(deadline), deadline.left)

    def activity(self, timeout: float) -> Activity:
        with self._call(timeout, "activity") as deadline:
            control = self._controlled(deadline)
            problems = [words for held in self._canaries.values() for words in held.counters.problems]
            unique = tuple(dict.fromkeys(problems))
            return self._lasting.activity.read(control, self._identity, self._server, unique, deadline)

    def heartbeat(self, timeout: float) -> None:
        with self._call(timeout, "heartbeat") as deadline:
            if self._target.standbys:
                self._lasting.heartbeats.beat(self._controlled(deadline), deadline.left)

    def standbys(self, timeout: float) -> tuple[StandbyState, ...]:
        with self._call(timeout, "standbys") as deadline:
            if not self._target.standbys:
                return ()
            return self._standbys.states(self._controlled(deadline), deadline.left)

    def scratch_lock(self) -> ScratchLock | None:
        """Canaries only read here: what is written are heartbeats."""
        return self._lasting.heartbeats.lock(self._control) if self._target.standbys else None

    def selftest(self, progress: Progress, timeout: float) -> tuple[StatementOutcome, ...]:
        raise Unsupported(
            f"the engine {self._flavour.engine} keeps no list of its statements; `verify`, the page and the log name the grants"
            " that are missing"
        )

    def close(self) -> None:
        self._closing.set()
        self._standbys.close()
        for connection in [self._control, *(held.connection for held in list(self._canaries.values()))]:
            connection.close()

    # -- parts -----------------------------------------------------------------------------------

    @contextmanager
    def _call(self, timeout: float, what: str) -> Iterator[Deadline]:
        """One call of the contract: by one thread at a time, with its deadline."""
        if not self._turn.acquire(timeout=timeout):
            raise DeadlineExceeded(f"{what}: another call was still running after {timeout:g} s")
        try:
            self._refuse_when_closed(what)
            deadline = Deadline(timeout, what)
            try:
                yield deadline
            except DeadlineExceeded as error:
                self._refuse_when_closed(what)
                words = str(error)
                raise DeadlineExceeded(words if words.startswith(what) else f"{what}: {words}") from None
            except TargetError:
                self._refuse_when_closed(what)
                raise
        finally:
            self._turn.release()

    def _refuse_when_closed(self, what: str) -> None:
        if self._closing.is_set():
            raise Cancelled(f"{what}: the session is closed")

    def _opened(self, purpose: str, deadline: Deadline) -> Connection:
        connection = self._connect(purpose).connect(deadline.left)
        if self._closing.is_set():
            connection.close()
            raise Cancelled("the session is closed")
        return connection

    def _controlled(self, deadline: Deadline) -> Connection:
        """The connection for everything else; a new one when a deadline has cut it."""
        if not self._control.alive:
            self._control = self._opened("control", deadline)
            for held in self._canaries.values():
                held.counters.control = self._control
        self._reap(deadline)
        return self._control

    def _reap(self, deadline: Deadline) -> None:
        """End the queries of connections that were cut: the server goes on with them to their end."""
        while self._orphans:
            orphan = self._orphans.pop()
            try:
                self._connect("control").reap(orphan, self._control, min(REAP_SECONDS, deadline.left))
            except DeadlineExceeded:
                self._orphans.append(orphan)
                raise

    def _is_usable(self, held: _Canary, deadline: Deadline) -> bool:
        """Whether a pair's connection is there and tells what it told when it was opened."""
        self._controlled(deadline)
        if not held.connection.alive:
            return False
        try:
            held.connection.row("SELECT 1", timeout=deadline.step())
        except ConnectFailed:
            # Somebody ended it while it rested.
            return False
        if held.stale or time.monotonic() - held.looked >= REDISCOVER_SECONDS:
            held.counters.discover(deadline)
            held.looked, held.stale = time.monotonic(), False
            return held.told == _told(held.counters)
        return True

    def _open_canary(self, pair: PairSettings, deadline: Deadline) -> _Canary:
        """A new connection for the canary queries of a pair, and what can be counted around them."""
        if (old := self._canaries.pop(pair.name, None)) is not None:
            old.connection.close()
        control = self._controlled(deadline)
        connection = self._opened("canary", deadline)
        counters = self._flavour.counters(control, connection, self._lasting.host, self._identity.page_bytes)
        try:
            counters.discover(deadline)
        except BaseException:
            connection.close()
            raise
        self._server = self._server or counters.sources.thread
        held = _Canary(connection, counters, _told(counters), time.monotonic())
        self._canaries[pair.name] = held
        return held

    def _twins(self, pair: PairSettings) -> Twins:
        if not isinstance(pair, TwinPair):
            raise TypeError(f"not a pair of twins of this engine: {pair.name}")
        return Twins(self._target.schema_name, pair, self._flavour.ddl)

    def _twin_table(self, twins: Twins, slot: Slot) -> TwinTable:
        facts = self._verified.get(twins.pair.name)
        tablespace = getattr(twins.pair, "tablespace", None) if twins.wants_encryption(slot) else None
        name = twins.name(slot)
        file = f"/{twins.schema}/{name}.ibd"
        return TwinTable(twins.schema, name, file, facts.twin(slot).encrypted if facts else None, tablespace)

    def _chosen(self, twins: Twins) -> Choices:
        """What keys choose. A better knowledge of the pages begins a new round over the table."""
        facts, held = self._verified.get(twins.pair.name), self._choices.get(twins.pair.name)
        per_page = facts.b.rows_per_block if facts else None
        if held is None or held.rows != twins.rows or (held.rows_per_page is None and per_page is not None):
            held = Choices(twins.rows, self._identity.page_bytes, per_page, self._rng)
            self._choices[twins.pair.name] = held
        return held

    def _explained(self, error: TargetError, twins: Twins, slot: Slot, deadline: Deadline) -> TargetError:
        """What the server's error about a twin's key means, as far as there is time to ask."""
        try:
            return self._flavour.keystore_failure(self._control, twins.schema, twins.name(slot), deadline.left)
        except TargetError:
            return error


def _told(counters: Counters) -> tuple[str, str, str | None]:
    return counters.clock, counters.cpu_source, counters.decrypt_source
