"""What waits for the next start is taken in once; what cannot be taken is told, kept, and stops nobody."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from exporter.domain.clock import FakeClock
from exporter.domain.errors import HistoryError
from exporter.domain.model import SeriesKey
from exporter.history.departure import Departure
from exporter.history.inbox import leave, take_waiting
from exporter.history.store import History
from exporter.history.transfer import Header, packed
from exporter.overhead.windows import Block

RETENTION = 14 * 86400.0
START = FakeClock().steady() // 300 * 300 - 3000.0


@pytest.fixture
def made(
    tmp_path: Path, clock: FakeClock, make_key: Callable[..., SeriesKey], make_block: Callable[..., Block]
) -> bytes:
    """An export of three blocks."""
    path = tmp_path / "source" / "history.db"
    with closing(History.open(path, RETENTION, clock)) as history:
        history.save_blocks((make_key("orders"), make_block(START + 300.0 * n, n)) for n in range(3))
    with closing(Departure(path, clock)) as departure:
        return b"".join(packed(Header("1.0", 1.0, ("orders",)), departure.rows(["orders"])))


def blocks(path: Path, clock: FakeClock) -> int:
    with closing(History.open(path, RETENTION, clock)) as history:
        return history.info().blocks.number


def waiting(path: Path) -> list[str]:
    return sorted(one.suffix for one in (path.parent / "import").iterdir())


def test_what_is_left_is_there_after_the_next_start(path: Path, clock: FakeClock, made: bytes) -> None:
    assert leave(path, "it", [made], clock).targets == ("orders",)
    (file,) = (path.parent / "import").iterdir()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert not path.exists()
    take_waiting(path, RETENTION, clock, threading.Event())
    assert waiting(path) == []
    assert blocks(path, clock) == 3
    # Nothing waits any more, and the history is not even opened.
    path.unlink()
    take_waiting(path, RETENTION, clock, threading.Event())
    assert not path.exists()


def test_what_is_no_export_is_not_left_there(path: Path, clock: FakeClock, made: bytes) -> None:
    with pytest.raises(HistoryError, match="its end is missing"):
        leave(path, "it", [made[:-1]], clock)
    assert waiting(path) == []


def test_what_cannot_be_taken_stops_nobody(
    path: Path, clock: FakeClock, made: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    leave(path, "it", [made], clock)
    (path.parent / "import" / f"0{'.tdehistory'}").write_bytes(made[:-5])
    with caplog.at_level(logging.INFO):
        take_waiting(path, RETENTION, clock, threading.Event())
    assert waiting(path) == [".refused"]
    assert "a history was not imported: " in caplog.text
    assert blocks(path, clock) == 3


def test_a_start_that_was_killed_over_it_does_not_try_again(
    path: Path, clock: FakeClock, made: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    leave(path, "it", [made], clock)
    (file,) = (path.parent / "import").iterdir()
    file.rename(file.with_name(f"{file.name}.taking"))
    take_waiting(path, RETENTION, clock, threading.Event())
    assert waiting(path) == [".refused"]
    assert "the exporter was killed while it took it in" in caplog.text


def test_whoever_is_told_to_end_leaves_it_to_the_next_start(path: Path, clock: FakeClock, made: bytes) -> None:
    leave(path, "it", [made], clock)
    stop = threading.Event()
    told = _Told(stop)
    take_waiting(path, RETENTION, told, stop)
    assert stop.is_set()
    assert waiting(path) == [".tdehistory"]
    assert blocks(path, clock) == 0
    take_waiting(path, RETENTION, clock, threading.Event())
    assert blocks(path, clock) == 3


class _Told(FakeClock):
    """Somebody ends the daemon when the import asks what time it is."""

    def __init__(self, stop: threading.Event) -> None:
        super().__init__()
        self._stop = stop

    def steady(self) -> float:
        self._stop.set()
        return super().steady()


def test_a_damaged_history_is_set_aside_as_at_any_start(path: Path, clock: FakeClock, made: bytes) -> None:
    leave(path, "it", [made], clock)
    path.write_bytes(b"nonsense" * 1000)
    take_waiting(path, RETENTION, clock, threading.Event())
    assert blocks(path, clock) == 3
    assert list(path.parent.glob("history.db.damaged-*"))


def test_while_another_daemon_has_the_history_it_waits_on(path: Path, clock: FakeClock, made: bytes) -> None:
    with closing(History.keep(path, RETENTION, clock)):
        leave(path, "it", [made], clock)
        with pytest.raises(HistoryError, match="Stop it, or give this one"):
            take_waiting(path, RETENTION, clock, threading.Event())
    assert waiting(path) == [".tdehistory"]
