"""Target detail, why it costs that: what goes through the cipher, storage, processors."""

from __future__ import annotations

from exporter.bundle.dashboards.board import Place, Row
from exporter.bundle.dashboards.limits import CPU
from exporter.bundle.dashboards.palette import BLUE, DASHED, ENCRYPTED, GREY, ORANGE, PLAIN, PURPLE, TEAL
from exporter.bundle.dashboards.panels import LAST, Panel, Query, Style, band, timeseries
from exporter.bundle.dashboards.queries import OPERATION, PAIR, RATE, TARGET, per_run, read_latency, share
from exporter.bundle.dashboards.shared import ciphered
from exporter.bundle.dashboards.tables import Column, table

_TWINS = (Style("encrypted", ENCRYPTED), Style("plain", PLAIN, {"lineStyle": DASHED}))


def _facts() -> Panel:
    return table(
        "Rows in a block",
        "Rows of each twin, and how many of them lie in one block.",
        "Encrypted blocks cost once for all their rows, encrypted columns once for each row: few rows in a block favour"
        " columns, many favour blocks. Both twins must agree, or the pair is invalid.",
        [
            f"max by (variant) (tde_pair_rows{{{PAIR}}})",
            f"max by (variant) (tde_pair_rows_per_block{{{PAIR}}})",
        ],
        [
            Column("variant", "Twin", 100),
            Column("Value #A", "Rows", 120, "locale", 0),
            Column("Value #B", "Rows in a block", 140, "none", 1),
        ],
        across=8,
        none="not known for this pair",
    )


_CORES = "tde_encryption_cpu_cores_estimate"

CIPHER = Row(
    3,
    "Why: what goes through the cipher",
    (
        Place(
            30,
            8,
            8,
            timeseries(
                "CPU cost of one decrypt",
                "CPU time that decrypting one block (or value) costs over the last hour, by the operation that knows it best;"
                " the band is its 95 % interval.",
                "It belongs to the processor and the algorithm and should stay flat. A lower bound below 0 means that no cost"
                " has been shown.",
                [
                    Query(f"max(tde_decrypt_cost_seconds_lower{{{PAIR}}})", "at least"),
                    Query(f"max(tde_decrypt_cost_seconds_upper{{{PAIR}}})", "at most"),
                    Query(f"max by (unit) (tde_decrypt_cost_seconds{{{PAIR}}})", "per {{unit}}"),
                ],
                "s",
                none="no decrypts, or not counted",
                styles=band("/^per /"),
                calcs=LAST,
            ),
        ),
        Place(
            31,
            8,
            8,
            ciphered(
                "Blocks or values that the whole database decrypts and encrypts in a second, by its own counters or derived"
                " from reads of encrypted files.",
                "Times the cost of one decrypt this is the processor time that encryption takes. Near 0: the cache holds"
                " everything, and encryption costs nothing now.",
            ),
        ),
        Place(
            32,
            8,
            8,
            timeseries(
                "Processors that encryption uses",
                "Estimate for the whole database: its decrypts and encrypts per second times the cost of one; the band comes"
                " from the interval of the cost.",
                "0.5 means half a processor. It assumes blocks like those of the twins. Compare with the CPU of the database"
                " below.",
                [
                    Query(f"max({_CORES}_lower{{{TARGET}}})", "at least"),
                    Query(f"max({_CORES}_upper{{{TARGET}}})", "at most"),
                    Query(f"max({_CORES}{{{TARGET}}})", "processors"),
                ],
                "none",
                none="no decrypts, or their cost not known",
                low=0,
                styles=band("processors"),
                calcs=LAST,
            ),
        ),
        Place(
            33,
            8,
            8,
            timeseries(
                "Through the cipher in one canary query",
                "Blocks or values decrypted and encrypted by one query of the selected operation, on average over the selected"
                " window: the proof that the comparison is one.",
                "The encrypted twin must be above 0, or the operation is blind; the plain twin must be 0.",
                [
                    Query(
                        per_run("tde_canary_decrypts_total", OPERATION, "variant", "$window"), "{{variant}} decrypts"
                    ),
                    Query(
                        per_run("tde_canary_encrypts_total", OPERATION, "variant", "$window"), "{{variant}} encrypts"
                    ),
                ],
                "none",
                none="not counted by this engine",
                decimals=1,
                low=0,
                styles=[
                    Style("/^encrypted/", ENCRYPTED),
                    Style("/^plain/", PLAIN),
                    Style("/encrypts$/", properties={"lineStyle": DASHED}),
                ],
            ),
        ),
        Place(
            34,
            8,
            8,
            timeseries(
                "From storage: reads of canary queries",
                "Share of the queries of the selected operation in the last hour that touched storage.",
                "Both twins should agree: if one finds more in memory than the other, the comparison is about caching. At 0 %"
                " nothing has to be decrypted.",
                [Query(f"max by (variant) (tde_canary_cold_ratio{{{OPERATION}}})", "{{variant}}")],
                "percentunit",
                none="reads not counted",
                low=0,
                high=1,
                styles=_TWINS,
                calcs=LAST,
            ),
        ),
        Place(
            35,
            8,
            8,
            timeseries(
                "Blocks read in one canary query",
                "Physical reads of one query of the selected operation, on average over the selected window.",
                "Twins that read differently do not hold the same data in the same order: their ratio is not about"
                " encryption alone.",
                [Query(per_run("tde_canary_blocks_read_total", OPERATION, "variant", "$window"), "{{variant}}")],
                "none",
                none="reads not counted",
                decimals=1,
                low=0,
                styles=_TWINS,
                calcs=LAST,
            ),
        ),
    ),
)

_USED = f"sum(rate(tde_instance_cpu_seconds_total{{{TARGET}}}[{RATE}]))"

_SIDE = f'{OPERATION},variant="encrypted"'

_PER_QUERY = f"/ on () group_left () (sum(rate(tde_canary_runs_total{{{_SIDE}}}[$window])) > 0)"

STORAGE = Row(
    4,
    "Why: storage and processors",
    (
        Place(
            40,
            8,
            8,
            timeseries(
                "Latency of a physical read",
                "Mean time of a physical read of the whole database: time of reads / number of reads.",
                "The slower the storage, the less encryption shows in latency, for a decrypt costs the same. A rise here with"
                " a flat overhead: the storage, not encryption.",
                [Query(read_latency(TARGET, "target"), "one read")],
                "s",
                none="not counted by this engine",
                low=0,
                calcs=LAST,
            ),
        ),
        Place(
            41,
            8,
            8,
            timeseries(
                "Reads that found their block in memory",
                "Share of the database's reads that were served from its cache.",
                "What is found in memory is not decrypted again: encryption costs more the lower this is.",
                [Query(f"max(tde_instance_buffer_hit_ratio{{{TARGET}}})", "found in memory")],
                "percentunit",
                none="not told by this engine",
                high=1,
                calcs=LAST,
            ),
        ),
        Place(
            42,
            8,
            8,
            timeseries(
                "Processors in use",
                "Share of the host's processors in use, and of that what the database uses, where both are known. Dashed: 85 %.",
                "Above the line, every percent of encryption becomes waiting time, and P99 rises first.",
                [
                    Query(f"max(tde_host_cpu_utilization_ratio{{{TARGET}}})", "host"),
                    Query(share(_USED, f"max(tde_host_cpus{{{TARGET}}})"), "database"),
                ],
                "percentunit",
                none="not known for this host",
                limit=CPU,
                low=0,
                high=1,
                styles=[Style("host", GREY), Style("database", BLUE)],
                calcs=LAST,
            ),
        ),
        Place(
            43,
            8,
            8,
            timeseries(
                "CPU of one canary query",
                "Processor time of the server for one query of the selected operation, on average over the selected window.",
                "The distance of the lines is what encryption costs, in time of a processor.",
                [Query(per_run("tde_canary_cpu_seconds_total", OPERATION, "variant", "$window"), "{{variant}}")],
                "s",
                none="CPU not counted",
                low=0,
                styles=_TWINS,
                calcs=LAST,
            ),
        ),
        Place(
            44,
            8,
            8,
            timeseries(
                "Where the time of a query goes",
                "Time of one successful query of the selected operation by phase, encrypted twin only, on average over the"
                " selected window; beside it what the server itself reports.",
                "Decrypting happens in execute and fetch. Time that the server does not report is spent on the way.",
                [
                    Query(
                        f"sum by (phase) (rate(tde_canary_phase_seconds_total{{{_SIDE}}}[$window])) {_PER_QUERY}",
                        "{{phase}}",
                    ),
                    Query(
                        f"sum(rate(tde_canary_server_seconds_total{{{_SIDE}}}[$window])) {_PER_QUERY}", "by the server"
                    ),
                ],
                "s",
                none="no successful query",
                low=0,
                styles=[
                    Style("execute", ORANGE),
                    Style("fetch", TEAL),
                    Style("commit", PURPLE),
                    Style("by the server", GREY, {"lineStyle": DASHED}),
                ],
                calcs=LAST,
            ),
        ),
        Place(45, 8, 8, _facts()),
    ),
)
