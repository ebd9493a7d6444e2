"""The grants that docs/engines/mariadb.md lists, tried on real servers: all of them, and each one missing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engines.mysql_protocol.documented_grants import Fleet, documented, reading
from tests.servers.mariadb import MariaDbServer
from tests.servers.server import together

GRANTS = documented("mariadb")
ON_STANDBYS = {text: grant for text, grant in GRANTS.items() if grant.on_standbys}
COUNTED: dict[str, Any] = {
    "performance_schema": True,
    "consumers": ("events_statements_current", "events_statements_history"),
    "buffer_pool_mb": 8,
}


@pytest.fixture(scope="module", params=["11.8", "10.11"])
def fleet(request, tmp_path_factory):
    primary = MariaDbServer(request.param, server_id=1, binlog=True, **COUNTED)
    replica = MariaDbServer(request.param, server_id=2)
    with together(primary, replica):
        replica.replica_of(primary)
        yield Fleet(primary, replica, tmp_path_factory.mktemp("fleet"), "mariadb")


def test_the_printed_account_has_the_documented_grants(fleet):
    assert set(fleet.printed.grants) == set(GRANTS)


def test_with_all_documented_grants_everything_is_known(fleet):
    assert fleet.words == ""
    assert fleet.all_known["tde_target_info"] == "primary"
    assert not {name for name, known in fleet.all_known.items() if isinstance(known, str)} - {"tde_target_info"}
    assert all(all(answers) for answers in fleet.all_known["canary"][2].values())
    assert all(fleet.all_known["activity"].values())


def test_from_elsewhere_only_what_the_host_alone_knows_is_unknown(fleet, tmp_path):
    """`userstat` is off as shipped: CPU is not to be had from elsewhere."""
    known, words = reading(fleet.target, hide=tmp_path)
    valid, _, _, clock, cpu_source, decrypt_source = known.pop("canary")
    activity = known.pop("activity")
    assert {name: known[name] == fleet.all_known[name] for name in known} == dict.fromkeys(known, True)
    assert (valid, clock, cpu_source, decrypt_source) == (True, "server", "", "counter")
    assert {name for name, is_known in activity.items() if not is_known} == {"cpu_seconds", "host_cpus", "host_aes"}
    assert words == "CPU of canary queries is unknown; SET GLOBAL userstat=ON makes it known"


@pytest.mark.parametrize("grant", ON_STANDBYS.values(), ids=ON_STANDBYS)
def test_without_a_grant_on_a_standby_only_what_is_known_of_it_narrows_and_it_is_named(fleet, grant):
    """The account there has the grants for standbys only."""
    with fleet.without(grant.on_standbys, "watcher"):
        narrowed, words = fleet.narrowed()
    assert narrowed == {"standby"}
    assert grant.on_standbys in words
