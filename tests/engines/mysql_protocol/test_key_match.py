"""Whether a real replica has the keys that its primary's tables are encrypted with."""

from __future__ import annotations

import pytest

from exporter.engines._mysql_protocol.key_match import KeysSeen, compared
from tests.engines.mysql_protocol.replicated import SCHEMA, USER, Watch

ONE, TWO, BOTH = frozenset({"key 1"}), frozenset({"key 2"}), frozenset({"key 1", "key 2"})
NONE = KeysSeen()


@pytest.mark.parametrize(
    ("primary", "standby", "match", "words"),
    [
        (KeysSeen(ONE), KeysSeen(ONE), True, ""),
        (KeysSeen(ONE), KeysSeen(BOTH), True, ""),
        (KeysSeen(ONE), KeysSeen(BOTH, TWO), False, "it lacks key 2"),
        (KeysSeen(problem="no grant"), KeysSeen(ONE, ONE), False, "it lacks key 1"),
        (KeysSeen(BOTH), KeysSeen(ONE), None, "whether it has key 2"),
        (NONE, NONE, None, ""),
        (NONE, KeysSeen(ONE), None, ""),
        (KeysSeen(ONE), KeysSeen(problem="no grant"), None, "not known: no grant"),
        (KeysSeen(problem="no grant"), KeysSeen(ONE), None, "on the primary, no grant"),
    ],
)
def test_all_keys_in_use_have_to_be_there(primary, standby, match, words):
    found, why = compared(primary, standby)
    assert found is match
    assert words in why
    assert bool(why) is bool(words)


def watched(pair):
    watch = Watch(*pair)
    yield watch
    watch.close()


@pytest.fixture(params=["mariadb", "mysql"])
def watch(request):
    yield from watched(request.getfixturevalue(f"{request.param}_pair"))


@pytest.fixture
def mysql_watch(mysql_pair):
    yield from watched(mysql_pair)


def test_a_replica_without_the_key_shows(watch):
    watch.in_step()
    option = "ENCRYPTED=YES ENCRYPTION_KEY_ID=2" if watch.maria else "ENCRYPTION='Y'"
    watch.primary.query(f"CREATE TABLE {SCHEMA}.secrets (a INT) {option}")
    watch.replica.wait_for(watch.primary)
    assert watch.in_step().key_match is True
    if watch.maria:
        watch.replica.remove_key(2)
    else:
        watch.replica.remove_key()
    try:
        watch.replica.restart()
        state = watch.in_step()  # heartbeats are not encrypted
        assert state.key_match is False
        assert "it lacks key 2" in state.problem if watch.maria else "it lacks the master key" in state.problem
    finally:
        watch.replica.restore_key()
        watch.replica.restart()
    assert watch.in_step().key_match is True


def test_without_the_grant_for_keyrings_the_match_is_unknown(mysql_watch):
    watch = mysql_watch
    watch.primary.query(f"CREATE TABLE {SCHEMA}.secrets (a INT) ENCRYPTION='Y'")
    watch.replica.wait_for(watch.primary)
    watch.primary.query(f"REVOKE SELECT ON performance_schema.* FROM {USER}@'%'")
    watch.restart()
    state = watch.in_step()
    assert state.key_match is None
    assert "GRANT SELECT ON performance_schema.keyring_keys" in state.problem
