"""Configuration of the engine of MariaDB."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from exporter.engines._mysql_protocol.settings import MySqlProtocolTarget, TwinPair


class Pair(TwinPair):
    """Two tables with the same rows, one encrypted and one plain. Give `rows`, or `bytes`, or neither."""

    key_id: int = Field(1, ge=1, le=2**32 - 1)
    """Key that the encrypted twin is encrypted with (`ENCRYPTION_KEY_ID`); the server's key management must have it."""


class Target(MySqlProtocolTarget):
    """A MariaDB server."""

    engine: Literal["mariadb"] = "mariadb"
    """A MariaDB server."""
    pairs: tuple[Pair, ...] = (Pair(name="main"),)
    """The twins to compare; `tde-exporter provision` makes them."""
