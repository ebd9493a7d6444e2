"""What an exporter of many targets needs, as a formula; `scale.py` prints it beside what it measures.

The constants were measured with `scale.py` on two cores of an x86-64 server (see SCALE.md) and hold for MariaDB targets
with one pair and the operations that they have by default. Everything is arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

SHORT_RUNS, LONG_RUNS = 54, 2
"""Queries of one tick of all operations: 42 point selects, 12 range selects (two of each are discarded), and 2 full scans."""
STATEMENTS = 3
"""The query, and the reading of the server's counters before and after it: so many answers of the server for each run."""
TURN_WORK = 0.04
"""Seconds that the short queries of a tick take in the database, and that counters need to settle: 42 times 0.1 ms and 12
times 3 ms."""

RUN_CPU = 0.00033
"""CPU seconds of a probe process for one query with its counters."""
REST_CPU = 0.0004
"""Processors that a target takes while nothing is measured: states once a minute, activity each 15 seconds."""
TICK_CPU, KEPT_CPU = 0.001, 0.0001
"""CPU seconds of the serving process for one tick of all operations, and what it takes for a target at any time: messages,
statistics, history."""
SERIES_CPU = 6e-6
"""CPU seconds for one series of one rendering of the page."""
RENDER_PAUSE = (0.5, 20.0)
"""A rendering is followed by a pause of four times as long, at least and at most so many seconds."""

SERIES, SERIES_OWN = 174, 90
"""Series of one target after an hour, and those of the exporter itself."""
SERIES_BYTES, SERIES_PACKED = 120.0, 7.0
"""Of a page, plain and compressed."""

SERVING_BASE, SERVING_TARGET = 80 << 20, 500 << 10
PROBING_BASE, PROBING_TARGET = 52 << 20, 150 << 10
WINDOWS = 260 << 10
"""Bytes of memory: of a process, and for each target in it, some minutes after a start; and what an hour of observations
adds for each target (`page.py`)."""

FULL = 0.75
"""How much of its turns, or of its processors, an exporter can use before ticks wait too long for each other."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What some targets need at some tick. Processors are averages; `turns` is how much of the time a probe process is in
    a short query, which it makes one after another; memory and page sizes in bytes."""

    probing: float
    serving: float
    turns: float
    memory: int
    series: int
    page: int
    packed: int


def turn_seconds(latency: float) -> float:
    """How long the short queries of one tick of one target last; `latency` is the network's way there and back."""
    return SHORT_RUNS * (STATEMENTS * latency + RUN_CPU) + TURN_WORK


def rendering(series: float) -> float:
    """Processors that rendering takes while something changes all the time."""
    once = series * SERIES_CPU
    shortest, longest = RENDER_PAUSE
    return once / (once + max(shortest, min(4 * once, longest)))


def needs(targets: int, tick: float, processes: int, latency: float = 0.0005) -> Needs:
    """What `targets` in so many probe processes need, with all operations each `tick` seconds."""
    series = SERIES_OWN + SERIES * targets
    return Needs(
        probing=targets * ((SHORT_RUNS + LONG_RUNS) * RUN_CPU / tick + REST_CPU),
        serving=targets * (TICK_CPU / tick + KEPT_CPU) + rendering(series),
        turns=targets / processes * turn_seconds(latency) / tick,
        memory=SERVING_BASE + processes * PROBING_BASE + targets * (SERVING_TARGET + PROBING_TARGET),
        series=series,
        page=round(series * SERIES_BYTES),
        packed=round(series * SERIES_PACKED),
    )


def shortest_tick(targets: int, processes: int, cores: float, latency: float = 0.0005) -> float:
    """Seconds: the shortest tick at which neither turns nor processors are used up; infinite where there is none."""
    by_turns = targets / processes * turn_seconds(latency) / FULL
    each = (SHORT_RUNS + LONG_RUNS) * RUN_CPU
    fixed = rendering(SERIES_OWN + SERIES * targets) + targets * KEPT_CPU
    room = FULL * cores - fixed - targets * REST_CPU
    alone = FULL - fixed
    if min(room, alone) <= 0.0:
        return math.inf
    # The serving process is one interpreter, and cannot use more than one core.
    return max(by_turns, targets * (each + TICK_CPU) / room, targets * TICK_CPU / alone)


def processes_for(targets: int, tick: float, latency: float = 0.0005) -> int:
    """Probe processes that keep this tick."""
    return max(1, math.ceil(targets * turn_seconds(latency) / (FULL * tick)))


def reference() -> str:
    """What `docs/scale.md` shows of this: the constants, and what they give at the default interval on two cores."""
    constants = [
        ("a query of a probe process, with its counters", f"{RUN_CPU * 1e3:g} ms of CPU"),
        ("a target between its ticks", f"{REST_CPU:g} of a core"),
        ("a tick of all operations in the serving process", f"{TICK_CPU * 1e3:g} ms of CPU"),
        ("a target in the serving process at any time", f"{KEPT_CPU:g} of a core"),
        ("one series in one rendering of the page", f"{SERIES_CPU * 1e6:g} µs of CPU"),
        ("series of a target", f"{SERIES}"),
        ("a series on the page, and packed", f"{SERIES_BYTES:g} and {SERIES_PACKED:g} bytes"),
        ("the serving process", f"{SERVING_BASE >> 20} MiB, and {SERVING_TARGET >> 10} KiB for each target"),
        ("an hour of observations of a target", f"{WINDOWS >> 10} KiB in the serving process"),
        ("a probe process", f"{PROBING_BASE >> 20} MiB, and {PROBING_TARGET >> 10} KiB for each target"),
        ("queries of a tick that take turns", f"{SHORT_RUNS}"),
        ("of a tick in the database", f"{TURN_WORK * 1e3:g} ms"),
        ("how full turns and cores may be", f"{FULL:g}"),
    ]
    lines = ["| what | measured |", "|---|---|", *(f"| {what} | {value} |" for what, value in constants)]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(reference())
