"""Every query of every dashboard, on a live exporter with the embedded engine that Prometheus has scraped for some seconds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from exporter.bundle.dashboards import boards
from tests.daemons import Daemon
from tests.dashboards.evaluation import Answer, Prometheus, Span, answers, variables
from tests.dashboards.served import serving

SETTINGS = {
    "targets": [
        {
            "name": "embedded",
            "engine": "sqlite",
            "pairs": [{"name": "phonebook", "rows": 20_000}],
            "intervals": {"canary": "1s", "encryption_state": "1s", "activity": "1s", "standby": "1s"},
            "budgets": {"time_share_ratio": 1.0},
            "standbys": [{"name": "mirror"}],
        }
    ],
    "probes": {"processes": 1},
}

EARLY = "seconds after the start there are too few samples for an interval"
NOT_KEPT = "the embedded engine has no such sum or fact"
NO_BREACH = "no breach lasts"
NO_RULES = "this Prometheus has no rules"
QUIET = "no conversion is under way, and nothing waits for one"
ITS_HOST = "the host's processors are told after two readings, and only where they can be seen"
READS = "the operation that is selected at first only reads, and so encrypts nothing"
NO_SESSION = "no session was opened while Prometheus looked"
NO_BASELINE = "no baseline was frozen"
BEFORE = "Prometheus has not seen the time before the event"
NOT_YET = "the history is written after the first minutes"


def _because(reason: str, *places: str) -> dict[str, str]:
    """`22AC` stands for the queries A and C of panel 22."""
    found: dict[str, str] = {}
    for place in places:
        number, letters = re.findall(r"\d+|[A-Z]+", place)
        found.update({f"{number}{letter}": reason for letter in letters})
    return found


MAY_BE_EMPTY = {
    "tde-fleet": {
        **_because(EARLY, "20CDJ", "30A", "32A"),
        **_because(NO_RULES, "15A"),
        **_because(ITS_HOST, "20I", "33A"),
    },
    "tde-target": {
        **_because(EARLY, "12A", "13AB", "20ABC", "22BCDEFK", "26ABC", "30ABC", "32ABC"),
        **_because(NO_BREACH, "20D", "24C"),
        **_because(NOT_KEPT, "31AB", "40A", "41A", "44B", "61AB", "63A", "69EF", "70A", "72B", "73BIJ", "82B"),
        **_because(ITS_HOST, "42AB", "81C"),
        **_because(QUIET, "68A", "69CD", "74A"),
        **_because(READS, "33B"),
    },
    "tde-enablement": {
        **_because(NO_BASELINE, "11A", "12ABC", "13AB", "20ABCDE", "21A", "22ACDEFG"),
        **_because(EARLY, "21B", "22B", "30AB", "31A"),
        **_because(BEFORE, "23AB", "31B"),
        **_because(ITS_HOST, "32AB"),
        **_because(NOT_KEPT, "40AB", "41A"),
        **_because(NO_BREACH, "44AB"),
    },
    "tde-exporter": {
        **_because(NO_SESSION, "34A"),
        **_because(NOT_YET, "42A"),
        **_because("it is scraped without TLS", "49A"),
    },
}
"""Queries that may yield nothing on a healthy live stack, and why. Their panels say it too."""


def mark_enablement(exporter: Daemon) -> None:
    """As an operator does, on the command line."""
    config = exporter.directory / "config.yaml"
    command = [
        sys.executable,
        "-m",
        "exporter",
        "--config",
        str(config),
        "mark",
        "embedded",
        "on",
        "--kind",
        "enablement",
    ]
    environ = {**os.environ, "TDE_EXPORTER_STATE_DIRECTORY": str(exporter.directory / "state")}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr


def looked_at(server: Prometheus, span: Span) -> list[Answer]:
    found: list[Answer] = []
    for board in boards():
        dashboard = board.model()
        found += answers(dashboard, server, span, variables(dashboard, server, span))
    return found


def test_panels_without_data_are_those_that_say_why(
    daemon: Callable[..., Daemon], prometheus: Path, tmp_path: Path
) -> None:
    exporter = daemon(SETTINGS).start().ready()
    mark_enablement(exporter)
    folder = tmp_path / "prometheus"
    folder.mkdir()
    scraped = f"""
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: tde-exporter
    static_configs: [{{targets: ["127.0.0.1:{exporter.port}"]}}]
"""
    with serving(prometheus, folder, scraped) as url:
        server = Prometheus(url)

        def holds(expr: str) -> bool:
            return bool(server.now(expr, Span(0, time.time())))

        for expr in (
            'tde_event_timestamp_seconds{kind="enablement"}',
            'count_over_time(tde_standby_lag_seconds{kind="heartbeat"}[1m]) >= 3',
            "tde_overhead_state == 1",
            "tde_overhead_evidence",
            'sum(increase(tde_canary_runs_total{operation="full_scan_cold"}[1m])) > 0',
            'sum(increase(tde_canary_runs_total{operation="insert_batch"}[1m])) > 0',
        ):
            exporter.until(partial(holds, expr), expr)
        end = time.time()
        found = looked_at(server, Span(end - 60, end, step=5, scrape=1))
        server.close()
    problems = [problem for answer in found for problem in answer.problems(frozenset({"channel"}))]
    assert problems == []
    empty = {
        (answer.uid, f"{answer.panel['id']}{answer.target['refId']}"): answer for answer in found if not answer.series
    }
    assert {key: answer.place for key, answer in empty.items() if key[1] not in MAY_BE_EMPTY.get(key[0], {})} == {}
    assert len(empty) < len(found) / 2
