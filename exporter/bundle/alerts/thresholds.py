"""Every number and name in the alert rules that whoever runs them may change, in one place."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Any, cast

from exporter.config.quantities import format_duration, parse_duration
from exporter.domain.errors import ConfigError, ConfigErrors

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0


@dataclass(frozen=True, slots=True)
class Setting:
    """What is known of one value: `doc` is one sentence, `unit` a word (`ratio`, `seconds`, `days`, `text`, `duration`).

    `least` and `most` bound numbers, both included; durations are seconds.
    """

    name: str
    default: float | str
    doc: str
    unit: str
    least: float = -math.inf
    most: float = math.inf

    def parse(self, text: str) -> float | str:
        """The value that `text` stands for; raises ConfigError that says what to write."""
        if self.unit == "text":
            if any(sign in "\"'\\`{}" or not sign.isprintable() for sign in text):
                raise self._problem("quotes, backslashes, braces and line breaks cannot stand in a rule")
            return text
        try:
            given = parse_duration(text) if self.unit == "duration" else float(text)
        except ValueError:
            raise self._problem(f"'{text}' is no {'duration' if self.unit == 'duration' else 'number'}") from None
        if not isinstance(given, float) or not self.least <= given <= self.most:
            raise self._problem(f"{text} is out of range")
        return given

    def _problem(self, words: str) -> ConfigError:
        return ConfigError(words, where=f"--set {self.name}", remedy=f"Write {self.range}")

    def written(self, value: float | str) -> str:
        """A value as one would write it."""
        if isinstance(value, str):
            return value or "(empty)"
        return format_duration(value) if self.unit == "duration" else f"{value:.15g}"

    @property
    def range(self) -> str:
        """What may be written, in words."""
        if self.unit == "text":
            return "a text without quotes, backslashes and braces"
        if self.unit == "duration":
            return f"a duration from {format_duration(self.least)} to {format_duration(self.most)}, such as {self.written(self.default)}"
        return f"a number from {self.least:.15g} to {self.most:.15g}"


def _value(default: Any, unit: str, doc: str, least: float = -math.inf, most: float = math.inf) -> Any:
    return field(default=default, metadata={"unit": unit, "doc": doc, "least": least, "most": most})


def _wait(default: float, doc: str, most: float = _DAY) -> Any:
    return _value(default, "duration", doc, 0.0, most)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The values that the rules are rendered with. Durations are seconds.

    `divisor` is for tests only: all durations and ranges of the rules are divided by it, so that what takes a day
    can be seen in minutes.
    """

    job: str = _value("tde-exporter", "text", "The job label that Prometheus gives to the exporter.")
    node_job: str = _value(
        "node", "text", "The job label of node_exporter, for hosts whose CPU the exporter cannot see."
    )
    runbook_base: str = _value("docs/runbooks", "text", "Where the runbooks are; the link is BASE/ALERT.md.")
    dashboard_base: str = _value(
        "", "text", "Address of Grafana, such as https://grafana.example.org; the link is BASE/d/UID."
    )

    overhead_ratio: float = _value(
        1.2,
        "ratio",
        "Latency encrypted / plain above which there is a ticket; must be a threshold that the exporter judges by.",
        1.01,
        10,
    )
    overhead_ratio_critical: float = _value(
        2.0,
        "ratio",
        "Latency encrypted / plain above which somebody is called; must be one that the exporter judges by.",
        1.1,
        100,
    )
    read_rise_ratio: float = _value(
        1.2,
        "ratio",
        "Median latency of encrypted reads now / a day ago above which there is a ticket, when plain reads did not rise.",
        1.05,
        10,
    )
    undecided_for: float = _wait(
        2 * _DAY, "How long it may be undecided whether encryption is within its budget.", 7 * _DAY
    )
    host_cpu_ratio: float = _value(
        0.85, "ratio", "CPU use of the database's host above which there is a ticket.", 0.1, 1
    )
    host_cpu_for: float = _wait(10 * _MINUTE, "How long the host must be that busy.")

    standby_lag_seconds: float = _value(
        60,
        "seconds",
        "Lag of a standby, beyond the delay that is set on purpose, above which there is a ticket.",
        1,
        7 * _DAY,
    )
    standby_lag_critical_seconds: float = _value(
        600, "seconds", "The same, above which somebody is called.", 1, 30 * _DAY
    )
    standby_lag_for: float = _wait(5 * _MINUTE, "How long a standby must lag that much.")
    standby_stopped_for: float = _wait(5 * _MINUTE, "How long a standby may be stopped, or lack log sequences.")
    standby_unknown_for: float = _wait(15 * _MINUTE, "How long the lag of a standby may be unknown.")

    key_age_days: float = _value(365, "days", "Age of the master key above which there is a ticket.", 1, 36500)
    key_age_notice_days: float = _value(
        330, "days", "Age of the master key from which its rotation is announced.", 1, 36500
    )
    keystore_for: float = _wait(
        1 * _MINUTE, "How long a keystore may be closed, missing or without key before somebody is called."
    )
    keystore_unknown_for: float = _wait(15 * _MINUTE, "How long the state of a keystore may be unknown or degraded.")

    objects_pending_for: float = _wait(
        1 * _HOUR, "How long objects that should be encrypted may wait for it.", 7 * _DAY
    )
    coverage_window: float = _value(
        1 * _DAY,
        "duration",
        "How far back the number of encrypted objects is compared; the alert ends after that time.",
        1 * _HOUR,
        7 * _DAY,
    )

    canary_stale_after: float = _wait(
        15 * _MINUTE, "How long no canary query may succeed; at least three of the operation's own intervals."
    )
    canary_failure_ratio: float = _value(0.05, "ratio", "Share of canary queries of an hour that may fail.", 0.001, 1)
    canary_blind_for: float = _wait(
        1 * _HOUR, "How long all canaries of a pair may pass nothing through the cipher.", 7 * _DAY
    )
    pair_invalid_for: float = _wait(15 * _MINUTE, "How long the twins of a pair may differ in more than encryption.")

    target_down_for: float = _wait(3 * _MINUTE, "How long a database may be out of reach before somebody is called.")
    exporter_down_for: float = _wait(5 * _MINUTE, "How long the exporter, or one of its probe processes, may be down.")
    collector_failing_for: float = _wait(15 * _MINUTE, "How long a collector may fail.")

    certificate_notice_days: float = _value(
        14, "days", "How long before the certificate of the exporter's page ends there is a ticket.", 0.1, 365
    )

    divisor: float = 1.0

    def __post_init__(self) -> None:
        problems = [
            ConfigError(
                f"{lower} must be smaller than {upper}",
                where="--set",
                remedy=f"Set both: now they are {getattr(self, lower):.15g} and {getattr(self, upper):.15g}",
            )
            for lower, upper in _ORDERED
            if getattr(self, lower) >= getattr(self, upper)
        ]
        if problems:
            raise ConfigErrors(problems)

    def span(self, seconds: float) -> str:
        """A duration of a rule as PromQL writes it, scaled."""
        return duration(seconds / self.divisor)

    def seconds(self, seconds: float) -> str:
        """A number of seconds that is waited for, scaled, as PromQL writes it."""
        return f"{seconds / self.divisor:.15g}"


_ORDERED = (
    ("overhead_ratio", "overhead_ratio_critical"),
    ("standby_lag_seconds", "standby_lag_critical_seconds"),
    ("key_age_notice_days", "key_age_days"),
)

SETTINGS: dict[str, Setting] = {
    one.name: Setting(one.name, cast("float | str", one.default), **one.metadata)
    for one in fields(Thresholds)
    if one.metadata
}
"""Everything that may be set, by name, in the order in which it is shown."""


def with_settings(texts: Iterable[str], values: Thresholds | None = None) -> Thresholds:
    """`values` (the defaults) changed by texts such as `overhead_ratio=1.3`; raises ConfigErrors with all problems."""
    changes: dict[str, Any] = {}
    problems: list[ConfigError] = []
    for text in texts:
        name, equals, given = text.partition("=")
        name = name.strip()
        if not equals or name not in SETTINGS:
            problem = f"'{text}' is not NAME=VALUE" if not equals else f"there is no '{name}' to set"
            problems.append(ConfigError(problem, where="--set", remedy="`tde-exporter bundle alerts --list` names all"))
            continue
        try:
            changes[name] = SETTINGS[name].parse(given.strip())
        except ConfigError as error:
            problems.append(error)
    if problems:
        raise ConfigErrors(problems)
    return replace(values or Thresholds(), **changes)


def duration(seconds: float) -> str:
    """A duration as PromQL writes it, exact to a millisecond: `90m`, `1h30m`, `500ms`; at least 1 ms unless 0."""
    if seconds <= 0:
        return "0s"
    left, found = max(1, round(seconds * 1000)), ""
    for letters, size in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)):
        number, left = divmod(left, size)
        found += f"{number}{letters}" if number else ""
    return found


def threshold_label(ratio: float) -> str:
    """The value of the label `threshold`, as the exporter writes it: `1.2`, `2.0`."""
    return str(float(ratio))
