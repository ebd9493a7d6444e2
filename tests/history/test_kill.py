"""Killed while saving, again and again: what was acknowledged is there, and nothing is half there."""

from __future__ import annotations

import math
import os
import random
import select
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from pathlib import Path

from exporter.domain.clock import SystemClock
from exporter.history.store import History

SERIES = 8

# Each child process saves one transaction after the other, and says the number of each when it is done.
# One parent forks them all, so that the interpreter starts only once.
WRITER = """
import os, sys
from pathlib import Path
import numpy as np
from exporter.domain.clock import SystemClock
from exporter.domain.events import Event, EventKind
from exporter.domain.model import Operation, SeriesKey
from exporter.history.records import State, StateKey
from exporter.history.store import History
from exporter.overhead.sketch import LogSketch
from exporter.overhead.windows import Block, BlockSide

def write(number):
    history = History.open(Path(sys.argv[1]), 1e10, SystemClock())
    while True:
        sketch = LogSketch()
        sketch.add(np.full(50, 1e-3 + number * 1e-9))
        side = BlockSide(50, 0, sketch)
        block = Block(300.0 * number, f"e{number}", side, side)
        keys = [SeriesKey(f"t{n}", "p", Operation.FULL_SCAN) for n in range(int(sys.argv[2]))]
        history.save_blocks((key, block) for key in keys)
        events = [Event("t0", float(number), EventKind.OTHER, "")]
        history.records.record(events, {StateKey("watch", "t0"): State(1, str(number).encode())})
        if number % 7 == 0:
            history.prune()
        os.write(1, f"{number}\\n".encode())
        number += 1

for line in sys.stdin:
    child = os.fork()
    if child == 0:
        write(int(line))
    os.write(1, f"child {child}\\n".encode())
    os.waitpid(child, 0)
    os.write(1, b"gone\\n")
"""


def read_line(writer: subprocess.Popen[bytes]) -> str:
    assert writer.stdout is not None
    line = writer.stdout.readline().decode()
    assert line, "the writer ended"
    return line.strip()


def kill_soon(pid: int, writer: subprocess.Popen[bytes], delay: float) -> int:
    """Kill `pid` after `delay` seconds of work; the last number that it acknowledged."""
    assert writer.stdout is not None
    last = int(read_line(writer))  # It is at work.
    select.select([], [], [], delay)
    os.kill(pid, signal.SIGKILL)
    while (line := read_line(writer)) != "gone":
        last = int(line)
    return last


def test_twenty_kills_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    delays = random.Random(5)
    number = 0
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(SERIES)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdin is not None
        for _ in range(20):
            writer.stdin.write(f"{number}\n".encode())
            writer.stdin.flush()
            acknowledged = kill_soon(int(read_line(writer).removeprefix("child ")), writer, delays.uniform(0, 0.03))

            connection = sqlite3.connect(path)
            assert connection.execute("PRAGMA quick_check").fetchone()[0] == "ok"
            connection.close()
            history = History.open(path, 1e10, SystemClock())
            # Blocks this old are joined to hours now and then; each has an epoch of its own, and so stays apart.
            counts = Counter(part.block.epoch for _, part in history.load_span(-1.0, math.inf))
            events = sorted(event.at for event in history.records.events("t0"))
            states = [int(state.body) for state in history.records.states("watch").values()]
            history.close()

            assert set(counts.values()) == {SERIES}  # All or none of each transaction.
            saved = len(counts)
            assert set(counts) == {f"e{n}" for n in range(saved)}
            # The last one may have been stored without being acknowledged any more.
            assert saved - 1 in (acknowledged, acknowledged + 1)
            # An event and the state that knows of it are one transaction, after that of the blocks.
            assert set(range(number, acknowledged + 1)) <= set(events) <= set(range(saved))
            assert states == [events[-1]]
            number = saved
        writer.stdin.close()
    assert [file.name for file in tmp_path.iterdir() if "damaged" in file.name] == []
