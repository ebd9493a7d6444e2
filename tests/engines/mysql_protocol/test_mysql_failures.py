"""Errors of servers and drivers become errors of our tree, in words that name what to do and nothing that is secret."""

import ssl

import pymysql
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.config.secrets import SecretSource
from exporter.domain.errors import (
    AccountBarred,
    AuthenticationFailed,
    ConnectFailed,
    DeadlineExceeded,
    KeystoreFailed,
    LockTimeout,
    PermissionMissing,
    QueryFailed,
    TargetError,
    TlsFailed,
    Unavailable,
    Unsupported,
)
from exporter.engines._mysql_protocol.failures import LONGEST, TableUnreadable, explained, said
from tests.engines.mysql_protocol.connectors import PATIENCE, connector


def of(number, message=""):
    return explained(pymysql.err.OperationalError(number, message))


@pytest.mark.parametrize(
    ("number", "message", "kind", "words"),
    [
        (1045, "Access denied for user 'u'@'10.1.2.3' (using password: YES)", AuthenticationFailed, "Access denied for user 'u' (using password: YES) (error 1045)"),
        (1698, "Access denied for user 'u'@'h'", AuthenticationFailed, "Access denied for user 'u' (error 1698)"),
        (1862, "", AccountBarred, "the password has expired; set a new one (error 1862)"),
        (1820, "", AccountBarred, "the password has expired; set a new one (error 1820)"),
        (3118, "", AccountBarred, "the account is locked (error 3118)"),
        (4151, "", AccountBarred, "the account is locked (error 4151)"),
        (1524, "Plugin 'x' is not loaded", AuthenticationFailed, "Plugin 'x' is not loaded (error 1524)"),
        (1251, "consider upgrading", Unsupported, "the account wants a login method that is too old for us (error 1251)"),
        (1044, "Access denied for user 'u'@'h' to database 'd'", PermissionMissing, "Access denied for user 'u' to database 'd' (error 1044)"),
        (1130, "Host '10.1.2.3' is not allowed to connect", PermissionMissing, "no account of the server admits this machine (error 1130)"),
        (1142, "SELECT command denied to user 'u'@'h' for table `d`.`t`", PermissionMissing, "the grant of SELECT on `d`.`t` is missing"),
        (1142, "SELECT command denied to user 'u'@'h' for table 't'", PermissionMissing, "the grant of SELECT on `t` is missing"),
        (1142, "DELETE, DROP command denied to user 'u'@'h' for table `d`.`t`", PermissionMissing, "the grant of DELETE, DROP on `d`.`t` is missing"),
        (1143, "SELECT command denied to user 'u'@'h' for column 'c' in table 't'", PermissionMissing, "the grant of SELECT on `t`, column `c` is missing"),
        (1370, "execute command denied to user 'u'@'h' for routine 'd.f'", PermissionMissing, "the grant of execute on the routine `d.f` is missing"),
        (1227, "Access denied; you need (at least one of) the PROCESS privilege(s) for this operation", PermissionMissing, "the privilege PROCESS is missing"),
        (1227, "Access denied; you need (at least one of) the SUPER, SLAVE MONITOR privilege(s) for this operation", PermissionMissing, "one of the privileges SUPER, SLAVE MONITOR is missing"),
        (1227, "something else", PermissionMissing, "something else"),
        (1205, "try restarting transaction", LockTimeout, "another session held a lock for too long (error 1205)"),
        (1213, "", LockTimeout, "deadlock with another session (error 1213)"),
        (3572, "", LockTimeout, "another session holds a lock (error 3572)"),
        (1969, "", DeadlineExceeded, "stopped by the server at our time limit (error 1969)"),
        (3024, "", DeadlineExceeded, "stopped by the server at our time limit (error 3024)"),
        (1317, "", QueryFailed, "somebody stopped the statement (KILL QUERY) (error 1317)"),
        (1040, "Too many connections", Unavailable, "the server has too many connections (max_connections) (error 1040)"),
        (1203, "", Unavailable, "the account has too many connections (max_user_connections) (error 1203)"),
        (1226, "User 'u' has exceeded the 'max_user_connections' resource (current value: 2)", Unavailable, "User 'u' has exceeded the 'max_user_connections' resource (current value: 2) (error 1226)"),
        (1129, "Host 'h' is blocked", Unavailable, "the server blocks this machine after failed connects; a DBA can unblock it (FLUSH HOSTS) (error 1129)"),
        (1053, "", Unavailable, "the server is shutting down (error 1053)"),
        (1836, "", Unavailable, "the server is read-only (error 1836)"),
        (1290, "The MariaDB server is running with the --read-only option so it cannot execute this statement", Unavailable, "the server is read-only (error 1290)"),
        (1290, "The server is running with the --secure-file-priv option", QueryFailed, "The server is running with the --secure-file-priv option (error 1290)"),
        (1047, "WSREP has not yet prepared node for application use", Unavailable, "the node is not part of its cluster (error 1047)"),
        (1047, "Unknown command", QueryFailed, "Unknown command (error 1047)"),
        (2006, "", ConnectFailed, "the connection was lost (error 2006)"),
        (2013, "", ConnectFailed, "the connection was lost (error 2013)"),
        (1927, "", ConnectFailed, "somebody ended the connection (KILL) (error 1927)"),
        (3159, "", TlsFailed, "the server admits encrypted connections only; set tls.mode (error 3159)"),
        (2026, "SSL is required", TlsFailed, "SSL is required (error 2026)"),
        (3185, "Can't find master key from keyring, please check", KeystoreFailed, "the server does not find the master key in its keyring (error 3185)"),
        (1296, "Got error 192 'Table encrypted but decryption failed.' from InnoDB", KeystoreFailed, "the server cannot decrypt: the key is missing or wrong (error 192)"),
        (1030, "Got error 28 \"No space left\" from storage engine", QueryFailed, "Got error 28 \"No space left\" from storage engine (error 1030)"),
        (1146, "Table 'd.t' doesn't exist", QueryFailed, "Table 'd.t' doesn't exist (error 1146)"),
        (1049, "Unknown database 'd'", QueryFailed, "Unknown database 'd' (error 1049)"),
        (9999, "", QueryFailed, "the server refused it (error 9999)"),
    ],
)  # fmt: skip
def test_a_number_has_its_class_and_words(number, message, kind, words):
    found = of(number, message)

    assert type(found) is kind
    assert str(found) == words


@pytest.mark.parametrize(
    ("message", "table"),
    [
        ("Table `d`.`t` is corrupted. Please drop the table and recreate.", "d.t"),
        ("Operation cannot be performed. The table 'd.t' is missing, corrupt or contains bad data", "d.t"),
        ("Table 'd.t' doesn't exist in engine", "d.t"),
        ("no table at all", ""),
    ],
)
def test_an_unreadable_table_is_a_class_of_its_own_and_nobody_is_told_to_drop_it(message, table):
    found = of(1877, message)

    assert isinstance(found, QueryFailed)
    assert isinstance(found, TableUnreadable)
    assert found.table == table
    assert "drop" not in str(found).lower()
    assert "key is not available" in str(found)


@pytest.mark.parametrize(
    "advice",
    [
        "Please drop the table and recreate.",
        "please DISCARD the tablespace before IMPORT",
        "try to repair it",
        "Consider upgrading the client",
        "you should run mysql_upgrade",
    ],
)
def test_advice_of_a_server_is_not_repeated(advice):
    assert said(f"Something is wrong. {advice}") == "Something is wrong"


def test_what_a_peer_says_is_one_short_line():
    assert said("a\nb\x1b[31m\tc\x00") == "a b [31m c"
    assert len(said("x" * 10_000)) == LONGEST


def test_a_secret_is_never_repeated(monkeypatch):
    monkeypatch.setenv("PASSWORD_OF_TEST", "hunter-2-hunter")
    SecretSource(env="PASSWORD_OF_TEST").read()

    assert "hunter" not in str(of(1064, "near 'hunter-2-hunter' at line 1"))


@given(st.integers(-(2**15), 2**15), st.text(max_size=400))
def test_whatever_a_server_says_is_an_error_of_our_tree(number, message):
    found = of(number, message)

    assert isinstance(found, TargetError)
    assert str(found)
    assert str(found).isprintable()
    assert len(str(found)) < LONGEST + 100


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (pymysql.err.InterfaceError(0, ""), ConnectFailed, "closed"),
        (pymysql.err.InternalError("Packet sequence number wrong"), ConnectFailed, "does not speak the protocol"),
        (IndexError("x"), ConnectFailed, "does not speak the protocol"),
        (ConnectionRefusedError(111, "Connection refused"), ConnectFailed, "connection refused"),
        (BlockingIOError(11, "Resource temporarily unavailable"), ConnectFailed, "does not accept connections"),
        (TimeoutError("timed out"), DeadlineExceeded, "no answer in time"),
        (RuntimeError("'pynacl' package is required for ed25519_password auth method"), Unsupported, "another Python package"),
        (ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER] x"), TlsFailed, "TLS failed"),
        (LockTimeout("as it was"), LockTimeout, "as it was"),
    ],
)  # fmt: skip
def test_other_errors_are_explained_as_well(error, kind, words):
    found = explained(error)

    assert type(found) is kind
    assert words in str(found)


def test_what_the_driver_raises_over_an_error_of_a_socket_is_told_apart():
    def wrapped(cause):
        try:
            try:
                raise cause
            except OSError:
                raise pymysql.err.OperationalError(2013, "Lost connection") from None
        except pymysql.err.OperationalError as error:
            return explained(error)

    assert type(wrapped(ssl.SSLError(1, "[SSL: TLSV13_ALERT_CERTIFICATE_REQUIRED] x"))) is TlsFailed
    assert type(wrapped(ssl.SSLEOFError(8, "EOF"))) is ConnectFailed
    assert type(wrapped(TimeoutError("timed out"))) is DeadlineExceeded
    assert str(wrapped(ConnectionResetError(104, "Connection reset by peer"))) == "connection reset by peer"


def test_the_words_of_real_servers_name_the_missing_grant(database):
    server = database
    server.query("CREATE DATABASE rooms")
    server.query("CREATE TABLE rooms.kitchen (id int, pot int)")
    password = server.create_user("poor", grants=["SELECT (id) ON rooms.kitchen"])
    connection = connector(server, "poor", password).connect(PATIENCE)

    def refusal(sql):
        with pytest.raises(PermissionMissing) as caught:
            connection.rows(sql, timeout=PATIENCE)
        return str(caught.value)

    assert refusal("SHOW ENGINE INNODB STATUS") == "the privilege PROCESS is missing"
    assert "DELETE on " in refusal("DELETE FROM rooms.kitchen")
    assert "`kitchen`" in refusal("DELETE FROM rooms.kitchen")
    assert refusal("SELECT pot FROM rooms.kitchen") == "the grant of SELECT on `kitchen`, column `pot` is missing"
    assert refusal("CREATE DATABASE more").startswith("Access denied for user 'poor' to database 'more'")
    assert connection.rows("SELECT id FROM rooms.kitchen", timeout=PATIENCE) == []
    connection.close()


def test_a_lock_that_another_session_holds_is_told_from_a_slow_query(database):
    database.query("CREATE DATABASE locks")
    database.query("CREATE TABLE locks.t (id int PRIMARY KEY) ENGINE=InnoDB")
    database.query("INSERT INTO locks.t VALUES (1)")
    holder = database.connect(autocommit=False)
    holder.cursor().execute("SELECT * FROM locks.t FOR UPDATE")
    connection = connector(database).connect(PATIENCE)

    for sql in ("DELETE FROM locks.t", "ALTER TABLE locks.t ADD COLUMN x int"):
        with pytest.raises(LockTimeout, match="held a lock"):
            connection.execute(sql, timeout=PATIENCE)
        assert connection.alive
    holder.close()
    connection.close()
