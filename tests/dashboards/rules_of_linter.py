"""The rules of Grafana's dashboard-linter that apply to us, each yielding sentences about what is wrong.

Those about Loki do not; those about `instance` are for the dashboard of the exporter alone, as elsewhere `target` is what is
looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.dashboards import promql
from tests.dashboards.evaluation import panels

Dashboard = Mapping[str, Any]
Rule = Callable[[Dashboard], Iterator[str]]

UIDS = ("tde-fleet", "tde-target", "tde-enablement", "tde-exporter")
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
PANEL_TYPES = {"stat", "timeseries", "table", "state-timeline"}
OUTSIDE = {
    "up": set(),
    "scrape_duration_seconds": set(),
    "scrape_samples_scraped": set(),
    "process_cpu_seconds_total": set(),
    "process_resident_memory_bytes": set(),
    "process_open_fds": set(),
    "process_max_fds": set(),
    "ALERTS": {"alertname", "alertstate", "severity"},
}
"""Metrics that Prometheus or the client library makes, and their labels."""

UNITS = {
    "locale",
    "none",
    "short",
    "string",
    "s",
    "bytes",
    "Bps",
    "percentunit",
    "ops",
    "cps",
    "cpm",
    "suffix: d",
    "dateTimeFromNow",
}

OTHER_RANGES = {"$window", "$span", "1h"}
"""Ranges of rates that are not `$__rate_interval`, because they are those of what stands beside them: the window of the
published statistics, the span before and after an event, and an hour where events are counted that happen once a day."""


def variable(dashboard: Dashboard, name: str) -> Mapping[str, Any] | None:
    return next((each for each in dashboard["templating"]["list"] if each["name"] == name), None)


def targets(dashboard: Dashboard) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Where it stands in words, and the query."""
    for panel in panels(dashboard):
        for target in panel["targets"]:
            yield f"{panel['title']} {target['refId']}", target


def template_datasource(dashboard: Dashboard) -> Iterator[str]:
    found = variable(dashboard, "datasource")
    if found is None or found["type"] != "datasource" or found["query"] != "prometheus":
        yield "no variable for the data source"
    elif found["label"] != "Data source":
        yield "the data source is called otherwise"


def _template(dashboard: Dashboard, name: str, label: str) -> Iterator[str]:
    found = variable(dashboard, name)
    if found is None:
        yield f"no variable {name}"
        return
    right = {"type": "query", "label": label, "multi": True, "allValue": ".+", "datasource": DATASOURCE}
    yield from (f"{name}: {key} is {found.get(key)}" for key, value in right.items() if found.get(key) != value)


def template_job(dashboard: Dashboard) -> Iterator[str]:
    yield from _template(dashboard, "job", "Job")


def template_instance(dashboard: Dashboard) -> Iterator[str]:
    if dashboard["uid"] == "tde-exporter":
        yield from _template(dashboard, "instance", "Instance")


def template_label_promql(dashboard: Dashboard) -> Iterator[str]:
    for each in dashboard["templating"]["list"]:
        if each["type"] != "query":
            continue
        match = re.fullmatch(r"(label_values|query_result)\((.+?)(?:, \w+)?\)", each["query"]["query"])
        if match is None or not _parses(match[2]):
            yield f"variable {each['name']}: {each['query']['query']}"


def template_on_time_change(dashboard: Dashboard) -> Iterator[str]:
    for each in dashboard["templating"]["list"]:
        if each["type"] == "query" and each["refresh"] != 2:
            yield f"variable {each['name']} is not asked for again when the time changes"


def panel_datasource(dashboard: Dashboard) -> Iterator[str]:
    for panel in panels(dashboard):
        for place in (panel, *panel["targets"]):
            if place.get("datasource") != DATASOURCE:
                yield f"{panel['title']}: {place.get('datasource')}"


def panel_title_description(dashboard: Dashboard) -> Iterator[str]:
    for panel in panels(dashboard):
        what, sign, read = panel.get("description", "").partition("\n\n**How to read it:** ")
        if not panel.get("title") or not sign or min(len(what), len(read)) < 30:
            yield f"panel {panel['id']}: its title or description says too little"


def panel_units(dashboard: Dashboard) -> Iterator[str]:
    for panel in panels(dashboard):
        defaults, overrides = panel["fieldConfig"]["defaults"], panel["fieldConfig"]["overrides"]
        units = [defaults.get("unit")]
        units += [each["value"] for one in overrides for each in one["properties"] if each["id"] == "unit"]
        yield from (f"{panel['title']}: unit {unit}" for unit in units if unit not in UNITS)


def panel_no_targets(dashboard: Dashboard) -> Iterator[str]:
    yield from (f"{panel['title']}: asks nothing" for panel in panels(dashboard) if not panel.get("targets"))


def _parses(expr: str) -> bool:
    try:
        promql.parsed(expr)
    except ValueError:
        return False
    return True


def target_promql(dashboard: Dashboard) -> Iterator[str]:
    yield from (f"{place}: {target['expr']}" for place, target in targets(dashboard) if not _parses(target["expr"]))


def target_rate_interval(dashboard: Dashboard) -> Iterator[str]:
    for place, target in targets(dashboard):
        for length in re.findall(r"\b(?:rate|irate|increase)\([^()]*\[([^\]]+)\]", target["expr"]):
            if length != "$__rate_interval" and length not in OTHER_RANGES:
                yield f"{place}: a rate over {length}"
        if "$__rate_interval" in re.sub(r"\w+\([^()]*\[\$__rate_interval\]", "", target["expr"]):
            yield f"{place}: $__rate_interval outside of a function"


def _selected(dashboard: Dashboard) -> Iterator[tuple[str, promql.Selector]]:
    for place, target in targets(dashboard):
        if _parses(target["expr"]):
            yield from ((place, selector) for selector in promql.selectors(target["expr"]))


def target_job(dashboard: Dashboard) -> Iterator[str]:
    for place, selector in _selected(dashboard):
        # An alert has the job of the series that it is about, or none: those of `absent` have no series.
        if selector.name != "ALERTS" and ("job", "=~$job") not in selector.matchers:
            yield f"{place}: {selector.name} of any job"


def target_instance(dashboard: Dashboard) -> Iterator[str]:
    for place, selector in _selected(dashboard):
        if dashboard["uid"] == "tde-exporter" and ("instance", "=~$instance") not in selector.matchers:
            yield f"{place}: {selector.name} of any instance"


def target_counter_agg(dashboard: Dashboard) -> Iterator[str]:
    for place, selector in _selected(dashboard):
        if selector.name.endswith(("_total", "_bucket")) and not {"rate", "irate", "increase"} & {*selector.within}:
            yield f"{place}: the sum {selector.name} without a rate"


def uneditable(dashboard: Dashboard) -> Iterator[str]:
    if dashboard.get("editable") is not False:
        yield "can be edited in place"
