"""Enablement comparison, the time around the event: before, after, and the day before."""

from __future__ import annotations

from exporter.bundle.dashboards.board import Place, Row
from exporter.bundle.dashboards.limits import CPU, THRESHOLD
from exporter.bundle.dashboards.palette import BLUE, DASHED, GREY, ORANGE, PURPLE
from exporter.bundle.dashboards.panels import LAST, Panel, Query, Style, timeseries
from exporter.bundle.dashboards.queries import OPERATION, TARGET, lag, read_latency, share
from exporter.bundle.dashboards.shared import ciphered, objects_by_state
from exporter.bundle.dashboards.tables import Column, table

_SELECTED = f'{OPERATION},percentile="$percentile",window="1h"'

_EARLIER = Style("/before$/", properties={"lineStyle": DASHED, "lineWidth": 1})


def _before_after() -> Panel:
    def mean(of: str, at: str) -> str:
        return f"avg_over_time({of}[$span]{at})"

    def rows(at: str) -> str:
        per_second = f"sum(rate(tde_instance_decrypts_total{{{TARGET}}}[$span]{at}))"
        seconds = f"sum(rate(tde_instance_read_seconds_total{{{TARGET}}}[$span]{at}))"
        reads = f"sum(rate(tde_instance_reads_total{{{TARGET}}}[$span]{at}))"
        cpu = f"sum(rate(tde_instance_cpu_seconds_total{{{TARGET}}}[$span]{at}))"
        host = f"max({mean(f'tde_host_cpu_utilization_ratio{{{TARGET}}}', at)})"
        behind = f'max({mean(f"""tde_standby_lag_seconds{{{TARGET},kind="apply"}}""", at)})'
        named = {
            "CPU of the host in use, %": f"{host} * 100",
            "Processors that the database uses": cpu,
            "Decrypts per second": per_second,
            "Physical reads per second": reads,
            "Time of one physical read, ms": f"{share(seconds, reads)} * 1000",
            "Longest apply lag of a standby, s": behind,
        }
        return " or ".join(f'label_replace({expr}, "what", "{name}", "", "")' for name, expr in named.items())

    return table(
        "The database before and after",
        "Means of the whole database over the span that ended at the event, and over the span that ends now.",
        "Decrypts rise from near 0 at an enablement. The rest should change little; what changed with the load is in both."
        " – : not known, or no longer kept by this Prometheus.",
        [rows(" @ $event"), rows("")],
        [
            Column("what", "What", 250),
            Column("Value #A", "Before the event", 130, "none", 2),
            Column("Value #B", "Now", 110, "none", 2),
        ],
        across=12,
        order=("What", False),
        none="nothing is known of these spans",
    )


_LATENCY = f'tde_canary_latency_seconds{{{_SELECTED},variant="encrypted"}}'

_PLAIN = f'tde_canary_latency_seconds{{{_SELECTED},variant="plain"}}'

_CPU = f"tde_host_cpu_utilization_ratio{{{TARGET}}}"

BEFORE = Row(
    3,
    "$span before the event and $span until now",
    (
        Place(23, 12, 9, _before_after()),
        Place(
            30,
            12,
            9,
            timeseries(
                "Latency at P$percentile",
                "Both twins at the selected percentile over the last hour.",
                "After the event the lines part by what encryption costs; before it they lie on each other.",
                [Query(f"max({_LATENCY})", "encrypted"), Query(f"max({_PLAIN})", "plain")],
                "s",
                none="not enough samples",
                low=0,
                styles=[Style("encrypted", ORANGE), Style("plain", BLUE, {"lineStyle": DASHED})],
                calcs=LAST,
            ),
        ),
        Place(
            31,
            12,
            8,
            timeseries(
                "Latency now and $compare before",
                "The encrypted twin at the selected percentile, and the same time of day earlier.",
                "The dashed line is what the same hour looked like $compare ago: patterns of the day cancel by eye.",
                [Query(f"max({_LATENCY})", "now"), Query(f"max({_LATENCY} offset $compare)", "$compare before")],
                "s",
                none="not enough samples",
                low=0,
                styles=[Style("/before$/", GREY), Style("now", ORANGE), _EARLIER],
                calcs=LAST,
            ),
        ),
        Place(
            32,
            12,
            8,
            timeseries(
                "Host CPU now and $compare before",
                "Share of the host's processors in use, and the same time of day earlier. Dashed: 85 %.",
                "The distance of the lines is what changed, by encryption or by load.",
                [Query(f"max({_CPU})", "now"), Query(f"max({_CPU} offset $compare)", "$compare before")],
                "percentunit",
                none="not known for this host",
                limit=CPU,
                low=0,
                high=1,
                styles=[Style("/before$/", GREY), Style("now", BLUE), _EARLIER],
                calcs=LAST,
            ),
        ),
    ),
)

_DETECTOR = f'{OPERATION},percentile="$percentile",threshold="{THRESHOLD}"'

DATABASE = Row(
    4,
    "The database around the event",
    (
        Place(
            40,
            8,
            8,
            ciphered(
                "Blocks or values that the whole database decrypts and encrypts in a second.",
                "It should rise from near 0 at the enablement, and during the conversion encrypts should.",
            ),
        ),
        Place(
            41,
            8,
            8,
            timeseries(
                "Latency of a physical read",
                "Mean time of a physical read of the whole database.",
                "If it jumps with the event, the storage is busy with the conversion, or was changed too.",
                [Query(read_latency(TARGET, "target"), "one read")],
                "s",
                none="not counted by this engine",
                low=0,
                calcs=LAST,
            ),
        ),
        Place(
            42,
            8,
            8,
            objects_by_state(
                "Number of objects in the inventory by state.",
                "During a conversion the stack turns from blue to orange.",
            ),
        ),
        Place(
            43,
            12,
            8,
            timeseries(
                "Standby lag by kind",
                "The longest lag of all standbys by kind, without a delay that is set on purpose.",
                "Converting writes every block once: a lag during that time is usual, a lasting one is not.",
                [Query(f"max by (kind) ({lag(TARGET)})", "{{kind}}")],
                "s",
                none="no standby",
                low=0,
                styles=[
                    Style("transport", BLUE),
                    Style("apply", ORANGE),
                    Style("heartbeat", GREY, {"lineStyle": DASHED}),
                ],
                calcs=LAST,
            ),
        ),
        Place(
            44,
            12,
            8,
            timeseries(
                "When the breach began, if there is one",
                "How long ago the change that led to a breach began, by the best split of the last day, against twin and"
                " baseline; and how long ago the event was.",
                "The line of a breach close to that of the event: it is the cause, most likely. Lines rise with time. Empty:"
                " there is no breach.",
                [
                    Query(
                        f"time() - max by (reference) (tde_overhead_onset_timestamp_seconds{{{_DETECTOR}}})",
                        "onset against {{reference}}",
                    ),
                    Query(
                        f"max by (reference) (tde_overhead_onset_uncertainty_seconds{{{_DETECTOR}}})",
                        "give or take, {{reference}}",
                    ),
                    Query(f'time() - max(tde_event_timestamp_seconds{{{TARGET},kind="$kind"}} <= time())', "event"),
                ],
                "s",
                none="no breach",
                low=0,
                styles=[
                    Style("/^onset/", ORANGE),
                    Style("/^give/", ORANGE, {"lineStyle": DASHED, "lineWidth": 1}),
                    Style("event", PURPLE),
                ],
            ),
        ),
    ),
)
