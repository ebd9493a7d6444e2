"""Exporter health, the inside: how true the measurements are, page, history and process."""

from __future__ import annotations

from exporter.bundle.dashboards.board import Place, Row
from exporter.bundle.dashboards.palette import (
    BAD,
    BLUE,
    DASHED,
    GOOD,
    GREY,
    LIMIT,
    ORANGE,
    PINK,
    PURPLE,
    TEAL,
    VERMILION,
    Word,
)
from exporter.bundle.dashboards.panels import LAST, Query, Style, stat, timeseries
from exporter.bundle.dashboards.queries import INSTANCE, RATE

TAKEN_UP = (Word("", 1, "TAKEN UP", GOOD), Word("", 0, "REFUSED", BAD))


def _percentile(share: str, metric: str) -> str:
    # Of a time in which nothing was observed it is no number; with the comparison, there is none.
    return f"histogram_quantile({share}, sum by (le) (rate({metric}_bucket{{{INSTANCE}}}[{RATE}]))) >= 0"


_CONNECTS = f"sum(rate(tde_target_connects_total{{{INSTANCE}}}[1h]))"

TRUTH = Row(
    3,
    "How true are the measurements?",
    (
        Place(
            30,
            8,
            8,
            timeseries(
                "Noise floor",
                "Time of a canary that does nothing, from its histogram: differences below it cannot be seen.",
                "Microseconds on a quiet machine. Milliseconds at P99: the machine of the exporter is busy, and tails measured"
                " by its clock are wide.",
                [
                    Query(_percentile("0.5", "tde_exporter_timer_noise_seconds"), "P50"),
                    Query(_percentile("0.99", "tde_exporter_timer_noise_seconds"), "P99"),
                ],
                "s",
                none="not measured yet",
                low=0,
                styles=[Style("P50", BLUE, {"lineStyle": DASHED}), Style("P99", ORANGE)],
                calcs=LAST,
            ),
        ),
        Place(
            31,
            8,
            8,
            timeseries(
                "Lateness of the schedule",
                "Time from the planned to the real start of runs, from its histogram.",
                "Milliseconds are right. Seconds: the exporter has too little CPU.",
                [
                    Query(_percentile("0.5", "tde_exporter_schedule_lateness_seconds"), "P50"),
                    Query(_percentile("0.99", "tde_exporter_schedule_lateness_seconds"), "P99"),
                ],
                "s",
                none="nothing was scheduled",
                low=0,
                styles=[Style("P50", BLUE, {"lineStyle": DASHED}), Style("P99", ORANGE)],
                calcs=LAST,
            ),
        ),
        Place(
            32,
            8,
            8,
            timeseries(
                "Ticks dropped and values ignored",
                "Ticks in a minute that were left out because the exporter itself was in the way, and values from databases that"
                " cannot be true.",
                "Both near 0. Many dropped ticks: too many databases for this machine. Ignored values: tell us, with the"
                " engine and its version.",
                [
                    Query(f"sum(rate(tde_canary_contended_total{{{INSTANCE}}}[{RATE}])) * 60", "ticks dropped"),
                    Query(f"sum(rate(tde_exporter_invalid_values_total{{{INSTANCE}}}[{RATE}])) * 60", "values ignored"),
                ],
                "cpm",
                none="not known",
                low=0,
                shown=(None, 1),
                bars=True,
                styles=[Style("ticks dropped", BLUE), Style("values ignored", VERMILION)],
                calcs=LAST,
            ),
        ),
        Place(
            33,
            12,
            8,
            timeseries(
                "What went wrong, and was survived",
                "Restarts of probe processes, calls given up, steps of the clock, messages lost, and errors of page and"
                " history, in each hour.",
                "All 0 on a good day. Starts of processes include the first one.",
                [
                    Query(f"sum(increase({metric}{{{INSTANCE}}}[1h]))", name)
                    for metric, name in (
                        ("tde_exporter_probe_process_starts_total", "process starts"),
                        ("tde_exporter_lanes_abandoned_total", "calls given up"),
                        ("tde_exporter_clock_steps_total", "clock steps"),
                        ("tde_exporter_messages_dropped_total", "messages lost"),
                        ("tde_exporter_page_errors_total", "page errors"),
                        ("tde_exporter_state_errors_total", "history errors"),
                    )
                ],
                "none",
                none="not known",
                decimals=0,
                low=0,
                styles=[
                    Style("process starts", BLUE),
                    Style("calls given up", ORANGE),
                    Style("clock steps", PURPLE),
                    Style("messages lost", TEAL),
                    Style("page errors", VERMILION),
                    Style("history errors", PINK),
                ],
                calcs=LAST,
            ),
        ),
        Place(
            34,
            12,
            8,
            timeseries(
                "Time to open a session",
                "Mean time of opening a session in the last hour, over all databases. It is never part of a canary's time.",
                "Slow logins cost the database, and budgets of the exporter do not count them. Empty: no session was opened.",
                [
                    Query(
                        f"sum(rate(tde_target_connect_seconds_total{{{INSTANCE}}}[1h])) / ({_CONNECTS} > 0)",
                        "one session",
                    )
                ],
                "s",
                none="no session was opened",
                low=0,
                calcs=LAST,
            ),
        ),
    ),
)

PROCESS = Row(
    4,
    "Page, history and process",
    (
        Place(
            40,
            8,
            8,
            timeseries(
                "Rendering and scraping the page",
                "What the last rendering of the page took, and what a scrape takes.",
                "A scrape returns the page that is ready: it is short however long the rendering takes.",
                [
                    Query(f"max(tde_exporter_page_render_seconds{{{INSTANCE}}})", "rendering"),
                    Query(f"max(scrape_duration_seconds{{{INSTANCE}}})", "scrape"),
                ],
                "s",
                none="not scraped",
                low=0,
                styles=[Style("rendering", BLUE), Style("scrape", ORANGE)],
                calcs=LAST,
            ),
        ),
        Place(
            41,
            8,
            8,
            timeseries(
                "Samples of a page",
                "Samples on the page, samples that Prometheus stored, and samples that were left out in a second because of the"
                " cap.",
                "Refused above 0: raise web.max_series, or measure fewer operations. The end of the page is missing.",
                [
                    Query(f"sum(tde_exporter_series{{{INSTANCE}}})", "on the page"),
                    Query(f"sum(scrape_samples_scraped{{{INSTANCE}}})", "scraped"),
                    Query(f"sum(rate(tde_exporter_series_refused_total{{{INSTANCE}}}[{RATE}]))", "refused a second"),
                ],
                "none",
                none="not scraped",
                low=0,
                styles=[
                    Style("on the page", BLUE),
                    Style("scraped", GREY, {"lineStyle": DASHED}),
                    Style("refused a second", LIMIT, {"lineWidth": 4}),
                ],
                calcs=LAST,
            ),
        ),
        Place(
            42,
            8,
            8,
            timeseries(
                "Size of the history",
                "Size of the file in which the exporter keeps what it observed.",
                "It grows for two weeks and then stays, about a megabyte for each operation.",
                [Query(f"max by (instance) (tde_exporter_state_bytes{{{INSTANCE}}})", "{{instance}}")],
                "bytes",
                none="no history",
                low=0,
                calcs=LAST,
            ),
        ),
        Place(
            43,
            8,
            8,
            timeseries(
                "CPU of the exporter",
                "Processors that the serving process uses, without the probe processes.",
                "A few percent of one processor is right.",
                [Query(f"sum by (instance) (rate(process_cpu_seconds_total{{{INSTANCE}}}[{RATE}]))", "{{instance}}")],
                "percentunit",
                none="not scraped",
                low=0,
                calcs=LAST,
            ),
        ),
        Place(
            44,
            8,
            8,
            timeseries(
                "Memory of the exporter",
                "Memory of the serving process, without the probe processes.",
                "It should stay level after the first day.",
                [Query(f"max by (instance) (process_resident_memory_bytes{{{INSTANCE}}})", "{{instance}}")],
                "bytes",
                none="not scraped",
                low=0,
                calcs=LAST,
            ),
        ),
        Place(
            45,
            8,
            8,
            timeseries(
                "Open files of the exporter",
                "Files and connections that the serving process has open, as a share of its limit.",
                "A line that climbs for days is a leak: tell us.",
                [
                    Query(
                        f"max by (instance) (process_open_fds{{{INSTANCE}}} / process_max_fds{{{INSTANCE}}})",
                        "{{instance}}",
                    )
                ],
                "percentunit",
                none="not scraped",
                low=0,
                calcs=LAST,
            ),
        ),
        Place(
            46,
            8,
            4,
            stat(
                "Configuration",
                "Whether the configuration was taken up the last time it was read, at the start or by a reload.",
                "REFUSED: at least one exporter goes on with the one before, and a restart would fail; its log says why.",
                [Query(f"min(tde_exporter_config_last_reload_successful{{{INSTANCE}}})", "configuration")],
                "none",
                words=TAKEN_UP,
                none="NOT SCRAPED",
            ),
        ),
        Place(
            47,
            8,
            4,
            stat(
                "Configuration taken up",
                "How long ago an exporter last took its configuration up, the one that did so last.",
                "Should be the age of the last change of the file.",
                [
                    Query(
                        f"time() - max(tde_exporter_config_last_reload_success_timestamp_seconds{{{INSTANCE}}})",
                        "age",
                    )
                ],
                "s",
                decimals=0,
                none="not scraped",
            ),
        ),
        Place(
            48,
            8,
            4,
            stat(
                "Different configurations",
                "How many different configurations the exporters that are selected have in use.",
                "1 for replicas of one configuration; else one for each exporter.",
                [Query(f'count(count_values("hash", tde_exporter_config_hash{{{INSTANCE}}}))', "configurations")],
                "none",
                decimals=0,
                none="not scraped",
            ),
        ),
        Place(
            49,
            8,
            8,
            stat(
                "Certificate of the page",
                "How long the certificate is still valid with which an exporter is scraped, of the one that ends first.",
                "Renew it in time: Prometheus does not scrape an expired one. The new one is taken without a restart.",
                [
                    Query(
                        f"min(tde_exporter_web_certificate_expiry_timestamp_seconds{{{INSTANCE}}}) - time()",
                        "left",
                    )
                ],
                "s",
                decimals=0,
                none="NO TLS",
            ),
        ),
        Place(
            50,
            16,
            8,
            timeseries(
                "Clients that are turned away",
                "Connections that ended without an answer, and requests that were refused, each minute.",
                "401 is a wrong password. Passing scanners leave single points; a level line is a client that does not get "
                "its numbers.",
                [
                    Query(
                        f"60 * sum by (reason) (rate(tde_exporter_web_connections_refused_total{{{INSTANCE}}}[{RATE}]))",
                        "{{reason}}",
                    ),
                    Query(
                        f'60 * sum by (code) (rate(tde_exporter_web_requests_total{{{INSTANCE},code=~"4.."}}[{RATE}]))',
                        "{{code}}",
                    ),
                ],
                "none",
                none="not scraped",
                low=0,
                calcs=LAST,
            ),
        ),
    ),
)
