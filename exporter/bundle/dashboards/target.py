"""Target detail: one database. Four questions with one obvious panel each, then what it costs, and why."""

from __future__ import annotations

from exporter.bundle.dashboards import target_state, target_why
from exporter.bundle.dashboards.board import Board, asked, chosen
from exporter.bundle.dashboards.limits import BUDGET
from exporter.bundle.dashboards.palette import (
    BAD,
    BLUE,
    DASHED,
    DOUBT,
    ENCRYPTED,
    GOOD,
    GREY,
    LIMIT,
    ORANGE,
    PLAIN,
    PURPLE,
    SILENT,
    VERDICTS,
    Word,
    steps,
)
from exporter.bundle.dashboards.panels import Column, Query, Style, band, stat, table, timeline, timeseries
from exporter.bundle.dashboards.queries import JOB, ONE_TARGET, STANDBYS, event_marks, lag, standbys, verdict

S = ONE_TARGET
P = f'{S},pair="$pair"'
O = f'{P},operation="$operation"'  # noqa: E741
W = f'{O},percentile="$percentile",window="$window"'

PROOFS = (
    Word("", 4, "YES, VERIFIED", GOOD),
    Word("", 3, "YES, PROVEN", GOOD),
    Word("", 2, "NOT PROVEN", DOUBT),
    Word("", 1, "NOT YET", SILENT),
    Word("", 0, "PAIR INVALID", BAD),
)


def _proof() -> str:
    return " or ".join(
        (
            f"(min(tde_pair_valid{{{P}}}) == 0)",
            f'max(tde_pair_info{{{P},phase="aa"}})',
            f"(min(tde_canary_blind{{{P}}}) == 1) + 1",
            f"(min(tde_canary_blind{{{P}}}) == 0) + 3",
            f"max(tde_pair_valid{{{P}}}) + 3",
        )
    )


def _answers(board: Board) -> None:
    board.row(1, "Answers")
    board.add(
        10,
        stat(
            "Verdict",
            "The exporter's own word about what encryption costs the selected operation, against a budget of 20 %.",
            "WITHIN BUDGET: even the upper bound is below 20 %. OVER BUDGET: sequential evidence says so, and holds until"
            " the upper bound is below. UNDECIDED: the samples cannot tell yet. BLIND: nothing passed the cipher, the"
            " number says nothing about encryption. CERTIFYING: both twins are plain. WARMING: too few samples. HELD:"
            " judging waits after an outage. NO DATA: nothing was measured.",
            [Query(verdict(O), "verdict")],
            "none",
            words=VERDICTS,
            none="NO VERDICT YET",
        ),
        5,
        5,
    )
    board.add(
        11,
        stat(
            "Is it encrypted?",
            "Question 1: is it encrypted? What verification found about the selected pair, and whether a canary query"
            " of the last hour really passed the cipher.",
            "YES, PROVEN: blocks of the encrypted twin were decrypted. YES, VERIFIED: so says the engine, which does not"
            " count decrypts. NOT PROVEN: encrypted, but every block came from memory in the clear. NOT YET: both twins"
            " are plain. PAIR INVALID: the twins are not what they should be. For the whole database see Encryption.",
            [Query(_proof(), "pair")],
            "none",
            words=PROOFS,
            none="NOT VERIFIED",
        ),
        5,
        5,
    )
    board.add(
        12,
        stat(
            "What does it cost at P$percentile?",
            "Question 2: what does it cost at P99? How much longer the same query takes on the encrypted twin than on"
            " the plain one, at the selected percentile and in the selected window.",
            "+10 % means that a query that takes 10 ms in the clear takes 11 ms. It is no fact without the bounds beside"
            " it. Empty while there are too few samples: operations that are measured once in a tick have P50 only.",
            [Query(f"max(tde_overhead_ratio{{{W}}}) - 1", "overhead")],
            "percentunit",
            decimals=1,
            none="not known",
            thresholds=steps(BLUE),
        ),
        4,
        5,
    )
    board.add(
        13,
        stat(
            "How sure is that?",
            "Question 3: how sure is that? The bounds of the two-sided 95 % interval of the overhead, and how many"
            " samples of each twin it rests on.",
            "The true overhead lies between the two, in 95 of 100 such windows. Bounds on both sides of 20 % mean that"
            " nothing is decided. More samples, narrower bounds.",
            [
                Query(f"max(tde_overhead_ratio_lower{{{W}}}) - 1", "at least"),
                Query(f"max(tde_overhead_ratio_upper{{{W}}}) - 1", "at most"),
                Query(f'min(tde_overhead_samples{{{O},window="$window"}})', "samples"),
            ],
            "percentunit",
            decimals=1,
            none="not sure",
            text="value_and_name",
            thresholds=steps(BLUE),
            styles=[Style("samples", properties={"unit": "none", "decimals": 0})],
        ),
        5,
        5,
    )
    board.add(
        14,
        stat(
            "Is the standby keeping up?",
            "Question 4: is the standby keeping up? The worst of all standbys of this database, and its lag, without a"
            " delay that is set on purpose.",
            "KEEPING UP: all lags are known and below one minute. BEHIND: one is above. LAG UNKNOWN: one cannot be asked."
            " STOPPED: one does not receive or apply. KEY MISSING: one lacks a key that the primary's objects use.",
            [Query(standbys(S), "state"), Query(f"max({lag(S)})", "lag")],
            "none",
            words=STANDBYS,
            none="no standby",
            text="value",
            styles=[
                Style("lag", properties={"unit": "s", "decimals": 1, "mappings": [], "thresholds": steps(SILENT)}),
            ],
        ),
        5,
        5,
    )


def _cost(board: Board) -> None:
    board.row(2, "What it costs: $operation on pair $pair")
    board.add(
        20,
        timeseries(
            "Overhead at P$percentile with its 95 % interval",
            "Encrypted / plain - 1 at the selected percentile over the selected window; the band is its two-sided 95 %"
            " interval, the dashed line the budget of 20 %.",
            "Band below the line: within budget. Band above: over. Line inside the band: not decided, however close the"
            " middle looks. A gap is a time without enough samples.",
            [
                Query(f"max(tde_overhead_ratio_lower{{{W}}}) - 1", "at least"),
                Query(f"max(tde_overhead_ratio_upper{{{W}}}) - 1", "at most"),
                Query(f"max(tde_overhead_ratio{{{W}}}) - 1", "overhead"),
            ],
            "percentunit",
            none="not enough samples",
            limit=BUDGET,
            styles=band("overhead"),
            calcs=["lastNotNull"],
        ),
        16,
        9,
    )
    board.add(
        21,
        timeseries(
            "Samples behind it",
            "Individually timed canary queries of each twin in the selected window, failed ones included.",
            "Both lines lie on each other: twins are measured alike. Where they fall, the band beside widens.",
            [Query(f'max by (variant) (tde_overhead_samples{{{O},window="$window"}})', "{{variant}}")],
            "none",
            none="no samples",
            low=0,
            styles=[Style("encrypted", ENCRYPTED), Style("plain", PLAIN, {"lineStyle": DASHED})],
            calcs=["lastNotNull"],
        ),
        8,
        9,
    )
    board.add(22, _all_operations(), 24, 7)
    board.add(
        23,
        timeline(
            "Verdicts over time",
            "The verdict of each operation of the selected pair, in the words of the panel Verdict.",
            "One lane for each operation. A gap is a time in which the exporter did not say anything.",
            [Query(verdict(P, "operation"), "{{operation}}")],
            words=VERDICTS,
            none="no verdict yet",
        ),
        12,
        8,
    )
    board.add(24, _evidence(), 12, 8)
    board.add(
        25,
        timeseries(
            "Latency of both twins",
            "Exact percentiles of the time of canary queries in the selected window, by the clock that decides.",
            "Both lines rising together: the database is slower, with or without encryption. Only the orange one rising:"
            " encryption, or something that touches one twin alone. Dashed: the median.",
            [
                Query(
                    f'max by (variant, percentile) (tde_canary_latency_seconds{{{O},window="$window"}})',
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
            calcs=["lastNotNull"],
        ),
        12,
        8,
    )
    board.add(
        26,
        timeseries(
            "CPU overhead with its 95 % interval",
            "CPU time encrypted / plain - 1 in the selected window: the twin of the latency that noise disturbs least.",
            "CPU overhead with no latency overhead: the cost hides behind waiting for storage, and shows once the"
            " processors are busy.",
            [
                Query(f'max(tde_overhead_cpu_ratio_lower{{{O},window="$window"}}) - 1', "at least"),
                Query(f'max(tde_overhead_cpu_ratio_upper{{{O},window="$window"}}) - 1', "at most"),
                Query(f'max(tde_overhead_cpu_ratio{{{O},window="$window"}}) - 1', "CPU overhead"),
            ],
            "percentunit",
            none="CPU not known",
            limit=BUDGET,
            styles=band("CPU overhead"),
            calcs=["lastNotNull"],
        ),
        12,
        8,
    )


def _all_operations() -> dict[str, object]:
    def ratio(percentile: str, side: str = "") -> str:
        return f'max by (operation) (tde_overhead_ratio{side}{{{P},percentile="{percentile}",window="$window"}}) - 1'

    queries = [
        verdict(P, "operation"),
        ratio("50"),
        ratio("$percentile"),
        ratio("$percentile", "_lower"),
        ratio("$percentile", "_upper"),
        f'max by (operation) (tde_overhead_cpu_ratio{{{P},window="$window"}}) - 1',
        f'min by (operation) (tde_overhead_samples{{{P},window="$window"}})',
        f'max by (operation) (tde_canary_cold_ratio{{{P},variant="encrypted"}})',
        f"max by (operation) (tde_canary_tier{{{P}}})",
        f"max by (operation) (tde_canary_boosted{{{P}}})",
        f"max by (operation) (tde_overhead_order_bias_ratio{{{P}}}) - 1",
    ]
    columns = [
        Column("operation", "Operation", 170, link=_same_with_operation()),
        Column("Value #A", "Verdict", 150, "none", words=VERDICTS),
        Column("Value #B", "P50", 80, "percentunit", 1),
        Column("Value #C", "P$percentile", 80, "percentunit", 1),
        Column("Value #D", "At least", 85, "percentunit", 1),
        Column("Value #E", "At most", 85, "percentunit", 1),
        Column("Value #F", "CPU", 80, "percentunit", 1),
        Column("Value #G", "Samples", 85, "none", 0),
        Column("Value #H", "From storage", 105, "percentunit", 0),
        Column("Value #I", "Tier", 130, "none", words=TIERS, plain=True),
        Column("Value #J", "Sampling", 95, "none", words=BOOSTS, plain=True),
        Column("Value #K", "Order bias", 95, "percentunit", 1),
    ]
    return table(
        "All operations of the pair",
        "Each canary operation with its verdict, its overhead at P50 and at the selected percentile with bounds, its CPU"
        " overhead, and what it rests on. Click an operation to select it.",
        "From storage: share of the encrypted runs that had to read. Tier says what can be decided at this rate. Boosted:"
        " more samples are taken, for the evidence is near a decision. Order bias far from 0 %: the order of the queries"
        " decides, not encryption. – is not known.",
        queries,
        columns,
        order=("Operation", False),
    )


TIERS = (
    Word("", 1, "P99 in an hour", BLUE),
    Word("", 2, "P99 in a day", BLUE),
    Word("", 3, "P50 only", GREY),
)
BOOSTS = (Word("", 1, "boosted", ORANGE), Word("", 0, "normal", GREY))


def _same_with_operation() -> tuple[str, str]:
    return (
        "Select this operation",
        "/d/tde-target?${job:queryparam}&${target:queryparam}&${pair:queryparam}&${percentile:queryparam}"
        "&${window:queryparam}&var-operation=${__value.raw}&${__url_time_range}",
    )


def _evidence() -> dict[str, object]:
    labels = "percentile, reference, threshold"
    chosen_detector = 'threshold="1.2"'
    return timeseries(
        "Evidence for a breach, and what suffices",
        "Sequential evidence, as a power of ten, that the encrypted side is slower than the twin (plain), or than before"
        " (baseline), by more than 20 %. It may be looked at all the time without more false alarms.",
        "A line that reaches the dashed one of its percentile is a breach: the verdict says OVER BUDGET, the alert fires,"
        " and the evidence begins anew. Below 0 there is none.",
        [
            Query(
                f"max by ({labels}) (tde_overhead_evidence{{{O},{chosen_detector}}})", "P{{percentile}} {{reference}}"
            ),
            Query(
                f'max by (percentile) (tde_overhead_evidence_threshold{{job=~"$job",{chosen_detector},reference="plain"}})',
                "P{{percentile}} suffices",
            ),
            Query(f"max(tde_overhead_breach{{{O}}} == 1) * 0", "breach lasts"),
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
        calcs=["lastNotNull"],
    )


def target() -> Board:
    """One database in depth."""
    pair = (
        f"query_result(sort_desc(({verdict(S, 'pair')}) or max by (pair) (tde_canary_tier{{{S}}}) * 0))",
        '/pair="([^"]+)"/',
    )
    operation = (
        f"query_result(sort_desc(({verdict(P, 'operation')}) or max by (operation) (tde_canary_tier{{{P}}}) * 0))",
        '/operation="([^"]+)"/',
    )
    board = Board(
        "tde-target",
        "TDE / Target detail",
        "One database: is it encrypted, what does that cost, how sure is that, and is the standby keeping up?",
        [
            JOB,
            asked("target", "Target", 'label_values(tde_target_up{job=~"$job"}, target)'),
            asked("pair", "Pair", pair[0], regex=pair[1], ordered=False),
            asked("operation", "Operation", operation[0], regex=operation[1], ordered=False),
            chosen("percentile", "Percentile", ["99", "50"]),
            chosen("window", "Window", ["1h", "24h"]),
        ],
        annotations=event_marks(S),
    )
    _answers(board)
    _cost(board)
    target_why.add_to(board, S, P, O)
    target_state.add_to(board, S)
    return board
