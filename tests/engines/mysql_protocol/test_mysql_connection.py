"""Sessions on real servers: logging in, what is set in them, what they answer and how they end."""

import contextlib
import socket
import string
import threading

import pytest

from exporter.config.secrets import SecretSource
from exporter.domain.errors import (
    AuthenticationFailed,
    Cancelled,
    ConnectFailed,
    DeadlineExceeded,
    PermissionMissing,
    QueryFailed,
    Unavailable,
    Unsupported,
)
from exporter.engines._mysql_protocol import wire
from exporter.engines._mysql_protocol.connection import LOCK_WAIT_SECONDS, server_limit
from exporter.engines._mysql_protocol.wire import Wire
from exporter.engines.credentials import Credentials
from tests.engines.mysql_protocol.connectors import PATIENCE, connector, source_of
from tests.processes import until
from tests.stopwatch import Stopwatch

HARD_PASSWORD = f"{string.punctuation} ü{'x' * (128 - len(string.punctuation) - 2)}"
COUNT_LONG = "SELECT SUM(LENGTH(a.table_name)) FROM information_schema.columns a, information_schema.columns b, information_schema.columns c"


@pytest.fixture
def connection(database):
    opened = connector(database).connect(PATIENCE)
    yield opened
    opened.close()


def quoted(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def processes(database):
    return {
        row["id"]: row["info"] or ""
        for row in database.query("SELECT id AS id, info AS info FROM information_schema.processlist")
    }


@pytest.mark.parametrize("socket", [False, True])
@pytest.mark.parametrize("tls", ["disabled", "preferred"])
def test_a_password_arrives_byte_for_byte(database, socket, tls):
    assert len(HARD_PASSWORD) == 128
    database.query(f"CREATE USER hard IDENTIFIED BY {quoted(HARD_PASSWORD)}")

    opened = connector(database, "hard", HARD_PASSWORD, socket=socket, tls={"mode": tls}).connect(PATIENCE)
    assert opened.row("SELECT 1", timeout=PATIENCE) == (1,)
    opened.close()
    with pytest.raises(AuthenticationFailed):
        connector(database, "hard", HARD_PASSWORD + "x", socket=socket, tls={"mode": tls}).connect(PATIENCE)


def test_a_password_out_of_a_file_arrives_byte_for_byte(database, tmp_path):
    database.query(f"CREATE USER hard IDENTIFIED BY {quoted(HARD_PASSWORD)}")
    (tmp_path / "password").write_text(f"{HARD_PASSWORD}\n")

    credentials = Credentials(SecretSource(file=tmp_path / "password"))
    connector(database, "hard", credentials=credentials).connect(PATIENCE).close()


@pytest.mark.parametrize("tls", ["disabled", "preferred"])
def test_caching_sha2_logs_in_with_a_cold_and_a_warm_cache(mysql, tls):
    mysql.query("CREATE USER sha IDENTIFIED WITH caching_sha2_password BY 'secret of sha'")
    try:
        for _ in range(2):
            mysql.query("FLUSH PRIVILEGES")  # empties the cache
            for _ in range(2):
                connector(mysql, "sha", "secret of sha", tls={"mode": tls}).connect(PATIENCE).close()
    finally:
        mysql.query("DROP USER sha")


def test_a_login_without_a_password(database):
    database.query("CREATE USER open_door")
    connector(database, "open_door", "").connect(PATIENCE).close()


def test_one_attempt_for_each_secret(database, tmp_path):
    database.query("CREATE USER changing IDENTIFIED BY 'first secret'")
    file = tmp_path / "password"
    file.write_text("wrong secret")
    credentials = Credentials(SecretSource(file=file))
    purposes = [connector(database, "changing", credentials=credentials, purpose=name) for name in ("canary", "state")]
    status = "Access_denied_errors" if "MariaDb" in type(database).__name__ else "Aborted_connects"
    before = database.status(status)

    for each in purposes * 3:
        with pytest.raises(AuthenticationFailed, match=r"Access denied.*\(error 1045\)"):
            each.connect(PATIENCE)
    assert database.status(status) == before + 1
    file.write_text("first secret")
    for each in purposes:
        each.connect(PATIENCE).close()
    assert database.status(status) == before + 1


def test_the_session_is_set_up_and_says_who_it_is(database, connection):
    variables = dict(connection.rows("SHOW SESSION VARIABLES", timeout=PATIENCE))

    assert variables["time_zone"] == "+00:00"
    assert variables["autocommit"] == "ON"
    assert variables["character_set_client"] == "utf8mb4"
    assert "STRICT_TRANS_TABLES" in variables["sql_mode"]
    assert "NO_ENGINE_SUBSTITUTION" in variables["sql_mode"]
    assert variables["lock_wait_timeout"] == variables["innodb_lock_wait_timeout"] == str(LOCK_WAIT_SECONDS)
    assert variables.get("query_cache_type", "OFF") == "OFF"
    assert connection.is_mariadb == ("max_statement_time" in variables)
    assert connection.server_version == database.value("SELECT VERSION()")
    assert connection.id in processes(database)
    assert connection.alive


def test_the_servers_own_limit_follows_the_timeout_of_calls(connection):
    def limit():
        return connection.row(f"SELECT @@SESSION.{name}", timeout=timeout)[0]

    name = "max_statement_time" if connection.is_mariadb else "max_execution_time"
    for timeout in (2.0, 30.0, 0.5):
        wanted = server_limit(timeout)
        assert 0 < wanted < timeout
        assert limit() == pytest.approx(wanted if connection.is_mariadb else wanted * 1000)


def test_the_limit_is_set_only_when_it_changes(connection):
    def sets():
        return int(connection.row("SHOW SESSION STATUS LIKE 'Com_set_option'", timeout=3.0)[1])

    before = sets()
    for _ in range(5):
        connection.row("SELECT 1", timeout=3.0)
    assert sets() == before
    connection.row("SELECT 1", timeout=4.0)
    assert sets() == before + 2


def test_the_server_stops_a_slow_query_and_the_session_goes_on(database, connection):
    # As if told already: it stops the query long before we would, however busy the machine is.
    connection._wire.ask(f"SET SESSION {connection._limiter} = {0.3 if connection.is_mariadb else 300}".encode())
    connection._limit = server_limit(50.0)
    with pytest.raises(
        DeadlineExceeded, match=r"stopped by the server at our time limit of 49.5 s \(error (1969|3024)\)"
    ):
        connection.rows(COUNT_LONG, timeout=50.0)

    assert connection.alive
    assert connection.row("SELECT 7", timeout=PATIENCE) == (7,)
    assert connection.id in processes(database)


def test_answers_are_rows_and_counts(database, connection):
    database.query("CREATE DATABASE answers")
    connection.execute("CREATE TABLE answers.t (id int, word varchar(20)) ENGINE=InnoDB", timeout=PATIENCE)
    affected = connection.execute("INSERT INTO answers.t VALUES (%s, %s), (2, 'b%%')", (1, "a'\\ü"), timeout=PATIENCE)

    assert affected == 2
    assert connection.rows("SELECT * FROM answers.t ORDER BY id", timeout=PATIENCE) == [(1, "a'\\ü"), (2, "b%")]
    assert connection.rows("SELECT id FROM answers.t WHERE word LIKE 'b%'", timeout=PATIENCE) == [(2,)]
    assert connection.row("SELECT id FROM answers.t WHERE id > 5", timeout=PATIENCE) is None
    assert connection.named("SELECT id AS Number FROM answers.t ORDER BY id DESC", timeout=PATIENCE)[0] == {"Number": 2}
    timed = connection.timed("SELECT id FROM answers.t", timeout=PATIENCE)
    assert (timed.affected, len(timed.rows)) == (2, 2)
    assert timed.execute_seconds > 0
    assert timed.fetch_seconds > 0


def test_the_statement_and_nothing_else_is_timed(connection):
    """The answer waits in the server: all of that is execution, none of it the setting of the limit."""
    timed = connection.timed("SELECT SLEEP(0.3)", timeout=PATIENCE)

    assert timed.execute_seconds >= 0.3
    assert timed.fetch_seconds < 0.3


def test_every_statement_says_whose_it_is(database):
    opened = connector(database, purpose="heartbeat").connect(PATIENCE)
    seen = opened.rows("SELECT info FROM information_schema.processlist WHERE id = CONNECTION_ID()", timeout=PATIENCE)
    assert seen[0][0].startswith("/* tde-exporter heartbeat */ SELECT info")
    opened.close()


def test_the_connection_attributes_name_the_program(make_mysql):
    server = make_mysql(performance_schema=True)
    opened = connector(server, purpose="canary").connect(PATIENCE)

    names = server.query(
        "SELECT attr_value AS v FROM performance_schema.session_connect_attrs WHERE attr_name='program_name'"
    )
    assert [row["v"] for row in names] == ["tde-exporter canary unit"]
    opened.close()


def test_a_refused_statement_leaves_the_session_alive(connection):
    for sql, kind in (("SELEC 1", QueryFailed), ("SELECT * FROM no_such.t", QueryFailed)):
        with pytest.raises(kind):
            connection.rows(sql, timeout=PATIENCE)
        assert connection.alive
    assert connection.row("SELECT 1", timeout=PATIENCE) == (1,)


def test_a_local_file_is_never_sent(database, connection, tmp_path):
    database.query("CREATE DATABASE loot")
    database.query("CREATE TABLE loot.t (line text)")
    (tmp_path / "file").write_text("private\n")
    with pytest.raises((QueryFailed, ConnectFailed)):
        connection.execute(f"LOAD DATA LOCAL INFILE '{tmp_path / 'file'}' INTO TABLE loot.t", timeout=PATIENCE)
    assert database.value("SELECT COUNT(*) FROM loot.t") == 0


def test_an_answer_of_many_bytes_is_cut_off(database, connection):
    rows = " UNION ALL ".join(f"SELECT REPEAT('{letter}', 15000000)" for letter in "abcdef")
    with pytest.raises(ConnectFailed, match="longer than 64 MiB"):
        connection.rows(rows, timeout=PATIENCE)
    assert not connection.alive
    until(lambda: not [sql for sql in processes(database).values() if "REPEAT" in sql], "the server to notice")


def test_an_answer_of_many_rows_is_cut_off(connection, monkeypatch):
    monkeypatch.setattr(wire, "MOST_ROWS", 1000)
    ten = f"({' UNION ALL '.join(['SELECT 1 AS one'] * 10)})"
    many = f"SELECT a.one FROM {ten} a, {ten} b, {ten} c, {ten} d LIMIT"
    assert len(connection.rows(f"{many} 1000", timeout=PATIENCE)) == 1000
    with pytest.raises(ConnectFailed, match="more than 1000 rows"):
        connection.rows(f"{many} 1001", timeout=PATIENCE)
    assert not connection.alive


def test_a_killed_connection_is_lost_and_says_so(database, connection):
    database.query(f"KILL {connection.id}")
    until(lambda: connection.id not in processes(database), "the session to end")

    with pytest.raises(ConnectFailed):
        connection.rows("SELECT 1", timeout=PATIENCE)
    assert not connection.alive
    with pytest.raises(ConnectFailed, match="the connection is lost"):
        connection.rows("SELECT 1", timeout=PATIENCE)
    connection.close()


def test_a_connection_killed_in_the_middle_of_a_query(database, connection):
    killer = threading.Timer(0.3, lambda: database.query(f"KILL {connection.id}"))
    killer.start()
    with pytest.raises((ConnectFailed, QueryFailed)) as caught:
        connection.rows(COUNT_LONG, timeout=PATIENCE)
    killer.join()

    assert not isinstance(caught.value, DeadlineExceeded)
    with pytest.raises(ConnectFailed):
        connection.rows("SELECT 1", timeout=PATIENCE)


def test_a_query_that_somebody_else_stopped_is_not_our_deadline(database, connection):
    def stop():
        until(lambda: "columns" in processes(database).get(connection.id, ""), "the query to run")
        database.query(f"KILL QUERY {connection.id}")

    stopping = threading.Thread(target=stop)
    stopping.start()
    with pytest.raises(QueryFailed, match="somebody stopped the statement"):
        connection.rows(COUNT_LONG, timeout=PATIENCE)
    stopping.join()
    assert connection.alive


def test_closing_ends_the_session_and_says_good_bye(database):
    opened = connector(database).connect(PATIENCE)
    aborted = database.status("Aborted_clients")
    opened.close()
    opened.close()

    until(lambda: opened.id not in processes(database), "the session to end")
    assert database.status("Aborted_clients") == aborted
    assert not opened.alive
    with pytest.raises(Cancelled):
        opened.rows("SELECT 1", timeout=PATIENCE)


def test_closing_from_another_thread_ends_the_call_under_way(database, connection):
    outcome = []

    def run():
        try:
            connection.rows("SELECT SLEEP(60)", timeout=50.0)
        except Cancelled as error:
            outcome.append(error)

    running = threading.Thread(target=run)
    running.start()
    until(lambda: "SLEEP" in processes(database).get(connection.id, ""), "the query to run")
    watch = Stopwatch()
    connection.close()
    assert watch.seconds < 5.0
    running.join(PATIENCE)

    assert not running.is_alive()
    assert outcome


def test_an_orphaned_query_is_reaped_and_only_that(database):
    ours = connector(database)
    old, new = ours.connect(PATIENCE), ours.connect(PATIENCE)
    database.query("CREATE DATABASE orphans")
    database.query("CREATE TABLE orphans.t (n int) ENGINE=InnoDB")
    database.query("INSERT INTO orphans.t VALUES (1)")
    foreign = database.connect()
    # No server limit covers it, as none covers writing on MySQL.
    slow = "DO (SELECT SLEEP(30))"
    old._wire.ask(f"SET SESSION {old._limiter} = 0".encode())
    old._limit = server_limit(0.3)
    with pytest.raises(DeadlineExceeded):
        old.execute(slow, timeout=0.3)
    assert not old.alive
    assert "SLEEP" in processes(database)[old.id]

    assert ours.reap(old.id, new)
    until(lambda: "SLEEP" not in processes(database).get(old.id, ""), "the orphan to end")
    assert not ours.reap(old.id, new)
    assert not ours.reap(foreign.thread_id(), new)
    assert foreign.open
    foreign.close()
    new.close()


def test_too_many_connections_are_the_servers_state_not_ours(make_mariadb):
    server = make_mariadb(max_connections=10)
    server.query("CREATE USER plain IDENTIFIED BY 'x-secret-x'")
    # The server keeps one more for an administrator, which the account is not.
    held = [connector(server, "plain", "x-secret-x").connect(PATIENCE) for _ in range(10)]
    with pytest.raises(Unavailable, match=r"max_connections.*error 1040"):
        connector(server, "plain", "x-secret-x").connect(PATIENCE)
    for each in held:
        each.close()
    until(lambda: server.status("Threads_connected") <= 2, "the sessions to end")
    connector(server, "plain", "x-secret-x").connect(PATIENCE).close()


def test_the_accounts_own_limit_is_told_apart(database):
    password = database.create_user("few", clause="WITH MAX_USER_CONNECTIONS 1")
    first = connector(database, "few", password).connect(PATIENCE)
    with pytest.raises(Unavailable, match="max_user_connections"):
        connector(database, "few", password).connect(PATIENCE)
    first.close()


@pytest.mark.parametrize(("clause", "words"), [("ACCOUNT LOCK", "locked"), ("PASSWORD EXPIRE", "expired")])
def test_an_account_that_may_not_log_in(database, clause, words):
    password = database.create_user("barred", clause=clause)
    with pytest.raises(AuthenticationFailed, match=words):
        connector(database, "barred", password).connect(PATIENCE)


def _pass_on(source, sink):
    with contextlib.suppress(OSError):
        while heard := source.recv(4096):
            sink.sendall(heard)


class Flip:
    """Stands before a server; one byte of what the client says first is another."""

    host = "127.0.0.1"

    def __init__(self, server, before):
        self._before, self._to = before, (server.host, server.port)
        self._listener = socket.create_server((self.host, 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                with client, socket.create_connection(self._to) as server:
                    client.sendall(server.recv(4096))
                    said = client.recv(4096)
                    at = said.index(self._before)
                    server.sendall(said[:at] + bytes([said[at] ^ 1]) + said[at + 1 :])
                    threading.Thread(target=_pass_on, args=(client, server), daemon=True).start()
                    _pass_on(server, client)

    def close(self):
        self._listener.close()


def test_a_login_whose_name_changed_on_the_way_is_no_refused_secret(database):
    password = database.create_user("xylophone")
    credentials = Credentials(source_of(password))
    flip = Flip(database, b"xylophone")
    for _ in range(2):
        with pytest.raises(ConnectFailed, match="heard another name than ours"):
            connector(flip, "xylophone", credentials=credentials, tls={"mode": "disabled"}).connect(PATIENCE)
    flip.close()
    connector(database, "xylophone", credentials=credentials).connect(PATIENCE).close()


def test_an_account_that_admits_another_machine_only(database):
    database.query("CREATE USER far@'198.51.100.7' IDENTIFIED BY 'x-secret-x'")
    with pytest.raises((AuthenticationFailed, PermissionMissing)) as caught:
        connector(database, "far", "x-secret-x").connect(PATIENCE)
    assert "x-secret-x" not in str(caught.value)


def test_messages_hold_no_password_and_no_address_but_the_configured_one(database):
    with pytest.raises(AuthenticationFailed) as caught:
        connector(database, "nobody", "my-very-secret", host="localhost").connect(PATIENCE)
    assert str(caught.value).startswith(f"localhost:{database.port}: Access denied for user 'nobody' (using password")
    assert "my-very-secret" not in str(caught.value)
    assert "127.0.0.1" not in str(caught.value)


class Forgetful(Wire):
    """As through a proxy that keeps session variables to itself."""

    def ask(self, statement):
        return super().ask(b"DO 1" if b"SET SESSION time_zone" in statement else statement)


def test_a_server_that_keeps_its_own_settings_is_not_used(connection):
    connection.execute("SET SESSION lock_wait_timeout = 50", timeout=PATIENCE)
    connection._wire.__class__ = Forgetful

    with pytest.raises(Unsupported, match="keeps the session variable lock_wait_timeout at another value than 1"):
        connection.settle(PATIENCE)


@pytest.mark.parametrize("purpose", ["", "a b", "x*/", "X"])
def test_a_purpose_is_a_name(database, purpose):
    with pytest.raises(ValueError, match="purpose"):
        connector(database, purpose=purpose)
