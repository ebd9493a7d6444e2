"""Servers for tests. The session's are shared and must be left as they were found; the factories make private ones.

    def test_x(mariadb): ...                       # 11.8, as shipped
    def test_y(mariadb_old): ...                   # 10.11
    def test_z(mysql): ...                         # MySQL 9
    def test_lag(mariadb_pair): primary, replica = mariadb_pair
    def test_broken(make_mariadb): server = make_mariadb("10.11", performance_schema=True); server.kill()

Tests of the shared ones make databases and users of their own names, and drop them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.servers.certificates import Certificates, make_certificates
from tests.servers.mariadb import MariaDbServer
from tests.servers.mysql import MySqlServer
from tests.servers.proxy import Proxy
from tests.servers.server import together

# A server that counts as a source of replicas does.
SOURCE: dict[str, Any] = {"binlog": True, "server_id": 1}


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDbServer]:
    """MariaDB 11.8 as it is shipped, with keys 1 to 3."""
    with MariaDbServer("11.8") as server:
        yield server


@pytest.fixture(scope="session")
def mariadb_old() -> Iterator[MariaDbServer]:
    """MariaDB 10.11 as it is shipped, with keys 1 to 3."""
    with MariaDbServer("10.11") as server:
        yield server


@pytest.fixture(scope="session")
def mysql() -> Iterator[MySqlServer]:
    """MySQL 9 as it is shipped, with a keyring."""
    with MySqlServer() as server:
        yield server


@pytest.fixture(scope="session")
def mariadb_pair() -> Iterator[tuple[MariaDbServer, MariaDbServer]]:
    """A primary and its replica, MariaDB 11.8."""
    with together(MariaDbServer("11.8", **SOURCE), MariaDbServer("11.8", server_id=2)) as (primary, replica):
        replica.replica_of(primary)
        replica.wait_for(primary)
        yield primary, replica


@pytest.fixture(scope="session")
def mysql_pair() -> Iterator[tuple[MySqlServer, MySqlServer]]:
    """A primary and its replica, MySQL 9."""
    with together(MySqlServer(**SOURCE), MySqlServer(server_id=2)) as (primary, replica):
        replica.replica_of(primary)
        replica.wait_for(primary)
        yield primary, replica


@pytest.fixture
def make_mariadb() -> Iterator[Callable[..., MariaDbServer]]:
    """Starts a MariaDB for this test alone; takes what `MariaDbServer` takes."""
    with ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(MariaDbServer(*args, **options))


@pytest.fixture
def make_mysql() -> Iterator[Callable[..., MySqlServer]]:
    """Starts a MySQL for this test alone; takes what `MySqlServer` takes."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(MySqlServer(**options))


@pytest.fixture
def make_proxy() -> Iterator[Callable[..., Proxy]]:
    """Puts a proxy in front of an address: `make_proxy(server.address)`; takes what `Proxy` takes."""
    with ExitStack() as stack:
        yield lambda *args: stack.enter_context(Proxy(*args))


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """A private authority with what it signed, and a wrong one."""
    folder: Path = tmp_path_factory.mktemp("certificates")
    return make_certificates(folder)
