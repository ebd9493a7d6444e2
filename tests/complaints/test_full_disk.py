"""The disk of the state directory fills up, or is read-only: measuring and serving go on, it is said, and it passes.

What the twins of the embedded engine need of it fails for its own reason; nothing of what was stored before is lost.
"""

import contextlib
import shutil
import sqlite3
import time

import pytest

from tests.complaints.own_mounts import OwnDisk
from tests.complaints.test_t01_mute_peer import HEALTHY, assert_rhythm
from tests.daemons import ENDS_WITHIN

ERRORS = "tde_exporter_state_errors_total"
EMBEDDED = {
    "name": "embedded",
    "engine": "sqlite",
    "pairs": [{"name": "phonebook", "rows": 5_000}],
    "operations": ["insert_batch"],
    "intervals": {"canary": "1s", "encryption_state": "1s"},
    "budgets": {"time_share_ratio": 1.0},
}
SETTINGS = {"targets": [HEALTHY, EMBEDDED], "probes": {"processes": 1}}


def runs(exporter, name="embedded"):
    return exporter.total("tde_canary_runs_total", target=name) - exporter.total(
        "tde_canary_run_failures_total", target=name
    )


@pytest.fixture
def exporter(daemon):
    made = daemon(SETTINGS)
    made.disk = OwnDisk(made, 16 * 1024)
    made.start().ready()
    made.until(lambda: runs(made) >= 10, "writing operations")
    return made


def test_a_disk_that_fills_up_while_it_runs(exporter, scraped, tmp_path):
    disk, begun = exporter.disk, time.monotonic()
    with scraped(exporter) as scraper:
        disk.fill()
        exporter.until(lambda: exporter.total(ERRORS) >= 1, "the history to be refused")
        assert_rhythm(exporter, "healthy", rounds=3)
        said = exporter.log.read_text()
        exporter.until(lambda: written(disk, tmp_path) is not None, "the history to be read")
        before = written(disk, tmp_path) or 0
        disk.free()
        exporter.until(lambda: (written(disk, tmp_path) or 0) > before, "the history to be written again")
        before = runs(exporter)
        exporter.until(lambda: runs(exporter) >= before + 10, "writing operations again")
        exporter.until(lambda: exporter.value("tde_pair_valid", target="embedded") == 1, "valid twins")
    assert scraper.problems == []
    # Said once when it began, and not every second, as it is tried again.
    assert 1 <= said.count("the disk is full. Free some space") <= 3
    assert exporter.value(ERRORS) < 20 + 5 * (time.monotonic() - begun)
    assert exporter.stop() < ENDS_WITHIN


@pytest.mark.timeout(150)
def test_a_state_directory_that_turns_read_only_while_it_runs(exporter, scraped, tmp_path):
    disk = exporter.disk
    with scraped(exporter) as scraper:
        disk.cover("ro")
        exporter.until(lambda: exporter.total(ERRORS) >= 3, "the history to be refused")
        assert_rhythm(exporter, "healthy", rounds=3)
        said = exporter.log.read_text()
        disk.uncover()
        before = written(disk, tmp_path)
        exporter.until(lambda: written(disk, tmp_path) > before, "the history to be written again")
        exporter.until(lambda: exporter.value("tde_pair_valid", target="embedded") == 1, "valid twins")
    assert scraper.problems == []
    told = [line for line in said.splitlines() if "about=history" in line]
    assert len(told) == 1
    assert "Read-only file system" in told[0]
    assert exporter.value(ERRORS) < 100
    assert exporter.stop() < 5


@pytest.mark.parametrize(
    ("size_kb", "option", "words"),
    [
        (1024, "ro", "Read-only file system). Give this user the right to write there"),
        (16, "rw", "the disk is full. Free some space"),
    ],
)
def test_a_disk_that_is_full_or_read_only_at_the_start(daemon, size_kb, option, words):
    """Without what is remembered of breaches the page could lie, so there is none; who starts it again has it back."""
    exporter = daemon(SETTINGS)
    OwnDisk(exporter, size_kb, option)
    exporter.start()
    assert exporter.process.wait(100) == 1
    assert words in exporter.words()
    assert len(exporter.words().splitlines()) == 1


def written(disk, folder):
    """How many samples the history holds, as a copy of it tells; None where it was written to while it was copied."""
    for part in ("history.db", "history.db-wal"):
        shutil.copyfile(disk.seen / part, folder / part)
    with contextlib.closing(sqlite3.connect(folder / "history.db")) as history, contextlib.suppress(sqlite3.Error):
        return history.execute("SELECT COALESCE(SUM(plain_samples), 0) FROM blocks").fetchone()[0]
    return None
