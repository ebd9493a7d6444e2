"""When a target that could not be reached is tried again; pure arithmetic on given times."""

from __future__ import annotations

import random

from exporter.domain.errors import AuthenticationFailed, DeadlineExceeded, TargetError, TlsFailed, Unavailable

SPARED = (Unavailable, DeadlineExceeded, TlsFailed)
"""What leaves a half-open connection behind on a server that is in trouble already: some count these, and shut out hosts
that do it often, until an operator lets them in again."""
LONGEST, LONGEST_SPARED = 60.0, 600.0


class BackOff:
    """When the next attempt to connect may be made: at once for three failures, then ever later, never never.

    A refused secret has no say in it. Engines themselves try each secret once (`engines.base.Engine.open`), so to ask
    again harms nobody, and whoever asks at every turn goes on as soon as the secret has changed.
    """

    def __init__(self, interval: float, rng: random.Random) -> None:
        self._interval, self._rng = interval, rng
        self._failures = 0
        self._not_before = 0.0

    def allows(self, now: float) -> bool:
        return now >= self._not_before

    def succeeded(self) -> None:
        self._failures, self._not_before = 0, 0.0

    def failed(self, error: TargetError, now: float) -> None:
        if isinstance(error, AuthenticationFailed):
            return
        self._failures += 1
        if self._failures > 3:
            longest = LONGEST_SPARED if isinstance(error, SPARED) else LONGEST
            wait = min(longest, self._interval * 2.0 ** min(self._failures - 3, 16))
            self._not_before = now + wait * self._rng.uniform(0.75, 1.25)
