"""Exporter health: is the monitor itself working?"""

from __future__ import annotations

from exporter.bundle.dashboards.board import Board, asked
from exporter.bundle.dashboards.limits import SILENT_SECONDS, SILENT_SECONDS_SOON
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
    steps,
)
from exporter.bundle.dashboards.panels import Query, Style, stat, timeseries
from exporter.bundle.dashboards.queries import JOB, RATE

I = 'job=~"$job",instance=~"$instance"'  # noqa: E741

UP = (Word("", 1, "UP", GOOD), Word("", 0, "DOWN", BAD))

_LAST = ("lastNotNull",)

COLLECTORS = {
    "canary": ORANGE,
    "encryption_state": BLUE,
    "inventory": PURPLE,
    "activity": TEAL,
    "standby": PINK,
    "heartbeat": GREY,
}
SKIPS = {"busy": BLUE, "missed": ORANGE, "budget": PURPLE, "back_off": TEAL, "abandoned": VERMILION}


def _status(board: Board) -> None:
    board.row(1, "Is it working?")
    board.add(
        10,
        stat(
            "Exporter",
            "Whether Prometheus can scrape all exporters that are selected.",
            "DOWN: at least one does not answer, and nothing that it measures is known.",
            [Query(f"min(up{{{I}}})", "exporter")],
            "none",
            words=UP,
            none="NOT SCRAPED",
        ),
        4,
        4,
    )
    board.add(
        11,
        stat(
            "Probe processes",
            "Whether all processes that measure run and report.",
            "DOWN: the databases of one process are not measured now; it is started again by itself.",
            [Query(f"min(tde_exporter_probe_process_up{{{I}}})", "processes")],
            "none",
            words=UP,
            none="NOT KNOWN",
        ),
        4,
        4,
    )
    board.add(
        12,
        stat(
            "Failing collectors",
            "Collectors whose last run failed or is overdue, over all databases.",
            "Should be 0; the graph below says which, the page of the exporter why.",
            [Query(f"sum(tde_exporter_collector_success{{{I}}} == bool 0)", "failing")],
            "none",
            decimals=0,
            none="no collector has run",
            thresholds=steps(BLUE, (1, VERMILION)),
        ),
        4,
        4,
    )
    board.add(
        13,
        stat(
            "Oldest success of a canary",
            "How long ago the canary that has been silent for longest last succeeded.",
            "Rare operations, such as full scans, are silent for minutes by design.",
            [
                Query(
                    f"time() - min(max by (target, pair, operation) (tde_canary_last_success_timestamp_seconds{{{I}}}))",
                    "age",
                )
            ],
            "s",
            decimals=0,
            none="no canary yet",
            thresholds=steps(BLUE, (SILENT_SECONDS_SOON, ORANGE), (SILENT_SECONDS, VERMILION)),
        ),
        4,
        4,
    )
    board.add(
        14,
        stat(
            "Samples on the page",
            "How many samples one scrape brings, over all exporters that are selected.",
            "Some 300 for each database. Samples refused, in the graph below, means that the cap was reached.",
            [Query(f"sum(tde_exporter_series{{{I}}})", "samples")],
            "none",
            decimals=0,
            none="not scraped",
        ),
        4,
        4,
    )
    board.add(
        15,
        stat(
            "Version",
            "Versions of the exporters that are selected.",
            "More than one: an upgrade is not complete.",
            [Query(f"count by (version) (tde_exporter_build_info{{{I}}})", "{{version}}")],
            "none",
            none="not scraped",
            text="name",
        ),
        4,
        4,
    )


def _work(board: Board) -> None:
    board.row(2, "Measuring")
    board.add(
        20,
        timeseries(
            "Duration of collectors",
            "What the last run of each collector took, the slowest of all databases.",
            "Must stay well below the interval of the collector; otherwise runs are skipped as busy.",
            [Query(f"max by (collector) (tde_exporter_collector_duration_seconds{{{I}}})", "{{collector}}")],
            "s",
            none="no collector has run",
            low=0,
            styles=[Style(name, colour) for name, colour in COLLECTORS.items()],
            calcs=_LAST,
        ),
        12,
        8,
    )
    board.add(
        21,
        timeseries(
            "Failing collectors",
            "How many databases each collector fails or is overdue for.",
            "All collectors of one database: it cannot be reached. One collector everywhere: a right is missing, most"
            " likely.",
            [Query(f"sum by (collector) (tde_exporter_collector_success{{{I}}} == bool 0)", "{{collector}}")],
            "none",
            none="no collector has run",
            decimals=0,
            low=0,
            styles=[Style(name, colour) for name, colour in COLLECTORS.items()],
            steps_of=True,
            calcs=_LAST,
        ),
        12,
        8,
    )
    board.add(
        22,
        timeseries(
            "Age of the last success",
            "How long ago each collector last succeeded, the oldest of all databases.",
            "A sawtooth as high as the interval is right; a line that climbs is a collector that fails.",
            [
                Query(
                    f"time() - min by (collector) (tde_exporter_collector_last_success_timestamp_seconds{{{I}}})",
                    "{{collector}}",
                )
            ],
            "s",
            none="no collector has succeeded",
            low=0,
            styles=[Style(name, colour) for name, colour in COLLECTORS.items()],
            calcs=_LAST,
        ),
        12,
        8,
    )
    board.add(
        23,
        timeseries(
            "Runs that were skipped, by reason",
            "Planned runs in a second that did not happen: busy (the one before had not ended), missed (the time had"
            " passed), budget (no canary time left), back off (a connection failed), abandoned (a call never ended).",
            "budget is the limit doing its work: samples become fewer. The others should be near 0.",
            [Query(f"sum by (reason) (rate(tde_exporter_runs_skipped_total{{{I}}}[{RATE}]))", "{{reason}}")],
            "cps",
            none="not known",
            low=0,
            styles=[Style(name, colour) for name, colour in SKIPS.items()],
            calcs=_LAST,
        ),
        12,
        8,
    )
    board.add(
        24,
        timeseries(
            "Budgets in use, worst database",
            "The highest share in use of each budget over all databases, and the highest share of time spent.",
            "At 100 % of time or bytes, canary queries of that database are put off.",
            [Query(f"max by (budget) (tde_canary_budget_used_ratio{{{I}}})", "{{budget}}")],
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
            calcs=_LAST,
        ),
        12,
        8,
    )
    board.add(
        25,
        timeseries(
            "Sessions that failed, by reason",
            "Sessions in a second that could not be opened or were lost, over all databases.",
            "auth: a secret is wrong, and is not tried again until it changes. timeout, connect: the network.",
            [Query(f"sum by (reason) (rate(tde_target_connection_errors_total{{{I}}}[{RATE}]))", "{{reason}}")],
            "cps",
            none="not known",
            low=0,
            styles=[
                Style("connect", BLUE),
                Style("auth", VERMILION),
                Style("tls", PURPLE),
                Style("timeout", ORANGE),
                Style("unavailable", GREY),
            ],
            calcs=_LAST,
        ),
        12,
        8,
    )


def _truth(board: Board) -> None:
    board.row(3, "How true are the measurements?")

    def percentile(share: str, metric: str) -> str:
        return f"histogram_quantile({share}, sum by (le) (rate({metric}_bucket{{{I}}}[{RATE}])))"

    board.add(
        30,
        timeseries(
            "Noise floor",
            "Time of a canary that does nothing, from its histogram: differences below it cannot be seen.",
            "Microseconds on a quiet machine. Milliseconds at P99: the machine of the exporter is busy, and tails measured"
            " by its clock are wide.",
            [
                Query(percentile("0.5", "tde_exporter_timer_noise_seconds"), "P50"),
                Query(percentile("0.99", "tde_exporter_timer_noise_seconds"), "P99"),
            ],
            "s",
            none="not measured yet",
            low=0,
            styles=[Style("P50", BLUE, {"lineStyle": DASHED}), Style("P99", ORANGE)],
            calcs=_LAST,
        ),
        8,
        8,
    )
    board.add(
        31,
        timeseries(
            "Lateness of the schedule",
            "Time from the planned to the real start of runs, from its histogram.",
            "Milliseconds are right. Seconds: the exporter has too little CPU.",
            [
                Query(percentile("0.5", "tde_exporter_schedule_lateness_seconds"), "P50"),
                Query(percentile("0.99", "tde_exporter_schedule_lateness_seconds"), "P99"),
            ],
            "s",
            none="nothing was scheduled",
            low=0,
            styles=[Style("P50", BLUE, {"lineStyle": DASHED}), Style("P99", ORANGE)],
            calcs=_LAST,
        ),
        8,
        8,
    )
    board.add(
        32,
        timeseries(
            "Ticks dropped and values ignored",
            "Ticks in a second that were left out because the exporter itself was in the way, and values from databases that"
            " cannot be true.",
            "Both near 0. Many dropped ticks: too many databases for this machine. Ignored values: tell us, with the"
            " engine and its version.",
            [
                Query(f"sum(rate(tde_canary_contended_total{{{I}}}[{RATE}]))", "ticks dropped"),
                Query(f"sum(rate(tde_exporter_invalid_values_total{{{I}}}[{RATE}]))", "values ignored"),
            ],
            "cps",
            none="not known",
            low=0,
            styles=[Style("ticks dropped", BLUE), Style("values ignored", VERMILION)],
            calcs=_LAST,
        ),
        8,
        8,
    )
    board.add(
        33,
        timeseries(
            "What went wrong, and was survived",
            "Restarts of probe processes, calls given up, steps of the clock, messages lost, and errors of page and"
            " history, in each hour.",
            "All 0 on a good day. Starts of processes include the first one.",
            [
                Query(f"sum(increase({metric}{{{I}}}[1h]))", name)
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
            calcs=_LAST,
        ),
        12,
        8,
    )
    connects = f"sum(rate(tde_target_connects_total{{{I}}}[1h]))"
    board.add(
        34,
        timeseries(
            "Time to open a session",
            "Mean time of opening a session in the last hour, over all databases. It is never part of a canary's time.",
            "Slow logins cost the database, and budgets of the exporter do not count them. Empty: no session was opened.",
            [Query(f"sum(rate(tde_target_connect_seconds_total{{{I}}}[1h])) / ({connects} > 0)", "one session")],
            "s",
            none="no session was opened",
            low=0,
            calcs=_LAST,
        ),
        12,
        8,
    )


def _process(board: Board) -> None:
    board.row(4, "Page, history and process")
    board.add(
        40,
        timeseries(
            "Rendering and scraping the page",
            "What the last rendering of the page took, and what a scrape takes.",
            "A scrape returns the page that is ready: it is short however long the rendering takes.",
            [
                Query(f"max(tde_exporter_page_render_seconds{{{I}}})", "rendering"),
                Query(f"max(scrape_duration_seconds{{{I}}})", "scrape"),
            ],
            "s",
            none="not scraped",
            low=0,
            styles=[Style("rendering", BLUE), Style("scrape", ORANGE)],
            calcs=_LAST,
        ),
        8,
        8,
    )
    board.add(
        41,
        timeseries(
            "Samples of a page",
            "Samples on the page, samples that Prometheus stored, and samples that were left out in a second because of the"
            " cap.",
            "Refused above 0: raise web.max_series, or measure fewer operations. The end of the page is missing.",
            [
                Query(f"sum(tde_exporter_series{{{I}}})", "on the page"),
                Query(f"sum(scrape_samples_scraped{{{I}}})", "scraped"),
                Query(f"sum(rate(tde_exporter_series_refused_total{{{I}}}[{RATE}]))", "refused a second"),
            ],
            "none",
            none="not scraped",
            low=0,
            styles=[
                Style("on the page", BLUE),
                Style("scraped", GREY, {"lineStyle": DASHED}),
                Style("refused a second", LIMIT, {"lineWidth": 4}),
            ],
            calcs=_LAST,
        ),
        8,
        8,
    )
    board.add(
        42,
        timeseries(
            "Size of the history",
            "Size of the file in which the exporter keeps what it observed.",
            "It grows for two weeks and then stays, about a megabyte for each operation.",
            [Query(f"max by (instance) (tde_exporter_state_bytes{{{I}}})", "{{instance}}")],
            "bytes",
            none="no history",
            low=0,
            calcs=_LAST,
        ),
        8,
        8,
    )
    board.add(
        43,
        timeseries(
            "CPU of the exporter",
            "Processors that the serving process uses, without the probe processes.",
            "A few percent of one processor is right.",
            [Query(f"sum by (instance) (rate(process_cpu_seconds_total{{{I}}}[{RATE}]))", "{{instance}}")],
            "percentunit",
            none="not scraped",
            low=0,
            calcs=_LAST,
        ),
        8,
        8,
    )
    board.add(
        44,
        timeseries(
            "Memory of the exporter",
            "Memory of the serving process, without the probe processes.",
            "It should stay level after the first day.",
            [Query(f"max by (instance) (process_resident_memory_bytes{{{I}}})", "{{instance}}")],
            "bytes",
            none="not scraped",
            low=0,
            calcs=_LAST,
        ),
        8,
        8,
    )
    board.add(
        45,
        timeseries(
            "Open files of the exporter",
            "Files and connections that the serving process has open, as a share of its limit.",
            "A line that climbs for days is a leak: tell us.",
            [Query(f"max by (instance) (process_open_fds{{{I}}} / process_max_fds{{{I}}})", "{{instance}}")],
            "percentunit",
            none="not scraped",
            low=0,
            calcs=_LAST,
        ),
        8,
        8,
    )


def health() -> Board:
    """The exporters themselves."""
    board = Board(
        "tde-exporter",
        "TDE / Exporter health",
        "Is the monitor itself working, and how true is what it measures?",
        [
            JOB,
            asked("instance", "Instance", 'label_values(tde_exporter_build_info{job=~"$job"}, instance)', several=True),
        ],
    )
    _status(board)
    _work(board)
    _truth(board)
    _process(board)
    return board
