"""Before and after the enablement, with a real database and an operator at the command line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import apsw
import pytest

from exporter.engines.sqlite.key import KeyFile


@pytest.fixture
def tell(small):
    """Runs a command of the operator's beside a daemon; its standard output."""

    def run(exporter, *arguments: str) -> str:
        command = [sys.executable, "-m", "exporter", "--config", str(exporter.directory / "config.yaml"), *arguments]
        environ = {**os.environ, "TDE_EXPORTER_STATE_DIRECTORY": str(exporter.directory / "state")}
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def encrypt_in_place(path, key: KeyFile) -> None:
    """What an administrator does to the file of a twin: the same data, from now on encrypted, under the same name."""
    copy = path.with_name("copy.db")
    source = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    source.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    shutil.copyfile(path, copy)
    source.close()
    connection = apsw.Connection(str(copy))
    connection.execute("PRAGMA journal_mode = DELETE").fetchall()
    connection.execute("PRAGMA cipher = 'aes256cbc'").fetchall()
    connection.execute(f"PRAGMA rekey = '{key.read().pragma}'").fetchall()
    connection.close()
    copy.rename(path)


def plain_pair(small, **target):
    return small(
        operations=["full_scan_cold"],
        pairs=[{"name": "phonebook", "rows": 20_000, "phase": "aa"}],
        standbys=[],
        **target,
    )


def test_a_database_without_encryption_is_watched_until_it_is_encrypted_in_place(daemon, small, tell):
    exporter = daemon(plain_pair(small)).start().ready()
    exporter.until(lambda: exporter.value("tde_pair_valid") == 1, "plain twins")
    exporter.until(lambda: exporter.total("tde_canary_runs_total") >= 4, "scans of plain twins")
    assert exporter.value("tde_pair_info", phase="aa") == 1
    assert exporter.total("tde_canary_decrypts_total") == 0
    assert exporter.value("tde_event_timestamp_seconds") is None
    assert tell(exporter, "events", "list") == "no events\n"

    folder = exporter.directory / "state" / "targets" / "embedded"
    key = KeyFile(folder / "key")
    key.create()
    encrypt_in_place(folder / "phonebook.plain.db", key)

    exporter.until(lambda: exporter.value("tde_event_timestamp_seconds", kind="enablement"), "the enablement")
    exporter.until(lambda: exporter.value("tde_pair_info", phase="enabled", algorithm="aes256cbc") == 1, "its phase")
    exporter.until(lambda: exporter.total("tde_canary_decrypts_total", variant="encrypted") > 0, "decrypts")
    assert exporter.value("tde_pair_valid") == 1
    assert exporter.total("tde_canary_decrypts_total", variant="plain") == 0
    # The page may show it before it is written down.
    exporter.until(
        lambda: '"enablement"' in tell(exporter, "events", "list", "--json"), "the enablement in the history"
    )
    listed = json.loads(tell(exporter, "events", "list", "--json"))
    (enablement,) = [event for event in listed if event["kind"] == "enablement"]
    assert (enablement["origin"], enablement["pair"]) == ("detected", "phonebook")
    exporter.until_said("is now encrypted")

    exporter.kill()
    exporter.start().ready()
    exporter.until(lambda: exporter.value("tde_event_timestamp_seconds", event=enablement["id"]), "the same event")
    exporter.until(lambda: exporter.value("tde_pair_valid") == 1, "the twins again")
    # What else changed with it may have been seen only after the first look at the list.
    kept = {event["id"]: event for event in json.loads(tell(exporter, "events", "list", "--json"))}
    assert {event["id"] for event in listed} <= kept.keys()
    assert [event["id"] for event in kept.values() if event["kind"] == "enablement"] == [enablement["id"]]
    assert len({(event["kind"], event["pair"], event["text"]) for event in kept.values()}) == len(kept), "each once"


def test_what_an_operator_marks_is_on_the_page_within_seconds(daemon, small, tell):
    exporter = daemon(small(operations=["full_scan"])).start().ready()
    said = tell(exporter, "mark", "embedded", "moved to another <disk>", "--kind", "other", "--at", "10m")
    event = said.split(":")[0]
    exporter.until(lambda: exporter.value("tde_event_timestamp_seconds", event=event, kind="other"), "the mark")
    exporter.until_said("moved to another &lt;disk&gt;")
    exporter.until_said("no baseline")


def test_observations_can_be_taken_out_while_they_are_written(daemon, small, tell):
    exporter = daemon(small(operations=["full_scan"])).start().ready()

    def rows():
        return tell(exporter, "history", "export").splitlines()[1:]

    exporter.until(lambda: exporter.total("tde_canary_runs_total") >= 4, "scans")
    exporter.until(rows, "rows in the history")
    assert rows()[0].startswith("embedded,phonebook,full_scan,")
