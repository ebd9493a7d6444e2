"""What the daemon keeps, and what it says about keeping it; built, but not running."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from exporter.app import App
from exporter.config.schema import HistorySettings, Settings, WebSettings
from exporter.domain.clock import FakeClock, SystemClock
from exporter.domain.errors import ConfigErrors, HistoryError
from exporter.domain.model import Operation, Snapshot
from exporter.engines.sqlite.settings import Target
from exporter.probing.messages import CollectorDone, SnapshotDone, TickDone
from exporter.web.server import bind
from tests.exposition.stages import Stage
from tests.servers.room import free_port


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(
        state_directory=tmp_path,
        targets=(Target(name="embedded").resolved(tmp_path),),
        web=WebSettings(port=free_port()),
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


def test_a_breach_is_there_again_in_the_next_process(daemon: Daemon, settings: Settings) -> None:
    daemon.stage.slowness = 2.5
    while not daemon.app.ledger.lasting():
        daemon.stage.hours(0.05)
    daemon.app._save_blocks()
    daemon.app._step_verdicts()
    (breached,) = {change.key for change in daemon.app.ledger.lasting()}
    daemon.app.history.close()
    daemon.app.web.stop()

    again = Daemon(settings.model_copy(update={"web": WebSettings(port=free_port())}), daemon.stage.clock)
    with closing(again.app.history):
        assert {change.key for change in again.app.ledger.lasting()} == {breached}
        again.app.web.stop()


def test_a_verdict_that_cannot_be_made_keeps_nothing_else_from_being_kept(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    daemon.tick(Operation.FULL_SCAN)
    daemon.app.history.close()
    daemon.app.verdicts._undated.append(None)  # type: ignore[arg-type]
    daemon.app._step_verdicts()
    assert "no verdict can be made" in str([record.__dict__ for record in caplog.records])


def test_a_stop_that_comes_before_the_start_ends_it_in_order(settings: Settings) -> None:
    stop = threading.Event()
    stop.set()
    app = App(settings, FakeClock(), stop=stop)

    assert app.run() == 0
    assert app.supervisor.pids() == {}
    with pytest.raises(HistoryError):
        app.history.size_bytes() and app.history.prune()


def test_a_history_that_does_not_answer_does_not_hold_up_the_end(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    """SQLite waits for five seconds; whoever waited with it would be ended by force, or would not hear the signal."""
    stop = threading.Event()
    stop.set()
    app = App(settings, FakeClock(), stop=stop)
    with closing(sqlite3.connect(settings.history_path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert app.run() == 0
        other.execute("ROLLBACK")

    assert "the last observations are not in the history" in caplog.text
    app.history.close()


def test_a_history_that_cannot_be_opened_gives_the_port_back(settings: Settings) -> None:
    settings.history_path.mkdir(parents=True)
    with pytest.raises(HistoryError):
        App(settings, FakeClock())

    bind(settings.web.listen_address, settings.web.port).close()


def test_a_snapshot_without_measurements_is_not_kept(daemon: Daemon, settings: Settings) -> None:
    """It would keep the next start from taking a real one."""
    target = settings.targets[0].name
    failed = (("phonebook", Operation.FULL_SCAN, "the disk is full"),)
    daemon.app._deliver(0, SnapshotDone(Snapshot(target, FakeClock().wall(), 0.1, (), failed)))

    assert daemon.app.history.latest_snapshot(target) is None
    assert daemon.app._wants_snapshot(target)


def test_a_history_that_was_removed_is_written_anew(daemon: Daemon, settings: Settings) -> None:
    daemon.tick(Operation.FULL_SCAN)
    daemon.app._save_blocks()
    settings.history_path.unlink()
    daemon.app._save_blocks()

    assert len(list(daemon.app.history.load_blocks(0.0))) == 1
    assert daemon.app.history.size_bytes() > 0
    assert daemon.errors() == 0


def test_what_a_collector_could_not_read_is_logged_when_it_changes_and_not_each_time(
    daemon: Daemon, caplog: pytest.LogCaptureFixture
) -> None:
    def read(words: str) -> None:
        daemon.stage.clock.advance(60.0)
        daemon.app._deliver(0, CollectorDone("embedded", "activity", 0.1, daemon.stage.clock.wall(), None, words))

    for words in ("GRANT PROCESS", "GRANT PROCESS", "GRANT SELECT", "GRANT SELECT", "", ""):
        read(words)

    logged = [getattr(record, "problem", record.getMessage()) for record in caplog.records]
    assert logged == ["GRANT PROCESS", "GRANT SELECT", "the trouble is over"]
    assert {collector.name: collector.success for collector in daemon.stage.view.collectors}["activity"] is True


def test_an_address_for_all_without_a_password_is_told_once(
    settings: Settings, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def said(web: WebSettings) -> list[str]:
        caplog.clear()
        stop = threading.Event()
        stop.set()
        App(settings.model_copy(update={"web": web}), SystemClock(), stop=stop).run()
        return [record.message for record in caplog.records if "everybody" in record.message]

    (tmp_path / "web.yaml").write_text(
        "basic_auth_users:\n  prometheus: $2y$10$0slfrjQlw97//IqKyuCx/umpMjkvhxk95Q3lRsuM4U8vShlskzXTS\n"
    )
    port = settings.web.port
    assert said(WebSettings(port=port)) == []
    assert len(said(WebSettings(port=port, listen_address="0.0.0.0"))) == 1
    asking = WebSettings(port=port, listen_address="0.0.0.0", config_file=tmp_path / "web.yaml")
    assert said(asking) == []


def test_a_bad_web_configuration_is_found_before_anything_starts(settings: Settings, tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text("tls_server_config: {}\n")
    web = WebSettings(port=settings.web.port, config_file=tmp_path / "web.yaml")
    with pytest.raises(ConfigErrors, match="cert_file"):
        App(settings.model_copy(update={"web": web}), SystemClock())
    assert not (tmp_path / "history.db").exists()
