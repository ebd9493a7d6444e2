"""Target detail, second part: why encryption costs what it costs, and what the measuring itself costs."""

from __future__ import annotations

from exporter.bundle.dashboards.board import Board
from exporter.bundle.dashboards.limits import CPU
from exporter.bundle.dashboards.palette import (
    BLUE,
    DASHED,
    ENCRYPTED,
    GREY,
    LIMIT,
    ORANGE,
    PLAIN,
    PURPLE,
    TEAL,
)
from exporter.bundle.dashboards.panels import Column, Query, Style, band, table, timeseries
from exporter.bundle.dashboards.queries import RATE, per_run, read_latency, share

_TWINS = (Style("encrypted", ENCRYPTED), Style("plain", PLAIN, {"lineStyle": DASHED}))
_LAST = ("lastNotNull",)


def _cipher(board: Board, target: str, pair: str, operation: str) -> None:
    board.row(3, "Why: what goes through the cipher")
    board.add(
        30,
        timeseries(
            "CPU cost of one decrypt",
            "CPU time that decrypting one block (or value) costs over the last hour, by the operation that knows it best;"
            " the band is its 95 % interval.",
            "It belongs to the processor and the algorithm and should stay flat. A lower bound below 0 means that no cost"
            " has been shown.",
            [
                Query(f"max(tde_decrypt_cost_seconds_lower{{{pair}}})", "at least"),
                Query(f"max(tde_decrypt_cost_seconds_upper{{{pair}}})", "at most"),
                Query(f"max by (unit) (tde_decrypt_cost_seconds{{{pair}}})", "per {{unit}}"),
            ],
            "s",
            none="decrypts or CPU not counted",
            styles=band("/^per /"),
            calcs=_LAST,
        ),
        8,
        8,
    )
    board.add(
        31,
        timeseries(
            "Decrypts and encrypts of the database",
            "Blocks or values that the whole database decrypts and encrypts in a second, by its own counters or derived"
            " from reads of encrypted files.",
            "Times the cost of one decrypt this is the processor time that encryption takes. Near 0: the cache holds"
            " everything, and encryption costs nothing now.",
            [
                Query(f"sum by (unit) (rate(tde_instance_decrypts_total{{{target}}}[{RATE}]))", "{{unit}}s decrypted"),
                Query(f"sum by (unit) (rate(tde_instance_encrypts_total{{{target}}}[{RATE}]))", "{{unit}}s encrypted"),
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
    cores = "tde_encryption_cpu_cores_estimate"
    board.add(
        32,
        timeseries(
            "Processors that encryption uses",
            "Estimate for the whole database: its decrypts and encrypts per second times the cost of one; the band comes"
            " from the interval of the cost.",
            "0.5 means half a processor. It assumes blocks like those of the twins. Compare with the CPU of the database"
            " below.",
            [
                Query(f"max({cores}_lower{{{target}}})", "at least"),
                Query(f"max({cores}_upper{{{target}}})", "at most"),
                Query(f"max({cores}{{{target}}})", "processors"),
            ],
            "none",
            none="decrypts or their cost not known",
            low=0,
            styles=band("processors"),
            calcs=_LAST,
        ),
        8,
        8,
    )
    board.add(
        33,
        timeseries(
            "Through the cipher in one canary query",
            "Blocks or values decrypted and encrypted by one query of the selected operation, on average over the selected"
            " window: the proof that the comparison is one.",
            "The encrypted twin must be above 0, or the operation is blind; the plain twin must be 0.",
            [
                Query(per_run("tde_canary_decrypts_total", operation, "variant", "$window"), "{{variant}} decrypts"),
                Query(per_run("tde_canary_encrypts_total", operation, "variant", "$window"), "{{variant}} encrypts"),
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
            calcs=_LAST,
        ),
        8,
        8,
    )
    board.add(
        34,
        timeseries(
            "From storage: reads of canary queries",
            "Share of the queries of the selected operation in the last hour that touched storage.",
            "Both twins should agree: if one finds more in memory than the other, the comparison is about caching. At 0 %"
            " nothing has to be decrypted.",
            [Query(f"max by (variant) (tde_canary_cold_ratio{{{operation}}})", "{{variant}}")],
            "percentunit",
            none="reads not counted",
            low=0,
            high=1,
            styles=_TWINS,
            calcs=_LAST,
        ),
        8,
        8,
    )
    board.add(
        35,
        timeseries(
            "Blocks read in one canary query",
            "Physical reads of one query of the selected operation, on average over the selected window.",
            "Twins that read differently do not hold the same data in the same order: their ratio is not about"
            " encryption alone.",
            [Query(per_run("tde_canary_blocks_read_total", operation, "variant", "$window"), "{{variant}}")],
            "none",
            none="reads not counted",
            decimals=1,
            low=0,
            styles=_TWINS,
            calcs=_LAST,
        ),
        8,
        8,
    )


def _storage(board: Board, target: str, pair: str, operation: str) -> None:
    board.row(4, "Why: storage and processors")
    board.add(
        40,
        timeseries(
            "Latency of a physical read",
            "Mean time of a physical read of the whole database: time of reads / number of reads.",
            "The slower the storage, the less encryption shows in latency, for a decrypt costs the same. A rise here with"
            " a flat overhead: the storage, not encryption.",
            [Query(read_latency(target, "target"), "one read")],
            "s",
            none="not counted by this engine",
            low=0,
            calcs=_LAST,
        ),
        8,
        8,
    )
    board.add(
        41,
        timeseries(
            "Reads that found their block in memory",
            "Share of the database's reads that were served from its cache.",
            "What is found in memory is not decrypted again: encryption costs more the lower this is.",
            [Query(f"max(tde_instance_buffer_hit_ratio{{{target}}})", "found in memory")],
            "percentunit",
            none="not told by this engine",
            high=1,
            calcs=_LAST,
        ),
        8,
        8,
    )
    used = f"sum(rate(tde_instance_cpu_seconds_total{{{target}}}[{RATE}]))"
    board.add(
        42,
        timeseries(
            "Processors in use",
            "Share of the host's processors in use, and of that what the database uses, where both are known. Dashed: 85 %.",
            "Above the line, every percent of encryption becomes waiting time, and P99 rises first.",
            [
                Query(f"max(tde_host_cpu_utilization_ratio{{{target}}})", "host"),
                Query(share(used, f"max(tde_host_cpus{{{target}}})"), "database"),
            ],
            "percentunit",
            none="not known for this host",
            limit=CPU,
            low=0,
            high=1,
            styles=[Style("host", GREY), Style("database", BLUE)],
            calcs=_LAST,
        ),
        8,
        8,
    )
    board.add(
        43,
        timeseries(
            "CPU of one canary query",
            "Processor time of the server for one query of the selected operation, on average over the selected window.",
            "The distance of the lines is what encryption costs, in time of a processor.",
            [Query(per_run("tde_canary_cpu_seconds_total", operation, "variant", "$window"), "{{variant}}")],
            "s",
            none="CPU not counted",
            low=0,
            styles=_TWINS,
            calcs=_LAST,
        ),
        8,
        8,
    )
    side = f'{operation},variant="encrypted"'
    per_query = f"/ on () group_left () (sum(rate(tde_canary_runs_total{{{side}}}[$window])) > 0)"
    board.add(
        44,
        timeseries(
            "Where the time of a query goes",
            "Time of one successful query of the selected operation by phase, encrypted twin only, on average over the"
            " selected window; beside it what the server itself reports.",
            "Decrypting happens in execute and fetch. Time that the server does not report is spent on the way.",
            [
                Query(
                    f"sum by (phase) (rate(tde_canary_phase_seconds_total{{{side}}}[$window])) {per_query}", "{{phase}}"
                ),
                Query(f"sum(rate(tde_canary_server_seconds_total{{{side}}}[$window])) {per_query}", "by the server"),
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
            calcs=_LAST,
        ),
        8,
        8,
    )
    board.add(45, _facts(pair), 8, 8)


def _facts(pair: str) -> dict[str, object]:
    return table(
        "Rows in a block",
        "Rows of each twin, and how many of them lie in one block.",
        "Encrypted blocks cost once for all their rows, encrypted columns once for each row: few rows in a block favour"
        " columns, many favour blocks. Both twins must agree, or the pair is invalid.",
        [
            f"max by (variant) (tde_pair_rows{{{pair}}})",
            f"max by (variant) (tde_pair_rows_per_block{{{pair}}})",
        ],
        [
            Column("variant", "Twin", 120),
            Column("Value #A", "Rows", 120, "short", 1),
            Column("Value #B", "Rows in a block", 140, "none", 1),
        ],
    )


def _canaries(board: Board, target: str) -> None:
    board.row(5, "What the measuring costs")
    board.add(
        50,
        timeseries(
            "Time spent on canary queries",
            "Share of the last hour in which this database executed canary queries, and the limit that is kept.",
            "Always below the dashed line. At the line, runs are skipped and samples are fewer.",
            [
                Query(f"max(tde_canary_load_ratio{{{target}}})", "spent"),
                Query(f"max(tde_canary_load_limit_ratio{{{target}}})", "limit"),
            ],
            "percentunit",
            none="not known",
            low=0,
            styles=[Style("limit", LIMIT, {"lineStyle": DASHED, "lineWidth": 1})],
            calcs=_LAST,
        ),
        8,
        8,
    )
    board.add(
        51,
        timeseries(
            "Budgets in use",
            "Share in use of what an hour may take (time, bytes read, bytes written) and of the sessions that may be open.",
            "At 100 % of time or bytes, canary queries are put off. Sessions at 100 % are usual for small limits.",
            [Query(f"max by (budget) (tde_canary_budget_used_ratio{{{target}}})", "{{budget}}")],
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
        8,
        8,
    )
    board.add(
        52,
        timeseries(
            "Bytes moved by canary queries",
            "Bytes that canary queries read from and wrote to storage in a second, discarded warm-ups included.",
            "Compare with what your storage does; budgets for bytes are in the configuration.",
            [
                Query(f"sum(rate(tde_canary_bytes_read_total{{{target}}}[{RATE}]))", "read"),
                Query(f"sum(rate(tde_canary_bytes_written_total{{{target}}}[{RATE}]))", "written"),
            ],
            "Bps",
            none="not counted by this engine",
            low=0,
            styles=[Style("read", ORANGE), Style("written", PURPLE)],
            calcs=_LAST,
        ),
        8,
        8,
    )
    board.add(
        53,
        timeseries(
            "Canary queries",
            "Canary queries in a second, failed ones included, of both twins together.",
            "A steady rate is right. It falls when budgets are used up or the database does not answer.",
            [Query(f"sum by (variant) (rate(tde_canary_runs_total{{{target}}}[{RATE}]))", "{{variant}}")],
            "cps",
            none="no queries",
            low=0,
            styles=_TWINS,
            calcs=_LAST,
        ),
        8,
        8,
    )
    board.add(
        54,
        timeseries(
            "Canary queries that failed, by reason",
            "Failed canary queries in a second on either twin; and whether the encrypted twin alone fails.",
            "Failures on both twins: the database. On the encrypted one alone: its key, most likely.",
            [
                Query(
                    f"sum by (variant, reason) (rate(tde_canary_run_failures_total{{{target}}}[{RATE}]))",
                    "{{variant}} {{reason}}",
                ),
                Query(f"max(tde_canary_encrypted_failing{{{target}}})", "encrypted alone fails"),
            ],
            "cps",
            none="no failures counted",
            low=0,
            styles=[
                Style("/^encrypted/", ENCRYPTED),
                Style("/^plain/", PLAIN, {"lineStyle": DASHED}),
                Style("encrypted alone fails", LIMIT, {"lineWidth": 4, "unit": "none"}),
            ],
        ),
        8,
        8,
    )
    board.add(
        55,
        timeseries(
            "Sessions opened, lost and refused",
            "Sessions opened in a second, those that could not be opened or were lost, and ticks that were dropped because"
            " the exporter itself was in the way.",
            "Opened sessions belong to starts and reconnects: near 0 is right. For reasons see Exporter health.",
            [
                Query(f"sum(rate(tde_target_connects_total{{{target}}}[{RATE}]))", "opened"),
                Query(f"sum(rate(tde_target_connection_errors_total{{{target}}}[{RATE}]))", "failed"),
                Query(f"sum(rate(tde_canary_contended_total{{{target}}}[{RATE}]))", "ticks dropped"),
            ],
            "cps",
            none="not known",
            low=0,
            styles=[Style("opened", BLUE), Style("failed", LIMIT), Style("ticks dropped", GREY)],
        ),
        8,
        8,
    )


def add_to(board: Board, target: str, pair: str, operation: str) -> None:
    """Add the rows that explain the cost; the selectors say which target, pair and operation are meant."""
    _cipher(board, target, pair, operation)
    _storage(board, target, pair, operation)
    _canaries(board, target)
