"""Pieces of PromQL that several panels share. Everything is aggregated: two scrapes of one exporter show as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from exporter.bundle.dashboards.board import asked, marks
from exporter.bundle.dashboards.limits import LAG_SECONDS
from exporter.bundle.dashboards.palette import (
    BAD,
    BLUE,
    DOUBT,
    GOOD,
    GREY,
    KEYSTORES,
    PURPLE,
    SILENT,
    TEAL,
    VERDICTS,
    VERMILION,
    Word,
)

RATE = "$__rate_interval"

JOB = asked("job", "Job", "label_values(tde_target_up, job)", several=True)

TARGET = 'job=~"$job",target="$target"'
INSTANCE = 'job=~"$job",instance=~"$instance"'
PAIR = f'{TARGET},pair="$pair"'
OPERATION = f'{PAIR},operation="$operation"'
"""Selectors of what is chosen at the top of a dashboard about one database."""

EVENTS: Sequence[tuple[str, str, str, bool]] = (
    ("Encryption enabled", "enablement", PURPLE, True),
    ("New key, keystore or algorithm", "rekey|keystore_migration|algorithm_change", TEAL, True),
    ("Switchover", "switchover", BLUE, True),
    ("Restart or upgrade", "restart|upgrade", VERMILION, True),
    ("Other events", "other", GREY, False),
)
"""Name, kinds, colour of the annotations, and whether they are shown at first."""


def event_marks(selector: str) -> list[dict[str, Any]]:
    """What happened to the targets that the selector has, each kind to be switched on and off."""
    return [
        marks(
            name,
            f'max by (target, kind, event) (tde_event_timestamp_seconds{{{selector},kind=~"{kinds}"}}) * 1000',
            colour,
            shown=shown,
        )
        for name, kinds, colour, shown in EVENTS
    ]


def _first_of(metric: str, selector: str, words: Sequence[Word], labels: str) -> str:
    """The code of the first of `words` that any of the series grouped by `labels` is in; nothing when in none."""
    group = f" by ({labels})" if labels else ""
    return " or ".join(f'max{group} ({metric}{{{selector},state="{word.state}"}} == 1) * {word.code}' for word in words)


def verdict(selector: str, labels: str = "") -> str:
    """The code of the word of `VERDICTS` to look at first among those of each group of `labels`."""
    return _first_of("tde_overhead_state", selector, VERDICTS, labels)


def keystore(selector: str, labels: str = "") -> str:
    """The code of the worst word of `KEYSTORES` in each group of `labels`."""
    return _first_of("tde_keystore_state", selector, KEYSTORES, labels)


def lag(selector: str) -> str:
    """Lags without what is set on purpose, each with all its labels. What is received late is never so on purpose."""
    late = f'tde_standby_lag_seconds{{{selector},kind!="transport"}}'
    delay = f"tde_standby_configured_delay_seconds{{{selector}}}"
    delayed = f"{late} - on (job, instance, target, standby, channel) group_left () {delay}"
    return f"(clamp_min({delayed}, 0) or tde_standby_lag_seconds{{{selector}}})"


STANDBYS = (
    Word("", 4, "KEEPING UP", GOOD),
    Word("", 3, "BEHIND", DOUBT),
    Word("", 2, "LAG UNKNOWN", SILENT),
    Word("", 1, "STOPPED", BAD),
    Word("", 0, "KEY MISSING", BAD),
)


def standbys(selector: str, labels: str = "") -> str:
    """The code of the word of `STANDBYS` that tells of the worst standby in each group of `labels`.

    A standby that lacks a key; that does not receive or does not apply; of which no kind of lag is known; that is further
    behind than the limit, not counting a delay set on purpose; else all keep up.
    """
    group = f" by ({labels})" if labels else ""
    kinds = "job, instance, target, engine, standby, channel"
    return " or ".join(
        (
            f"(min{group} (tde_standby_master_key_match{{{selector}}}) == 0)",
            f"(min{group} (tde_standby_apply_running{{{selector}}}) == 0) + 1",
            f"(min{group} (tde_standby_transport_running{{{selector}}}) == 0) + 1",
            f"(min{group} (max by ({kinds}) (tde_standby_lag_known{{{selector}}})) == 0) + 2",
            f"(max{group} {lag(selector)} > bool {LAG_SECONDS:g}) * -1 + 4",
        )
    )


def share(part: str, whole: str) -> str:
    """part / whole, and nothing where the whole is 0."""
    return f"{part} / ({whole} > 0)"


def coverage(selector: str, labels: str = "") -> str:
    """Encrypted objects as a share of all in the inventory, those of unknown state included."""
    group = f" by ({labels})" if labels else ""
    # Where nothing is encrypted the share is 0, and some engines then have no series of that state.
    encrypted = (
        f'(sum{group} (tde_objects{{{selector},state="encrypted"}}) or sum{group} (tde_objects{{{selector}}}) * 0)'
    )
    return share(encrypted, f"sum{group} (tde_objects{{{selector}}})")


def per_run(counter: str, selector: str, labels: str, window: str) -> str:
    """What one canary query adds to a counter on average, over the window."""
    total = f"sum by ({labels}) (rate({counter}{{{selector}}}[{window}]))"
    return share(total, f"sum by ({labels}) (rate(tde_canary_runs_total{{{selector}}}[{window}]))")


def read_latency(selector: str, labels: str) -> str:
    """Mean time of a physical read of the instance."""
    seconds = f"sum by ({labels}) (rate(tde_instance_read_seconds_total{{{selector}}}[{RATE}]))"
    return share(seconds, f"sum by ({labels}) (rate(tde_instance_reads_total{{{selector}}}[{RATE}]))")
