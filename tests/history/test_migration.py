"""A file that version 1 of the schema wrote, with the code of its time, becomes one of today and loses nothing."""

from __future__ import annotations

import math
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from exporter.domain.events import Event, EventKind
from exporter.domain.model import Operation
from exporter.history.schema import VERSION

OLD = Path(__file__).with_name("version_1.db")
"""Six blocks of two series and a snapshot, written before there were hours, events and baselines."""


@pytest.fixture
def old(path: Path) -> Path:
    path.parent.mkdir(parents=True)
    shutil.copyfile(OLD, path)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone()[0] == 1
    return path


def test_what_version_1_wrote_is_there_and_the_new_tables_work(
    old: Path, open_history: Any, make_key: Any, make_block: Any
) -> None:
    history = open_history()
    start = 1_799_999_700.0
    blocks = [make_block(start - 300 * n, n + 1, "e1" if n else "e2") for n in range(6)]
    found = list(history.load_blocks(0.0))
    assert [block for key, block in found if key == make_key()] == blocks[::-1]
    assert [block for key, block in found if key == make_key(operation=Operation.FULL_SCAN)] == blocks[::-1]
    snapshot = history.latest_snapshot("embedded")
    assert snapshot is not None
    assert snapshot.ticks[0].encrypted.samples[0].work.decrypts == 3

    history.records.record([Event("embedded", start, EventKind.UPGRADE, "to this version")])
    assert [event.text for event in history.records.events()] == ["to this version"]
    assert history.info().version == VERSION
    assert history.baselines.all() == []


def test_blocks_of_version_1_are_joined_to_hours_later_on(old: Path, open_history: Any, clock: Any) -> None:
    history = open_history()
    clock.advance(2 * 86400.0)
    assert history.prune() == 12
    parts = [part for _, part in history.load_span(0.0, math.inf)]
    assert len(parts) == 4, "two series, of one hour in two epochs"
    assert sum(part.measured for part in parts) == 12 * 300.0
    assert sum(part.block.plain.samples for part in parts) == 12 * 200


MIGRATES = """
import sys
from pathlib import Path
from exporter.domain.clock import SystemClock
from exporter.history.store import History
print("ready", flush=True)
sys.stdin.readline()
history = History.open(Path(sys.argv[1]), 1e10, SystemClock())
print(len(list(history.load_blocks(0.0))), flush=True)
"""


def test_several_processes_may_come_upon_an_old_file_at_once(old: Path, open_history: Any) -> None:
    command = [sys.executable, "-c", MIGRATES, str(old)]
    others = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for other in others:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
    answers = []
    for other in others:
        assert other.stdin is not None
        other.stdin.write("go\n")
        other.stdin.flush()
    for other in others:
        out, err = other.communicate(timeout=30)
        assert other.returncode == 0, err
        answers.append(out.strip())
    assert answers == ["12", "12", "12"]
    assert open_history().info().version == VERSION


def test_a_migration_that_fails_changes_nothing(old: Path, open_history: Any, path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        # A name that the second step wants is taken: its last statements cannot be done.
        other.execute("CREATE TABLE states (x)")
    with pytest.raises(Exception, match="states"):
        open_history()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        assert other.execute("PRAGMA user_version").fetchone()[0] == 1
        names = {name for (name,) in other.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        assert names == {"series", "blocks", "snapshots", "states"}
        other.execute("DROP TABLE states")
    assert len(list(open_history().load_blocks(0.0))) == 12
