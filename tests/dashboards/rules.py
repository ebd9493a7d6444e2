"""What must hold of every dashboard: the rules of the linter, and ours. Each yields sentences about what is wrong."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from exporter.bundle.dashboards import palette
from exporter.exposition.catalogue import CATALOGUE, Kind
from tests.dashboards import promql
from tests.dashboards.evaluation import panels
from tests.dashboards.rules_of_linter import (
    OUTSIDE,
    PANEL_TYPES,
    UIDS,
    Dashboard,
    Rule,
    _parses,
    _selected,
    panel_datasource,
    panel_no_targets,
    panel_title_description,
    panel_units,
    target_counter_agg,
    target_instance,
    target_job,
    target_promql,
    target_rate_interval,
    targets,
    template_datasource,
    template_instance,
    template_job,
    template_label_promql,
    template_on_time_change,
    uneditable,
)

__all__ = ["RULES", "UIDS", "Dashboard", "Rule", "targets"]


def metrics_and_labels(dashboard: Dashboard) -> Iterator[str]:
    """All metrics and labels exist; counters, and only they, are under a rate."""
    expressions = [(place, target["expr"]) for place, target in targets(dashboard)]
    expressions += [("annotation " + each["name"], each["expr"]) for each in dashboard["annotations"]["list"]]
    for place, expr in expressions:
        for selector in promql.selectors(expr) if _parses(expr) else ():
            labels = _labels_of(selector.family)
            if labels is None:
                yield f"{place}: there is no metric {selector.name}"
                continue
            yield from (
                f"{place}: {selector.name} has no label {name}" for name, _ in selector.matchers if name not in labels
            )
        for label, metrics in promql.groupings(expr):
            known = [_labels_of(metric) or set() for metric in metrics]
            if not any(label in labels for labels in known) and f'"{label}"' not in expr:
                yield f"{place}: grouped by {label}, which nothing has"


def _labels_of(family: str) -> set[str] | None:
    beside = {"job", "instance"}
    if (metric := CATALOGUE.get(family)) is not None:
        return {*metric.labels, *beside, *(["le"] if metric.kind is Kind.HISTOGRAM else [])}
    return None if family not in OUTSIDE else OUTSIDE[family] | beside


def rates_of_counters(dashboard: Dashboard) -> Iterator[str]:
    for place, selector in _selected(dashboard):
        metric = CATALOGUE.get(selector.family)
        if metric is not None and metric.kind is Kind.GAUGE and {"rate", "irate", "increase"} & {*selector.within}:
            yield f"{place}: a rate of {selector.name}, which is no counter"


def identities(dashboard: Dashboard) -> Iterator[str]:
    everything = dashboard["panels"]
    for name, values in {
        "id": [panel["id"] for panel in everything],
        "title": [panel["title"] for panel in everything],
    }.items():
        yield from (f"{name} {value} twice" for value, count in Counter(values).items() if count > 1)
    if dashboard["uid"] not in UIDS or not re.fullmatch(r"[A-Za-z0-9_-]{1,40}", dashboard["uid"]):
        yield f"uid {dashboard['uid']}"
    if {"id", "iteration", "__inputs", "__requires"} & dashboard.keys():
        yield "holds what one server gave it"


def grid(dashboard: Dashboard) -> Iterator[str]:
    taken: dict[tuple[int, int], str] = {}
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        if place["x"] < 0 or place["x"] + place["w"] > 24 or place["w"] < 3 or place["h"] < 1:
            yield f"{panel['title']} lies outside"
        for cell in (
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        ):
            if cell in taken and taken[cell] != panel["title"]:
                yield f"{panel['title']} lies on {taken[cell]}"
                break
            taken[cell] = panel["title"]
    bottom = max(y for _, y in taken) + 1
    for y in range(bottom):
        width = sum((x, y) in taken for x in range(24))
        if width != 24:
            yield f"line {y} is not full: {width} of 24"


def no_data_text(dashboard: Dashboard) -> Iterator[str]:
    for panel in panels(dashboard):
        if not panel["fieldConfig"]["defaults"].get("noValue"):
            yield f"{panel['title']}: says nothing when there is no data"


def thresholds(dashboard: Dashboard) -> Iterator[str]:
    for panel in panels(dashboard):
        for one in _found(panel["fieldConfig"], "steps"):
            values = [step["value"] for step in one]
            if values[0] is not None or values[1:] != sorted(values[1:]):
                yield f"{panel['title']}: thresholds {values}"


def _found(node: Any, key: str) -> Iterator[Any]:
    """All values of a key, at any depth."""
    if isinstance(node, Mapping):
        for name, value in node.items():
            if name == key:
                yield value
            yield from _found(value, key)
    elif isinstance(node, list):
        for value in node:
            yield from _found(value, key)


def colours(dashboard: Dashboard) -> Iterator[str]:
    """Every colour is one of ours: none is empty, none is made by a palette that opposes red and green."""
    known = {*palette.LINES, *palette.SOLID, palette.TRANSPARENT}
    for panel in panels(dashboard):
        named = [value for key in ("color", "fixedColor", "iconColor") for value in _found(panel, key)]
        yield from (
            f"{panel['title']}: colour {each!r}" for each in named if isinstance(each, str) and each not in known
        )
        modes = {each.get("mode") for each in named if isinstance(each, Mapping)}
        if modes - {"fixed", "thresholds", "continuous-YlBl"}:
            yield f"{panel['title']}: colours by {modes}"
    for each in dashboard["annotations"]["list"]:
        if each["iconColor"] not in known:
            yield f"annotation {each['name']}: colour {each['iconColor']!r}"


def features(dashboard: Dashboard) -> Iterator[str]:
    """Nothing that one of Grafana 10.4 to 13.2 does not know."""
    if dashboard["schemaVersion"] != 39:
        yield f"schema {dashboard['schemaVersion']}"
    for panel in panels(dashboard):
        if panel["type"] not in PANEL_TYPES or "libraryPanel" in panel or "repeat" in panel:
            yield f"{panel['title']}: type {panel['type']}"
        for each in panel.get("transformations", []):
            if each["id"] not in {"merge", "organize", "sortBy"}:
                yield f"{panel['title']}: transformation {each['id']}"
        for one in panel["fieldConfig"]["overrides"]:
            if one["matcher"]["id"] not in {"byName", "byRegexp"}:
                yield f"{panel['title']}: matcher {one['matcher']['id']}"


def no_quantile_label(dashboard: Dashboard) -> Iterator[str]:
    for place, target in targets(dashboard):
        if re.search(r"\bquantile\b", target["expr"]):
            yield f"{place}: the label quantile belongs to summaries"


def tables(dashboard: Dashboard) -> Iterator[str]:
    """Each column of a table is one that its queries give, and has a width; all together fit on a narrow screen."""
    for panel in panels(dashboard):
        if panel["type"] != "table":
            continue
        organize = panel["transformations"][1]["options"]
        count = len(panel["targets"])
        values = {"Value"} if count == 1 else {f"Value #{target['refId']}" for target in panel["targets"]}
        named = {*organize["renameByName"], *organize["excludeByName"]}
        yield from (f"{panel['title']}: {value} has no name" for value in sorted(values - named))
        yield from (
            f"{panel['title']}: no query gives {each}" for each in sorted(named - values) if each.startswith("Value")
        )
        widths = [
            each["value"]
            for one in panel["fieldConfig"]["overrides"]
            for each in one["properties"]
            if each["id"] in {"custom.width", "custom.minWidth"}
        ]
        if len(widths) != len(organize["renameByName"]):
            yield f"{panel['title']}: columns without width"
        # A window of 1280 pixels leaves 52 for each of 24 columns.
        room = panel["gridPos"]["w"] * 52 - 24
        if sum(widths) > room:
            yield f"{panel['title']}: {sum(widths)} pixels of columns in {room}"


def titles(dashboard: Dashboard) -> Iterator[str]:
    """A title fits on a screen of 1280 pixels, beside the sign that opens its description."""
    for panel in panels(dashboard):
        title = re.sub(r"\$(\w+)", "99", panel["title"])
        if len(title) * 7.5 + 55 > panel["gridPos"]["w"] * 52 - 8:
            yield f"{panel['title']}: longer than its panel is wide"


def mappings(dashboard: Dashboard) -> Iterator[str]:
    """No style takes mappings away: Grafana keeps those of the panel then, and a lag of 0 is read as a word."""
    for panel in panels(dashboard):
        for one in panel["fieldConfig"]["overrides"]:
            if any(each["id"] == "mappings" and not each["value"] for each in one["properties"]):
                yield f"{panel['title']}: {one['matcher']['options']} without mappings"


def legends(dashboard: Dashboard) -> Iterator[str]:
    """Many series have a legend beside the graph."""
    open_ended = {"target", "standby", "object", "channel"}
    for panel in panels(dashboard):
        if panel["type"] != "timeseries":
            continue
        labels = {
            label for target in panel["targets"] for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])
        }
        beside = panel["options"]["legend"]["placement"] == "right"
        many = len(panel["fieldConfig"]["overrides"]) > 6
        if bool(labels & open_ended) != beside and not (beside and many):
            yield f"{panel['title']}: a legend of {sorted(labels)} {'beside' if beside else 'below'}"


def links(dashboard: Dashboard) -> Iterator[str]:
    for address in (value for panel in panels(dashboard) for value in _found(panel, "url")):
        match = re.match(r"/d/([\w-]+)\?", address)
        if match is None or match[1] not in UIDS:
            yield f"a link to {address}"


RULES: tuple[Rule, ...] = (
    template_datasource,
    template_job,
    template_instance,
    template_label_promql,
    template_on_time_change,
    panel_datasource,
    panel_title_description,
    panel_units,
    panel_no_targets,
    target_promql,
    target_rate_interval,
    target_job,
    target_instance,
    target_counter_agg,
    uneditable,
    metrics_and_labels,
    rates_of_counters,
    identities,
    grid,
    no_data_text,
    thresholds,
    colours,
    features,
    no_quantile_label,
    tables,
    titles,
    mappings,
    legends,
    links,
)
