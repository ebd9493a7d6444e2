"""What a rule is, and how Prometheus wants it written."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from exporter.bundle.alerts.thresholds import Thresholds
from exporter.bundle.anchors import PANELS

RESTART = 900.0
"""Seconds that an alert is kept: a restart of the exporter must not end it and begin it again."""


class Severity(StrEnum):
    """What an alert asks for: a call, a ticket, a line on a dashboard, nothing."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"
    NONE = "none"


class Board(StrEnum):
    """The dashboards, by uid."""

    FLEET = "tde-fleet"
    TARGET = "tde-target"
    ENABLEMENT = "tde-enablement"
    EXPORTER = "tde-exporter"


@dataclass(frozen=True, slots=True)
class Record:
    """A recording rule; `why` is a comment in the file."""

    name: str
    expr: str
    why: str


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert rule. `wait` and `keep` are seconds before it fires, and after its cause has gone.

    `summary` and `description` are templates; `shows` are the labels that the dashboard is opened with.
    """

    name: str
    severity: Severity
    component: str
    expr: str
    summary: str
    description: str
    wait: float = 0.0
    keep: float = 0.0
    board: Board = Board.TARGET
    shows: tuple[str, ...] = ("job", "target")


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that are evaluated one after the other, every `interval` seconds."""

    name: str
    rules: tuple[Record | Alert, ...]
    interval: float = 30.0


def groups_yaml(groups: Iterable[Group], values: Thresholds) -> str:
    """The groups as a rule file has them, without its header."""
    lines = ["groups:"]
    for group in groups:
        lines += [f"- name: {group.name}", f"  interval: {values.span(group.interval)}", "  rules:"]
        for rule in group.rules:
            lines += _record(rule) if isinstance(rule, Record) else _alert(rule, values)
    return "\n".join(lines) + "\n"


def _record(rule: Record) -> list[str]:
    comment = [f"  # {line}" for line in textwrap.wrap(rule.why, 110)]
    return [*comment, f"  - record: {rule.name}", *_expression(rule.expr)]


def _alert(rule: Alert, values: Thresholds) -> list[str]:
    lines = [f"  - alert: {rule.name}", *_expression(rule.expr)]
    if rule.wait:
        lines.append(f"    for: {values.span(rule.wait)}")
    if rule.keep:
        lines.append(f"    keep_firing_for: {values.span(rule.keep)}")
    lines += [
        "    labels:",
        f"      severity: {rule.severity}",
        f"      component: {rule.component}",
        "    annotations:",
    ]
    return lines + [f"      {name}: {quoted(text)}" for name, text in _annotations(rule, values).items()]


def _annotations(rule: Alert, values: Thresholds) -> Mapping[str, str]:
    asked = [f"var-{label}={{{{ $labels.{label} | urlquery }}}}" for label in rule.shows]
    asked.append(f"viewPanel={PANELS[rule.name]}")
    return {
        "summary": rule.summary,
        "description": rule.description,
        "runbook_url": f"{values.runbook_base.rstrip('/')}/{rule.name}.md",
        "dashboard_url": f"{values.dashboard_base.rstrip('/')}/d/{rule.board}?{'&'.join(asked)}",
    }


def _expression(expr: str) -> list[str]:
    return ["    expr: |-", *(f"      {line}" for line in textwrap.dedent(expr).strip().splitlines())]


def quoted(text: str) -> str:
    """A text on one line as YAML takes it whatever is in it."""
    return "'" + text.replace("'", "''") + "'"
