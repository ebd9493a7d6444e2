"""Simple queries of views, parsed when they join the table of statements and evaluated when they are asked.

Known are: columns, literals, bind variables, SYSDATE, SYSTIMESTAMP, SYS_CONTEXT('USERENV', ...), UPPER and LOWER;
COUNT, SUM, MIN and MAX with GROUP BY; joins by commas or JOIN ... ON; conditions joined by AND; ORDER BY columns.
Anything else in the list of what is selected needs an alias and a Python function of that name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from tests.oracle_standin.datatypes import Column, Kind, Value
from tests.oracle_standin.errors import OraError
from tests.oracle_standin.expressions import Condition, Environment, Expression, Parser, expression_column, null_first
from tests.oracle_standin.model import Row
from tests.oracle_standin.tokens import position_of, tokens
from tests.oracle_standin.views import View, Views

Computed = tuple[Column, Callable[[Environment], Value]]
"""A column that SQL computes and the stand-in computes in Python."""

_AGGREGATES = ("COUNT", "SUM", "MIN", "MAX")


def computed(kind: Kind, function: Callable[[Environment], Value], size: int = 0) -> Computed:
    """A column for `Statements.select`, which has its name from the keyword."""
    return Column("", kind, size), function


@dataclass
class Item:
    """One selected thing: an expression, an aggregate of one, or something computed in Python."""

    alias: str
    expression: Expression | None = None
    aggregate: str = ""
    computed: Computed | None = None

    def column(self, sources: Mapping[str, View], release: int) -> Column:
        if self.computed:
            return Column(self.alias, self.computed[0].kind, self.computed[0].size)
        if self.aggregate in ("COUNT", "SUM") or self.expression is None:
            return Column(self.alias, Kind.NUMBER)
        found = expression_column(self.expression, sources, release)
        return Column(self.alias, found.kind, found.size)


@dataclass
class Select:
    """A parsed query."""

    items: list[Item] = field(default_factory=list)
    sources: dict[str, str] = field(default_factory=dict)
    """Names of views, by alias."""
    outer: set[str] = field(default_factory=set)
    """Aliases whose rows may be missing."""
    joins: dict[str, list[Condition]] = field(default_factory=dict)
    where: list[Condition] = field(default_factory=list)
    groups: list[Expression] = field(default_factory=list)
    order: list[tuple[Expression, bool]] = field(default_factory=list)
    limit: int | None = None

    def run(self, views: Views, base: Environment, sql: str) -> tuple[list[Column], list[list[Value]]]:
        """Columns and rows; raises what a real database raises for a view or column that is not there."""
        release = base.database.profile.release
        found = {}
        for alias, name in self.sources.items():
            view = views.get(name)
            if view is None:
                raise OraError(942, position=position_of(name, sql))
            view.check(base.database, base.seat, position_of(name, sql))
            found[alias] = view
        try:
            columns = [item.column(found, release) for item in self.items]
            for expression in self._expressions():
                expression_column(expression, found, release)
        except KeyError as missing:
            name = str(missing.args[0])
            raise OraError(904, f'"{name}"', position_of(name, sql)) from None
        rows = [row for row in self._joined(found, base) if all(each.holds(row) for each in self.where)]
        return columns, self._result(rows)[: self.limit]

    def _expressions(self) -> Iterable[Expression]:
        for condition in (*self.where, *(each for conditions in self.joins.values() for each in conditions)):
            yield from condition.expressions()
        yield from self.groups

    def _joined(self, views: Mapping[str, View], base: Environment) -> list[Environment]:
        found = [base]
        for alias, view in views.items():
            rows = view.visible(base.database, base.seat)
            conditions = self.joins.get(alias, [])
            equal = [each.equality(alias) for each in conditions]
            keys = [pair for pair in equal if pair]
            index: dict[tuple[str, ...], list[Row]] = {}
            for row in rows:
                index.setdefault(tuple(str(row.get(own)) for own, _ in keys), []).append(row)
            joined = []
            for left in found:
                wanted = tuple(str(other.value(left)) for _, other in keys)
                fits = [left.joined(alias, row) for row in index.get(wanted, [])]
                fits = [each for each in fits if all(condition.holds(each) for condition in conditions)]
                if not fits and alias in self.outer:
                    fits = [left.joined(alias, {})]
                joined += fits
            found = joined
        return found

    def _result(self, rows: list[Environment]) -> list[list[Value]]:
        if not self.groups and not any(item.aggregate for item in self.items):
            for expression, descending in reversed(self.order):
                rows.sort(key=lambda row: null_first(expression.value(row)), reverse=descending)
            return [[_plain(item, row) for item in self.items] for row in rows]
        groups: dict[tuple[Value, ...], list[Environment]] = {}
        for row in rows:
            groups.setdefault(tuple(each.value(row) for each in self.groups), []).append(row)
        if not self.groups:
            groups.setdefault((), [])
        members = list(groups.values())
        for expression, descending in reversed(self.order):
            members.sort(key=lambda group: null_first(expression.value(group[0])), reverse=descending)
        return [[_grouped(item, group) for item in self.items] for group in members]


def _plain(item: Item, row: Environment) -> Value:
    if item.computed:
        return item.computed[1](row)
    assert item.expression
    return item.expression.value(row)


def _grouped(item: Item, group: list[Environment]) -> Value:
    if not item.aggregate:
        return _plain(item, group[0])
    if item.expression is None:
        return len(group)
    values = [value for value in (item.expression.value(row) for row in group) if value is not None]
    if item.aggregate == "COUNT":
        return len(values)
    if not values:
        return None
    functions: dict[str, Callable[..., Value]] = {"SUM": sum, "MIN": min, "MAX": max}
    return functions[item.aggregate](values)


def parse(sql: str, given: Mapping[str, Computed]) -> Select:
    """Parse a query; raises ValueError for what only a function of its own could answer."""
    parser = Parser([token for token in tokens(sql) if not token.startswith("/*+")])
    parser.expect("SELECT")
    select = Select()
    while True:
        select.items.append(_item(parser, given))
        if not parser.accept(","):
            break
    parser.expect("FROM")
    _source(parser, select)
    while True:
        if parser.accept(","):
            _source(parser, select)
        elif not _join(parser, select):
            break
    if parser.accept("WHERE"):
        select.where = parser.conditions()
    if parser.accept("GROUP"):
        parser.expect("BY")
        select.groups = parser.expressions()
    _tail(parser, select)
    return select


def _tail(parser: Parser, select: Select) -> None:
    if parser.accept("ORDER"):
        parser.expect("BY")
        while True:
            expression = parser.expression()
            descending = parser.accept("DESC")
            parser.accept("ASC")
            select.order.append((expression, descending))
            if not parser.accept(","):
                break
    if parser.accept("FETCH"):
        parser.expect("FIRST")
        select.limit = int(parser.next())
        for word in ("ROWS", "ONLY"):
            parser.expect(word)
    if not parser.done:
        raise ValueError(f"the stand-in cannot evaluate {parser.rest()!r}: add the statement with a function")


def _item(parser: Parser, given: Mapping[str, Computed]) -> Item:
    text = parser.until_comma_or("FROM")
    alias = text[-1] if len(text) > 1 and text[-2] not in (".", "||", "+", "-", "*", "/") and text[-1] != ")" else ""
    name = alias.strip('"').upper() if alias else ""
    if name and name in {each.upper() for each in given}:
        return Item(name, computed={each.upper(): value for each, value in given.items()}[name])
    body = text[: -2 if len(text) > 2 and text[-2] == "AS" else -1] if alias else text
    inner = Parser(body)
    if len(body) > 3 and body[0] in _AGGREGATES and body[1] == "(" and body[-1] == ")":
        expression = None if body[2] == "*" else Parser(body[2:-1]).whole_expression()
        return Item(name or "".join(body), expression, body[0])
    expression = inner.whole_expression()
    return Item(name or body[-1].strip('"'), expression)


def _source(parser: Parser, select: Select) -> str:
    name = parser.next()
    if parser.accept("."):
        name = parser.next()
    parser.accept("AS")
    alias = name if parser.at_keyword() else parser.next()
    select.sources[alias] = name
    return alias


def _join(parser: Parser, select: Select) -> bool:
    left = parser.accept("LEFT")
    parser.accept("OUTER")
    parser.accept("INNER")
    if not parser.accept("JOIN"):
        return False
    alias = _source(parser, select)
    if left:
        select.outer.add(alias)
    parser.expect("ON")
    select.joins[alias] = parser.conditions()
    return True
