"""What goes into the history comes out of it, after whatever happened in between."""

from __future__ import annotations

import logging
import math
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from exporter.domain.clock import FakeClock
from exporter.domain.errors import HistoryError, Reason
from exporter.domain.model import Burst, Operation, Sample, Snapshot, Tick, Variant, Work
from exporter.overhead.windows import Block, BlockSide, SeriesWindow

START = 1_799_999_700.0
DAY = 86400.0


def snapshot(target: str = "embedded", started: float = START) -> Snapshot:
    def burst(factor: float) -> Burst:
        known = Work(0.1 * factor, None, 12, 345, 0)
        return Burst(
            (
                Sample(0, 0.00123 * factor, 0.001, 0.0002, 0.00003, known),
                Sample(2, math.inf, failure=Reason.TIMEOUT),
                Sample(4, 1 / 3),
            )
        )

    ticks = tuple(
        Tick(target, "phonebook", operation, "e1", started + n, Variant.PLAIN, burst(1.4), burst(1.0), dropped, n)
        for n, (operation, dropped) in enumerate([(Operation.FULL_SCAN, None), (Operation.INSERT_BATCH, "contended")])
    )
    return Snapshot(target, started, 12.5, ticks, (("phonebook", Operation.POINT_SELECT, "no grant — 'x'"),))


def test_blocks_come_back_equal_after_a_restart(open_history: Any, make_key: Any, make_block: Any) -> None:
    saved = [(make_key(target), make_block(START + 300 * n, n)) for n in range(5) for target in ("a", "b")]
    saved.append((make_key("c"), Block(START + 1500, "e2")))
    first = open_history()
    first.save_blocks(saved)
    first.close()

    assert list(open_history().load_blocks(0.0)) == saved


def test_unknown_stays_unknown_and_zero_stays_zero(open_history: Any, make_key: Any) -> None:
    unknown = BlockSide(3, 0, cold=None, cpu_seconds=None, decrypts=None, encrypts=None, blocks_read=None)
    zero = BlockSide(3, 0, cold=0, cpu_seconds=0.0, decrypts=0, encrypts=0, blocks_read=0)
    history = open_history()
    history.save_blocks([(make_key(), Block(START, "e1", unknown, zero))])
    ((_, block),) = history.load_blocks(START)
    assert (block.encrypted, block.plain) == (unknown, zero)


def test_a_block_saved_again_is_replaced(open_history: Any, make_key: Any, make_block: Any) -> None:
    history = open_history()
    history.save_blocks([(make_key(), make_block(START, 1)), (make_key(), make_block(START + 300, 2))])
    newer = make_block(START, 9, "e2")
    history.save_blocks([(make_key(), newer)])
    assert [block for _, block in history.load_blocks(0.0)] == [newer, make_block(START + 300, 2)]


def test_loading_begins_where_it_is_told_and_goes_oldest_first(
    open_history: Any, make_key: Any, make_block: Any
) -> None:
    history = open_history()
    starts = [START + 300 * n for n in (4, 0, 3, 1, 2)]
    history.save_blocks((make_key(), make_block(start)) for start in starts)
    assert [block.start for _, block in history.load_blocks(START + 300)] == sorted(starts)[1:]
    assert list(history.load_blocks(START + 300 * 4 + 1)) == []


def test_loading_crosses_pages_and_lets_others_write_meanwhile(open_history: Any, make_key: Any) -> None:
    history = open_history()
    keys = [make_key(f"t{n}") for n in range(9)]
    expected = [(key, Block(START + 300 * n, "e1")) for n in range(300) for key in keys]
    history.save_blocks(expected)
    loaded = []
    for n, found in enumerate(history.load_blocks(0.0)):
        loaded.append(found)
        if n % 500 == 0:
            history.save_blocks([found])
    assert loaded == expected


def test_a_saved_window_gives_the_same_blocks_after_a_restart(open_history: Any, make_key: Any) -> None:
    rng = np.random.default_rng(7)
    window = SeriesWindow()
    for n in range(120):
        encrypted, plain = (
            Burst(
                tuple(Sample(2 * i, d, work=Work(d, None, 1, 3, 0)) for i, d in enumerate(rng.lognormal(-8, 0.2, 20)))
            )
            for _ in Variant
        )
        first = Variant.PLAIN if n % 2 else Variant.ENCRYPTED
        at = START + 10 * n
        assert window.add(Tick("embedded", "phonebook", Operation.POINT_SELECT, "e1", at, first, encrypted, plain), at)
    history = open_history()
    history.save_blocks((make_key(), block) for block in window.blocks())
    history.close()

    restored = SeriesWindow()
    for key, block in open_history().load_blocks(START - 3600):
        assert key == make_key()
        restored.restore(block)
    assert restored.blocks() == window.blocks()


def test_a_refused_save_leaves_everything_as_it_was(open_history: Any, make_key: Any, make_block: Any) -> None:
    history = open_history()
    history.save_blocks([(make_key(), make_block(START))])

    bad = Block(START + 300, None)  # type: ignore[arg-type]
    with pytest.raises(HistoryError):
        history.save_blocks([(make_key("new"), make_block(START)), (make_key("new"), bad)])
    assert history.errors == 1
    assert list(history.load_blocks(0.0)) == [(make_key(), make_block(START))]

    def breaking() -> Any:
        yield make_key("new"), make_block(START)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        history.save_blocks(breaking())
    # Also the series that was named in the failed transactions is made anew.
    history.save_blocks([(make_key("new"), make_block(START))])
    assert [key.target for key, _ in history.load_blocks(0.0)] == ["embedded", "new"]


def test_snapshots_come_back_equal_and_the_newest_wins(open_history: Any) -> None:
    history = open_history()
    assert history.latest_snapshot("embedded") is None
    history.save_snapshot(snapshot(started=START))
    history.save_snapshot(snapshot("other"))
    history.save_snapshot(snapshot(started=START + 5))
    history.close()

    again = open_history()
    assert again.latest_snapshot("embedded") == snapshot(started=START + 5)
    assert again.latest_snapshot("other") == snapshot("other")
    assert again.latest_snapshot("unknown") is None


def test_a_snapshot_that_json_cannot_hold_is_refused(open_history: Any) -> None:
    history = open_history()
    with pytest.raises(HistoryError, match="embedded"):
        history.save_snapshot(Snapshot("embedded", START, math.nan, ()))
    assert history.errors == 1
    assert history.latest_snapshot("embedded") is None


def test_damaged_rows_are_left_out_and_counted(
    open_history: Any, make_key: Any, make_block: Any, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = open_history()
    first.save_blocks((make_key(), make_block(START + 300 * n)) for n in range(6))
    first.save_snapshot(snapshot())
    first.close()
    damage = [
        "UPDATE blocks SET plain_sketch = x'0102' WHERE start = ?",
        "UPDATE blocks SET units = x'0102' WHERE start = ?",
        "UPDATE blocks SET encrypted_sketch = 'text' WHERE start = ?",
        "UPDATE blocks SET encrypted_samples = 'many' WHERE start = ?",
        "UPDATE blocks SET units = 5 WHERE start = ?",
    ]
    connection = sqlite3.connect(path)
    with connection:
        for n, statement in enumerate(damage):
            connection.execute(statement, (START + 300 * n,))
        connection.execute("INSERT INTO series VALUES (99, 'embedded', 'phonebook', 'levitate')")
        connection.execute("UPDATE snapshots SET body = x'00'")
    connection.close()

    history = open_history()
    with caplog.at_level(logging.WARNING):
        assert [block.start for _, block in history.load_blocks(0.0)] == [START + 300 * 5]
        assert history.errors == 5
        assert history.latest_snapshot("embedded") is None
    assert history.errors == 6
    assert len(caplog.records) == 6


def test_pruning_keeps_what_the_retention_promises(
    open_history: Any, make_key: Any, clock: FakeClock, path: Path
) -> None:
    history = open_history(retention=DAY)
    now = clock.steady()
    old, young = make_key("old"), make_key("young")
    history.save_blocks((old, Block(now - DAY - 300 * n, "e1")) for n in range(1, 50))
    history.save_blocks((young, Block(now - 300 * n, "e1")) for n in range(50))
    history.save_blocks([(young, Block(now + 400 * DAY, "e1"))])  # Stored by a clock that was wrong.
    history.save_snapshot(snapshot("old", now - DAY - 1))
    history.save_snapshot(snapshot("young", now - DAY + 1))

    assert history.prune() == 50
    assert history.prune() == 0
    assert {key for key, _ in history.load_blocks(0.0)} == {young}
    assert len(list(history.load_blocks(0.0))) == 50
    assert history.latest_snapshot("old") is None
    assert history.latest_snapshot("young") is not None
    # The series that vanished can come back.
    history.save_blocks([(old, Block(now, "e1"))])
    assert old in {key for key, _ in history.load_blocks(0.0)}

    clock.advance(DAY + 301)
    assert history.prune() == 51


def test_the_file_does_not_grow_for_ever(open_history: Any, make_key: Any, make_block: Any, clock: FakeClock) -> None:
    sizes = []
    for hour in range(9):
        history = open_history(retention=3600.0)
        history.save_blocks(
            (make_key(f"t{n}"), make_block(clock.steady() + 300 * block, hour))
            for block in range(12)
            for n in range(20)
        )
        clock.advance(3600.0)
        history.prune()
        history.close()  # Brings the log into the file.
        sizes.append(history.size_bytes())
    assert sizes[-1] < 1.5 * sizes[2]

    history = open_history(retention=3600.0)
    clock.advance(2 * 3600.0)
    assert history.prune() > 0
    history.close()
    assert history.size_bytes() < sizes[-1] / 2  # Space is given back.


def test_a_full_disk_is_said_and_does_no_harm(open_history: Any, make_key: Any, make_block: Any) -> None:
    history = open_history()
    history.save_blocks([(make_key(), make_block(START))])
    # The engine's own limit: it then refuses as it does on a full disk.
    pages = history._connection.execute("PRAGMA page_count").fetchone()[0]
    history._connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(HistoryError, match=r"disk is full.*Free some space"):
        history.save_blocks((make_key(), make_block(START + 300 * n)) for n in range(500))
    assert history.errors == 1
    assert [block.start for _, block in history.load_blocks(0.0)] == [START]

    history._connection.execute("PRAGMA max_page_count = 1000000")
    history.save_blocks((make_key(), make_block(START + 300 * n)) for n in range(500))
    assert len(list(history.load_blocks(0.0))) == 500


WRITES_BEYOND_A_LIMIT = """
import resource, sys
from pathlib import Path
from exporter.domain.clock import SystemClock
from exporter.domain.errors import HistoryError
from exporter.domain.model import Operation, SeriesKey
from exporter.history.store import History
from exporter.overhead.windows import Block

history = History.open(Path(sys.argv[1]), 1e9, SystemClock())
key = SeriesKey("t" * 60, "p", Operation.FULL_SCAN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
saved = 0
try:
    for n in range(10_000):
        history.save_blocks([(key, Block(300.0 * n, "e" * 200))])
        saved += 1
except HistoryError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert len(list(history.load_blocks(-1.0))) == saved, "lost"
history.save_blocks([(key, Block(300.0 * 20_000, "after"))])
history.close()
print(saved)
"""


def test_a_file_that_may_not_grow_is_said_and_does_no_harm(open_history: Any, path: Path) -> None:
    command = [sys.executable, "-c", WRITES_BEYOND_A_LIMIT, str(path)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stderr
    message, saved = run.stdout.splitlines()
    assert message.startswith(f"{path}: ")
    assert "disk" in message
    blocks = [block for _, block in open_history().load_blocks(-1.0)]
    assert len(blocks) == int(saved) + 1
    assert blocks[-1].epoch == "after"


def test_a_history_that_became_read_only_is_said(open_history: Any, make_key: Any, make_block: Any) -> None:
    history = open_history()
    history.save_snapshot(snapshot())
    history._connection.execute("PRAGMA query_only = ON")
    for refused in (
        lambda: history.save_blocks([(make_key(), make_block(START))]),
        lambda: history.save_snapshot(snapshot()),
        history.prune,
    ):
        with pytest.raises(HistoryError, match=r"cannot be written.*right to write"):
            refused()
    assert history.errors == 3
    assert history.latest_snapshot("embedded") == snapshot()


def test_after_closing_every_call_is_refused(open_history: Any, make_key: Any, make_block: Any) -> None:
    history = open_history()
    history.close()
    history.close()
    for call in (
        lambda: history.save_blocks([(make_key(), make_block(START))]),
        lambda: list(history.load_blocks(0.0)),
        lambda: history.latest_snapshot("x"),
        history.prune,
    ):
        with pytest.raises(HistoryError):
            call()


def test_another_process_reads_while_we_write(open_history: Any, make_key: Any, make_block: Any, path: Path) -> None:
    daemon, reader = open_history(), open_history(set_aside=False)
    daemon.save_blocks([(make_key(), make_block(START))])
    reading = reader.load_blocks(0.0)
    assert next(reading)[1].start == START
    daemon.save_blocks([(make_key(), make_block(START + 300))])
    assert len(list(reader.load_blocks(0.0))) == 2
    reader.save_snapshot(snapshot())
    assert daemon.latest_snapshot("embedded") == snapshot()
    assert daemon.size_bytes() > path.stat().st_size


def test_many_threads_may_call_at_once(open_history: Any, make_key: Any) -> None:
    history = open_history()
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for n in range(50):
                history.save_blocks([(make_key(f"t{number}"), Block(START + 300 * n, "e1"))])
                history.latest_snapshot("x")
            assert len([key for key, _ in history.load_blocks(0.0) if key.target == f"t{number}"]) == 50
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert len(list(history.load_blocks(0.0))) == 200
