"""The panels that our dashboards consist of, as Grafana's classic JSON; only what Grafana 10.4 and later share.

A panel has a text for "no data", and a description that ends with how to read it. Positions and ids come from the board.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from exporter.bundle.dashboards.palette import BLUE, LIMIT, SILENT, TRANSPARENT, Word, mapped, steps

Panel = dict[str, Any]

LAST = ("lastNotNull",)
"""What a legend says of each line: its last value."""

WIDTH = 24
"""Columns of a dashboard."""


DATASOURCE: dict[str, str] = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a panel. `legend` is a Grafana legend format; `now` asks for the newest value only."""

    expr: str
    legend: str = ""
    now: bool = False


@dataclass(frozen=True, slots=True)
class Style:
    """How a series or column looks. `of` is its name, or a regular expression between slashes.

    `properties` are Grafana's override ids without the prefix `custom.` where there is one, such as `lineWidth`.
    """

    of: str
    colour: str = ""
    properties: Mapping[str, Any] = field(default_factory=dict)


_STANDARD = frozenset(
    {"unit", "decimals", "min", "max", "mappings", "thresholds", "links", "color", "displayName", "noValue"}
)


def _override(style: Style) -> dict[str, Any]:
    properties: list[dict[str, Any]] = []
    if style.colour:
        properties.append({"id": "color", "value": {"mode": "fixed", "fixedColor": style.colour}})
    for name, value in style.properties.items():
        properties.append({"id": name if name in _STANDARD else f"custom.{name}", "value": value})
    matcher = "byRegexp" if style.of.startswith("/") else "byName"
    return {"matcher": {"id": matcher, "options": style.of}, "properties": properties}


def asking(queries: Sequence[Query], table: bool = False) -> list[dict[str, Any]]:
    """Queries as the targets of a panel, A, B, C…; a table asks for the newest values only."""
    shape = {"format": "table"} if table else {}
    return [
        {
            "refId": chr(ord("A") + index),
            "datasource": DATASOURCE,
            "expr": query.expr,
            "legendFormat": query.legend or "__auto",
            "editorMode": "code",
            "instant": query.now or table,
            "range": not (query.now or table),
            **shape,
        }
        for index, query in enumerate(queries)
    ]


def framed(
    kind: str, title: str, what: str, read: str, targets: list[dict[str, Any]], defaults: dict[str, Any]
) -> Panel:
    """A panel without its look. `what` it shows and how to `read` it become its description; defaults of None are left out."""
    return {
        "type": kind,
        "title": title,
        "description": f"{what}\n\n**How to read it:** {read}",
        "datasource": DATASOURCE,
        "targets": targets,
        "fieldConfig": {"defaults": {key: value for key, value in defaults.items() if value is not None}},
    }


def looking(panel: Panel, styles: Sequence[Style], options: dict[str, Any]) -> Panel:
    """The same panel with its look: styles of its series or columns, and the options of its kind."""
    panel["fieldConfig"]["overrides"] = [_override(style) for style in styles]
    panel["options"] = options
    return panel


def stat(
    title: str,
    what: str,
    read: str,
    queries: Sequence[Query],
    unit: str,
    *,
    none: str,
    decimals: int | None = None,
    words: Sequence[Word] = (),
    worded: str = "",
    thresholds: Mapping[str, Any] | None = None,
    text: str = "auto",
    styles: Sequence[Style] = (),
) -> Panel:
    """One or a few numbers. With `words` each number is shown as its word on its colour, else in a colour of `thresholds`.

    `worded` is the one query that has words, where the others have none: mappings cannot be taken away by a style.
    `none` is what stands there without data; `text` is Grafana's text mode: auto, value, value_and_name, name.
    """
    defaults: dict[str, Any] = {
        "unit": unit,
        "decimals": decimals,
        "noValue": none,
        "color": {"mode": "thresholds"},
        "thresholds": thresholds or steps(SILENT if words else BLUE),
        "mappings": mapped(words) if words and not worded else [],
    }
    if worded:
        styles = [Style(worded, properties={"mappings": mapped(words)}), *styles]
    panel = framed("stat", title, what, read, asking([Query(q.expr, q.legend, True) for q in queries]), defaults)
    return looking(
        panel,
        styles,
        {
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "orientation": "auto",
            "textMode": text,
            "wideLayout": True,
            "colorMode": "background_solid" if words else "value",
            "graphMode": "none",
            "justifyMode": "center" if words else "auto",
        },
    )


def timeseries(
    title: str,
    what: str,
    read: str,
    queries: Sequence[Query],
    unit: str,
    *,
    none: str,
    styles: Sequence[Style] = (),
    limit: float | None = None,
    low: float | None = None,
    high: float | None = None,
    decimals: int | None = None,
    legend: str = "bottom",
    calcs: Sequence[str] = (),
    marked: bool = False,
    stacked: bool = False,
    bars: bool = False,
    steps_of: bool = False,
    shown: tuple[float | None, float | None] = (None, None),
) -> Panel:
    """Lines over time. `limit` is drawn dashed.

    Series without a style of their own are blue, or, when `marked`, vermilion while their last value reaches the limit.
    `legend` `right` is a table beside the graph, for many series, which then are blue where their last value is high and
    yellow where it is low: told apart by all eyes. `low` and `high` bound the axis; `shown` is what it shows at least.
    `steps_of` draws values that jump, `bars` single events.
    """
    thresholds = steps(BLUE if marked else TRANSPARENT, *([(limit, LIMIT)] if limit is not None else []))
    colour = {"mode": "fixed", "fixedColor": BLUE}
    if legend == "right":
        colour = {"mode": "continuous-YlBl", "seriesBy": "last"}
    if marked:
        colour = {"mode": "thresholds", "seriesBy": "last"}
    defaults: dict[str, Any] = {
        "unit": unit,
        "decimals": decimals,
        "noValue": none,
        "min": low,
        "max": high,
        "color": colour,
        "thresholds": thresholds,
        "mappings": [],
        "custom": {
            **_drawing(stacked, bars, steps_of),
            "thresholdsStyle": {"mode": "off" if limit is None else "dashed"},
            **{name: at for name, at in zip(("axisSoftMin", "axisSoftMax"), shown, strict=True) if at is not None},
        },
    }
    panel = framed("timeseries", title, what, read, asking(queries), defaults)
    mode = "table" if legend == "right" else "list"
    return looking(
        panel,
        styles,
        {
            "legend": {"showLegend": True, "displayMode": mode, "placement": legend, "calcs": list(calcs)},
            "tooltip": {"mode": "multi", "sort": "desc" if legend == "right" else "none"},
        },
    )


def _drawing(stacked: bool, bars: bool, steps_of: bool) -> dict[str, Any]:
    return {
        "drawStyle": "bars" if bars else "line",
        "lineInterpolation": "stepAfter" if steps_of else "linear",
        "lineWidth": 0 if stacked else 1 if bars else 2,
        "fillOpacity": 75 if stacked or bars else 0,
        "showPoints": "never",
        "spanNulls": False,
        "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
    }


def band(line: str, low: str = "at least", high: str = "at most", colour: str = BLUE) -> list[Style]:
    """The styles of an interval: the area between the series `low` and `high`, which must come in this order, and `line`."""
    return [
        Style(low, colour, {"lineWidth": 0, "hideFrom": {"legend": True, "tooltip": False, "viz": False}}),
        Style(
            high,
            colour,
            {
                "lineWidth": 0,
                "fillBelowTo": low,
                "fillOpacity": 25,
                "hideFrom": {"legend": True, "tooltip": False, "viz": False},
            },
        ),
        Style(line, colour, {"lineWidth": 2}),
    ]


def timeline(title: str, what: str, read: str, queries: Sequence[Query], *, words: Sequence[Word], none: str) -> Panel:
    """States over time, one lane for each series, each state in its word and colour; a gap is a time without a state."""
    defaults: dict[str, Any] = {
        "unit": "none",
        "noValue": none,
        "color": {"mode": "thresholds"},
        "thresholds": steps(SILENT),
        "mappings": mapped(words),
        "custom": {
            "lineWidth": 0,
            "fillOpacity": 85,
        },
    }
    panel = framed("state-timeline", title, what, read, asking(queries), defaults)
    return looking(
        panel,
        (),
        {
            "mergeValues": True,
            "showValue": "auto",
            "alignValue": "left",
            "rowHeight": 0.8,
            "legend": {"showLegend": True, "displayMode": "list", "placement": "bottom", "calcs": []},
            "tooltip": {"mode": "single", "sort": "none"},
        },
    )
