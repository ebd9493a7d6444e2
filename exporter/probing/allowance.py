"""What may be used of one target, for all threads that ever work on it."""

from __future__ import annotations

from exporter.config.schema import Settings, TargetSettings
from exporter.probing.boost import Boost
from exporter.probing.budget import HOUR, Amounts, Governor
from exporter.probing.sessions import SessionCap


class Allowance:
    """The budgets of one target as configured, and what was used of them.

    `held`: the sessions of whoever probed this target before, which may still be open.
    """

    def __init__(self, settings: Settings, target: TargetSettings, held: SessionCap | None = None) -> None:
        budgets = settings.budgets_of(target)
        intervals = settings.intervals_of(target)
        samples = {
            (pair.name, operation): settings.operation(operation).samples
            for pair in target.pairs
            for operation in target.canary_operations
        }
        self.governor = Governor(Amounts.per_hour(budgets), intervals.canary, samples)
        self.boost = Boost(target.name, budgets, intervals.canary, intervals.activity, samples, self.governor)
        self.sessions = held or SessionCap(budgets.sessions)
        self.sessions.most = budgets.sessions

    def succeed(self, former: Allowance) -> None:
        """What was used of the same target under other settings counts: a reload is no way around a budget. What `former` is
        charged from now on does not, for it may be the time of a call that hangs."""
        self.governor.succeed(former.governor)
        self.boost.succeed(former.boost)

    def load_ratio(self, now: float) -> float:
        """Share of the last hour in which canaries ran, extra samples included; the time before the start counts as idle."""
        return self.governor.load_ratio(now) + self.boost.seconds(now) / HOUR
