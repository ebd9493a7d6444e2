"""What the states of keystores are judged from, without a server."""

from __future__ import annotations

import pytest

from exporter.domain.states import KeystoreState
from exporter.engines.mariadb.keys import Keys as MariaDbKeys
from exporter.engines.mysql.keys import Keyring
from exporter.engines.mysql.keys import Keys as MySqlKeys

OPEN, CLOSED, NO_KEY = KeystoreState.OPEN, KeystoreState.CLOSED, KeystoreState.NO_KEY
MISSING, DEGRADED, UNKNOWN = KeystoreState.MISSING, KeystoreState.DEGRADED, KeystoreState.UNKNOWN

# -- MariaDB -------------------------------------------------------------------------------------

ACTIVE = [("file_key_management", "ACTIVE")]
HAS_1, HAS_2, LACKS_1, LACKS_2 = (1, 0, 5), (2, 0, 1), (1, 1, 5), (2, 1, 1)


@pytest.mark.parametrize(
    ("plugins", "keys", "missing", "logs", "unreadable", "state", "in_use", "lost"),
    [
        (ACTIVE, [], 0, False, None, OPEN, 0, 0),
        (ACTIVE, [], 0, True, None, OPEN, 1, 0),
        (ACTIVE, [HAS_1, HAS_2], 0, True, None, OPEN, 2, 0),
        (ACTIVE, [HAS_1, LACKS_2], 0, False, None, DEGRADED, 2, 1),
        (ACTIVE, [HAS_1, LACKS_2], 0, False, True, DEGRADED, 2, 1),
        (ACTIVE, [LACKS_1, LACKS_2], 0, False, None, NO_KEY, 2, 2),
        (ACTIVE, [HAS_1], 0, False, True, NO_KEY, 1, 0),
        (ACTIVE, [HAS_1], 0, False, False, OPEN, 1, 0),
        (ACTIVE, None, None, False, None, UNKNOWN, None, None),
        (ACTIVE, None, None, False, False, OPEN, None, None),
        (ACTIVE, None, None, False, True, NO_KEY, None, None),
        ([("file_key_management", "DISABLED")], [HAS_1], 0, False, None, CLOSED, 1, 0),
        ([], [LACKS_1], 0, False, None, MISSING, 1, 1),
        ([], [], 3, False, True, MISSING, 0, 0),
        ([], None, None, False, None, UNKNOWN, None, None),
        ([], None, None, False, True, MISSING, None, None),
        (None, [HAS_1], 0, False, None, UNKNOWN, 1, 0),
    ],
)
def test_state_of_mariadbs_plugin(plugins, keys, missing, logs, unreadable, state, in_use, lost):
    remembered = MariaDbKeys()
    remembered.unreadable = unreadable
    found = remembered.judge(plugins, keys, missing, logs, lambda _: None)
    assert found is not None
    assert (found.state, found.keys_in_use, found.keys_missing) == (state, in_use, lost)


def test_without_a_plugin_and_without_encryption_there_is_no_keystore():
    said: list[str] = []
    assert MariaDbKeys().judge([], [], 0, False, said.append) is None
    assert said == []
    # These were only not used since the start.
    assert MariaDbKeys().judge([], [], 3, False, said.append) is None
    assert len(said) == 1


def test_mariadb_keys_that_vanish_with_their_tablespaces_are_remembered():
    keys, said = MariaDbKeys(), list[str]()
    keys.judge(ACTIVE, [HAS_1, HAS_2], 0, False, said.append)
    assert said == []
    found = keys.judge(ACTIVE, [HAS_1], 1, False, said.append)
    assert found is not None
    assert (found.state, found.keys_in_use, found.keys_missing) == (DEGRADED, 2, 1)
    assert said.pop() == "tablespaces that the server could not open: 1; their keys or their files are missing"
    # The plugin is gone as well, and with it all that is encrypted.
    found = keys.judge([], [], 2, False, said.append)
    assert found is not None
    assert (found.name, found.state, found.raw) == ("file_key_management", MISSING, "not loaded")
    assert (found.keys_in_use, found.keys_missing) == (2, 2)
    assert said == ["unknown: whether 2 tablespaces are encrypted; without a plugin they are opened at their first use"]
    # Tables that were dropped or encrypted with another key need none any more.
    found = keys.judge(ACTIVE, [HAS_1], 0, False, said.append)
    assert found is not None
    assert (found.state, found.keys_in_use, found.keys_missing) == (OPEN, 1, 0)


@pytest.mark.parametrize(("before", "after"), [(None, None), (False, None), (True, True)])
@pytest.mark.parametrize("keys", [MariaDbKeys, MySqlKeys])
def test_after_a_restart_an_old_success_proves_nothing(keys, before, after):
    remembered = keys()
    remembered.unreadable = before
    remembered.restarted()
    assert remembered.unreadable is after


@pytest.mark.parametrize(
    ("name", "kind"), [("file_key_management", "file"), ("hashicorp_key_management", "external"), ("x", "external")]
)
def test_kinds_of_mariadbs_plugins(name, kind):
    found = MariaDbKeys().judge([(name, "ACTIVE")], [], 0, False, lambda _: None)
    assert found is not None
    assert (found.name, found.kind, found.raw, found.seen_from) == (name, kind, "ACTIVE", "server")


# -- MySQL ---------------------------------------------------------------------------------------

OWN, OTHER = "11111111-aaaa", "22222222-bbbb"
FILE = "component_keyring_file"


def keyring(
    name: str | None = FILE, status: str = "Active", masters: dict[str, int] | None = None, binlog: bool = False
):
    return Keyring(OWN, name, status, masters, binlog)


@pytest.mark.parametrize(
    ("found", "spaces", "binlog", "unreadable", "state", "in_use", "lost"),
    [
        (keyring(masters={}), 0, False, None, OPEN, 0, 0),
        (keyring(masters={OWN: 1}), 0, False, None, OPEN, 0, 0),
        (keyring(masters={OWN: 1}), 4, False, None, OPEN, 1, 0),
        (keyring(masters={OWN: 1}), 4, False, True, NO_KEY, 1, 1),
        (keyring(masters={}), 4, False, None, NO_KEY, 1, 1),
        (keyring(masters={}), 4, False, False, NO_KEY, 1, 1),
        (keyring(masters={OTHER: 3}), 4, False, None, UNKNOWN, 1, None),
        (keyring(masters={OTHER: 3}), 4, False, False, OPEN, 1, 0),
        (keyring(masters={OTHER: 3}), 4, False, True, NO_KEY, 1, 1),
        (keyring(masters={OTHER: 3, OWN: 4}), 4, False, None, OPEN, 1, 0),
        (keyring(masters={OWN: 1}), 4, True, None, DEGRADED, 2, 1),
        (keyring(masters={OWN: 1}, binlog=True), 4, True, None, OPEN, 2, 0),
        (keyring(masters=None), 4, False, None, UNKNOWN, 1, None),
        (keyring(masters=None), 4, False, False, OPEN, 1, None),
        (keyring(masters={OWN: 1}), None, False, None, UNKNOWN, None, None),
        (keyring(status="Disabled", masters={}), 4, False, None, CLOSED, 1, 1),
        (keyring(name="", status="", masters={}), 4, False, None, MISSING, 1, 1),
        (keyring(name="", status="", masters={}), None, False, None, UNKNOWN, None, None),
        (keyring(name="", status="", masters={}), None, False, True, MISSING, None, None),
        (keyring(name=None, status="", masters={OWN: 1}), 4, False, None, UNKNOWN, 1, 0),
    ],
)
def test_state_of_mysqls_keyring(found, spaces, binlog, unreadable, state, in_use, lost):
    keys = MySqlKeys()
    keys.unreadable = unreadable
    seen = keys.judge(found, spaces, binlog, lambda _: None)
    assert seen is not None
    assert (seen.state, seen.keys_in_use, seen.keys_missing) == (state, in_use, lost)


def test_without_a_keyring_and_without_encryption_there_is_no_keystore():
    assert MySqlKeys().judge(keyring(name="", status="", masters={}), 0, False, lambda _: None) is None


def test_a_mysql_key_that_vanished_is_remembered():
    keys = MySqlKeys()
    for masters, state in (
        ({OWN: 1}, OPEN),
        ({OWN: 2}, OPEN),
        ({OWN: 1}, NO_KEY),  # an old copy of the key file
        ({OTHER: 5}, NO_KEY),
        ({OWN: 3}, NO_KEY),  # the keys of the other server are gone
    ):
        found = keys.judge(keyring(masters=masters), 4, False, lambda _: None)
        assert found is not None
        assert found.state is state, masters
    keys.unreadable = False
    keys.judge(keyring(masters={OWN: 3}), 4, False, lambda _: None)
    found = keys.judge(keyring(masters={OWN: 3}), 4, False, lambda _: None)
    assert found is not None
    assert found.state is OPEN


def test_a_foreign_keyring_is_no_alarm_but_said():
    said: list[str] = []
    MySqlKeys().judge(keyring(masters={OTHER: 1}), 4, False, said.append)
    assert len(said) == 1
    assert "another server" in said[0]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (FILE, "file"),
        ("component_percona_keyring_encrypted_file", "file"),
        ("component_keyring_vault", "external"),
        ("component_keyring_kmip", "external"),
        ("keyring_file", "file"),
        ("keyring_vault", "external"),
    ],
)
def test_kinds_of_mysqls_keyrings(name, kind):
    found = MySqlKeys().judge(keyring(name=name, masters={}), 0, False, lambda _: None)
    assert found is not None
    assert (found.name, found.kind) == (name, kind)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (keyring(name="", masters={}), "no keyring"),
        (keyring(name=None), "GRANT SELECT ON performance_schema.keyring_component_status"),
        (keyring(masters=None), "GRANT SELECT ON performance_schema.keyring_keys"),
        (keyring(status="Disabled", masters={}), "is disabled"),
        (keyring(masters={}), "holds no master key"),
        (keyring(masters={OTHER: 1}), "another server"),
        (keyring(masters={OWN: 1}), "does not hold the master key"),
    ],
)
def test_why_a_table_cannot_be_read(found, words):
    assert words in found.why_not()
