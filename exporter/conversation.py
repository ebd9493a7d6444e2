"""One conversation of a command with a target: each call has its deadline, and Ctrl-C works at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from exporter.config.schema import TargetSettings
from exporter.domain.clock import Clock, SystemClock
from exporter.domain.errors import DeadlineExceeded
from exporter.engines import registry
from exporter.engines.base import Session
from exporter.probing.rounds import CONNECT_TIMEOUT
from exporter.probing.watched import CLOSE_SECONDS, Watched

_LOOK_SECONDS = 0.05

T = TypeVar("T")


def converse(target: TargetSettings, work: Callable[[Session], T]) -> T:
    """Open a session with `target`, do `work` with it, and close it; returns or raises what `work` does.

    Raises what opening raises, and `DeadlineExceeded` for a call that outlives its deadline and cannot be ended: its
    thread is left behind, and ends with the process. On KeyboardInterrupt the session is closed, which ends the call
    that runs: what it has begun stays as a killed run would leave it.
    """
    return _Conversation(target, work, SystemClock()).result()


class _Conversation(Generic[T]):
    """The work in a thread of its own, so that a driver that waits for the network keeps no signal waiting."""

    def __init__(self, target: TargetSettings, work: Callable[[Session], T], clock: Clock) -> None:
        self._engine, self._work, self._clock = registry.make(target), work, clock
        self._session: Session | None = None
        self._expiry: float | None = None
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._answer: list[T] = []

    def result(self) -> T:
        threading.Thread(target=self._run, name="conversation", daemon=True).start()
        try:
            while not self._done.wait(_LOOK_SECONDS):
                expiry = self._expiry
                if expiry is not None and self._clock.monotonic() > expiry:
                    raise DeadlineExceeded("a call to the database never ended; given up")
        except KeyboardInterrupt:
            self._stop()
            raise
        if self._error is not None:
            raise self._error
        return self._answer[0]

    def _run(self) -> None:
        try:
            session = Watched(self._expires, self._clock).open(self._engine, CONNECT_TIMEOUT)
            self._session = session
            try:
                self._answer.append(self._work(session))
            finally:
                session.close()
        except BaseException as error:
            # A boundary between threads: whatever it is, it is raised again where somebody hears it.
            self._error = error
        finally:
            self._done.set()

    def _stop(self) -> None:
        if self._session is not None:
            self._session.close()
            self._done.wait(CLOSE_SECONDS)

    def _expires(self, at: float | None) -> None:
        self._expiry = at
