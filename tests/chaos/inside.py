"""What looks at the history where the daemon has it; SQLite follows no path into another namespace.

    python inside.py CONFIG HISTORY TARGET

plants a breach of TARGET, as evidence of months would leave it, says so, and then answers each line with the number of
samples that the history holds of each target, or with nothing where it cannot be read.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import sys
from pathlib import Path

from exporter.config import loader
from exporter.domain.clock import SystemClock
from exporter.engines import registry
from exporter.exposition.ledger import Ledger
from exporter.history.records import State, StateKey
from exporter.history.store import History

SAMPLES = "SELECT target, sum(plain_samples) FROM blocks JOIN series ON series.id = series GROUP BY target"


def plant(config: str, path: str, target: str) -> None:
    settings = loader.load(Path(config), target_types=registry.target_types())
    clock = SystemClock()
    history = History.keep(Path(path), 86400.0, clock)
    for key, state in Ledger(settings, clock).states():
        if key.target == target:
            state["verdict"]["breaches"] = [[50, "plain", 1.2, clock.steady() - 600.0]]
            history.records.record(states={StateKey.of("overhead", key): State(1, json.dumps(state).encode())})
    history.close()


def samples(path: str) -> dict[str, int]:
    """Reads only: what was left behind by a killed daemon is the next one's to take up."""
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=5)) as file:
        return dict(file.execute(SAMPLES).fetchall())


def main() -> None:
    plant(*sys.argv[1:])
    print("planted", flush=True)
    for _ in sys.stdin:
        try:
            found = samples(sys.argv[2])
        except sqlite3.Error:
            found = {}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
