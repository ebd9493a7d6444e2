"""What the statistics of one series cost, side by side in one run.

    python benchmarks/statistics_cost.py [--samples 7200] [--rounds 30]

Prints the median and the worst wall time of each update for a full window (one hour, `samples` on
each side, 20 samples a tick). CPU-bound, one thread; on a busy machine compare lines of one run only.

The module is not called `statistics`: a script's folder comes first on the import path, and would
hide the standard library's module of that name from every benchmark beside it.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

from exporter.domain.model import Burst, Operation, Sample, Tick, Variant, Work
from exporter.overhead.dither import dither
from exporter.overhead.hodges_lehmann import hodges_lehmann
from exporter.overhead.percentiles import percentiles
from exporter.overhead.pex import paired_exceedance
from exporter.overhead.sketch import LogSketch
from exporter.overhead.windows import SeriesWindow

START = 1_800_000_000.0
SIZE = 20
Row = tuple[str, float, float]


def measure(name: str, rounds: int, run: Callable[[], object], before: Callable[[], object] = lambda: None) -> Row:
    """(name, median, worst) in milliseconds; `before` is not timed."""
    took = []
    for _ in range(rounds):
        before()
        started = time.perf_counter()
        run()
        took.append(1e3 * (time.perf_counter() - started))
    return name, float(np.median(took)), max(took)


def side(random: np.random.Generator, count: int) -> NDArray[np.float64]:
    """Log durations: cached reads of 0.25 ms, 3 % misses of 2 ms."""
    hits, misses = random.normal(math.log(0.25e-3), 0.25, count), random.normal(math.log(2e-3), 0.5, count)
    return np.where(random.random(count) < 0.03, misses, hits)


def ticks(count: int, size: int) -> Iterator[tuple[float, Tick]]:
    """One hour of ticks."""
    random = np.random.default_rng(2)
    work = Work(0.0003, None, 1, 8, 0)
    for place in range(count):
        bursts = [
            Burst(tuple(Sample(0, duration, work=work) for duration in np.exp(side(random, size) + shift).tolist()))
            for shift in (math.log(1.2), 0.0)
        ]
        first = (Variant.ENCRYPTED, Variant.PLAIN)[place % 2]
        at = START + 3600.0 * place / count
        yield at, Tick("t", "p", Operation.POINT_SELECT, "e", at, first, bursts[0], bursts[1])


class Stream:
    """A window with an hour in it, and the ticks of the hour after."""

    def __init__(self, count: int, size: int) -> None:
        self.window, self.now = SeriesWindow(), START + 3599.9
        stream = list(ticks(2 * count, size))
        for place, (_, tick) in enumerate(stream[:count]):
            self.window.add(tick, START + 3600.0 * place / count)
        self._rest = iter(
            [(START + 3600.0 + 3600.0 * place / count, tick) for place, (_, tick) in enumerate(stream[count:])]
        )
        self._per_block = count // 12

    def add(self) -> None:
        self.now, tick = next(self._rest)
        self.window.add(tick, self.now)

    def add_block(self) -> None:
        for _ in range(self._per_block):
            self.add()

    def summary(self) -> object:
        return self.window.summary(self.now)


def estimators(samples: int, rounds: int) -> Iterator[Row]:
    random = np.random.default_rng(1)
    encrypted, plain = side(random, samples) + math.log(1.2), side(random, samples)
    blocks = np.repeat(np.arange(12), -(-samples // 12))[:samples]
    for percent in (50, 95, 99):
        run = partial(paired_exceedance, encrypted, blocks, plain, blocks, percent / 100)
        yield measure(f"paired exceedance p{percent}, {samples} per side", rounds, run)
    yield measure(f"coarse-clock check, {samples} per side", rounds, partial(dither, encrypted, plain))
    for units in (12, 60, 180):
        logs = random.normal(0.2, 0.1, units).tolist()
        yield measure(f"Hodges-Lehmann, {units} units", rounds, partial(hodges_lehmann, logs))
    yield measure(f"percentiles 50 and 99 of {samples}", rounds, partial(percentiles, plain, (50, 99)))
    sketch = LogSketch()
    yield measure("sketch: add 600", rounds, partial(sketch.add, np.exp(plain[:600])))
    yield measure("sketch: to bytes and back", rounds, lambda: LogSketch.from_bytes(sketch.to_bytes()))
    yield measure(f"sketch: expand {sketch.count}", rounds, sketch.expand)


def windows(samples: int, rounds: int) -> Iterator[Row]:
    count = samples // SIZE
    for name, size in (("bursts of 20", SIZE), ("single samples", 1)):
        stream = Stream(count, size)
        yield measure(f"{name}: first summary of a full window", 1, stream.summary)
        yield measure(f"{name}: summary, nothing new", rounds, stream.summary)
        yield measure(f"{name}: add a tick", min(rounds, count), stream.add)
        yield measure(f"{name}: blocks for the history, unchanged", rounds, stream.window.blocks)
        stream = Stream(count, size)
        stream.add()
        stream.summary()
        # Half a block at most, so that none closes.
        yield measure(f"{name}: summary after a tick", min(rounds, count // 24), stream.summary, stream.add)
        stream = Stream(count, size)
        yield measure(f"{name}: summary after a block closed", 10, stream.summary, stream.add_block)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=7200, help="samples per side in a full window")
    parser.add_argument("--rounds", type=int, default=30, help="how often each update is timed")
    given = parser.parse_args()
    print(f"{'update':<48} {'median ms':>10} {'worst ms':>10}")
    for rows in (estimators(given.samples, given.rounds), windows(given.samples, given.rounds)):
        for name, median, worst in rows:
            print(f"{name:<48} {median:>10.3f} {worst:>10.3f}", flush=True)


if __name__ == "__main__":
    main()
