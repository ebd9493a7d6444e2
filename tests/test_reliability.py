"""The page of faults names tests that there are, and leaves no complaint out; its figures are those of the suites."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks import figures

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "reliability.md").read_text()
NAMED = re.findall(r"`(tests/[\w/.]+)(?:::(\w+))?`", PAGE)
NO_FAULTS = {"test_t11_channels.py"}
"""Complaints about what is shown, with nothing that fails."""


@pytest.mark.parametrize(("file", "test"), NAMED)
def test_a_test_that_is_named_exists(file: str, test: str) -> None:
    assert f"def {test}(" in (ROOT / file).read_text() if test else (ROOT / file).exists()


def test_each_row_names_its_test() -> None:
    faults = PAGE.split(figures.END)[1]
    rows = [line for line in faults.splitlines() if line.startswith("| ") and not line.startswith("| fault ")]
    assert len(rows) == len(NAMED)
    assert [row for row in rows if "`tests/" not in row.split("|")[3]] == []


def test_no_complaint_is_left_out() -> None:
    files = {path.name for path in (ROOT / "tests" / "complaints").glob("test_*.py")}
    assert files - {Path(file).name for file, _ in NAMED} == NO_FAULTS


# -- figures ------------------------------------------------------------------------------------------------


RUNS = figures.read(figures.KEPT)


def test_the_figures_are_those_that_the_suites_wrote() -> None:
    assert figures.written(PAGE, RUNS) == PAGE


@pytest.mark.parametrize("promise", figures.PROMISES, ids=lambda promise: promise.words)
def test_a_promise_is_kept(promise: figures.Promise) -> None:
    found = promise.found(RUNS)
    assert found, "no suite has found out about this"
    assert all(promise.kept(value) for _, value, _ in found), found


def run(suite: str, **found: float) -> figures.Run:
    return {"suite": suite, "at": "today", "cores": 2, "system": "none", "load": [1.0, 2.0], "figures": found}


def test_the_worst_run_is_told_and_a_broken_promise_is_not_hidden() -> None:
    runs = [run("a", **{"longest scrape (s)": 0.1}), run("b", **{"longest scrape (s)": 0.7}), run("c", lies=0)]
    text = figures.block(runs)
    assert "| a scrape takes less than 0.5 s | **0.7 s**, which is too much | a; b |" in text
    assert "| the page never lies | 0 on 0 pages | c |" in text
    assert "password" not in text


def test_newer_runs_of_a_suite_replace_all_older_ones() -> None:
    old, other, *new = run("a", lies=3), run("b", lies=0), run("a", lies=1), run("a", lies=0)
    assert figures.taken_up([old, other], new) == [other, *new]
