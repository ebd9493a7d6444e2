"""How honest the verdicts are: coverage of the intervals, false alarms in a month, and time to detection, by simulation.

    python benchmarks/evidence.py [--long] [--only cost,coverage,levels,alarms,delays,critical,units] [--seed 1]

All rules of a table see the same samples, of the worlds in `worlds.py`. The short form takes a minute or two and shows
the picture; the long one has 84 days in each cell and 40 runs for each delay. The naive rules are those that people
write: the 99th percentile of the last minutes above 1.2 times that of a baseline, or of the plain twin.
"""

from __future__ import annotations

import argparse
import math
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchmarks import worlds
from benchmarks.alarm_rules import DAY, RULES, Sequential, scans, simulate, stream
from benchmarks.interval_coverage import PERCENTS, hourly_blocks, in_the_long_run, of_an_hour
from benchmarks.worlds import World
from exporter.console import table
from exporter.overhead.evidence import Detector, for_bursts
from exporter.overhead.series_evidence import SeriesEvidence
from exporter.overhead.verdict import Verdict
from exporter.overhead.window_day import DayWindow

_HOUR_TICKS = 360
_LEAD = 2 * 3600.0
"""Seconds at a ratio of 1.05 before a step."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is simulated."""

    windows: int
    targets: int
    days: int
    runs: int


SHORT, LONG = Scale(100, 1, 14, 10), Scale(600, 12, 84, 40)


def cost(_scale: Scale, seed: int) -> None:
    random, ticks = np.random.default_rng(seed), 8 * _HOUR_TICKS
    path = worlds.path(worlds.MONTH, ticks, random)
    logs = worlds.samples(path, 0, ticks, worlds.SIZE, 1.3, random).astype(np.float32)

    def pool(place: int) -> tuple[worlds.Floats, worlds.Floats]:
        # In as many pieces as a window has.
        pieces = np.array_split(logs[:, max(0, place - _HOUR_TICKS) : place + 1], 13, axis=1)
        encrypted, plain = (np.concatenate([piece[side].ravel() for piece in pieces]) for side in (0, 1))
        return encrypted, plain

    def evidence_of(count: int, detectors: Sequence[Detector]) -> tuple[SeriesEvidence, float]:
        evidence, took = SeriesEvidence(detectors), 0
        for place in range(count):
            begun = time.process_time_ns()
            evidence.add_logs(logs[0, place], logs[1, place], worlds.TICK * place, partial(pool, place))
            took += time.process_time_ns() - begun
        return evidence, took * 1e-9

    def day() -> DayWindow:
        found = DayWindow()
        for hour in range(25):
            for block in hourly_blocks(hour, logs[:, :_HOUR_TICKS].astype(np.float64)):
                found.add(block)
        return found

    def column(detectors: Sequence[Detector]) -> tuple[str, ...]:
        _, seconds = evidence_of(ticks, detectors)
        updates = sum(worlds.TICK / max(worlds.TICK, detector.block) for detector in detectors) * ticks
        names = [detector.name for detector in detectors]
        memory = _memory(lambda: (evidence_of(_HOUR_TICKS, detectors), Verdict(names)))
        return f"{1e6 * seconds / updates:.1f} ms", f"{1e3 * seconds / ticks * 8640:.0f} ms", f"{memory:.1f} KiB"

    plain = for_bursts()
    both = column(plain), column((*plain, *for_bursts(critical=None, reference="baseline", reference_ratio=1.05)))
    says = (
        "CPU of 1 000 updates, with the pools they need",
        "CPU of all updates of a series in a day",
        "memory: evidence and verdict",
    )
    rows = [*zip(says, *both, strict=True), ("memory: a day of sketches", f"{_memory(day):.1f} KiB", "the same")]
    show("Cost", ["one series, 20 samples of each side every ten seconds", "twins", "and a baseline"], rows)


def _memory(make: Callable[[], object]) -> float:
    """KiB that what `make` gives keeps."""
    tracemalloc.start()
    try:
        kept = make()
        before = tracemalloc.get_traced_memory()[0]
        del kept
        return (before - tracemalloc.get_traced_memory()[0]) / 1024
    finally:
        tracemalloc.stop()


def coverage(scale: Scale, seed: int) -> None:
    header = ["an hour, 7200 of each side"]
    header += [f"p{percent} ±%" for percent in PERCENTS] + [f"p{percent}, sketches" for percent in PERCENTS]
    header += ["bootstrap p50", "p99"]
    rows = []
    for world in worlds.SHORT_WORLDS:
        rows.append(of_an_hour(world, scale.windows, seed))
        print(".", end="", flush=True)
    show(f"Per cent of nominal 95 % intervals that cover the ratio of the window ({scale.windows} each)", header, rows)


def levels(scale: Scale, seed: int) -> None:
    rows = in_the_long_run(scale.targets, seed)
    title = f"Coverage of the ratio in the long run, which wanders by 2.8 % ({scale.targets} targets, a week each)"
    show(title, ["window", "second level", "covers", "±"], rows)


def alarms(scale: Scale, seed: int) -> None:
    cells: list[tuple[World, float]] = [(worlds.MONTH, ratio) for ratio in (1.0, 1.1, 1.15, 1.2)]
    cells += [(worlds.STEADY_MONTH, 1.2), (worlds.HOSTILE, 1.1), (worlds.VERY_HOSTILE, 1.1)]
    runs = []
    for world, ratio in cells:
        runs.append(simulate(world, _always(ratio), scale.days, seed))
        print(".", end="", flush=True)
    header = [
        "true ratio",
        *(f"{'' if world is worlds.MONTH else world.name + ' '}{ratio:.2f}" for world, ratio in cells),
    ]
    rows = [(rule, *(_number(run.alarms(rule)) for run in runs)) for rule in RULES]
    rows.append(("share of time boosted", *(f"{100 * run.boosted / run.days / 1440:.2f} %" for run in runs)))
    show(f"Alarms in 30 days ({scale.days} days in each cell)", header, rows)


def delays(scale: Scale, seed: int) -> None:
    header, columns = ["minutes, median / p90"], []
    half = max(6, scale.runs // 2)
    for ratio, days, count in ((1.25, 1.0, half), (1.3, 1.0, half), (1.5, 0.5, scale.runs), (2.0, 0.25, scale.runs)):
        runs = [
            simulate(worlds.MONTH, _step(ratio), days + _LEAD / DAY, seed + 100 + number, _LEAD)
            for number in range(count)
        ]
        header.append(f"+{100 * ratio - 100:.0f} % ({count} runs)")
        columns.append(runs)
        print(".", end="", flush=True)
    rows = [(rule, *(_delay([run.delay(rule) for run in runs]) for runs in columns)) for rule in RULES]
    show("Time to detection after a step from 1.05", header, rows)


def critical(scale: Scale, seed: int) -> None:
    rows, days = [], scale.days / 2
    for ratio in (1.0, 1.5):
        fired = _critical(worlds.VERY_HOSTILE, _always(ratio), days, seed, last=True)
        rows.append((f"{ratio:.1f}, very hostile, {days:.0f} days", f"{len(fired)} alarms"))
        print(".", end="", flush=True)
    for ratio in (3.0, 5.0, 10.0):
        found = [
            min(_critical(worlds.MONTH, _step(ratio), 0.25, seed + number, last=False), default=math.inf)
            for number in range(max(6, scale.runs // 2))
        ]
        rows.append((f"{ratio:.0f}, month, with boost", f"{_delay([at - _LEAD / 60 for at in found])} min"))
        print(".", end="", flush=True)
    show("The critical threshold 2.0, tick by tick", ["true ratio", "alarms, or time to detection"], rows)


def units(scale: Scale, seed: int) -> None:
    """Operations that are measured once in a tick."""
    rows = []
    for every in (10.0, 60.0, 600.0):
        cells = []
        for ratio in (1.1, 1.15, 1.2):
            fired = scans(worlds.MONTH, _always(ratio), scale.days, seed, every, 0.1)
            cells.append(_number(30 * sum(name.threshold < 2.0 for _, name in fired) / scale.days))
        for ratio, threshold in ((1.3, 1.2), (1.5, 1.2), (2.0, 1.2), (3.0, 2.0)):
            found = [
                next(
                    (
                        (at - _LEAD) / 60
                        for at, name in scans(worlds.MONTH, _step(ratio), 2.0, seed + 100 + number, every, 0.1)
                        if name.threshold == threshold and at > _LEAD
                    ),
                    math.inf,
                )
                for number in range(max(6, scale.runs // 2))
            ]
            cells.append(_delay(found))
        rows.append((f"{every:.0f} s", *cells))
        print(".", end="", flush=True)
    header = ["a scan of each side every", *(f"alarms in 30 days at {ratio}" for ratio in ("1.10", "1.15", "1.20"))]
    header += ["minutes to +30 %", "+50 %", "+100 %", "+200 %, threshold 2.0"]
    show("Scans, judged by their units, which scatter by 10 %", header, rows)


def _critical(world: World, ratio: Callable[[float], float], days: float, seed: int, *, last: bool) -> list[float]:
    """Minutes at which the critical detector fired: all of them, or the first after the lead."""
    sequential, fired = Sequential((99,), critical=2.0), []
    for minute in stream(world, ratio, days, seed, lambda: not last and sequential.boost_wanted):
        if any(name.threshold == 2.0 for name in sequential.add_ticks(minute.at, minute.full)):
            fired.append(minute.at / 60 + 1)
            if not last and minute.at > _LEAD:
                return [fired[-1]]
    return fired if last else []


def _always(ratio: float) -> Callable[[float], float]:
    return lambda _at: ratio


def _step(ratio: float) -> Callable[[float], float]:
    return lambda at: ratio if at >= _LEAD else 1.05


def _number(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"


def _delay(minutes: Sequence[float]) -> str:
    middle, late = np.quantile(minutes, (0.5, 0.9), method="higher")
    return " / ".join(f"{value:.0f}" if math.isfinite(value) else "–" for value in (middle, late))


def show(title: str, header: Sequence[str], rows: Sequence[tuple[str, ...]]) -> None:
    print(f"\n{title}\n\n{table(header, rows)}", flush=True)


SECTIONS: dict[str, Callable[[Scale, int], None]] = {
    "cost": cost,
    "coverage": coverage,
    "levels": levels,
    "alarms": alarms,
    "delays": delays,
    "critical": critical,
    "units": units,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true", help="84 days in each cell instead of 14, and so on")
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, separated by commas")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    for name in arguments.only.split(","):
        begun = time.perf_counter()
        SECTIONS[name](LONG if arguments.long else SHORT, arguments.seed)
        print(f"\n({name} took {time.perf_counter() - begun:.0f} s)\n", flush=True)


if __name__ == "__main__":
    main()
