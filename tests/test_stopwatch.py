"""The tests' own watch: it counts what is slept and worked, and leaves out what others took of the processor."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from tests.stopwatch import Stopwatch


@pytest.fixture
def crowded() -> Iterator[None]:
    """One processor for this thread and three that always want it."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    # They inherit the processor.
    others = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(3)]
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)
        for other in others:
            other.kill()
            other.wait()


def test_what_is_slept_counts() -> None:
    watch = Stopwatch()
    threading.Event().wait(0.2)
    assert watch.passed >= 0.2
    assert watch.seconds > 0.15


@pytest.mark.usefixtures("crowded")
def test_what_others_take_of_the_processor_does_not() -> None:
    watch, begun = Stopwatch(), time.thread_time()
    while time.thread_time() - begun < 0.2 or watch.passed < 0.6:
        pass
    worked = time.thread_time() - begun
    assert watch.seconds < (worked + watch.passed) / 2
    assert watch.seconds > 0.5 * worked
