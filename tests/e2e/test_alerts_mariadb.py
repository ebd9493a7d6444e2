"""From a broken MariaDB to the person who is called: the same story as of the embedded database, on real servers.

Three servers of one exporter, at 240 times the usual pace: `keyless` loses its key file, the replica of `paused` is told
to stop, and on `altered` somebody removes the encryption of one table and changes how the encrypted twin is stored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.alarms import Story, at_pace, watched
from tests.servers.mariadb import MariaDbServer
from tests.servers.server import together
from tests.watched import POOL_MB, SCHEMA, Watched, settings

# The embedded database's story is the one that is told at every change.
# The first test waits for servers, for an hour of paced time, and for what was done before.
pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

FACTOR = 240.0
THRESHOLDS = at_pace(FACTOR)
EXPECTED: tuple[tuple[str, str], ...] = (
    ("TDEKeystoreNotOpen", "keyless"),
    ("TDEStandbyApplyStopped", "paused"),
    ("TDEEncryptionCoverageLost", "altered"),
    ("TDEOverheadHighP50", "altered"),
)
ALSO = (("TDEEncryptedSideFailing", "keyless"), ("TDEOverheadHighP99", "altered"))
"""What may be heard as well: of failing canaries before the keystore is looked at, by the same receiver about the same
database; of the slowest queries, where it takes longer to see that they are as fast as they were."""
RARELY = dict.fromkeys(("canary", "encryption_state", "activity", "heartbeat", "standby"), "120s")


@dataclass
class Databases:
    """The servers, by the names of their targets."""

    keyless: MariaDbServer
    paused: MariaDbServer
    replica: MariaDbServer
    altered: MariaDbServer


@pytest.fixture(scope="module")
def databases() -> Iterator[Databases]:
    """Started, the replica in step, and a table of somebody's own that is encrypted."""
    servers = (
        MariaDbServer("11.8", buffer_pool_mb=POOL_MB),
        MariaDbServer("11.8", buffer_pool_mb=POOL_MB, binlog=True, server_id=1),
        MariaDbServer("11.8", server_id=2),
        MariaDbServer("11.8", buffer_pool_mb=POOL_MB),
    )
    with together(*servers) as started:
        found = Databases(*started)
        found.replica.replica_of(found.paused)
        found.altered.query("CREATE DATABASE shop")
        found.altered.query("CREATE TABLE shop.orders (id INT PRIMARY KEY) ENCRYPTED=YES")
        yield found


def provisioned(server: MariaDbServer, folder: Path) -> Watched:
    folder.mkdir()
    made = Watched(server, folder)
    done = made.provision()
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture(scope="module")
def story(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """Nothing wrong for more than an hour: nobody is called, and the watchdog barks."""
    folder = tmp_path_factory.mktemp("alerts")
    names = ("keyless", "paused", "altered")
    with ThreadPoolExecutor(len(names)) as pool:
        made = pool.map(lambda name: provisioned(getattr(databases, name), folder / name), names)
    databases.replica.wait_for(databases.paused)
    standby = {"name": "east", "host": databases.replica.host, "port": databases.replica.port}
    targets = [
        one.target(name=name, intervals=RARELY, standbys=[standby] if name == "paused" else [])
        for name, one in zip(names, made, strict=True)
    ]
    with watched(
        folder, settings(*targets, operations={"point_select": {"samples": 20, "timeout": "5s"}}), THRESHOLDS
    ) as story:
        story.stack.until(lambda: story.stack.receiver.episodes("TDEWatchdog"), "the watchdog")
        for name in names:
            story.until_judged(name, "point_select")
        story.assert_account()
        yield story


@pytest.fixture(scope="module")
def broken(story: Story, databases: Databases) -> Story:
    """Everything at once."""
    databases.altered.query(f"ALTER TABLE {SCHEMA}.main_encrypted PAGE_COMPRESSED=1")
    databases.altered.query("ALTER TABLE shop.orders ENCRYPTED=NO")
    databases.replica.query("STOP SLAVE SQL_THREAD")
    databases.keyless.remove_key()
    databases.keyless.restart()
    return story


@pytest.fixture(scope="module")
def mended(broken: Story, databases: Databases) -> Story:
    """Everything put right again, after all of it was heard."""
    for name, target in EXPECTED:
        broken.raised(name, target)
    databases.altered.query(f"ALTER TABLE {SCHEMA}.main_encrypted PAGE_COMPRESSED=0")
    databases.altered.query("ALTER TABLE shop.orders ENCRYPTED=YES")
    databases.replica.query("START SLAVE SQL_THREAD")
    databases.keyless.restore_key()
    databases.keyless.restart()
    return broken


def test_a_key_file_that_is_taken_away_is_a_call(broken: Story) -> None:
    alert = broken.raised("TDEKeystoreNotOpen", "keyless", "tde-pager")
    assert re.fullmatch(r"The keystore \S+ of keyless is not open", alert.annotations["summary"])
    assert "bring the key file, wallet or key server back first" in alert.annotations["description"]


def test_a_standby_that_was_told_to_stop_is_a_ticket(broken: Story) -> None:
    alert = broken.raised("TDEStandbyApplyStopped", "paused", "tde-tickets")
    assert alert.annotations["summary"] == "The standby east of paused does not apply changes"


def test_encryption_that_was_removed_from_a_table_is_a_ticket(broken: Story) -> None:
    alert = broken.raised("TDEEncryptionCoverageLost", "altered", "tde-tickets")
    # A table that is being rebuilt, as the encrypted twin is, counts twice for a moment.
    assert re.fullmatch(r"[12] tablespace objects of altered lost their encryption", alert.annotations["summary"])


def test_an_encrypted_twin_that_became_slow_is_a_ticket(broken: Story) -> None:
    alert = broken.raised("TDEOverheadHighP50", "altered", "tde-tickets")
    where = "point_select on altered, pair main"
    assert alert.annotations["summary"] == f"Encryption makes typical queries more than 20 % slower: {where}"
    assert re.search(r"the plain twin: \d\.\d\d times \(95 % interval ", alert.annotations["description"])


@pytest.mark.parametrize(("name", "target"), EXPECTED)
def test_what_is_mended_is_over(mended: Story, name: str, target: str) -> None:
    mended.over(mended.raised(name, target))


def test_each_was_heard_once_and_of_nothing_else(mended: Story) -> None:
    for name, target in EXPECTED:
        mended.over(mended.raised(name, target))
    mended.assert_account(*EXPECTED, may=ALSO)
