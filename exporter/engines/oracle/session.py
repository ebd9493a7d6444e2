"""An open conversation with an Oracle database.

One connection (`control`) serves everything but the canary queries; each pair has one for those, on which both twins are
measured by turns. Either is replaced without a word when it was lost or cut.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from exporter.config.schema import PairSettings
from exporter.domain.errors import Blocked, Cancelled, ConnectFailed, DeadlineExceeded, TargetError
from exporter.domain.model import Execution, Operation, PairFacts, Slot, TargetFacts, Work
from exporter.domain.states import Activity, EncryptionState, ScratchLock, StandbyState
from exporter.engines.base import Prepared, Progress, Provisioned, StatementOutcome
from exporter.engines.oracle import heartbeat, operations
from exporter.engines.oracle.activity import ActivityReader
from exporter.engines.oracle.connection import Connection, Connector
from exporter.engines.oracle.counters import Counters, in_values
from exporter.engines.oracle.deadlines import Deadline
from exporter.engines.oracle.identity import Identity, Place, identify, place
from exporter.engines.oracle.operations import Choices
from exporter.engines.oracle.provisioning import drop, provision
from exporter.engines.oracle.selftest import SelfTest
from exporter.engines.oracle.settings import Target, TwinPair
from exporter.engines.oracle.statements import define
from exporter.engines.oracle.tables import find_table
from exporter.engines.oracle.twins import Twins
from exporter.engines.oracle.verification import verify_pair

REDISCOVER_SECONDS = 300.0

_LOGIN = (
    "twins in Oracle are made by a login that is named for it: add --user NAME and --password-file FILE of a DBA, or have"
    " what `provision --print` prints run by one"
)

STILL_THERE = define("session.still_there", "SELECT 1 AS alive FROM dual", "connect")
NO_SMART_SCAN = define("session.cell_offload_off", "ALTER SESSION SET CELL_OFFLOAD_PROCESSING = FALSE", "canary", ())
DIRECT_READ = define("session.serial_direct_read", 'ALTER SESSION SET "_serial_direct_read" = ALWAYS', "canary", ())


class StateReader(Protocol):
    """Reads keystores and the inventory."""

    def read(self, connection: Connection, timeout: float) -> EncryptionState: ...


class Standbys(Protocol):
    """Reads the standbys, and writes the heartbeat that they are measured by."""

    def beat(self, connection: Connection, timeout: float) -> None: ...
    def lock(self, connection: Connection) -> ScratchLock | None: ...
    def states(self, connection: Connection, timeout: float) -> tuple[StandbyState, ...]: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Parts:
    """What a session works with. All but the standbys outlive it."""

    connect: Callable[[str], Connector]
    """How to connect for a purpose."""
    states: StateReader
    activity: ActivityReader
    standbys: Standbys


@dataclass(slots=True)
class _Canary:
    """The connection of one pair, its counters, and which of the facts about them were told."""

    connection: Connection
    at: Place
    counters: Counters
    told: tuple[str, str | None, bool]
    looked: float
    stale: bool = False


class Session:
    """Satisfies `engines.base.Session`."""

    def __init__(self, target: Target, parts: Parts, control: Connection, at: Place, identity: Identity) -> None:
        """`at` is where `control` is."""
        self._target, self._parts = target, parts
        self._control, self._at, self._identity = control, at, identity
        self._canaries: dict[str, _Canary] = {}
        self._choices: dict[str, Choices] = {}
        self._verified: dict[str, PairFacts] = {}
        self._rng = random.Random()
        self._turn = threading.Lock()
        self._closing = threading.Event()

    def facts(self) -> TargetFacts:
        known, found = self._identity, next(iter(self._canaries.values()), None)
        by_column = self._only_columns
        source = found.counters.decrypt_source if found else None
        return TargetFacts(
            flavor="oracle",
            version=known.version,
            role=known.role,
            open_mode=known.open_mode,
            edition=known.edition,
            cpu_source=found.counters.cpu_source if found else "",
            decrypt_unit="value" if by_column else "block",
            decrypt_source="proxy" if by_column else source,
            clock="server" if self._target.clock == "server" and found and found.counters.times_runs else "client",
            # Redo of an encrypted tablespace's blocks is encrypted in the log of the whole database.
            shared_costs="",
            scope="column" if by_column else "tablespace",
            block_bytes=known.block_bytes,
        )

    @property
    def _only_columns(self) -> bool:
        pairs = self._target.pairs
        return bool(pairs) and all(pair.encryption == "column" for pair in pairs)

    # -- twins -----------------------------------------------------------------------------------

    def provision(self, pair: PairSettings, progress: Progress, timeout: float) -> Provisioned:
        with self._call(timeout, "provision") as deadline:
            if self._target.reader is None:
                raise Blocked(_LOGIN)
            control, twins = self._controlled(deadline), self._twins(pair)
            reader = self._target.reader if self._target.reader.upper() != self._target.user.upper() else None
            done = provision(control, twins, reader, progress, deadline)
            if not self._target.standbys:
                return done
            space = twins.tablespace(Slot.B)
            made = heartbeat.provision(control, twins.schema, space, reader, deadline)
            return replace(done, made=(*done.made, *made))

    def drop(self, pair: PairSettings, timeout: float) -> tuple[str, ...]:
        with self._call(timeout, "drop") as deadline:
            self._verified.pop(pair.name, None)
            control, twins = self._controlled(deadline), self._twins(pair)
            dropped = drop(control, twins, deadline)
            if self._has_twins(control, deadline):
                return dropped
            return (*dropped, *heartbeat.drop(control, twins.schema, deadline))

    def verify(self, pair: PairSettings, timeout: float) -> PairFacts:
        with self._call(timeout, "verify") as deadline:
            control = self._controlled(deadline)
            self._identity = identify(control, deadline)
            facts = verify_pair(control, self._twins(pair), self._identity, deadline)
            self._verified[pair.name] = facts
            return facts

    # -- canaries --------------------------------------------------------------------------------

    def prepare(self, pair: PairSettings, timeout: float) -> Prepared:
        """See `engines.base.Session`. Opens the pair's connection, or makes sure that it still is one; every few minutes
        looks for grants of counters that were given or taken. When what they tell has changed, the connection is made
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
        statement = operations.statement(operation, twins.table(slot))
        with self._call(timeout, f"{operation} on {pair.name}") as deadline:
            held = self._canaries.get(pair.name)
            if held is None or not held.connection.alive:
                held = self._open_canary(pair, deadline)
            choices = self._chosen(twins)
            values = choices.values(operation, key)
            self._attend(held, deadline)
            before = held.counters.read(deadline)
            timed = held.connection.timed(statement, values, timeout=deadline.step())
            try:
                work = held.counters.work(before, held.counters.read(deadline))
            except TargetError:
                held.stale = True
                raise
            return Execution(
                execute_seconds=timed.execute_seconds,
                fetch_seconds=timed.fetch_seconds,
                work=self._in_unit(twins, slot, work, choices.read_values(operation)),
                answer=operations.answer(operation, timed.rows),
            )

    def _in_unit(self, twins: Twins, slot: Slot, work: Work, values: int) -> Work:
        if not twins.by_column:
            return work
        facts = self._verified.get(twins.pair.name)
        # Where other pairs count blocks, there is no way to tell values.
        encrypted = facts.twin(slot).encrypted if facts is not None and self._only_columns else None
        return in_values(work, values, encrypted)

    # -- states ----------------------------------------------------------------------------------

    def encryption_state(self, timeout: float) -> EncryptionState:
        with self._call(timeout, "encryption_state") as deadline:
            return self._parts.states.read(self._controlled(deadline), deadline.left)

    def activity(self, timeout: float) -> Activity:
        with self._call(timeout, "activity") as deadline:
            control = self._controlled(deadline)
            self._identity = identify(control, deadline)
            problems = [words for held in self._canaries.values() for words in held.counters.problems]
            if self._identity.needed:
                problems.append(f"role or version are known in part; GRANT {', '.join(self._identity.needed)}")
            if control.warning:
                problems.append(control.warning)
            return self._parts.activity.read(control, tuple(dict.fromkeys(problems)), deadline)

    def heartbeat(self, timeout: float) -> None:
        with self._call(timeout, "heartbeat") as deadline:
            if self._target.standbys:
                self._parts.standbys.beat(self._controlled(deadline), deadline.left)

    def standbys(self, timeout: float) -> tuple[StandbyState, ...]:
        with self._call(timeout, "standbys") as deadline:
            if not self._target.standbys:
                return ()
            return self._parts.standbys.states(self._controlled(deadline), deadline.left)

    def scratch_lock(self) -> ScratchLock | None:
        """Canaries only read here, so it is the heartbeat's row that one exporter has: whose numbers stand in it."""
        return self._parts.standbys.lock(self._control) if self._target.standbys else None

    def selftest(self, progress: Progress, timeout: float) -> tuple[StatementOutcome, ...]:
        with self._call(timeout, "selftest") as deadline:
            self._identity = identify(self._controlled(deadline), deadline)
            run = SelfTest(self._target, self._identity, self._parts.connect("selftest").connect)
            return run.run(progress, deadline)

    def close(self) -> None:
        self._closing.set()
        self._parts.standbys.close()
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
            except TargetError:
                self._refuse_when_closed(what)
                raise
        finally:
            self._turn.release()

    def _refuse_when_closed(self, what: str) -> None:
        if self._closing.is_set():
            raise Cancelled(f"{what}: the session is closed")

    def _opened(self, purpose: str, deadline: Deadline) -> tuple[Connection, Place]:
        connection = self._parts.connect(purpose).connect(deadline.left)
        try:
            if self._closing.is_set():
                raise Cancelled("the session is closed")
            return connection, place(connection, deadline)
        except BaseException:
            connection.close()
            raise

    def _controlled(self, deadline: Deadline) -> Connection:
        """The connection for everything else; a new one when a deadline has cut it."""
        if not self._control.alive:
            self._control, self._at = self._opened("control", deadline)
        return self._control

    def _attend(self, held: _Canary, deadline: Deadline) -> None:
        """Let the counters be read by the control connection that there is now."""
        held.counters.control, held.counters.control_at = self._controlled(deadline), self._at

    def _is_usable(self, held: _Canary, deadline: Deadline) -> bool:
        """Whether a pair's connection is there and tells what it told when it was opened."""
        self._attend(held, deadline)
        if not held.connection.alive:
            return False
        try:
            held.connection.row(STILL_THERE, timeout=deadline.step())
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
        connection, at = self._opened("canary", deadline)
        counters = Counters(control, self._at, connection, at)
        try:
            self._set_up(connection, deadline)
            counters.discover(deadline)
        except BaseException:
            connection.close()
            raise
        held = _Canary(connection, at, counters, _told(counters), time.monotonic())
        self._canaries[pair.name] = held
        return held

    def _set_up(self, connection: Connection, deadline: Deadline) -> None:
        """Settings of a canary's session: what decides where its scans are read and decrypted."""
        if not self._target.smart_scan:
            connection.execute(NO_SMART_SCAN, timeout=deadline.step())
        if self._target.serial_direct_read:
            connection.execute(DIRECT_READ, timeout=deadline.step())

    def _twins(self, pair: PairSettings) -> Twins:
        if not isinstance(pair, TwinPair):
            raise TypeError(f"not a pair of twins of this engine: {pair.name}")
        return Twins(self._target.schema_name, pair)

    def _has_twins(self, control: Connection, deadline: Deadline) -> bool:
        """Whether any twin of the target is there, which the heartbeat lies beside."""
        twins = [Twins(self._target.schema_name, pair) for pair in self._target.pairs]
        return any(find_table(control, each.schema, each.name(slot), deadline) for each in twins for slot in Slot)

    def _chosen(self, twins: Twins) -> Choices:
        """What keys choose. A better knowledge of the blocks begins a new round over the table."""
        facts, held = self._verified.get(twins.pair.name), self._choices.get(twins.pair.name)
        per_block = facts.b.rows_per_block if facts else None
        if held is None or held.rows != twins.rows or (held.rows_per_block is None and per_block is not None):
            held = Choices(twins.rows, self._identity.block_bytes, per_block, self._rng)
            self._choices[twins.pair.name] = held
        return held


def _told(counters: Counters) -> tuple[str, str | None, bool]:
    return counters.cpu_source, counters.decrypt_source, counters.times_runs
