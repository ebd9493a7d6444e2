"""Runs every statement of this engine against a database once: what the first look at a real one begins with."""

from __future__ import annotations

import time
from collections.abc import Callable

from exporter.domain.errors import DeadlineExceeded, PermissionMissing, QueryFailed, TargetError
from exporter.domain.model import Slot
from exporter.engines.base import Progress, StatementOutcome, Verdict
from exporter.engines.oracle import heartbeat
from exporter.engines.oracle.connection import ROWS_AT_ONCE, Connection
from exporter.engines.oracle.deadlines import Deadline
from exporter.engines.oracle.failures import codes
from exporter.engines.oracle.identity import Identity
from exporter.engines.oracle.settings import Target
from exporter.engines.oracle.statements import Need, Statement, every
from exporter.engines.oracle.twins import Twins

LONGEST_SECONDS = 60.0
"""For one statement; the scan of a large twin is the longest."""

HIDDEN = "session.serial_direct_read"
"""Sets a hidden parameter."""
_NO_COLUMN = ("ORA-00904", "ORA-02248")
"""A column, or a setting of a session, that this release does not have."""


class SelfTest:
    """One run. `open_session` makes a session of its own, for settings are tried as well; closed at the end."""

    def __init__(self, target: Target, identity: Identity, open_session: Callable[[float], Connection]) -> None:
        self._target, self._identity, self._open = target, identity, open_session
        self._connection: Connection | None = None

    def run(self, progress: Progress, deadline: Deadline) -> tuple[StatementOutcome, ...]:
        """The outcomes, in the order of the collectors. Raises what connecting raises, and nothing later."""
        statements = sorted(every().values(), key=lambda each: (each.collector, each.name))
        self._connection = self._open(deadline.left)
        found = []
        try:
            for number, statement in enumerate(statements):
                progress(f"trying {statement.name}", number / len(statements))
                found.append(self._outcome(statement, deadline))
        finally:
            if self._connection is not None:
                self._connection.close()
        return tuple(found)

    def _outcome(self, statement: Statement, deadline: Deadline) -> StatementOutcome:
        filled, why = self._filled(statement)
        if filled is None:
            return _untried(statement, why)
        if statement.since > self._identity.release:
            words = f"since release {statement.since}"
            return StatementOutcome(statement.name, statement.collector, filled.grants, Verdict.NOT_THERE, words=words)
        try:
            left = deadline.step(LONGEST_SECONDS)
        except DeadlineExceeded:
            return _untried(filled, "no time was left")
        return self._tried(filled, left)

    def _filled(self, statement: Statement) -> tuple[Statement | None, str]:
        """The statement on our own tables; or None, and why it is not tried."""
        here, needs = self._identity, statement.needs
        if Need.LOGIN in needs:
            return None, "only `provision` and `drop` send it"
        if statement.name == HIDDEN and not self._target.serial_direct_read:
            return None, "`serial_direct_read` is off"
        if statement is heartbeat.BEGIN:
            return None, "it would write the first heartbeat"
        if Need.OPEN in needs and not here.is_open:
            return None, "the database is only mounted"
        if Need.PRIMARY in needs and not here.is_primary:
            return None, "the database is no primary"
        if Need.CDB in needs and here.con_id != 1:
            return None, "this is not the root of a container database"
        if not statement.holes:
            return statement, ""
        if statement.name.startswith("heartbeat."):
            if not self._target.standbys:
                return None, "no standby is configured"
            return statement.on(table=heartbeat.table_of(self._target.schema_name)), ""
        if not self._target.pairs:
            return None, "no pair is configured"
        twins = Twins(self._target.schema_name, self._target.pairs[0])
        return statement.on(table=twins.table(Slot.A)), ""

    def _tried(self, statement: Statement, left: float) -> StatementOutcome:
        connection = self._connected(left)
        if connection is None:
            return _untried(statement, "the session was lost, and could not be opened again")
        begun = time.monotonic()
        try:
            timed = connection.timed(statement, statement.example, timeout=left, rows_at_once=ROWS_AT_ONCE)
            seconds = time.monotonic() - begun
            if statement.changes:
                connection.commit(timeout=left)
        except TargetError as error:
            verdict, code = _judged(error)
            words = "" if verdict is Verdict.MISSING_GRANT else str(error)
            return StatementOutcome(statement.name, statement.collector, statement.grants, verdict, code, words=words)
        rows = timed.affected if statement.changes else len(timed.rows)
        return StatementOutcome(
            statement.name, statement.collector, statement.grants, Verdict.OK, seconds=seconds, rows=rows
        )

    def _connected(self, left: float) -> Connection | None:
        """The session; a new one when a statement cost the last. Its errors name hosts, so they are not told."""
        if self._connection is not None and self._connection.alive:
            return self._connection
        try:
            self._connection = self._open(left)
        except TargetError:
            self._connection = None
        return self._connection


def _judged(error: TargetError) -> tuple[Verdict, str]:
    """What an error says about a statement, and its number."""
    numbers = codes(error)
    code = numbers[-1] if numbers else error.reason.value
    if isinstance(error, PermissionMissing):
        return Verdict.MISSING_GRANT, code
    if isinstance(error, QueryFailed) and code in _NO_COLUMN:
        return Verdict.NOT_THERE, code
    return Verdict.ERROR, code


def _untried(statement: Statement, why: str) -> StatementOutcome:
    return StatementOutcome(statement.name, statement.collector, statement.grants, Verdict.NOT_TRIED, words=why)
