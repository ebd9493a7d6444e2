"""Several exporters that watch one fleet: which has what, and whether two have the same."""

from __future__ import annotations

from exporter.bundle.dashboards.board import Place, Row
from exporter.bundle.dashboards.panels import LAST, Panel, Query, timeseries
from exporter.bundle.dashboards.queries import INSTANCE
from exporter.bundle.dashboards.tables import Column, table


def _shares() -> Panel:
    def of(metric: str) -> str:
        return f"max by (instance) ({metric}{{{INSTANCE}}})"

    return table(
        "What each exporter watches",
        "The share of the configured databases that each exporter has: its shard, and how many databases that is.",
        "Each shard stands here once, from 0 to one less than the number of shards, and Watched adds up to Configured. A shard"
        " that is missing: nobody measures its databases. One that stands here twice measures them twice.",
        [
            of("tde_exporter_shard"),
            of("tde_exporter_shards"),
            of("tde_exporter_targets"),
            of("tde_exporter_configured_targets"),
        ],
        [
            Column("instance", "Exporter", 150),
            Column("Value #A", "Shard", 60, "none", 0),
            Column("Value #B", "Of", 50, "none", 0),
            Column("Value #C", "Watched", 80, "none", 0),
            Column("Value #D", "Configured", 95, "none", 0),
        ],
        across=14,
        order=("Shard", False),
        none="not scraped",
    )


SHARES = Row(
    5,
    "Who watches what",
    (
        Place(27, 14, 8, _shares()),
        Place(
            26,
            10,
            8,
            timeseries(
                "Databases that somebody else writes to",
                "Of how many databases each exporter has not the lock that guards what exporters write there.",
                "Should be 0. More: a database stands in two configurations, or a shard has two replicas; the landing page of"
                " that exporter names the other one.",
                [
                    Query(
                        f'sum by (instance) (tde_exporter_scratch_lock_held{{{INSTANCE},target=~"$target"}} == bool 0)',
                        "{{instance}}",
                    )
                ],
                "none",
                none="nothing is written anywhere",
                decimals=0,
                low=0,
                steps_of=True,
                shown=(None, 1),
                calcs=LAST,
            ),
        ),
    ),
)
