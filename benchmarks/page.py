"""What a page costs by its number of series: rendering, size, scraping while it is rendered, and memory.

Each row is a process of its own, which serves scripted targets with an hour of observations in their windows. Its page is
rendered as often as it ever would be (a fifth of the time), and scraped by another process as fast as it answers.

    python benchmarks/page.py [--series 1000 5000 20000 50000] [--seconds 20]
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import dataclass

import numpy as np

from benchmarks.capacity import milliseconds, rss_bytes
from exporter.config.schema import Settings, WebSettings
from exporter.console import Progress, table
from exporter.domain.clock import SystemClock
from exporter.domain.model import (
    Burst,
    Operation,
    PairFacts,
    Phase,
    Sample,
    SeriesKey,
    Slot,
    TargetFacts,
    Tick,
    TwinFacts,
    Variant,
    Work,
)
from exporter.domain.states import EncryptionState, Keystore, KeystoreState
from exporter.engines.fake.settings import Target
from exporter.exposition.ledger import Ledger
from exporter.exposition.page import Renderer
from exporter.landing import landing
from exporter.overhead.blocks import Block, BlockSide
from exporter.overhead.sketch import LogSketch
from exporter.overhead.units import UnitPoint
from exporter.probing.messages import (
    CANARY,
    ENCRYPTION_STATE,
    BudgetsUsed,
    CollectorDone,
    PairChecked,
    StateRead,
    TargetReached,
    TickDone,
)
from exporter.web.routes import AppState
from exporter.web.server import WebServer, bind

OPERATIONS = (Operation.POINT_SELECT, Operation.FULL_SCAN, Operation.FULL_SCAN_COLD, Operation.INSERT_BATCH)
FACTS = TargetFacts("fake", "1", decrypt_unit="block", decrypt_source="counter", cpu_source="script", block_bytes=8192)
EPOCH = "one"


@dataclass(frozen=True)
class Row:
    """One number of series. Times in seconds, sizes in bytes."""

    targets: int
    series: int
    first: float
    render: float
    text: int
    gzip: int
    scrapes: list[float]
    rss: int
    rss_before: int


def pair_facts(pair: str) -> PairFacts:
    a, b = (TwinFacts(slot, slot is Slot.A, rows=200_000, rows_per_block=153.0, digest="d") for slot in Slot)
    return PairFacts(pair, Phase.ENABLED, a, b, EPOCH)


def burst(seconds: float, samples: int, decrypts: int) -> Burst:
    work = Work(seconds, None, 100, decrypts, 0)
    return Burst(tuple(Sample(place, seconds, seconds, 0.0, 0.0, work) for place in range(samples)))


def block(start: float, samples: int, seed: int) -> Block:
    """Five minutes of one series."""
    random = np.random.default_rng(seed)

    def side(seconds: float, decrypts: int) -> BlockSide:
        sketch = LogSketch()
        sketch.add(seconds * np.exp(random.normal(0.0, 0.2, samples)))
        return BlockSide(samples, 0, sketch, samples, seconds * samples, decrypts * samples, 0, 100 * samples)

    ticks = 30
    units = tuple(
        UnitPoint(start + 20.0 * place, float(random.normal(0.2, 0.05)), float(random.normal(0.2, 0.02)))
        for place in range(ticks // 2)
    )
    return Block(start, EPOCH, side(0.0012, 100), side(0.001, 0), units)


def say_all(ledger: Ledger, target: Target, clock: SystemClock, blocks: dict[Operation, list[Block]]) -> None:
    """Everything that a target says in an hour, as far as the page shows it."""
    name, pair = target.name, target.pairs[0].name
    for operation in target.canary_operations:
        for one in blocks[operation]:
            ledger.restore(SeriesKey(name, pair, operation), one)
    ledger.apply(TargetReached(name, FACTS, 1, 0.01), 0)
    ledger.apply(PairChecked(name, pair_facts(pair)), 0)
    keystore = Keystore("keys", KeystoreState.OPEN, kind="file", raw="open", key_activated=clock.wall())
    ledger.apply(StateRead(name, EncryptionState((keystore,), (("database", "encrypted", 1),))), 0)
    ledger.apply(CollectorDone(name, ENCRYPTION_STATE, 0.01, clock.wall()), 0)
    say_round(ledger, target, clock)


def say_round(ledger: Ledger, target: Target, clock: SystemClock) -> None:
    """One round of canaries."""
    pair = target.pairs[0].name
    for operation in target.canary_operations:
        samples = 20 if operation is Operation.POINT_SELECT else 1
        for first in Variant:
            tick = Tick(
                target.name, pair, operation, EPOCH, clock.wall(), first, burst(0.0012, samples, 100), burst(0.001, samples, 0)
            )  # fmt: skip
            ledger.apply(TickDone(tick), 0)
    used = dict.fromkeys(("time", "bytes_read", "bytes_written", "sessions"), 0.4)
    periods = {(pair, operation): 10.0 for operation in target.canary_operations}
    ledger.apply(BudgetsUsed(target.name, used, 10_000, 1000, periods), 0)
    ledger.apply(CollectorDone(target.name, CANARY, 0.01, clock.wall()), 0)


def settings_for(targets: int) -> Settings:
    made = tuple(Target(name=f"scripted-{number:04d}", operations=OPERATIONS) for number in range(targets))
    return Settings(targets=made, intervals={"canary": 3600.0, "encryption_state": 86400.0}, web={"max_series": 10**6})


def filled(targets: int, clock: SystemClock) -> tuple[Settings, Ledger, Renderer]:
    """A ledger that was told an hour of so many targets."""
    settings = settings_for(targets)
    ledger = Ledger(settings, clock)
    ledger.process_up(0, True)
    start = (clock.steady() // 300 - 12) * 300
    blocks = {
        operation: [block(start + 300 * n, 600 if operation is Operation.POINT_SELECT else 30, n) for n in range(12)]
        for operation in OPERATIONS
    }
    for target in settings.targets:
        assert isinstance(target, Target)
        say_all(ledger, target, clock, blocks)
    return settings, ledger, Renderer(ledger.view, clock, settings.web.max_series, stale_after=3600.0)


def targets_for(series: int) -> int:
    """How many targets make that many series, by the pages of one and of two."""
    few, more = (filled(targets, SystemClock())[2].render_once().series for targets in (1, 2))
    return max(1, round((series - few) / (more - few)) + 1)


def one(series: int, seconds: float) -> Row:
    """Measure with as many targets as make about `series`."""
    targets = targets_for(series)
    gc.collect()
    before = rss_bytes(os.getpid())
    clock = SystemClock()
    settings, ledger, renderer = filled(targets, clock)
    begun = time.monotonic()
    # A view makes summaries for a bounded time; it takes several until all are there.
    while any(each.summary is None for t in ledger.view().targets for pair in t.pairs for each in pair.series):
        pass
    first, times = time.monotonic() - begun, []
    for _ in range(5):
        begun = time.monotonic()
        page = renderer.render_once()
        times.append(time.monotonic() - begun)
    scrapes = sorted(_scraped(renderer, ledger, clock, settings, seconds))
    return Row(
        targets=targets,
        series=page.series,
        first=first,
        render=statistics.median(times),
        text=len(page.text),
        gzip=len(page.text_gzip),
        scrapes=scrapes,
        rss=rss_bytes(os.getpid()),
        rss_before=before,
    )


def _scraped(renderer: Renderer, ledger: Ledger, clock: SystemClock, settings: Settings, seconds: float) -> list[float]:
    """Serve and render for a while; seconds that each scrape of another process took."""
    state = AppState(
        pages=renderer,
        healthy=lambda: (True, ""),
        ready=lambda: (True, ""),
        landing=lambda: landing(ledger.view(), 0.0, clock.wall()),
    )
    web = WebServer(state, WebSettings(), bind("127.0.0.1", 0))
    stopping = threading.Event()

    def rounds() -> None:
        number = 0
        while not stopping.wait(0.02):
            target = settings.targets[number % len(settings.targets)]
            assert isinstance(target, Target)
            say_round(ledger, target, clock)
            renderer.changed()
            number += 1

    web.start()
    renderer.start()
    threading.Thread(target=rounds, daemon=True).start()
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[list[float]] = context.Queue()
    scraper = context.Process(target=scrape, args=(f"{web.url}/metrics", seconds, results))
    scraper.start()
    taken = results.get(timeout=seconds + 120)
    scraper.join()
    stopping.set()
    renderer.stop(10.0)
    web.stop()
    return taken


def scrape(url: str, seconds: float, results: multiprocessing.Queue[list[float]]) -> None:
    """Scrape again and again as Prometheus does: compressed, and with a pause as between scrapers."""
    taken, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})
        begun = time.monotonic()
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()
        taken.append(time.monotonic() - begun)
        time.sleep(0.02)
    results.put(taken)


def line(row: Row) -> tuple[str, ...]:
    def at(quantile: float) -> str:
        return milliseconds(row.scrapes[min(len(row.scrapes) - 1, int(quantile * len(row.scrapes)))])

    return (
        f"{row.series}",
        f"{row.targets}",
        f"{row.render * 1e3:.0f} ms",
        f"{row.first:.1f} s",
        f"{row.text / 2**20:.2f} MiB",
        f"{row.gzip / 1024:.0f} KiB",
        at(0.5),
        at(0.99),
        milliseconds(row.scrapes[-1]),
        f"{row.rss / 2**20:.0f} MiB",
        f"{(row.rss - row.rss_before) / row.series / 1024:.1f} KiB",
    )


HEADER = (
    "series", "targets", "render", "all summaries", "page", "gzip", "scrape p50", "scrape p99", "slowest", "memory", "per series"
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, nargs="+", default=[1000, 5000, 20_000, 50_000])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--json", action="store_true", help="measure here and print JSON (one number of series)")
    arguments = parser.parse_args()
    if arguments.json:
        print(json.dumps(one(arguments.series[0], arguments.seconds).__dict__))
        return
    progress, rows = Progress(), []
    for number, series in enumerate(arguments.series):
        progress(f"measuring {series} series", number / len(arguments.series))
        command = [sys.executable, __file__, "--json", "--series", str(series), "--seconds", str(arguments.seconds)]
        rows.append(Row(**json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)))
    progress.done()
    print(table(HEADER, [line(row) for row in rows]))


if __name__ == "__main__":
    main()
