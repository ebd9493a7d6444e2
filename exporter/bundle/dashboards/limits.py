"""Where the dashboards draw their lines and change their colours: the defaults of the alerts, which are the only source."""

from __future__ import annotations

from exporter.bundle.alerts.thresholds import Thresholds, threshold_label

_ALERTS = Thresholds()

THRESHOLD = threshold_label(_ALERTS.overhead_ratio)
"""The label `threshold` of the detector that stands for the budget."""

BUDGET = round(_ALERTS.overhead_ratio - 1.0, 6)
"""Overhead that is a matter for a ticket, as a share: encrypted / plain - 1."""

CPU = _ALERTS.host_cpu_ratio
"""Share of a host's processors in use."""

LAG_SECONDS = _ALERTS.standby_lag_seconds
"""By how much a standby may lag without being called behind."""

KEY_DAYS_SOON, KEY_DAYS = _ALERTS.key_age_notice_days, _ALERTS.key_age_days
"""Age of a master key."""

SILENT_SECONDS_SOON, SILENT_SECONDS = 300.0, _ALERTS.canary_stale_after
"""How long ago the last canary query that succeeded may be."""
