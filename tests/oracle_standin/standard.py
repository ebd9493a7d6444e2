"""The views and statements that every stand-in knows from the beginning."""

from __future__ import annotations

from tests.oracle_standin import (
    canaries,
    views_data_guard,
    views_dictionary,
    views_instance,
    views_keystore,
    views_statistics,
)
from tests.oracle_standin.errors import OraError
from tests.oracle_standin.statements import Answer, Call, Statements
from tests.oracle_standin.views import Views

SETTINGS = (
    "TIME_ZONE",
    "NLS_LANGUAGE",
    "NLS_TERRITORY",
    "NLS_NUMERIC_CHARACTERS",
    "NLS_DATE_FORMAT",
    "NLS_TIMESTAMP_FORMAT",
    "CELL_OFFLOAD_PROCESSING",
    "STATISTICS_LEVEL",
    '"_serial_direct_read"',
)
"""What a session may set; `Seat.settings` has the values, without quotes and in upper case."""

SELECTS = (
    "SELECT 1 FROM DUAL",
    "SELECT dummy FROM dual",
    "SELECT SYSDATE FROM dual",
    "SELECT SYSTIMESTAMP FROM dual",
    "SELECT SYS_CONTEXT('USERENV', 'SID') AS sid, SYS_CONTEXT('USERENV', 'CON_ID') AS con_id,"
    " SYS_CONTEXT('USERENV', 'CON_NAME') AS con_name, SYS_CONTEXT('USERENV', 'INSTANCE') AS instance,"
    " SYS_CONTEXT('USERENV', 'SERVICE_NAME') AS service, SYS_CONTEXT('USERENV', 'SESSION_USER') AS username FROM dual",
    "SELECT dbid, name, db_unique_name, cdb, database_role, open_mode, protection_mode FROM v$database",
    "SELECT instance_number, instance_name, host_name, version, startup_time, status FROM v$instance",
    "SELECT instance_number, instance_name, host_name, version, version_full, startup_time, status FROM v$instance",
    "SELECT banner FROM v$version",
    "SELECT con_id, name, open_mode, restricted FROM v$pdbs",
    "SELECT name, value FROM v$parameter WHERE name = :1",
    "SELECT sid, serial#, username, status, program, module, action, client_identifier FROM v$session",
    # Keystores and what they encrypt.
    "SELECT con_id, wrl_type, status, wallet_type, wallet_order, fully_backed_up FROM v$encryption_wallet",
    "SELECT con_id, wrl_type, status, wallet_type, wallet_order, fully_backed_up, keystore_mode FROM v$encryption_wallet",
    "SELECT inst_id, con_id, wrl_type, status, wallet_type FROM gv$encryption_wallet",
    "SELECT con_id, key_id, creation_time, activation_time, keystore_type, origin, backed_up FROM v$encryption_keys",
    "SELECT ts#, con_id, encryptionalg, encryptedts, masterkeyid, blocks_encrypted, blocks_decrypted, key_version, status"
    " FROM v$encrypted_tablespaces",
    "SELECT e.con_id, t.name, e.encryptionalg, e.encryptedts, e.status, e.key_version, e.blocks_encrypted,"
    " e.blocks_decrypted FROM v$encrypted_tablespaces e JOIN v$tablespace t ON t.ts# = e.ts# AND t.con_id = e.con_id",
    "SELECT ts#, name, con_id FROM v$tablespace",
    "SELECT con_id, encryptionalg, masterkeyid FROM v$database_key_info",
    "SELECT con_id, encryptionalg, masterkeyid, masterkey_activated FROM v$database_key_info",
    "SELECT tablespace_name, block_size, contents, status, encrypted FROM dba_tablespaces",
    "SELECT con_id, tablespace_name, block_size, contents, status, encrypted FROM cdb_tablespaces",
    "SELECT encrypted, COUNT(*) AS n FROM dba_tablespaces GROUP BY encrypted",
    "SELECT tablespace_name, SUM(blocks) AS blocks, SUM(bytes) AS bytes FROM dba_data_files GROUP BY tablespace_name",
    "SELECT owner, table_name, column_name, encryption_alg, salt, integrity_alg FROM dba_encrypted_columns",
    "SELECT con_id, owner, table_name, column_name, encryption_alg, salt, integrity_alg FROM cdb_encrypted_columns",
    "SELECT owner, table_name, tablespace_name, num_rows, blocks FROM dba_tables WHERE owner = :1 AND table_name = :2",
    "SELECT owner, index_name, table_owner, table_name, tablespace_name FROM dba_indexes WHERE table_owner = :1",
    "SELECT owner, table_name, column_name, segment_name, tablespace_name FROM dba_lobs WHERE owner = :1",
    "SELECT m.owner, m.mview_name, d.detailobj_owner, d.detailobj_name FROM dba_mviews m JOIN dba_mview_detail_relations d"
    " ON d.owner = m.owner AND d.mview_name = m.mview_name",
    "SELECT segment_name, tablespace_name, bytes, blocks FROM dba_segments WHERE owner = :1",
    "SELECT username FROM dba_users WHERE oracle_maintained = 'N'",
    # Statistics.
    "SELECT statistic#, name FROM v$statname",
    "SELECT statistic#, value FROM v$mystat",
    "SELECT n.name, m.value FROM v$mystat m JOIN v$statname n ON n.statistic# = m.statistic#",
    "SELECT name, value FROM v$sysstat",
    "SELECT con_id, name, value FROM v$con_sysstat",
    "SELECT stat_name, value FROM v$sess_time_model WHERE sid = :1",
    "SELECT stat_name, value FROM v$sess_time_model WHERE sid = SYS_CONTEXT('USERENV', 'SID')",
    "SELECT stat_name, value FROM v$sys_time_model",
    "SELECT con_id, stat_name, value FROM v$con_sys_time_model",
    "SELECT stat_name, value FROM v$osstat",
    "SELECT sql_id, sql_text, executions, cpu_time, elapsed_time FROM v$sqlstats",
    # Data Guard.
    "SELECT name, value, unit, time_computed, datum_time FROM v$dataguard_stats",
    "SELECT name, pid, role, action, thread#, sequence#, block#, delay_mins FROM v$dataguard_process",
    "SELECT process, pid, status, client_process, thread#, sequence#, block#, delay_mins FROM v$managed_standby",
    "SELECT dest_id, status, type, database_mode, recovery_mode, archived_seq#, applied_seq#, error, db_unique_name,"
    " synchronization_status, synchronized, gap_status FROM v$archive_dest_status WHERE status <> 'INACTIVE'",
    "SELECT dest_id, status, target, delay_mins, error FROM v$archive_dest WHERE status <> 'INACTIVE'",
    "SELECT thread#, low_sequence#, high_sequence# FROM v$archive_gap",
    "SELECT thread#, sequence#, first_time, applied, registrar FROM v$archived_log WHERE first_time > :1",
    "SELECT item, units, sofar, timestamp, comments FROM v$recovery_progress",
)
"""Queries that the fact sheets of Oracle's views suggest, one for each thing to find out."""


def views() -> Views:
    """All views, as a table of its own that a test may change."""
    found = Views()
    for module in (views_instance, views_keystore, views_statistics, views_dictionary, views_data_guard):
        found.include(module.VIEWS)
    return found


def statements() -> Statements:
    """All statements, as a table of its own that a test may change."""
    table = Statements(views())
    for sql in SELECTS:
        table.select(sql)
    canaries.register(table)
    for setting in SETTINGS:
        _setting(table, setting)
    table.add("ALTER SESSION SET CONTAINER = {container}")(_set_container)
    table.add("BEGIN DBMS_APPLICATION_INFO.SET_MODULE(:1, :2); END;")(_set_module)
    table.add("BEGIN DBMS_APPLICATION_INFO.READ_MODULE(:1, :2); END;")(_read_module)
    return table


def _setting(table: Statements, name: str) -> None:
    plain = name.strip('"').upper()

    def function(call: Call) -> Answer:
        (value,) = call.names.values()
        call.seat.settings[plain] = value.strip("'").upper()
        return Answer()

    for value in ("{value}", "{literal}"):
        table.add(f"ALTER SESSION SET {name} = {value}")(function)


def _set_container(call: Call) -> Answer:
    name = call.names["container"].strip('"')
    for container in call.database.containers:
        if container.name == name and container.open_mode != "MOUNTED":
            call.seat.con_id = container.con_id
            return Answer()
    raise OraError(65011, name)


def _set_module(call: Call) -> Answer:
    call.seat.module, call.seat.action = (str(each or "") for each in call.binds)
    return Answer()


def _read_module(call: Call) -> Answer:
    return Answer(outs={0: call.seat.module, 1: call.seat.action})
