"""The closed table of statements: what the stand-in answers, and nothing else.

Texts are compared without regard to white space, comments (but not hints) and letter case. `{name}` in a text stands for
one identifier, with its owner where the client writes one, and `{literal}` for a string or a number; the function
finds both in `Call.names`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.oracle_standin.counters import Work
from tests.oracle_standin.datatypes import Column, Value
from tests.oracle_standin.errors import OraError
from tests.oracle_standin.expressions import Environment
from tests.oracle_standin.model import Database, Seat
from tests.oracle_standin.queries import Computed, parse
from tests.oracle_standin.storage import Tablespace
from tests.oracle_standin.tokens import NAME, canonical, position_of
from tests.oracle_standin.views import Views, columns


@dataclass
class Call:
    """One execution: who executes what, with which bind variables (`rows` has one list for each execution)."""

    database: Database
    seat: Seat
    sql: str
    rows: Sequence[Sequence[Any]] = ((),)
    names: dict[str, str] = field(default_factory=dict)

    @property
    def binds(self) -> Sequence[Any]:
        return self.rows[0] if self.rows else ()

    @property
    def environment(self) -> Environment:
        return Environment(self.database, self.seat, self.binds)


@dataclass
class Answer:
    """What a statement gives.

    Attributes:
        columns: Of a query; None for everything else.
        rows: Values, in the order of the columns.
        affected: Rows that a DML statement changed.
        work: What the counters are raised by; `work.elapsed` is waited before the first row.
        tablespace: Whose blocks `work` encrypts or decrypts.
        changes: Whether a transaction is open afterwards.
        commits: Whether it commits, as DDL does.
        outs: For a PL/SQL block: values of the bind variables that it sets, by their place.
    """

    columns: Sequence[Column] | None = None
    rows: Iterable[Sequence[Value]] = ()
    affected: int = 0
    work: Work = field(default_factory=Work)
    tablespace: Tablespace | None = None
    changes: bool = False
    commits: bool = False
    outs: dict[int, Value] = field(default_factory=dict)


class UnknownStatement(OraError):
    """The statement is not in the table."""

    def __init__(self, sql: str) -> None:
        super().__init__(900, f"(the stand-in does not know: {sql})")


Function = Callable[[Call], Answer | int | Iterable[Sequence[Value]] | None]
"""Answers a statement: by an `Answer`, by a number of affected rows, by the rows of a query, or by nothing."""

_LITERAL = r"(?:'(?:[^']|'')*'|\d+(?:\.\d+)?)"
_A_LITTLE = Work(logical_reads=3)


@dataclass(frozen=True)
class Statement:
    """An entry of the table."""

    name: str
    text: str
    function: Function
    columns: tuple[Column, ...] | None = None
    reads: tuple[str, ...] = ()

    def answer(self, call: Call, views: Views) -> Answer:
        """Check what it reads, then answer; raises `OraError`."""
        for name in self.reads:
            if view := views.get(name):
                view.check(call.database, call.seat, position_of(name, call.sql))
        found = self.function(call)
        if isinstance(found, Answer):
            return found
        if self.columns is not None:
            return Answer(self.columns, () if found is None or isinstance(found, int) else found, work=_A_LITTLE)
        return Answer(affected=found if isinstance(found, int) else 0)


class Statements:
    """The table, to which tests add what their code under test asks."""

    def __init__(self, views: Views) -> None:
        self.views = views
        self._exact: dict[str, Statement] = {}
        self._patterns: list[tuple[re.Pattern[str], Statement]] = []

    def select(self, sql: str, *, name: str = "", **computed: Computed) -> None:
        """Add a simple query of views, which needs no function; `queries.py` says what is simple.

        Raises ValueError for one that is not.
        """
        parsed = parse(sql, computed)

        def function(call: Call) -> Answer:
            found, rows = parsed.run(self.views, call.environment, call.sql)
            return Answer(found, rows, work=_A_LITTLE)

        self._add(Statement(name or canonical(sql), sql, function))

    def add(
        self, sql: str, *, name: str = "", spec: str | None = None, reads: Sequence[str] = ()
    ) -> Callable[[Function], Function]:
        """Add any statement, with its function:

        @statements.add("SELECT ...", spec="NAME V128, BYTES N", reads=["DBA_TABLESPACES"])
        def _tablespaces(call): return [("USERS", 1)]

        `spec` are the columns of a query, as in `views.columns`; `reads` are views that the session must be able to
        read.
        """

        def keep(function: Function) -> Function:
            found = None if spec is None else tuple(column for _, column, _ in columns(spec))
            self._add(Statement(name or canonical(sql), sql, function, found, tuple(reads)))
            return function

        return keep

    def _add(self, statement: Statement) -> None:
        text = canonical(statement.text)
        if "{" not in text:
            self._exact[text] = statement
            return
        named = rf"{NAME}(?: \. {NAME})?"
        pattern = re.escape(text)
        for hole in set(re.findall(r"\{(\w+)\}", text)):
            escaped = re.escape(f"{{{hole}}}")
            kind = _LITERAL if hole == "literal" else named
            pattern = pattern.replace(escaped, f"(?P<{hole}>{kind})", 1).replace(escaped, f"(?P={hole})")
        self._patterns = [(old, other) for old, other in self._patterns if old.pattern != pattern]
        self._patterns.append((re.compile(pattern), statement))

    def find(self, sql: str) -> tuple[Statement, dict[str, str]]:
        """The entry for a text, and the names in it; raises `UnknownStatement` when there is none."""
        text = canonical(sql)
        if found := self._exact.get(text):
            return found, {}
        for pattern, statement in reversed(self._patterns):
            if match := pattern.fullmatch(text):
                return statement, {name: value.replace(" . ", ".") for name, value in match.groupdict().items()}
        raise UnknownStatement(sql)
