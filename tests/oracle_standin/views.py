"""What a view is: its columns by release, who may read it, and when."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tests.oracle_standin.datatypes import Column, Kind
from tests.oracle_standin.errors import OraError
from tests.oracle_standin.model import ROOT, Database, Row, Seat

Rows = Callable[[Database, Seat], Iterable[Row]]

_KINDS = {
    "N": Kind.NUMBER,
    "V": Kind.VARCHAR2,
    "R": Kind.RAW,
    "D": Kind.DATE,
    "TS": Kind.TIMESTAMP,
    "TZ": Kind.TIMESTAMP_TZ,
    "DS": Kind.INTERVAL_DS,
    "BLOB": Kind.BLOB,
    "CLOB": Kind.CLOB,
}
_COLUMN = re.compile(r"(\S+) ([A-Z]+)(\d*)(?: @(\d+))?")
_OF_SYSKM = ("ENCRYPTION_WALLET", "ENCRYPTION_KEYS", "ENCRYPTED_TABLESPACES", "DATABASE_KEY_INFO", "CLIENT_SECRETS")


@dataclass(frozen=True)
class View:
    """A view of the dictionary or a fixed view.

    Attributes:
        name: In upper case.
        columns: Name, column, and the release since which it exists.
        rows: Gives all rows; the containers that a session may not see are taken out afterwards.
        since: The first release that has the view.
        public: Whether it needs no grant.
        container_rows: Whether rows carry a CON_ID that decides who sees them.
    """

    name: str
    columns: tuple[tuple[str, Column, int], ...]
    rows: Rows
    since: int = 12
    public: bool = False
    container_rows: bool = True

    @property
    def fixed(self) -> bool:
        """Whether it can be read when the database is mounted."""
        return self.name.startswith(("V$", "GV$")) or self.name == "DUAL"

    @property
    def grant(self) -> str:
        """What is granted to make it readable: V_$DATABASE for V$DATABASE."""
        return self.name.replace("V$", "V_$", 1) if self.name.startswith(("V$", "GV$")) else self.name

    def columns_of(self, release: int) -> dict[str, Column]:
        return {name: column for name, column, since in self.columns if since <= release}

    def check(self, database: Database, seat: Seat, position: int = 0) -> None:
        """Raise what a database answers when this session may not or can not read it now."""
        if code := database.refusals.get(self.name):
            raise OraError(code, position=position)
        if database.mounted and not self.fixed:
            raise OraError(1219)
        if database.profile.release < self.since or not self._granted(seat):
            raise OraError(942, f'"{seat.user}"."{self.name}"' if database.profile.release >= 23 else "", position)

    def _granted(self, seat: Seat) -> bool:
        if self.public or seat.privilege in ("SYSDBA", "SYSDG", "SYSBACKUP"):
            return True
        if seat.privilege == "SYSKM":
            return self.name.split("$")[-1] in _OF_SYSKM
        grants = seat.account.grants
        return grants is None or bool({self.grant, self.name, "SELECT ANY DICTIONARY"} & grants)

    def visible(self, database: Database, seat: Seat) -> list[Row]:
        """The rows that this session sees."""
        rows = database.overrides.get(self.name)
        found = list(self.rows(database, seat) if rows is None else rows)
        if not self.container_rows or not database.cdb:
            return found
        if seat.con_id != ROOT:
            seen = {0, seat.con_id}
        elif seat.account.container_data_all or seat.privilege:
            return found
        else:
            seen = {0, ROOT}
        return [row for row in found if row.get("CON_ID", 0) in seen]


def columns(spec: str) -> tuple[tuple[str, Column, int], ...]:
    """Columns from a text such as "CON_ID N, STATUS V30, KEYSTORE_MODE V8 @19": name, type, size, first release."""
    found = []
    for part in spec.split(","):
        match = _COLUMN.fullmatch(" ".join(part.split()))
        assert match, part
        name, kind, size, since = match.groups()
        found.append((name, Column(name, _KINDS[kind], int(size or 0)), int(since or 0)))
    return tuple(found)


class Views:
    """Views by name, each defined by a function that gives its rows:

    @views.define("V$PDBS", "CON_ID N, NAME V128")
    def _pdbs(database, seat): ...
    """

    def __init__(self) -> None:
        self._views: dict[str, View] = {}

    def define(
        self, name: str, spec: str, *, since: int = 12, public: bool = False, container_rows: bool = True
    ) -> Callable[[Rows], Rows]:
        def keep(rows: Rows) -> Rows:
            self._views[name] = View(name, columns(spec), rows, since, public, container_rows)
            return rows

        return keep

    def alias(self, name: str, of: str, extra: str = "") -> None:
        """Another view with the same rows, and columns that come before."""
        base = self._views[of]
        self._views[name] = View(
            name, columns(extra) * bool(extra) + base.columns, base.rows, base.since, base.public, base.container_rows
        )

    def get(self, name: str) -> View | None:
        return self._views.get(name)

    def names(self) -> list[str]:
        return sorted(self._views)

    def include(self, other: Views) -> None:
        self._views.update(other._views)
