"""Fleet overview: all databases on one page, to see which one to open."""

from __future__ import annotations

from exporter.bundle.dashboards.board import Board, Place, Row, asked
from exporter.bundle.dashboards.limits import BUDGET, CPU, KEY_DAYS, KEY_DAYS_SOON, LAG_SECONDS
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
from exporter.bundle.dashboards.panels import LAST, Column, Query, Style, stat, table, timeseries
from exporter.bundle.dashboards.queries import JOB, STANDBYS, coverage, event_marks, keystore, lag, standbys, verdict

_CHOSEN = 'job=~"$job",engine=~"$engine",target=~"$target"'


_P99 = f'{_CHOSEN},percentile="99",window="1h"'


_COUNT = steps(BLUE, (1, VERMILION))


_SHADES = {
    "no_data": {"fillOpacity": 75},
    "held": {"fillOpacity": 60},
    "blind": {"fillOpacity": 45},
    "warming": {"fillOpacity": 30},
    "certifying": {"fillOpacity": 15},
}


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
                        f"sum(max by (job, target) (tde_target_up{{{_CHOSEN}}})) / count(max by (job, target) (tde_target_up{{{_CHOSEN}}}))",
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
                [Query(f"sum(max by (job, target) (tde_overhead_breach{{{_CHOSEN}}}))", "over budget")],
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
                        f'sum(max by (job, target, keystore) (tde_keystore_state{{{_CHOSEN},state="open"}}) == bool 0)',
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
                [Query(coverage(_CHOSEN), "encrypted")],
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
                [Query(f"(time() - min(tde_master_key_activation_timestamp_seconds{{{_CHOSEN}}})) / 86400", "age")],
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
    f"max by ({_KEY}) (tde_target_up{{{_CHOSEN}}})",
    verdict(_CHOSEN, _KEY),
    f"max by ({_KEY}) (tde_overhead_ratio{{{_P99}}}) - 1",
    f"max by ({_KEY}) (tde_overhead_ratio_lower{{{_P99}}}) - 1",
    keystore(_CHOSEN, _KEY),
    coverage(_CHOSEN, _KEY),
    standbys(_CHOSEN, _KEY),
    f"max by ({_KEY}) {lag(_CHOSEN)}",
    f"max by ({_KEY}) (tde_host_cpu_utilization_ratio{{{_CHOSEN}}})",
    f"max by ({_KEY}) (tde_encryption_cpu_cores_estimate{{{_CHOSEN}}})",
    f"(time() - min by ({_KEY}) (tde_master_key_activation_timestamp_seconds{{{_CHOSEN}}})) / 86400",
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


TRENDS = Row(
    3,
    "Trends",
    (
        Place(
            30,
            12,
            8,
            timeseries(
                "Worst overhead at P99",
                "The highest overhead at P99 over the last hour of each database, of all its pairs and operations. Dashed: the"
                " budget of 20 %.",
                "Vermilion lines are above the budget now; whether that is certain is in the column Verdict.",
                [Query(f"max by (target) (tde_overhead_ratio{{{_P99}}}) - 1", "{{target}}")],
                "percentunit",
                none="not enough samples",
                limit=BUDGET,
                marked=True,
                legend="right",
                calcs=LAST,
            ),
        ),
        Place(
            31,
            12,
            8,
            timeseries(
                "Operations by verdict",
                "How many operations of all pairs are in which state.",
                "Blue: within budget. Amber: undecided. Vermilion: over budget. Grey: nothing can be said, for the reason in"
                " the legend.",
                [
                    Query(
                        f"sum(max by (job, target, pair, operation)"
                        f' (tde_overhead_state{{{_CHOSEN},state="{word.state}"}}))',
                        word.text.lower(),
                    )
                    for word in VERDICTS
                ],
                "none",
                none="nothing judged yet",
                decimals=0,
                low=0,
                styles=[Style(word.text.lower(), word.colour, _SHADES.get(word.state, {})) for word in VERDICTS],
                stacked=True,
                steps_of=True,
                legend="right",
                calcs=LAST,
            ),
        ),
        Place(
            32,
            12,
            8,
            timeseries(
                "Processors that encryption uses",
                "Estimate of the processors that encryption uses in each database: its decrypts and encrypts per second times"
                " the cost of one.",
                "0.5 means half a processor. Its bounds are on the page of the database.",
                [Query(f"max by (target) (tde_encryption_cpu_cores_estimate{{{_CHOSEN}}})", "{{target}}")],
                "none",
                none="no decrypts, or their cost not known",
                decimals=2,
                low=0,
                legend="right",
                calcs=LAST,
            ),
        ),
        Place(
            33,
            12,
            8,
            timeseries(
                "Host CPU",
                "Share of the processors of each database's host in use. Dashed: 85 %.",
                "Vermilion lines are above 85 % now: there every percent of encryption becomes waiting time.",
                [Query(f"max by (target) (tde_host_cpu_utilization_ratio{{{_CHOSEN}}})", "{{target}}")],
                "percentunit",
                none="not known for these hosts",
                limit=CPU,
                low=0,
                high=1,
                marked=True,
                legend="right",
                calcs=LAST,
            ),
        ),
        Place(
            34,
            12,
            8,
            timeseries(
                "Encrypted objects over time",
                "Encrypted objects of each database as a share of all objects in its inventory.",
                "Lines climb while objects are converted. One that falls is encryption lost, or new objects in the clear.",
                [Query(coverage(_CHOSEN, "target"), "{{target}}")],
                "percentunit",
                none="no inventory",
                low=0,
                high=1,
                legend="right",
                calcs=LAST,
            ),
        ),
        Place(
            35,
            12,
            8,
            timeseries(
                "Worst standby lag",
                "The longest lag of each database's standbys, of any kind, without a delay that is set on purpose. Dashed: one"
                " minute.",
                "Vermilion lines are behind now. A gap is unknown, not 0.",
                [Query(f"max by (target) {lag(_CHOSEN)}", "{{target}}")],
                "s",
                none="no standby",
                limit=LAG_SECONDS,
                low=0,
                marked=True,
                legend="right",
                calcs=LAST,
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
