"""The benchmark of many targets works, and the page on sizing says what its formula says."""

import math
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import scale_model
from benchmarks.scale_model import FULL, needs, processes_for, reference, shortest_tick

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "scale.md").read_text()


@pytest.mark.timeout(120)
def test_a_few_scripted_servers_are_measured():
    """Real driver, real engine, real processes: each tick of each server counts, or it would not come to an end."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.scale",
        "--targets",
        "3",
        "--ticks",
        "1",
        "--seconds",
        "3",
        "--ticks-only",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)

    assert done.returncode == 0, done.stderr
    (row,) = (line.split() for line in done.stdout.splitlines() if line.startswith("3 ") and " ms " in line)
    assert row[:1] + row[2:4] == ["3", "1", "s"]
    assert "The formula / the measurement" in done.stdout


def test_the_page_shows_the_constants_of_the_formula():
    for line in reference().splitlines():
        assert line in PAGE


@pytest.mark.parametrize("targets", [10, 100, 300, 1000])
@pytest.mark.parametrize("processes", [2, 16])
def test_the_shortest_tick_uses_up_what_there_is_and_no_more(targets, processes):
    tick = shortest_tick(targets, processes, cores=2)
    need = needs(targets, tick, processes)
    full = (need.turns, (need.probing + need.serving) / 2, need.serving)

    assert max(full) == pytest.approx(FULL, rel=0.001)


def test_processes_keep_the_tick_that_they_are_for():
    for targets in (1, 50, 333, 1000):
        enough = processes_for(targets, 10.0)
        assert needs(targets, 10.0, enough).turns <= FULL
        assert enough == 1 or needs(targets, 10.0, enough - 1).turns > FULL


def test_where_the_page_alone_is_too_much_no_tick_is_long_enough():
    assert math.isinf(shortest_tick(20_000, 64, cores=2))
    assert scale_model.rendering(1e9) == pytest.approx(1.0, rel=0.01)
