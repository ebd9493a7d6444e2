"""The tests' own watch: it counts what is slept and worked, and leaves out what others took of the processor."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path

from tests.stopwatch import Stopwatch


def test_what_is_slept_counts() -> None:
    watch = Stopwatch()
    threading.Event().wait(0.2)
    assert watch.passed >= 0.2
    assert watch.seconds > 0.15


CROWDED = """
import json, os, subprocess, sys, time
from tests.stopwatch import Stopwatch

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
others = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(3)]
try:
    watch, begun = Stopwatch(), time.thread_time()
    while time.thread_time() - begun < 0.2 or watch.passed < 0.6:
        pass
    print(json.dumps([time.thread_time() - begun, watch.passed, watch.seconds]))
finally:
    for other in others:
        other.kill()
        other.wait()
"""


def test_what_others_take_of_the_processor_does_not(root: Path) -> None:
    """One processor for a process and three that always want it. In this one, other threads would wait as well."""
    ran = subprocess.run(
        [sys.executable, "-c", CROWDED], cwd=root, capture_output=True, text=True, check=True, timeout=60
    )
    worked, passed, seconds = json.loads(ran.stdout)
    assert seconds < (worked + passed) / 2
    assert seconds > 0.5 * worked
