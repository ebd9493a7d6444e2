"""What MariaDB tells about encryption, asked of real servers; keys that are lost, wrong, or back again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from exporter.domain.clock import FakeClock
from exporter.domain.errors import KeystoreFailed, QueryFailed, TargetError
from exporter.domain.states import EncryptionState, Keystore, KeystoreState
from exporter.engines._mysql_protocol.connection import Connection
from exporter.engines.mariadb.encryption import EncryptionReader, keystore_failure, table_encryption
from tests.engines.mysql_protocol.connectors import PATIENCE, connector
from tests.processes import until
from tests.servers.mariadb import MariaDbServer

MakeMariaDb = Callable[..., MariaDbServer]


@contextmanager
def connected(server: MariaDbServer, user: str = "root", password: str | None = None) -> Iterator[Connection]:
    connection = connector(server, user, password).connect(PATIENCE)
    try:
        yield connection
    finally:
        connection.close()


def state_of(server: MariaDbServer, reader: EncryptionReader | None = None) -> EncryptionState:
    with connected(server) as connection:
        return (reader or EncryptionReader()).read(connection, PATIENCE)


def keystore_of(server: MariaDbServer, reader: EncryptionReader | None = None) -> Keystore:
    (keystore,) = state_of(server, reader).keystores
    return keystore


def objects(state: EncryptionState, *kinds: str) -> dict[tuple[str, str], int]:
    return {(kind, condition): count for kind, condition, count in state.objects if kind in kinds}


def unreadable(server: MariaDbServer, table: str) -> bool:
    """Touch a table as a canary does."""
    with connected(server) as connection:
        try:
            connection.rows(f"SELECT COUNT(*) FROM {table}", timeout=PATIENCE)
        except TargetError:
            return True
    return False


def failure_of(server: MariaDbServer, table: str) -> TargetError:
    with connected(server) as connection:
        failure = keystore_failure(connection, "app", table, PATIENCE)
    assert "drop" not in str(failure).lower()
    return failure


@pytest.fixture(params=["mariadb", "mariadb_old"])
def server(request: pytest.FixtureRequest) -> Iterator[MariaDbServer]:
    """Each of the shared servers, with a schema `app`."""
    found: MariaDbServer = request.getfixturevalue(request.param)
    found.query("CREATE DATABASE app")
    yield found
    found.query("DROP DATABASE app")
    for account in found.query("SELECT user AS name FROM mysql.user WHERE user LIKE 'watch%'"):
        found.query(f"DROP USER {account['name']}")


# -- single tables -------------------------------------------------------------------------------


def test_tables_are_told_apart_by_the_servers_views(server):
    for name, options in {
        "secret": "ENCRYPTED=YES ENCRYPTION_KEY_ID=2",
        "open": "ENCRYPTED=NO",
        "untouched": "",
        "Über-odd name": "ENCRYPTED=YES",
        "aria": "ENGINE=Aria",
        "a_c": "",
        "abc": "ENCRYPTED=YES",
    }.items():
        server.query(f"CREATE TABLE app.`{name}` (id INT PRIMARY KEY) {options}")
    server.query("CREATE TABLE app.parts (id INT PRIMARY KEY) ENCRYPTED=YES PARTITION BY HASH (id) PARTITIONS 3")
    names = ("secret", "open", "untouched", "Über-odd name", "aria", "a_c", "parts", "nothing")
    with connected(server) as connection:
        found = table_encryption(connection, "app", names, PATIENCE)
    assert list(found) == list(names)
    encrypted = {name: state.encrypted for name, state in found.items()}
    assert encrypted == {
        "secret": True, "open": False, "untouched": False, "Über-odd name": True, "aria": None, "a_c": False,
        "parts": True, "nothing": None,
    }  # fmt: skip
    assert found["secret"].algorithm == found["parts"].algorithm == "AES-CTR"
    assert found["open"].algorithm == ""
    assert found["aria"].problem == found["nothing"].problem == "InnoDB has no such table"
    assert {state.problem for name, state in found.items() if name not in {"aria", "nothing"}} == {""}
    assert len(found["parts"].identity.split()) == 4
    identities = [state.identity for state in found.values() if state.encrypted is not None]
    assert len(set(identities)) == 6


def test_a_table_that_is_made_anew_has_another_identity(server):
    server.query("CREATE TABLE app.t (id INT PRIMARY KEY) ENCRYPTED=YES")
    with connected(server) as connection:
        first = table_encryption(connection, "app", ("t",), PATIENCE)["t"]
        assert table_encryption(connection, "app", ("t",), PATIENCE)["t"] == first
        server.query("INSERT INTO app.t VALUES (1)")
        assert table_encryption(connection, "app", ("t",), PATIENCE)["t"] == first
        server.query("ALTER TABLE app.t ENCRYPTED=NO, ALGORITHM=INPLACE, LOCK=NONE")
        second = table_encryption(connection, "app", ("t",), PATIENCE)["t"]
    assert (first.encrypted, second.encrypted) == (True, False)
    assert first.identity != second.identity


def test_without_process_only_options_prove_something(server):
    server.query("CREATE TABLE app.secret (id INT PRIMARY KEY) ENCRYPTED=YES")
    server.query("CREATE TABLE app.open (id INT PRIMARY KEY) ENCRYPTED=NO")
    server.query("CREATE TABLE app.untouched (id INT PRIMARY KEY)")
    server.query("CREATE TABLE app.hidden (id INT PRIMARY KEY) ENCRYPTED=YES")
    tables = ("secret", "open", "untouched", "hidden")
    password = server.create_user("watcher", grants=[f"SELECT ON app.{name}" for name in tables[:3]])
    with connected(server, "watcher", password) as connection:
        found = table_encryption(connection, "app", tables, PATIENCE)
    assert [found[name].encrypted for name in tables] == [True, False, None, None]
    assert found["secret"].identity
    assert "GRANT PROCESS ON *.*" in found["untouched"].problem
    assert "GRANT PROCESS ON *.*" in found["hidden"].problem


# -- the whole server ----------------------------------------------------------------------------


def test_the_inventory_counts_what_is_there(server):
    before = state_of(server)
    assert [store.state for store in before.keystores] == [KeystoreState.OPEN]
    server.query("CREATE TABLE app.a (id INT PRIMARY KEY) ENCRYPTED=YES ENCRYPTION_KEY_ID=1")
    server.query("CREATE TABLE app.b (id INT PRIMARY KEY) ENCRYPTED=YES ENCRYPTION_KEY_ID=3")
    server.query("CREATE TABLE app.c (id INT PRIMARY KEY) ENCRYPTED=NO")
    state = state_of(server)
    (store,) = state.keystores
    assert (store.name, store.kind, store.raw, store.keys_in_use, store.keys_missing) == (
        "file_key_management", "file", "ACTIVE", 2, 0,
    )  # fmt: skip
    grown = objects(state, "tablespace")
    known = objects(before, "tablespace")
    assert grown["tablespace", "encrypted"] - known.get(("tablespace", "encrypted"), 0) == 2
    assert grown["tablespace", "plain"] - known["tablespace", "plain"] == 1
    assert objects(state, "redo", "undo", "temp", "binlog") == {
        ("redo", "plain"): 1, ("undo", "plain"): 1, ("temp", "plain"): 3,
    }  # fmt: skip
    assert dict(state.algorithms) == {"AES-CTR": grown["tablespace", "encrypted"]}
    assert dict(state.unprotected) == {"log": 2, "temp": 3}
    sizes = {(kind, condition): size for kind, condition, size in state.object_bytes}
    assert sizes["tablespace", "encrypted"] >= 2 * 65536
    assert (state.conversion_stalled, state.conversions, state.problems) == (False, (), ())


def test_without_process_the_rest_holds(server):
    password = server.create_user("watcher")
    reader = EncryptionReader()
    with connected(server, "watcher", password) as connection:
        state = reader.read(connection, PATIENCE)
        (store,) = state.keystores
        assert (store.state, store.keys_in_use, store.keys_missing) == (KeystoreState.UNKNOWN, None, None)
        assert len(state.problems) == 2
        assert all(problem.endswith("it takes GRANT PROCESS ON *.*") for problem in state.problems)
        assert objects(state, "tablespace", "undo") == {}
        assert objects(state, "redo") == {("redo", "plain"): 1}
        assert state.conversion_stalled is None
        assert (state.unprotected, state.algorithms) == ((), ())
        # That an encrypted table can be read is proof enough; that it cannot, too.
        reader.note_unreadable(False)
        assert reader.read(connection, PATIENCE).keystores[0].state is KeystoreState.OPEN
        reader.note_unreadable(True)
        assert reader.read(connection, PATIENCE).keystores[0].state is KeystoreState.NO_KEY


def test_surfaces_beside_tables(make_mariadb: MakeMariaDb):
    server = make_mariadb(
        encrypt_redo=True,
        encrypt_binlog=True,
        binlog=True,
        options={"innodb-encrypt-temporary-tables": "ON", "encrypt-tmp-files": "ON", "encrypt-tmp-disk-tables": "OFF"},
    )
    server.query("CREATE TABLE test.a (id INT PRIMARY KEY) ENCRYPTED=YES ENCRYPTION_KEY_ID=2")
    state = state_of(server)
    assert objects(state, "redo", "undo", "binlog", "temp") == {
        ("redo", "encrypted"): 1, ("binlog", "encrypted"): 1, ("undo", "plain"): 1, ("temp", "encrypted"): 2,
        ("temp", "plain"): 1,
    }  # fmt: skip
    assert dict(state.unprotected) == {"log": 1, "temp": 1}
    (store,) = state.keystores
    assert store.keys_in_use == 2


class Slow:
    """A connection on which what is counted over all tablespaces takes a while, by the clock that is given."""

    def __init__(self, connection: Connection, clock: FakeClock, seconds: float) -> None:
        self.connection, self.clock, self.seconds = connection, clock, seconds
        self.counted = 0

    @property
    def alive(self) -> bool:
        return self.connection.alive

    def rows(self, sql: str, args: tuple[Any, ...] = (), *, timeout: float) -> list[tuple[Any, ...]]:
        if "innodb_sys_tablespaces" in sql:
            self.counted += 1
            self.clock.advance(self.seconds)
        return self.connection.rows(sql, args, timeout=timeout)


@pytest.mark.parametrize(("seconds", "counted"), [(0.001, 11), (0.1, 6), (0.5, 2), (8.0, 1)])
def test_many_tables_are_not_counted_each_time(server, seconds, counted):
    clock = FakeClock()
    reader = EncryptionReader(clock)
    with connected(server) as connection:
        slow = Slow(connection, clock, seconds)
        for _ in range(11):
            assert objects(reader.read(slow, PATIENCE), "tablespace")
            clock.advance(60)
    assert slow.counted == counted


@pytest.mark.parametrize("server", ["mariadb"], indirect=True)
def test_three_hundred_tables_are_counted_by_the_server(server):
    with server.connect() as connection, connection.cursor() as cursor:
        for number in range(300):
            cursor.execute(
                f"CREATE TABLE app.t{number} (id INT PRIMARY KEY) {'ENCRYPTED=YES' if number % 3 == 0 else ''}"
            )
    rows: list[int] = []

    class Counting(Slow):
        def rows(self, sql: str, args: tuple[Any, ...] = (), *, timeout: float) -> list[tuple[Any, ...]]:
            found = super().rows(sql, args, timeout=timeout)
            rows.append(len(found))
            return found

    with connected(server) as connection:
        state = EncryptionReader().read(Counting(connection, FakeClock(), 0.0), PATIENCE)
    assert objects(state, "tablespace")["tablespace", "encrypted"] == 100
    assert max(rows) < 20


# -- keys that are lost --------------------------------------------------------------------------


@pytest.fixture
def keyed(make_mariadb: MakeMariaDb) -> MariaDbServer:
    """A server with a table under key 1, one under key 2, and a plain one."""
    server = make_mariadb("10.11")
    server.query("CREATE DATABASE app")
    for name, options in {
        "one": "ENCRYPTED=YES",
        "two": "ENCRYPTED=YES ENCRYPTION_KEY_ID=2",
        "open": "ENCRYPTED=NO",
    }.items():
        server.query(f"CREATE TABLE app.{name} (id INT PRIMARY KEY) {options}")
        server.query(f"INSERT INTO app.{name} VALUES (1)")
    return server


def test_a_lost_key_file_and_its_return(keyed: MariaDbServer):
    reader = EncryptionReader()
    assert keystore_of(keyed, reader).state is KeystoreState.OPEN
    keyed.remove_key()
    assert keystore_of(keyed, reader).state is KeystoreState.OPEN  # the server holds the keys until it ends
    keyed.restart()
    lost = keystore_of(keyed, reader)
    assert (lost.name, lost.state, lost.raw) == ("file_key_management", KeystoreState.MISSING, "not loaded")
    assert (lost.keys_in_use, lost.keys_missing) == (2, 2)
    assert unreadable(keyed, "app.one")
    assert not unreadable(keyed, "app.open")
    reader.note_unreadable(True)
    state = state_of(keyed, reader)
    assert (state.keystores[0].state, state.keystores[0].keys_missing) == (KeystoreState.MISSING, 2)
    # One who knows nothing of before sees it as well, once a table was asked for.
    stranger = EncryptionReader()
    stranger.note_unreadable(True)
    assert keystore_of(keyed, stranger).state is KeystoreState.MISSING
    for table in ("one", "two"):
        failure = failure_of(keyed, table)
        assert isinstance(failure, KeystoreFailed)
        assert "no encryption plugin is loaded" in str(failure)
    keyed.restore_key()
    keyed.restart()
    assert not unreadable(keyed, "app.one")
    reader.note_unreadable(False)
    state = state_of(keyed, reader)
    (back,) = state.keystores
    assert (back.state, back.keys_in_use, back.keys_missing) == (KeystoreState.OPEN, 2, 0)
    assert objects(state, "tablespace")["tablespace", "encrypted"] == 2
    assert state.problems == ()


def test_without_a_plugin_the_server_lists_only_what_was_used(keyed: MariaDbServer):
    reader = EncryptionReader()
    keystore_of(keyed, reader)
    keyed.remove_key()
    keyed.restart()
    keyed.restart()  # at the first one it still has some work to do in the tables
    state = state_of(keyed, reader)
    assert objects(state, "tablespace")["tablespace", "unknown"] >= 3
    assert [problem for problem in state.problems if "are opened at their first use" in problem] == list(state.problems)
    (store,) = state.keystores
    assert (store.state, store.keys_in_use, store.keys_missing) == (KeystoreState.MISSING, 2, 2)
    # One who knows nothing of before cannot know that there are encrypted ones among them.
    assert state_of(keyed).keystores == ()
    with connected(keyed) as connection:
        found = table_encryption(connection, "app", ("one", "two", "open"), PATIENCE)
    assert [state.encrypted for state in found.values()] == [True, True, False]
    assert [state.problem for state in found.values()] == [
        "the server does not have the key with the id 1", "the server does not have the key with the id 2", "",
    ]  # fmt: skip
    assert keystore_of(keyed).state is KeystoreState.MISSING


def test_a_plain_server_without_a_plugin_has_no_keystore(make_mariadb: MakeMariaDb):
    server = make_mariadb("11.8")
    server.query("CREATE TABLE test.a (id INT PRIMARY KEY)")
    server.remove_key()
    server.restart()
    server.restart()
    state = state_of(server)
    assert state.keystores == ()
    assert dict(state.unprotected) == {"log": 0, "temp": 0}
    with connected(server) as connection:
        assert table_encryption(connection, "test", ("a",), PATIENCE)["a"].encrypted is False


def test_one_key_is_missing(keyed: MariaDbServer):
    reader = EncryptionReader()
    keystore_of(keyed, reader)
    keyed.remove_key(2)
    keyed.restart()
    unseen = state_of(keyed, reader)
    (store,) = unseen.keystores
    assert (store.state, store.keys_in_use, store.keys_missing) == (KeystoreState.DEGRADED, 2, 1)
    assert not unreadable(keyed, "app.one")
    assert unreadable(keyed, "app.two")
    stranger = keystore_of(keyed)
    assert (stranger.state, stranger.keys_in_use, stranger.keys_missing) == (KeystoreState.DEGRADED, 2, 1)
    failure = failure_of(keyed, "two")
    assert isinstance(failure, KeystoreFailed)
    assert "does not have the key with the id 2" in str(failure)
    with connected(keyed) as connection:
        found = table_encryption(connection, "app", ("one", "two"), PATIENCE)
    assert (found["one"].encrypted, found["one"].problem) == (True, "")
    assert found["two"].encrypted is True
    assert "the id 2" in found["two"].problem


def test_a_wrong_key(keyed: MariaDbServer):
    reader = EncryptionReader()
    keyed.wrong_key()
    keyed.restart()
    assert unreadable(keyed, "app.one")
    assert keystore_of(keyed, reader).state is KeystoreState.OPEN  # no view proves the contrary
    reader.note_unreadable(True)
    assert keystore_of(keyed, reader).state is KeystoreState.NO_KEY
    failure = failure_of(keyed, "one")
    assert isinstance(failure, KeystoreFailed)
    assert "does not open it" in str(failure)


def test_a_damaged_plain_table_has_not_lost_its_key(keyed: MariaDbServer):
    failure = failure_of(keyed, "open")
    assert type(failure) is QueryFailed
    assert "although it is not encrypted" in str(failure)


# -- work in the background ----------------------------------------------------------------------


@pytest.mark.parametrize("version", ["10.11", "11.8"])
def test_tables_wait_without_threads_and_are_encrypted_with_them(make_mariadb: MakeMariaDb, version: str):
    clock = FakeClock()
    reader = EncryptionReader(clock)
    server = make_mariadb(version, encryption_threads=0, options={"innodb-encryption-rotation-iops": 2000})
    server.query("CREATE TABLE test.a (id INT PRIMARY KEY, pad VARCHAR(250))")
    server.query("INSERT INTO test.a SELECT seq, REPEAT('x', 250) FROM seq_1_to_20000", database="test")
    server.query("CREATE TABLE test.never (id INT PRIMARY KEY) ENCRYPTED=NO")
    server.encrypt_tables = "ON"
    server.restart()
    with connected(server) as connection:
        state = reader.read(connection, PATIENCE)
        waiting = objects(state, "tablespace")
        assert waiting["tablespace", "pending"] >= 2
        assert waiting["tablespace", "plain"] == 1
        assert state.conversion_stalled is False
        clock.advance(3601)
        assert reader.read(connection, PATIENCE).conversion_stalled is True
        server.query("SET GLOBAL innodb_encryption_threads = 2")
        shares: list[float] = []

        def done() -> bool:
            found = reader.read(connection, PATIENCE)
            shares.extend(share for _, share in found.conversions)
            return "pending" not in {state for _, state, _ in found.objects} and not found.conversions

        until(done, "everything to be encrypted")
        state = reader.read(connection, PATIENCE)
        assert objects(state, "tablespace") == {
            ("tablespace", "encrypted"): sum(waiting.values()) - 1, ("tablespace", "plain"): 1,
        }  # fmt: skip
        assert objects(state, "undo") == {("undo", "encrypted"): 1}
        assert state.conversion_stalled is False
        assert all(0.0 <= share <= 1.0 for share in shares)
