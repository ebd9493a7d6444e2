"""How much the measured overhead differs from one start of the exporter to the next.

Each start takes a dense snapshot of the embedded default in a process of its own. The standard deviation of
the log ratio between starts is the `tau` of the two-level interval (`exporter/overhead/two_level.py`); the
table shows it beside the default, and how many of the starts' intervals cover the median of all starts.

    python benchmarks/starts.py [--starts 10]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from typing import Any

from exporter.console import Progress, table
from exporter.overhead.two_level import DEFAULT_TAU


def start(state: str) -> list[dict[str, Any]]:
    """The rows of one snapshot."""
    done = subprocess.run(
        [sys.executable, "-m", "exporter", "once", "--json"],
        env={**os.environ, "TDE_EXPORTER_STATE_DIRECTORY": state},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return list(json.loads(done.stdout)["rows"])


def line(operation: str, what: str, ratios: list[dict[str, float]]) -> tuple[str, ...]:
    """One row of the table."""
    estimates = [ratio["estimate"] for ratio in ratios]
    middle = statistics.median(estimates)
    covering = sum(ratio["lower"] <= middle <= ratio["upper"] for ratio in ratios)
    spread = statistics.stdev(map(math.log, estimates))
    return (
        f"{operation} {what}",
        f"{middle:.3f}",
        f"{min(estimates):.3f} … {max(estimates):.3f}",
        f"{spread:.3f}",
        f"{DEFAULT_TAU:.3f}",
        f"{covering} of {len(ratios)}",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=10)
    arguments = parser.parse_args()
    progress, found = Progress(), dict[tuple[str, str], list[dict[str, float]]]()
    with tempfile.TemporaryDirectory() as state:
        for number in range(arguments.starts):
            progress(f"start {number + 1} of {arguments.starts}", number / arguments.starts)
            for row in start(state):
                for what in ("latency", "cpu"):
                    found.setdefault((row["operation"], what), []).append(row[what])
    progress.done()
    header = ("ratio encrypted / plain", "median", "range", "tau measured", "tau assumed", "intervals that cover")
    print(table(header, [line(operation, what, ratios) for (operation, what), ratios in found.items()]))


if __name__ == "__main__":
    main()
