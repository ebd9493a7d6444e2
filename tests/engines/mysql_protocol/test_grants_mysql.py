"""The grants that docs/engines/mysql.md lists, tried on a real server: all of them, and each one missing."""

from __future__ import annotations

import threading

import pytest

from tests.engines.mysql_protocol.canary_targets import opened
from tests.engines.mysql_protocol.documented_grants import Fleet, documented, reading
from tests.processes import until
from tests.servers.mysql import MySqlServer
from tests.servers.server import together

GRANTS = documented("mysql")
ALWAYS = {text: grant for text, grant in GRANTS.items() if grant.always}
ON_STANDBYS = {text: grant for text, grant in ALWAYS.items() if grant.on_standbys}
STAGES = "SELECT ON performance_schema.events_stages_current"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    primary = MySqlServer(
        server_id=1,
        binlog=True,
        consumers=("events_statements_cpu",),
        buffer_pool_mb=8,
        options={"binlog-encryption": "ON"},
    )
    replica = MySqlServer(server_id=2)
    with together(primary, replica):
        replica.replica_of(primary)
        yield Fleet(primary, replica, tmp_path_factory.mktemp("fleet"), "mysql")


def test_the_printed_account_has_the_documented_grants(fleet):
    assert set(fleet.printed.grants) == set(GRANTS)


def test_with_all_documented_grants_everything_is_known(fleet):
    assert fleet.words == ""
    assert fleet.all_known["tde_target_info"] == "primary"
    assert not {name for name, known in fleet.all_known.items() if isinstance(known, str)} - {"tde_target_info"}
    assert all(all(answers) for answers in fleet.all_known["canary"][2].values())
    assert all(fleet.all_known["activity"].values())


def test_from_elsewhere_only_what_the_host_alone_knows_is_unknown(fleet, tmp_path):
    known, words = reading(fleet.target, hide=tmp_path)
    valid, _, _, clock, cpu_source, decrypt_source = known.pop("canary")
    activity = known.pop("activity")
    assert {name: known[name] == fleet.all_known[name] for name in known} == dict.fromkeys(known, True)
    assert (valid, clock, cpu_source, decrypt_source) == (True, "server", "statement", "proxy")
    assert {name for name, is_known in activity.items() if not is_known} == {"cpu_seconds", "host_cpus", "host_aes"}
    assert words == ""


@pytest.mark.parametrize("grant", ALWAYS.values(), ids=ALWAYS)
def test_without_a_grant_only_its_collectors_narrow_and_it_is_named(fleet, grant):
    with fleet.without(grant.text):
        narrowed, words = fleet.narrowed()
    assert narrowed == set(grant.collectors)
    assert grant.text in words


@pytest.mark.parametrize("grant", ON_STANDBYS.values(), ids=ON_STANDBYS)
def test_without_a_grant_on_a_standby_only_what_is_known_of_it_narrows_and_it_is_named(fleet, grant):
    """The account there has the grants for standbys only."""
    with fleet.without(grant.on_standbys, "watcher"):
        narrowed, words = fleet.narrowed()
    assert narrowed == {"standby"}
    assert grant.on_standbys in words


def test_what_is_rarely_needed_is_rarely_missed(fleet):
    for grant in GRANTS.values():
        if grant.always:
            continue
        with fleet.without(grant.text):
            assert fleet.narrowed() == (set(), "")


def test_how_far_an_encryption_is_takes_a_grant_that_is_named_while_there_is_one(fleet):
    fleet.primary.query("CREATE TABLE test.turned AS SELECT * FROM tde_canary.main_plain")
    ended = threading.Event()

    def turn():
        while not ended.is_set():
            for wanted in "YN":
                fleet.primary.query(f"ALTER TABLE test.turned ENCRYPTION='{wanted}'")

    turning = threading.Thread(target=turn)
    with fleet.without(STAGES), opened(fleet.target) as session:
        turning.start()
        try:
            until(lambda: any(STAGES in words for words in session.encryption_state(10.0).problems), "the grant named")
        finally:
            ended.set()
            turning.join()
            fleet.primary.query("DROP TABLE test.turned")
