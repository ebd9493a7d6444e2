"""Asks a Prometheus what Grafana would ask it for a dashboard: variables first, then every query of every panel."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

Chosen = dict[str, str | list[str]]
"""Values of the variables; a list where several can be chosen, and are."""


@dataclass(frozen=True)
class Span:
    """The time range of a dashboard, in seconds; `scrape` is the scrape interval that the data source names."""

    start: float
    end: float
    step: float = 60.0
    scrape: float = 30.0

    @property
    def built_in(self) -> dict[str, str]:
        """The variables that Grafana itself sets."""
        rate = max(self.step + self.scrape, 4 * self.scrape)
        length = self.end - self.start
        return {
            "__rate_interval": f"{rate:.0f}s",
            "__interval": f"{self.step:.0f}s",
            "__range": f"{length:.0f}s",
        }


class Prometheus:
    """One server; warnings and notes of it are errors here."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=30.0)

    def close(self) -> None:
        self._client.close()

    def _ask(self, path: str, **parameters: Any) -> Any:
        answer = self._client.get(f"/api/v1/{path}", params=parameters).json()
        assert answer["status"] == "success", f"{parameters}: {answer.get('error')}"
        assert not answer.get("warnings"), f"{parameters}: {answer['warnings']}"
        notes = [note for note in answer.get("infos", []) if "might not be a counter" not in note]
        assert not notes, f"{parameters}: {notes}"
        return answer["data"]

    def now(self, expr: str, span: Span) -> list[dict[str, Any]]:
        """An instant query at the end of the range."""
        data = self._ask("query", query=expr, time=span.end)
        result: list[dict[str, Any]] = data["result"]
        return result

    def over(self, expr: str, span: Span) -> list[dict[str, Any]]:
        """A range query."""
        data = self._ask("query_range", query=expr, start=span.start, end=span.end, step=span.step)
        result: list[dict[str, Any]] = data["result"]
        return result

    def label_values(self, label: str, selector: str, span: Span) -> list[str]:
        values: list[str] = self._ask(f"label/{label}/values", **{"match[]": selector}, start=span.start, end=span.end)
        return values


def expanded(expr: str, chosen: Mapping[str, str | list[str]]) -> str:
    """The expression with its variables replaced as Grafana's Prometheus data source does it."""

    def value(match: re.Match[str]) -> str:
        found = chosen[match[1] or match[2]]
        if isinstance(found, str):
            return found
        escaped = [re.sub(r"([\\^$*+?.()|\[\]{}/])", r"\\\\\1", each) for each in found]
        return escaped[0] if len(escaped) == 1 else f"({'|'.join(escaped)})"

    return re.sub(r"\$(\w+)|\$\{(\w+)\}", value, expr)


def variables(
    dashboard: Mapping[str, Any],
    server: Prometheus,
    span: Span,
    picked: Mapping[str, str] | None = None,
) -> Chosen:
    """What each variable is at first: all where all can be chosen, else the first value; `picked` overrides.

    Raises AssertionError for one without values, and for a picked value that is not offered.
    """
    chosen: Chosen = dict(span.built_in)
    for variable in dashboard["templating"]["list"]:
        name = variable["name"]
        if variable["type"] == "datasource":
            chosen[name] = "prometheus"
            continue
        offered = values_of(variable, server, span, chosen)
        assert offered, f"{dashboard['uid']}: nothing to choose from in {name}"
        wanted = (picked or {}).get(name)
        assert wanted is None or wanted in offered, f"{dashboard['uid']}: {name} offers {offered}, not {wanted}"
        if wanted is not None:
            chosen[name] = [wanted] if variable["multi"] else wanted
        elif variable["includeAll"]:
            chosen[name] = variable["allValue"]
        else:
            chosen[name] = offered[0]
    return chosen


def values_of(variable: Mapping[str, Any], server: Prometheus, span: Span, chosen: Chosen) -> list[str]:
    """What a variable offers, in its order."""
    if variable["type"] == "custom":
        return [option["value"] for option in variable["options"]]
    query = expanded(variable["query"]["query"], chosen)
    if asked := re.fullmatch(r"query_result\((.+)\)", query):
        lines = [_line(series) for series in server.now(asked[1], span)]
        pattern = re.compile(variable["regex"].strip("/"))
        return list(dict.fromkeys(match[1] for line in lines if (match := pattern.search(line))))
    asked = re.fullmatch(r"label_values\((.+), (\w+)\)", query)
    assert asked, query
    return server.label_values(asked[2], asked[1], span)


def _line(series: Mapping[str, Any]) -> str:
    """A series as `query_result` shows it to the regular expression of a variable."""
    labels = ",".join(f'{name}="{value}"' for name, value in series["metric"].items())
    stamp, value = series["value"]
    return f"{{{labels}}} {value} {stamp * 1000:.0f}"


@dataclass(frozen=True)
class Answer:
    """What one query of one panel yields; `names` are those of the legend."""

    uid: str
    panel: Mapping[str, Any]
    target: Mapping[str, Any]
    expr: str
    series: list[dict[str, Any]] = field(repr=False)

    @property
    def place(self) -> str:
        return f"{self.uid} {self.panel['id']} {self.panel['title']} {self.target['refId']}"

    @property
    def key(self) -> tuple[str, int, str]:
        return self.uid, self.panel["id"], self.target["refId"]

    @property
    def names(self) -> list[str]:
        legend: str = self.target["legendFormat"]
        return [_named(legend, series["metric"]) for series in self.series]

    @property
    def values(self) -> list[float]:
        points = [point for series in self.series for point in series.get("values", [series.get("value")])]
        return [float(value) for _, value in points]

    def problems(self, labels_at_times: frozenset[str]) -> list[str]:
        """Sentences about what a reader would stumble over; not about missing data."""
        wanted = set(re.findall(r"\{\{\s*(\w+)\s*\}\}", self.target["legendFormat"])) - labels_at_times
        missing = {label for series in self.series for label in wanted - set(series["metric"])}
        found = [f"{self.place}: the legend wants {label}, which some series have not" for label in sorted(missing)]
        if "format" not in self.target and len(set(self.names)) != len(self.names):
            found.append(f"{self.place}: two series have one name: {sorted(self.names)}")
        if any(not math.isfinite(value) for value in self.values):
            found.append(f"{self.place}: values that are no numbers")
        return found


def _named(legend: str, labels: Mapping[str, str]) -> str:
    return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda match: labels.get(match[1], ""), legend).strip()


def panels(dashboard: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Those that ask for something: rows are none."""
    yield from (panel for panel in dashboard["panels"] if panel["type"] != "row")


def answers(dashboard: Mapping[str, Any], server: Prometheus, span: Span, chosen: Chosen) -> Iterator[Answer]:
    """Every query of every panel."""
    for panel in panels(dashboard):
        for target in panel["targets"]:
            expr = expanded(target["expr"], chosen)
            series = server.now(expr, span) if target["instant"] else server.over(expr, span)
            yield Answer(dashboard["uid"], panel, target, expr, series)
