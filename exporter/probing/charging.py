"""What a round of canaries uses is charged to the budgets of its target, as it is used."""

from __future__ import annotations

from exporter.domain.clock import Clock
from exporter.probing.allowance import Allowance
from exporter.probing.budget import Amounts, Key
from exporter.probing.messages import SESSIONS, BudgetsUsed
from exporter.probing.meter import Meter


class Charging:
    """Belongs to one worker. Time is charged from a given moment until now, bytes as its meter counted them."""

    def __init__(self, target: str, allowance: Allowance, clock: Clock) -> None:
        self._target, self._clock = target, clock
        self.allowance = allowance
        self.meter = Meter()
        self._read: int | None = None
        self._written: int | None = None

    def charge(self, key: Key | None, begun: float) -> float:
        """Charge what was used since `begun`, to an operation or to none; the time now (both paced)."""
        now = self._clock.paced()
        read, written = self.meter.take()
        self._read, self._written = _sum(self._read, read), _sum(self._written, written)
        self.allowance.governor.charge(key, Amounts(now - begun, read or 0, written or 0), begun, now)
        return now

    def used(self) -> BudgetsUsed:
        """What is in use of each budget, and the bytes since the last call."""
        governor, sessions = self.allowance.governor, self.allowance.sessions
        used = governor.used(self._clock.paced()) | {SESSIONS: sessions.open / sessions.most}
        read, written, self._read, self._written = self._read, self._written, None, None
        return BudgetsUsed(self._target, used, read, written, governor.periods())


def _sum(total: int | None, more: int | None) -> int | None:
    """Of what is known; None while nothing is."""
    return total if more is None else more + (total or 0)
