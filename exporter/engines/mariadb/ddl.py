"""What MariaDB writes otherwise when twins are made. Facts tried on 10.11 and 11.8."""

from __future__ import annotations

from exporter.domain.errors import KeystoreFailed, TargetError, Unsupported
from exporter.engines._mysql_protocol.settings import TwinPair
from exporter.engines._mysql_protocol.twins import quoted
from exporter.engines.mariadb.settings import Pair

# Plain pages of the server's default compression would not hold as many rows as the twin's.
_UNCOMPRESSED = "PAGE_COMPRESSED=0"

_READ = ("threads", "events_statements_history", "file_summary_by_instance", "file_summary_by_event_name")
"""Tables of the performance schema that the exporter reads; others show what applications do."""

_ADVICE = """\
CPU time of single sessions (source of the CPU metrics). Costs about 1.5 microseconds of each statement, also of the
applications'. It lasts until the server is restarted; to keep it, write userstat=ON into my.cnf:
  SET GLOBAL userstat = ON;
Reads of single files and their time. Costs about 2 microseconds of each statement and some memory, and needs a restart;
in my.cnf, below [mariadb]:
  performance_schema=ON
With it, and with these consumers, the server's own time of each query is known as well:
  UPDATE performance_schema.setup_consumers SET ENABLED = 'YES'
    WHERE NAME IN ('events_statements_current', 'events_statements_history');
Without them reads per file are unknown, and so is CPU per query where the exporter runs on another host than the
server. Decrypted pages are counted in any case."""


class MariaDbDdl:
    """Satisfies `_mysql_protocol.twins.Ddl`."""

    page_format = "mariadb"
    space_sql = "SELECT space, file_size FROM information_schema.innodb_sys_tablespaces WHERE name = %s"

    def encrypted(self, pair: TwinPair) -> str:
        return f"ENCRYPTED=YES ENCRYPTION_KEY_ID={_key_id(pair)} {_UNCOMPRESSED}"

    def plain(self) -> str:
        return f"ENCRYPTED=NO {_UNCOMPRESSED}"

    def explained(self, error: TargetError, warnings: str, pair: TwinPair) -> TargetError:
        """For error 1005 (errno 140) MariaDB says the cause in a warning only."""
        key = _key_id(pair)
        if f"ENCRYPTION_KEY_ID {key} not available" in warnings:
            return KeystoreFailed(
                f"an encrypted table cannot be made, for the server has no key {key}: configure a key management plugin "
                "(file_key_management, hashicorp_key_management, aws_key_management) that holds it, or set 'key_id' of the "
                "pair to a key that it has"
            )
        if "innodb_encrypt_tables=FORCE" in warnings:
            return Unsupported(
                "a plain table cannot be made, for the server encrypts all of them (innodb_encrypt_tables=FORCE)"
            )
        if "innodb_file_per_table" in warnings:
            return Unsupported(
                "a table can be encrypted only in a file of its own; the server has innodb_file_per_table=OFF"
            )
        return error

    def grants(self, schema: str) -> tuple[str, ...]:
        own = quoted(schema)
        return (
            "PROCESS ON *.*",
            "SLAVE MONITOR ON *.*",
            "BINLOG MONITOR ON *.*",
            *(f"SELECT ON `performance_schema`.`{table}`" for table in _READ),
            f"SELECT ON {own}.*",
            f"INSERT, UPDATE ON {own}.`heartbeat`",
        )

    def advice(self) -> tuple[str, ...]:
        return tuple(_ADVICE.splitlines())


def _key_id(pair: TwinPair) -> int:
    return pair.key_id if isinstance(pair, Pair) else 1
