"""What MySQL tells about encryption, asked of real servers; keyrings that are lost, foreign, garbage, or back again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from exporter.domain.errors import KeystoreFailed, QueryFailed, TargetError
from exporter.domain.states import EncryptionState, Keystore, KeystoreState
from exporter.engines._mysql_protocol.connection import Connection
from exporter.engines.mysql.encryption import EncryptionReader, keystore_failure, table_encryption
from tests.engines.mysql_protocol.connectors import PATIENCE, connector
from tests.servers.mysql import MySqlServer

MakeMySql = Callable[..., MySqlServer]

GRANTS = (
    "PROCESS ON *.*",
    "REPLICATION CLIENT ON *.*",
    "SELECT ON performance_schema.keyring_component_status",
    "SELECT ON performance_schema.keyring_keys",
    "SELECT ON performance_schema.threads",
)


@contextmanager
def connected(server: MySqlServer, user: str = "root", password: str | None = None) -> Iterator[Connection]:
    connection = connector(server, user, password).connect(PATIENCE)
    try:
        yield connection
    finally:
        connection.close()


def state_of(server: MySqlServer, reader: EncryptionReader | None = None) -> EncryptionState:
    with connected(server) as connection:
        return (reader or EncryptionReader()).read(connection, PATIENCE)


def keystore_of(server: MySqlServer, reader: EncryptionReader | None = None) -> Keystore:
    (keystore,) = state_of(server, reader).keystores
    return keystore


def objects(state: EncryptionState, *kinds: str) -> dict[tuple[str, str], int]:
    return {(kind, condition): count for kind, condition, count in state.objects if kind in kinds}


def unreadable(server: MySqlServer, table: str) -> bool:
    """Touch a table as a canary does."""
    with connected(server) as connection:
        try:
            connection.rows(f"SELECT SUM(id) FROM {table}", timeout=PATIENCE)
        except TargetError:
            return True
    return False


def failure_of(server: MySqlServer, table: str) -> TargetError:
    with connected(server) as connection:
        failure = keystore_failure(connection, "app", table, PATIENCE)
    assert "drop" not in str(failure).lower()
    return failure


@pytest.fixture
def server(mysql: MySqlServer) -> Iterator[MySqlServer]:
    """The shared server, with a schema `app`."""
    mysql.query("CREATE DATABASE app")
    yield mysql
    mysql.query("DROP DATABASE app")
    for space in mysql.query("SELECT name AS name FROM information_schema.innodb_tablespaces WHERE name LIKE 'app%'"):
        mysql.query(f"DROP TABLESPACE `{space['name']}`")
    for account in mysql.query("SELECT user AS name FROM mysql.user WHERE user LIKE 'watch%'"):
        mysql.query(f"DROP USER {account['name']}")


# -- single tables -------------------------------------------------------------------------------


def fill(server: MySqlServer) -> None:
    server.query("CREATE TABLESPACE app_secret ADD DATAFILE 'app_secret.ibd' ENCRYPTION='Y'")
    server.query("CREATE TABLESPACE app_open ADD DATAFILE 'app_open.ibd'")
    for name, options in {
        "secret": "ENCRYPTION='Y'",
        "open": "ENCRYPTION='N'",
        "plain": "",
        "Über-odd name": "ENCRYPTION='Y'",
        "isam": "ENGINE=MyISAM",
        "a_c": "",
        "abc": "ENCRYPTION='Y'",
        "shared": "TABLESPACE app_secret ENCRYPTION='Y'",
        "shared_open": "TABLESPACE app_open",
        "in_system": "TABLESPACE innodb_system",
    }.items():
        server.query(f"CREATE TABLE app.`{name}` (id INT PRIMARY KEY) {options}")
    server.query("CREATE TABLE app.parts (id INT PRIMARY KEY) ENCRYPTION='Y' PARTITION BY HASH (id) PARTITIONS 3")


TOLD = {
    "secret": True, "open": False, "plain": False, "Über-odd name": True, "isam": None, "a_c": False, "shared": True,
    "shared_open": False, "in_system": False, "parts": True, "nothing": None,
}  # fmt: skip


def test_tables_are_told_apart_by_the_servers_views(server):
    fill(server)
    with connected(server) as connection:
        found = table_encryption(connection, "app", tuple(TOLD), PATIENCE)
    assert {name: state.encrypted for name, state in found.items()} == TOLD
    assert {state.algorithm for state in found.values() if state.encrypted} == {"AES-256-CBC"}
    assert found["isam"].problem == "it is not a table of InnoDB"
    assert "no such table" in found["nothing"].problem
    assert {state.problem for name, state in found.items() if TOLD[name] is not None} == {""}
    assert len(found["parts"].identity.split()) == 4
    identities = [state.identity for state in found.values() if state.encrypted is not None]
    assert len(set(identities)) == len(identities) == 9


def test_without_process_the_dictionary_tells(server):
    fill(server)
    password = server.create_user("watcher", grants=["SELECT ON app.*"])
    blind = server.create_user("watcher_blind")
    with connected(server, "watcher", password) as connection:
        found = table_encryption(connection, "app", tuple(TOLD), PATIENCE)
        assert {name: state.encrypted for name, state in found.items()} == TOLD
        assert all(state.identity for state in found.values() if state.encrypted is not None)
    with connected(server, "watcher_blind", blind) as connection:
        (state,) = table_encryption(connection, "app", ("secret",), PATIENCE).values()
        assert state.encrypted is None
        assert "GRANT PROCESS ON *.*" in state.problem


def test_a_table_that_is_made_anew_has_another_identity(server):
    server.query("CREATE TABLE app.t (id INT PRIMARY KEY) ENCRYPTION='Y'")
    with connected(server) as connection:
        first = table_encryption(connection, "app", ("t",), PATIENCE)["t"]
        server.query("INSERT INTO app.t VALUES (1)")
        assert table_encryption(connection, "app", ("t",), PATIENCE)["t"] == first
        server.query("ALTER TABLE app.t ENCRYPTION='N'")
        second = table_encryption(connection, "app", ("t",), PATIENCE)["t"]
    assert (first.encrypted, second.encrypted) == (True, False)
    assert first.identity != second.identity


# -- the whole server ----------------------------------------------------------------------------


def test_the_inventory_counts_what_is_there(server):
    before = objects(state_of(server), "tablespace")
    fill(server)
    state = state_of(server)
    (store,) = state.keystores
    assert (store.name, store.kind, store.raw, store.state, store.keys_in_use, store.keys_missing, store.key_activated) == (
        "component_keyring_file", "file", "Active", KeystoreState.OPEN, 1, 0, None,
    )  # fmt: skip
    after = objects(state, "tablespace")
    # A file each, three for the partitions, and the shared one; those in it have none.
    assert after["tablespace", "encrypted"] - before.get(("tablespace", "encrypted"), 0) == 7
    assert after["tablespace", "plain"] - before["tablespace", "plain"] == 4
    assert objects(state, "redo", "undo", "temp", "binlog") == {
        ("redo", "plain"): 1, ("undo", "plain"): 2, ("temp", "plain"): 1,
    }  # fmt: skip
    assert dict(state.algorithms) == {"AES-256-CBC": after["tablespace", "encrypted"]}
    assert dict(state.unprotected) == {"log": 3, "temp": 1}
    assert (state.conversion_stalled, state.conversions, state.problems) == (False, (), ())


@pytest.mark.parametrize("missing", [*GRANTS, ""])
def test_each_grant_removed_in_turn_narrows_one_thing(granting: MySqlServer, missing: str):
    user = f"watch{GRANTS.index(missing) if missing else 9}"
    password = granting.create_user(user, grants=[grant for grant in GRANTS if grant != missing])
    with connected(granting, user, password) as connection:
        state = EncryptionReader().read(connection, PATIENCE)
    (store,) = state.keystores
    assert [problem for problem in state.problems if missing not in problem] == []
    assert len(state.problems) == (1 if missing else 0)
    holds = (KeystoreState.OPEN, {("binlog", "encrypted"): 1}, False, True)
    seen = (store.state, objects(state, "binlog"), state.conversion_stalled, bool(objects(state, "tablespace")))
    narrowed = {
        "": holds,
        GRANTS[0]: (KeystoreState.UNKNOWN, {("binlog", "unknown"): 1}, False, False),
        GRANTS[1]: (KeystoreState.OPEN, {("binlog", "unknown"): 1}, False, True),
        GRANTS[2]: (KeystoreState.UNKNOWN, *holds[1:]),
        GRANTS[3]: (KeystoreState.UNKNOWN, *holds[1:]),
        GRANTS[4]: (*holds[:2], None, True),
    }
    assert seen == narrowed[missing]


@pytest.fixture(scope="module")
def granting() -> Iterator[MySqlServer]:
    """A server with encrypted logs."""
    with MySqlServer(binlog=True, encrypt_binlog=True, encrypt_redo=True, encrypt_undo=True) as server:
        server.query("CREATE TABLE test.secret (id INT PRIMARY KEY) ENCRYPTION='Y'")
        yield server


def test_logs_that_are_encrypted(granting):
    state = state_of(granting)
    assert objects(state, "redo", "undo", "binlog", "temp") == {
        ("redo", "encrypted"): 1, ("undo", "encrypted"): 2, ("binlog", "encrypted"): 1, ("temp", "plain"): 1,
    }  # fmt: skip
    assert dict(state.unprotected) == {"log": 0, "temp": 1}
    (store,) = state.keystores
    assert (store.keys_in_use, store.keys_missing) == (2, 0)
    granting.query("SET GLOBAL binlog_encryption = OFF")
    granting.query("SET GLOBAL binlog_encryption = ON")
    assert objects(state_of(granting), "binlog") == {("binlog", "plain"): 1}  # one of the files is


def while_encrypting(server: MySqlServer, connection: Connection, tablespace: str) -> list[EncryptionState]:
    """What is read while the server encrypts it, as long as it says so."""
    reader = EncryptionReader()
    work = threading.Thread(target=server.query, args=(f"ALTER TABLESPACE {tablespace} ENCRYPTION='Y'",))
    work.start()
    found = []
    while work.is_alive():
        state = reader.read(connection, PATIENCE)
        if objects(state, "tablespace").get(("tablespace", "in_progress")):
            found.append(state)
    work.join()
    return found


def test_an_encryption_under_way(make_mysql: MakeMySql):
    server = make_mysql(consumers=["events_stages_current"], options={"innodb-io-capacity": 100})
    server.query("CREATE TABLESPACE ts ADD DATAFILE 'ts.ibd'")
    server.query("CREATE TABLE test.a (id INT PRIMARY KEY AUTO_INCREMENT, pad VARCHAR(250)) TABLESPACE ts")
    server.query("INSERT INTO test.a (pad) VALUES " + ", ".join(["(REPEAT('x', 250))"] * 1000))
    for _ in range(7):
        server.query("INSERT INTO test.a (pad) SELECT pad FROM test.a")
    with connected(server) as connection:
        before = objects(EncryptionReader().read(connection, PATIENCE), "tablespace")
        for _ in range(10):
            found = while_encrypting(server, connection, "ts")
            if any(state.conversions for state in found):
                break
            # A busy machine let nobody look in the midst of it.
            server.query("ALTER TABLESPACE ts ENCRYPTION='N'")
        # By another reader: that one may rest from an inventory that was dear on a busy machine.
        after = objects(EncryptionReader().read(connection, PATIENCE), "tablespace")
    assert found, "it was over before it could be seen"
    assert {sum(objects(state, "tablespace").values()) for state in found} == {sum(before.values())}
    assert {name for state in found for name, _ in state.conversions} == {"ts"}
    assert all(0.0 <= share <= 1.0 for state in found for _, share in state.conversions)
    assert all(state.conversion_stalled is False for state in found)
    assert after["tablespace", "encrypted"] == before.get(("tablespace", "encrypted"), 0) + 1


# -- keyrings that are lost ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def with_keys() -> Iterator[MySqlServer]:
    with MySqlServer() as server:
        server.query("CREATE DATABASE app")
        for name, options in {"secret": "ENCRYPTION='Y'", "open": "ENCRYPTION='N'"}.items():
            server.query(f"CREATE TABLE app.{name} (id INT PRIMARY KEY) {options}")
            server.query(f"INSERT INTO app.{name} VALUES (1)")
        # In good order: with an encrypted table in its redo log a server does not start without the key.
        server.stop()
        yield server


@pytest.fixture
def halted(with_keys: MySqlServer) -> MySqlServer:
    """A server that does not run, with an encrypted table and a plain one, and with its keyring."""
    with_keys.kill()
    with_keys.restore_key()
    with_keys.component, with_keys.performance_schema = True, True
    return with_keys


def test_a_lost_key_file_and_its_return(halted: MySqlServer):
    reader = EncryptionReader()
    halted.start()
    assert keystore_of(halted, reader).state is KeystoreState.OPEN
    halted.remove_key()
    assert keystore_of(halted, reader).state is KeystoreState.OPEN  # the server holds the keys until it ends
    halted.kill()
    halted.start()
    # The component is active, with an empty file that the start has made.
    for known in (reader, EncryptionReader()):
        lost = keystore_of(halted, known)
        assert (lost.state, lost.raw, lost.keys_in_use, lost.keys_missing) == (KeystoreState.NO_KEY, "Active", 1, 1)
    assert unreadable(halted, "app.secret")
    assert not unreadable(halted, "app.open")
    failure = failure_of(halted, "secret")
    assert isinstance(failure, KeystoreFailed)
    assert "holds no master key" in str(failure)
    # A new encrypted table makes a new key of the same name, which opens nothing of before.
    halted.query("CREATE TABLE app.later (id INT PRIMARY KEY) ENCRYPTION='Y'")
    reader.note_unreadable(True)
    assert keystore_of(halted, reader).state is KeystoreState.NO_KEY
    assert "another one under its name" in str(failure_of(halted, "secret"))
    halted.query("DROP TABLE app.later")
    halted.stop()
    halted.restore_key()
    halted.start()
    assert not unreadable(halted, "app.secret")
    reader.note_unreadable(False)
    back = state_of(halted, reader)
    assert (back.keystores[0].state, back.keystores[0].keys_missing) == (KeystoreState.OPEN, 0)
    assert back.problems == ()


def test_a_foreign_keyring(halted: MySqlServer):
    halted.foreign_key()
    halted.start()
    reader = EncryptionReader()
    state = state_of(halted, reader)
    (store,) = state.keystores
    assert (store.state, store.raw, store.keys_missing) == (KeystoreState.UNKNOWN, "Active", None)
    assert len(state.problems) == 1
    assert unreadable(halted, "app.secret")
    reader.note_unreadable(True)
    assert keystore_of(halted, reader).state is KeystoreState.NO_KEY
    assert "of another server only" in str(failure_of(halted, "secret"))


def test_a_copy_of_a_data_directory_is_no_alarm(halted: MySqlServer):
    identity = halted.datadir / "auto.cnf"
    kept = identity.read_text()
    identity.unlink()
    halted.start()
    try:
        assert not unreadable(halted, "app.secret")
        reader = EncryptionReader()
        assert keystore_of(halted, reader).state is KeystoreState.UNKNOWN
        reader.note_unreadable(False)
        state = state_of(halted, reader)
        assert (state.keystores[0].state, state.keystores[0].keys_missing) == (KeystoreState.OPEN, 0)
        assert state.problems == ()
    finally:
        halted.kill()
        identity.write_text(kept)


def test_other_bytes_under_the_same_names(halted: MySqlServer):
    halted.wrong_key()
    halted.start()
    reader = EncryptionReader()
    assert keystore_of(halted, reader).state is KeystoreState.OPEN  # no view proves the contrary
    assert unreadable(halted, "app.secret")
    reader.note_unreadable(True)
    assert keystore_of(halted, reader).state is KeystoreState.NO_KEY


def test_a_keyring_that_is_none(halted: MySqlServer):
    halted.garbage_key()
    halted.start()
    store = keystore_of(halted)
    assert (store.name, store.state, store.raw) == ("component_keyring_file", KeystoreState.CLOSED, "Disabled")
    assert store.keys_missing == 1
    failure = failure_of(halted, "secret")
    assert isinstance(failure, KeystoreFailed)
    assert "is disabled" in str(failure)


def test_no_component_in_the_manifest(halted: MySqlServer):
    halted.component = False
    halted.start()
    store = keystore_of(halted)
    assert (store.name, store.state, store.raw) == ("keyring", KeystoreState.MISSING, "not loaded")
    assert (store.keys_in_use, store.keys_missing) == (1, 1)
    assert "the server has no keyring" in str(failure_of(halted, "secret"))


def test_without_performance_schema_the_view_of_keys_proves_nothing(halted: MySqlServer):
    halted.performance_schema = False
    halted.start()
    reader = EncryptionReader()
    state = state_of(halted, reader)
    (store,) = state.keystores
    assert (store.state, store.raw, store.keys_missing) == (KeystoreState.UNKNOWN, "Active", None)
    assert state.conversion_stalled is None
    assert [problem.split("; ")[1] for problem in state.problems] == ["performance_schema is off"] * 2
    reader.note_unreadable(False)
    assert keystore_of(halted, reader).state is KeystoreState.OPEN


def test_a_damaged_plain_table_has_not_lost_its_key(server):
    server.query("CREATE TABLE app.open (id INT PRIMARY KEY)")
    failure = failure_of(server, "open")
    assert type(failure) is QueryFailed
    assert "although it is not encrypted" in str(failure)


def test_a_server_without_keyring_and_encryption_has_no_keystore(make_mysql: MakeMySql):
    state = state_of(make_mysql(component=False))
    assert state.keystores == ()
    assert dict(state.unprotected) == {"log": 0, "temp": 0}


def test_a_rotation_is_no_loss(granting):
    reader = EncryptionReader()
    for _ in range(2):
        assert keystore_of(granting, reader).state is KeystoreState.OPEN
        granting.query("ALTER INSTANCE ROTATE INNODB MASTER KEY")
    assert keystore_of(granting, reader).state is KeystoreState.OPEN
    assert not unreadable(granting, "test.secret")
