"""The engine of MySQL and Percona Server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Self

from exporter.config.schema import TargetSettings
from exporter.domain.model import Operation
from exporter.engines._mysql_protocol.engine import Opener
from exporter.engines._mysql_protocol.key_match import mysql_keys
from exporter.engines._mysql_protocol.operations import OPERATIONS
from exporter.engines._mysql_protocol.script import script
from exporter.engines._mysql_protocol.session import Flavour
from exporter.engines.base import Session
from exporter.engines.host import Host
from exporter.engines.mysql.activity import FileProxy
from exporter.engines.mysql.counters import MySqlCounters
from exporter.engines.mysql.ddl import MySqlDdl
from exporter.engines.mysql.encryption import EncryptionReader, keystore_failure, table_encryption
from exporter.engines.mysql.settings import Target


class Engine:
    """Satisfies `engines.base.Engine`."""

    operations: ClassVar[frozenset[Operation]] = OPERATIONS
    self_provisioning: ClassVar[bool] = False
    sessions_per_pair: ClassVar[int] = 1

    def __init__(self, target: TargetSettings) -> None:
        if not isinstance(target, Target):
            raise TypeError(f"not a target of this engine: {target.engine}")
        self._target = target
        flavour = Flavour("mysql", MySqlDdl(), MySqlCounters, table_encryption, keystore_failure, mysql_keys)
        self.host = Host()
        self._opener = Opener(target, flavour, FileProxy(), EncryptionReader(), self.host)

    def succeed(self, former: Self) -> None:
        self._opener.succeed(former._opener)

    def script(self) -> Iterator[str]:
        return script(self._target, self._target.pairs, MySqlDdl(), "mysql")

    def open(self, timeout: float) -> Session:
        return self._opener.open(timeout)
