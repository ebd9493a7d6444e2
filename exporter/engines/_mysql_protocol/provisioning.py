"""Makes the twins in a monitored server, in small steps that a kill may end anywhere.

A twin that is not complete says so in its comment, and is filled on from its last row by the next run. Tables without our
comment are not touched. Rows are made by the server itself, in transactions of a fraction of a second, in both twins by
turns: so both lie on the disk as if they had been written together, and no replica falls behind by more than one such step.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from exporter.domain.errors import (
    Blocked,
    KeystoreFailed,
    PermissionMissing,
    TargetError,
    Unavailable,
    VerificationFailed,
)
from exporter.domain.model import Slot
from exporter.engines._mysql_protocol.connection import Connection
from exporter.engines._mysql_protocol.inventory import TableEncryption
from exporter.engines._mysql_protocol.lock import schema_lock
from exporter.engines._mysql_protocol.tables import FoundTable, find_table, unreadable
from exporter.engines._mysql_protocol.time_left import TimeLeft
from exporter.engines._mysql_protocol.twins import (
    CHUNK_ROWS,
    HEARTBEAT,
    Twins,
    checksum,
    create_heartbeat,
    insert,
    quoted,
)
from exporter.engines.base import Progress, Provisioned

TableEncryptionReader = Callable[[Connection, str, tuple[str, ...], float], Mapping[str, TableEncryption]]
"""(connection, schema, names of tables, timeout in seconds): what the server's views say of each."""

_STEP_SECONDS = 0.15
"""What one INSERT shall take; the number of its rows follows from it."""
_FIRST_ROWS, _LEAST_ROWS = 1_000, 100
_STATEMENT_SECONDS = 60.0
_DDL_SECONDS = 120.0
_LOADED_SHARE = 0.9  # of the time goes into rows, the rest into reading them again


def provision(
    connection: Connection, twins: Twins, table_encryption: TableEncryptionReader, progress: Progress, timeout: float
) -> Provisioned:
    """Make the schema, the twins and the heartbeat table where they are missing; complete what a killed run left.

    `progress` is told after each step of a fraction of a second. Twins that are complete are not changed.

    Raises:
        Blocked: a table of that name is not ours, has other rows than configured, or another exporter holds the lock.
        KeystoreFailed: the server has no key to encrypt with.
        PermissionMissing: a grant is missing; the message names it.
        Unavailable: the server is read-only, or its disk is full.
        VerificationFailed: what was made is not what it shall be; the twins stay marked as half-built.
        DeadlineExceeded: not done in `timeout` seconds; the next run goes on from there.
    """
    left = TimeLeft(timeout, f"making the twins of {twins.pair.name}")
    run = _Provisioning(connection, twins, table_encryption, progress, left)
    progress(f"looking for the twins of {twins.pair.name}", 0.0)
    made = []
    try:
        if not run.all_there():
            with schema_lock(connection, twins.schema, left):
                made = run.make()
        else:
            run.check_encryption()
    except PermissionMissing as error:
        (needed,) = _grants(twins)
        raise PermissionMissing(f"{error}. Making twins takes {needed}; or `provision --print`, for a DBA") from error
    progress(f"the twins of {twins.pair.name} are complete", 1.0)
    return Provisioned(tuple(made), _grants(twins) if made else ())


def _grants(twins: Twins) -> tuple[str, ...]:
    return (f"CREATE, ALTER, SELECT, INSERT ON {quoted(twins.schema)}.*",)


@dataclass(frozen=True, slots=True)
class _Provisioning:
    connection: Connection
    twins: Twins
    table_encryption: TableEncryptionReader
    progress: Progress
    left: TimeLeft

    def all_there(self) -> bool:
        """Whether there is nothing to do. Raises Blocked for what must not be touched."""
        found = {slot: self._find(slot) for slot in Slot}
        complete = [table is not None and self._is_complete(slot, table) for slot, table in found.items()]
        return all(complete) and self._heartbeat_is_there()

    def make(self) -> list[str]:
        """Everything that is missing; the names of what was made or completed."""
        self._refuse_read_only()
        made = self._make_schema()
        building: list[Slot] = []
        for slot in Slot:
            # Once more, for until the lock was ours another may have been at work.
            found = self._find(slot)
            if found is not None and self._is_complete(slot, found):
                continue
            self._begin(slot, found)
            building.append(slot)
            made.append(self.twins.table(slot))
        if not self._heartbeat_is_there():
            self._create(create_heartbeat(self.twins.schema, self.twins.ddl))
            made.append(quoted(self.twins.schema, HEARTBEAT))
        # Before hours are spent on rows.
        self.check_encryption()
        if building:
            self._load(building)
            self._check_rows()
            self.check_encryption()
            for slot in building:
                self._finish(slot)
        return made

    # -- looking --------------------------------------------------------------------------------

    def _find(self, slot: Slot) -> FoundTable | None:
        table = self.twins.table(slot)
        found = find_table(self.connection, self.twins.schema, self.twins.name(slot), self.left)
        if found is None:
            return None
        if not found.readable:
            raise KeystoreFailed(unreadable(table))
        if found.marker is None:
            raise Blocked(f"there is a table {table} that this exporter did not make; it is left as it is")
        return found

    def _is_complete(self, slot: Slot, found: FoundTable) -> bool:
        marker = found.marker
        assert marker is not None
        if not marker.complete:
            return False
        if marker.rows != self.twins.rows:
            raise Blocked(
                f"the table {self.twins.table(slot)} has {marker.rows} rows, but {self.twins.rows} are configured; "
                "drop the pair, then provision it anew"
            )
        return True

    def _heartbeat_is_there(self) -> bool:
        found = find_table(self.connection, self.twins.schema, HEARTBEAT, self.left)
        if found is not None and not found.is_heartbeat:
            table = quoted(self.twins.schema, HEARTBEAT)
            raise Blocked(f"there is a table {table} that this exporter did not make; it is left as it is")
        return found is not None

    def _refuse_read_only(self) -> None:
        """Also for accounts that may write all the same: on a replica that would be an errant transaction."""
        row = self.connection.row("SHOW GLOBAL VARIABLES LIKE 'read\\_only'", timeout=self.left(10.0))
        if row is not None and str(row[1]).upper() not in ("OFF", "0"):
            raise Unavailable("the server is read-only (read_only), as replicas are; make the twins on its primary")

    # -- making ---------------------------------------------------------------------------------

    def _make_schema(self) -> list[str]:
        sql = "SELECT 1 FROM information_schema.schemata WHERE schema_name = %s"
        if self.connection.row(sql, (self.twins.schema,), timeout=self.left(10.0)) is not None:
            return []
        self._create(f"CREATE DATABASE IF NOT EXISTS {quoted(self.twins.schema)}")
        return [quoted(self.twins.schema)]

    def _create(self, statement: str) -> None:
        try:
            self.connection.execute(statement, timeout=self.left(_DDL_SECONDS))
        except TargetError as error:
            raise self._explained(error) from error

    def _explained(self, error: TargetError) -> TargetError:
        warnings = ""
        with contextlib.suppress(TargetError):
            if self.connection.alive:
                rows = self.connection.rows("SHOW WARNINGS", timeout=self.left(10.0))
                warnings = " ".join(f"{row[2]} (error {row[1]})" for row in rows)
        return self.twins.explained(error, warnings)

    def _begin(self, slot: Slot, found: FoundTable | None) -> None:
        """An empty twin, or one that an earlier run left half-built, marked with the rows that it shall have."""
        if found is None:
            self._create(self.twins.create(slot))
            return
        if self._last(slot) > self.twins.rows:
            raise Blocked(
                f"the table {self.twins.table(slot)} is half-built and has more rows already than are configured; "
                "drop the pair, then provision it anew"
            )
        assert found.marker is not None
        if found.marker.rows != self.twins.rows:
            self._create(self.twins.mark(slot, complete=False))

    def _last(self, slot: Slot) -> int:
        sql = f"SELECT COALESCE(MAX(id), 0) FROM {self.twins.table(slot)}"
        row = self.connection.row(sql, timeout=self.left(_STATEMENT_SECONDS))
        return int(row[0]) if row else 0

    def _load(self, building: list[Slot]) -> None:
        last = {slot: self._last(slot) for slot in building}
        total, step = self.twins.rows * len(building), _FIRST_ROWS
        while True:
            done = sum(last.values())
            self.progress(f"filling the twins of {self.twins.pair.name}", _LOADED_SHARE * done / total)
            slot = min(building, key=lambda candidate: last[candidate])
            if last[slot] >= self.twins.rows:
                return
            first, end = last[slot] + 1, min(last[slot] + step, self.twins.rows)
            begun = time.monotonic()
            try:
                self.connection.execute(
                    insert(self.twins.table(slot)), (first, end), timeout=self.left(_STATEMENT_SECONDS)
                )
            except TargetError as error:
                raise self._explained(error) from error
            last[slot] = end
            step = _next_step(step, time.monotonic() - begun)

    def _finish(self, slot: Slot) -> None:
        table = self.twins.table(slot)
        # Both twins get statistics, and with them the same plans. The answer is a row, also when it failed.
        self.connection.rows(f"ANALYZE TABLE {table}", timeout=self.left(_STATEMENT_SECONDS))
        self._create(self.twins.mark(slot, complete=True))

    # -- checking -------------------------------------------------------------------------------

    def _check_rows(self) -> None:
        """Reads every row of both twins, in stretches, and compares."""
        first, step = 1, _FIRST_ROWS
        while first <= self.twins.rows:
            share = _LOADED_SHARE + (1 - _LOADED_SHARE) * first / self.twins.rows
            self.progress(f"checking the twins of {self.twins.pair.name}", share)
            end, begun = min(first + step - 1, self.twins.rows), time.monotonic()
            sums = [
                self.connection.row(
                    checksum(self.twins.table(slot)), (first, end), timeout=self.left(_STATEMENT_SECONDS)
                )
                for slot in Slot
            ]
            if sums[0] != sums[1] or sums[0] is None or sums[0][0] != end - first + 1:
                raise VerificationFailed(
                    f"the twins of {self.twins.pair.name} differ or have gaps between the rows {first} and {end}; "
                    "drop the pair, then provision it anew"
                )
            first, step = end + 1, _next_step(step, (time.monotonic() - begun) / 2)
        over = max(self._last(slot) for slot in Slot)
        if over > self.twins.rows:
            raise VerificationFailed(
                f"a twin of {self.twins.pair.name} has rows beyond {self.twins.rows}; drop the pair, then provision it anew"
            )

    def check_encryption(self) -> None:
        """Raises VerificationFailed when a twin is not what its phase wants, and says what would make it so."""
        names = tuple(self.twins.name(slot) for slot in Slot)
        states = self.table_encryption(self.connection, self.twins.schema, names, self.left(_STATEMENT_SECONDS))
        for slot in Slot:
            state, table = states.get(self.twins.name(slot)), self.twins.table(slot)
            wanted = self.twins.wants_encryption(slot)
            if state is None or state.encrypted is None:
                why = state.problem if state is not None and state.problem else "the server does not say"
                raise VerificationFailed(f"whether the table {table} is encrypted is unknown: {why}")
            if state.encrypted != wanted:
                fix = self.twins.conversion(slot)
                raise VerificationFailed(
                    f"the table {table} is {'encrypted' if state.encrypted else 'plain'}, and the phase "
                    f"'{self.twins.pair.phase}' of its pair wants it {'encrypted' if wanted else 'plain'}; drop the pair, "
                    f"then provision it anew. A DBA can do it in place by {fix}, but that table may then be laid out otherwise "
                    "than its twin: compare the rows per block that `tde-exporter verify` shows"
                )


def _next_step(step: int, took: float) -> int:
    """Rows for the next statement, after `step` of them took so many seconds; it doubles at most."""
    wanted = step * _STEP_SECONDS / max(took, 0.001)
    return int(max(_LEAST_ROWS, min(CHUNK_ROWS, 2 * step, wanted)))
