"""No statement that is shipped needs an extra licence, flushes or restarts anything, changes a setting of a server, or
writes outside of the exporter's own schema.

Oracle's statements are a list; those of the other engines are the string constants of their modules.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.engines import registry
from exporter.engines.mariadb.settings import Target as MariaDbTarget
from exporter.engines.mysql.settings import Target as MySqlTarget
from exporter.engines.oracle import statements as oracle
from exporter.engines.oracle.settings import Target as OracleTarget
from exporter.engines.oracle.statements import Need

ENGINES = Path(__file__).resolve().parents[2] / "exporter" / "engines"

LICENSED = re.compile(
    r"ACTIVE_SESS|\bX\$ASH|DBA_HIST|CDB_HIST|\bAWR_|DBA_ADDM|CDB_ADDM|DBA_ADVISOR|CDB_ADVISOR|DBA_STREAMS_TP|MGMT\$"
    r"|WORKLOAD_REP|DBMS_(?:ADDM|PERF|UMF|ADVISOR|SQLTUNE|SQL_MONITOR|SQLPA|WORKLOAD|AUTO_SQLTUNE|SPM|XPLAN)"
    r"|\bG?V\$SQL_(?:MONITOR|PLAN_MONITOR)|\bG?V\$(?:SYSMETRIC|SESSMETRIC|METRIC|EVENTMETRIC|FILEMETRIC|WAITCLASSMETRIC)",
    re.IGNORECASE,
)
"""Views and packages of the Diagnostics and the Tuning Pack (reading them is use), and what is near to them."""

FREE = {
    *("V$DATABASE", "V$VERSION", "V$PARAMETER", "V$CONTAINERS", "V$TABLESPACE"),
    *("V$STATNAME", "V$SESSTAT", "V$MYSTAT", "V$SYSSTAT", "V$SESS_TIME_MODEL", "V$SYS_TIME_MODEL", "V$OSSTAT"),
    *("V$ENCRYPTION_WALLET", "V$ENCRYPTION_KEYS", "V$ENCRYPTED_TABLESPACES", "V$DATABASE_KEY_INFO"),
    *("V$DATAGUARD_STATS", "V$DATAGUARD_PROCESS", "V$MANAGED_STANDBY", "V$ARCHIVE_GAP", "V$ARCHIVED_LOG"),
    "V$ARCHIVE_DEST_STATUS",
    *("ALL_TABLES", "ALL_TAB_COMMENTS", "ALL_OBJECTS", "ALL_LOBS", "ALL_INDEXES", "ALL_ENCRYPTED_COLUMNS", "ALL_USERS"),
    *("DBA_TABLESPACES", "DBA_DATA_FILES", "DBA_ENCRYPTED_COLUMNS", "DBA_USERS"),
    *("DBA_TABLES", "DBA_TAB_PARTITIONS", "DBA_TAB_SUBPARTITIONS", "DBA_LOBS", "DBA_LOB_PARTITIONS"),
    *("DBA_INDEXES", "DBA_IND_PARTITIONS", "DBA_IND_SUBPARTITIONS", "DBA_MVIEWS", "DBA_MVIEW_DETAIL_RELATIONS"),
    *("CDB_TABLESPACES", "CDB_DATA_FILES", "CDB_ENCRYPTED_COLUMNS"),
}
"""Views of Oracle that need no option. Whoever adds one has looked that up."""
PACKAGES = {"DBMS_LOB", "DBMS_STATS", "UTL_RAW"}
"""Packages that do nothing but what their statement names."""

HARM = re.compile(
    r"\b(?:FLUSH|SHUTDOWN|RESTART|ALTER\s+(?:SYSTEM|DATABASE|INSTANCE|TABLESPACE|USER)|SET\s+(?:@@)?(?:GLOBAL|PERSIST)"
    r"|RESET\s+(?:MASTER|SLAVE|REPLICA|BINARY|QUERY)|PURGE\s+(?:BINARY|MASTER)|CHANGE\s+(?:MASTER|REPLICATION)"
    r"|(?:START|STOP)\s+(?:SLAVE|REPLICA|ALL)|INSTALL\s+|KILL\s+(?!QUERY)|ADMINISTER\s+KEY|DISCARD\s+TABLESPACE)",
    re.IGNORECASE,
)
WIDE = re.compile(
    r"ANY DICTIONARY|SELECT_CATALOG_ROLE|\bDBA\b|ALTER SYSTEM|ALTER DATABASE|ADMINISTER|SYSDBA|\bALL ON\b"
)
"""Privileges that are much wider than anything we need."""

SQL = re.compile(
    r"\s*(?:SELECT|WITH|SHOW|INSERT|UPDATE|DELETE|REPLACE|MERGE|TRUNCATE|CREATE|DROP|ALTER|RENAME|SET|GRANT|REVOKE|LOCK|FLUSH"
    r"|KILL|RESET|PURGE|START|STOP|CALL|LOAD|INSTALL|SHUTDOWN|RESTART|ANALYZE|OPTIMIZE|CHECK|DO)\b"
)
WRITING = re.compile(
    r"\s*(INSERT(?: IGNORE)? INTO|REPLACE INTO|MERGE INTO|UPDATE|DELETE FROM|TRUNCATE(?: TABLE)?"
    r"|(?:CREATE|DROP|ALTER|RENAME|LOCK)(?: TEMPORARY)? (?:TABLE|TABLES|DATABASE|SCHEMA|INDEX|VIEW|USER|TABLESPACE)"
    r"(?: IF (?:NOT )?EXISTS)?|COMMENT ON TABLE) (\S+)"
)


def strip_literals(sql: str) -> str:
    return re.sub(r"'(?:[^']|'')*'", "''", sql)


# -- Oracle --------------------------------------------------------------------------------------------


EVERY = oracle.every()


@pytest.mark.parametrize("name", EVERY)
def test_a_statement_of_oracle_reads_nothing_that_is_licensed_apart(name):
    sql = strip_literals(EVERY[name].sql).upper()
    assert not LICENSED.search(sql)
    views = set(re.findall(r"\b(?:G?V\$|X\$|DBA_|CDB_|ALL_|USER_)[A-Z0-9_$]+", sql))
    assert views <= FREE
    assert set(re.findall(r"\b(?:DBMS|UTL)_[A-Z_]+(?=\.)", sql)) <= PACKAGES
    assert not re.search(r"/\*\+[^*]*PARALLEL\(", sql.replace("NO_PARALLEL(", ""))


@pytest.mark.parametrize("name", EVERY)
def test_a_statement_of_oracle_takes_the_grants_of_what_it_reads(name):
    statement = EVERY[name]
    granted = " ".join(statement.grants).upper()
    assert not WIDE.search(granted)
    views = set(re.findall(r"\b(?:V\$|DBA_|CDB_)[A-Z0-9_]+", strip_literals(statement.sql).upper()))
    assert {view for view in views if view.replace("V$", "V_$") not in granted} == set()
    if Need.LOGIN not in statement.needs:
        assert " ANY " not in granted


@pytest.mark.parametrize("name", [name for name, each in EVERY.items() if each.changes])
def test_a_statement_of_oracle_changes_nothing_but_our_own_tables_and_its_session(name):
    statement = EVERY[name]
    sql = statement.sql
    assert not HARM.search(strip_literals(sql))
    if sql.startswith("ALTER SESSION SET "):
        assert sql.split()[3] in ("CELL_OFFLOAD_PROCESSING", '"_serial_direct_read"')
        return
    if sql.startswith("GRANT "):
        assert re.fullmatch(r"GRANT (?:READ|SELECT, INSERT, UPDATE) ON \{table\} TO \{\w+\}", sql)
    elif sql.startswith(("BEGIN", "DECLARE")):
        # The one names its table as values, which are the schema and the names of the twins.
        written = re.findall(r"\b(?:INSERT INTO|UPDATE|DELETE FROM|MERGE INTO) (\S+)", sql)
        assert written in ([], ["{table}"])
        assert written or "DBMS_STATS.GATHER_TABLE_STATS(:1, :2)" in sql
    else:
        found = WRITING.match(sql)
        assert found, f"what does {sql!r} write?"
        assert found[2] == "{table}"
    allowed = {"heartbeat.begin", "heartbeat.write"}
    assert Need.LOGIN in statement.needs or name in allowed


def test_only_plain_identifiers_get_into_a_statement():
    for bad in ('A" OR 1=1', "A;B", "A.B.C", "a", "SYS.OBJ$ --", ""):
        with pytest.raises(ValueError, match="identifier"):
            EVERY["heartbeat.write"].on(table=bad)


ADVICE = {"UPDATE performance_schema.setup_consumers SET ENABLED='YES'"}
"""Begins a sentence that tells a DBA what would make a counter known; the exporter does not send it."""


# -- the others ----------------------------------------------------------------------------------------


def texts_of(path: Path) -> Iterator[tuple[int, str]]:
    """Line and text of each string that is no docstring; `{}` stands for what is filled in."""
    tree = ast.parse(path.read_text())
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)} - {
        id(node) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)
    }
    words = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in words or id(node) in inner:
            continue
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield node.lineno, "".join(map(str, parts))


MODULES = [path for path in sorted(ENGINES.rglob("*.py")) if "oracle" not in path.parts]


def statements_of(path: Path) -> list[tuple[int, str]]:
    return [(line, text) for line, text in texts_of(path) if SQL.match(text) and len(text.split()) > 1]


def test_there_are_statements_to_look_at():
    found = [text for path in MODULES for _, text in statements_of(path)]
    assert len(found) > 50
    assert any(text.startswith("UPDATE {}") for text in found)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ENGINES)))
def test_no_statement_does_harm(path):
    bad = [(line, text) for line, text in statements_of(path) if HARM.match(text)]
    assert bad == []
    assert not [line for line, text in texts_of(path) if LICENSED.search(text)]


@pytest.mark.parametrize(
    "path",
    # The files of the embedded database belong to the exporter, with all that is in them.
    [path for path in MODULES if "sqlite" not in path.parts],
    ids=lambda path: str(path.relative_to(ENGINES)),
)
def test_what_is_written_is_named_by_the_caller(path):
    """That is, by the settings: the schema and the twins, quoted. No name of a table is in the text."""
    for line, text in statements_of(path):
        if not text.startswith(tuple(ADVICE)) and (found := WRITING.match(text)):
            assert found[2].startswith(("{}", "%s")), f"{path.name}:{line} writes {found[2]}"


# -- what a DBA is given to run --------------------------------------------------------------------------


def lines_to_run(target):
    lines = list(registry.make(target).script())
    return [line for line in lines if line.strip() and not line.lstrip().startswith(("--", "#"))]


@pytest.mark.parametrize(
    "target",
    [
        MariaDbTarget.model_validate({"name": "db", "pairs": [{"name": "main"}]}),
        MySqlTarget.model_validate({"name": "db", "pairs": [{"name": "main"}]}),
        OracleTarget.model_validate(
            {
                "name": "db",
                "service": "pdb1",
                "pairs": [{"name": "main"}, {"name": "col", "encryption": "column"}],
                "standbys": [{"name": "east", "host": "db2.example.org"}],
            }
        ),
    ],
    ids=["mariadb", "mysql", "oracle"],
)
def test_a_script_for_a_dba_does_no_harm(target):
    lines = lines_to_run(target)
    assert lines
    text = "\n".join(lines)
    # The schema's quota is the one thing of a user that is altered there.
    harm = [line for line in lines if HARM.search(strip_literals(line)) and " QUOTA " not in line]
    assert harm == []
    assert not LICENSED.search(text)
    assert not re.search(r"^GRANT .*(?:ANY DICTIONARY|CATALOG_ROLE|\bALL\b)", text, re.MULTILINE)
