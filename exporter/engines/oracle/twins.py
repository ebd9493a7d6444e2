"""What the twins are: names, columns, rows and how they are loaded. Only text here, nothing is executed.

Every row is a function of its number, computed by the database in both twins alike; numbers run from 1 without gaps. The
first rows hold a large object each, out of line and not cached: reading one is reading from disk, always.
"""

from __future__ import annotations

from dataclasses import dataclass

from exporter.domain.model import Phase, Slot
from exporter.engines.oracle.settings import LOB_BYTES, LOB_ROWS, TwinPair
from exporter.engines.oracle.statements import Need, Statement, define

CANARY_VERSION = "1"
"""Changes when the rows or a canary's statement change, so that old and new samples are never mixed."""
COLUMN = "PAYLOAD"
"""The column that column encryption encrypts, together with the large objects."""
CHUNK_ROWS = 20_000
"""The most rows of one INSERT, some 5 MB."""
PIECE_BYTES = 8192

_COLUMNS = """
  id NUMBER(10) NOT NULL,
  payload VARCHAR2(300){encrypted} NOT NULL,
  data BLOB{encrypted_lob},
  CONSTRAINT {key} PRIMARY KEY (id) USING INDEX TABLESPACE {tablespace}"""
# What the defaults of the database or of a tablespace might make otherwise in one twin. NOCACHE makes a large object be
# read directly from disk each time.
_STORAGE = (
    "PCTFREE 10 NOCOMPRESS NOPARALLEL LOGGING TABLESPACE {tablespace}"
    " LOB (data) STORE AS SECUREFILE (TABLESPACE {tablespace} DISABLE STORAGE IN ROW NOCACHE LOGGING NOCOMPRESS"
    " KEEP_DUPLICATES)"
)
_MAKING = ("CREATE ANY TABLE", "CREATE ANY INDEX")
_FILLING = ("INSERT ANY TABLE", "UPDATE ANY TABLE", "SELECT ANY TABLE", "LOCK ANY TABLE")


def _create(name: str, encrypted: str, encrypted_lob: str) -> Statement:
    columns = _COLUMNS.replace("{encrypted}", encrypted).replace("{encrypted_lob}", encrypted_lob)
    sql = f"CREATE TABLE {{table}} ({columns}) {_STORAGE}"
    return define(name, sql, "provision", _MAKING, needs=(Need.PRIMARY, Need.LOGIN))


_PLAIN = _create("twins.create", "", "")
_WITH_COLUMN = {
    algorithm: _create(
        f"twins.create_with_column_{algorithm.lower()}",
        # Without salt and MAC nothing is added to a value but padding; a large object has salt always.
        f" ENCRYPT USING '{algorithm}' 'NOMAC' NO SALT",
        f" ENCRYPT USING '{algorithm}' 'NOMAC'",
    )
    for algorithm in ("AES128", "AES192", "AES256", "3DES168")
}
INSERT = define(
    "twins.insert",
    "INSERT INTO {table} (id, payload) SELECT n, 'KnownSubscriberName' || LPAD(TO_CHAR(n), 10, '0')"
    " || RAWTOHEX(STANDARD_HASH(TO_CHAR(n), 'SHA512')) || RAWTOHEX(STANDARD_HASH(TO_CHAR(n), 'SHA256'))"
    " FROM (SELECT :1 + LEVEL - 1 AS n FROM dual CONNECT BY LEVEL <= :2)",
    "provision",
    _FILLING,
    needs=(Need.PRIMARY, Need.LOGIN),
)
"""Loads `:2` rows from number `:1` on."""
FILL_LOB = define(
    "twins.fill_lob",
    "DECLARE target BLOB; seed RAW(64); BEGIN"
    " UPDATE {table} SET data = EMPTY_BLOB() WHERE id = :1 RETURNING data INTO target;"
    " FOR place IN 1 .. :2 LOOP"
    " SELECT STANDARD_HASH(TO_CHAR(:3) || ':' || TO_CHAR(place), 'SHA512') INTO seed FROM dual;"
    f" DBMS_LOB.WRITEAPPEND(target, {PIECE_BYTES}, UTL_RAW.COPIES(seed, {PIECE_BYTES // 64}));"
    " END LOOP; END;",
    "provision",
    (*_FILLING, "EXECUTE ON SYS.DBMS_LOB", "EXECUTE ON SYS.UTL_RAW"),
    needs=(Need.PRIMARY, Need.LOGIN),
)
"""Writes the large object of row `:1` (and `:3`), `:2` pieces."""
LOCK = define(
    "twins.lock",
    "LOCK TABLE {table} IN EXCLUSIVE MODE NOWAIT",
    "provision",
    ("LOCK ANY TABLE",),
    needs=(Need.PRIMARY, Need.LOGIN),
)
MARK = {
    complete: define(
        f"twins.mark_{'complete' if complete else 'building'}",
        "COMMENT ON TABLE {table} IS 'tde-exporter twin v1 " + ("complete'" if complete else "building'"),
        "provision",
        ("COMMENT ANY TABLE",),
        needs=(Need.PRIMARY, Need.LOGIN),
    )
    for complete in (False, True)
}
GATHER = define(
    "twins.gather_statistics",
    "BEGIN DBMS_STATS.GATHER_TABLE_STATS(:1, :2); END;",
    "provision",
    ("ANALYZE ANY",),
    needs=(Need.PRIMARY, Need.LOGIN),
)
DROP = define(
    "twins.drop",
    "DROP TABLE {table} PURGE",
    "provision",
    ("DROP ANY TABLE",),
    needs=(Need.PRIMARY, Need.LOGIN),
)


@dataclass(frozen=True, slots=True)
class Twins:
    """The two tables of a pair, in a schema of the target."""

    schema: str
    pair: TwinPair

    @property
    def rows(self) -> int:
        """Rows of each twin, as configured."""
        return self.pair.row_count

    @property
    def lobs(self) -> int:
        """How many of the rows have a large object."""
        return min(LOB_ROWS, self.rows)

    @property
    def pieces(self) -> int:
        """Of how many pieces a large object is made."""
        return LOB_BYTES // PIECE_BYTES

    @property
    def by_column(self) -> bool:
        """Whether the encrypted twin has an encrypted column, in place of an encrypted tablespace."""
        return self.pair.encryption == "column"

    def name(self, slot: Slot) -> str:
        """Name of the table, without its schema."""
        return f"{self.pair.name.upper()}_{'ENCRYPTED' if slot is Slot.A else 'PLAIN'}"

    def table(self, slot: Slot) -> str:
        """Name of the table with its schema."""
        return f"{self.schema}.{self.name(slot)}"

    def wants_encryption(self, slot: Slot) -> bool:
        """Whether this twin is made encrypted. In phase `aa` both are plain, whatever the name of slot `a` says."""
        return slot is Slot.A and self.pair.phase is Phase.ENABLED

    def tablespace(self, slot: Slot) -> str:
        """Where the twin is made."""
        in_encrypted = self.wants_encryption(slot) and not self.by_column
        return self.pair.encrypted_tablespace if in_encrypted else self.pair.plain_tablespace

    def create(self, slot: Slot) -> Statement:
        """Makes a twin, empty; fails when there is a table of that name."""
        with_column = self.by_column and self.wants_encryption(slot)
        made = _WITH_COLUMN[self.pair.algorithm] if with_column else _PLAIN
        return made.on(table=self.table(slot), key=self.key(slot), tablespace=self.tablespace(slot))

    def key(self, slot: Slot) -> str:
        """Name of the primary key and of its index, which no table but a twin of ours has."""
        return f"TDE_EXP_{self.pair.name.upper()}_{'E' if slot is Slot.A else 'P'}"
