"""One deadline over the statements of a call."""

from __future__ import annotations

import time

from exporter.domain.errors import DeadlineExceeded


class Deadline:
    """Ends `timeout` seconds from now; `what` is named when it has."""

    def __init__(self, timeout: float, what: str) -> None:
        self._timeout, self._what = timeout, what
        self._end = time.monotonic() + timeout

    @property
    def left(self) -> float:
        """Seconds that are left. Raises `DeadlineExceeded` when there are none."""
        left = self._end - time.monotonic()
        if left <= 0.0:
            raise DeadlineExceeded(f"{self._what}: not done after {self._timeout:g} s")
        return left

    def step(self, most: float = float("inf")) -> float:
        """Seconds for the next statement, `most` at most."""
        return min(most, self.left)
