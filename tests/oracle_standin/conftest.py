"""Stand-ins that are closed at the end of a test, connections to them, and the check that nothing of them is left."""

from __future__ import annotations

import contextlib
import threading

import oracledb
import pytest

from tests.oracle_standin.model import Database
from tests.oracle_standin.server import Standin
from tests.processes import until

oracledb.enable_thin_mode()


@pytest.fixture(autouse=True)
def _nothing_is_left():
    yield
    until(lambda: not [each for each in threading.enumerate() if each.name.startswith("oracle-standin")], "its threads")


@pytest.fixture
def make_standin():
    """Starts one: `make_standin("23ai")`, or with what `Standin` takes."""
    with contextlib.ExitStack() as stack:
        yield lambda version="19", **options: stack.enter_context(Standin(Database(version), **options))


@pytest.fixture
def standin(make_standin):
    return make_standin()


@pytest.fixture
def connect():
    """Connects to a stand-in as MON to PDB1, unless told otherwise."""
    opened = []

    def connect_to(server, *, service="pdb1", user="mon", password="secret", **options):
        connection = oracledb.connect(user=user, password=password, dsn=server.dsn(service), **options)
        connection.call_timeout = 10_000
        opened.append(connection)
        return connection

    yield connect_to
    for connection in opened:
        with contextlib.suppress(oracledb.Error):
            connection.close()


@pytest.fixture
def connection(standin, connect):
    return connect(standin)


@pytest.fixture
def cursor(connection):
    opened = connection.cursor()
    yield opened
    with contextlib.suppress(oracledb.Error):
        opened.close()
