"""The files that are shipped: as the builder makes them, and as Grafana and Kubernetes want them."""

from __future__ import annotations

import copy
import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common, statetimeline, timeseries

from exporter.bundle.dashboards import boards, files
from exporter.bundle.data import data_directory

with warnings.catch_warnings():
    # The classic model is what every Grafana reads; its successor only the newest do.
    warnings.simplefilter("ignore", DeprecationWarning)
    from grafana_foundation_sdk.models.dashboard import Dashboard

plugins.register_default_plugins()

DASHBOARDS = {board.uid: board.model() for board in boards()}


def committed() -> dict[str, str]:
    folder = data_directory("dashboards")
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_what_is_committed_is_what_the_builder_makes() -> None:
    assert committed() == files()


def test_there_is_nothing_but_json_and_yaml() -> None:
    assert {Path(name).suffix for name in files(config_maps=True)} == {".json", ".yaml"}


def test_provisioning_says_where_the_dashboards_are() -> None:
    found = files(path="/srv/boards", prometheus="https://metrics.example.org/prometheus")
    provider = yaml.safe_load(found["provisioning/dashboards/tde.yaml"])
    (only,) = provider["providers"]
    assert provider["apiVersion"] == 1
    assert only["type"] == "file"
    assert only["options"] == {"path": "/srv/boards"}
    assert only["allowUiUpdates"] is False
    assert "foldersFromFilesStructure" not in only["options"]  # It and a folder exclude each other.
    source = yaml.safe_load(found["provisioning/datasources/tde.yaml"])["datasources"][0]
    assert source["url"] == "https://metrics.example.org/prometheus"
    assert source["jsonData"]["httpMethod"] == "POST"
    assert source["jsonData"]["timeInterval"] == "15s"


def test_config_maps_hold_the_same_dashboards() -> None:
    found = files(config_maps=True)
    maps = list(yaml.safe_load_all(found["kubernetes/tde-dashboards.yaml"]))
    assert [each["kind"] for each in maps] == ["ConfigMap"] * 4
    assert all(each["metadata"]["labels"] == {"grafana_dashboard": "1"} for each in maps)
    held = {name: text for each in maps for name, text in each["data"].items()}
    assert held == {name: text for name, text in found.items() if name.endswith(".json")}
    # kubectl apply keeps a copy in an annotation, which may be no longer than that.
    assert all(len(json.dumps(each)) < 256 * 1024 for each in maps)


def lost(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """What of ours is not in theirs, as paths."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            if key in theirs:
                yield from lost(value, theirs[key], f"{path}/{key}")
            else:
                yield f"{path}/{key}"
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from lost(one, other, f"{path}/{index}")
    elif ours != theirs:
        yield path


def round_trip(dashboard: dict[str, Any]) -> list[str]:
    """What Grafana's SDK does not know of a dashboard, or rejects."""
    try:
        known = json.loads(JSONEncoder().encode(Dashboard.from_json(copy.deepcopy(dashboard))))
    except (KeyError, ValueError, TypeError, AttributeError) as problem:
        return [f"{type(problem).__name__}: {problem}"]
    return list(lost(dashboard, known))


@pytest.mark.parametrize("uid", DASHBOARDS)
def test_the_sdk_of_grafana_knows_every_key(uid: str) -> None:
    assert round_trip(json.loads(files()[f"{uid}.json"])) == []


def first(dashboard: dict[str, Any], kind: str) -> dict[str, Any]:
    found: dict[str, Any] = next(panel for panel in dashboard["panels"] if panel["type"] == kind)
    return found


@pytest.mark.parametrize(
    "fault",
    [
        lambda d: d.update(titel="x"),
        lambda d: first(d, "timeseries")["gridPos"].update(width=3),
        lambda d: first(d, "timeseries")["fieldConfig"]["defaults"]["custom"].update(lineWidht=3),
        lambda d: first(d, "stat")["options"].update(reduceOption={}),
        lambda d: first(d, "stat")["targets"][0].update(refID="A"),
    ],
)
def test_a_key_that_does_not_exist_is_found(fault: Callable[[dict[str, Any]], None]) -> None:
    broken = copy.deepcopy(DASHBOARDS["tde-target"])
    fault(broken)
    assert round_trip(broken)


STANDARD = {"unit", "decimals", "min", "max", "mappings", "thresholds", "links", "color", "displayName", "noValue"}
CUSTOM: dict[str, Any] = {
    "timeseries": timeseries.FieldConfig,
    "state-timeline": statetimeline.FieldConfig,
    "table": common.TableFieldOptions,
}


def odd_overrides(panel: dict[str, Any]) -> list[str]:
    """Properties of overrides that the panel does not know; Grafana ignores them without a word."""
    found = []
    for override in panel["fieldConfig"]["overrides"]:
        for each in override["properties"]:
            group, _, name = each["id"].rpartition("custom.")
            if not each["id"].startswith("custom."):
                found += [] if each["id"] in STANDARD else [each["id"]]
            elif (
                panel["type"] not in CUSTOM
                or name not in CUSTOM[panel["type"]].from_json({name: each["value"]}).to_json()
            ):
                found.append(each["id"])
            assert not group
    return found


@pytest.mark.parametrize("uid", DASHBOARDS)
def test_overrides_are_of_properties_that_the_panel_has(uid: str) -> None:
    assert {
        panel["title"]: odd
        for panel in DASHBOARDS[uid]["panels"]
        if panel["type"] != "row" and (odd := odd_overrides(panel))
    } == {}


def test_an_override_of_what_the_panel_has_not_is_found() -> None:
    panel = copy.deepcopy(next(each for each in DASHBOARDS["tde-target"]["panels"] if each["id"] == 20))
    panel["fieldConfig"]["overrides"][0]["properties"][1]["id"] = "custom.linWidth"
    assert odd_overrides(panel) == ["custom.linWidth"]


def test_series_of_a_band_come_in_the_order_that_fills_it() -> None:
    bands = 0
    for dashboard in DASHBOARDS.values():
        for panel in dashboard["panels"]:
            for override in panel.get("fieldConfig", {}).get("overrides", []):
                filled = [each["value"] for each in override["properties"] if each["id"] == "custom.fillBelowTo"]
                if filled:
                    names = [target["legendFormat"] for target in panel["targets"]]
                    assert names.index(filled[0]) < names.index(override["matcher"]["options"])
                    bands += 1
    assert bands >= 5
