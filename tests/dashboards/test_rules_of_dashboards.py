"""Every dashboard keeps every rule, and every rule finds what breaks it."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from exporter.bundle import alerts
from exporter.bundle.anchors import PANELS
from exporter.bundle.dashboards import boards, palette
from exporter.exposition.catalogue import CATALOGUE
from tests.dashboards import promql, rules, rules_of_linter

DASHBOARDS = {board.uid: board.model() for board in boards()}


@pytest.mark.parametrize("uid", rules.UIDS)
@pytest.mark.parametrize("rule", rules.RULES, ids=lambda rule: rule.__name__)
def test_a_dashboard_keeps_a_rule(rule: rules.Rule, uid: str) -> None:
    assert list(rule(DASHBOARDS[uid])) == []


def first(dashboard: dict[str, Any], kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next(panel for panel in dashboard["panels"] if panel["type"] == kind)
    return found


def expression(text: str) -> Callable[[dict[str, Any]], None]:
    def change(dashboard: dict[str, Any]) -> None:
        first(dashboard, "timeseries")["targets"][0]["expr"] = text

    return change


def put(kind: str, path: str, value: object) -> Callable[[dict[str, Any]], None]:
    """Set what a path of keys names, below the first panel of a kind or below the dashboard."""

    def change(dashboard: dict[str, Any]) -> None:
        place: Any = first(dashboard, kind) if kind else dashboard
        *keys, last = path.split("/")
        for key in keys:
            place = place[int(key) if isinstance(place, list) else key]
        place[int(last) if isinstance(place, list) else last] = value

    return change


J = 'job=~"$job",instance=~"$instance"'

FAULTS: list[tuple[rules.Rule, Callable[[dict[str, Any]], None]]] = [
    (rules_of_linter.template_datasource, put("", "templating/list/0/name", "ds")),
    (rules_of_linter.template_datasource, put("", "templating/list/0/label", "DS")),
    (rules_of_linter.template_job, put("", "templating/list/1/allValue", ".*")),
    (rules_of_linter.template_job, put("", "templating/list/1/name", "jobs")),
    (rules_of_linter.template_instance, put("", "templating/list/2/multi", False)),
    (rules_of_linter.template_label_promql, put("", "templating/list/1/query/query", "label_values(up{, job)")),
    (rules_of_linter.template_on_time_change, put("", "templating/list/1/refresh", 1)),
    (rules_of_linter.panel_datasource, put("stat", "datasource", {"type": "prometheus", "uid": "${DS_PROMETHEUS}"})),
    (rules_of_linter.panel_title_description, put("stat", "description", "How many there are.")),
    (rules_of_linter.panel_units, put("timeseries", "fieldConfig/defaults/unit", "percentuint")),
    (rules_of_linter.panel_no_targets, put("stat", "targets", [])),
    (rules_of_linter.target_promql, expression(f"rate(up{{{J}}})")),
    (rules_of_linter.target_rate_interval, expression(f"rate(process_cpu_seconds_total{{{J}}}[5m])")),
    (rules_of_linter.target_rate_interval, expression(f"up{{{J}}} offset $__rate_interval")),
    (rules_of_linter.target_job, expression('up{instance=~"$instance"}')),
    (rules_of_linter.target_instance, expression('up{job=~"$job"}')),
    (rules_of_linter.target_counter_agg, expression(f"sum(process_cpu_seconds_total{{{J}}})")),
    (rules_of_linter.uneditable, put("", "editable", True)),
    (rules.metrics_and_labels, expression(f"tde_overhead_rato{{{J}}}")),
    (rules.metrics_and_labels, expression(f'tde_exporter_series{{{J},target="a"}}')),
    (rules.metrics_and_labels, expression(f"max by (colour) (tde_exporter_series{{{J}}})")),
    (rules.rates_of_counters, expression(f"rate(tde_exporter_series{{{J}}}[$__rate_interval])")),
    (rules.identities, put("timeseries", "id", 10)),
    (rules.identities, put("timeseries", "title", "Exporter")),
    (rules.identities, put("", "uid", "tde")),
    (rules.grid, put("timeseries", "gridPos/x", 13)),
    (rules.grid, put("timeseries", "gridPos/y", 5)),
    (rules.no_data_text, put("stat", "fieldConfig/defaults/noValue", "")),
    (rules.thresholds, put("stat", "fieldConfig/defaults/thresholds/steps/0/value", 0)),
    (rules.colours, put("timeseries", "fieldConfig/defaults/color/fixedColor", "")),
    (rules.colours, put("timeseries", "fieldConfig/defaults/color/mode", "palette-classic")),
    (rules.colours, put("stat", "fieldConfig/defaults/mappings/0/options/1/color", "green")),
    (rules.features, put("", "schemaVersion", 42)),
    (rules.features, put("stat", "type", "singlestat")),
    (rules.no_quantile_label, expression(f'tde_exporter_series{{{J},quantile="0.99"}}')),
    (rules.mappings, put("timeseries", "fieldConfig/overrides/0/properties/0", {"id": "mappings", "value": []})),
    (rules.titles, put("stat", "title", "Whether all of the exporters are up")),
    (rules.legends, put("timeseries", "targets/0/legendFormat", "{{target}}")),
]


@pytest.mark.parametrize(("rule", "fault"), FAULTS, ids=[f"{rule.__name__}-{i}" for i, (rule, _) in enumerate(FAULTS)])
def test_a_rule_finds_what_breaks_it(rule: rules.Rule, fault: Callable[[dict[str, Any]], None]) -> None:
    broken = copy.deepcopy(DASHBOARDS["tde-exporter"])
    fault(broken)
    assert list(rule(broken))


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        (rules.tables, put("table", "transformations/1/options/renameByName", {"target": "Target"})),
        (rules.tables, put("table", "gridPos/w", 12)),
        (rules.links, put("table", "fieldConfig/overrides/0/properties/2/value/0/url", "/d/tde-targets?x")),
    ],
)
def test_a_rule_about_tables_finds_what_breaks_it(rule: rules.Rule, fault: Callable[[dict[str, Any]], None]) -> None:
    broken = copy.deepcopy(DASHBOARDS["tde-fleet"])
    fault(broken)
    assert list(rule(broken))


def test_every_rule_is_tried_with_a_fault() -> None:
    assert {*rules.RULES} <= {rule for rule, _ in FAULTS} | {rules.tables, rules.links}


def test_every_metric_is_on_some_panel() -> None:
    shown = {
        selector.family
        for dashboard in DASHBOARDS.values()
        for _, target in rules.targets(dashboard)
        for selector in promql.selectors(target["expr"])
    }
    assert sorted(CATALOGUE.keys() - shown) == []


def luminance(colour: str) -> float:
    parts = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    red, green, blue = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("colour", palette.LINES)
@pytest.mark.parametrize("panel", ["#181b1f", "#ffffff"])
def test_lines_stand_out_on_dark_and_on_light_panels(colour: str, panel: str) -> None:
    assert contrast(colour, panel) >= 3.0


@pytest.mark.parametrize("colour", palette.SOLID)
def test_words_can_be_read_on_their_colour(colour: str) -> None:
    # Grafana takes white where it is readable at all, else black.
    word = "#ffffff" if contrast(colour, "#ffffff") >= 3.0 else "#000000"
    assert contrast(colour, word) >= 4.5


def test_doubt_and_wrong_differ_in_brightness_too() -> None:
    assert contrast(palette.DOUBT, palette.BAD) >= 2.5


def test_every_state_has_a_word_of_its_own() -> None:
    for words in (palette.VERDICTS, palette.KEYSTORES):
        assert len({word.text for word in words}) == len({word.code for word in words}) == len(words)


def metrics(text: str) -> set[str]:
    """Names of metrics in an expression, those below recording rules included."""
    recorded = yaml.safe_load(alerts.files()["tde-recording.yml"])
    below = {rule["record"]: rule["expr"] for group in recorded["groups"] for rule in group["rules"]}
    found = {name for name in re.findall(r"\b\w+\b", text) if name in CATALOGUE or name == "up"}
    return found.union(*(metrics(expr) for name, expr in below.items() if name in text))


ABOUT_OBJECTS = {"TDEConversionStalled", "TDEUnprotectedDependents"}
"""Their numbers are on the dashboard of the database; they open the comparison, for an event is the cause most likely."""


@pytest.mark.parametrize("alert", sorted(PANELS.keys() - ABOUT_OBJECTS - {"TDEWatchdog"}))
def test_the_panel_of_an_alert_shows_what_the_alert_reads(alert: str) -> None:
    groups = yaml.safe_load(alerts.files()["tde-alerts.yml"])["groups"]
    rule = next(rule for group in groups for rule in group["rules"] if rule["alert"] == alert)
    uid = re.findall(r"/d/([\w-]+)", rule["annotations"]["dashboard_url"])[0]
    panel = next(each for each in DASHBOARDS[uid]["panels"] if each["id"] == PANELS[alert])
    assert metrics(rule["expr"]) & metrics(" ".join(target["expr"] for target in panel["targets"]))


def alerts_and_links() -> list[tuple[str, str]]:
    text = alerts.files()["tde-alerts.yml"]
    return re.findall(r"- alert: (\w+)$.*?dashboard_url: '([^']+)'", text, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize(("alert", "address"), alerts_and_links())
def test_an_alert_opens_a_dashboard_with_its_variables_and_a_panel_for_its_reason(alert: str, address: str) -> None:
    match = re.fullmatch(r"/d/([\w-]+)(?:\?(.*))?", address)
    assert match is not None, alert
    dashboard = DASHBOARDS[match[1]]
    named = {each["name"] for each in dashboard["templating"]["list"]}
    assert {*re.findall(r"var-(\w+)=", match[2] or "")} <= named
    panel = next(each for each in dashboard["panels"] if each["id"] == PANELS[alert])
    assert panel["type"] != "row"
    for linked in re.findall(r"viewPanel=(?:panel-)?(\d+)", match[2] or ""):
        assert int(linked) == PANELS[alert]
