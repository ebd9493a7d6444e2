"""The private servers do what the tests that use them take for granted."""

from __future__ import annotations

import contextlib
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pymysql
import pytest

from tests.processes import alive, until
from tests.servers.certificates import Certificates
from tests.servers.mariadb import MariaDbServer
from tests.servers.mysql import MySqlServer
from tests.servers.server import Server, StartFailed, together

KINDS = {
    "mariadb-10.11": (MariaDbServer, {"version": "10.11"}),
    "mariadb-11.8": (MariaDbServer, {"version": "11.8"}),
    "mysql": (MySqlServer, {}),
}
ENCRYPTED = {MariaDbServer: "ENCRYPTED=YES ENCRYPTION_KEY_ID=2", MySqlServer: "ENCRYPTION='Y'"}
PLAIN = {MariaDbServer: "ENCRYPTED=NO", MySqlServer: "ENCRYPTION='N'"}
# What each says of a table whose key it does not have.
NO_KEY = {MariaDbServer: 1877, MySqlServer: 3185}


def _tables(server: Server) -> None:
    """Two tables of a row each: test.enc, encrypted, and test.plain."""
    for name, option in (("enc", ENCRYPTED), ("plain", PLAIN)):
        server.query(f"CREATE TABLE test.{name} (a INT PRIMARY KEY) {option[type(server)]}")
        server.query(f"INSERT INTO test.{name} VALUES (7)")


def _encrypted(server: Server, table: str) -> bool:
    if isinstance(server, MariaDbServer):
        sql = "SELECT MIN_KEY_VERSION > 0 FROM information_schema.INNODB_TABLESPACES_ENCRYPTION WHERE NAME = %s"
    else:
        sql = "SELECT ENCRYPTION = 'Y' FROM information_schema.INNODB_TABLESPACES WHERE NAME = %s"
    return bool(server.value(sql, table))


@pytest.fixture(params=KINDS)
def private(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A started server of each kind, for one test."""
    kind, options = KINDS[request.param]
    with kind(**options) as server:
        yield server


def test_a_server_starts_answers_encrypts_and_leaves_nothing(private: Server) -> None:
    assert private.value("SELECT @@port") == private.port
    with contextlib.closing(private.connect(unix_socket=None, host=private.host, port=private.port)) as connection:
        assert connection.open

    _tables(private)
    assert _encrypted(private, "test/enc")
    assert not _encrypted(private, "test/plain")

    pid = private.pid
    private.stop()
    assert not alive(pid)
    assert "test" in {entry.name for entry in private.datadir.iterdir()}
    private.close()
    assert not private.folder.exists()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(private.address)


def test_a_killed_server_has_what_was_committed(private: Server) -> None:
    _tables(private)
    pid, port = private.pid, private.port
    private.kill()
    assert not alive(pid)
    private.start()
    assert private.port == port
    assert private.value("SELECT a FROM test.enc") == 7


def test_a_frozen_server_is_mute_until_it_thaws(make_mariadb: Callable[..., MariaDbServer]) -> None:
    server = make_mariadb("10.11")
    server.freeze()
    with pytest.raises(pymysql.err.OperationalError, match="timed out"):
        server.connect(read_timeout=1)
    server.thaw()
    assert server.value("SELECT 1") == 1
    server.freeze()
    server.stop()
    assert not server.running


def _code(server: Server) -> int:
    """The error code of reading the encrypted table, 0 where it can be read; the plain one always can."""
    assert server.value("SELECT a FROM test.plain") == 7
    try:
        assert server.value("SELECT a FROM test.enc") == 7
    except pymysql.err.OperationalError as failure:
        return int(failure.args[0])
    return 0


def test_keys_can_be_taken_away_put_back_and_falsified(private: Server) -> None:
    _tables(private)
    private.remove_key()
    assert _code(private) == 0  # the running server has the keys
    private.restart()
    assert _code(private) == NO_KEY[type(private)]
    private.restore_key()
    private.restart()
    assert _code(private) == 0
    private.wrong_key()
    private.restart()
    assert _code(private) == NO_KEY[type(private)]


def test_a_keyring_can_be_anothers_or_none(make_mysql: Callable[..., MySqlServer]) -> None:
    server = make_mysql()
    _tables(server)
    for spoil, keys in ((server.foreign_key, 1), (server.garbage_key, 0)):
        spoil()
        server.restart()
        assert len(server.query("SELECT KEY_ID FROM performance_schema.keyring_keys")) == keys
        assert _code(server) == NO_KEY[MySqlServer]
        server.restore_key()


def test_one_key_of_several_can_be_missing(make_mariadb: Callable[..., MariaDbServer]) -> None:
    server = make_mariadb("11.8")
    _tables(server)
    server.query("CREATE TABLE test.other (a INT) ENCRYPTED=YES ENCRYPTION_KEY_ID=3")
    server.remove_key(2)
    server.restart()
    assert server.query("SELECT * FROM test.other") == []
    with pytest.raises(pymysql.err.OperationalError):
        server.query("SELECT * FROM test.enc")


def test_options_reach_the_server(make_mariadb: Callable[..., MariaDbServer]) -> None:
    server = make_mariadb(
        "10.11",
        buffer_pool_mb=8,
        performance_schema=True,
        consumers=["events_statements_current"],
        userstat=True,
        encrypt_tables="ON",
        encrypt_redo=True,
        options={"max_statement_time": 3, "max-connections": 11},
    )
    expected = {
        "innodb_buffer_pool_size": str(8 << 20),
        "performance_schema": "ON",
        "userstat": "ON",
        "innodb_encrypt_tables": "ON",
        "innodb_encrypt_log": "ON",
        "max_statement_time": "3.000000",
        "max_connections": "11",
    }
    assert {name: server.variable(name) for name in expected} == expected
    consumers = "SELECT ENABLED FROM performance_schema.setup_consumers WHERE NAME = %s"
    assert server.value(consumers, "events_statements_current") == "YES"

    server.userstat = False
    server.restart()
    assert server.variable("userstat") == "OFF"


def test_as_shipped(mariadb: MariaDbServer, mysql: MySqlServer) -> None:
    shipped = {"performance_schema": "OFF", "userstat": "OFF", "innodb_encrypt_tables": "OFF"}
    assert {name: mariadb.variable(name) for name in shipped} == shipped
    assert mysql.variable("performance_schema") == "ON"
    component = mysql.query("SELECT * FROM performance_schema.keyring_component_status")
    assert {row["STATUS_VALUE"] for row in component if row["STATUS_KEY"] == "Component_status"} == {"Active"}


def test_undo_and_logs_of_mysql_can_be_encrypted(make_mysql: Callable[..., MySqlServer]) -> None:
    server = make_mysql(encrypt_undo=True, encrypt_redo=True, encrypt_binlog=True, binlog=True)
    assert {row["Encrypted"] for row in server.query("SHOW BINARY LOGS")} == {"Yes"}
    undo = "SELECT ENCRYPTION FROM information_schema.INNODB_TABLESPACES WHERE SPACE_TYPE = 'Undo'"
    until(lambda: {row["ENCRYPTION"] for row in server.query(undo)} == {"Y"}, "the undo logs to be encrypted")
    server.remove_key()
    server.stop()
    with pytest.raises(StartFailed, match=r"(?i)undo|keyring"):
        server.start()


@pytest.mark.parametrize("pair", ["mariadb_pair", "mysql_pair"])
def test_a_row_reaches_the_replica(request: pytest.FixtureRequest, pair: str) -> None:
    primary, replica = request.getfixturevalue(pair)
    primary.query("CREATE DATABASE replicated")
    primary.query("CREATE TABLE replicated.t (a INT PRIMARY KEY)")
    primary.query("INSERT INTO replicated.t VALUES (7)")
    replica.wait_for(primary)
    assert replica.value("SELECT a FROM replicated.t") == 7
    assert replica.replica_status("no such channel") == {}
    primary.query("DROP DATABASE replicated")
    replica.wait_for(primary)


@pytest.mark.parametrize("kind", [MariaDbServer, MySqlServer])
def test_channels_have_names_delays_and_a_proxy(
    kind: type[MariaDbServer | MySqlServer], make_proxy: Callable[..., Any]
) -> None:
    one = kind(binlog=True, options=_domain(kind, 1))
    two = kind(binlog=True, server_id=2, options=_domain(kind, 2))
    replica = kind(server_id=3)
    with together(one, two, replica):
        proxy = make_proxy(two.address)
        replica.replica_of(one, channel="one", delay_s=1)
        replica.replica_of(two, channel="two", via=proxy, retry_s=1)
        for number, primary in enumerate((one, two)):
            primary.query(f"CREATE DATABASE of_{number}")
            replica.wait_for(primary)
        databases = {row["Database"] for row in replica.query("SHOW DATABASES")}
        assert {"of_0", "of_1"} <= databases
        assert replica.replica_status("one")["SQL_Delay"] == 1
        assert proxy.connections >= 1
        io = "Slave_IO_Running" if kind is MariaDbServer else "Replica_IO_Running"
        proxy.refuse()
        until(lambda: replica.replica_status("two")[io] != "Yes", "the channel to notice")
        assert replica.replica_status("one")[io] == "Yes"
        proxy.go_on()
        until(lambda: replica.replica_status("two")[io] == "Yes", "the channel to come back", 30)


def _domain(kind: type, number: int) -> dict[str, int]:
    """Two primaries of MariaDB must not number their events alike."""
    return {"gtid-domain-id": number} if kind is MariaDbServer else {}


@pytest.mark.parametrize("make", ["make_mariadb", "make_mysql"])
def test_tls_with_an_authority_of_our_own(
    request: pytest.FixtureRequest, make: str, certificates: Certificates
) -> None:
    server = request.getfixturevalue(make)(tls=certificates)
    password = server.create_user("careful", grants=["SELECT ON `test`.*"], require="X509")

    def come(ca: Path, client: Any = None) -> str:
        context = ssl.create_default_context(cafile=str(ca))
        if client is not None:
            context.load_cert_chain(client.cert, client.key)
        connection = pymysql.connect(
            host=server.host, port=server.port, user="careful", password=password, ssl=context, read_timeout=10
        )
        with contextlib.closing(connection), connection.cursor() as cursor:
            cursor.execute("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
            return str(cursor.fetchall()[0][1])

    assert come(certificates.ca, certificates.client)
    with pytest.raises(pymysql.err.OperationalError, match="1045"):
        come(certificates.ca)
    with pytest.raises(pymysql.err.OperationalError, match="CERTIFICATE_VERIFY_FAILED"):
        come(certificates.wrong_ca, certificates.client)
    with pytest.raises(pymysql.err.OperationalError):
        come(certificates.ca, certificates.wrong_client)


def test_a_start_that_fails_says_why() -> None:
    server = MariaDbServer("10.11", options={"no-such-option": 1})
    with pytest.raises(StartFailed, match="unknown variable 'no-such-option=1'"):
        server.start()
    server.close()


class _Unfetched(MySqlServer):
    binaries = "mysql-that-nobody-fetched"


def test_a_server_that_was_not_fetched_fails_with_the_way_to_get_it() -> None:
    with pytest.raises(StartFailed, match=r"tools/get_mysql\.sh"):
        _Unfetched()


CHILD = """
import sys
from tests.servers.mariadb import MariaDbServer
server = MariaDbServer("10.11").start()
print(server.pid, server.folder, flush=True)
sys.stdin.read()
"""


def test_servers_end_with_a_test_process_that_is_killed(root: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout is not None
        pid, folder = child.stdout.readline().split()
        assert alive(int(pid))
        child.send_signal(signal.SIGKILL)
        child.wait(10)
    until(lambda: not alive(int(pid)), "the server to end")
    until(lambda: not Path(folder).parent.exists(), "the folder to be removed")


@pytest.mark.parametrize("arguments", [["get_mariadb.sh", "10.11"], ["get_mariadb.sh", "11.8"], ["get_mysql.sh"]])
def test_what_is_fetched_is_not_fetched_again(root: Path, arguments: list[str]) -> None:
    script, *series = arguments
    ended = subprocess.run(
        [str(root / "tools" / script), *series], capture_output=True, text=True, timeout=60, check=True
    )
    assert ended.stderr == ""
    assert (Path(ended.stdout.strip()) / "server").exists()


def test_only_the_series_that_the_tests_need_can_be_fetched(root: Path) -> None:
    ended = subprocess.run(
        [str(root / "tools" / "get_mariadb.sh"), "5.5"], capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 2
    assert "usage" in ended.stderr
