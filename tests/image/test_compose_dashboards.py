"""Every query of every dashboard, asked of the Prometheus of the Compose stack."""

from __future__ import annotations

import contextlib
import re
import time

import httpx

from exporter.bundle.dashboards import boards
from tests.daemons import Page
from tests.dashboards.evaluation import Answer, Prometheus, Span, answers, variables
from tests.dashboards.promql import selectors
from tests.image.stack import Stack
from tests.processes import until

SCRAPE = 15
"""Seconds, as in deploy/compose/prometheus/prometheus.yml."""

WITHOUT = (
    # A condition that holds nowhere: with bool, every series says whether it does.
    (r" (==|>|<|>=|<=) (\d)", r" \1 bool \2"),
    # A state that nothing is in.
    (r'(tde_objects\{[^}]*),state="\w+"', r"\1"),
    # Few samples have a median, and no P99 yet.
    (r'percentile="99"', 'percentile="50"'),
    # An operation that only reads: it encrypts nothing.
    (r'(tde_canary_encrypts_total\{[^}]*),operation="\w+"', r"\1"),
    # An operation with no overhead: its twins lie in memory, nothing is decrypted.
    (r'(tde_overhead_ratio\{[^}]*),operation="\w+"', r"\1"),
    # A time before the stack.
    (r" offset \w+", ""),
)
"""What a query may ask for that a healthy young stack has not: with these taken away, it must be answered."""


def looked_at(server: Prometheus) -> list[Answer]:
    """What somebody sees who opens each dashboard, with the last five minutes."""
    now = time.time()
    span = Span(now - 300, now, step=SCRAPE, scrape=SCRAPE)
    models = [board.model() for board in boards()]
    return [one for model in models for one in answers(model, server, span, variables(model, server, span))]


def unexplained(found: list[Answer], server: Prometheus, page: Page) -> list[str]:
    """Queries without data, unless a metric of theirs is not exported at all, or they ask for something of `WITHOUT`."""
    exported = {re.sub(r"_(bucket|count|sum)$", "", name) for name, _ in page.samples}
    left: list[str] = []
    for answer in found:
        families = {one.family for one in selectors(answer.expr)}
        if answer.series or any(name.startswith("tde_") and name not in exported for name in families):
            continue
        relaxed = answer.expr
        for pattern, replaced in WITHOUT:
            relaxed = re.sub(pattern, replaced, relaxed)
        if relaxed == answer.expr or not server.now(relaxed, Span(0, time.time())):
            left.append(f"{answer.place}: {answer.expr}")
    return left


def test_every_query_of_every_dashboard_has_data(stack: Stack) -> None:
    until(lambda: stack.value("tde_overhead_ratio"), "an overhead was measured", 180)
    until(lambda: stack.value("count_over_time(tde_target_up[5m]) >= 3"), "there is something to draw", 180)
    found: list[Answer] = []
    left: list[str] = []
    with contextlib.closing(Prometheus(f"http://127.0.0.1:{stack.ports['prometheus']}")) as server:

        def explained() -> bool:
            page = Page(httpx.get(f"http://127.0.0.1:{stack.ports['exporter']}/metrics", timeout=10).text)
            found[:] = looked_at(server)
            left[:] = unexplained(found, server, page)
            return not left

        with contextlib.suppress(AssertionError):
            until(explained, "every query has data", 300)
        explained()
    assert left == []
    assert [problem for answer in found for problem in answer.problems(frozenset({"channel"}))] == []
    # An exporter that exports little would explain everything.
    assert sum(bool(answer.series) for answer in found) > len(found) * 0.6
