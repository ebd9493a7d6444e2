"""Makes and removes the twins in a monitored database, in small steps that a kill may end anywhere.

Only the commands do that, never the daemon, and with an account that may. Tablespaces, the schema and keys are never made
here: the first encrypted object of a database is use of an option that has to be licensed (Advanced Security), which is
a decision of whoever runs it. A twin that is not complete says so in its comment, and is filled on from its last row.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from exporter.domain.errors import (
    Blocked,
    LockTimeout,
    PermissionMissing,
    TargetError,
    Unavailable,
    VerificationFailed,
)
from exporter.domain.model import Slot
from exporter.engines.base import Progress, Provisioned
from exporter.engines.oracle.connection import Connection
from exporter.engines.oracle.deadlines import Deadline
from exporter.engines.oracle.identity import identify
from exporter.engines.oracle.statements import Need, Statement, define, is_plain
from exporter.engines.oracle.tables import FoundTable, Tablespaces, find_table, tablespaces
from exporter.engines.oracle.twins import CHUNK_ROWS, DROP, FILL_LOB, GATHER, INSERT, LOCK, MARK, Twins
from exporter.engines.oracle.verification import ENDS, LOB_BYTES

_STEP_SECONDS = 0.5
"""What one INSERT shall take; the number of its rows follows from it."""
_FIRST_ROWS, _LEAST_ROWS = 2_000, 100
_STATEMENT_SECONDS, _DDL_SECONDS = 60.0, 120.0

USERS = define(
    "provision.schema",
    "SELECT username FROM all_users WHERE username = :1",
    "provision",
    needs=(Need.OPEN,),
    example=("SYS",),
)
ANY_COLUMN = define(
    "provision.encrypted_columns",
    "SELECT COUNT(*) AS n FROM all_encrypted_columns",
    "provision",
    needs=(Need.OPEN,),
)
CHECKSUM = define(
    "provision.checksum",
    "SELECT /*+ FULL(t) NO_PARALLEL(t) */ COUNT(*) AS n, SUM(ORA_HASH(id || '|' || payload)) AS digest FROM {table} t",
    "provision",
    ("READ ON {table}",),
    needs=(Need.OPEN, Need.TWINS),
)
GRANT_READ = define(
    "provision.grant_read",
    "GRANT READ ON {table} TO {reader}",
    "provision",
    ("GRANT ANY OBJECT PRIVILEGE",),
    needs=(Need.PRIMARY, Need.LOGIN),
)


def provision(
    connection: Connection, twins: Twins, reader: str | None, progress: Progress, deadline: Deadline
) -> Provisioned:
    """Make the twins where they are missing, complete what a killed run left, and let `reader` read them.

    Twins that are complete are not changed. Raises Blocked for a table that is not ours, for a tablespace that is not
    what it shall be, and when another exporter fills a twin just now; PermissionMissing with the grant; Unavailable where
    the database is open for reading only; VerificationFailed when what was made is not what it shall be.
    """
    run = _Provisioning(connection, twins, reader, progress, deadline, [])
    progress(f"looking for the twins of {twins.pair.name}", 0.0)
    try:
        made = run.make()
    except PermissionMissing as error:
        raise PermissionMissing(
            f"{error}; make twins with a DBA's account (--user), or have `provision --print` run by one"
        ) from error
    except LockTimeout as error:
        raise Blocked(f"another exporter works on the twins of {twins.pair.name}: {error}") from error
    progress(f"the twins of {twins.pair.name} are complete", 1.0)
    return Provisioned(tuple(made), tuple(dict.fromkeys(run.used)) if made else ())


def drop(connection: Connection, twins: Twins, deadline: Deadline) -> tuple[str, ...]:
    """Drop both twins, half-built ones too; the names of what was dropped. Both are looked at before either is dropped.

    Raises Blocked for a table that is not ours.
    """
    found = {slot: find_table(connection, twins.schema, twins.name(slot), deadline) for slot in Slot}
    for slot, table in found.items():
        if table is not None and not _is_ours(connection, twins, slot, table, deadline):
            raise Blocked(f"the table {twins.table(slot)} is none that this exporter made; it is left as it is")
    there = [slot for slot, table in found.items() if table is not None]
    for slot in there:
        connection.execute(DROP.on(table=twins.table(slot)), timeout=deadline.step(_DDL_SECONDS))
    return tuple(twins.table(slot) for slot in there)


def _is_ours(connection: Connection, twins: Twins, slot: Slot, found: FoundTable, deadline: Deadline) -> bool:
    """By its comment; or, where a run was killed before it could write one, by the name of its key, and being empty."""
    if found.marked or twins.key(slot) not in found.indexes:
        return found.marked
    row = connection.row(ENDS.on(table=twins.table(slot)), timeout=deadline.step(_STATEMENT_SECONDS))
    return row is not None and row[1] is None


@dataclass(frozen=True, slots=True)
class _Provisioning:
    connection: Connection
    twins: Twins
    reader: str | None
    progress: Progress
    deadline: Deadline
    used: list[str]
    """The privileges that were used."""

    def make(self) -> list[str]:
        """Everything that is missing; the names of what was made or completed."""
        found = {slot: self._find(slot) for slot in Slot}
        building = [slot for slot, table in found.items() if table is None or not table.complete]
        if not building:
            return []
        self._check_database()
        for slot in building:
            self._begin(slot, found[slot])
        self._load(building)
        self._check_rows()
        for slot in building:
            self._finish(slot)
        return [self.twins.table(slot) for slot in building]

    # -- looking --------------------------------------------------------------------------------

    def _find(self, slot: Slot) -> FoundTable | None:
        table = self.twins.table(slot)
        found = find_table(self.connection, self.twins.schema, self.twins.name(slot), self.deadline)
        if found is not None and not _is_ours(self.connection, self.twins, slot, found, self.deadline):
            raise Blocked(f"there is a table {table} that this exporter did not make; it is left as it is")
        if found is not None and found.complete and self._last(slot) != self.twins.rows:
            raise Blocked(
                f"the table {table} has {self._last(slot)} rows, but {self.twins.rows} are configured; drop the pair, then"
                " provision it anew"
            )
        return found

    def _last(self, slot: Slot) -> int:
        row = self._row(ENDS.on(table=self.twins.table(slot)))
        return int(row[1] or 0) if row is not None else 0

    def _check_database(self) -> None:
        identity = identify(self.connection, self.deadline)
        if not identity.is_primary or identity.open_mode not in ("read_write", ""):
            raise Unavailable(
                f"the database is {identity.role or 'of an unknown role'}, {identity.open_mode}; twins are made on a"
                " primary that is open for writing"
            )
        if self._row(USERS, (self.twins.schema,)) is None:
            raise Blocked(f"there is no schema {self.twins.schema}; `provision --print` shows how a DBA makes it")
        spaces = tablespaces(self.connection, self.deadline)
        if spaces.problem and not spaces.encrypted:
            raise PermissionMissing(spaces.problem)
        for slot in Slot:
            name = self.twins.tablespace(slot)
            wanted = self.twins.wants_encryption(slot) and not self.twins.by_column
            self._check_tablespace(name, spaces.encrypted_or_not(name), wanted)
        if self.twins.by_column and self.twins.wants_encryption(Slot.A):
            self._check_that_encryption_is_used(spaces)

    def _check_tablespace(self, name: str, encrypted: bool | None, wanted: bool) -> None:
        if encrypted is None:
            raise Blocked(f"there is no tablespace {name}; `provision --print` shows how a DBA makes it")
        if encrypted is not wanted:
            state, other = ("plain", "encrypted") if wanted else ("encrypted", "plain")
            raise Blocked(f"the tablespace {name} is {state}, and must be {other} for this pair")

    def _check_that_encryption_is_used(self, spaces: Tablespaces) -> None:
        row = self._row(ANY_COLUMN)
        if not any(spaces.encrypted.values()) and not (row and row[0]):
            raise Blocked(
                "nothing in this database is encrypted so far: the first encrypted column is use of Advanced Security, an"
                " option that has to be licensed; who may decide that, runs what `provision --print` prints"
            )

    # -- making ---------------------------------------------------------------------------------

    def _begin(self, slot: Slot, found: FoundTable | None) -> None:
        """A twin that says of itself that it is half-built."""
        if found is not None and found.marked:
            return
        if found is None:
            self._execute(self.twins.create(slot), _DDL_SECONDS)
        self._execute(MARK[False].on(table=self.twins.table(slot)), _DDL_SECONDS)
        if self.reader is not None and is_plain(self.reader.upper()):
            granted = GRANT_READ.on(table=self.twins.table(slot), reader=self.reader.upper())
            self._execute(granted, _DDL_SECONDS)

    def _load(self, building: list[Slot]) -> None:
        """Rows, in both twins by turns: so both lie on the disk as if they had been written together."""
        last = {slot: self._last(slot) for slot in building}
        total, rows = self.twins.rows, _FIRST_ROWS
        while any(done < total for done in last.values()):
            slot = min(last, key=lambda each: last[each])
            begun = time.monotonic()
            last[slot] = self._insert(slot, min(rows, CHUNK_ROWS, total - last[slot]))
            seconds = max(0.001, time.monotonic() - begun)
            rows = max(_LEAST_ROWS, min(CHUNK_ROWS, round(rows * min(2.0, _STEP_SECONDS / seconds))))
            self.progress(f"rows of {self.twins.pair.name}", 0.9 * sum(last.values()) / (total * len(last)))
        for number in range(1, self.twins.lobs + 1):
            for slot in building:
                values = (number, self.twins.pieces, number)
                self._execute(FILL_LOB.on(table=self.twins.table(slot)), _STATEMENT_SECONDS, values)
            self.connection.commit(timeout=self.deadline.step(_STATEMENT_SECONDS))
            self.progress(f"large objects of {self.twins.pair.name}", 0.9 + 0.08 * number / self.twins.lobs)

    def _insert(self, slot: Slot, rows: int) -> int:
        """One step, under a lock: whoever else fills this twin does so before or after, and both see its last row."""
        table = self.twins.table(slot)
        self._execute(LOCK.on(table=table), _STATEMENT_SECONDS)
        first = self._last(slot) + 1
        rows = min(rows, self.twins.rows - first + 1)
        if rows > 0:
            self._execute(INSERT.on(table=table), _STATEMENT_SECONDS, (first, rows))
        self.connection.commit(timeout=self.deadline.step(_STATEMENT_SECONDS))
        return first + rows - 1

    def _check_rows(self) -> None:
        sums = [self._row(CHECKSUM.on(table=self.twins.table(slot))) for slot in Slot]
        lobs = [self._row(LOB_BYTES.on(table=self.twins.table(slot)), (self.twins.lobs,)) for slot in Slot]
        if sums[0] != sums[1] or lobs[0] != lobs[1] or not sums[0] or sums[0][0] != self.twins.rows:
            raise VerificationFailed(
                f"the twins of {self.twins.pair.name} do not hold the same rows after loading; drop the pair, then provision"
                " it anew"
            )

    def _finish(self, slot: Slot) -> None:
        self._execute(GATHER, _DDL_SECONDS, (self.twins.schema, self.twins.name(slot)))
        self._execute(MARK[True].on(table=self.twins.table(slot)), _DDL_SECONDS)

    def _row(self, statement: Statement, values: tuple[object, ...] = ()) -> tuple[Any, ...] | None:
        return self.connection.row(statement, values, timeout=self.deadline.step(_DDL_SECONDS))

    def _execute(self, statement: Statement, most: float, values: tuple[object, ...] = ()) -> None:
        try:
            self.connection.execute(statement, values, timeout=self.deadline.step(most))
        except TargetError as error:
            raise self._explained(error) from error
        self.used.extend(statement.grants)

    def _explained(self, error: TargetError) -> TargetError:
        if "ORA-00955" in str(error):
            return Blocked(f"another exporter makes the twins of {self.twins.pair.name} just now")
        return error
