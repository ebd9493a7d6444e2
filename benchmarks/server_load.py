"""What the canaries cost a server that has nothing else to do, beside their budgets.

A private MariaDB and a private MySQL with twins of the default size, each watched by an exporter with default settings.
CPU of the server's process, sessions, statements and reads: for a while without the exporter, then for some minutes with
it, then without it again. What the exporter itself exports stands beside what the server counted.

The second table is about the counters that are read around each canary query, outside of its time: what a whole run takes
in comparison with the query that it times.

    python benchmarks/server_load.py [--seconds 240] [--engines mariadb mysql] [--bytes 268435456]
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from prometheus_client.parser import text_string_to_metric_families

from benchmarks.capacity import descendants
from benchmarks.provisioned import (
    SERVERS,
    USER,
    Running,
    Watched,
    prefer,
    process_cpu,
    running,
    watched,
    write_config,
)
from exporter.config import loader
from exporter.config.schema import BudgetSettings
from exporter.console import Progress, table
from exporter.domain.model import Operation, Slot
from exporter.engines import registry
from exporter.engines._mysql_protocol.settings import DEFAULT_BYTES

MIB, GIB, HOUR = 2**20, 2**30, 3600.0
POOL_MB = 128
"""What both servers take when nothing is configured."""
SETTLE_SECONDS = 20.0
RUNS = {Operation.POINT_SELECT: 2000, Operation.RANGE_SELECT: 400, Operation.FULL_SCAN: 6}
COUNTED = ("Questions", "Innodb_data_read", "Innodb_data_written")

progress = Progress()


@dataclass
class Load:
    """Rates while an exporter watched a server. Bytes per hour, statements and samples per second, CPU in cores."""

    idle_cpu: float
    server_cpu: float
    serving_cpu: float
    probing_cpu: float
    time_share: float
    exported_read: float
    exported_written: float | None
    server_read: float
    server_written: float
    sessions: int
    exported_sessions: float
    statements: float
    samples: dict[str, float]
    skipped: float
    seconds: float


class Page:
    """Samples of one scrape."""

    def __init__(self, text: str) -> None:
        families = text_string_to_metric_families(text)
        self._samples = [sample for family in families for sample in family.samples]

    def total(self, name: str, **labels: str) -> float | None:
        """The sum of what has these labels; None where there is nothing."""
        wanted = labels.items()
        found = [sample.value for sample in self._samples if sample.name == name and wanted <= sample.labels.items()]
        return sum(found) if found else None

    def values(self, name: str, label: str) -> dict[str, float]:
        """Sums by the value of a label."""
        names = {sample.labels[label] for sample in self._samples if sample.name == name}
        return {value: self.total(name, **{label: value}) or 0.0 for value in sorted(names)}


@dataclass
class Reading:
    """Where everything stands at one moment."""

    at: float
    page: Page
    status: dict[str, int]
    server_cpu: float
    serving_cpu: float
    probing_cpu: float

    @classmethod
    def of(cls, found: Watched, exporter: Running) -> Reading:
        page = Page(exporter.page())
        probing = sum(map(process_cpu, descendants(exporter.pid)))
        status = {name: found.server.status(name) for name in COUNTED}
        server = process_cpu(found.server.pid)
        return cls(time.monotonic(), page, status, server, process_cpu(exporter.pid), probing)


def waited(what: str, seconds: float) -> None:
    begun = time.monotonic()
    while (elapsed := time.monotonic() - begun) < seconds:
        progress(what, elapsed / seconds)
        time.sleep(min(0.5, seconds - elapsed))


def idle(found: Watched, seconds: float) -> float:
    """Cores that the server uses while nobody asks it for anything."""
    waited(f"{found.engine}: the server settles", SETTLE_SECONDS)
    begun, before = time.monotonic(), process_cpu(found.server.pid)
    waited(f"{found.engine}: the server alone", seconds)
    return (process_cpu(found.server.pid) - before) / (time.monotonic() - begun)


def load(found: Watched, seconds: float) -> Load:
    first = idle(found, seconds / 4)
    with running({"targets": [found.target()]}) as exporter:
        # The dense snapshot at the start has limits of its own, and is over by then.
        waited(f"{found.engine}: the exporter settles", SETTLE_SECONDS)
        before = Reading.of(found, exporter)
        waited(f"{found.engine}: canaries with default settings", seconds)
        after = Reading.of(found, exporter)
        processes = "SELECT COUNT(*) AS number FROM information_schema.processlist WHERE user = %s"
        sessions = found.server.value(processes, USER)
    second = idle(found, seconds / 4)
    return _between(before, after, (first + second) / 2, sessions)


def _between(before: Reading, after: Reading, idle_cpu: float, sessions: int) -> Load:
    took = after.at - before.at

    def risen(name: str, **labels: str) -> float | None:
        now = after.page.total(name, **labels)
        return None if now is None else now - (before.page.total(name, **labels) or 0.0)

    def per_hour(rise: float | None) -> float | None:
        return None if rise is None else rise * HOUR / took

    runs, runs_before = (page.values("tde_canary_runs_total", "operation") for page in (after.page, before.page))
    status = {name: after.status[name] - before.status[name] for name in COUNTED}
    return Load(
        idle_cpu=idle_cpu,
        server_cpu=(after.server_cpu - before.server_cpu) / took,
        serving_cpu=(after.serving_cpu - before.serving_cpu) / took,
        probing_cpu=(after.probing_cpu - before.probing_cpu) / took,
        # The gauge is a share of an hour, most of which has not been measured yet.
        time_share=per_hour(risen("tde_canary_load_ratio")) or 0.0,
        exported_read=per_hour(risen("tde_canary_bytes_read_total")) or 0.0,
        exported_written=per_hour(risen("tde_canary_bytes_written_total")),
        server_read=per_hour(status["Innodb_data_read"]) or 0.0,
        server_written=per_hour(status["Innodb_data_written"]) or 0.0,
        sessions=sessions,
        exported_sessions=after.page.total("tde_canary_budget_used_ratio", budget="sessions") or 0.0,
        statements=status["Questions"] / took,
        samples={name: (count - runs_before.get(name, 0.0)) / took for name, count in runs.items()},
        skipped=risen("tde_exporter_runs_skipped_total", reason="budget") or 0.0,
        seconds=took,
    )


# -- counters around a query ------------------------------------------------------------------------------------------


@dataclass
class Cost:
    """Of one run of an operation, on average; seconds, and CPU seconds of the server. None: the server cannot tell."""

    operation: str
    runs: int
    query: float
    run: float
    query_cpu: float | None
    server_cpu: float
    statements: float
    cold: float | None


def costs(found: Watched) -> list[Cost]:
    """Runs as the canaries make them, on both twins by turns, without anything in between."""
    config = write_config(found.folder, {"targets": [found.target()]})
    target = loader.load(config, target_types=registry.target_types()).targets[0]
    session = registry.make(target).open(10.0)
    try:
        pair = target.pairs[0]
        session.verify(pair, 30.0)
        session.prepare(pair, 10.0)
        measured = []
        for number, (operation, runs) in enumerate(RUNS.items()):
            progress(f"{found.engine}: counters around {operation}", number / len(RUNS))
            queries, wholes, works = [], [], []
            for key in range(3):
                session.run(pair, Slot.A, operation, key, 30.0)
            asked, cpu = found.server.status("Questions"), process_cpu(found.server.pid)
            for place in range(runs):
                begun = time.perf_counter()
                done = session.run(pair, (Slot.A, Slot.B)[place % 2], operation, place // 2, 30.0)
                wholes.append(time.perf_counter() - begun)
                queries.append(done.duration)
                works.append(done.work)
            cpu, asked = process_cpu(found.server.pid) - cpu, found.server.status("Questions") - asked
            measured.append(
                Cost(
                    operation=operation.value,
                    runs=runs,
                    query=float(np.median(queries)),
                    run=float(np.median(wholes)),
                    query_cpu=_mean(work.cpu_seconds for work in works),
                    server_cpu=cpu / runs,
                    statements=asked / runs,
                    cold=_mean(None if work.blocks_read is None else float(work.blocks_read > 0) for work in works),
                )
            )
        return measured
    finally:
        session.close()


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


# -- what it says ------------------------------------------------------------------------------------------------------


def load_table(found: dict[str, Load]) -> str:
    limits, loads = BudgetSettings(), found.values()

    def size(value: float | None) -> str:
        return "–" if value is None else f"{value / GIB:.3f} GiB"

    def row(what: str, limit: str, cells: Iterable[str]) -> tuple[str, ...]:
        return (what, limit, *cells)

    def used(limit: float, value: float) -> str:
        return f"{value / limit:.0%} of the budget"

    operations = dict.fromkeys(name for one in loads for name in one.samples)
    rows = [
        row("time share of the canaries", f"{limits.time_share_ratio:.0%}", (f"{one.time_share:.3%}" for one in loads)),
        row("", "", (used(limits.time_share_ratio, one.time_share) for one in loads)),
        row("bytes read in an hour, exported", size(limits.bytes_read_per_hour), (size(one.exported_read) for one in loads)),
        row("", "", (used(limits.bytes_read_per_hour, one.exported_read) for one in loads)),
        row("bytes read in an hour, the server's count", "", (size(one.server_read) for one in loads)),
        row("bytes written in an hour, exported", size(limits.bytes_written_per_hour), (size(one.exported_written) for one in loads)),
        row("bytes written in an hour, the server's count", "", (size(one.server_written) for one in loads)),
        row("sessions, the server's count", f"{limits.sessions}", (f"{one.sessions}" for one in loads)),
        row("sessions, exported", "", (f"{one.exported_sessions * limits.sessions:.0f}" for one in loads)),
        row("CPU of the server with the canaries", "", (f"{one.server_cpu:.3%} of a core" for one in loads)),
        row("CPU of the server alone", "", (f"{one.idle_cpu:.3%} of a core" for one in loads)),
        row("CPU that the canaries cost the server", "", (f"{one.server_cpu - one.idle_cpu:.3%} of a core" for one in loads)),
        row("CPU of the exporter, serving", "", (f"{one.serving_cpu:.2%} of a core" for one in loads)),
        row("CPU of the exporter, probing", "", (f"{one.probing_cpu:.2%} of a core" for one in loads)),
        row("statements in a second", "", (f"{one.statements:.1f}" for one in loads)),
        *(
            row(f"samples in a minute, {name}", "", (f"{60 * one.samples.get(name, 0.0):.1f}" for one in loads))
            for name in operations
        ),
        row("turns left out for a budget", "", (f"{one.skipped:.0f} in {one.seconds:.0f} s" for one in loads)),
    ]  # fmt: skip
    return table(("", "budget", *found), rows, left=1)


def cost_table(found: dict[str, list[Cost]]) -> str:
    def micro(seconds: float | None) -> str:
        return "unknown" if seconds is None else f"{seconds * 1e6:.0f} µs"

    rows = [
        (
            f"{engine} {cost.operation}",
            f"{cost.runs}",
            "unknown" if cost.cold is None else f"{cost.cold:.0%}",
            micro(cost.query),
            micro(cost.run - cost.query),
            micro(cost.query_cpu),
            micro(None if cost.query_cpu is None else cost.server_cpu - cost.query_cpu),
            f"{cost.statements:.1f}",
        )
        for engine, some in found.items()
        for cost in some
    ]
    header = (
        "one run",
        "runs",
        "cold",
        "the query",
        "what surrounds it",
        "server CPU, query",
        "server CPU, rest",
        "statements",
    )
    return table(header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=240.0, help="that the canaries are watched on each server")
    parser.add_argument("--engines", nargs="+", choices=sorted(SERVERS), default=sorted(SERVERS))
    parser.add_argument("--bytes", type=int, default=DEFAULT_BYTES, help="size of each twin")
    parser.add_argument("--pool", type=int, default=POOL_MB, help="buffer pool of the servers in MiB")
    parser.add_argument("--prefer", action="store_true", help="run before all others on this machine (needs root)")
    arguments = parser.parse_args()
    begun = os.getloadavg()[0]
    loads, runs = dict[str, Load](), dict[str, list[Cost]]()
    for engine in arguments.engines:
        with watched(engine, arguments.bytes, arguments.pool) as found:
            if arguments.prefer:
                prefer(os.getpid(), found.server.pid)
            loads[engine] = load(found, arguments.seconds)
            runs[engine] = costs(found)
    progress.done()
    print(load_table(loads), "", cost_table(runs), sep="\n")
    print(f"\n{os.cpu_count()} cores; load average {begun:.2f} at the start, {os.getloadavg()[0]:.2f} at the end")


if __name__ == "__main__":
    main()
