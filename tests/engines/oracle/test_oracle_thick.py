"""Client libraries below a connection. There are none here: the driver's own blocking interface stands for them."""

from __future__ import annotations

import subprocess
import sys

import oracledb
import pytest

from exporter.domain.errors import Cancelled, ConnectFailed, DeadlineExceeded, PermissionMissing, Unsupported
from exporter.engines import registry
from exporter.engines.oracle.activity import STATISTICS
from exporter.engines.oracle.connection import Connection
from exporter.engines.oracle.loop import Line, PrivateLoop
from exporter.engines.oracle.session import STILL_THERE
from exporter.engines.oracle.thick import ThreadedConnection, load
from tests.engines.oracle.standin_targets import target_of
from tests.oracle_standin.faults import Fail, Hang
from tests.stopwatch import Stopwatch

LIMIT = 0.4
WITHIN = 5 * 0.1


@pytest.fixture
def connect(server):
    opened = []

    def connected():
        loop, line = PrivateLoop(), Line()

        def blocking():
            return oracledb.connect(user="mon", password="secret", dsn=server.dsn())

        driver = loop.run(lambda: ThreadedConnection.open(blocking), line, 5.0, "connecting")
        driver.name("tde-exporter", "canary db")
        opened.append(Connection(driver, loop, line))
        return opened[-1]

    yield connected
    server.faults.heal()
    for connection in opened:
        connection.close()


def timed_out(connection):
    watch = Stopwatch()
    with pytest.raises(DeadlineExceeded):
        connection.row(STILL_THERE, timeout=LIMIT)
    assert watch.seconds < LIMIT + WITHIN


def test_statements_are_answered_and_timed(server, connect):
    connection = connect()
    assert connection.release == 19
    assert connection.row(STILL_THERE, timeout=5.0) == (1,)
    timed = connection.timed(STATISTICS, timeout=5.0)
    assert len(timed.rows) == 7
    assert timed.execute_seconds > 0
    connection.commit(timeout=5.0)
    (seat,) = server.database.seats.values()
    assert (seat.module, seat.action) == ("tde-exporter", "canary db")


def test_a_call_that_is_broken_costs_no_session(server, connect):
    connection = connect()
    server.faults.on("DUAL", Hang(), times=1)
    timed_out(connection)

    assert connection.alive
    assert connection.row(STILL_THERE, timeout=5.0) == (1,)


def test_a_call_that_is_deaf_is_left_behind_in_time(server, connect):
    connection = connect()
    server.faults.deaf = True
    server.faults.on("DUAL", Hang(), times=1)
    timed_out(connection)

    assert not connection.alive
    with pytest.raises(ConnectFailed):
        connection.row(STILL_THERE, timeout=5.0)
    assert connect().row(STILL_THERE, timeout=5.0) == (1,)


def test_errors_are_those_of_our_tree(server, connect):
    connection = connect()
    server.faults.on("V$SYSSTAT", Fail(942), times=1)
    with pytest.raises(PermissionMissing, match=r"V_\$SYSSTAT"):
        connection.rows(STATISTICS, timeout=5.0)
    server.faults.on("V$SYSSTAT", Fail(28), times=1)
    with pytest.raises(ConnectFailed, match="KILL SESSION"):
        connection.rows(STATISTICS, timeout=5.0)
    assert not connection.alive


def test_a_closed_connection_says_so(server, connect):
    connection = connect()
    connection.close()
    with pytest.raises(Cancelled):
        connection.row(STILL_THERE, timeout=5.0)


def test_one_process_has_one_driver(server, tmp_path):
    engine = registry.make(target_of(server, tmp_path, driver="thick"))
    with pytest.raises(Unsupported, match="cannot be changed while it runs"):
        engine.open(5.0)


def test_libraries_that_are_not_there_are_named(tmp_path):
    program = (
        "import sys; from pathlib import Path; from exporter.engines.oracle.thick import load\n"
        "try: load(Path(sys.argv[1]))\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout.startswith("Unsupported Oracle's client libraries cannot be loaded")
    assert str(tmp_path) in ran.stdout
    with pytest.raises(Unsupported, match="already uses"):
        load(None)
