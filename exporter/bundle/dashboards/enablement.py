"""Enablement comparison: before and after an event that was marked or detected."""

from __future__ import annotations

from typing import Any

from exporter.bundle.dashboards.board import Board, Place, Row, asked, chosen
from exporter.bundle.dashboards.enablement_around import BEFORE, DATABASE
from exporter.bundle.dashboards.limits import BUDGET
from exporter.bundle.dashboards.palette import BLUE, DASHED, GREY, ORANGE, VERDICTS, steps
from exporter.bundle.dashboards.panels import LAST, Panel, Query, Style, band, stat, timeseries
from exporter.bundle.dashboards.queries import JOB, OPERATION, PAIR, TARGET, event_marks, verdict
from exporter.bundle.dashboards.tables import Column, table

_SELECTED = f'{OPERATION},percentile="$percentile",window="1h"'

KINDS = ("enablement", "rekey", "algorithm_change", "keystore_migration", "upgrade", "switchover", "restart", "other")


def _all_operations() -> Panel:
    at = f'{PAIR},percentile="$percentile"'
    hour = f'{at},window="1h"'

    def ratio(metric: str) -> str:
        return f"max by (operation) ({metric}{{{hour}}}) - 1"

    return table(
        "All operations at P$percentile",
        "Latency of the encrypted twin in the baseline and now, and the change: raw, control, adjusted with its bounds.",
        "Trust the adjusted one, with its bounds. – is not known, or has too few samples.",
        [
            f'max by (operation) (tde_baseline_latency_seconds{{{at},variant="encrypted"}})',
            f'max by (operation) (tde_canary_latency_seconds{{{hour},variant="encrypted"}})',
            ratio("tde_baseline_raw_ratio"),
            ratio("tde_baseline_control_ratio"),
            ratio("tde_baseline_overhead_ratio"),
            ratio("tde_baseline_overhead_ratio_lower"),
            ratio("tde_baseline_overhead_ratio_upper"),
            verdict(PAIR, "operation"),
        ],
        [
            Column("operation", "Operation", 150),
            Column("Value #A", "Baseline", 110, "s", 2),
            Column("Value #B", "Now", 110, "s", 2),
            Column("Value #C", "Raw", 100, "percentunit", 1),
            Column("Value #D", "Control", 100, "percentunit", 1),
            Column("Value #E", "Adjusted", 110, "percentunit", 1),
            Column("Value #F", "At least", 100, "percentunit", 1),
            Column("Value #G", "At most", 100, "percentunit", 1),
            Column("Value #H", "Verdict", 160, "none", words=VERDICTS),
        ],
        order=("Adjusted", True),
        none="no baseline of this event, or nothing is measured yet",
    )


ANSWER = Row(
    1,
    "$kind: $operation on pair $pair",
    (
        Place(
            10,
            4,
            5,
            stat(
                "When it happened",
                "The newest event of the selected kind, marked by an operator or detected.",
                "The dashed marks in the graphs are events; their kinds can be switched on and off above.",
                [Query(f'max(tde_event_timestamp_seconds{{{TARGET},kind="$kind"}}) * 1000', "event")],
                "dateTimeFromNow",
                none="no such event",
            ),
        ),
        Place(
            11,
            4,
            5,
            stat(
                "Baseline frozen",
                "When the baseline that the selected pair is compared with was frozen.",
                "It should be just before the event. Without a baseline only the comparison of the twins is left; see the"
                " documentation of baselines.",
                [Query(f"max(tde_baseline_timestamp_seconds{{{PAIR}}}) * 1000", "baseline")],
                "dateTimeFromNow",
                none="no baseline",
            ),
        ),
        Place(
            12,
            7,
            5,
            stat(
                "Change since the baseline",
                "Encrypted now / encrypted in the baseline - 1 at the selected percentile, adjusted by the plain twin, with the"
                " bounds of its 95 % interval: what both twins suffered cancels.",
                "With a baseline of two plain twins this is what encryption costs. Bounds on both sides of 0 %: no change has"
                " been shown.",
                [
                    Query(f"max(tde_baseline_overhead_ratio_lower{{{_SELECTED}}}) - 1", "at least"),
                    Query(f"max(tde_baseline_overhead_ratio{{{_SELECTED}}}) - 1", "adjusted"),
                    Query(f"max(tde_baseline_overhead_ratio_upper{{{_SELECTED}}}) - 1", "at most"),
                ],
                "percentunit",
                decimals=1,
                none="not known",
                text="value_and_name",
                thresholds=steps(GREY),
                styles=[Style("adjusted", properties={"thresholds": steps(BLUE)})],
            ),
        ),
        Place(
            13,
            5,
            5,
            stat(
                "Not by encryption",
                "Plain now / plain in the baseline - 1 (control): what changed without any encryption; and the same of the"
                " encrypted twin without adjustment (raw).",
                "Control far from 0 %: the workload or the machine changed, and raw tells of that, not of encryption.",
                [
                    Query(f"max(tde_baseline_control_ratio{{{_SELECTED}}}) - 1", "control"),
                    Query(f"max(tde_baseline_raw_ratio{{{_SELECTED}}}) - 1", "raw"),
                ],
                "percentunit",
                decimals=1,
                none="not known",
                text="value_and_name",
                thresholds=steps(GREY),
            ),
        ),
        Place(
            14,
            4,
            5,
            stat(
                "Verdict now",
                "The exporter's own word about the selected operation, encrypted against plain twin.",
                "As on Target detail. The baseline has a detector of its own, whose breach is in the verdict.",
                [Query(verdict(OPERATION), "verdict")],
                "none",
                words=VERDICTS,
                none="NO VERDICT YET",
            ),
        ),
    ),
)

COMPARED = Row(
    2,
    "Against the baseline",
    (
        Place(
            20,
            16,
            9,
            timeseries(
                "Adjusted, raw and control at P$percentile",
                "Now against the baseline over the last hour: adjusted with its 95 % interval, raw (encrypted twin) and control"
                " (plain twin). Dashed line: 20 %.",
                "Raw and control rising together with a flat adjusted: the load changed, not encryption. Adjusted alone"
                " rising: encryption, or something else that touches one twin only.",
                [
                    Query(f"max(tde_baseline_overhead_ratio_lower{{{_SELECTED}}}) - 1", "at least"),
                    Query(f"max(tde_baseline_overhead_ratio_upper{{{_SELECTED}}}) - 1", "at most"),
                    Query(f"max(tde_baseline_overhead_ratio{{{_SELECTED}}}) - 1", "adjusted"),
                    Query(f"max(tde_baseline_raw_ratio{{{_SELECTED}}}) - 1", "raw"),
                    Query(f"max(tde_baseline_control_ratio{{{_SELECTED}}}) - 1", "control"),
                ],
                "percentunit",
                none="no baseline, or not enough samples",
                limit=BUDGET,
                shown=(0, BUDGET * 1.2),
                styles=[
                    *band("adjusted"),
                    Style("raw", ORANGE, {"lineWidth": 1}),
                    Style("control", GREY, {"lineStyle": DASHED, "lineWidth": 1}),
                ],
                calcs=LAST,
            ),
        ),
        Place(
            21,
            8,
            9,
            timeseries(
                "Against baseline and against twin",
                "The same overhead by both references at the selected percentile: adjusted against the baseline, and against"
                " the plain twin now.",
                "They should agree. Where they do not, the twins differed before encryption (baseline is right), or differ in"
                " something new (twin is right).",
                [
                    Query(f"max(tde_baseline_overhead_ratio{{{_SELECTED}}}) - 1", "against baseline"),
                    Query(f"max(tde_overhead_ratio{{{_SELECTED}}}) - 1", "against twin"),
                ],
                "percentunit",
                none="no baseline, or not enough samples",
                limit=BUDGET,
                shown=(0, BUDGET * 1.2),
                styles=[Style("against baseline", BLUE), Style("against twin", ORANGE)],
                calcs=LAST,
            ),
        ),
        Place(22, 24, 7, _all_operations()),
    ),
)


def _newest(name: str, label: str, expr: str, picked: str) -> dict[str, Any]:
    """A variable of what `expr` yields, the largest value first; `picked` finds its values in the series."""
    return asked(name, label, f"query_result(sort_desc({expr}))", regex=f"/{picked}/", ordered=False)


def enablement() -> Board:
    """One database before and after an event."""
    happened = f'tde_event_timestamp_seconds{{{TARGET},kind="$kind"}}'
    # Alerts open this dashboard for any database and operation, so all are offered: what has something to compare comes first.
    targets = (
        'max by (target) (tde_event_timestamp_seconds{job=~"$job",kind="$kind"})'
        ' or max by (target) (tde_target_up{job=~"$job"}) * 0'
    )
    # Without any event a moment long ago: queries for it are sound, and yield nothing.
    events = f"round(max by (event) ({happened})) or (vector(0) unless on () {happened})"
    pairs = (
        f"max by (pair) (tde_baseline_timestamp_seconds{{{TARGET}}}) or max by (pair) (tde_canary_tier{{{TARGET}}}) * 0"
    )
    changed = f'max by (operation) (tde_baseline_overhead_ratio{{{PAIR},percentile="$percentile",window="1h"}})'
    operations = f"{changed} or max by (operation) (tde_canary_tier{{{PAIR}}}) * 0"
    return Board(
        "tde-enablement",
        "TDE / Enablement comparison",
        "Before and after encryption was enabled, a key was changed, or anything else that was marked.",
        [
            JOB,
            chosen("kind", "Event", KINDS),
            _newest("target", "Target", targets, 'target="([^"]+)"'),
            _newest("event", "At (Unix time)", events, r" (\d+) "),
            _newest("pair", "Pair", pairs, 'pair="([^"]+)"'),
            chosen("percentile", "Percentile", ["99", "50"]),
            _newest("operation", "Operation", operations, 'operation="([^"]+)"'),
            chosen("span", "Span", ["1h", "6h", "1d", "7d"]),
            chosen("compare", "Compare with", ["1d", "2h", "7d"]),
        ],
        rows=[ANSWER, COMPARED, BEFORE, DATABASE],
        annotations=event_marks(TARGET),
        span="now-12h",
    )
