"""The Compose stack on a real Docker Engine: Prometheus and Alertmanager, of Debian's packages, with our files."""

from __future__ import annotations

import json
import math
import time
from typing import Any

import yaml

from tests.image.engine import ROOT
from tests.image.stack import Stack
from tests.processes import until

STOPPED_WITHIN = 5.0


def test_prometheus_scrapes_the_exporter_and_has_its_numbers(stack: Stack) -> None:
    until(lambda: stack.value('up{job="tde-exporter"}') == 1.0, "the exporter is scraped", 90)
    until(lambda: stack.value('tde_target_up{target="embedded"}') == 1.0, "the embedded target is up", 90)
    until(lambda: stack.value("sum(tde_canary_runs_total)"), "canaries ran", 90)


def test_every_rule_is_loaded_and_can_be_evaluated(stack: Stack) -> None:
    written = {
        rule.get("alert") or rule["record"]
        for file in ("tde-alerts.yml", "tde-recording.yml")
        for group in yaml.safe_load((ROOT / "alerts" / file).read_text())["groups"]
        for rule in group["rules"]
    }

    def rules(slowest: float = math.inf) -> list[dict[str, Any]]:
        groups = stack.prometheus("rules")["groups"]
        return [rule for group in groups if group["interval"] <= slowest for rule in group["rules"]]

    # A few groups have their turn every five minutes.
    until(lambda: all(rule["health"] != "unknown" for rule in rules(60.0)), "the rules were evaluated", 150)
    found = rules()
    assert {rule["name"] for rule in found} == written
    assert [(rule["name"], rule.get("lastError")) for rule in found if rule["health"] == "err"] == []


def test_the_dead_mans_switch_reaches_alertmanager(stack: Stack) -> None:
    def alerts() -> set[str]:
        return {alert["labels"]["alertname"] for alert in stack.ask("alertmanager", "/api/v2/alerts")}

    until(lambda: "TDEWatchdog" in alerts(), "Alertmanager has TDEWatchdog", 120)
    receivers = {one["name"] for one in stack.ask("alertmanager", "/api/v2/receivers")}
    assert "tde-pager" in receivers


def test_exporter_stops_in_time_and_in_order(stack: Stack) -> None:
    begun = time.monotonic()
    stack.compose("stop", "--timeout=30", "exporter")
    assert time.monotonic() - begun < STOPPED_WITHIN
    (listed,) = [json.loads(line) for line in stack.compose("ps", "--all", "--format=json", "exporter").splitlines()]
    assert (listed["State"], listed["ExitCode"]) == ("exited", 0)
    stack.compose("start", "exporter")
    until(lambda: stack.value('up{job="tde-exporter"}') == 1.0, "the exporter is scraped again", 90)
