"""A dashboard: variables, annotations, links, and panels that are laid out from left to right and top to bottom."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from exporter.bundle.dashboards.panels import DATASOURCE, WIDTH, Panel

TAG = "tde"
SCHEMA = 39
"""Grafana moves lower numbers up when it loads them; above its own it would skip what it has to mend."""

DATASOURCE_VARIABLE: dict[str, Any] = {
    "type": "datasource",
    "name": "datasource",
    "label": "Data source",
    "query": "prometheus",
    "regex": "",
    "hide": 0,
    "multi": False,
    "includeAll": False,
    "refresh": 1,
    "skipUrlSync": False,
}


def asked(
    name: str, label: str, query: str, *, several: bool = False, regex: str = "", ordered: bool = True
) -> dict[str, Any]:
    """A variable whose values Prometheus gives. `several`: more than one can be chosen, and all of them.

    `regex` picks the value from what `query_result` yields; `ordered`: by the alphabet, else as Prometheus returns them.
    """
    every = {"allValue": ".+", "current": {"text": ["All"], "value": ["$__all"]}} if several else {}
    return {
        "type": "query",
        "name": name,
        "label": label,
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": "PrometheusVariableQueryEditor-VariableQuery"},
        "definition": query,
        "regex": regex,
        "refresh": 2,
        "sort": 1 if ordered else 0,
        "multi": several,
        "includeAll": several,
        "hide": 0,
        "skipUrlSync": False,
        **every,
    }


def chosen(name: str, label: str, values: Sequence[str]) -> dict[str, Any]:
    """A variable with a fixed set of values, of which the first is the default."""
    options = [{"text": value, "value": value, "selected": value == values[0]} for value in values]
    return {
        "type": "custom",
        "name": name,
        "label": label,
        "query": ",".join(values),
        "options": options,
        "current": {"text": values[0], "value": values[0]},
        "multi": False,
        "includeAll": False,
        "hide": 0,
        "skipUrlSync": False,
    }


def marks(name: str, expr: str, colour: str, *, shown: bool = True) -> dict[str, Any]:
    """Annotations at the times that the series of `expr` have as their values, in milliseconds."""
    return {
        "name": name,
        "datasource": DATASOURCE,
        "enable": shown,
        "hide": False,
        "iconColor": colour,
        "expr": expr,
        "step": "60s",
        "useValueForTime": "on",
        "titleFormat": "{{kind}}",
        "textFormat": "{{target}}",
        "tagKeys": "kind,event",
    }


@dataclass(frozen=True, slots=True)
class Place:
    """A panel in a row. `number` is its id, which links to it use: it never changes. Of 24 columns it takes `width`."""

    number: int
    width: int
    height: int
    panel: Panel


@dataclass(frozen=True, slots=True)
class Row:
    """A heading, itself with an id, and panels that are laid out below it."""

    number: int
    title: str
    places: tuple[Place, ...]


class Board:
    """One dashboard in the making."""

    def __init__(
        self,
        uid: str,
        title: str,
        description: str,
        variables: Sequence[dict[str, Any]],
        *,
        rows: Sequence[Row],
        annotations: Sequence[dict[str, Any]] = (),
        span: str = "now-6h",
    ) -> None:
        self.uid = uid
        self._x = self._y = self._height = 0
        self._panels: list[Panel] = []
        self._frame: dict[str, Any] = {
            "uid": uid,
            "title": title,
            "description": description,
            "tags": [TAG],
            "schemaVersion": SCHEMA,
            "version": 1,
            "editable": False,
            "graphTooltip": 1,
            "refresh": "1m",
            "timezone": "browser",
            "time": {"from": span, "to": "now"},
            "timepicker": {},
            "links": [
                {
                    "type": "dashboards",
                    "title": "TDE dashboards",
                    "tags": [TAG],
                    "asDropdown": True,
                    "includeVars": True,
                    "keepTime": True,
                    "targetBlank": False,
                    "icon": "external link",
                    "tooltip": "The other dashboards, with the same time and database",
                    "url": "",
                }
            ],
            "templating": {"list": [DATASOURCE_VARIABLE, *variables]},
            "annotations": {"list": list(annotations)},
        }
        for row in rows:
            self._add_row(row)

    def _add_row(self, row: Row) -> None:
        self._y, self._x, self._height = self._y + self._height, 0, 0
        place = {"x": 0, "y": self._y, "w": WIDTH, "h": 1}
        self._panels.append(
            {"id": row.number, "type": "row", "title": row.title, "collapsed": False, "panels": [], "gridPos": place}
        )
        self._y += 1
        for each in row.places:
            self._add(each)

    def _add(self, place: Place) -> None:
        if self._x + place.width > WIDTH:
            self._y, self._x, self._height = self._y + self._height, 0, 0
        position = {"x": self._x, "y": self._y, "w": place.width, "h": place.height}
        self._panels.append({"id": place.number, "gridPos": position, **place.panel})
        self._x, self._height = self._x + place.width, max(self._height, place.height)

    def model(self) -> dict[str, Any]:
        """The dashboard as Grafana's classic JSON, in objects."""
        return {**self._frame, "panels": self._panels}

    def text(self) -> str:
        """The same as a file."""
        return json.dumps(self.model(), indent=1, ensure_ascii=False) + "\n"
