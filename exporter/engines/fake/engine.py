"""The scripted engine: no database, but every rule of the contract, and whatever goes wrong on demand."""

from __future__ import annotations

import hashlib
import math
import random
import threading
import time
import weakref
import zlib
from collections import Counter
from collections.abc import Iterator
from typing import ClassVar, Self

from exporter.config.schema import PairSettings, TargetSettings
from exporter.domain.errors import Cancelled, DeadlineExceeded, Reason, TargetError, Unavailable, Unsupported
from exporter.domain.model import Execution, Operation, PairFacts, Slot, TargetFacts, TwinFacts, Work
from exporter.domain.states import Activity, EncryptionState, Keystore, LagKind, ScratchLock, StandbyState
from exporter.engines.base import Prepared, Progress, Provisioned, StatementOutcome, Verdict
from exporter.engines.fake.settings import Fault, Side, Standby, Target

ROWS = 1000
"""Rows of the pretended tables."""
BLOCK_BYTES = 8192
"""Size of the pretended blocks."""
_EXECUTE_SHARE = 0.75  # of a latency; the rest is fetching, or the commit of a writing operation

_COMMITTING = frozenset({Operation.INSERT_BATCH, Operation.UPDATE_BATCH, Operation.DELETE_REPLENISH})
_WRITING = _COMMITTING | {Operation.CHECKPOINT}
_SCANS = frozenset({Operation.FULL_SCAN, Operation.FULL_SCAN_COLD})

_ERRORS: dict[Reason, type[TargetError]] = {kind.reason: kind for kind in TargetError.__subclasses__()}
_never = threading.Event()


class _Life:
    """What a scripted target remembers as long as its settings exist: its random sequences and its calls.

    Whoever makes an engine anew for the same target goes on where the script was.
    """

    def __init__(self, seed: int) -> None:
        self.latencies = {slot: random.Random(f"{seed}:{slot}") for slot in Slot}
        self._calls: Counter[int] = Counter()

    def due(self, faults: tuple[Fault, ...], call: str, slot: Slot | None) -> Fault | None:
        """Counts a call and finds the first fault that it meets."""
        met = None
        for number, fault in enumerate(faults):
            if fault.call != call or (fault.slot is not None and fault.slot is not slot):
                continue
            self._calls[number] += 1
            met = fault if met is None and _goes_wrong(fault, self._calls[number]) else met
        return met


def _goes_wrong(fault: Fault, number: int) -> bool:
    """Whether a fault befalls the call of that number."""
    due = fault.first <= number <= (fault.last or math.inf)
    return due and (number - fault.first) % fault.every == 0


_lives: dict[int, _Life] = {}
_lives_lock = threading.Lock()


def _life_of(target: Target) -> _Life:
    with _lives_lock:
        if id(target) not in _lives:
            _lives[id(target)] = _Life(target.seed)
            weakref.finalize(target, _lives.pop, id(target), None)
        return _lives[id(target)]


class Session:
    """Satisfies `engines.base.Session`. `close` may be called from another thread and ends hangs, but no wedge."""

    def __init__(self, target: Target, life: _Life) -> None:
        self._target, self._life = target, life
        self._closed = threading.Event()
        self._prepared: set[str] = set()
        self._dropped: set[str] = set()

    def facts(self) -> TargetFacts:
        countable = self._target.a.decrypts is not None or self._target.b.decrypts is not None
        return TargetFacts(
            flavor="fake",
            version="1",
            role="primary",
            open_mode="read_write",
            cpu_source="script",
            decrypt_unit="block" if countable else None,
            decrypt_source="counter" if countable else None,
            clock=self._target.clock,
            block_bytes=BLOCK_BYTES if countable else None,
        )

    def provision(self, pair: PairSettings, progress: Progress, timeout: float) -> Provisioned:
        self._meet_faults("provision", timeout)
        progress(f"twins of {pair.name} are complete", 1.0)
        made = {_name(pair, slot) for slot in Slot} & self._dropped
        self._dropped -= made
        return Provisioned(tuple(sorted(made)), ("CREATE on the script",) if made else ())

    def drop(self, pair: PairSettings, timeout: float) -> tuple[str, ...]:
        self._meet_faults("drop", timeout)
        names = {_name(pair, slot) for slot in Slot} - self._dropped
        self._dropped |= names
        return tuple(sorted(names))

    def verify(self, pair: PairSettings, timeout: float) -> PairFacts:
        self._meet_faults("verify", timeout)
        a, b = (self._twin(pair, slot) for slot in Slot)
        parts = repr((pair.phase.value, a, b, self._target.seed))
        return PairFacts(pair.name, pair.phase, a, b, epoch=hashlib.sha256(parts.encode()).hexdigest()[:12])

    def prepare(self, pair: PairSettings, timeout: float) -> Prepared:
        self._meet_faults("prepare", timeout)
        if pair.name in self._prepared:
            return Prepared()
        self._prepared.add(pair.name)
        return Prepared(connects=len(Slot))

    def run(self, pair: PairSettings, slot: Slot, operation: Operation, key: int, timeout: float) -> Execution:
        if operation not in Engine.operations:
            raise Unsupported(f"the scripted engine has no operation {operation!s}")
        self._meet_faults("run", timeout, slot)
        if _name(pair, slot) in self._dropped:
            raise Unavailable(f"{_name(pair, slot)} is missing")
        side = self._side(slot)
        latency = side.latency * math.exp(self._life.latencies[slot].gauss(0.0, side.spread))
        duration = self._take(latency, timeout)
        first, rest = duration * _EXECUTE_SHARE, duration * (1 - _EXECUTE_SHARE)
        commits = operation in _COMMITTING
        return Execution(
            execute_seconds=first,
            fetch_seconds=0.0 if commits else rest,
            commit_seconds=rest if commits else 0.0,
            work=self._work(side, latency, operation in _WRITING),
            answer=(1, self._checksum(side, operation, key)),
        )

    def encryption_state(self, timeout: float) -> EncryptionState:
        self._meet_faults("encryption_state", timeout)
        words = {True: "encrypted", False: "plain", None: "unknown"}
        counts = Counter({"encrypted": 0, "plain": 0})
        for side in (self._target.a, self._target.b):
            counts[words[side.encrypted]] += len(self._target.pairs)
        state = self._target.keystore
        keystore = Keystore("script", state, kind="file", raw=state.value, seen_from="server")
        return EncryptionState((keystore,), tuple(("database", word, count) for word, count in counts.items()))

    def activity(self, timeout: float) -> Activity:
        self._meet_faults("activity", timeout)
        return Activity(**self._target.activity.model_dump())

    def heartbeat(self, timeout: float) -> None:
        self._meet_faults("heartbeat", timeout)

    def standbys(self, timeout: float) -> tuple[StandbyState, ...]:
        self._meet_faults("standbys", timeout)
        return tuple(_state(standby) for standby in self._target.standbys)

    def scratch_lock(self) -> ScratchLock | None:
        held = self._target.scratch_lock_held
        return None if held is None else ScratchLock(held, self._target.scratch_lock_holder)

    def selftest(self, progress: Progress, timeout: float) -> tuple[StatementOutcome, ...]:
        self._meet_faults("selftest", timeout)
        outcomes = []
        for number, slot in enumerate(Slot):
            progress(f"reading slot {slot}", number / len(Slot))
            grants = (f"READ ON SCRIPT.{slot.upper()}",)
            if self._side(slot).encrypted is None:
                missing = Verdict.MISSING_GRANT
                outcomes.append(StatementOutcome(f"script.read_{slot}", "canary", grants, missing, "FAKE-00942"))
            else:
                outcomes.append(StatementOutcome(f"script.read_{slot}", "canary", grants, Verdict.OK, "", 0.001, ROWS))
        return tuple(outcomes)

    def close(self) -> None:
        self._closed.set()

    def _side(self, slot: Slot) -> Side:
        return self._target.a if slot is Slot.A else self._target.b

    def _twin(self, pair: PairSettings, slot: Slot) -> TwinFacts:
        side, name = self._side(slot), _name(pair, slot)
        if name in self._dropped:
            return TwinFacts(slot, None, problem=f"{name} is missing", name=name)
        algorithm = "scripted" if side.encrypted else ""
        return TwinFacts(slot, side.encrypted, algorithm, ROWS, rows_per_block=100.0, digest=side.digest, name=name)

    def _work(self, side: Side, latency: float, writes: bool) -> Work:
        """Both sides read as many blocks as the one that decrypts them."""
        known = [one.decrypts for one in (self._target.a, self._target.b) if one.decrypts is not None]
        return Work(
            cpu_seconds=None if side.cpu_share is None else side.cpu_share * latency,
            server_seconds=None if side.server_share is None else side.server_share * latency,
            blocks_read=max(known) if known else None,
            decrypts=side.decrypts,
            encrypts=side.decrypts if writes else 0,
        )

    def _checksum(self, side: Side, operation: Operation, key: int) -> int:
        """Like a database's: a scan depends only on the data, a batch on what is written, all others on a row."""
        part = 0 if operation in _SCANS else key if operation in _WRITING else key % ROWS
        return zlib.crc32(repr((side.digest, operation.value, part)).encode())

    def _take(self, latency: float, timeout: float) -> float:
        """Spend the time of a query if it is real; its duration in seconds."""
        if self._target.real_time:
            begun = time.perf_counter()
            if self._closed.wait(min(latency, timeout)):
                raise Cancelled("the session was closed")
            if latency <= timeout:
                return time.perf_counter() - begun
        if latency > timeout:
            raise DeadlineExceeded(f"scripted query not done after {timeout:g} s")
        return latency

    def _meet_faults(self, call: str, timeout: float, slot: Slot | None = None) -> None:
        if self._closed.is_set():
            raise Cancelled("the session is closed")
        _suffer(self._life.due(self._target.faults, call, slot), call, timeout, self._closed)


def _name(pair: PairSettings, slot: Slot) -> str:
    """What a pretended twin is called."""
    return f"{pair.name}.{slot}"


def _state(standby: Standby) -> StandbyState:
    lags = {
        LagKind.TRANSPORT: standby.transport_lag,
        LagKind.APPLY: standby.apply_lag,
        LagKind.HEARTBEAT: standby.heartbeat_lag,
    }
    said = standby.model_dump(exclude={"name", "transport_lag", "apply_lag", "heartbeat_lag"})
    return StandbyState(standby.name, lags=tuple(lags.items()), **said)


def _suffer(fault: Fault | None, call: str, timeout: float, closed: threading.Event) -> None:
    """Do what a fault says, if there is one."""
    if fault is None:
        return
    if fault.kind == "wedge":
        while True:
            _never.wait()
    if fault.kind == "defect":
        raise ZeroDivisionError(f"scripted defect of {call}")
    if fault.kind == "hang":
        if closed.wait(timeout):
            raise Cancelled(f"scripted hang of {call} ended by closing")
        raise DeadlineExceeded(f"scripted hang of {call}: not done after {timeout:g} s")
    raise _ERRORS[fault.reason](f"scripted error of {call}")


class Engine:
    """Satisfies `engines.base.Engine`."""

    operations: ClassVar[frozenset[Operation]] = frozenset(Operation)
    self_provisioning: ClassVar[bool] = True
    sessions_per_pair: ClassVar[int] = len(Slot)

    def __init__(self, target: TargetSettings) -> None:
        if not isinstance(target, Target):
            raise TypeError(f"not a target of the scripted engine: {target.engine}")
        self._target, self._life = target, _life_of(target)

    def succeed(self, former: Self) -> None:
        # There is no login.
        return

    def script(self) -> Iterator[str]:
        yield "-- There is no database: nothing has to be run."

    def open(self, timeout: float) -> Session:
        _suffer(self._life.due(self._target.faults, "open", None), "open", timeout, threading.Event())
        return Session(self._target, self._life)
