"""Heartbeats of the standbys: written every second, and told only when there is something to tell."""

from __future__ import annotations

from exporter.domain.clock import Clock
from exporter.domain.errors import TargetError
from exporter.engines.base import Session
from exporter.probing.messages import HEARTBEAT, CollectorDone
from exporter.probing.sparing import Sparing

HEARTBEAT_TIMEOUT = 2.0


class Heartbeats:
    """Of one target. An outcome is told when it changes, and about every `seconds` otherwise."""

    def __init__(self, target: str, clock: Clock, seconds: float) -> None:
        self._target, self._clock = target, clock
        self._sparing = Sparing(seconds)

    def beat(self, session: Session) -> tuple[CollectorDone | None, TargetError | None]:
        """Write one: the outcome if it is to be told, and the error if there was one."""
        begun = self._clock.monotonic()
        failed: TargetError | None = None
        try:
            session.heartbeat(HEARTBEAT_TIMEOUT)
        except TargetError as error:
            failed = error
        now = self._clock.monotonic()
        reason, words = (None, "") if failed is None else (failed.reason, str(failed))
        done = CollectorDone(self._target, HEARTBEAT, now - begun, self._clock.wall(), reason, words)
        return done if self._sparing.passes(done, self._clock.paced()) else None, failed
