"""Enablement comparison: before and after an event that was marked or detected."""

from __future__ import annotations

from exporter.bundle.dashboards.board import Board, asked, chosen
from exporter.bundle.dashboards.limits import BUDGET, CPU
from exporter.bundle.dashboards.palette import BLUE, DASHED, GREY, OBJECTS, ORANGE, PURPLE, VERDICTS, steps
from exporter.bundle.dashboards.panels import Column, Query, Style, band, stat, table, timeseries
from exporter.bundle.dashboards.queries import JOB, ONE_TARGET, RATE, event_marks, lag, read_latency, share, verdict

S = ONE_TARGET
P = f'{S},pair="$pair"'
O = f'{P},operation="$operation"'  # noqa: E741
W = f'{O},percentile="$percentile",window="1h"'

_LAST = ("lastNotNull",)
_EARLIER = Style("/before$/", properties={"lineStyle": DASHED, "lineWidth": 1})

KINDS = ("enablement", "rekey", "algorithm_change", "keystore_migration", "upgrade", "switchover", "restart", "other")


def _answer(board: Board) -> None:
    board.row(1, "$kind: $operation on pair $pair")
    board.add(
        10,
        stat(
            "When it happened",
            "The newest event of the selected kind, marked by an operator or detected.",
            "The dashed marks in the graphs are events; their kinds can be switched on and off above.",
            [Query(f'max(tde_event_timestamp_seconds{{{S},kind="$kind"}}) * 1000', "event")],
            "dateTimeFromNow",
            none="no such event",
        ),
        4,
        5,
    )
    board.add(
        11,
        stat(
            "Baseline frozen",
            "When the baseline that the selected pair is compared with was frozen.",
            "It should be just before the event. Without a baseline only the comparison of the twins is left; see the"
            " documentation of baselines.",
            [Query(f"max(tde_baseline_timestamp_seconds{{{P}}}) * 1000", "baseline")],
            "dateTimeFromNow",
            none="no baseline",
        ),
        4,
        5,
    )
    board.add(
        12,
        stat(
            "Change since the baseline",
            "Encrypted now / encrypted in the baseline - 1 at the selected percentile, adjusted by the plain twin, with the"
            " bounds of its 95 % interval: what both twins suffered cancels.",
            "With a baseline of two plain twins this is what encryption costs. Bounds on both sides of 0 %: no change has"
            " been shown.",
            [
                Query(f"max(tde_baseline_overhead_ratio_lower{{{W}}}) - 1", "at least"),
                Query(f"max(tde_baseline_overhead_ratio{{{W}}}) - 1", "adjusted"),
                Query(f"max(tde_baseline_overhead_ratio_upper{{{W}}}) - 1", "at most"),
            ],
            "percentunit",
            decimals=1,
            none="not known",
            text="value_and_name",
            thresholds=steps(GREY),
            styles=[Style("adjusted", properties={"thresholds": steps(BLUE)})],
        ),
        7,
        5,
    )
    board.add(
        13,
        stat(
            "Change that is not encryption",
            "Plain now / plain in the baseline - 1 (control): what changed without any encryption; and the same of the"
            " encrypted twin without adjustment (raw).",
            "Control far from 0 %: the workload or the machine changed, and raw tells of that, not of encryption.",
            [
                Query(f"max(tde_baseline_control_ratio{{{W}}}) - 1", "control"),
                Query(f"max(tde_baseline_raw_ratio{{{W}}}) - 1", "raw"),
            ],
            "percentunit",
            decimals=1,
            none="not known",
            text="value_and_name",
            thresholds=steps(GREY),
        ),
        5,
        5,
    )
    board.add(
        14,
        stat(
            "Verdict now",
            "The exporter's own word about the selected operation, encrypted against plain twin.",
            "As on Target detail. The baseline has a detector of its own, whose breach is in the verdict.",
            [Query(verdict(O), "verdict")],
            "none",
            words=VERDICTS,
            none="NO VERDICT YET",
        ),
        4,
        5,
    )


def _compared(board: Board) -> None:
    board.row(2, "Against the baseline")
    board.add(
        20,
        timeseries(
            "Adjusted, raw and control at P$percentile",
            "Now against the baseline over the last hour: adjusted with its 95 % interval, raw (encrypted twin) and control"
            " (plain twin). Dashed line: 20 %.",
            "Raw and control rising together with a flat adjusted: the load changed, not encryption. Adjusted alone"
            " rising: encryption, or something else that touches one twin only.",
            [
                Query(f"max(tde_baseline_overhead_ratio_lower{{{W}}}) - 1", "at least"),
                Query(f"max(tde_baseline_overhead_ratio_upper{{{W}}}) - 1", "at most"),
                Query(f"max(tde_baseline_overhead_ratio{{{W}}}) - 1", "adjusted"),
                Query(f"max(tde_baseline_raw_ratio{{{W}}}) - 1", "raw"),
                Query(f"max(tde_baseline_control_ratio{{{W}}}) - 1", "control"),
            ],
            "percentunit",
            none="no baseline, or not enough samples",
            limit=BUDGET,
            styles=[
                *band("adjusted"),
                Style("raw", ORANGE, {"lineWidth": 1}),
                Style("control", GREY, {"lineStyle": DASHED, "lineWidth": 1}),
            ],
            calcs=_LAST,
        ),
        16,
        9,
    )
    board.add(
        21,
        timeseries(
            "Against baseline and against twin",
            "The same overhead by both references at the selected percentile: adjusted against the baseline, and against"
            " the plain twin now.",
            "They should agree. Where they do not, the twins differed before encryption (baseline is right), or differ in"
            " something new (twin is right).",
            [
                Query(f"max(tde_baseline_overhead_ratio{{{W}}}) - 1", "against baseline"),
                Query(f"max(tde_overhead_ratio{{{W}}}) - 1", "against twin"),
            ],
            "percentunit",
            none="no baseline, or not enough samples",
            limit=BUDGET,
            styles=[Style("against baseline", BLUE), Style("against twin", ORANGE)],
            calcs=_LAST,
        ),
        8,
        9,
    )
    board.add(22, _all_operations(), 24, 7)


def _all_operations() -> dict[str, object]:
    at = f'{P},percentile="$percentile"'
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
            verdict(P, "operation"),
        ],
        [
            Column("operation", "Operation", 180),
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
    )


def _span(board: Board) -> None:
    board.row(3, "$span before the event and $span until now")
    board.add(23, _before_after(), 12, 9)
    latency = f'tde_canary_latency_seconds{{{W},variant="encrypted"}}'
    plain = f'tde_canary_latency_seconds{{{W},variant="plain"}}'
    board.add(
        30,
        timeseries(
            "Latency at P$percentile",
            "Both twins at the selected percentile over the last hour.",
            "After the event the lines part by what encryption costs; before it they lie on each other.",
            [Query(f"max({latency})", "encrypted"), Query(f"max({plain})", "plain")],
            "s",
            none="not enough samples",
            low=0,
            styles=[Style("encrypted", ORANGE), Style("plain", BLUE, {"lineStyle": DASHED})],
            calcs=_LAST,
        ),
        12,
        9,
    )
    board.add(
        31,
        timeseries(
            "Latency now and $compare before",
            "The encrypted twin at the selected percentile, and the same time of day earlier.",
            "The dashed line is what the same hour looked like $compare ago: patterns of the day cancel by eye.",
            [Query(f"max({latency})", "now"), Query(f"max({latency} offset $compare)", "$compare before")],
            "s",
            none="not enough samples",
            low=0,
            styles=[Style("/before$/", GREY), Style("now", ORANGE), _EARLIER],
            calcs=_LAST,
        ),
        12,
        8,
    )
    cpu = f"tde_host_cpu_utilization_ratio{{{S}}}"
    board.add(
        32,
        timeseries(
            "Host CPU now and $compare before",
            "Share of the host's processors in use, and the same time of day earlier. Dashed: 85 %.",
            "The distance of the lines is what changed, by encryption or by load.",
            [Query(f"max({cpu})", "now"), Query(f"max({cpu} offset $compare)", "$compare before")],
            "percentunit",
            none="not known for this host",
            limit=CPU,
            low=0,
            high=1,
            styles=[Style("/before$/", GREY), Style("now", BLUE), _EARLIER],
            calcs=_LAST,
        ),
        12,
        8,
    )


def _before_after() -> dict[str, object]:
    def mean(of: str, at: str) -> str:
        return f"avg_over_time({of}[$span]{at})"

    def rows(at: str) -> str:
        per_second = f"sum(rate(tde_instance_decrypts_total{{{S}}}[$span]{at}))"
        seconds = f"sum(rate(tde_instance_read_seconds_total{{{S}}}[$span]{at}))"
        reads = f"sum(rate(tde_instance_reads_total{{{S}}}[$span]{at}))"
        cpu = f"sum(rate(tde_instance_cpu_seconds_total{{{S}}}[$span]{at}))"
        host = f"max({mean(f'tde_host_cpu_utilization_ratio{{{S}}}', at)})"
        behind = f'max({mean(f"""tde_standby_lag_seconds{{{S},kind="apply"}}""", at)})'
        named = {
            "1 Host CPU in use, %": f"{host} * 100",
            "2 Processors of the database": cpu,
            "3 Decrypts per second": per_second,
            "4 Physical reads per second": reads,
            "5 One physical read, ms": f"{share(seconds, reads)} * 1000",
            "6 Apply lag, s": behind,
        }
        return " or ".join(f'label_replace({expr}, "what", "{name}", "", "")' for name, expr in named.items())

    return table(
        "The database before and after",
        "Means of the whole database over the span that ended at the event, and over the span that ends now.",
        "Decrypts rise from near 0 at an enablement. The rest should change little; what changed with the load is in both."
        " – : not known, or no longer kept by this Prometheus.",
        [rows(" @ $event"), rows("")],
        [
            Column("what", "What", 260),
            Column("Value #A", "Before the event", 150, "none", 2),
            Column("Value #B", "Now", 150, "none", 2),
        ],
        order=("What", False),
    )


def _database(board: Board) -> None:
    board.row(4, "The database around the event")
    board.add(
        40,
        timeseries(
            "Decrypts and encrypts of the database",
            "Blocks or values that the whole database decrypts and encrypts in a second.",
            "It should rise from near 0 at the enablement, and during the conversion encrypts should.",
            [
                Query(f"sum by (unit) (rate(tde_instance_decrypts_total{{{S}}}[{RATE}]))", "{{unit}}s decrypted"),
                Query(f"sum by (unit) (rate(tde_instance_encrypts_total{{{S}}}[{RATE}]))", "{{unit}}s encrypted"),
            ],
            "ops",
            none="not counted by this engine",
            low=0,
            styles=[Style("/decrypted$/", ORANGE), Style("/encrypted$/", PURPLE, {"lineStyle": DASHED})],
            calcs=_LAST,
        ),
        8,
        8,
    )
    board.add(
        41,
        timeseries(
            "Latency of a physical read",
            "Mean time of a physical read of the whole database.",
            "If it jumps with the event, the storage is busy with the conversion, or was changed too.",
            [Query(read_latency(S, "target"), "one read")],
            "s",
            none="not counted by this engine",
            low=0,
            calcs=_LAST,
        ),
        8,
        8,
    )
    board.add(
        42,
        timeseries(
            "Objects by state of encryption",
            "Number of objects in the inventory by state.",
            "During a conversion the stack turns from blue to orange.",
            [Query(f"sum by (state) (max by (kind, state) (tde_objects{{{S}}}))", "{{state}}")],
            "none",
            none="no inventory",
            decimals=0,
            low=0,
            styles=[Style(state, colour) for state, colour in OBJECTS.items()],
            stacked=True,
            steps_of=True,
            calcs=_LAST,
        ),
        8,
        8,
    )
    board.add(
        43,
        timeseries(
            "Standby lag by kind",
            "The longest lag of all standbys by kind, without a delay that is set on purpose.",
            "Converting writes every block once: a lag during that time is usual, a lasting one is not.",
            [Query(f"max by (kind) ({lag(S)})", "{{kind}}")],
            "s",
            none="no standby",
            low=0,
            styles=[
                Style("transport", BLUE),
                Style("apply", ORANGE),
                Style("heartbeat", GREY, {"lineStyle": DASHED}),
            ],
            calcs=_LAST,
        ),
        12,
        8,
    )
    detector = f'{O},percentile="$percentile",threshold="1.2"'
    board.add(
        44,
        timeseries(
            "When the breach began, if there is one",
            "How long ago the change that led to a breach began, by the best split of the last day, against twin and"
            " baseline; and how long ago the event was.",
            "The line of a breach close to that of the event: it is the cause, most likely. Lines rise with time. Empty:"
            " there is no breach.",
            [
                Query(
                    f"time() - max by (reference) (tde_overhead_onset_timestamp_seconds{{{detector}}})",
                    "onset against {{reference}}",
                ),
                Query(
                    f"max by (reference) (tde_overhead_onset_uncertainty_seconds{{{detector}}})",
                    "give or take, {{reference}}",
                ),
                Query(f'time() - max(tde_event_timestamp_seconds{{{S},kind="$kind"}} <= time())', "event"),
            ],
            "s",
            none="no breach",
            low=0,
            styles=[
                Style("/^onset/", ORANGE),
                Style("/^give/", ORANGE, {"lineStyle": DASHED, "lineWidth": 1}),
                Style("event", PURPLE),
            ],
            calcs=_LAST,
        ),
        12,
        8,
    )


def enablement() -> Board:
    """One database before and after an event."""
    event = f'tde_event_timestamp_seconds{{{S},kind="$kind"}}'
    board = Board(
        "tde-enablement",
        "TDE / Enablement comparison",
        "Before and after encryption was enabled, a key was changed, or anything else that was marked.",
        [
            JOB,
            asked("target", "Target", 'label_values(tde_event_timestamp_seconds{job=~"$job"}, target)'),
            chosen("kind", "Event", KINDS),
            asked(
                "event",
                "At (Unix time)",
                f"query_result(sort_desc(round(max by (event) ({event}))))",
                regex=r"/ (\d+)/",
                ordered=False,
            ),
            asked("pair", "Pair", f"label_values(tde_baseline_timestamp_seconds{{{S}}}, pair)"),
            asked("operation", "Operation", f"label_values(tde_baseline_latency_seconds{{{P}}}, operation)"),
            chosen("percentile", "Percentile", ["99", "50"]),
            chosen("span", "Span", ["1h", "6h", "1d", "7d"]),
            chosen("compare", "Compare with", ["1d", "2h", "7d"]),
        ],
        annotations=event_marks(S),
        span="now-12h",
    )
    _answer(board)
    _compared(board)
    _span(board)
    _database(board)
    return board
