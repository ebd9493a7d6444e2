"""What may be used of one target, for all threads that ever work on it."""

from __future__ import annotations

from exporter.config.schema import Settings, TargetSettings
from exporter.probing.budget import Amounts, Governor
from exporter.probing.sessions import SessionCap


class Allowance:
    """The budgets of one target as configured, and what was used of them."""

    def __init__(self, settings: Settings, target: TargetSettings) -> None:
        budgets = settings.budgets_of(target)
        operations = [(pair.name, operation) for pair in target.pairs for operation in target.canary_operations]
        self.governor = Governor(Amounts.per_hour(budgets), settings.intervals_of(target).canary, operations)
        self.sessions = SessionCap(budgets.sessions)
