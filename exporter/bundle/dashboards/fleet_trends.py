"""Fleet overview, how it came about: the same numbers over time."""

from __future__ import annotations

from exporter.bundle.dashboards.board import Place, Row
from exporter.bundle.dashboards.limits import BUDGET, CPU, LAG_SECONDS
from exporter.bundle.dashboards.palette import VERDICTS
from exporter.bundle.dashboards.panels import LAST, Query, Style, timeseries
from exporter.bundle.dashboards.queries import coverage, lag

CHOSEN = 'job=~"$job",engine=~"$engine",target=~"$target"'
P99 = f'{CHOSEN},percentile="99",window="1h"'
"""Selectors of the databases that are chosen, and of their ratios at P99."""

_SHADES = {
    "no_data": {"fillOpacity": 75},
    "held": {"fillOpacity": 60},
    "blind": {"fillOpacity": 45},
    "warming": {"fillOpacity": 30},
    "certifying": {"fillOpacity": 15},
}
"""What is grey alike is told apart by how dense it is."""

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
                [Query(f"max by (target) (tde_overhead_ratio{{{P99}}}) - 1", "{{target}}")],
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
                        f' (tde_overhead_state{{{CHOSEN},state="{word.state}"}}))',
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
                [Query(f"max by (target) (tde_encryption_cpu_cores_estimate{{{CHOSEN}}})", "{{target}}")],
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
                [Query(f"max by (target) (tde_host_cpu_utilization_ratio{{{CHOSEN}}})", "{{target}}")],
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
                [Query(coverage(CHOSEN, "target"), "{{target}}")],
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
                [Query(f"max by (target) {lag(CHOSEN)}", "{{target}}")],
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
