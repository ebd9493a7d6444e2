"""Figures that suites find out about themselves, kept one run a line, and told as a table.

A suite calls `note`, which appends to the file that TDE_TEST_FIGURES names, and does nothing without it. The table of all
runs in such files:

    python -m benchmarks.figures FILE...
"""

from __future__ import annotations

import datetime
import json
import os
import sys
from pathlib import Path
from typing import Any

from exporter.console import table

VARIABLE = "TDE_TEST_FIGURES"


def note(suite: str, load_before: float, **figures: Any) -> None:
    """Append what a run found, with the load of the machine before and after it (`os.getloadavg`)."""
    print(f"{suite}: {figures}", flush=True)
    if not (path := os.environ.get(VARIABLE)):
        return
    run = {
        "suite": suite,
        "at": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cores": os.cpu_count(),
        "load": [round(load_before, 1), round(os.getloadavg()[0], 1)],
        "figures": figures,
    }
    with Path(path).open("a") as file:
        file.write(json.dumps(run, ensure_ascii=False) + "\n")


def tables(runs: list[dict[str, Any]]) -> str:
    """One table for each run."""
    parts = []
    for run in runs:
        before, after = run["load"]
        title = f"{run['suite']}, {run['at']}, {run['cores']} cores, load {before} to {after}"
        parts.append(
            f"{title}\n\n{table(('figure', 'value'), [(name, _said(value)) for name, value in run['figures'].items()])}"
        )
    return "\n\n".join(parts)


def _said(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {count}" for name, count in value.items())
    return f"{value:.3g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    print(tables([json.loads(line) for name in sys.argv[1:] for line in Path(name).read_text().splitlines()]))
