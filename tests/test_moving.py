"""A database moves from one exporter to another and takes its history along: two daemons, as operators run them."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx
import pytest
import yaml

from exporter.domain.sharding import shard_of
from tests.command_line import Done, assert_one_line
from tests.daemons import PATIENCE, Daemon, Page
from tests.scaled import scaled

FACTOR = 720.0
MOVES, STAYS = "orders", "embedded"
POINT = {"target": MOVES, "operation": "point_select"}
BREACH = {**POINT, "percentile": "50", "reference": "plain", "threshold": "1.2"}
assert (shard_of(MOVES, 2), shard_of(STAYS, 2)) == (1, 0)


def configured(shard: str) -> dict[str, object]:
    """Two targets whose encrypted twin is three times as slow."""
    targets = [
        {
            "name": name,
            "engine": "fake",
            "pairs": [{"name": "scripted"}],
            "a": {"encrypted": True, "latency": 0.003, "decrypts": 10},
            "intervals": {"canary": "120s", "encryption_state": "240s"},
            "budgets": {"time_share_ratio": 1.0},
            "operations": ["point_select"],
        }
        for name in (STAYS, MOVES)
    ]
    return {"shard": shard, "targets": targets, "probes": {"processes": 1}}


def ordered(exporter: Daemon, *arguments: str, given: bytes | None = None) -> Done:
    """A command with the settings of an exporter."""
    done = subprocess.run(
        [*exporter._command, *arguments],
        env=exporter._environ,
        input=given or b"",
        capture_output=True,
        timeout=PATIENCE,
    )
    return Done(done.args, done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode())


def day(page: Page) -> float:
    return page.total("tde_overhead_samples", **POINT, window="24h")


def events(page: Page) -> dict[str, float]:
    """When each event of the target was, by its id."""
    return {
        dict(labels)["event"]: value
        for (name, labels), value in page.samples.items()
        if name == "tde_event_timestamp_seconds" and dict(labels)["target"] == MOVES
    }


def knows_all(page: Page, before: Page) -> bool:
    """Whether an exporter shows of the target what the other one showed."""
    return (
        page.value("tde_overhead_breach", **BREACH) == 1
        and day(page) >= day(before) > 0
        and page.value("tde_baseline_timestamp_seconds", target=MOVES)
        == before.value("tde_baseline_timestamp_seconds", target=MOVES)
        and events(before).items() <= events(page).items()
    )


def test_what_moves_takes_its_history_along(daemon: Callable[..., Daemon], tmp_path: Path) -> None:
    clock = scaled(FACTOR)
    old, new, early = (daemon(configured(shard), clock) for shard in ("0/1", "1/2", "1/2"))
    old.start().ready()
    # One that began to measure it as well, but has learned nothing yet.
    early.start().ready()
    early.until(lambda: early.page().total("tde_canary_runs_total", target=MOVES) > 0, "a tick")
    early.stop()
    # Hours in which the breach is found, a new epoch, and a baseline by hand beside the one that is frozen for the event.
    old.until(lambda: old.value("tde_overhead_breach", **BREACH) == 1, "a breach")
    assert ordered(old, "mark", MOVES, "another key", "--kind", "rekey").returncode == 0
    old.until(lambda: ordered(old, "baseline", "freeze", MOVES, "--note", "by hand").returncode == 0, "a baseline")
    by_hand = frozen_by_hand(old)
    old.until(lambda: old.value("tde_baseline_timestamp_seconds", target=MOVES) == by_hand, "the baseline on the page")
    old.until(lambda: day(old.page()) > 0, "samples since the new key")
    before = old.page()
    assert len(events(before)) == 1

    file = tmp_path / "moved.tdehistory"
    export = ("history", "export", "--format", "transfer", "--shard", "1/2", "--output", str(file))
    done = ordered(old, *export)
    assert done.returncode == 0, done.stderr
    assert done.stderr.startswith(f"1 target ({MOVES}): ")
    assert len(done.stderr.splitlines()) == 1, "something was left out"
    done = ordered(early, "history", "import", "--at-restart", "-", given=file.read_bytes())
    assert done.returncode == 0, done.stderr
    assert "waits for the next start" in done.stdout
    early.start().serving()
    early.until(lambda: knows_all(early.page(), before), "everything that the other one knew")
    assert list((early.directory / "state" / "import").iterdir()) == []
    early.stop()

    # The old one lets go of it, and it can still be exported.
    path = old.directory / "config.yaml"
    path.write_text(yaml.safe_dump(configured("0/2")))
    assert httpx.post(f"{old.url}/-/reload", timeout=30).status_code == 200
    assert ordered(old, *export).returncode == 0
    done = ordered(new, "history", "import", str(file))
    assert done.returncode == 0, done.stderr
    new.start().serving()
    new.until(lambda: knows_all(new.page(), before), "everything that the other one knew")
    listed = [ordered(each, "baseline", "list", MOVES).stdout for each in (old, new)]
    assert listed[0] == listed[1]
    assert "by hand" in listed[0]
    # It goes on from there.
    shown = day(new.page())
    new.until(lambda: day(new.page()) > shown, "samples of its own in the same window")
    assert new.process is not None
    refused = ordered(new, "history", "import", str(file))
    assert_one_line(refused, f"another tde-exporter (process {new.process.pid}) keeps this history. Stop it, import")
    new.stop()
    assert epochs(new) == epochs(old)
    assert len(epochs(new)) == 2
    assert epochs(early) <= epochs(old)
    for exporter in (early, new):
        # It had been found already, and is no news.
        assert "over budget: P50" not in exporter.log.read_text()


def test_killed_in_the_midst_of_an_import_it_has_what_it_had(daemon: Callable[..., Daemon], tmp_path: Path) -> None:
    clock = scaled(FACTOR)
    old, new = (daemon(configured("0/1"), clock) for _ in range(2))
    old.start().ready()
    old.until(lambda: old.total("tde_canary_runs_total") > 0, "samples")
    old.stop()
    file = tmp_path / "all.tdehistory"
    assert ordered(old, "history", "export", "--format", "transfer", "--output", str(file)).returncode == 0
    new.start().ready()
    new.stop()
    history = new.directory / "state" / "history.db"
    before = dumped(history)
    content = file.read_bytes()

    for _ in range(3):
        process = subprocess.Popen(
            [*new._command, "history", "import", "-"], env=new._environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin is not None
        process.stdin.write(content[:-1])
        process.stdin.flush()
        until_read(process)
        process.kill()
        process.communicate(timeout=PATIENCE)
        assert dumped(history) == before
    done = ordered(new, "history", "import", "-", given=content)
    assert done.returncode == 0, done.stderr
    assert dumped(history) != before


def frozen_by_hand(exporter: Daemon) -> float:
    with closing(sqlite3.connect(exporter.directory / "state" / "history.db")) as connection:
        ((found,),) = connection.execute("SELECT frozen FROM baselines WHERE event = ''")
        return float(found)


def epochs(exporter: Daemon) -> set[str]:
    """In which the moved target was measured."""
    with closing(sqlite3.connect(exporter.directory / "state" / "history.db")) as connection:
        query = "SELECT DISTINCT epoch FROM blocks JOIN series ON series.id = blocks.series WHERE target = ?"
        return {str(epoch) for (epoch,) in connection.execute(query, (MOVES,))}


def dumped(history: Path) -> list[str]:
    with closing(sqlite3.connect(history)) as connection:
        return list(connection.iterdump())


def until_read(process: subprocess.Popen[bytes]) -> None:
    """Wait until a process has taken all that was written to it, and waits for more."""
    assert process.stdin is not None
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        (waiting,) = struct.unpack("i", fcntl.ioctl(process.stdin, termios.FIONREAD, b"\0" * 4))
        state = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        if waiting == 0 and state == "S":
            return
        assert state != "Z", "it ended"
        os.sched_yield()
    pytest.fail("it does not read")
