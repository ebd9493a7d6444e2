"""Alert and recording rules for Prometheus 2.42 and newer, rendered from `Thresholds`; pure, no I/O."""

from __future__ import annotations

import textwrap

from exporter.bundle.alerts import canaries, coverage, databases, keystores, overhead, standbys, watching
from exporter.bundle.alerts.rules import Alert, Group, groups_yaml
from exporter.bundle.alerts.thresholds import SETTINGS, Setting, Thresholds, with_settings

RECORDING = "tde-recording.yml"
ALERTS = "tde-alerts.yml"
KUBERNETES = "kubernetes/tde-prometheusrule.yaml"

_HEADER = """\
# {what} of tde-exporter, for Prometheus 2.42 or newer.
# Written by `tde-exporter bundle alerts`, which renders them with other thresholds, job and links; do not edit.
"""


def recording_groups(values: Thresholds) -> tuple[Group, ...]:
    """What is computed first, for alerts and dashboards."""
    return tuple(group for room in (databases, canaries, coverage, standbys) for group in room.records(values))


def alert_groups(values: Thresholds) -> tuple[Group, ...]:
    """All alerts."""
    rooms = (watching, databases, canaries, overhead, keystores, coverage, standbys)
    return tuple(group for room in rooms for group in room.groups(values))


def alerts(values: Thresholds) -> tuple[Alert, ...]:
    """All alerts, in the order of the file."""
    return tuple(rule for group in alert_groups(values) for rule in group.rules if isinstance(rule, Alert))


def files(values: Thresholds | None = None, *, kubernetes: bool = False) -> dict[str, str]:
    """Relative path and content of every file: recording rules, alert rules, and a PrometheusRule if asked for."""
    values = values or Thresholds()
    recorded, alerting = recording_groups(values), alert_groups(values)
    found = {
        RECORDING: _HEADER.format(what="Recording rules") + groups_yaml(recorded, values),
        ALERTS: _HEADER.format(what="Alert rules") + groups_yaml(alerting, values),
    }
    if kubernetes:
        found[KUBERNETES] = _prometheus_rule(groups_yaml((*recorded, *alerting), values))
    return found


def _prometheus_rule(groups: str) -> str:
    return (
        _HEADER.format(what="Recording and alert rules")
        + "# keep_firing_for needs a Prometheus Operator of 0.69 or newer.\n"
        + "apiVersion: monitoring.coreos.com/v1\nkind: PrometheusRule\nmetadata:\n  name: tde-exporter\n"
        + "  labels:\n    app.kubernetes.io/name: tde-exporter\nspec:\n"
        + textwrap.indent(groups, "  ")
    )


__all__ = [
    "ALERTS",
    "KUBERNETES",
    "RECORDING",
    "SETTINGS",
    "Alert",
    "Group",
    "Setting",
    "Thresholds",
    "alert_groups",
    "alerts",
    "files",
    "recording_groups",
    "with_settings",
]
