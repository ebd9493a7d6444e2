"""Heartbeat tables and monitoring accounts on the servers of the tests, as a DBA would make them."""

from __future__ import annotations

from exporter.engines._mysql_protocol.twins import Ddl, create_heartbeat
from exporter.engines.mariadb.ddl import MariaDbDdl
from exporter.engines.mysql.ddl import MySqlDdl
from tests.servers.mariadb import MariaDbServer
from tests.servers.server import Server

MONITOR = {
    True: "PROCESS, SLAVE MONITOR, BINLOG MONITOR ON *.*",
    False: "PROCESS, REPLICATION CLIENT ON *.*",
}
"""By whether the server is a MariaDB."""


def ddl_of(server: Server) -> Ddl:
    return MariaDbDdl() if isinstance(server, MariaDbServer) else MySqlDdl()


def make_table(server: Server, schema: str) -> None:
    server.query(f"CREATE DATABASE `{schema}`")
    server.query(create_heartbeat(schema, ddl_of(server)))


def grants(server: Server, schema: str) -> list[str]:
    """What the monitor needs for heartbeats, lags and keys."""
    found = [
        MONITOR[isinstance(server, MariaDbServer)],
        f"SELECT ON `{schema}`.*",
        f"INSERT, UPDATE ON `{schema}`.`heartbeat`",
    ]
    if not isinstance(server, MariaDbServer):
        found.append("SELECT ON performance_schema.*")
    return found
