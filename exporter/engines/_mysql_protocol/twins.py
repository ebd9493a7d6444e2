"""What the twins are: names, columns, rows and how they are loaded. Only text here, nothing is executed.

Every row is a function of its number, computed by the server in both twins alike. Numbers run from 1 without gaps. MD5 and
SHA1 are not used: MySQL 9 has them no longer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from exporter.domain.errors import TargetError, Unavailable
from exporter.domain.model import Phase, Slot
from exporter.engines._mysql_protocol.marker import HEARTBEAT_COMMENT, TwinMarker
from exporter.engines._mysql_protocol.settings import TwinPair

CANARY_VERSION = "1"
"""Changes when the rows or a canary's statement change, so that old and new samples are never mixed."""

KNOWN_TEXT = "KnownSubscriberName"
"""Stands in every row: whoever reads raw bytes of a plain file finds it, and never in an encrypted one."""
AREAS = 10_000
"""`area` is 0 to 9999, scattered over the table; a tenth of its values is 9.8 to 10.1 % of the rows."""
LEAST_ROW_BYTES = 249
"""What a row takes at least, in the clustered index (the 15/16 filling of pages makes it 269)."""
CHUNK_ROWS = 10_000
"""The most rows of one INSERT; 3 MB."""
HEARTBEAT = "heartbeat"

_NO_ROOM = ("(error 1021)", "(error 1114)")  # a disk that is full: both servers say that the table is
_DIGITS = f"({' UNION ALL '.join(['SELECT 0 AS d', *(f'SELECT {digit}' for digit in range(1, 10))])})"
_NAME = f"CONCAT('{KNOWN_TEXT}', LPAD(n, 10, '0'))"
# The index by area stays while rows come in: built afterwards, it would be one long statement, which a replica
# applies for as long.
_COLUMNS = """(
  id INT UNSIGNED NOT NULL,
  area INT UNSIGNED NOT NULL,
  name VARCHAR(40) NOT NULL,
  pad VARCHAR(200) NOT NULL,
  PRIMARY KEY (id),
  KEY area (area)
)"""
_HEARTBEAT_COLUMNS = """(
  id TINYINT UNSIGNED NOT NULL,
  seq BIGINT UNSIGNED NOT NULL,
  beat DATETIME(6) NOT NULL,
  PRIMARY KEY (id)
)"""
# What the server's defaults might make otherwise in one twin, or in one server of a fleet.
_COMMON = "ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET ascii COLLATE ascii_bin"


class Ddl(Protocol):
    """What differs between the servers when tables are made; one in each engine's `ddl.py`."""

    page_format: str
    """How `ondisk` reads the pages: `mariadb` or `mysql`."""
    space_sql: str
    """(number of the tablespace, size of its file in bytes) of the table whose `schema/table` is the parameter. Needs
    PROCESS."""

    def encrypted(self, pair: TwinPair) -> str:
        """Table options that make a table encrypted, whatever the server's defaults."""

    def plain(self) -> str:
        """Table options that make a table plain, whatever the server's defaults."""

    def explained(self, error: TargetError, warnings: str, pair: TwinPair) -> TargetError:
        """Why a table could not be made, in words that say what to configure; `warnings` is what the server added.

        The error itself where there is nothing better to say.
        """

    def grants(self, schema: str) -> tuple[str, ...]:
        """What the monitoring account needs, as one writes it between GRANT and TO; never more than it uses."""

    def advice(self) -> tuple[str, ...]:
        """Lines of comment for a DBA: settings that make more counters available, and what each costs."""


def quoted(*parts: str) -> str:
    """An identifier, part by part; the parts are checked when the configuration is read."""
    return ".".join(f"`{part}`" for part in parts)


@dataclass(frozen=True, slots=True)
class Twins:
    """The two tables of a pair, in a schema of the target."""

    schema: str
    pair: TwinPair
    ddl: Ddl

    @property
    def rows(self) -> int:
        """Rows of each twin, as configured."""
        return self.pair.row_count

    def name(self, slot: Slot) -> str:
        """Name of the table, without its schema."""
        return f"{self.pair.name}_{'encrypted' if slot is Slot.A else 'plain'}"

    def table(self, slot: Slot) -> str:
        """Name of the table for a statement."""
        return quoted(self.schema, self.name(slot))

    def wants_encryption(self, slot: Slot) -> bool:
        """Whether this twin is made encrypted. In phase `aa` both are plain, whatever the name of slot `a` says."""
        return slot is Slot.A and self.pair.phase is Phase.ENABLED

    def conversion(self, slot: Slot) -> str:
        """The statement by which a DBA makes a twin what its phase wants."""
        options = self.ddl.encrypted(self.pair) if self.wants_encryption(slot) else self.ddl.plain()
        return f"ALTER TABLE {self.table(slot)} {options}"

    def create(self, slot: Slot) -> str:
        """Makes a twin, empty and marked as half-built; fails when there is a table of that name."""
        options = self.ddl.encrypted(self.pair) if self.wants_encryption(slot) else self.ddl.plain()
        return (
            f"CREATE TABLE {self.table(slot)} {_COLUMNS} {_COMMON} {options} COMMENT='{TwinMarker(self.rows, False)}'"
        )

    def explained(self, error: TargetError, warnings: str) -> TargetError:
        """Why a twin could not be made or filled, in words that say what to do; `warnings` is what the server added."""
        if any(number in f"{error} {warnings}" for number in _NO_ROOM):
            return Unavailable(
                "the server has no room left for the twins; make room and provision again, which goes on from here, "
                "or drop the pair"
            )
        return self.ddl.explained(error, warnings, self.pair)

    def mark(self, slot: Slot, complete: bool) -> str:
        """Writes how far the twin is built. Both servers change a comment without touching rows."""
        return f"ALTER TABLE {self.table(slot)} COMMENT='{TwinMarker(self.rows, complete)}'"


def create_heartbeat(schema: str, ddl: Ddl) -> str:
    """Makes the heartbeat table of a schema. It is plain, so that a lost key is not taken for lag."""
    table, options = quoted(schema, HEARTBEAT), ddl.plain()
    return f"CREATE TABLE {table} {_HEARTBEAT_COLUMNS} {_COMMON} {options} COMMENT='{HEARTBEAT_COMMENT}'"


def insert(table: str, first: str = "%s", last: str = "%s") -> str:
    """Loads the rows from `first` to `last`, at most CHUNK_ROWS; both may be parameters or variables.

    Four cross-joined digits give the numbers: no recursion limit, no sequence engine, no client traffic. In order, so that
    pages are filled one after the other.
    """
    joined = " CROSS JOIN ".join(f"{_DIGITS} {name}" for name in "wxyz")
    numbers = f"SELECT {first} + w.d + 10 * x.d + 100 * y.d + 1000 * z.d AS n FROM {joined}"
    return (
        f"INSERT INTO {table} (id, area, name, pad) "
        f"SELECT n, MOD(CRC32(n), {AREAS}), {_NAME}, CONCAT(SHA2(n, 512), SHA2(n, 256)) "
        f"FROM ({numbers}) numbers WHERE n <= {last} ORDER BY n"
    )


def checksum(table: str, ranges: int = 1) -> str:
    """(number of rows, sum of their checksums) over ranges of ids, two parameters for each: first, last.

    The same for the same rows on both servers and in any order.
    """
    where = " OR ".join(["id BETWEEN %s AND %s"] * ranges)
    return (
        "SELECT COUNT(*), COALESCE(SUM(CRC32(CONCAT_WS('|', id, area, name, pad))), 0) "
        f"FROM {table} FORCE INDEX (PRIMARY) WHERE {where}"
    )
