"""Whether the exporter disturbs what it measures.

P99 of point_select on a local MariaDB: measured by an exporter that has no other target and that nobody scrapes, and by
one that probes many scripted targets besides and whose page is scraped every second. Both take turns: each round starts
the one and the other, in an order that changes from round to round, and measures for some seconds after each has settled.
A round gives one ratio; all of them give the estimate and its interval (Hodges-Lehmann), so that a round in which
somebody else used the machine counts as one round and no more. The null canary, which times a system call in place of a
query, shows the noise floor of both.

    python benchmarks/self_disturbance.py [--rounds 12] [--seconds 40] [--targets 100]
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import capacity
from benchmarks.provisioned import NAME, Running, Watched, machine_cpu, prefer, process_cpu, running, watched
from benchmarks.recording import recorded
from exporter.console import Progress, table
from exporter.domain.model import CONTENDED, Operation, Variant
from exporter.overhead.hodges_lehmann import hodges_lehmann
from exporter.overhead.percentiles import percentile
from exporter.overhead.ratio import Ratio

MIB = 2**20
DEMANDED = 1.2
SETTLE_SECONDS = 8.0


@dataclass
class Phase:
    """What one exporter measured in its turn; times in seconds."""

    samples: list[float]
    noise: list[float]
    contended: int
    cpu: dict[str, float]
    machine_busy: float
    scrapes: list[float]


@dataclass
class Condition:
    """All turns of one of the two exporters."""

    phases: list[Phase] = field(default_factory=list)

    def all(self, what: str) -> list[float]:
        return [value for phase in self.phases for value in getattr(phase, what)]

    def mean_cpu(self, process: str) -> float | None:
        shares = [phase.cpu[process] for phase in self.phases if process in phase.cpu]
        return float(np.mean(shares)) if shares else None


def configuration(found: Watched, targets: int, canary: str) -> dict[str, Any]:
    """MariaDB first, then scripted targets with their default interval."""
    # One tick of forty queries a second is more than the budgets of a target allow; the interval is short, so that a
    # few minutes hold enough samples for a P99.
    own = found.target(
        operations=["point_select"], intervals={"canary": canary}, budgets={"time_share_ratio": 1.0, "sessions": 10}
    )
    scripted: Any = capacity.settings(targets, "10s")["targets"]
    return {"targets": [own, *scripted]}


@contextmanager
def scraped(url: str, scrapes: list[float]) -> Iterator[None]:
    """Scrape the page every second for as long as the block lasts."""
    stopping = threading.Event()

    def work() -> None:
        while not stopping.wait(1.0):
            begun = time.monotonic()
            capacity.scrape(url)
            scrapes.append(time.monotonic() - begun)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


def measure(settings: dict[str, Any], seconds: float, scrape: bool) -> Phase:
    """One turn: start, settle, measure, stop."""
    with tempfile.TemporaryDirectory() as directory:
        file, scrapes = Path(directory) / "samples", list[float]()
        with running(settings, ("benchmarks.recording",), (NAME, str(file))) as exporter:
            if scrape:
                with scraped(exporter.url, []):
                    time.sleep(SETTLE_SECONDS)
                with scraped(exporter.url, scrapes):
                    begun, cpu, busy, ended = watch(exporter, seconds)
            else:
                time.sleep(SETTLE_SECONDS)
                begun, cpu, busy, ended = watch(exporter, seconds)
        ticks, noise = recorded(file, Operation.POINT_SELECT, begun, ended)
    good = [tick for tick in ticks if tick["dropped"] is None]
    samples = [seconds for tick in good for variant in Variant for seconds in tick[variant]]
    contended = sum(tick["dropped"] == CONTENDED for tick in ticks)
    if len(ticks) > len(good) + contended or math.inf in samples:
        raise SystemExit("canary queries failed; nothing can be compared")
    return Phase(samples, noise, contended, cpu, busy, scrapes)


def watch(exporter: Running, seconds: float) -> tuple[float, dict[str, float], float, float]:
    """When it began (Unix time), the CPU of each process and of the machine meanwhile, as shares of a core, and the end."""
    pids = {"serving process": exporter.pid}
    pids |= {f"probe process {number}": pid for number, pid in enumerate(capacity.descendants(exporter.pid))}
    before, (busy, had), begun = {name: process_cpu(pid) for name, pid in pids.items()}, machine_cpu(), time.time()
    time.sleep(seconds)
    ended = time.time()
    took = ended - begun
    cpu = {name: (process_cpu(pid) - before[name]) / took for name, pid in pids.items()}
    busy_now, had_now = machine_cpu()
    return begun, cpu, (busy_now - busy) / (had_now - had), ended


def rounds(found: Watched, arguments: argparse.Namespace) -> tuple[Condition, Condition]:
    """Let both take turns: alone, loaded, loaded, alone, …"""
    alone, loaded, progress = Condition(), Condition(), Progress()
    turns = {
        "alone": (alone, configuration(found, 0, arguments.canary), False),
        "loaded": (loaded, configuration(found, arguments.targets, arguments.canary), True),
    }
    for number in range(arguments.rounds):
        names = list(turns) if number % 2 == 0 else list(turns)[::-1]
        for place, name in enumerate(names):
            progress(f"round {number + 1} of {arguments.rounds}, {name}", (number + place / 2) / arguments.rounds)
            condition, settings, scrape = turns[name]
            condition.phases.append(measure(settings, arguments.seconds, scrape))
        if arguments.verbose:
            print(f"round {number + 1}: {', '.join(map(told, (alone, loaded)))}", flush=True)
    progress.done()
    return alone, loaded


def told(condition: Condition) -> str:
    """The last turn in a few words."""
    phase = condition.phases[-1]
    return f"p99 {quantile(phase.samples, 99) * 1e3:.3f} ms, machine {phase.machine_busy:.0%} busy"


# -- what it says --------------------------------------------------------------------------------------------------


def quantile(values: Sequence[float], percent: float) -> float:
    found = percentile(np.asarray(values), percent)
    return math.nan if found is None else found


def ratio(alone: Condition, loaded: Condition, what: str, percent: float) -> Ratio | None:
    """Loaded / alone with its interval, from one ratio for each round."""
    return hodges_lehmann(
        [
            math.log(quantile(getattr(second, what), percent) / quantile(getattr(first, what), percent))
            for first, second in zip(alone.phases, loaded.phases, strict=True)
        ]
    )


def worded(found: Ratio | None) -> str:
    if found is None or found.estimate is None:
        return "unknown"
    if found.lower is None or found.upper is None:
        return f"{found.estimate:.2f} (too few rounds for an interval)"
    return f"{found.estimate:.2f} [{found.lower:.2f} … {found.upper:.2f}]"


def report(alone: Condition, loaded: Condition, targets: int) -> str:
    both = (alone, loaded)
    rows = []
    for name, what in (("point_select", "samples"), ("null canary", "noise")):
        for percent in (50, 90, 99):
            times = [f"{quantile(condition.all(what), percent) * 1e3:.4f} ms" for condition in both]
            rows.append((f"{name} p{percent}", *times, worded(ratio(alone, loaded, what, percent))))
        rows.append((f"{name} samples", *(f"{len(condition.all(what))}" for condition in both), ""))
    rows.append(("contended ticks", *(f"{sum(p.contended for p in condition.phases)}" for condition in both), ""))
    for process in ("serving process", "probe process 0", "probe process 1"):
        shares = [condition.mean_cpu(process) for condition in both]
        rows.append((f"CPU, {process}", *("–" if share is None else f"{share:.1%} of a core" for share in shares), ""))
    busy = [np.mean([phase.machine_busy for phase in condition.phases]) for condition in both]
    rows.append(("CPU, whole machine", *(f"{share:.0%} of all cores" for share in busy), ""))
    for percent in (50, 99):
        took = quantile(loaded.all("scrapes"), percent)
        rows.append((f"scrape time p{percent}", "not scraped", f"{took * 1e3:.1f} ms", ""))
    header = ("", "alone", f"{targets} targets, scraped each second", "ratio of rounds [95 %]")
    return table(header, rows)


def verdict(alone: Condition, loaded: Condition) -> str:
    found = ratio(alone, loaded, "samples", 99)
    judged = "nothing can be said"
    if found is not None and found.lower is not None and found.upper is not None and found.estimate is not None:
        if found.upper <= DEMANDED:
            judged = "met"
        elif found.lower > DEMANDED:
            judged = "NOT met"
        else:
            judged = f"{'met' if found.estimate <= DEMANDED else 'NOT met'} by the estimate, undecided by its interval"
    return (
        f"P99 of point_select, loaded / alone: {worded(found)}, {len(alone.phases)} rounds;"
        f" at most {DEMANDED} is demanded: {judged}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=40.0, help="that each exporter measures in a round")
    parser.add_argument("--targets", type=int, default=100, help="scripted targets of the loaded exporter")
    parser.add_argument("--canary", default="1s", help="interval of the canaries on MariaDB")
    parser.add_argument("--bytes", type=int, default=64 * MIB, help="size of each twin")
    parser.add_argument("--pool", type=int, default=16, help="buffer pool of the server in MiB; smaller than the twins")
    parser.add_argument("--prefer", action="store_true", help="run before all others on this machine (needs root)")
    parser.add_argument("--verbose", action="store_true", help="print each round")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    with watched("mariadb", arguments.bytes, arguments.pool) as found:
        if arguments.prefer:
            prefer(os.getpid(), found.server.pid)
        alone, loaded = rounds(found, arguments)
    print(report(alone, loaded, arguments.targets))
    print(verdict(alone, loaded))
    print(f"{os.cpu_count()} cores; load average {load:.2f} at the start, {os.getloadavg()[0]:.2f} at the end")


if __name__ == "__main__":
    main()
