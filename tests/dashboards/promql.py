"""What is known of a PromQL expression of a dashboard without a server: its selectors, and where they stand."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import promql_parser

_VALUES = {"event": "1700000000", "span": "1h", "compare": "1d", "window": "1h", "percentile": "99"}


def readable(expr: str) -> str:
    """The expression with variables outside of matchers replaced by what they may be."""
    expr = re.sub(r"\$__\w+", "5m", expr)
    return re.sub(r"\$(\w+)", lambda match: _VALUES.get(match[1], match[0]), expr)


@dataclass(frozen=True)
class Selector:
    """A selector, its matchers as (label, operator and value), and the functions and aggregations around it, outermost first."""

    name: str
    matchers: tuple[tuple[str, str], ...]
    within: tuple[str, ...]

    @property
    def family(self) -> str:
        return re.sub(r"_(bucket|count|sum)$", "", self.name)


_OPERATORS = {"MatchOp.Equal": "=", "MatchOp.NotEqual": "!=", "MatchOp.Re": "=~", "MatchOp.NotRe": "!~"}


def parsed(expr: str) -> Any:
    """The tree; raises ValueError for what is no PromQL."""
    return promql_parser.parse(readable(expr))


def selectors(expr: str) -> list[Selector]:
    """All selectors of an expression."""
    return list(_selectors(parsed(expr), ()))


def _selectors(node: Any, within: tuple[str, ...]) -> Iterator[Selector]:
    kind = type(node).__name__
    if kind == "VectorSelector":
        matchers = tuple((each.name, f"{_OPERATORS[str(each.op)]}{each.value}") for each in node.matchers.matchers)
        yield Selector(node.name, matchers, within)
    elif kind == "MatrixSelector":
        yield from _selectors(node.vector_selector, within)
    elif kind == "Call":
        for argument in node.args:
            yield from _selectors(argument, (*within, node.func.name))
    elif kind == "AggregateExpr":
        yield from _selectors(node.expr, (*within, str(node.op)))
    else:
        for part in ("lhs", "rhs", "expr"):
            if (child := getattr(node, part, None)) is not None:
                yield from _selectors(child, within)


def groupings(expr: str) -> list[tuple[str, set[str]]]:
    """Every label that an expression groups by, with the metrics of the whole expression."""
    metrics = {selector.family for selector in selectors(expr)}
    found = re.findall(r"\b(?:by|on|without|ignoring|group_left|group_right) \(([^)]*)\)", expr)
    return [(label.strip(), metrics) for labels in found for label in labels.split(",") if label.strip()]
