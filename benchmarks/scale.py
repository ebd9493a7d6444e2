"""How many databases one exporter watches: 100, 300 and 1 000 scripted servers on sockets, and the ticks that they allow.

The servers (`scripted.py`) run in a process of their own and speak the wire protocol of MariaDB, so that the exporter's own
driver, engine and statements are at work; their processors are counted apart. An exporter is started for each number of
targets, and its interval of canaries is shortened by reloads, until one does not hold any more. With budgets out of the
way every operation runs in every tick: so it is the exporter that gives in, and not a limit that somebody set. The last
row of each number of targets is the exporter as it is shipped, with its budgets and intervals.

A tick holds when

* 99 % of the runs are begun no later than a tenth of the tick after their time,
* fewer than one run in a thousand is left out, and nine in ten ticks of each operation count,
* fewer than one tick in a hundred is dropped because another one was in its way,
* every scrape takes less than half a second, and no message is lost.

    python benchmarks/scale.py [--targets 100 300 1000] [--short] [--processes 2]

In full this takes a quarter of an hour, with --short (20 targets) half a minute. Other work on the machine is in the
last column: a row with much of it says more about the neighbours than about the exporter.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.capacity import milliseconds
from benchmarks.fleet import Fleet, Window, fleet
from benchmarks.scale_model import needs, processes_for, shortest_tick
from exporter.config.schema import IntervalSettings
from exporter.console import Progress, table

TICKS = (60.0, 30.0, 20.0, 10.0, 5.0, 2.0, 1.0)
FIRST = {100: 10.0, 300: 30.0, 1000: 60.0}
"""The longest tick that is tried, by the number of targets; shorter ones follow until one does not hold."""
UNLIMITED = {"time_share_ratio": 1.0, "boost_time_share_ratio": 0.0, "bytes_read_per_hour": "1000TiB"}
LEAST_SECONDS = 30.0
RUNS = {"point_select": 40, "range_select": 10, "full_scan": 2}
"""Samples of one tick, of both twins together."""
LATE, LEFT_OUT, KEPT, IN_THE_WAY, SCRAPE = 0.1, 0.001, 0.9, 0.01, 0.5


@dataclass(frozen=True)
class Step:
    """One tick at one number of targets. `tick` is None for the exporter as it is shipped."""

    targets: int
    processes: int
    tick: float | None
    window: Window
    started: float
    """Seconds after the start, or after the reload, until all targets had had a tick."""

    @property
    def interval(self) -> float:
        return self.tick or IntervalSettings().canary

    @property
    def ticks(self) -> float:
        """Ticks of one operation that were due in the time that the pages tell of."""
        return self.targets * self.window.told_seconds / self.interval

    def kept(self, operation: str) -> float:
        """Share of the ticks of an operation that count."""
        return self.window.rise("tde_canary_runs_total", operation) / RUNS[operation] / self.ticks

    @property
    def left_out(self) -> float:
        reasons = ("busy", "missed", "back_off", "abandoned")
        return sum(self.window.rise("tde_exporter_runs_skipped_total", reason) for reason in reasons) / self.ticks

    @property
    def in_the_way(self) -> float:
        """Share of the ticks of short operations that were dropped for others of the same process."""
        dropped = self.window.rise("tde_canary_contended_total")
        counted = sum(self.kept(operation) * self.ticks for operation in ("point_select", "range_select"))
        return dropped / max(1.0, dropped + counted)

    def problems(self) -> list[str]:
        """What does not hold, in short; nothing for a tick that does."""
        window = self.window
        lost = window.rise("tde_exporter_messages_dropped_total") + window.rise("tde_target_connection_errors_total")
        found = [
            (not window.lateness(0.99) <= LATE * self.interval, "late"),
            (self.left_out >= LEFT_OUT, "left out"),
            (self.tick is not None and min(map(self.kept, RUNS)) < KEPT, "ticks missing"),
            (self.in_the_way >= IN_THE_WAY, "in the way"),
            (window.scrapes[-1] >= SCRAPE, "slow scrape"),
            (bool(lost), "lost"),
            (bool(window.after.get("tde_exporter_series_refused_total")), "series refused"),
        ]
        return [words for wrong, words in found if wrong]


def settings(tick: float | None, processes: int | None) -> dict[str, Any]:
    """A configuration, without its targets."""
    given: dict[str, Any] = {} if processes is None else {"probes": {"processes": processes}}
    if tick is None:
        return given
    return given | {"intervals": {"canary": tick}, "budgets": UNLIMITED, "web": {"max_series": 10**6}}


def steps(targets: int, ticks: Sequence[float], arguments: argparse.Namespace) -> Iterator[Step]:
    """Measure one number of targets: ever shorter ticks until one does not hold, then the exporter as it is shipped."""
    with fleet(targets, arguments.latency) as watched:
        for tick in ticks:
            step = _step(watched, tick, arguments)
            yield step
            if step.problems():
                break
        if not arguments.ticks_only:
            yield _step(watched, None, arguments)


def _step(watched: Fleet, tick: float | None, arguments: argparse.Namespace) -> Step:
    progress, targets = Progress(), len(watched.ports)
    label = f"{targets} targets, {'as shipped' if tick is None else f'a tick each {tick:g} s'}"
    watched.configure(**settings(tick, arguments.processes))
    if watched.process is None:
        watched.start(arguments.prefer)
    else:
        watched.reload()
    started = watched.wait_until_at_work(progress, f"{label}: the first tick of each")
    interval = tick or IntervalSettings().canary
    # Budgets make ticks seldom: as shipped, a minute shows few of each operation.
    seconds = max(interval, arguments.seconds if tick else 2 * arguments.seconds)
    window = watched.watch(seconds, progress, f"{label}: measuring")
    progress.done()
    return Step(targets, len(window.rss) - 1, tick, window, started)


HOLDS = (
    "targets",
    "processes",
    "tick",
    "holds",
    "late p50",
    "late p99",
    "left out",
    "kept",
    "in the way",
    "scrape p50",
    "slowest",
)
TAKES = (
    "targets", "tick", "begun after", "serving", "probing", "memory", "serving", "each probing", "threads", "files", "series", "page", "gzip",
    "the servers", "others",
)  # fmt: skip


def holds(step: Step) -> tuple[str, ...]:
    window = step.window
    kept = [step.kept(operation) for operation in RUNS]
    return (
        f"{step.targets}",
        f"{step.processes}",
        _tick(step),
        ", ".join(step.problems()) or "yes",
        milliseconds(window.lateness(0.5)),
        milliseconds(window.lateness(0.99)),
        f"{step.left_out:.2%}",
        f"{min(kept):.0%}" if step.tick else "/".join(f"{share:.0%}" for share in kept),
        f"{step.in_the_way:.2%}",
        milliseconds(window.scrapes[len(window.scrapes) // 2]),
        milliseconds(window.scrapes[-1]),
    )


def takes(step: Step) -> tuple[str, ...]:
    window = step.window
    probing = [size for name, size in window.rss.items() if name != "serving"]
    return (
        f"{step.targets}",
        _tick(step),
        f"{step.started:.0f} s",
        f"{window.cores['serving']:.2f}",
        f"{window.cores['probing']:.2f}",
        _mebibytes(sum(window.rss.values())),
        _mebibytes(window.rss["serving"]),
        _mebibytes(max(probing)),
        f"{sum(window.threads.values())}",
        f"{max(window.files.values())}",
        f"{window.after.get('tde_exporter_series'):.0f}",
        _mebibytes(window.page_bytes),
        f"{window.gzip_bytes / 1024:.0f} KiB",
        f"{window.cores['servers']:.2f}",
        f"{window.cores['others'] + window.cores['bench']:.2f}",
    )


def compared(step: Step, latency: float) -> tuple[str, ...]:
    """The formula beside the measurement."""
    said, window = needs(step.targets, step.interval, step.processes, latency), step.window
    return (
        f"{step.targets}",
        _tick(step),
        f"{said.probing:.2f} / {window.cores['probing']:.2f}",
        f"{said.serving:.2f} / {window.cores['serving']:.2f}",
        f"{said.turns:.0%}",
        f"{said.memory / 2**20:.0f} / {sum(window.rss.values()) / 2**20:.0f} MiB",
        f"{said.series} / {window.after.get('tde_exporter_series'):.0f}",
        f"{said.packed / 1024:.0f} / {window.gzip_bytes / 1024:.0f} KiB",
    )


COMPARED = ("targets", "tick", "probing", "serving", "turns", "memory", "series", "gzip")


def advice(numbers: Sequence[int], processes: int, latency: float) -> str:
    """What the formula says of some numbers of targets."""
    rows = []
    for targets in numbers:
        need = processes_for(targets, IntervalSettings().canary, latency)
        rows.append(
            (
                f"{targets}",
                f"{shortest_tick(targets, processes, 2, latency):.0f} s",
                f"{need}",
                f"{shortest_tick(targets, need, 2, latency):.0f} s",
            )
        )
    return table(("targets", f"tick, {processes} processes", "processes for 10 s", "tick with those, 2 cores"), rows)


def _tick(step: Step) -> str:
    return "as shipped" if step.tick is None else f"{step.tick:g} s"


def _mebibytes(size: float) -> str:
    return f"{size / 2**20:.1f} MiB" if size < 10 << 20 else f"{size / 2**20:.0f} MiB"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", type=int, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--ticks", type=float, nargs="+", help="instead of those that suit the number of targets")
    parser.add_argument(
        "--seconds", type=float, default=LEAST_SECONDS, help="to measure each tick, and one tick at least"
    )
    parser.add_argument("--latency", type=float, default=0.0005, help="seconds that the network takes, both ways")
    parser.add_argument("--processes", type=int, help="probes.processes; without it as shipped")
    parser.add_argument("--prefer", action="store_true", help="run before all others on this machine; needs root")
    parser.add_argument("--ticks-only", action="store_true", help="leave out the exporter as it is shipped")
    parser.add_argument("--short", action="store_true", help="20 targets at 5 s, to see that it works")
    arguments = parser.parse_args()
    if arguments.short:
        arguments.targets, arguments.ticks, arguments.seconds = [20], [5.0], 5.0
    begun, load = time.monotonic(), os.getloadavg()[0]
    found: list[Step] = []
    for targets in arguments.targets:
        longest = next((tick for most, tick in FIRST.items() if targets <= most), TICKS[0])
        ticks = arguments.ticks or [tick for tick in TICKS if tick <= longest]
        found += steps(targets, ticks, arguments)
    processes = found[0].processes
    print(table(HOLDS, [holds(step) for step in found]), end="\n\n")
    print("Processors that were kept busy, and memory\n")
    print(table(TAKES, [takes(step) for step in found]), end="\n\n")
    print("The formula / the measurement\n")
    print(table(COMPARED, [compared(step, arguments.latency) for step in found if step.tick]), end="\n\n")
    print(advice(arguments.targets, processes, arguments.latency), end="\n\n")
    minutes = (time.monotonic() - begun) / 60
    print(
        f"{os.cpu_count()} cores; load average {load:.1f} at the start, {os.getloadavg()[0]:.1f} at the end; {minutes:.1f} min"
    )


if __name__ == "__main__":
    main()
