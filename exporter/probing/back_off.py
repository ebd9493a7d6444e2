"""When a target that could not be reached is tried again; pure arithmetic on given times."""

from __future__ import annotations

import random

from exporter.domain.errors import AuthenticationFailed, TargetError


class BackOff:
    """When the next attempt to connect may be made: at once for three failures, then ever later, never never."""

    def __init__(self, interval: float, rng: random.Random, longest: float = 60.0) -> None:
        self._interval, self._rng, self._longest = interval, rng, longest
        self._failures = 0
        self._not_before = 0.0

    def allows(self, now: float) -> bool:
        return now >= self._not_before

    def succeeded(self) -> None:
        self._failures, self._not_before = 0, 0.0

    def failed(self, error: TargetError, now: float) -> None:
        self._failures += 1
        if isinstance(error, AuthenticationFailed):
            # Repeating a refused secret locks accounts.
            self._not_before = now + 3600.0
        elif self._failures > 3:
            wait = min(self._longest, self._interval * 2.0 ** min(self._failures - 3, 16))
            self._not_before = now + wait * self._rng.uniform(0.75, 1.25)
