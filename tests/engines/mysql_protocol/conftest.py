"""The shared servers, left as they were found, and one of each kind with certificates of the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from exporter.engines._mysql_protocol.connection import Connection
from tests.engines.mysql_protocol.twins_at_hand import session
from tests.servers.certificates import Certificates
from tests.servers.mariadb import MariaDbServer
from tests.servers.mysql import MySqlServer
from tests.servers.server import Server

KINDS = ("mariadb", "mysql")


def _accounts(server: Server) -> set[tuple[str, str]]:
    return {(row["user"], row["host"]) for row in server.query("SELECT user AS user, host AS host FROM mysql.user")}


def _schemas(server: Server) -> set[str]:
    return {next(iter(row.values())) for row in server.query("SHOW DATABASES")}


def left_as_found(server: Server) -> Iterator[Server]:
    """Yields the server, and afterwards drops the accounts and the schemas that were made meanwhile."""
    accounts, schemas = _accounts(server), _schemas(server)
    yield server
    for schema in _schemas(server) - schemas:
        server.query(f"DROP DATABASE `{schema}`")
    for user, host in _accounts(server) - accounts:
        server.query(f"DROP USER '{user}'@'{host}'")


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest) -> Iterator[Server]:
    """Each of the shared servers in turn."""
    yield from left_as_found(request.getfixturevalue(request.param))


@pytest.fixture
def control(database: Server) -> Iterator[Connection]:
    """A session of root on it."""
    connection = session(database)
    yield connection
    connection.close()


@pytest.fixture(scope="session")
def certified_mariadb(certificates: Certificates) -> Iterator[Server]:
    with MariaDbServer("11.8", tls=certificates) as server:
        yield server


@pytest.fixture(scope="session")
def certified_mysql(certificates: Certificates) -> Iterator[Server]:
    with MySqlServer(tls=certificates) as server:
        yield server


@pytest.fixture(params=KINDS)
def certified(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server of each kind that shows the certificate of the tests."""
    yield from left_as_found(request.getfixturevalue(f"certified_{request.param}"))
