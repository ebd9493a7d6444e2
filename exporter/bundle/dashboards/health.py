"""Exporter health: is the monitor itself working?"""

from __future__ import annotations

from exporter.bundle.dashboards.board import Board, Place, Row, asked
from exporter.bundle.dashboards.health_inside import PROCESS, TRUTH
from exporter.bundle.dashboards.health_shares import SHARES
from exporter.bundle.dashboards.limits import SILENT_SECONDS, SILENT_SECONDS_SOON
from exporter.bundle.dashboards.palette import (
    BAD,
    BLUE,
    DASHED,
    GOOD,
    GREY,
    ORANGE,
    PINK,
    PURPLE,
    REASONS,
    TEAL,
    VERMILION,
    Word,
    steps,
)
from exporter.bundle.dashboards.panels import LAST, Query, Style, stat, timeseries
from exporter.bundle.dashboards.queries import INSTANCE, JOB, RATE

_DATABASES = f'{INSTANCE},target=~"$target"'

UP = (Word("", 1, "UP", GOOD), Word("", 0, "DOWN", BAD))

COLLECTORS = {
    "canary": ORANGE,
    "encryption_state": BLUE,
    "inventory": PURPLE,
    "activity": TEAL,
    "standby": PINK,
    "heartbeat": GREY,
}

SKIPS = {"busy": BLUE, "missed": ORANGE, "budget": PURPLE, "back_off": TEAL, "abandoned": VERMILION}

STATUS = Row(
    1,
    "Is it working?",
    (
        Place(
            10,
            4,
            4,
            stat(
                "Exporter",
                "Whether Prometheus can scrape all exporters that are selected.",
                "DOWN: at least one does not answer, and nothing that it measures is known.",
                [Query(f"min(up{{{INSTANCE}}})", "exporter")],
                "none",
                words=UP,
                none="NOT SCRAPED",
            ),
        ),
        Place(
            11,
            4,
            4,
            stat(
                "Probe processes",
                "Whether all processes that measure run and report.",
                "DOWN: the databases of one process are not measured now; it is started again by itself.",
                [Query(f"min(tde_exporter_probe_process_up{{{INSTANCE}}})", "processes")],
                "none",
                words=UP,
                none="NOT KNOWN",
            ),
        ),
        Place(
            12,
            4,
            4,
            stat(
                "Failing collectors",
                "Collectors whose last run failed or is overdue, over all databases.",
                "Should be 0; the graph below says which, the page of the exporter why.",
                [Query(f"sum(tde_exporter_collector_success{{{INSTANCE}}} == bool 0)", "failing")],
                "none",
                decimals=0,
                none="no collector has run",
                thresholds=steps(BLUE, (1, VERMILION)),
            ),
        ),
        Place(
            13,
            4,
            4,
            stat(
                "Oldest success",
                "How long ago the canary that has been silent for longest last succeeded.",
                "Rare operations, such as full scans, are silent for minutes by design.",
                [
                    Query(
                        f"time() - min(max by (target, pair, operation) (tde_canary_last_success_timestamp_seconds{{{INSTANCE}}}))",
                        "age",
                    )
                ],
                "s",
                decimals=0,
                none="no canary yet",
                thresholds=steps(BLUE, (SILENT_SECONDS_SOON, ORANGE), (SILENT_SECONDS, VERMILION)),
            ),
        ),
        Place(
            14,
            4,
            4,
            stat(
                "Page samples",
                "How many samples one scrape brings, over all exporters that are selected.",
                "Some 300 for each database. Samples refused, in the graph below, means that the cap was reached.",
                [Query(f"sum(tde_exporter_series{{{INSTANCE}}})", "samples")],
                "none",
                decimals=0,
                none="not scraped",
            ),
        ),
        Place(
            15,
            4,
            4,
            stat(
                "Version",
                "Versions of the exporters that are selected.",
                "More than one: an upgrade is not complete.",
                [Query(f"count by (version) (tde_exporter_build_info{{{INSTANCE}}})", "{{version}}")],
                "none",
                none="not scraped",
                text="name",
            ),
        ),
    ),
)

WORK = Row(
    2,
    "Measuring",
    (
        Place(
            20,
            12,
            8,
            timeseries(
                "Duration of collectors",
                "What the last run of each collector took, the slowest of all databases.",
                "Must stay well below the interval of the collector; otherwise runs are skipped as busy.",
                [
                    Query(
                        f"max by (collector) (tde_exporter_collector_duration_seconds{{{_DATABASES}}})", "{{collector}}"
                    )
                ],
                "s",
                none="no collector has run",
                low=0,
                styles=[Style(name, colour) for name, colour in COLLECTORS.items()],
                calcs=LAST,
            ),
        ),
        Place(
            21,
            12,
            8,
            timeseries(
                "Failing by collector",
                "How many databases each collector fails or is overdue for.",
                "All collectors of one database: it cannot be reached. One collector everywhere: a right is missing, most"
                " likely.",
                [
                    Query(
                        f"sum by (collector) (tde_exporter_collector_success{{{_DATABASES}}} == bool 0)",
                        "{{collector}}",
                    )
                ],
                "none",
                none="no collector has run",
                decimals=0,
                low=0,
                styles=[Style(name, colour) for name, colour in COLLECTORS.items()],
                steps_of=True,
                shown=(None, 1),
                calcs=LAST,
            ),
        ),
        Place(
            22,
            12,
            8,
            timeseries(
                "Age of the last success",
                "How long ago each collector last succeeded, the oldest of all databases.",
                "A sawtooth as high as the interval is right; a line that climbs is a collector that fails.",
                [
                    Query(
                        f"time() - min by (collector) (tde_exporter_collector_last_success_timestamp_seconds{{{_DATABASES}}})",
                        "{{collector}}",
                    )
                ],
                "s",
                none="no collector has succeeded",
                low=0,
                styles=[Style(name, colour) for name, colour in COLLECTORS.items()],
                calcs=LAST,
            ),
        ),
        Place(
            23,
            12,
            8,
            timeseries(
                "Runs that were skipped, by reason",
                "Planned runs in a minute that did not happen: busy (the one before had not ended), missed (the time had"
                " passed), budget (no canary time left), back off (a connection failed), abandoned (a call never ended).",
                "budget is the limit doing its work: samples become fewer. The others should be near 0.",
                [
                    Query(
                        f"sum by (reason) (rate(tde_exporter_runs_skipped_total{{{INSTANCE}}}[{RATE}])) * 60",
                        "{{reason}}",
                    )
                ],
                "cpm",
                none="not known",
                low=0,
                styles=[Style(name, colour) for name, colour in SKIPS.items()],
                shown=(None, 1),
                bars=True,
                calcs=LAST,
            ),
        ),
        Place(
            24,
            12,
            8,
            timeseries(
                "Budgets in use, worst database",
                "The highest share in use of each budget over all databases, and the highest share of time spent.",
                "At 100 % of time or bytes, canary queries of that database are put off.",
                [Query(f"max by (budget) (tde_canary_budget_used_ratio{{{_DATABASES}}})", "{{budget}}")],
                "percentunit",
                none="not known",
                low=0,
                high=1,
                styles=[
                    Style("time", BLUE),
                    Style("bytes_read", ORANGE),
                    Style("bytes_written", PURPLE),
                    Style("sessions", GREY, {"lineStyle": DASHED}),
                ],
                calcs=LAST,
            ),
        ),
        Place(
            25,
            12,
            8,
            timeseries(
                "Sessions that failed, by reason",
                "Sessions in a minute that could not be opened or were lost, over all databases.",
                "auth: a secret is wrong, and is not tried again until it changes. timeout, connect: the network.",
                [
                    Query(
                        f"sum by (reason) (rate(tde_target_connection_errors_total{{{_DATABASES}}}[{RATE}])) * 60",
                        "{{reason}}",
                    )
                ],
                "cpm",
                none="not known",
                low=0,
                styles=[Style(reason, colour) for reason, colour in REASONS.items()],
                shown=(None, 1),
                bars=True,
                calcs=LAST,
            ),
        ),
    ),
)


def health() -> Board:
    """The exporters themselves."""
    return Board(
        "tde-exporter",
        "TDE / Exporter health",
        "Is the monitor itself working, and how true is what it measures?",
        [
            JOB,
            asked("instance", "Instance", 'label_values(tde_exporter_build_info{job=~"$job"}, instance)', several=True),
            asked("target", "Target", f"label_values(tde_target_up{{{INSTANCE}}}, target)", several=True),
        ],
        rows=[STATUS, WORK, SHARES, TRUTH, PROCESS],
    )
