"""Asking narrowly: what may not be read makes one thing unknown, adds one sentence, and leaves the rest."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

from exporter.domain.errors import (
    DeadlineExceeded,
    KeystoreFailed,
    PermissionMissing,
    QueryFailed,
    TargetError,
    Unavailable,
    Unsupported,
)
from exporter.engines.oracle.deadlines import Deadline
from exporter.engines.oracle.identity import DATABASE, WHERE
from exporter.engines.oracle.statements import Statement

ROOT, SEED = 1, 2
"""CON_ID of the root of a container database, and of the seed that new containers are copied from."""

Rows = list[tuple[Any, ...]]
_NARROW = (KeystoreFailed, PermissionMissing, QueryFailed, Unavailable, Unsupported)
"""Errors that concern one statement. All others mean that the database cannot be asked at all."""


class Source(Protocol):
    """What is asked: a `Connection`."""

    @property
    def alive(self) -> bool: ...

    @property
    def release(self) -> int: ...

    def rows(self, statement: Statement, values: tuple[Any, ...] = (), *, timeout: float) -> Rows: ...


class Questions:
    """Asks one thing after another within one deadline (seconds), and gathers in `problems` what got no answer."""

    def __init__(self, source: Source, timeout: float, what: str) -> None:
        self.source = source
        self._deadline = Deadline(timeout, what)
        self._problems: dict[str, None] = {}

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(self._problems)

    @property
    def left(self) -> float:
        """Seconds. Raises DeadlineExceeded when there are none."""
        return self._deadline.left

    def note(self, problem: str) -> None:
        """Add a sentence, once."""
        self._problems.setdefault(problem)

    def ask(
        self, statement: Statement, values: tuple[Any, ...] = (), *, what: str = "", most: float = math.inf
    ) -> Rows | None:
        """The rows; None when the database refuses the statement, or does not answer it in `most` seconds, with a
        sentence that says that `what` is unknown. Without `what` there is none.

        Raises what means that the database cannot be asked at all (ConnectFailed, DeadlineExceeded …).
        """
        try:
            return self.source.rows(statement, values, timeout=self._deadline.step(most))
        except TargetError as error:
            in_time = isinstance(error, DeadlineExceeded) and self._deadline.left > 0.1
            if not self.source.alive or not (in_time or isinstance(error, _NARROW)):
                raise
            if what:
                words = "the database did not answer in time" if in_time else error
                self.note(f"unknown: {what}; {words}")
        return None

    def first(self, statement: Statement, *, what: str = "") -> tuple[Any, ...] | None:
        """The first row; None as in `ask`, and where there is none."""
        return next(iter(self.ask(statement, what=what) or ()), None)


@dataclass(frozen=True, slots=True)
class Vantage:
    """What can be seen from where a session is. `con_id` is 0 in a database without containers; `container` is the name
    of the session's own. `role` and `open_mode` are as in V$DATABASE, empty where unknown."""

    con_id: int
    container: str
    role: str
    open_mode: str

    @property
    def is_root(self) -> bool:
        """Whether the rows of all containers can be seen."""
        return self.con_id == ROOT

    @property
    def is_open(self) -> bool:
        """Whether the dictionary can be read. Unknown counts as open: trying tells."""
        return self.open_mode != "MOUNTED"


def vantage(asked: Questions) -> Vantage:
    """Look where a session is, anew each time: a switchover changes role and open mode."""
    where = asked.first(WHERE, what="which container this is")
    known = asked.first(DATABASE, what="the role and the open mode of the database")
    role, open_mode = (str(known[0]), str(known[1])) if known else ("", "")
    con_id, container = (int(where[2] or 0), str(where[3] or "")) if where else (0, "")
    if known and known[2] != "YES":
        con_id = 0
    return Vantage(con_id, container, role, open_mode)
