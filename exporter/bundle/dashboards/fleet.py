"""Fleet overview: all databases on one page, to see which one to open."""

from __future__ import annotations

from exporter.bundle.dashboards.board import Board, Place, Row, asked
from exporter.bundle.dashboards.fleet_trends import CHOSEN, P99, TRENDS
from exporter.bundle.dashboards.limits import CPU, KEY_DAYS, KEY_DAYS_SOON
from exporter.bundle.dashboards.palette import (
    BAD,
    BLUE,
    DOUBT,
    KEYSTORES,
    ORANGE,
    TRANSPARENT,
    VERDICTS,
    VERMILION,
    YES_OR_NO,
    quiet,
    steps,
)
from exporter.bundle.dashboards.panels import Query, stat
from exporter.bundle.dashboards.queries import JOB, STANDBYS, coverage, event_marks, keystore, lag, standbys, verdict
from exporter.bundle.dashboards.tables import Column, table

_COUNT = steps(BLUE, (1, VERMILION))

_FIRING = 'ALERTS{alertname=~"TDE.+",alertstate="firing",severity!="none"}'

STATUS = Row(
    1,
    "Fleet",
    (
        Place(
            10,
            4,
            4,
            stat(
                "Reachable",
                "Databases that the exporter can use now, as a share of those it knows about.",
                "Below 100 %: see the column Reachable. A database whose exporter is down is not counted at all: see Exporter"
                " health.",
                [
                    Query(
                        f"sum(max by (job, target) (tde_target_up{{{CHOSEN}}})) / count(max by (job, target) (tde_target_up{{{CHOSEN}}}))",
                        "reachable",
                    )
                ],
                "percentunit",
                decimals=0,
                none="no exporter",
                thresholds=steps(VERMILION, (1, BLUE)),
            ),
        ),
        Place(
            11,
            4,
            4,
            stat(
                "Over budget",
                "Databases of which some operation costs more than the budget of 20 % by sequential evidence.",
                "Each of them has an alert. 0 does not say that all are within budget: some may be undecided or blind.",
                [Query(f"sum(max by (job, target) (tde_overhead_breach{{{CHOSEN}}}))", "over budget")],
                "none",
                decimals=0,
                none="nothing judged yet",
                thresholds=_COUNT,
            ),
        ),
        Place(
            12,
            4,
            4,
            stat(
                "Keystores not open",
                "Keystores whose state is known to be anything but open, or is unknown.",
                "Must be 0: behind a keystore that is not open lies data that cannot be read, at the latest after a restart.",
                [
                    Query(
                        f'sum(max by (job, target, keystore) (tde_keystore_state{{{CHOSEN},state="open"}}) == bool 0)',
                        "not open",
                    )
                ],
                "none",
                decimals=0,
                none="no keystore read",
                thresholds=_COUNT,
            ),
        ),
        Place(
            13,
            4,
            4,
            stat(
                "Encrypted objects",
                "Encrypted objects as a share of all objects in the inventories, those of unknown state included.",
                "It should only grow. Plain twins of the canaries count as plain.",
                [Query(coverage(CHOSEN), "encrypted")],
                "percentunit",
                decimals=1,
                none="no inventory",
                thresholds=steps(BLUE),
            ),
        ),
        Place(
            14,
            4,
            4,
            stat(
                "Oldest master key",
                "Days since the oldest active master key of all databases was activated.",
                "Orange from 330 days, vermilion from 365: time to rotate, if your policy is a year.",
                [Query(f"(time() - min(tde_master_key_activation_timestamp_seconds{{{CHOSEN}}})) / 86400", "age")],
                "suffix: d",
                decimals=0,
                none="not known",
                thresholds=steps(BLUE, (KEY_DAYS_SOON, ORANGE), (KEY_DAYS, VERMILION)),
            ),
        ),
        Place(
            15,
            4,
            4,
            stat(
                "Alerts firing",
                "Alerts about encryption that fire now in this Prometheus, the watchdog not counted.",
                "Empty: the rules are not loaded there, for the watchdog fires always.",
                [Query(f'count({_FIRING}) or count(ALERTS{{alertname=~"TDE.+"}}) * 0', "firing")],
                "none",
                decimals=0,
                none="no rules loaded",
                thresholds=_COUNT,
            ),
        ),
    ),
)

_KEY = "target, engine"

_QUERIES = [
    f"max by ({_KEY}) (tde_target_up{{{CHOSEN}}})",
    verdict(CHOSEN, _KEY),
    f"max by ({_KEY}) (tde_overhead_ratio{{{P99}}}) - 1",
    f"max by ({_KEY}) (tde_overhead_ratio_lower{{{P99}}}) - 1",
    keystore(CHOSEN, _KEY),
    coverage(CHOSEN, _KEY),
    standbys(CHOSEN, _KEY),
    f"max by ({_KEY}) {lag(CHOSEN)}",
    f"max by ({_KEY}) (tde_host_cpu_utilization_ratio{{{CHOSEN}}})",
    f"max by ({_KEY}) (tde_encryption_cpu_cores_estimate{{{CHOSEN}}})",
    f"(time() - min by ({_KEY}) (tde_master_key_activation_timestamp_seconds{{{CHOSEN}}})) / 86400",
]

_LINK = (
    "Open target detail",
    "/d/tde-target?${job:queryparam}&var-target=${__value.raw}&${__url_time_range}",
)

_COLUMNS = [
    Column("target", "Target", 110, link=_LINK),
    Column("engine", "Engine", 75),
    Column("Value #A", "Reachable", 85, "none", words=quiet(YES_OR_NO)),
    Column("Value #B", "Verdict", 135, "none", words=VERDICTS),
    Column("Value #C", "Worst P99", 90, "percentunit", 1),
    Column("Value #D", "At least", 75, "percentunit", 1),
    Column("Value #E", "Keystore", 90, "none", words=quiet(KEYSTORES)),
    Column("Value #F", "Encrypted", 85, "percentunit", 1),
    Column("Value #G", "Standbys", 115, "none", words=quiet(STANDBYS)),
    Column("Value #H", "Worst lag", 85, "s", 1),
    Column("Value #I", "Host CPU", 80, "percentunit", 0, thresholds=steps(TRANSPARENT, (CPU, BAD))),
    Column("Value #J", "CPUs for TDE", 105, "none", 2),
    Column(
        "Value #K",
        "Key age",
        75,
        "suffix: d",
        0,
        thresholds=steps(TRANSPARENT, (KEY_DAYS_SOON, DOUBT), (KEY_DAYS, BAD)),
    ),
]

DATABASES = Row(
    2,
    "Each database",
    (
        Place(
            20,
            24,
            9,
            table(
                "Databases",
                "One row for each database, with the worst of all its pairs and operations over the last hour. Click a target"
                " to open it.",
                "Verdict: OVER BUDGET or UNDECIDED if any operation is; WITHIN BUDGET if one is and none is worse, though"
                " others may be blind. Worst P99 is no fact without its lower bound, At least. – is unknown or not there.",
                _QUERIES,
                _COLUMNS,
                order=("Worst P99", True),
                none="no database is seen yet",
            ),
        ),
    ),
)


def fleet() -> Board:
    """All databases."""
    return Board(
        "tde-fleet",
        "TDE / Fleet overview",
        "All monitored databases: is encryption on, healthy and within its budget?",
        [
            JOB,
            asked("engine", "Engine", 'label_values(tde_target_up{job=~"$job"}, engine)', several=True),
            asked(
                "target", "Target", 'label_values(tde_target_up{job=~"$job",engine=~"$engine"}, target)', several=True
            ),
        ],
        rows=[STATUS, DATABASES, TRENDS],
        annotations=event_marks('job=~"$job",target=~"$target"'),
    )
