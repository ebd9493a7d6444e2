"""Connecting to the servers of the tests as the exporter does."""

from __future__ import annotations

import os
import secrets
from typing import Any

from exporter.config.secrets import SecretSource
from exporter.engines._mysql_protocol.connection import Connector
from exporter.engines._mysql_protocol.settings import ServerSettings, TlsSettings
from exporter.engines.credentials import Credentials
from tests.servers.proxy import Proxy
from tests.servers.server import Server

PATIENCE = 50.0
"""Seconds for what takes some hundredths on a quiet machine."""


def source_of(secret: str) -> SecretSource:
    """A source that yields this secret."""
    name = f"SECRET_{secrets.token_hex(8)}"
    os.environ[name] = secret
    return SecretSource(env=name)


def connector(
    server: Server | Proxy | Any,
    user: str = "root",
    password: str | None = None,
    *,
    socket: bool = False,
    credentials: Credentials | None = None,
    purpose: str = "canary",
    tls: dict[str, Any] | None = None,
    **address: Any,
) -> Connector:
    """A connector to whatever has a host and a port, over TCP unless told otherwise; without a user as its root."""
    if password is None and isinstance(server, Server):
        password = server.password
    where: dict[str, Any] = {"socket": server.socket} if socket and isinstance(server, Server) else {}
    given = {"host": server.host, "port": server.port, "user": user, "tls": TlsSettings(**(tls or {}))}
    settings = ServerSettings(**(given | where | address))
    credentials = credentials or Credentials(source_of(password) if password else None)
    return Connector(settings, credentials, purpose=purpose, target="unit")
