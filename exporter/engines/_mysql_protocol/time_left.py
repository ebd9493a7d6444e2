"""One deadline over many statements: how long the next one may take."""

from __future__ import annotations

import time

from exporter.domain.errors import DeadlineExceeded


class TimeLeft:
    """Counts down from `timeout` seconds; `what` is named when they are over."""

    def __init__(self, timeout: float, what: str) -> None:
        self._timeout, self._what = timeout, what
        self._end = time.monotonic() + timeout

    def __call__(self, most: float = float("inf")) -> float:
        """Seconds that are left, `most` at most. Raises DeadlineExceeded when there are none."""
        left = self._end - time.monotonic()
        if left <= 0:
            raise DeadlineExceeded(f"{self._what} takes longer than {self._timeout:g} s")
        return min(left, most)
