"""Whether a target can be used, from what its probe process says of it."""

from __future__ import annotations

from exporter.domain.errors import Reason
from exporter.domain.model import Burst
from exporter.probing.messages import CANARY, HEARTBEAT, STANDBY, CollectorDone, TargetFailed, TargetReached

UNREACHABLE = frozenset({Reason.CONNECT, Reason.AUTH, Reason.TLS, Reason.TIMEOUT, Reason.UNAVAILABLE})
"""Reasons that mean: the database could not be used. Others concern one collector."""
WAITING = frozenset({Reason.LOCK_TIMEOUT, Reason.BLOCKED})
"""Reasons that mean: the database was there and worked, and somebody else was in the way."""


class Reach:
    """Of one target. Not thread-safe: the ledger's lock guards it. Times are paced seconds.

    Canaries are believed for `canary_expiry`, anything else that worked for the longer one of the two.
    """

    def __init__(self, canary_expiry: float, state_expiry: float) -> None:
        self._canary_expiry, self._expiry = canary_expiry, max(canary_expiry, state_expiry)
        self._lost = self._reached = self._shut_out = False
        self._canary_works: bool | None = None
        self._canary_succeeds: bool | None = None
        self._ticks = self._successes = self._waits = 0
        self._worked: float | None = None
        self._canary_worked: float | None = None

    def works(self, now: float) -> None:
        """Something of it was read or written."""
        self._worked = now
        self._lost, self._reached = False, True

    def connected(self, message: TargetReached, now: float) -> None:
        """It was connected to."""
        self.works(now)
        self._shut_out = self._shut_out and message.connects <= 0

    def failed(self, message: TargetFailed) -> bool:
        """A session, or something in it, failed; whether that means that the target could not be used."""
        unusable = message.connecting or message.reason in UNREACHABLE
        self._lost = False
        self._reached = self._reached and not unusable
        return unusable

    def tick(self) -> None:
        """A canary ran, whatever became of it; its bursts follow."""
        self._ticks += 1

    def burst(self, burst: Burst, now: float) -> None:
        """What one twin answered in it."""
        if len(burst.failures) < len(burst.samples):
            self._successes += 1
            self._canary_worked = now
            self.works(now)
        elif not WAITING.isdisjoint(burst.failures):
            self._waits += 1
            self.works(now)

    def collector_done(self, message: CollectorDone, now: float) -> None:
        """A collector has ended a run."""
        aside = message.collector in (HEARTBEAT, STANDBY)
        if message.reason is None:
            self.works(now)
        elif message.reason is Reason.CONNECT or (message.reason in UNREACHABLE and not aside):
            self._lost, self._reached = False, False
        elif message.reason is not Reason.CANCELLED and not aside:
            # Somebody tried, and got no further than to an error; whether it was reached before stays as it was.
            self._lost = False
        if message.collector == CANARY:
            self._end_round(message.reason, now)

    def lost(self) -> None:
        """Its probe process is down: nobody knows."""
        self._lost, self._reached, self._shut_out = True, False, False
        self._canary_works = self._canary_succeeds = self._canary_worked = self._worked = None
        self._ticks = self._successes = self._waits = 0

    @property
    def unknown(self) -> bool:
        """Whether its probe process is down."""
        return self._lost

    def heard(self, now: float) -> bool:
        """Whether it was used not long ago."""
        return self._worked is not None and now - self._worked <= self._expiry

    def measured(self, now: float) -> bool:
        """Whether canaries succeeded not long ago."""
        return self._canary_worked is not None and now - self._canary_worked <= self._canary_expiry

    def up(self, now: float) -> bool | None:
        """Whether it can be used; None: nobody knows."""
        if self._lost:
            return None
        return self._reached and self.heard(now) and self._canary_works is not False and not self._shut_out

    def _end_round(self, reason: Reason | None, now: float) -> None:
        """Judge a round of canaries: one in which every sample failed did not use the database, unless one of them waited
        for somebody else, who does use it.

        A round without ticks (budget used up, no valid pair) tells nothing new: what was shown stays. Where no session
        for canaries is to be had, others that work do not make the target usable.
        """
        self._shut_out = reason in UNREACHABLE
        if self._ticks:
            self._canary_succeeds = self._successes > 0
            self._canary_works = self._canary_succeeds or self._waits > 0
        if reason is None and self._canary_succeeds is not False:
            self._canary_worked = now
        self._ticks = self._successes = self._waits = 0
