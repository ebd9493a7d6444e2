"""One deadline over the few statements of a canary query."""

from __future__ import annotations

import time

from exporter.domain.errors import DeadlineExceeded

UNNOTICED_SECONDS = 0.05


class Deadline:
    """Ends `timeout` seconds from now; `what` is named when it has.

    While next to nothing of the time is used, every step gets all of it: a connection has to tell its server whenever a
    timeout is another one than that of the call before, which would double the statements.
    """

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
        """Seconds for the next statement, `most` at most; the deadline is kept to a twentieth of a second."""
        left = self.left
        return min(most, self._timeout if self._timeout - left <= UNNOTICED_SECONDS else left)
