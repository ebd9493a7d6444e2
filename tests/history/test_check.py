"""The check at the start takes a bounded time, and the time that it needs after damage was met."""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from exporter.domain.clock import FakeClock
from exporter.domain.errors import HistoryError
from exporter.history import file
from exporter.history.store import History

START = 1_799_999_700.0


@pytest.fixture
def filled(open_history: Any, make_key: Any, make_block: Any, path: Path) -> Path:
    history = open_history()
    history.save_blocks((make_key(f"t{n}"), make_block(START - 300 * m)) for n in range(20) for m in range(30))
    history.close()
    return path


def damage_the_end(path: Path) -> None:
    """Pages of blocks; what is needed to open the file stays."""
    with path.open("r+b") as stream:
        stream.seek(path.stat().st_size // 2)
        stream.write(b"\xff" * 100_000)


def asides(path: Path) -> list[str]:
    return sorted(found.name for found in path.parent.iterdir() if "damaged" in found.name or "suspect" in found.name)


def test_a_check_that_takes_too_long_is_broken_off_and_the_file_is_used(
    filled: Path, clock: FakeClock, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "CHECK_SECONDS", 0.0)
    with caplog.at_level(logging.WARNING):
        History.open(filled, 1e9, clock).close()
    # With no time at all the check ends when it is asked to, or before: nothing is set aside either way.
    assert asides(filled) == []
    assert all("not all of it was checked" in record.message for record in caplog.records)


def test_damage_that_is_met_later_lets_the_next_start_check_everything(
    filled: Path, clock: FakeClock, open_history: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    history = open_history()
    history.info()
    connection = sqlite3.connect(filled)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    damage_the_end(filled)
    history._connection.execute("PRAGMA cache_size = 0")
    with pytest.raises(HistoryError, match=r"damaged.*Restart"):
        list(history.load_blocks(0.0))
    history.close()
    assert asides(filled) == ["history.db.suspect"]

    with pytest.raises(HistoryError, match=r"damaged.*Restart the daemon"):
        History.open(filled, 1e9, clock, set_aside=False)
    assert "history.db.suspect" in asides(filled), "whoever only looks leaves all as it is"

    # However little time there usually is.
    monkeypatch.setattr(file, "CHECK_SECONDS", 1e-9)
    with caplog.at_level(logging.WARNING):
        again = History.open(filled, 1e9, clock)
    assert again.info().blocks.number == 0
    again.close()
    assert len([name for name in asides(filled) if "damaged" in name]) >= 1
    assert "history.db.suspect" not in asides(filled)
    assert "was set aside" in caplog.text


def test_a_sound_file_is_not_suspect_any_more(filled: Path, clock: FakeClock) -> None:
    mark = filled.with_name("history.db.suspect")
    mark.touch()
    History.open(filled, 1e9, clock, set_aside=False).close()
    assert mark.exists()
    History.open(filled, 1e9, clock).close()
    assert not mark.exists()
    assert asides(filled) == []
