"""Who has the scratch lock of one target."""

from __future__ import annotations

from exporter.domain.states import ScratchLock
from exporter.exposition.screening import words


class LockBook:
    """Not thread-safe: the ledger's lock guards it. Times are paced seconds; what is known is forgotten after `expiry`."""

    def __init__(self, expiry: float) -> None:
        self._expiry = expiry
        self._seen: tuple[ScratchLock, float] | None = None

    def seen(self, lock: object, now: float) -> int:
        """Take what a probe process says, None for unknown; the number of values in it that cannot be true."""
        self._seen = None
        if isinstance(lock, ScratchLock) and isinstance(lock.held, bool):
            self._seen = ScratchLock(lock.held, words(lock.holder)), now
        return int(lock is not None and self._seen is None)

    def lost(self) -> None:
        """Its probe process is down."""
        self._seen = None

    def view(self, now: float) -> ScratchLock | None:
        """What is known and not too old."""
        return self._seen[0] if self._seen is not None and now - self._seen[1] <= self._expiry else None
