"""Every query of every dashboard, answered by a real Prometheus that has hours of a made-up fleet."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from exporter.bundle.dashboards import boards
from exporter.exposition.catalogue import CATALOGUE
from tests.dashboards import synthetic
from tests.dashboards.evaluation import Answer, Chosen, Prometheus, Span, answers, expanded, panels, variables
from tests.dashboards.served import serving

DASHBOARDS = {board.uid: board.model() for board in boards()}

HOURS = 3.0

CHOICES: dict[str, tuple[str, dict[str, str]]] = {
    "fleet": ("tde-fleet", {}),
    "exporter": ("tde-exporter", {}),
    "enablement": ("tde-enablement", {"compare": "2h"}),
    **{database.name: ("tde-target", {"target": database.name}) for database in synthetic.FLEET},
}
"""What a reader opens, and with which values of variables."""

NO_BREACH = "no breach lasts"
NOTHING_MOVES = "no conversion is under way"
NOT_PENDING = "nothing waits for its encryption"
NO_DELAY = "no delay is set on purpose"
NO_STANDBY = "it has no standby"
CERTIFYING = "both twins are plain: nothing is decrypted, nothing is judged"
ELSEWHERE = "its host cannot be seen"

MAY_BE_EMPTY: dict[str, dict[str, str]] = {
    "orders": {"69C": NOT_PENDING, "73I": NO_DELAY},
    "billing": {"20D": NO_BREACH, "24C": NO_BREACH, "68A": NOTHING_MOVES, "69C": NOT_PENDING, "73I": NO_DELAY},
    "edge": {"20D": NO_BREACH, "24C": NO_BREACH, "68A": NOTHING_MOVES, "69C": NOT_PENDING},
    "archive": {
        "14A": NO_STANDBY,
        "14B": NO_STANDBY,
        "71A": NO_STANDBY,
        "72A": NO_STANDBY,
        "72B": NO_STANDBY,
        **{f"73{letter}": NO_STANDBY for letter in "ABCDEFGHIJ"},
        "24A": CERTIFYING,
        "20D": NO_BREACH,
        "24C": NO_BREACH,
        **{f"{panel}{letter}": CERTIFYING for panel in (30, 32) for letter in "ABC"},
        **{f"{panel}{letter}": CERTIFYING for panel in (31, 45) for letter in "AB"},
        "80C": CERTIFYING,
        "42A": ELSEWHERE,
        "42B": ELSEWHERE,
        "81C": ELSEWHERE,
        "68A": NOTHING_MOVES,
    },
}
"""Queries that yield nothing, by panel id and letter, and why."""


class Stage(NamedTuple):
    """A Prometheus, and the time that is looked at."""

    server: Prometheus
    span: Span


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory, promtool: Path, prometheus: Path) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("history")
    end = int(time.time())
    synthetic.write(folder / "history.om", synthetic.World(end, HOURS, 30))
    subprocess.run(
        [str(promtool), "tsdb", "create-blocks-from", "openmetrics", str(folder / "history.om"), str(folder / "data")],
        check=True,
        capture_output=True,
    )
    with serving(prometheus, folder) as url:
        server = Prometheus(url)
        yield Stage(server, Span(end - HOURS * 3600 + 60, end))
        server.close()


@pytest.fixture(scope="module")
def answered(history: Stage) -> dict[str, list[Answer]]:
    """All answers, by what was opened."""
    found = {}
    for name, (uid, picked) in CHOICES.items():
        dashboard = DASHBOARDS[uid]
        chosen = variables(dashboard, history.server, history.span, picked)
        found[name] = list(answers(dashboard, history.server, history.span, chosen))
    return found


def letter(answer: Answer) -> str:
    return f"{answer.panel['id']}{answer.target['refId']}"


@pytest.mark.parametrize("name", CHOICES)
def test_every_query_yields_something_or_it_is_known_why_not(answered: dict[str, list[Answer]], name: str) -> None:
    empty = {letter(answer): answer.place for answer in answered[name] if not answer.series}
    assert {key: place for key, place in empty.items() if key not in MAY_BE_EMPTY.get(name, {})} == {}


@pytest.mark.parametrize("name", MAY_BE_EMPTY)
def test_what_may_be_empty_is_empty(answered: dict[str, list[Answer]], name: str) -> None:
    """Otherwise the list would grow old, and hide what it should not."""
    empty = {letter(answer) for answer in answered[name] if not answer.series}
    assert MAY_BE_EMPTY[name].keys() - empty == set()


@pytest.mark.parametrize("name", CHOICES)
def test_legends_are_complete_and_tell_series_apart(answered: dict[str, list[Answer]], name: str) -> None:
    # Only databases with several channels have the label.
    assert [problem for answer in answered[name] for problem in answer.problems(frozenset({"channel"}))] == []


_SANE = {"percentunit": (-1.0, 10.0), "s": (0.0, 1e7), "suffix: d": (0.0, 36500.0)}


@pytest.mark.parametrize("name", CHOICES)
def test_values_fit_their_units(answered: dict[str, list[Answer]], name: str) -> None:
    odd = []
    for answer in answered[name]:
        if answer.panel["type"] == "table":
            continue
        low, high = _SANE.get(answer.panel["fieldConfig"]["defaults"]["unit"], (-1e12, 1e15))
        odd += [answer.place for value in answer.values if not low <= value <= high and answer.names != ["samples"]]
    assert odd == []


def mappings_of(answer: Answer) -> list[dict[str, Any]]:
    """Those of the panel, or of the style of this query."""
    found: list[dict[str, Any]] = answer.panel["fieldConfig"]["defaults"]["mappings"]
    for style in answer.panel["fieldConfig"]["overrides"]:
        if style["matcher"]["options"] == answer.target["legendFormat"]:
            found = next((each["value"] for each in style["properties"] if each["id"] == "mappings"), found)
    return found


@pytest.mark.parametrize("name", CHOICES)
def test_each_code_has_its_word(answered: dict[str, list[Answer]], name: str) -> None:
    unknown = []
    for answer in answered[name]:
        mappings = mappings_of(answer)
        if mappings:
            words = {float(code) for code in mappings[0]["options"]}
            unknown += [answer.place for value in answer.values if value not in words]
    assert unknown == []


def test_the_words_are_those_of_the_history(answered: dict[str, list[Answer]]) -> None:
    def word(name: str, panel: int) -> str:
        answer = next(each for each in answered[name] if each.panel["id"] == panel)
        options = mappings_of(answer)[0]["options"]
        text: str = options[f"{answer.values[0]:g}"]["text"]
        return text

    assert [word(name, 10) for name in ("orders", "billing", "archive", "edge")] == [
        "OVER BUDGET",
        "WITHIN BUDGET",
        "CERTIFYING",
        "UNDECIDED",
    ]
    assert [word(name, 11) for name in ("orders", "billing", "archive")] == ["YES, PROVEN", "YES, PROVEN", "NOT YET"]
    # The standby of `edge` is five minutes behind on purpose.
    assert [word(name, 14) for name in ("orders", "billing", "edge")] == ["KEEPING UP"] * 3


def test_bounds_lie_around_what_they_bound(answered: dict[str, list[Answer]]) -> None:
    compared = 0
    for name in ("orders", "billing", "edge", "enablement"):
        of_panel: dict[int, dict[str, Answer]] = {}
        for answer in answered[name]:
            if answer.panel["type"] == "timeseries" and len(answer.names) == 1:
                of_panel.setdefault(answer.panel["id"], {})[answer.names[0]] = answer
        for found in of_panel.values():
            if "at least" not in found:
                continue
            middle = next(
                each for each in found if each in {"overhead", "CPU overhead", "per block", "processors", "adjusted"}
            )
            lines = [dict(found[each].series[0]["values"]) for each in ("at least", middle, "at most")]
            for moment in lines[0].keys() & lines[1].keys() & lines[2].keys():
                low, value, high = (float(line[moment]) for line in lines)
                assert low <= value <= high, found[middle].place
                compared += 1
    assert compared > 500


def test_operations_are_offered_with_the_worst_verdict_first(history: Stage) -> None:
    dashboard = DASHBOARDS["tde-target"]
    for target, operation in (("orders", "range_select"), ("billing", "point_select"), ("edge", "insert_batch")):
        chosen = variables(dashboard, history.server, history.span, {"target": target})
        assert (chosen["pair"], chosen["operation"], chosen["percentile"]) == ("main", operation, "99")


def test_an_operation_without_p99_is_shown_at_p50(history: Stage) -> None:
    picked = {"target": "orders", "operation": "full_scan"}
    assert variables(DASHBOARDS["tde-target"], history.server, history.span, picked)["percentile"] == "50"


def test_every_kind_of_event_is_marked_at_its_time(history: Stage) -> None:
    chosen = {**variables(DASHBOARDS["tde-fleet"], history.server, history.span)}
    found = {}
    for each in DASHBOARDS["tde-fleet"]["annotations"]["list"]:
        for series in history.server.over(expanded(each["expr"], chosen), history.span):
            found[series["metric"]["kind"]] = float(series["values"][-1][1]) / 1000
    assert found.keys() == {"enablement", "rekey", "switchover", "restart", "other"}
    assert all(history.span.start < at < history.span.end for at in found.values())


def _without(expr: str, metric: str) -> str:
    return re.sub(rf"\b{metric}(?=_bucket\{{|\{{)", f"gone_{metric}", expr)


def _asked(server: Prometheus, span: Span, target: dict[str, Any], expr: str) -> list[dict[str, Any]]:
    return server.now(expr, span) if target["instant"] else server.over(expr, span)


@pytest.fixture(scope="module")
def opened(history: Stage) -> list[tuple[dict[str, Any], Chosen]]:
    return [
        (DASHBOARDS[uid], variables(DASHBOARDS[uid], history.server, history.span, picked))
        for name, (uid, picked) in CHOICES.items()
        if name in {"fleet", "exporter", "enablement", "orders", "edge"}
    ]


@pytest.mark.parametrize("metric", CATALOGUE)
def test_a_panel_misses_each_metric(history: Stage, opened: list[tuple[dict[str, Any], Chosen]], metric: str) -> None:
    """Proof that the metric is used, and that the tests above can fail."""
    for dashboard, chosen in opened:
        for panel in panels(dashboard):
            for target in panel["targets"]:
                expr = expanded(target["expr"], chosen)
                reduced = _without(expr, metric)
                if reduced == expr or not _asked(history.server, history.span, dict(target), expr):
                    continue
                if not _asked(history.server, history.span, dict(target), reduced):
                    return
    pytest.fail(f"no panel is empty without {metric}")
