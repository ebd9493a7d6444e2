"""What happens to a target that its numbers must be read with: encryption enabled, a new key, a restart."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum


class EventKind(StrEnum):
    """The closed set of values of the metric label `kind`. A `resize` is one of the cache of blocks: what fits into it is
    not decrypted again."""

    ENABLEMENT = "enablement"
    REKEY = "rekey"
    KEYSTORE_MIGRATION = "keystore_migration"
    ALGORITHM_CHANGE = "algorithm_change"
    UPGRADE = "upgrade"
    RESIZE = "resize"
    RESTART = "restart"
    SWITCHOVER = "switchover"
    OTHER = "other"


OPENS_EPOCH = frozenset(EventKind) - {EventKind.RESTART, EventKind.OTHER}
"""After these the database is not the one that was measured before: no statistic may hold both."""

FREEZES_BASELINE = frozenset({EventKind.ENABLEMENT, EventKind.REKEY, EventKind.ALGORITHM_CHANGE, EventKind.UPGRADE})
"""Before these, what was measured so far is kept as a baseline."""

COOLS = frozenset({EventKind.RESTART, EventKind.SWITCHOVER})
"""After these the caches of the database are cold, and those of the twins need not warm up alike."""


class Origin(StrEnum):
    """Who says so: an operator, or what was read from the database."""

    MARKED = "marked"
    DETECTED = "detected"


@dataclass(frozen=True, slots=True)
class Event:
    """One event of one target. `at` is Unix time; `pair` is empty where the whole target is concerned.

    `before` is the last moment (Unix time) at which it had not happened yet; None where nobody looked.
    """

    target: str
    at: float
    kind: EventKind
    text: str
    origin: Origin = Origin.DETECTED
    pair: str = ""
    before: float | None = None

    @property
    def id(self) -> str:
        """Ten characters that are the same for the same event, wherever and however often it is written down."""
        parts = (self.target, self.pair, f"{self.at:.3f}", self.kind.value, self.origin.value, self.text)
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:10]
