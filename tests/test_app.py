"""What the daemon keeps, and what it says about keeping it; built, but not running."""

from __future__ import annotations

import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from exporter.app import App
from exporter.config.schema import HistorySettings, Settings, WebSettings
from exporter.domain.clock import FakeClock
from exporter.domain.model import Operation
from exporter.engines.sqlite.settings import Target
from exporter.probing.messages import TickDone
from tests.exposition.stages import Stage


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return Settings(
        state_directory=tmp_path,
        targets=(Target(name="embedded").resolved(tmp_path),),
        web=WebSettings(port=port),
        history=HistorySettings(path=tmp_path / "history.db"),
    )


class Daemon:
    """An app with a ledger that a stage speaks to."""

    def __init__(self, settings: Settings, clock: FakeClock) -> None:
        self.app = App(settings, clock)
        self.stage = Stage(settings, clock)
        self.stage.ledger = self.app.ledger
        self.stage.begin()
        self._rows = 0

    def tick(self, operation: Operation) -> None:
        self.stage.say(TickDone(self.stage.made(operation)))

    def written(self) -> int:
        """Rows of blocks that were written since the last call; what is written again as it was counts as well."""
        now = self.app.history._connection.total_changes - len(self.app.history._series)
        before, self._rows = self._rows, now
        return now - before

    def errors(self) -> int:
        return self.app.ledger.view().exporter.state_errors


@pytest.fixture
def daemon(settings: Settings) -> Iterator[Daemon]:
    made = Daemon(settings, FakeClock())
    with closing(made.app.history):
        yield made
        made.app.web.stop()


def test_only_blocks_to_which_something_was_added_are_written(daemon: Daemon) -> None:
    for operation in (Operation.POINT_SELECT, Operation.FULL_SCAN):
        daemon.tick(operation)
    daemon.app._save_blocks()
    assert daemon.written() == 2

    daemon.app._save_blocks()
    assert daemon.written() == 0
    daemon.tick(Operation.FULL_SCAN)
    daemon.app._save_blocks()
    assert daemon.written() == 1
    kept = {key.operation: block.plain.samples for key, block in daemon.app.history.load_blocks(0.0)}
    assert kept == {Operation.POINT_SELECT: 20, Operation.FULL_SCAN: 2}


def test_a_block_that_could_not_be_written_is_written_later(daemon: Daemon, settings: Settings) -> None:
    daemon.tick(Operation.FULL_SCAN)
    with closing(sqlite3.connect(settings.history_path, isolation_level=None)) as other:
        other.execute("CREATE TRIGGER refuse BEFORE INSERT ON blocks BEGIN SELECT RAISE(ABORT, 'no'); END")
        daemon.app._save_blocks()
        assert daemon.errors() == 1
        other.execute("DROP TRIGGER refuse")
    daemon.app._save_blocks()

    assert daemon.errors() == 1
    assert [block.plain.samples for _, block in daemon.app.history.load_blocks(0.0)] == [1]


def test_damaged_rows_are_counted_on_the_page(daemon: Daemon, settings: Settings) -> None:
    daemon.tick(Operation.FULL_SCAN)
    daemon.app._save_blocks()
    with closing(sqlite3.connect(settings.history_path, isolation_level=None)) as other:
        other.execute("UPDATE blocks SET units = 'damaged'")
    assert daemon.errors() == 0

    daemon.app._restore()
    assert daemon.errors() == 1
