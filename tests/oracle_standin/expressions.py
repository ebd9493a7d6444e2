"""Expressions and conditions of simple queries."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.oracle_standin.datatypes import Column, Kind, Value
from tests.oracle_standin.model import Database, Row, Seat
from tests.oracle_standin.views import View

_KEYWORDS = {"WHERE", "GROUP", "ORDER", "JOIN", "LEFT", "INNER", "ON", "FETCH", "FROM", ",", "", "AND"}
_COMPARISONS = ("=", "<>", "!=", "<", "<=", ">", ">=")


@dataclass(frozen=True)
class Environment:
    """What an expression is evaluated in: the database, the session, bind variables, and one row of each source."""

    database: Database
    seat: Seat
    binds: Sequence[Value] = ()
    rows: Mapping[str, Row] = field(default_factory=dict)

    def joined(self, alias: str, row: Row) -> Environment:
        return replace(self, rows={**self.rows, alias: row})

    def get(self, name: str) -> Any:
        """The column of that name, of whichever source has it."""
        return next((row[name] for row in self.rows.values() if name in row), None)

    def context(self, name: str) -> str | None:
        """What SYS_CONTEXT('USERENV', name) gives."""
        seat, database = self.seat, self.database
        known: dict[str, object] = {
            "SID": seat.sid,
            "CON_ID": seat.con_id if database.cdb else 0,
            "CON_NAME": database.container(seat.con_id).name,
            "CDB_NAME": database.name if database.cdb else None,
            "DB_NAME": database.container(seat.con_id).name if seat.con_id > 1 else database.name,
            "DB_UNIQUE_NAME": database.unique_name,
            "DATABASE_ROLE": database.role,
            "INSTANCE": database.instance_number,
            "INSTANCE_NAME": database.instance,
            "SERVER_HOST": database.host.split(".")[0],
            "SERVICE_NAME": seat.service,
            "SESSION_USER": seat.user,
            "CURRENT_USER": seat.user,
            "CURRENT_SCHEMA": "SYS" if seat.privilege else seat.user,
            "ISDBA": "TRUE" if seat.privilege == "SYSDBA" else "FALSE",
            "MODULE": seat.module or None,
            "ACTION": seat.action or None,
            "CLIENT_IDENTIFIER": seat.client_identifier or None,
        }
        value = known.get(name.upper())
        return None if value is None else str(value)


@dataclass(frozen=True)
class Expression:
    """A column, a literal, a bind variable, a pseudo column, or a function of another expression."""

    kind: str
    name: str = ""
    source: str = ""
    constant: Value = None
    inner: Expression | None = None

    def value(self, row: Environment) -> Value:
        if self.kind == "column":
            return row.rows[self.source].get(self.name) if self.source else row.get(self.name)
        if self.kind == "constant":
            return self.constant
        if self.kind == "bind":
            assert isinstance(self.constant, int)
            return row.binds[self.constant]
        if self.kind == "context":
            return row.context(self.name)
        if self.kind == "now":
            now = row.database.now()
            return now if self.name == "SYSTIMESTAMP" else now.replace(tzinfo=None, microsecond=0)
        assert self.inner
        value = self.inner.value(row)
        return None if value is None else (str(value).upper() if self.name == "UPPER" else str(value).lower())


def expression_column(expression: Expression, sources: Mapping[str, View], release: int) -> Column:
    """What the expression is as a column; raises KeyError for a column that no source has."""
    if expression.kind == "column":
        views = [sources[expression.source]] if expression.source in sources else list(sources.values())
        if expression.source and expression.source not in sources:
            raise KeyError(expression.source)
        for view in views:
            if found := view.columns_of(release).get(expression.name):
                return found
        raise KeyError(expression.name)
    if expression.kind == "now":
        return Column("", Kind.TIMESTAMP_TZ if expression.name == "SYSTIMESTAMP" else Kind.DATE)
    if expression.kind == "constant" and isinstance(expression.constant, int | float):
        return Column("", Kind.NUMBER)
    if expression.inner:
        return expression_column(expression.inner, sources, release)
    return Column("", Kind.VARCHAR2, 256)


@dataclass(frozen=True)
class Condition:
    """A comparison; `operator` may also be IN, LIKE or IS NULL, `negated` turns it round."""

    left: Expression
    operator: str
    right: tuple[Expression, ...] = ()
    negated: bool = False

    def expressions(self) -> Iterator[Expression]:
        yield from (self.left, *self.right)

    def equality(self, alias: str) -> tuple[str, Expression] | None:
        """For `alias.column = other`: the column and the other side; both orders."""
        if self.operator != "=" or self.negated:
            return None
        for own, other in ((self.left, self.right[0]), (self.right[0], self.left)):
            if own.kind == "column" and own.source == alias and other.source != alias:
                return own.name, other
        return None

    def holds(self, row: Environment) -> bool:
        """Whether it is true: it is not when a side is NULL, except for IS NULL."""
        left = self.left.value(row)
        if self.operator == "IS NULL":
            return (left is None) is not self.negated
        values = [each.value(row) for each in self.right]
        if left is None or (None in values and (self.operator != "IN" or self.negated)):
            return False
        return self._compare(left, values) is not self.negated

    def _compare(self, left: Value, values: list[Value]) -> bool:
        if self.operator == "IN":
            return any(_order(left, value) == 0 for value in values if value is not None)
        if self.operator == "LIKE":
            pattern = re.escape(str(values[0])).replace("%", ".*").replace("_", ".")
            return re.fullmatch(pattern, str(left), re.DOTALL) is not None
        order = _order(left, values[0])
        return {
            "=": order == 0,
            "<>": order != 0,
            "!=": order != 0,
            "<": order < 0,
            "<=": order <= 0,
            ">": order > 0,
            ">=": order >= 0,
        }[self.operator]


def _order(left: Value, right: Value) -> int:
    """Below 0, 0 or above 0; a text and a number are compared as numbers where the text is one."""
    if isinstance(left, str) is not isinstance(right, str):
        left, right = _number(left), _number(right)
    first, second = null_first(left), null_first(right)
    return (first > second) - (first < second)


def _number(value: Value) -> Value:
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def null_first(value: Value) -> tuple[int, float, str]:
    """A key that sorts any values of one column."""
    if value is None:
        return (0, 0.0, "")
    if isinstance(value, datetime.datetime):
        return (1, value.timestamp(), "")
    if isinstance(value, datetime.timedelta):
        return (1, value.total_seconds(), "")
    if isinstance(value, bytes | str):
        return (1, 0.0, value.hex() if isinstance(value, bytes) else value)
    return (1, float(value), "")


class Parser:
    """Goes through tokens."""

    def __init__(self, words: Iterable[str]) -> None:
        self._words = list(words)
        self._at = 0
        self._binds = 0

    @property
    def done(self) -> bool:
        return self._at >= len(self._words)

    def rest(self) -> str:
        return " ".join(self._words[self._at :])

    def peek(self) -> str:
        return self._words[self._at] if not self.done else ""

    def next(self) -> str:
        if self.done:
            raise ValueError("the statement ends too early")
        self._at += 1
        return self._words[self._at - 1]

    def accept(self, word: str) -> bool:
        if self.peek() == word:
            self._at += 1
            return True
        return False

    def expect(self, word: str) -> None:
        if not self.accept(word):
            raise ValueError(f"{word} is expected before {self.rest()!r}")

    def at_keyword(self) -> bool:
        return self.peek() in _KEYWORDS

    def until_comma_or(self, word: str) -> list[str]:
        """The tokens of one item of a list; commas in parentheses belong to it."""
        depth, found = 0, []
        while depth or self.peek() not in (",", word, ""):
            token = self.next()
            depth += (token == "(") - (token == ")")
            found.append(token)
        return found

    def whole_expression(self) -> Expression:
        expression = self.expression()
        if not self.done:
            raise ValueError(f"the stand-in cannot evaluate {' '.join(self._words)!r}: give it an alias and a function")
        return expression

    def expressions(self) -> list[Expression]:
        found = [self.expression()]
        while self.accept(","):
            found.append(self.expression())
        return found

    def conditions(self) -> list[Condition]:
        found = [self._condition()]
        while self.accept("AND"):
            found.append(self._condition())
        return found

    def expression(self) -> Expression:
        word = self.next()
        if word in ("UPPER", "LOWER"):
            self.expect("(")
            inner = self.expression()
            self.expect(")")
            return Expression("function", word, inner=inner)
        if word == "SYS_CONTEXT":
            arguments = [self.next() for _ in range(5)]  # ( 'USERENV' , 'NAME' )
            return Expression("context", arguments[3].strip("'"))
        if word in ("SYSDATE", "SYSTIMESTAMP"):
            return Expression("now", word)
        if word.startswith("'"):
            return Expression("constant", constant=word[1:-1].replace("''", "'") or None)
        if word.startswith(":"):
            self._binds += 1
            return Expression("bind", constant=self._binds - 1)
        if word == "-" or word[0].isdigit():
            number = self.next() if word == "-" else word
            value = float(number) if "." in number else int(number)
            return Expression("constant", constant=-value if word == "-" else value)
        if not re.match(r'[A-Z_"]', word) or self.peek() == "(":
            raise ValueError(f"the stand-in cannot evaluate {word} {self.rest()!r}")
        if self.accept("."):
            return Expression("column", self.next().strip('"'), word)
        return Expression("column", word.strip('"'))

    def _condition(self) -> Condition:
        left = self.expression()
        negated = self.accept("NOT")
        word = self.next()
        if word == "IS":
            negated = self.accept("NOT")
            self.expect("NULL")
            return Condition(left, "IS NULL", negated=negated)
        if word == "IN":
            self.expect("(")
            values = self.expressions()
            self.expect(")")
            return Condition(left, "IN", tuple(values), negated)
        if word == "LIKE":
            return Condition(left, "LIKE", (self.expression(),), negated)
        if word not in _COMPARISONS or negated:
            raise ValueError(f"the stand-in cannot evaluate the condition at {word!r}")
        return Condition(left, word, (self.expression(),))
