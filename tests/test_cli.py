"""The command line as an operator types it: output, exit codes, and one clear line for every mistake."""

import fcntl
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from exporter.history.claim import Claim
from tests.command_line import CommandLine, assert_one_line
from tests.servers.room import free_port


@pytest.fixture
def tde(tmp_path):
    return CommandLine(tmp_path)


@pytest.fixture
def config(tde):
    return tde.config


SMALL = {"targets": [{"name": "embedded", "engine": "sqlite", "pairs": [{"name": "phonebook", "rows": 20000}]}]}


def test_version(tde):
    from exporter import __version__

    assert tde("--version").stdout == f"tde-exporter {__version__}\n"


@pytest.mark.parametrize(
    "arguments", [(), ("run",), ("check",), ("once",), ("targets",), ("provision",), ("verify",), ("drop",)]
)
def test_every_command_has_help(tde, arguments):
    done = tde(*arguments, "--help")

    assert done.returncode == 0
    assert "usage: tde-exporter" in done.stdout


def test_check_accepts_the_default_and_a_file(tde, config):
    assert tde("check").stdout == "embedded default: ok (1 target, 1 pair)\n"
    path = config(SMALL)
    assert tde("check", path).stdout == f"{path}: ok (1 target, 1 pair)\n"
    assert tde("--config", path, "check").stdout == f"{path}: ok (1 target, 1 pair)\n"
    assert tde("check", TDE_EXPORTER_CONFIG=path).stdout == f"{path}: ok (1 target, 1 pair)\n"


def test_targets_lists_what_is_configured(tde, config):
    done = tde("-c", config(SMALL), "targets")

    assert done.returncode == 0
    assert "embedded" in done.stdout
    assert "full_scan_cold" in done.stdout


def test_shards_are_told_and_what_moves_when_there_is_one_more(tde, config):
    targets = [{"name": name, "engine": "sqlite"} for name in ("embedded", "orders", "db_7")]
    path = config({"shard": "1/3", "targets": targets})

    assert tde("check", path).stdout.endswith("ok (3 targets, 3 pairs; shard 1/3 watches 1 target)\n")
    lines = tde("-c", path, "targets", "--shards", "7").stdout.splitlines()
    told = {line.split()[0]: line.split()[1:] for line in lines[1:5] if line.split()}
    assert told["embedded"] == ["0/3", "4/7", "moves", "to", "4/7"]
    assert told["orders"] == ["1/3", "1/7", "stays"]
    assert told["db_7"] == ["2/3", "5/7", "moves", "to", "5/7"]


def test_once_prints_what_encryption_costs(tde, config):
    done = tde("-c", config(SMALL), "once", "--units", "6")

    assert done.returncode == 0, done.stderr
    for word in ("full_scan_cold", "insert_batch", "CPU overhead", "blind"):
        assert word in done.stdout
    assert "building" in done.stderr.lower()


def test_once_json_has_intervals_and_counts(tde, config):
    done = tde("-c", config(SMALL), "once", "embedded", "--json", "--units", "6")

    rows = {row["operation"]: row for row in json.loads(done.stdout)["rows"]}
    cold = rows["full_scan_cold"]
    assert cold["cpu"]["lower"] <= cold["cpu"]["estimate"] <= cold["cpu"]["upper"]
    assert cold["cpu"]["lower"] > 1
    assert cold["decrypts_per_sample"] > 100
    assert rows["full_scan"]["blind"] is True
    assert rows["full_scan"]["decrypts_per_sample"] == 0


BAD = {
    "unknown key": ("targets: [{name: a, engine: sqlite, colour: red}]", "colour"),
    "wrong type": ("targets: [{name: a, engine: sqlite, cipher: 7}]", "cipher"),
    "unknown engine": ("targets: [{name: a, engine: dbase}]", "dbase"),
    "two targets of one name": ("targets: [{name: a, engine: sqlite}, {name: a, engine: fake}]", "named 'a'"),
    "duplicate key": ("web: {port: 1}\nweb: {port: 2}\ntargets: [{name: a, engine: sqlite}]", "web"),
    "impossible interval": ("intervals: {canary: 0s}\ntargets: [{name: a, engine: sqlite}]", "canary"),
    "unknown operation": ("targets: [{name: a, engine: fake, operations: [drop_table]}]", "operations[0]"),
    "not YAML": ("targets: [", "YAML"),
    "empty": ("", "targets"),
    "shard": (SMALL | {"shard": "3/3"}, "counted from 0"),
}


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("command", ["check", "run", "once"])
def test_bad_input_gives_one_clear_line(tde, config, case, command):
    content, named = BAD[case]
    done = tde("-c", config(content), command)

    assert_one_line(done, named)


@pytest.mark.parametrize("command", ["provision", "verify", "drop"])
def test_the_commands_about_twins_refuse_bad_input_too(tde, config, command):
    content, named = BAD["unknown key"]
    assert_one_line(tde("-c", config(content), command), named)


def test_a_missing_file_is_named(tde, tmp_path):
    assert_one_line(tde("-c", str(tmp_path / "absent.yaml"), "run"), "absent.yaml")


TWO = {"targets": [{"name": "first", "engine": "fake"}, {"name": "second", "engine": "fake"}]}


@pytest.mark.parametrize("command", ["once", "provision", "verify", "drop"])
def test_a_target_that_is_unknown_or_not_named_names_the_known_ones(tde, config, command):
    assert_one_line(tde("-c", config(SMALL), command, "other"), "embedded")
    assert_one_line(tde("-c", config(TWO), command), "several targets are configured. Name one of: first, second")


def test_a_port_in_use_is_named(tde, config):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert_one_line(tde("-c", config(SMALL), "run", TDE_EXPORTER_WEB__PORT=port), port)


def test_a_state_directory_that_cannot_be_made_is_named(tde, config, tmp_path):
    (tmp_path / "file").write_text("in the way")
    done = tde("-c", config(SMALL), "run", TDE_EXPORTER_STATE_DIRECTORY=str(tmp_path / "file" / "state"))

    assert_one_line(done, "state")


def test_a_second_daemon_on_one_state_directory_is_refused(tde, config, tmp_path):
    claim = Claim(tmp_path / "state" / "history.db")
    try:
        done = tde("-c", config(SMALL), "run", TDE_EXPORTER_WEB__PORT=str(free_port()))
    finally:
        claim.release()

    assert_one_line(done, f"another tde-exporter (process {os.getpid()}) keeps this history")


def test_once_beside_a_daemon_measures_what_it_can_and_says_who_is_in_the_way(tde, config, tmp_path):
    path = config(SMALL)
    assert tde("-c", path, "once", "--units", "6").returncode == 0
    lock = tmp_path / "state" / "targets" / "embedded" / "lock"
    with lock.open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = tde("-c", path, "once", "--units", "6", "--json")

    found = json.loads(done.stdout)
    assert done.returncode == 1
    ((operation, problem),) = [(each["operation"], each["problem"]) for each in found["failures"]]
    assert operation == "insert_batch"
    assert "another exporter (process " in problem
    assert str(lock) in problem
    assert [row["operation"] for row in found["rows"] if row["cpu"]] == ["point_select", "full_scan", "full_scan_cold"]


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_under_the_output_is_one_line(config, tmp_path, unbuffered):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "exporter", "check", config(SMALL)],
            env={
                **os.environ,
                "TDE_EXPORTER_STATE_DIRECTORY": str(tmp_path / "state"),
                "PYTHONUNBUFFERED": unbuffered,
            },
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=100,
            check=False,
        )
    done.stdout = ""

    assert_one_line(done, "No space left")
