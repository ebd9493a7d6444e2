"""A fifth of all runs fails in every way there is, and nothing grows: memory, threads, files, sessions."""

from __future__ import annotations

import logging

import pytest

from benchmarks import soak
from tests.watched import Watched

BLOCKS_PER_RUN = 5.0
"""Pieces of memory: windows that fill take two for each run, and an error that is not forgotten takes ten."""


@pytest.fixture
def watched(make_mariadb, tmp_path) -> Watched:
    """A MariaDB with twins."""
    watched = Watched(make_mariadb("11.8", buffer_pool_mb=6), tmp_path)
    made = watched.provision()
    assert made.returncode == 0, made.stderr
    return watched


def test_five_hours_of_runs_leave_nothing_behind(tmp_path, caplog):
    caplog.set_level(logging.CRITICAL)  # what it says would be kept for the test's report
    readings, failed = soak.accelerated(tmp_path, interval=60.0, warm=60, runs=240, every=20)
    assert 0.1 < failed < 0.4
    assert set(readings.values["threads"]) == {readings.values["threads"][0]}
    assert set(readings.values["files"]) == {readings.values["files"][0]}
    assert readings.slope("blocks", runs=1) < BLOCKS_PER_RUN, readings.values["blocks"]


def test_a_daemon_whose_targets_fail_and_whose_sessions_are_ended(daemon, watched):
    exporter = daemon(soak.daemon_settings(watched, targets=8, often=4))
    found = soak.soak(exporter, watched, enough=30, every=0.5, warm=4.0, seconds=8.0)

    assert found.failed > 0.1
    assert found.killed_sessions >= 4
    assert 0 < found.most_sessions <= soak.SESSIONS
    for process in (found.serving, found.probing):
        # A lane that waits for a deadline, or a scrape, has a thread or a file for a moment.
        for what in ("threads", "files"):
            seen = process.values[what]
            third = len(seen) // 3
            assert max(seen[-third:]) <= max(seen[:third]) + 4, (what, seen)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_ten_thousand_runs_in_one_process(tmp_path, caplog):
    caplog.set_level(logging.CRITICAL)
    alone = soak.in_one(tmp_path, runs=10_000)

    assert alone.slope(soak.MEMORY) < 1024
    assert alone.slope("threads") < 1
    assert alone.slope("files") < 1


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_ten_thousand_runs_of_a_daemon(tmp_path):
    found = soak.of_daemon(tmp_path, runs=10_000, targets=50)

    assert found.most_sessions <= soak.SESSIONS
    for process in (found.serving, found.probing):
        assert process.slope(soak.MEMORY) < 1024
        assert process.slope("threads") < 1
        assert process.slope("files") < 1
