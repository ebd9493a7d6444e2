"""Opening: new, old, newer, foreign, damaged, forbidden."""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from exporter.domain.clock import FakeClock
from exporter.domain.errors import HistoryError
from exporter.history.file import _set_aside
from exporter.history.schema import VERSION
from exporter.history.store import History

START = 1_799_999_700.0


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def refusal(path: Path, clock: FakeClock, **more: bool) -> str:
    with pytest.raises(HistoryError) as caught:
        History.open(path, 3600.0, clock, **more)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    return text


def test_directory_and_files_are_private(open_history: Any, make_key: Any, make_block: Any, path: Path) -> None:
    before = os.umask(0)
    try:
        history = open_history()
        history.save_blocks([(make_key(), make_block(START))])
    finally:
        os.umask(before)
    assert mode(path.parent) == 0o700
    assert {file.name: mode(file) for file in path.parent.iterdir()} == {
        "history.db": 0o600,
        "history.db-wal": 0o600,
        "history.db-shm": 0o600,
    }


def test_a_new_history_has_the_newest_schema_and_a_log(open_history: Any, path: Path) -> None:
    open_history()
    connection = sqlite3.connect(path)
    found = [
        connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("user_version", "journal_mode", "quick_check")
    ]
    connection.close()
    assert found == [VERSION, "wal", "ok"]


def test_an_empty_file_and_an_existing_directory_are_used(open_history: Any, path: Path) -> None:
    path.parent.mkdir(mode=0o750)
    path.touch(mode=0o640)
    open_history()
    assert (mode(path.parent), mode(path)) == (0o750, 0o640)


def test_a_newer_schema_is_refused_and_left_alone(open_history: Any, path: Path, clock: FakeClock) -> None:
    open_history().close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    connection.close()
    content = path.read_bytes()
    assert "Upgrade tde-exporter" in refusal(path, clock)
    assert path.read_bytes() == content
    assert [file.name for file in path.parent.iterdir() if "damaged" in file.name] == []


def test_the_database_of_another_program_is_refused_and_left_alone(path: Path, clock: FakeClock) -> None:
    path.parent.mkdir()
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE precious (x)")
    connection.close()
    content = path.read_bytes()
    assert "another program" in refusal(path, clock)
    assert path.read_bytes() == content


def noise(path: Path) -> None:
    path.write_bytes(os.urandom(50_000))


def text(path: Path) -> None:
    path.write_text("a note to myself\n")


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2 // 4096 * 4096)


def truncate_in_a_page(path: Path) -> None:
    os.truncate(path, 300)


def overwrite_the_middle(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (path.stat().st_size - 4096))


def zero_the_header(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(bytes(100))


@pytest.mark.parametrize(
    "damage",
    [noise, text, truncate, truncate_in_a_page, overwrite_the_middle, zero_the_header],
    ids=lambda f: f.__name__,
)
def test_a_damaged_file_is_set_aside_and_a_new_one_begun(
    open_history: Any,
    make_key: Any,
    make_block: Any,
    path: Path,
    clock: FakeClock,
    caplog: pytest.LogCaptureFixture,
    damage: Callable[[Path], None],
) -> None:
    history = open_history()
    history.save_blocks((make_key(), make_block(START + 300 * n, n)) for n in range(60))
    history.close()
    damage(path)
    content = path.read_bytes()
    path.with_name("history.db-wal").write_bytes(b"left behind")

    assert "Restart the daemon" in refusal(path, clock, set_aside=False)
    with caplog.at_level(logging.WARNING):
        fresh = open_history()
    assert list(fresh.load_blocks(0.0)) == []
    fresh.save_blocks([(make_key(), make_block(START))])

    kept = path.with_name("history.db.damaged-20270115T080000Z")
    assert kept.read_bytes() == content
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert kept.name in caplog.text
    assert str(path) in caplog.text
    fresh.close()
    assert len(list(open_history().load_blocks(0.0))) == 1


def test_an_old_log_never_meets_a_new_file(path: Path) -> None:
    path.parent.mkdir()
    parts = [path.with_name(path.name + part) for part in ("", "-wal", "-shm")]
    for part in parts:
        part.write_bytes(part.name.encode())
    kept = _set_aside(path, 1_800_000_000.0)
    assert not any(part.exists() for part in parts)
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == {
        kept.name: b"history.db",
        f"{kept.name}-wal": b"history.db-wal",
        f"{kept.name}-shm": b"history.db-shm",
    }


def test_two_damaged_files_in_one_second_are_both_kept(open_history: Any, path: Path) -> None:
    path.parent.mkdir()
    for content in (b"first " * 1000, b"second " * 1000):
        path.write_bytes(content)
        open_history().close()
    kept = sorted(file.read_bytes()[:5] for file in path.parent.iterdir() if "damaged" in file.name)
    assert kept == [b"first", b"secon"]


def test_a_directory_in_place_of_the_file_is_refused(path: Path, clock: FakeClock) -> None:
    path.mkdir(parents=True)
    assert "Set history.path to a file" in refusal(path, clock)


def test_a_file_in_place_of_the_directory_is_refused(path: Path, clock: FakeClock) -> None:
    path.parent.write_text("in the way")
    assert "Give this user the right" in refusal(path, clock)


def test_a_directory_that_cannot_be_made_is_refused(clock: FakeClock) -> None:
    assert "Give this user the right" in refusal(Path("/proc/nowhere/history.db"), clock)


UNPRIVILEGED = """
import os, sys
from pathlib import Path
from exporter.domain.clock import SystemClock
from exporter.domain.errors import HistoryError
from exporter.history.store import History
if os.geteuid() == 0:
    os.setgid(65534), os.setuid(65534)
for path in sys.argv[1:]:
    try:
        History.open(Path(path), 3600.0, SystemClock())
    except HistoryError as error:
        print(error)
"""


def test_what_this_user_may_not_write_is_refused(open_history: Any, tmp_path: Path) -> None:
    for parent in (tmp_path, *tmp_path.parents[:3]):
        parent.chmod(parent.stat().st_mode | 0o055)  # So that the other user gets as far as the folders below.
    locked, readable, directory = tmp_path / "locked", tmp_path / "readable.db", tmp_path / "open"
    locked.mkdir(mode=0o500)
    readable.touch(mode=0o444)
    directory.mkdir()
    directory.chmod(0o777)
    companion = directory / "history.db"  # The file may be written, its companions may not be made.
    companion.touch()
    companion.chmod(0o666)
    directory.chmod(0o555)

    paths = [locked / "history.db", locked / "deeper" / "history.db", readable, companion]
    run = subprocess.run(
        [sys.executable, "-c", UNPRIVILEGED, *map(str, paths)], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stderr
    lines = run.stdout.splitlines()
    assert [line.split(": ")[0] for line in lines] == [str(path) for path in paths]
    assert all("Give this user the right" in line for line in lines)
