"""Whether the encrypted twin of a pair has stopped working while the plain one works: an alert of its own.

It is no matter of latency: a ratio needs answers on both sides.
"""

from __future__ import annotations

from exporter.domain.errors import Reason
from exporter.domain.model import Burst, Tick

CONSECUTIVE = 5
"""Failures of the encrypted side, one after the other, that are no accident any more."""

_OURS = frozenset({Reason.CANCELLED, Reason.BLOCKED, Reason.UNSUPPORTED})
"""Reasons that say nothing about the twin: nothing was asked of it."""


class FailingSide:
    """Watches the ticks of one pair, of all its operations, dropped ones included. Not thread-safe.

    True after five consecutive failures of the encrypted side while the plain side works, or at once when a failure is
    of the keystore (the key is missing or wrong, the keystore closed). False again at the first answer of the encrypted
    side. Where both sides fail it stays as it is: that is an outage of the database, whatever the twin would say.
    Needs no memory beyond a restart: five samples are soon there.
    """

    def __init__(self) -> None:
        self._failed = 0
        self._plain_works: bool | None = None
        self._keystore = self._failing = False

    @property
    def failing(self) -> bool:
        return self._failing

    @property
    def keystore(self) -> bool:
        """Whether it is a failure of the keystore."""
        return self._keystore

    def add(self, tick: Tick) -> bool:
        """Takes a tick; `failing` afterwards."""
        if (plain := _outcomes(tick.plain)) and plain[-1] is None:
            self._plain_works = True
        elif plain and None not in plain:
            # What the encrypted side does while the plain one does not answer either is no evidence against it.
            self._plain_works = False
        for outcome in _outcomes(tick.encrypted):
            if outcome is None:
                self._failed, self._keystore, self._failing = 0, False, False
                continue
            self._keystore |= outcome is Reason.KEYSTORE
            self._failed += self._plain_works is not False
            self._failing |= self._keystore or (self._failed >= CONSECUTIVE and bool(self._plain_works))
        return self._failing


def _outcomes(burst: Burst) -> list[Reason | None]:
    return [sample.failure for sample in burst.samples if sample.failure not in _OURS]
