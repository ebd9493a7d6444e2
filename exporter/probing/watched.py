"""A session whose every call is announced to the lane, so that a call that never ends is noticed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TypeVar

from exporter.config.schema import PairSettings
from exporter.domain.clock import Clock
from exporter.domain.errors import Cancelled
from exporter.domain.model import Execution, Operation, PairFacts, Slot, TargetFacts
from exporter.domain.states import Activity, EncryptionState, ScratchLock, StandbyState
from exporter.engines.base import Engine, Prepared, Progress, Provisioned, Session, StatementOutcome

CLOSE_SECONDS = 1.0
GRACE = 2.0
"""Seconds past its own deadline after which a call is held to be stuck for good."""

T = TypeVar("T")


class Watched:
    """Wraps the calls of a `Session`; `expires(at)` hears when a call must have ended, None when it has.

    What `expires` raises keeps a call from being made.
    """

    def __init__(self, expires: Callable[[float | None], None], clock: Clock) -> None:
        self._expires, self._clock = expires, clock
        self._session: Session | None = None

    def open(self, engine: Engine, timeout: float) -> Session:
        """Open the engine's session and stand in for it."""
        self._session = self._bounded(timeout, lambda: engine.open(timeout))
        return self

    def facts(self) -> TargetFacts:
        return self._inner.facts()

    def provision(self, pair: PairSettings, progress: Progress, timeout: float) -> Provisioned:
        return self._bounded(timeout, lambda: self._inner.provision(pair, progress, timeout))

    def drop(self, pair: PairSettings, timeout: float) -> tuple[str, ...]:
        return self._bounded(timeout, lambda: self._inner.drop(pair, timeout))

    def verify(self, pair: PairSettings, timeout: float) -> PairFacts:
        return self._bounded(timeout, lambda: self._inner.verify(pair, timeout))

    def prepare(self, pair: PairSettings, timeout: float) -> Prepared:
        return self._bounded(timeout, lambda: self._inner.prepare(pair, timeout))

    def run(self, pair: PairSettings, slot: Slot, operation: Operation, key: int, timeout: float) -> Execution:
        return self._bounded(timeout, lambda: self._inner.run(pair, slot, operation, key, timeout))

    def encryption_state(self, timeout: float) -> EncryptionState:
        return self._bounded(timeout, lambda: self._inner.encryption_state(timeout))

    def activity(self, timeout: float) -> Activity:
        return self._bounded(timeout, lambda: self._inner.activity(timeout))

    def heartbeat(self, timeout: float) -> None:
        self._bounded(timeout, lambda: self._inner.heartbeat(timeout))

    def standbys(self, timeout: float) -> tuple[StandbyState, ...]:
        return self._bounded(timeout, lambda: self._inner.standbys(timeout))

    def scratch_lock(self) -> ScratchLock | None:
        return self._inner.scratch_lock()

    def selftest(self, progress: Progress, timeout: float) -> tuple[StatementOutcome, ...]:
        return self._bounded(timeout, lambda: self._inner.selftest(progress, timeout))

    def close(self) -> None:
        # Whoever refuses further calls (`Cancelled`) has nothing against the end of the session.
        with contextlib.suppress(Cancelled):
            self._expires(self._clock.monotonic() + CLOSE_SECONDS + GRACE)
        try:
            self._inner.close()
        finally:
            self._expires(None)

    @property
    def _inner(self) -> Session:
        if self._session is None:
            raise RuntimeError("a watched session is used before it was opened")
        return self._session

    def _bounded(self, timeout: float, call: Callable[[], T]) -> T:
        self._expires(self._clock.monotonic() + timeout + GRACE)
        try:
            return call()
        finally:
            self._expires(None)
