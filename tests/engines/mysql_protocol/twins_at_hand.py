"""Twins on the servers of the tests, as the engines will make them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from exporter.domain.model import PairFacts
from exporter.engines._mysql_protocol.connection import Connection
from exporter.engines._mysql_protocol.inventory import TableEncryption
from exporter.engines._mysql_protocol.provisioning import provision
from exporter.engines._mysql_protocol.twins import Twins
from exporter.engines._mysql_protocol.verification import verify_pair
from exporter.engines.base import Provisioned
from exporter.engines.mariadb import encryption as mariadb
from exporter.engines.mariadb.ddl import MariaDbDdl
from exporter.engines.mariadb.settings import Pair as MariaDbPair
from exporter.engines.mysql import encryption as mysql
from exporter.engines.mysql.ddl import MySqlDdl
from exporter.engines.mysql.settings import Pair as MySqlPair
from tests.engines.mysql_protocol.connectors import PATIENCE, connector
from tests.servers.mariadb import MariaDbServer
from tests.servers.server import Server

SCHEMA = "tde_canary"
ROWS = 2_000


def asked(
    connection: Connection, schema: str, tables: tuple[str, ...], timeout: float
) -> Mapping[str, TableEncryption]:
    """What the server's views say, as each engine reads them."""
    read = mariadb.table_encryption if connection.is_mariadb else mysql.table_encryption
    return read(connection, schema, tables, timeout)


def twins_on(server: Server, rows: int = ROWS, **pair: Any) -> Twins:
    settings: dict[str, Any] = {"name": "main", "rows": rows, **pair}
    if isinstance(server, MariaDbServer):
        return Twins(SCHEMA, MariaDbPair(**settings), MariaDbDdl())
    return Twins(SCHEMA, MySqlPair(**settings), MySqlDdl())


def session(server: Server, user: str = "root", password: str | None = None) -> Connection:
    return connector(server, user, password, socket=True, purpose="control").connect(PATIENCE)


def make(connection: Connection, twins: Twins, timeout: float = 60.0) -> Provisioned:
    return provision(connection, twins, asked, lambda what, share: None, timeout)


def verify(connection: Connection, twins: Twins, timeout: float = 30.0) -> PairFacts:
    return verify_pair(connection, twins, asked, timeout)


def comment(server: Server, table: str) -> str:
    sql = "SELECT table_comment AS c FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
    return str(server.value(sql, SCHEMA, table))


def file_of(server: Server, table: str) -> Path:
    return server.datadir / SCHEMA / f"{table}.ibd"


def flushed(server: Server, *tables: str) -> None:
    """Have the server write what it still holds in memory of these tables."""
    names = ", ".join(f"{SCHEMA}.{table}" for table in tables)
    connection = server.connect()
    try:
        with connection.cursor() as cursor:
            cursor.execute(f"FLUSH TABLES {names} FOR EXPORT")
            cursor.execute("UNLOCK TABLES")
    finally:
        connection.close()
