"""What the lines and colours of the dashboards are drawn at; the alerts have limits of their own, with these defaults."""

from __future__ import annotations

BUDGET = 0.2
"""Overhead that is a matter for a ticket, as a share: encrypted / plain - 1."""

CPU = 0.85
"""Share of a host's processors in use."""

LAG_SECONDS = 60.0
"""By how much a standby may lag without being called behind."""

KEY_DAYS_SOON, KEY_DAYS = 330.0, 365.0
"""Age of a master key."""

SILENT_SECONDS_SOON, SILENT_SECONDS = 300.0, 900.0
"""How long ago the last canary query that succeeded may be."""
