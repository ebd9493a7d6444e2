"""A dashboard: variables, annotations, links, and panels that are laid out from left to right and top to bottom."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from exporter.bundle.dashboards.panels import DATASOURCE, Panel

WIDTH = 24
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


class Board:
    """One dashboard in the making."""

    def __init__(
        self,
        uid: str,
        title: str,
        description: str,
        variables: Sequence[dict[str, Any]],
        *,
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

    def row(self, number: int, title: str) -> None:
        """Begin a new row with a heading."""
        self._y, self._x, self._height = self._y + self._height, 0, 0
        place = {"x": 0, "y": self._y, "w": WIDTH, "h": 1}
        self._panels.append(
            {"id": number, "type": "row", "title": title, "collapsed": False, "panels": [], "gridPos": place}
        )
        self._y += 1

    def add(self, number: int, panel: Panel, width: int, height: int) -> None:
        """Place a panel. `number` is its id, which links to it use: it never changes."""
        if self._x + width > WIDTH:
            self._y, self._x, self._height = self._y + self._height, 0, 0
        place = {"x": self._x, "y": self._y, "w": width, "h": height}
        self._panels.append({"id": number, "gridPos": place, **panel})
        self._x, self._height = self._x + width, max(self._height, height)

    def model(self) -> dict[str, Any]:
        """The dashboard as Grafana's classic JSON, in objects."""
        return {**self._frame, "panels": self._panels}

    def text(self) -> str:
        """The same as a file."""
        return json.dumps(self.model(), indent=1, ensure_ascii=False) + "\n"
