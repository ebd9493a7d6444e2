"""What the evidence wants more samples of, from the ledger to the processes that take them."""

from __future__ import annotations

from exporter.config.schema import Settings
from exporter.exposition.ledger import Ledger
from exporter.probing.supervisor import Supervisor


def ask_for_samples(settings: Settings, ledger: Ledger, supervisor: Supervisor) -> None:
    """Say of every target what is wanted now; to be called about once a second. Only what changed travels on."""
    for target in settings.targets:
        supervisor.want_boost(target.name, ledger.boost_wanted(target.name))
