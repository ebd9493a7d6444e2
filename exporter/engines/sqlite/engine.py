"""The embedded engine: two SQLite files with page encryption in one of them, and no server at all."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Self

import apsw

from exporter.config.schema import PairSettings, TargetSettings
from exporter.domain.errors import Cancelled, ConnectFailed, DeadlineExceeded, TargetError, Unavailable, Unsupported
from exporter.domain.model import Execution, Operation, PairFacts, Phase, Slot, TargetFacts
from exporter.domain.states import Activity, EncryptionState, Keystore, KeystoreState, ScratchLock, StandbyState
from exporter.engines.base import Prepared, Progress, Provisioned, StatementOutcome
from exporter.engines.deadline import Guard
from exporter.engines.sqlite.failures import translated
from exporter.engines.sqlite.files import ENGINE_VERSION, Connections, Identity, identity
from exporter.engines.sqlite.key import KeyFile
from exporter.engines.sqlite.lock import LockFile
from exporter.engines.sqlite.memory import keep_freed_memory
from exporter.engines.sqlite.operations import OPERATIONS, WRITING
from exporter.engines.sqlite.phonebook import PAGE_SIZE
from exporter.engines.sqlite.provisioning import Builder, Twins, drop, leftovers, slots_to_build, slots_to_extend
from exporter.engines.sqlite.settings import Pair, Target
from exporter.engines.sqlite.standby import Standbys
from exporter.engines.sqlite.twin import OpenTwin, open_twin
from exporter.engines.sqlite.verification import verify_pair

_LOCK_PATIENCE_SECONDS = 2.0
"""Long enough for a predecessor that is just shutting down."""
_LOCK_PATIENCE_OF_A_RUN_SECONDS = 0.2
_CLOSE_SECONDS = 0.8

_TwinKey = tuple[str, Slot]


class Session:
    """Satisfies `engines.base.Session`. `close` may also be called from another thread."""

    def __init__(self, target: Target, directory: Path, key_file: Path) -> None:
        self._target, self._directory = target, directory
        self._keys = KeyFile(key_file)
        self._connections = Connections(self._keys, target.cipher)
        self._guard = Guard(self._connections.interrupt)
        self._turn = threading.Lock()
        self._closing = threading.Event()
        self._lock = LockFile(directory / "lock", self._closing)
        self._twins: dict[_TwinKey, OpenTwin | TargetError] = {}
        self._verified: dict[_TwinKey, Identity | None] = {}
        self._standbys = Standbys(directory, target.standbys, self._connections, self._keys, target.cipher)

    def facts(self) -> TargetFacts:
        return TargetFacts(
            flavor="sqlite3mc",
            version=ENGINE_VERSION,
            role="standalone",
            open_mode="read_write",
            cpu_source="thread",
            decrypt_unit="block",
            decrypt_source="counter",
            block_bytes=PAGE_SIZE,
        )

    def provision(self, pair: PairSettings, progress: Progress, timeout: float) -> Provisioned:
        """See `engines.base.Session`. Takes the scratch lock only if there is something to build or to clear away."""
        with self._call(timeout, "provision"):
            twins = self._twins_of(pair)
            self._let_go_of_stale()
            build = slots_to_build(twins, self._connections)
            if not build and not slots_to_extend(twins, self._connections) and not leftovers(twins, self._keys):
                return Provisioned()
            self._make_directory()
            self._lock.acquire(min(_LOCK_PATIENCE_SECONDS, self._guard.remaining))
            # Whoever held the lock until now may have built them.
            build = slots_to_build(twins, self._connections)
            extend = [slot for slot in slots_to_extend(twins, self._connections) if slot not in build]
            for slot in (*build, *extend):
                self._let_go_of((pair.name, slot))
            builder = Builder(twins, self._connections, self._keys, self._guard, self._closing)
            builder.extend(extend)
            builder.build(build, progress)
            return Provisioned(tuple(str(twins.path(slot)) for slot in (*build, *extend)))

    def drop(self, pair: PairSettings, timeout: float) -> tuple[str, ...]:
        with self._call(timeout, "drop"):
            twins = self._twins_of(pair)
            self._let_go_of_stale()
            if not any(twins.path(slot).exists() for slot in Slot):
                return ()
            self._lock.acquire(min(_LOCK_PATIENCE_SECONDS, self._guard.remaining))
            for slot in Slot:
                self._let_go_of((pair.name, slot))
            return drop(twins, self._connections)

    def verify(self, pair: PairSettings, timeout: float) -> PairFacts:
        """See `engines.base.Session`. Reads 2 MiB of raw bytes and the table of each twin, 0.1 s for 200 000 rows."""
        with self._call(timeout, "verify"):
            twins = self._twins_of(pair)
            self._let_go_of_stale()
            for slot in Slot:
                self._verified[pair.name, slot] = _seen(twins.path(slot))
            return verify_pair(twins, self._connections)

    def prepare(self, pair: PairSettings, timeout: float) -> Prepared:
        with self._call(timeout, "prepare"):
            twins = self._twins_of(pair)
            started = time.monotonic()
            changed = self._let_go_of_stale()
            connects = sum(self._open(twins, slot) for slot in Slot)
            for slot in Slot:
                held = self._twins[pair.name, slot]
                now = held.identity if isinstance(held, OpenTwin) else _seen(twins.path(slot))
                changed |= {(pair.name, slot)} if self._verified.get((pair.name, slot), now) != now else set()
            seconds = time.monotonic() - started if connects else 0.0
            return Prepared(connects, seconds, any(name == pair.name for name, _ in changed))

    def run(self, pair: PairSettings, slot: Slot, operation: Operation, key: int, timeout: float) -> Execution:
        execute = OPERATIONS.get(operation)
        if execute is None:
            raise Unsupported(f"the embedded engine has no operation {operation!s}")
        with self._call(timeout, f"{operation} on {pair.name}"):
            twins = self._twins_of(pair)
            if (pair.name, slot) not in self._twins:
                self._open(twins, slot)
            twin = self._twins[pair.name, slot]
            if isinstance(twin, TargetError):
                raise twin
            if operation in WRITING:
                self._lock.acquire(min(_LOCK_PATIENCE_OF_A_RUN_SECONDS, self._guard.remaining))
                if identity(twin.path) != twin.identity:
                    # A write-ahead log goes by the name of its file: ours would be applied to the new file.
                    raise Unavailable(f"{twin.path} is not the file that was opened: it was exchanged or removed")
            return execute(twin, twins.pair.rows, key)

    def encryption_state(self, timeout: float) -> EncryptionState:
        with self._call(timeout, "encryption_state"):
            counts = {"encrypted": 0, "plain": 0}
            keystore = self._keys.state()
            for pair in self._target.pairs:
                for slot in Slot:
                    path = self._twins_of(pair).path(slot)
                    found = _seen(path)
                    if found is None:
                        continue
                    counts["plain" if found.plain else "encrypted"] += 1
                    if not found.plain:
                        keystore = self._judge(keystore, path)
            return EncryptionState((keystore,), tuple(("database", state, n) for state, n in counts.items()))

    def activity(self, timeout: float) -> Activity:
        """The files have no instance."""
        with self._call(timeout, "activity"):
            return Activity()

    def heartbeat(self, timeout: float) -> None:
        """See `engines.base.Session`. While there is no key and none is due, there is nothing that could be encrypted."""
        with self._call(timeout, "heartbeat"):
            if not self._target.standbys or not (self._keys.exists() or self._key_is_due()):
                return
            self._make_directory()
            self._lock.acquire(min(_LOCK_PATIENCE_OF_A_RUN_SECONDS, self._guard.remaining))
            self._standbys.heartbeat()

    def standbys(self, timeout: float) -> tuple[StandbyState, ...]:
        with self._call(timeout, "standbys"):
            return self._standbys.states()

    def scratch_lock(self) -> ScratchLock | None:
        return self._lock.state()

    def selftest(self, progress: Progress, timeout: float) -> tuple[StatementOutcome, ...]:
        raise Unsupported("the embedded database belongs to the exporter: there are no grants and no releases to try")

    def close(self) -> None:
        self._closing.set()
        give_up = time.monotonic() + _CLOSE_SECONDS
        while not self._turn.acquire(timeout=0.02):
            # A call is running in another thread: stop it. It lets go of everything itself when it ends.
            self._connections.interrupt()
            if time.monotonic() >= give_up:
                return
        try:
            self._let_go()
        finally:
            self._turn.release()

    @contextmanager
    def _call(self, timeout: float, what: str) -> Iterator[None]:
        """One call of the contract: by one thread at a time, with its deadline, and only our own errors."""
        if not self._turn.acquire(timeout=timeout):
            raise DeadlineExceeded(f"{what}: another call was still running after {timeout:g} s")
        try:
            if self._closing.is_set():
                raise Cancelled(f"{what}: the session is closed")
            with translated(what), self._guard.limit(timeout):
                yield
        except apsw.InterruptError:
            if self._closing.is_set():
                raise Cancelled(f"{what}: stopped") from None
            raise DeadlineExceeded(f"{what}: not done after {timeout:g} s, cancelled") from None
        else:
            if self._guard.fired:
                raise DeadlineExceeded(f"{what}: done only after its deadline of {timeout:g} s")
        finally:
            if self._closing.is_set():
                self._let_go()
            self._turn.release()

    def _twins_of(self, pair: PairSettings) -> Twins:
        configured = pair if isinstance(pair, Pair) else Pair(name=pair.name, phase=pair.phase)
        return Twins(self._directory, configured, self._target.cipher)

    def _make_directory(self) -> None:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _key_is_due(self) -> bool:
        return any(pair.phase is Phase.ENABLED for pair in self._target.pairs)

    def _judge(self, keystore: Keystore, path: Path) -> Keystore:
        """A key that does not open what is encrypted is no key."""
        if keystore.state is KeystoreState.OPEN:
            try:
                self._connections.cipher_of(path)
            except TargetError:
                return replace(keystore, state=KeystoreState.NO_KEY, raw="the key does not open the database")
        return keystore

    def _open(self, twins: Twins, slot: Slot) -> int:
        """Open the twin in a slot unless it is open, or note why it cannot be; the number of connections made."""
        key, path = (twins.pair.name, slot), twins.path(slot)
        if isinstance(self._twins.get(key), OpenTwin):
            return 0
        try:
            with translated(str(path)):
                found = identity(path)
                if found is None:
                    raise Unavailable(f"{path} is missing")
                self._twins[key] = open_twin(self._connections, path, found)
        except TargetError as error:
            self._twins[key] = error
            return 0
        return 2

    def _let_go_of_stale(self) -> set[_TwinKey]:
        """Close twins whose file is no longer the one under its name, all of them before any is opened again:
        connections to one file by two names would use two write-ahead logs."""
        stale = {
            key for key, twin in self._twins.items() if isinstance(twin, OpenTwin) and _seen(twin.path) != twin.identity
        }
        for key in stale:
            self._let_go_of(key)
            # Once closed, its inode may be given to the next file of this name: no longer a mark of identity.
            self._verified[key] = None
        return stale

    def _let_go_of(self, key: _TwinKey) -> None:
        twin = self._twins.pop(key, None)
        if isinstance(twin, OpenTwin):
            self._connections.close(twin.warm)
            self._connections.close(twin.cold)

    def _let_go(self) -> None:
        self._twins.clear()
        self._standbys.close()
        self._connections.close_all()
        self._lock.release()


def _seen(path: Path) -> Identity | None:
    """Who the file is now; None also when it cannot be looked at, which verification then puts into words."""
    try:
        return identity(path)
    except (apsw.Error, OSError, Unavailable):
        return None


class Engine:
    """Satisfies `engines.base.Engine`. The target must be `resolved`: its paths are filled in."""

    operations: ClassVar[frozenset[Operation]] = frozenset(OPERATIONS)
    self_provisioning: ClassVar[bool] = True
    sessions_per_pair: ClassVar[int] = 4  # A warm and a cold connection to each twin; `open` makes none.

    def __init__(self, target: TargetSettings) -> None:
        if not isinstance(target, Target):
            raise TypeError(f"not a target of the embedded engine: {target.engine}")
        self._target = target

    def succeed(self, former: Self) -> None:
        # There is no login.
        return

    def script(self) -> Iterator[str]:
        raise Unsupported("the embedded engine needs nobody's SQL: it builds its twins itself")

    def open(self, timeout: float) -> Session:
        """No server is asked and no file opened. Raises `ConnectFailed` when the target has no directory."""
        target = self._target
        if target.directory is None or target.key_file is None:
            raise ConnectFailed(f"target {target.name} has no directory for its twins")
        keep_freed_memory()
        return Session(target, target.directory.absolute(), target.key_file.absolute())
