"""Who has the lock that guards the scratch data of a target: told when it changes, and now and then while it is known."""

from __future__ import annotations

from exporter.engines.base import Session
from exporter.probing.messages import LockSeen


class LockNews:
    """Of one target. What is known is told again about every `seconds`; that nothing is known is told once."""

    def __init__(self, target: str, seconds: float) -> None:
        self._target, self._seconds = target, seconds
        self._told: LockSeen | None = None
        self._said = 0.0

    def of(self, session: Session | None, now: float) -> LockSeen | None:
        """What is to be told at the time `now` (paced seconds) of a session; None: nothing. Without a session nobody knows
        who has the lock."""
        found = LockSeen(self._target, None if session is None else session.scratch_lock())
        if found == self._told and (found.lock is None or now - self._said < self._seconds):
            return None
        self._told, self._said = found, now
        return found
