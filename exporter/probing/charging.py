"""What a round of canaries uses is charged to the budgets of its target, as it is used."""

from __future__ import annotations

from collections.abc import Iterator

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
        spent, now = self._spent(begun)
        self.allowance.governor.charge(key, spent, begun, now)
        return now

    def charge_extra(self, key: Key, begun: float) -> None:
        """Charge what extra samples of an operation used since `begun`."""
        spent, now = self._spent(begun)
        self.allowance.boost.charge(key, spent, begun, now)

    def _spent(self, begun: float) -> tuple[Amounts, float]:
        """What was used since `begun`, and the time now."""
        now = self._clock.paced()
        read, written = self.meter.take()
        self._read, self._written = _sum(self._read, read), _sum(self._written, written)
        return Amounts(now - begun, read or 0, written or 0), now

    def used(self) -> BudgetsUsed:
        """What is in use of each budget, and the bytes since the last call."""
        governor, sessions, now = self.allowance.governor, self.allowance.sessions, self._clock.paced()
        used = governor.used(now) | self.allowance.boost.used(now) | {SESSIONS: sessions.open / sessions.most}
        read, written, self._read, self._written = self._read, self._written, None, None
        return BudgetsUsed(self._target, used, read, written, governor.periods())


class TickCharge:
    """One tick that began at `begun`. Its configured samples are charged to the ordinary budgets; what comes after them,
    if anything, to the boost."""

    def __init__(self, charging: Charging, key: Key, begun: float, clock: Clock) -> None:
        self._charging, self._key, self._clock = charging, key, clock
        self._begun = begun
        self._paid, self._extra = False, False

    def more(self) -> Iterator[None]:
        """One item for each pair of samples that may still be measured when those configured are done."""
        if not self._charging.allowance.boost.wanted(self._key):
            return
        now = self._begun = self._charging.charge(self._key, self._begun)
        self._paid = True
        grant = self._charging.allowance.boost.grant(self._key, now)
        if grant is None:
            return
        self._extra = True
        for _ in range(grant.pairs):
            yield
            if self._clock.paced() - now >= grant.seconds:
                return

    def settle(self) -> None:
        """The tick is over, whatever became of it."""
        if self._extra:
            self._charging.charge_extra(self._key, self._begun)
        elif not self._paid:
            self._charging.charge(self._key, self._begun)


def _sum(total: int | None, more: int | None) -> int | None:
    """Of what is known; None while nothing is."""
    return total if more is None else more + (total or 0)
