"""Which database it is: version, role and open mode (which change under a session), container, edition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from exporter.domain.errors import PermissionMissing, QueryFailed, Unavailable
from exporter.engines.oracle.connection import Connection
from exporter.engines.oracle.deadlines import Deadline
from exporter.engines.oracle.statements import Statement, define, view

WHERE = define(
    "identity.where",
    """SELECT SYS_CONTEXT('USERENV', 'SID') AS sid, SYS_CONTEXT('USERENV', 'INSTANCE') AS instance,
    SYS_CONTEXT('USERENV', 'CON_ID') AS con_id, SYS_CONTEXT('USERENV', 'CON_NAME') AS con_name,
    SYS_CONTEXT('USERENV', 'DATABASE_ROLE') AS role FROM dual""",
    "identity",
)
"""Needs no grant, and works in a database that is only mounted."""
DATABASE = define(
    "identity.database",
    "SELECT database_role, open_mode, cdb FROM v$database",
    "identity",
    view("V$DATABASE"),
)
BANNER = define("identity.banner", "SELECT banner FROM v$version", "identity", view("V$VERSION"))
BLOCK_SIZE = define(
    "identity.block_size",
    "SELECT value FROM v$parameter WHERE name = 'db_block_size'",
    "identity",
    view("V$PARAMETER"),
)
DEFAULT_BLOCK_BYTES = 8192

_EDITIONS = {"enterprise": "enterprise", "standard": "standard", "express": "express", "free": "free"}
NOT_THERE = (PermissionMissing, QueryFailed, Unavailable)
"""Errors of a statement that this account, release or state of the database does not allow; others are the session's."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a session is: its number, and its instance of a cluster."""

    sid: int
    instance: int


@dataclass(frozen=True, slots=True)
class Identity:
    """Fields as in `TargetFacts`. `role` and `open_mode` are in the words of V$DATABASE, in lower case with `_` for
    spaces; empty where unknown. `cdb` is None where unknown; `needed` names the grant for what is unknown."""

    version: str
    release: int
    role: str
    open_mode: str
    edition: str
    container: str
    con_id: int
    cdb: bool | None
    block_bytes: int
    needed: tuple[str, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether tables and the dictionary can be read. Unknown counts as open: trying tells."""
        return self.open_mode != "mounted"

    @property
    def is_primary(self) -> bool:
        return self.role in ("primary", "")


def place(connection: Connection, deadline: Deadline) -> Place:
    """Which session a connection is."""
    row = connection.row(WHERE, timeout=deadline.step())
    assert row is not None
    return Place(int(row[0]), int(row[1]))


def identify(connection: Connection, deadline: Deadline) -> Identity:
    """Look at a database. What may not be read is empty, and its grant is in `needed`."""
    needed: list[str] = []

    def tried(statement: Statement) -> tuple[Any, ...] | None:
        try:
            return connection.row(statement, timeout=deadline.step())
        except PermissionMissing:
            needed.extend(statement.grants)
        except NOT_THERE:
            pass
        return None

    where = connection.row(WHERE, timeout=deadline.step())
    assert where is not None
    known = tried(DATABASE)
    role, open_mode, cdb = known if known is not None else (where[4], "", None)
    banner, block = tried(BANNER), tried(BLOCK_SIZE)
    return Identity(
        version=connection.server_version,
        release=connection.release,
        role=_word(role),
        open_mode=_word(open_mode),
        edition=_edition(str(banner[0])) if banner else "",
        container=str(where[3] or ""),
        con_id=int(where[2] or 0),
        cdb=None if cdb is None else cdb == "YES",
        block_bytes=int(block[0]) if block else DEFAULT_BLOCK_BYTES,
        needed=tuple(needed),
    )


def _edition(banner: str) -> str:
    return next((word for part, word in _EDITIONS.items() if part in banner.lower()), "")


def _word(text: object) -> str:
    return str(text or "").strip().lower().replace(" ", "_")
