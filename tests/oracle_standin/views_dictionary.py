"""Views of the dictionary: tablespaces, tables and what belongs to them, encrypted columns, users.

A DBA_ view shows what lies in the session's own container; its CDB_ twin, in the root, what lies in all open ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tests.oracle_standin.model import ROOT, Database, Row, Seat
from tests.oracle_standin.storage import DependentObject
from tests.oracle_standin.views import Views

VIEWS = Views()

Source = Callable[[Database], Iterable[Row]]


def _dictionary(name: str, spec: str) -> Callable[[Source], Source]:
    """Define DBA_name and CDB_name by a function whose rows all have a CON_ID."""

    def keep(source: Source) -> Source:
        @VIEWS.define(f"DBA_{name}", spec, container_rows=False)
        def _own(database: Database, seat: Seat) -> Iterator[Row]:
            return (row for row in source(database) if row["CON_ID"] == seat.con_id)

        @VIEWS.define(f"CDB_{name}", spec + ", CON_ID N")
        def _all(database: Database, seat: Seat) -> Iterator[Row]:
            closed = {each.con_id for each in database.containers if each.open_mode == "MOUNTED" or each.restricted}
            return (row for row in source(database) if row["CON_ID"] not in closed and _seen(row, seat))

        return source

    return keep


def _seen(row: Row, seat: Seat) -> bool:
    return seat.con_id in (ROOT, row["CON_ID"])


@_dictionary(
    "TABLESPACES",
    "TABLESPACE_NAME V30, BLOCK_SIZE N, STATUS V9, CONTENTS V21, BIGFILE V3, ENCRYPTED V3",
)
def _tablespaces(database: Database) -> Iterator[Row]:
    for each in database.tablespaces:
        yield {
            "TABLESPACE_NAME": each.name,
            "BLOCK_SIZE": each.block_bytes,
            "STATUS": "ONLINE",
            "CONTENTS": each.contents,
            "BIGFILE": "NO",
            "ENCRYPTED": "YES" if each.encrypted else "NO",
            "CON_ID": each.con_id,
        }


@_dictionary(
    "DATA_FILES",
    "FILE_NAME V513, FILE_ID N, TABLESPACE_NAME V30, BYTES N, BLOCKS N, STATUS V9, ONLINE_STATUS V7",
)
def _data_files(database: Database) -> Iterator[Row]:
    for each in database.tablespaces:
        if each.contents != "TEMPORARY":
            yield {
                "FILE_NAME": f"/oradata/{each.name.lower()}_{each.con_id}.dbf",
                "FILE_ID": each.number + 1,
                "TABLESPACE_NAME": each.name,
                "BYTES": each.size * each.block_bytes,
                "BLOCKS": each.size,
                "STATUS": "AVAILABLE",
                "ONLINE_STATUS": "ONLINE",
                "CON_ID": each.con_id,
            }


@_dictionary(
    "ENCRYPTED_COLUMNS",
    "OWNER V128, TABLE_NAME V128, COLUMN_NAME V128, ENCRYPTION_ALG V29, SALT V3, INTEGRITY_ALG V12",
)
def _encrypted_columns(database: Database) -> Iterator[Row]:
    for each in database.encrypted_columns:
        yield {
            "OWNER": each.owner,
            "TABLE_NAME": each.table,
            "COLUMN_NAME": each.column,
            "ENCRYPTION_ALG": each.algorithm,
            "SALT": each.salt,
            "INTEGRITY_ALG": each.integrity,
            "CON_ID": each.con_id,
        }


@_dictionary(
    "TABLES",
    "OWNER V128, TABLE_NAME V128, TABLESPACE_NAME V30, STATUS V8, NUM_ROWS N, BLOCKS N, PARTITIONED V3, TEMPORARY V1,"
    "DROPPED V3, IOT_TYPE V12, COMPRESSION V8",
)
def _tables(database: Database) -> Iterator[Row]:
    for each in database.tables:
        yield {
            "OWNER": each.owner,
            "TABLE_NAME": each.name,
            "TABLESPACE_NAME": each.tablespace,
            "STATUS": "VALID",
            "NUM_ROWS": each.rows,
            "BLOCKS": each.blocks,
            "PARTITIONED": "NO",
            "TEMPORARY": "N",
            "DROPPED": "NO",
            "COMPRESSION": "DISABLED",
            "CON_ID": each.con_id,
        }


@_dictionary("TAB_PARTITIONS", "TABLE_OWNER V128, TABLE_NAME V128, PARTITION_NAME V128, TABLESPACE_NAME V30")
@_dictionary("TAB_SUBPARTITIONS", "TABLE_OWNER V128, TABLE_NAME V128, SUBPARTITION_NAME V128, TABLESPACE_NAME V30")
@_dictionary("IND_PARTITIONS", "INDEX_OWNER V128, INDEX_NAME V128, PARTITION_NAME V128, TABLESPACE_NAME V30")
@_dictionary("IND_SUBPARTITIONS", "INDEX_OWNER V128, INDEX_NAME V128, SUBPARTITION_NAME V128, TABLESPACE_NAME V30")
@_dictionary("LOB_PARTITIONS", "TABLE_OWNER V128, TABLE_NAME V128, COLUMN_NAME V128, TABLESPACE_NAME V30")
def _no_partitions(_database: Database) -> Iterable[Row]:
    return ()


def _dependents(database: Database, kind: str) -> Iterator[DependentObject]:
    return (each for each in database.dependents if each.kind == kind)


@_dictionary(
    "INDEXES",
    "OWNER V128, INDEX_NAME V128, INDEX_TYPE V27, TABLE_OWNER V128, TABLE_NAME V128, TABLESPACE_NAME V30,"
    "PARTITIONED V3, TEMPORARY V1, DROPPED V3",
)
def _indexes(database: Database) -> Iterator[Row]:
    for each in _dependents(database, "index"):
        yield {
            "OWNER": each.owner,
            "INDEX_NAME": each.name,
            "INDEX_TYPE": "NORMAL",
            "TABLE_OWNER": each.table_owner,
            "TABLE_NAME": each.table,
            "TABLESPACE_NAME": each.tablespace,
            "PARTITIONED": "NO",
            "TEMPORARY": "N",
            "DROPPED": "NO",
            "CON_ID": each.con_id,
        }


@_dictionary(
    "LOBS",
    "OWNER V128, TABLE_NAME V128, COLUMN_NAME V4000, SEGMENT_NAME V128, TABLESPACE_NAME V30, INDEX_NAME V128,"
    "CACHE V10, SECUREFILE V3, IN_ROW V3",
)
def _lobs(database: Database) -> Iterator[Row]:
    for each in _dependents(database, "lob"):
        yield {
            "OWNER": each.owner,
            "TABLE_NAME": each.table,
            "COLUMN_NAME": each.column,
            "SEGMENT_NAME": each.name,
            "TABLESPACE_NAME": each.tablespace,
            "CACHE": "NO",
            "SECUREFILE": "YES",
            "IN_ROW": "NO",
            "CON_ID": each.con_id,
        }


@_dictionary("MVIEWS", "OWNER V128, MVIEW_NAME V128, CONTAINER_NAME V128")
def _materialized_views(database: Database) -> Iterator[Row]:
    for each in _dependents(database, "mview"):
        yield {"OWNER": each.owner, "MVIEW_NAME": each.name, "CONTAINER_NAME": each.name, "CON_ID": each.con_id}


@_dictionary(
    "MVIEW_DETAIL_RELATIONS",
    "OWNER V128, MVIEW_NAME V128, DETAILOBJ_OWNER V128, DETAILOBJ_NAME V128, DETAILOBJ_TYPE V9",
)
def _materialized_details(database: Database) -> Iterator[Row]:
    for each in _dependents(database, "mview"):
        yield {
            "OWNER": each.owner,
            "MVIEW_NAME": each.name,
            "DETAILOBJ_OWNER": each.table_owner,
            "DETAILOBJ_NAME": each.table,
            "DETAILOBJ_TYPE": "TABLE",
            "CON_ID": each.con_id,
        }


@_dictionary(
    "SEGMENTS",
    "OWNER V128, SEGMENT_NAME V128, PARTITION_NAME V128, SEGMENT_TYPE V18, TABLESPACE_NAME V30, BYTES N, BLOCKS N",
)
def _segments(database: Database) -> Iterator[Row]:
    for each in database.tables:
        yield {
            "OWNER": each.owner,
            "SEGMENT_NAME": each.name,
            "SEGMENT_TYPE": "TABLE",
            "TABLESPACE_NAME": each.tablespace,
            "BYTES": each.blocks * 8192,
            "BLOCKS": each.blocks,
            "CON_ID": each.con_id,
        }


@_dictionary("USERS", "USERNAME V128, USER_ID N, ACCOUNT_STATUS V32, ORACLE_MAINTAINED V1, COMMON V3")
def _users(database: Database) -> Iterator[Row]:
    owners = {each.owner for each in database.tables} - set(database.users)
    for container in database.containers:
        for number, name in enumerate((*database.users, *sorted(owners))):
            yield {
                "USERNAME": name,
                "USER_ID": number,
                "ACCOUNT_STATUS": "OPEN",
                "ORACLE_MAINTAINED": "Y" if name == "SYS" else "N",
                "COMMON": "YES" if name == "SYS" or name.startswith("C##") else "NO",
                "CON_ID": container.con_id,
            }
