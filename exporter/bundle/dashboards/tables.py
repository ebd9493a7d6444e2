"""Tables of dashboards: columns that fit on a narrow screen and share what a wide one has left over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from exporter.bundle.dashboards.palette import TRANSPARENT, Word, mapped, steps
from exporter.bundle.dashboards.panels import WIDTH, Panel, Query, Style, asking, framed, looking

NARROW, MARGIN = 52, 24
"""Pixels of one of them on a screen of 1280, and those around the content of a panel."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: what it is called, and how it looks. `source` is a label, or `Value #A` for the first query.

    `width` is the least, in pixels; what is left over is dealt out to all. `plain`: words without a colour behind them.
    """

    source: str
    name: str
    width: int
    unit: str = "string"
    decimals: int | None = None
    words: Sequence[Word] = ()
    plain: bool = False
    thresholds: Mapping[str, Any] | None = None
    link: tuple[str, str] | None = None


def table(
    title: str,
    what: str,
    read: str,
    queries: Sequence[str],
    columns: Sequence[Column],
    *,
    across: int = WIDTH,
    order: tuple[str, bool] | None = None,
    hidden: Sequence[str] = (),
    none: str,
) -> Panel:
    """One row for each combination of labels, joined from instant `queries` by the labels that all of them have.

    Columns without a `Column` are in `hidden`; `across` is the width of the panel. `order`: column, descending. `none` stands
    there without any row; in cells without a value there is a dash.
    """
    defaults: dict[str, Any] = {
        "unit": "none",
        "noValue": none,
        "color": {"mode": "thresholds"},
        "thresholds": steps(TRANSPARENT),
        "mappings": [],
        "custom": {"align": "auto", "cellOptions": {"type": "auto"}, "inspect": False, "filterable": False},
    }
    panel = framed("table", title, what, read, asking([Query(expr) for expr in queries], table=True), defaults)
    panel["transformations"] = [
        {"id": "merge", "options": {}},
        {
            "id": "organize",
            "options": {
                "excludeByName": dict.fromkeys(("Time", *hidden), True),
                "indexByName": {column.source: index for index, column in enumerate(columns)},
                "renameByName": {column.source: column.name for column in columns},
            },
        },
    ]
    if order is not None:
        # Not the option of the table, which some versions forget when data comes late.
        sort = {"id": "sortBy", "options": {"fields": {}, "sort": [{"field": order[0], "desc": order[1]}]}}
        panel["transformations"].append(sort)
    fixed = _wide(columns, across)
    styles = [_column(column, column.name in fixed) for column in columns]
    return looking(panel, styles, {"showHeader": True, "cellHeight": "sm", "sortBy": []})


def _wide(columns: Sequence[Column], across: int) -> set[str]:
    """Names of those that need more than an equal share of a narrow screen: they get what they need, the others share."""
    fixed: dict[str, int] = {}
    while True:
        rest = [column for column in columns if column.name not in fixed]
        share = (NARROW * across - MARGIN - sum(fixed.values())) / max(1, len(rest))
        wider = {column.name: column.width for column in rest if column.width > share}
        if not wider:
            return {*fixed}
        fixed.update(wider)


def _column(column: Column, fixed: bool) -> Style:
    properties: dict[str, Any] = {"unit": column.unit, "width" if fixed else "minWidth": column.width}
    if column.decimals is not None:
        properties["decimals"] = column.decimals
    if column.words:
        properties["mappings"] = mapped(column.words)
        properties["align"] = "center"
    if column.thresholds is not None:
        properties["thresholds"] = dict(column.thresholds)
    if (column.words and not column.plain) or column.thresholds is not None:
        properties["cellOptions"] = {"type": "color-background", "mode": "basic"}
    if column.link is not None:
        properties["links"] = [{"title": column.link[0], "url": column.link[1], "targetBlank": False}]
    return Style(column.name, properties={**properties, "noValue": "–"})
