"""From a broken embedded database to the person who is called: exporter, Prometheus, Alertmanager, a webhook.

Five targets of one exporter live side by side, at 240 times the usual pace: `calm` has nothing wrong with it and must never
be heard of. Each other one is broken in a way of its own and mended again, all at the same time: real files, real signals,
a real index. What is heard is compared with what must be heard, for every target and at every moment.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from exporter.engines.sqlite.unlocking import unlock
from tests.alarms import Story, at_pace, watched
from tests.processes import appliers

# The first test waits for an hour of paced time and what was done before.
pytestmark = pytest.mark.timeout(600)

FACTOR = 240.0
CIPHER = "aegis"
"""The cheapest: what encryption costs here is far below any threshold, while every insert is encrypted."""
NAMES = ("calm", "keyless", "paused", "slowed", "uncovered")


def settings() -> dict:
    rarely = dict.fromkeys(("canary", "encryption_state", "activity", "standby"), "120s")
    return {
        "targets": [
            {
                "name": name,
                "engine": "sqlite",
                "cipher": CIPHER,
                "pairs": [{"name": "phonebook", "rows": 1000}],
                "standbys": [{"name": "local"}] if name in ("calm", "paused") else [],
                "operations": ["insert_batch"],
                "intervals": {**rarely, "heartbeat": "30s"},
                "budgets": {"time_share_ratio": 1.0, "bytes_written_per_hour": "100GiB"},
            }
            for name in NAMES
        ],
        "operations": {"insert_batch": {"samples": 10, "timeout": "5s"}},
        "probes": {"processes": 1},
    }


THRESHOLDS = at_pace(
    FACTOR,
    # A lag is in real seconds, and nobody waits here for a minute of it.
    standby_lag_seconds=6.0,
)
SLOW = "CREATE INDEX slow ON scratch (name)"
"""What it takes to keep that up costs each insert some three quarters as much again."""


class Databases:
    """The files of the targets, and what can be done to them."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._kept: dict[str, bytes] = {}

    def folder(self, target: str) -> Path:
        return self._story.exporter.directory / "state" / "targets" / target

    def take_key_away(self, target: str) -> None:
        key = self.folder(target) / "key"
        self._kept["key"] = key.read_bytes()
        key.unlink()

    def give_key_back(self, target: str) -> None:
        key = self.folder(target) / "key"
        key.touch(mode=0o600)
        key.write_bytes(self._kept["key"])

    def exchange(self, target: str, twin: bytes) -> None:
        """Put another file in place of the encrypted twin."""
        new = self.folder(target) / "new"
        new.write_bytes(twin)
        new.rename(self.folder(target) / "phonebook.encrypted.db")

    def decrypt(self, target: str) -> None:
        self._kept["twin"] = (self.folder(target) / "phonebook.encrypted.db").read_bytes()
        self.exchange(target, (self.folder(target) / "phonebook.plain.db").read_bytes())

    def encrypt(self, target: str) -> None:
        self.exchange(target, self._kept["twin"])

    def alter_encrypted(self, target: str, sql: str) -> None:
        """Change the encrypted twin, as its owner can at any time."""
        connection = apsw.Connection(str(self.folder(target) / "phonebook.encrypted.db"))
        with contextlib.closing(connection):
            unlock(connection, CIPHER, f"raw:{(self.folder(target) / 'key').read_text().strip()}")
            connection.set_busy_timeout(5000)
            connection.execute(sql)

    def signal_standby(self, target: str, number: signal.Signals) -> None:
        (pid,) = (
            pid
            for probe in self._story.exporter.children()
            for pid in appliers(probe)
            if any(self.folder(target) in opened.parents for opened in _opened(pid))
        )
        os.kill(pid, number)


def _opened(pid: int) -> Iterator[Path]:
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            yield descriptor.readlink()


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Hours of five targets with nothing wrong: nobody is called, and the watchdog barks."""
    with watched(tmp_path_factory.mktemp("alerts"), settings(), THRESHOLDS) as story:
        story.stack.until(lambda: story.stack.receiver.episodes("TDEWatchdog"), "the watchdog")
        for name in NAMES:
            story.until_judged(name, "insert_batch")
        story.assert_account()
        yield story


@pytest.fixture(scope="module")
def databases(story: Story) -> Databases:
    return Databases(story)


@pytest.fixture(scope="module")
def broken(story: Story, databases: Databases) -> Story:
    """Everything at once."""
    databases.alter_encrypted("slowed", SLOW)
    databases.take_key_away("keyless")
    databases.signal_standby("paused", signal.SIGSTOP)
    databases.decrypt("uncovered")
    return story


@pytest.fixture(scope="module")
def mended(broken: Story, databases: Databases) -> Story:
    """Everything put right again, after all of it was heard."""
    for name, target in EXPECTED:
        broken.raised(name, target)
    databases.alter_encrypted("slowed", "DROP INDEX slow")
    databases.give_key_back("keyless")
    databases.signal_standby("paused", signal.SIGCONT)
    databases.encrypt("uncovered")
    return broken


EXPECTED = (
    ("TDEKeystoreNotOpen", "keyless"),
    ("TDEStandbyLagHigh", "paused"),
    ("TDEOverheadHighP50", "slowed"),
    ("TDEEncryptionCoverageLost", "uncovered"),
    ("TDEPairInvalid", "uncovered"),
)

ALSO = (("TDEOverheadHighP99", "slowed"),)
"""What may be heard as well: it can take longer to see that the slowest queries are as fast as they were."""


def test_a_key_file_that_is_taken_away_is_a_call(broken: Story) -> None:
    alert = broken.raised("TDEKeystoreNotOpen", "keyless", "tde-pager")
    assert alert.annotations["summary"] == "The keystore key of keyless is not open"
    assert "(state missing, in the engine's words" in alert.annotations["description"]
    assert "bring the key file, wallet or key server back first" in alert.annotations["description"]


def test_a_standby_that_stands_still_is_a_ticket(broken: Story) -> None:
    alert = broken.raised("TDEStandbyLagHigh", "paused", "tde-tickets")
    assert alert.annotations["summary"].startswith("The standby local of paused is ")
    assert alert.annotations["summary"].endswith("s behind")
    assert re.search(r"apply \S+s, heartbeat \S+s\)", alert.annotations["description"])


def test_encryption_that_was_removed_is_a_ticket(broken: Story) -> None:
    alert = broken.raised("TDEEncryptionCoverageLost", "uncovered", "tde-tickets")
    assert alert.annotations["summary"] == "1 database objects of uncovered lost their encryption"
    assert "more lie in the clear" in alert.annotations["description"]
    alert = broken.raised("TDEPairInvalid", "uncovered", "tde-tickets")
    assert alert.annotations["summary"] == "The twins of uncovered, pair phonebook, cannot be compared"


def test_an_encrypted_twin_that_became_slow_is_a_ticket(broken: Story) -> None:
    alert = broken.raised("TDEOverheadHighP50", "slowed", "tde-tickets")
    where = "insert_batch on slowed, pair phonebook"
    assert alert.annotations["summary"] == f"Encryption makes typical queries more than 20 % slower: {where}"
    assert re.search(
        r"more than 20 % longer than on the plain twin: 1\.\d\d times \(95 % interval 1\.\d\d to \d\.\d\d\) in the last hour",
        alert.annotations["description"],
    )


@pytest.mark.parametrize(("name", "target"), EXPECTED)
def test_what_is_mended_is_over(mended: Story, name: str, target: str) -> None:
    mended.over(mended.raised(name, target))


def test_each_was_heard_once_and_of_the_calm_one_nothing(mended: Story) -> None:
    for name, target in EXPECTED:
        mended.over(mended.raised(name, target))
    mended.assert_account(*EXPECTED, may=ALSO)


def test_an_exporter_that_was_killed_is_a_call_and_over_when_it_is_back(mended: Story) -> None:
    before = {str(episode.labels) for name in NAMES for episode in mended.heard(name)}
    mended.exporter.kill()
    alert = mended.raised("TDEExporterDown", receiver="tde-pager")
    assert alert.annotations["summary"] == f"The TDE exporter 127.0.0.1:{mended.exporter.port} does not answer"
    assert "nothing is known about the databases that it watches" in alert.annotations["description"]

    mended.exporter.start().ready()
    mended.over(alert)
    assert [episode.name for episode in mended.heard()] == ["TDEExporterDown"]
    assert {str(episode.labels) for name in NAMES for episode in mended.heard(name)} == before
