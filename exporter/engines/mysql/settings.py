"""Configuration of the engine of MySQL and Percona Server."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, field_validator

from exporter.engines._mysql_protocol.settings import MySqlProtocolTarget, TwinPair


class Pair(TwinPair):
    """Two tables with the same rows, one encrypted and one plain. Give `rows`, or `bytes`, or neither."""

    tablespace: str | None = Field(None, examples=["canary_encrypted"])
    """General tablespace that the encrypted twin is made in; it must be encrypted. Default: a file of its own."""

    @field_validator("tablespace")
    @classmethod
    def _an_identifier(cls, name: str | None) -> str | None:
        if name is not None and not re.fullmatch(r"[A-Za-z0-9_]{1,64}", name):
            raise ValueError(
                "the name of the tablespace has other characters than letters, digits and _, or more than 64; use one with such a name"
            )
        return name


class Target(MySqlProtocolTarget):
    """A MySQL server, or Percona Server."""

    engine: Literal["mysql"] = "mysql"
    """A MySQL server, or Percona Server."""
    pairs: tuple[Pair, ...] = (Pair(name="main"),)
    """The twins to compare; `tde-exporter provision` makes them."""
