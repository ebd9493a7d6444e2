"""Marks, events, the history and baselines, as an operator types them."""

from __future__ import annotations

import csv
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from exporter.domain.clock import SystemClock
from exporter.domain.model import Operation, PairFacts, Phase, SeriesKey, Slot, TwinFacts
from exporter.history.store import History
from exporter.moments import moment
from exporter.overhead.blocks import Block, BlockSide
from exporter.overhead.sketch import LogSketch
from tests.command_line import CommandLine, Done, assert_one_line

EPOCH = "abc"
TARGET = {"name": "orders", "engine": "fake", "pairs": [{"name": "main", "phase": "aa"}, {"name": "other"}]}


@pytest.fixture
def tde(tmp_path: Path) -> CommandLine:
    return CommandLine(tmp_path)


@pytest.fixture
def orders(tde: CommandLine) -> Callable[..., Done]:
    """The command line with a configured target."""
    path = tde.config({"targets": [TARGET, {"name": "second", "engine": "fake"}]})
    return lambda *arguments: tde(*arguments, TDE_EXPORTER_CONFIG=path)


def side(random: np.random.Generator, ratio: float) -> BlockSide:
    sketch = LogSketch()
    sketch.add(ratio * random.lognormal(-7, 0.2, 300))
    return BlockSide(300, 0, sketch)


def measured(tde: CommandLine, hours: float = 25, ratio: float = 1.02, pair: str = "main") -> float:
    """What a daemon has left behind: blocks of both twins until now, old ones joined. When the newest block ends."""
    random = np.random.default_rng(4)
    history = History.open(tde.state / "history.db", 14 * 86400.0, SystemClock())
    now = math.floor(time.time() / 300) * 300
    key = SeriesKey("orders", pair, Operation.POINT_SELECT)
    blocks = [
        Block(float(now - 300 * n), EPOCH, side(random, ratio), side(random, 1.0))
        for n in range(1, int(hours * 12) + 1)
    ]
    history.save_blocks((key, block) for block in blocks)
    a, b = (TwinFacts(slot, False, rows=10, digest="d") for slot in Slot)
    history.records.save_epoch("orders", PairFacts(pair, Phase.AA, a, b, EPOCH), time.time())
    history.prune()
    history.close()
    return float(now)


def test_without_a_history_everything_says_how_to_begin_one(orders: Callable[..., Done], tde: CommandLine) -> None:
    for command in (
        ("mark", "orders", "x"),
        ("events", "list"),
        ("history", "export"),
        ("history", "info"),
        ("baseline", "list"),
        ("baseline", "freeze", "orders"),
    ):
        assert_one_line(orders(*command), "there is no history yet. `tde-exporter run` begins it")
    assert not tde.state.exists(), "it would belong to whoever gave the command"


def test_a_mark_is_an_event(orders: Callable[..., Done], tde: CommandLine) -> None:
    measured(tde, hours=1)
    assert orders("events", "list").stdout == "no events\n"
    done = orders("mark", "orders", "keys  moved\nto the \x1b[31mvault", "--kind", "keystore_migration", "--at", "90m")
    assert done.returncode == 0, done.stderr
    number, said = done.stdout.split(": ", 1)
    assert said.startswith("keystore_migration of orders at ")
    (event,) = json.loads(orders("events", "list", "--json").stdout)
    assert event["id"] == number
    assert event["text"] == "keys moved to the [31mvault"
    assert abs(moment(event["at"], 0.0) - (time.time() - 5400)) < 60
    assert orders("mark", "second", "x").returncode == 0
    lines = orders("events", "list", "orders").stdout.splitlines()
    assert len(lines) == 3
    assert lines[2].startswith(number)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("nobody", "x"), "Name one of: orders, second"),
        (("orders", " \n "), "the text is empty"),
        (("orders", "x", "--at", "tomorrow"), "this is no point in time; write it as"),
        (("orders", "x", "--at", "2999-01-01"), "lies in the future"),
    ],
)
def test_a_mark_that_makes_no_sense_is_refused(
    orders: Callable[..., Done], tde: CommandLine, arguments: tuple[str, ...], named: str
) -> None:
    measured(tde, hours=1)
    assert_one_line(orders("mark", *arguments), named)
    assert orders("events", "list").stdout == "no events\n"


def test_a_day_of_plain_twins_is_frozen_shown_and_certified(orders: Callable[..., Done], tde: CommandLine) -> None:
    measured(tde, hours=40)
    done = orders("baseline", "freeze", "orders", "--pair", "main", "--last", "2d", "--note", "before the change")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("baseline 1: orders, pair main (both plain), ")
    assert "point_select: certified: the twins are alike without encryption" in done.stdout
    listed = orders("baseline", "list").stdout
    assert "1*" in listed
    assert "by hand" in listed
    assert "before the change" in listed
    shown = orders("baseline", "show", "1").stdout
    assert "twin a / twin b" in shown
    assert "P99" in shown
    assert f"{40 * 12 * 300 // 1000}" in shown.replace("\u202f", "")
    assert orders("baseline", "drop", "1").stdout == "baseline 1 is removed\n"
    assert_one_line(orders("baseline", "drop", "1"), "there is no baseline 1")
    assert orders("baseline", "list", "orders").stdout == "no baseline\n"


def test_twins_that_differ_are_not_certified(orders: Callable[..., Done], tde: CommandLine) -> None:
    measured(tde, hours=2, ratio=1.4)
    said = orders("baseline", "freeze", "orders", "--pair", "main").stdout
    assert "point_select: refused: the twins differ: P50 +4" in said.replace("+39", "+40")


def test_what_was_not_measured_long_enough_is_not_frozen(orders: Callable[..., Done], tde: CommandLine) -> None:
    measured(tde, hours=0.5)
    assert_one_line(orders("baseline", "freeze", "orders", "--pair", "main"), "at least 10 blocks of five minutes")
    # All pairs or none.
    measured(tde, hours=2)
    assert_one_line(orders("baseline", "freeze", "orders"), "pair other: nothing was measured in that time")
    assert orders("baseline", "list").stdout == "no baseline\n"


def test_csv_has_a_line_for_each_stretch(orders: Callable[..., Done], tde: CommandLine) -> None:
    until = measured(tde, hours=30)
    rows = list(csv.DictReader(orders("history", "export").stdout.splitlines()))
    assert sum(int(row["plain_samples"]) for row in rows) == 30 * 12 * 300
    assert {row["seconds"] for row in rows} == {"3600.0", "300.0"}
    assert sum(float(row["measured_seconds"]) for row in rows) == 30 * 3600
    assert float(rows[-1]["encrypted_p50_seconds"]) == pytest.approx(0.00093, rel=0.1)
    assert moment(rows[-1]["start"], 0.0) == until - 300
    recent = orders("history", "export", "--since", "1h", "--target", "orders").stdout.splitlines()
    assert 12 <= len(recent) <= 14
    assert len(orders("history", "export", "--target", "second").stdout.splitlines()) == 1


def test_json_lines_hold_sketches_and_events(orders: Callable[..., Done], tde: CommandLine) -> None:
    import base64

    measured(tde, hours=30)
    orders("mark", "orders", "rebuilt", "--kind", "other")
    lines = [json.loads(line) for line in orders("history", "export", "--format", "jsonl").stdout.splitlines()]
    assert [line["record"] for line in lines[-2:]] == ["observation", "event"]
    assert lines[-1]["text"] == "rebuilt"
    sketches = [LogSketch.from_bytes(base64.b64decode(line["plain"]["sketch"])) for line in lines if "plain" in line]
    assert sum(sketch.count for sketch in sketches) == 30 * 12 * 300


def test_an_export_whose_reader_goes_away_ends_quietly(tde: CommandLine, orders: Callable[..., Done]) -> None:
    measured(tde, hours=200)
    environ = tde.environ(TDE_EXPORTER_CONFIG=str(tde.folder / "config.yaml"))
    command = [sys.executable, "-m", "exporter", "history", "export", "--format", "jsonl"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.wait(100) == 0
        assert process.stderr.read() == b""


def test_info_counts_what_there_is(orders: Callable[..., Done], tde: CommandLine) -> None:
    measured(tde, hours=30)
    orders("mark", "orders", "x")
    said = orders("history", "info").stdout
    assert said.startswith(f"{tde.state / 'history.db'}: ")
    assert "schema 2" in said
    assert " hours, " in said
    assert "1 series, 1 events, 0 baselines" in said


def test_a_damaged_history_is_left_to_the_daemon(orders: Callable[..., Done], tde: CommandLine) -> None:
    measured(tde, hours=1)
    path = tde.state / "history.db"
    content = os.urandom(20_000)
    path.write_bytes(content)
    assert_one_line(orders("events", "list"), "Restart the daemon, which sets it aside")
    assert path.read_bytes() == content


@pytest.mark.parametrize("command", ["events", "history", "baseline"])
def test_a_group_without_a_command_says_which_there_are(orders: Callable[..., Done], command: str) -> None:
    done = orders(command)
    assert done.returncode == 2
    assert "COMMAND" in done.stderr
    assert orders(command, "--help").returncode == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10m", 1_000_000.0 - 600),
        ("2d", 1_000_000.0 - 172_800),
        ("1970-01-02", 86_400.0),
        ("1970-01-01T01:00:07Z", 3607.0),
        ("1970-01-01T01:00:07+01:00", 7.0),
        ("1970-01-01 00:01", 60.0),
    ],
)
def test_points_in_time_are_read(text: str, expected: float) -> None:
    assert moment(text, 1_000_000.0) == expected


@pytest.mark.parametrize("text", ["", "soon", "10", "-5m", "1970-13-01", "25:00"])
def test_what_is_no_point_in_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="point in time"):
        moment(text, 1_000_000.0)
