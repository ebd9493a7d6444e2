"""Target detail, what it costs: the interval of the overhead, all operations, evidence and latencies."""

from __future__ import annotations

from exporter.bundle.dashboards.board import Place, Row
from exporter.bundle.dashboards.limits import BUDGET, THRESHOLD
from exporter.bundle.dashboards.palette import (
    BLUE,
    DASHED,
    ENCRYPTED,
    GREY,
    LIMIT,
    ORANGE,
    PLAIN,
    PURPLE,
    VERDICTS,
    Word,
)
from exporter.bundle.dashboards.panels import LAST, Panel, Query, Style, band, timeline, timeseries
from exporter.bundle.dashboards.queries import OPERATION, PAIR, verdict
from exporter.bundle.dashboards.tables import Column, table

_SELECTED = f'{OPERATION},percentile="$percentile",window="$window"'


def _all_operations() -> Panel:
    def ratio(percentile: str, side: str = "") -> str:
        return f'max by (operation) (tde_overhead_ratio{side}{{{PAIR},percentile="{percentile}",window="$window"}}) - 1'

    queries = [
        verdict(PAIR, "operation"),
        ratio("50"),
        ratio("$percentile"),
        ratio("$percentile", "_lower"),
        ratio("$percentile", "_upper"),
        f'max by (operation) (tde_overhead_cpu_ratio{{{PAIR},window="$window"}}) - 1',
        f'min by (operation) (tde_overhead_samples{{{PAIR},window="$window"}})',
        f'max by (operation) (tde_canary_cold_ratio{{{PAIR},variant="encrypted"}})',
        f"max by (operation) (tde_canary_tier{{{PAIR}}})",
        f"max by (operation) (tde_canary_boosted{{{PAIR}}})",
        f"max by (operation) (tde_overhead_order_bias_ratio{{{PAIR}}}) - 1",
        f"max by (operation) (tde_canary_blind{{{PAIR}}})",
    ]
    columns = [
        Column("operation", "Operation", 130, link=_same_with_operation()),
        Column("Value #A", "Verdict", 140, "none", words=VERDICTS),
        Column("Value #B", "P50", 65, "percentunit", 1),
        Column("Value #C", "Overhead", 85, "percentunit", 1),
        Column("Value #D", "At least", 75, "percentunit", 1),
        Column("Value #E", "At most", 75, "percentunit", 1),
        Column("Value #F", "CPU", 65, "percentunit", 1),
        Column("Value #G", "Samples", 75, "none", 0),
        Column("Value #H", "Storage", 70, "percentunit", 0),
        Column("Value #L", "Decrypted", 90, "none", words=SEEN, plain=True),
        Column("Value #I", "Tier", 115, "none", words=TIERS, plain=True),
        Column("Value #J", "Sampling", 80, "none", words=BOOSTS, plain=True),
        Column("Value #K", "Order bias", 85, "percentunit", 1),
    ]
    return table(
        "All operations of the pair at P$percentile",
        "Each canary operation with its verdict, its overhead at P50 and at the selected percentile with bounds, its CPU"
        " overhead, and what it rests on. Click an operation to select it.",
        "Storage: share of the encrypted runs that had to read. Decrypted: whether any went through the cipher. Tier says what can be decided at this rate. Boosted:"
        " more samples are taken, for the evidence is near a decision. Order bias far from 0 %: the order of the queries"
        " decides, not encryption. – is not known.",
        queries,
        columns,
        order=("Operation", False),
        none="no operation is measured yet",
    )


TIERS = (
    Word("", 1, "P99 in an hour", BLUE),
    Word("", 2, "P99 in a day", BLUE),
    Word("", 3, "P50 only", GREY),
)

SEEN = (Word("", 1, "nothing", GREY), Word("", 0, "yes", BLUE))
BOOSTS = (Word("", 1, "boosted", ORANGE), Word("", 0, "normal", GREY))


def _same_with_operation() -> tuple[str, str]:
    return (
        "Select this operation",
        "/d/tde-target?${job:queryparam}&${target:queryparam}&${pair:queryparam}&${percentile:queryparam}"
        "&${window:queryparam}&var-operation=${__value.raw}&${__url_time_range}",
    )


def _evidence() -> Panel:
    labels = "percentile, reference, threshold"
    chosen_detector = f'threshold="{THRESHOLD}"'
    return timeseries(
        "Evidence for a breach, and what suffices",
        "Sequential evidence, as a power of ten, that the encrypted side is slower than the twin (plain), or than before"
        " (baseline), by more than 20 %. It may be looked at all the time without more false alarms.",
        "A line that reaches the dashed one of its percentile is a breach: the verdict says OVER BUDGET, the alert fires,"
        " and the evidence begins anew. Below 0 there is none.",
        [
            Query(
                f"max by ({labels}) (tde_overhead_evidence{{{OPERATION},{chosen_detector}}})",
                "P{{percentile}} {{reference}}",
            ),
            Query(
                f'max by (percentile) (tde_overhead_evidence_threshold{{job=~"$job",{chosen_detector},reference="plain"}})',
                "P{{percentile}} suffices",
            ),
            Query(f"max(tde_overhead_breach{{{OPERATION}}} == 1) * 0", "breach lasts"),
        ],
        "none",
        none="no evidence gathered",
        decimals=1,
        low=-3,
        styles=[
            Style("/^P99/", ENCRYPTED),
            Style("/^P95/", PURPLE),
            Style("/^P50/", PLAIN),
            Style("/baseline$/", properties={"lineWidth": 1}),
            Style("/suffices$/", properties={"lineStyle": DASHED, "lineWidth": 1}),
            Style("breach lasts", LIMIT, {"lineWidth": 6}),
        ],
    )


COST = Row(
    2,
    "What it costs: $operation on pair $pair",
    (
        Place(
            20,
            16,
            9,
            timeseries(
                "Overhead at P$percentile with its 95 % interval",
                "Encrypted / plain - 1 at the selected percentile over the selected window; the band is its two-sided 95 %"
                " interval, the dashed line the budget of 20 %.",
                "Band below the line: within budget. Band above: over. Line inside the band: not decided, however close the"
                " middle looks. Thick at 0: a breach lasts. A gap: too few samples.",
                [
                    Query(f"max(tde_overhead_ratio_lower{{{_SELECTED}}}) - 1", "at least"),
                    Query(f"max(tde_overhead_ratio_upper{{{_SELECTED}}}) - 1", "at most"),
                    Query(f"max(tde_overhead_ratio{{{_SELECTED}}}) - 1", "overhead"),
                    Query(f'max(tde_overhead_breach{{{OPERATION},percentile="$percentile"}} == 1) * 0', "breach lasts"),
                ],
                "percentunit",
                none="not enough samples",
                limit=BUDGET,
                shown=(0, BUDGET * 1.2),
                styles=[*band("overhead"), Style("breach lasts", LIMIT, {"lineWidth": 6})],
                calcs=LAST,
            ),
        ),
        Place(
            21,
            8,
            9,
            timeseries(
                "Samples behind it",
                "Individually timed canary queries of each twin in the selected window, failed ones included.",
                "Both lines lie on each other: twins are measured alike. Where they fall, the band beside widens.",
                [Query(f'max by (variant) (tde_overhead_samples{{{OPERATION},window="$window"}})', "{{variant}}")],
                "none",
                none="no samples",
                low=0,
                styles=[Style("encrypted", ENCRYPTED), Style("plain", PLAIN, {"lineStyle": DASHED})],
                calcs=LAST,
            ),
        ),
        Place(22, 24, 7, _all_operations()),
        Place(
            23,
            12,
            8,
            timeline(
                "Verdicts over time",
                "The verdict of each operation of the selected pair, in the words of the panel Verdict.",
                "One lane for each operation. A gap is a time in which the exporter did not say anything.",
                [Query(verdict(PAIR, "operation"), "{{operation}}")],
                words=VERDICTS,
                none="no verdict yet",
            ),
        ),
        Place(24, 12, 8, _evidence()),
        Place(
            25,
            12,
            8,
            timeseries(
                "Latency of both twins",
                "Exact percentiles of the time of canary queries in the selected window, by the clock that decides.",
                "Both lines rising together: the database is slower, with or without encryption. Only the orange one rising:"
                " encryption, or something that touches one twin alone. Dashed: the median.",
                [
                    Query(
                        f'max by (variant, percentile) (tde_canary_latency_seconds{{{OPERATION},window="$window"}})',
                        "{{variant}} P{{percentile}}",
                    )
                ],
                "s",
                none="not enough samples",
                low=0,
                styles=[
                    Style("/^encrypted/", ENCRYPTED),
                    Style("/^plain/", PLAIN),
                    Style("/P50$/", properties={"lineStyle": DASHED, "lineWidth": 1}),
                ],
                calcs=LAST,
            ),
        ),
        Place(
            26,
            12,
            8,
            timeseries(
                "CPU overhead with its 95 % interval",
                "CPU time encrypted / plain - 1 in the selected window: the twin of the latency that noise disturbs least.",
                "CPU overhead with no latency overhead: the cost hides behind waiting for storage, and shows once the"
                " processors are busy.",
                [
                    Query(f'max(tde_overhead_cpu_ratio_lower{{{OPERATION},window="$window"}}) - 1', "at least"),
                    Query(f'max(tde_overhead_cpu_ratio_upper{{{OPERATION},window="$window"}}) - 1', "at most"),
                    Query(f'max(tde_overhead_cpu_ratio{{{OPERATION},window="$window"}}) - 1', "CPU overhead"),
                ],
                "percentunit",
                none="CPU not known",
                limit=BUDGET,
                shown=(0, BUDGET * 1.2),
                styles=band("CPU overhead"),
                calcs=LAST,
            ),
        ),
    ),
)
