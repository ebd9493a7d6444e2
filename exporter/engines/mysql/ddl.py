"""What MySQL and Percona Server write otherwise when twins are made. Facts tried on MySQL 9.7."""

from __future__ import annotations

from exporter.domain.errors import KeystoreFailed, PermissionMissing, TargetError, Unsupported
from exporter.engines._mysql_protocol.settings import TwinPair
from exporter.engines._mysql_protocol.twins import quoted
from exporter.engines.mysql.settings import Pair

# Said in so many words, for a server may have innodb_file_per_table=OFF, and the system tablespace is never encrypted.
_OWN_FILE = "innodb_file_per_table"

_READ = (
    "threads",
    "events_statements_history",
    "events_stages_current",
    "file_summary_by_instance",
    "file_summary_by_event_name",
    "keyring_component_status",
    "keyring_keys",
    "replication_applier_status_by_worker",
)
"""Tables of the performance schema that the exporter reads; others show what applications do."""

_ADVICE = """\
CPU time of statements (source of the CPU metrics). Costs about 0.8 microseconds of each statement, also of the
applications'. It lasts until the server is restarted; to keep it, write below [mysqld] into my.cnf:
  performance-schema-consumer-events-statements-cpu=ON
It is switched on at once by:
  UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' WHERE NAME = 'events_statements_cpu';
The statement history, from which the server's own time of a query is read, is on by default. Where it is off, this
costs less than can be measured:
  UPDATE performance_schema.setup_consumers SET ENABLED = 'YES'
    WHERE NAME IN ('events_statements_current', 'events_statements_history');
Reads of single files, and so the pages that were decrypted, come from the performance schema. It is on by default;
where my.cnf says performance_schema=OFF, only a restart turns it on.
Without them decrypted pages are unknown, for MySQL does not count those, and so is CPU per query where the exporter runs
on another host than the server."""


class MySqlDdl:
    """Satisfies `_mysql_protocol.twins.Ddl`."""

    page_format = "mysql"
    space_sql = "SELECT space, file_size FROM information_schema.innodb_tablespaces WHERE name = %s"

    def encrypted(self, pair: TwinPair) -> str:
        return f"TABLESPACE={quoted(_tablespace(pair))} ENCRYPTION='Y'"

    def plain(self) -> str:
        return f"TABLESPACE={quoted(_OWN_FILE)} ENCRYPTION='N'"

    def explained(self, error: TargetError, warnings: str, pair: TwinPair) -> TargetError:
        words = f"{error} {warnings}"
        if isinstance(error, KeystoreFailed):
            return KeystoreFailed(
                "an encrypted table cannot be made, for the server finds no usable keyring: configure a keyring component "
                "(component_keyring_file or another, in mysqld.my and its own .cnf) and see to it that the server's user "
                "may write what it keeps"
            )
        if any(f"(error {number})" in words for number in (3825, 3510)):
            return Unsupported(
                f"the tablespace '{_tablespace(pair)}' cannot hold the encrypted twin: it is missing or plain. Make it "
                f"(CREATE TABLESPACE … ENCRYPTION='Y'), or remove 'tablespace' from the pair"
            )
        if any(f"(error {number})" in words for number in (3826, 3827, 3828)):
            return PermissionMissing(
                "the server keeps to its default of encryption (table_encryption_privilege_check), which one of the twins "
                "has to differ from; it takes the grant of TABLE_ENCRYPTION_ADMIN ON *.*"
            )
        return error

    def grants(self, schema: str) -> tuple[str, ...]:
        own = quoted(schema)
        return (
            "PROCESS ON *.*",
            "REPLICATION CLIENT ON *.*",
            *(f"SELECT ON `performance_schema`.`{table}`" for table in _READ),
            f"SELECT ON {own}.*",
            f"INSERT, UPDATE ON {own}.`heartbeat`",
        )

    def advice(self) -> tuple[str, ...]:
        return tuple(_ADVICE.splitlines())


def _tablespace(pair: TwinPair) -> str:
    return (pair.tablespace if isinstance(pair, Pair) else None) or _OWN_FILE
