"""What belongs to tables in encrypted tablespaces and lies in the clear: encryption of tablespaces does not follow to it.

Indexes and large objects have tablespaces of their own, and so has the copy of its query that a materialized view keeps.
Counted is in the container of the session: partitions by themselves, parts of the database's own users and what is in the
recycle bin not at all. What belongs to encrypted columns is not in here: an index on one is encrypted with it.
"""

from __future__ import annotations

from exporter.engines.oracle.statements import Need, define, view

_ENCRYPTED_TABLES = """
WITH encrypted_tables AS (
 SELECT DISTINCT s.owner, s.table_name FROM (
  SELECT owner, table_name, tablespace_name FROM dba_tables WHERE dropped = 'NO'
  UNION ALL SELECT table_owner, table_name, tablespace_name FROM dba_tab_partitions WHERE composite = 'NO'
  UNION ALL SELECT table_owner, table_name, tablespace_name FROM dba_tab_subpartitions
 ) s
 JOIN dba_tablespaces t ON t.tablespace_name = s.tablespace_name
 JOIN dba_users u ON u.username = s.owner
 WHERE t.encrypted = 'YES' AND u.oracle_maintained = 'N'
)"""
"""A partitioned table has no tablespace of its own, and a partition of subpartitions only a default for those."""
_PARTS_IN_THE_CLEAR = """
SELECT COUNT(*) AS n FROM ({parts}) p
 JOIN encrypted_tables e ON e.owner = p.table_owner AND e.table_name = p.table_name
 JOIN dba_tablespaces t ON t.tablespace_name = p.tablespace_name
 WHERE t.encrypted = 'NO'"""
_TABLES = ("DBA_TABLES", "DBA_TAB_PARTITIONS", "DBA_TAB_SUBPARTITIONS", "DBA_TABLESPACES", "DBA_USERS")


def _counting(parts: str) -> str:
    return _ENCRYPTED_TABLES + _PARTS_IN_THE_CLEAR.replace("{parts}", parts)


INDEXES = define(
    "dependents.indexes",
    _counting(
        "SELECT table_owner, table_name, tablespace_name FROM dba_indexes"
        " WHERE partitioned = 'NO' AND temporary = 'N' AND dropped = 'NO' AND index_type <> 'LOB'"
        " UNION ALL SELECT i.table_owner, i.table_name, p.tablespace_name FROM dba_ind_partitions p"
        " JOIN dba_indexes i ON i.owner = p.index_owner AND i.index_name = p.index_name"
        " WHERE p.composite = 'NO' AND i.index_type <> 'LOB'"
        " UNION ALL SELECT i.table_owner, i.table_name, p.tablespace_name FROM dba_ind_subpartitions p"
        " JOIN dba_indexes i ON i.owner = p.index_owner AND i.index_name = p.index_name WHERE i.index_type <> 'LOB'"
    ),
    "encryption_state",
    view(*_TABLES, "DBA_INDEXES", "DBA_IND_PARTITIONS", "DBA_IND_SUBPARTITIONS"),
    needs=(Need.OPEN,),
)
LOBS = define(
    "dependents.lobs",
    _counting(
        # A large object of a partitioned table has only a default here.
        "SELECT owner AS table_owner, table_name, tablespace_name FROM dba_lobs WHERE partitioned = 'NO'"
        " UNION ALL SELECT table_owner, table_name, tablespace_name FROM dba_lob_partitions WHERE composite = 'NO'"
    ),
    "encryption_state",
    view(*_TABLES, "DBA_LOBS", "DBA_LOB_PARTITIONS"),
    needs=(Need.OPEN,),
)
MATERIALIZED_VIEWS = define(
    "dependents.materialized_views",
    _ENCRYPTED_TABLES + " SELECT COUNT(*) AS n FROM (SELECT DISTINCT m.owner, m.mview_name FROM dba_mviews m"
    " JOIN dba_mview_detail_relations d ON d.owner = m.owner AND d.mview_name = m.mview_name"
    " JOIN encrypted_tables e ON e.owner = d.detailobj_owner AND e.table_name = d.detailobj_name"
    " JOIN dba_tables c ON c.owner = m.owner AND c.table_name = m.container_name"
    " JOIN dba_tablespaces t ON t.tablespace_name = c.tablespace_name WHERE t.encrypted = 'NO') v",
    "encryption_state",
    view(*_TABLES, "DBA_MVIEWS", "DBA_MVIEW_DETAIL_RELATIONS"),
    needs=(Need.OPEN,),
)

DEPENDENTS = {"index": INDEXES, "lob": LOBS, "materialized_view": MATERIALIZED_VIEWS}
"""By kind, as in `EncryptionState.unprotected`."""
