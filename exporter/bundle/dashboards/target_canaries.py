"""Target detail, what the measuring itself costs."""

from __future__ import annotations

from exporter.bundle.dashboards.board import Place, Row
from exporter.bundle.dashboards.palette import BLUE, DASHED, ENCRYPTED, GREY, LIMIT, ORANGE, PLAIN, PURPLE, REASONS
from exporter.bundle.dashboards.panels import LAST, Query, Style, timeseries
from exporter.bundle.dashboards.queries import RATE, TARGET

_TWINS = (Style("encrypted", ENCRYPTED), Style("plain", PLAIN, {"lineStyle": DASHED}))

CANARIES = Row(
    5,
    "What the measuring costs",
    (
        Place(
            50,
            8,
            8,
            timeseries(
                "Time spent on canary queries",
                "Share of the last hour in which this database executed canary queries, and the limit that is kept.",
                "Always below the dashed line. At the line, runs are skipped and samples are fewer.",
                [
                    Query(f"max(tde_canary_load_ratio{{{TARGET}}})", "spent"),
                    Query(f"max(tde_canary_load_limit_ratio{{{TARGET}}})", "limit"),
                ],
                "percentunit",
                none="not known",
                low=0,
                styles=[Style("limit", LIMIT, {"lineStyle": DASHED, "lineWidth": 1})],
                calcs=LAST,
            ),
        ),
        Place(
            51,
            8,
            8,
            timeseries(
                "Budgets in use",
                "Share in use of what an hour may take (time, bytes read, bytes written) and of the sessions that may be open.",
                "At 100 % of time or bytes, canary queries are put off. Sessions at 100 % are usual for small limits.",
                [Query(f"max by (budget) (tde_canary_budget_used_ratio{{{TARGET}}})", "{{budget}}")],
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
            ),
        ),
        Place(
            52,
            8,
            8,
            timeseries(
                "Bytes moved by canary queries",
                "Bytes that canary queries read from and wrote to storage in a second, discarded warm-ups included.",
                "Compare with what your storage does; budgets for bytes are in the configuration.",
                [
                    Query(f"sum(rate(tde_canary_bytes_read_total{{{TARGET}}}[{RATE}]))", "read"),
                    Query(f"sum(rate(tde_canary_bytes_written_total{{{TARGET}}}[{RATE}]))", "written"),
                ],
                "Bps",
                none="not counted by this engine",
                low=0,
                styles=[Style("read", ORANGE), Style("written", PURPLE)],
                calcs=LAST,
            ),
        ),
        Place(
            53,
            6,
            8,
            timeseries(
                "Canary queries",
                "Canary queries in a second, failed ones included.",
                "A steady rate is right, the same for both twins. It falls when budgets are used up or the database does not"
                " answer.",
                [Query(f"sum by (variant) (rate(tde_canary_runs_total{{{TARGET}}}[{RATE}]))", "{{variant}}")],
                "cps",
                none="no queries",
                low=0,
                styles=_TWINS,
                calcs=LAST,
            ),
        ),
        Place(
            54,
            6,
            8,
            timeseries(
                "Failed queries by twin",
                "Canary queries in a minute that failed, on either twin.",
                "Failures on both twins: the database. On the encrypted one alone: its key, most likely; Pairs, below, says so.",
                [
                    Query(
                        f"sum by (variant) (rate(tde_canary_run_failures_total{{{TARGET}}}[{RATE}])) * 60",
                        "{{variant}}",
                    )
                ],
                "cpm",
                none="no queries",
                low=0,
                shown=(None, 1),
                bars=True,
                styles=[Style("encrypted", ENCRYPTED), Style("plain", PLAIN)],
            ),
        ),
        Place(
            56,
            6,
            8,
            timeseries(
                "Failed queries by reason",
                "Canary queries in a minute that failed on any twin, by reason.",
                "keystore: the key cannot be had. permission: a grant is missing. timeout: slower than the hard deadline.",
                [
                    Query(
                        f"sum by (reason) (rate(tde_canary_run_failures_total{{{TARGET}}}[{RATE}])) * 60", "{{reason}}"
                    )
                ],
                "cpm",
                none="no queries",
                low=0,
                shown=(None, 1),
                bars=True,
                styles=[Style(reason, colour) for reason, colour in REASONS.items()],
            ),
        ),
        Place(
            55,
            6,
            8,
            timeseries(
                "Sessions and dropped ticks",
                "Sessions opened, and lost or refused, in a minute; ticks dropped because the exporter itself was in the way.",
                "Opened sessions belong to starts and reconnects: few are right. For reasons see Exporter health.",
                [
                    Query(f"sum(rate(tde_target_connects_total{{{TARGET}}}[{RATE}])) * 60", "opened"),
                    Query(f"sum(rate(tde_target_connection_errors_total{{{TARGET}}}[{RATE}])) * 60", "failed"),
                    Query(f"sum(rate(tde_canary_contended_total{{{TARGET}}}[{RATE}])) * 60", "ticks dropped"),
                ],
                "cpm",
                none="not known",
                low=0,
                shown=(None, 1),
                bars=True,
                styles=[Style("opened", BLUE), Style("failed", LIMIT), Style("ticks dropped", GREY)],
            ),
        ),
    ),
)
