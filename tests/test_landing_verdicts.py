"""What the landing page says of verdicts is what the metrics say, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.breach_words import exceeded, since
from exporter.config.schema import PairSettings, Settings
from exporter.domain.model import Operation
from exporter.engines.fake.settings import Target
from exporter.exposition.view import SeriesView, View
from exporter.landing import landing
from exporter.overhead.baseline import Comparison
from exporter.overhead.evidence import Name
from exporter.overhead.ratio import Ratio
from exporter.web.pages.landing import OverheadRow, render
from tests.exposition.stages import ACTIVITY, Stage


@pytest.fixture
def stage() -> Stage:
    target = Target(name="orders", pairs=(PairSettings(name="main"),), operations=(Operation.POINT_SELECT,))
    made = Stage(Settings(targets=(target,)), activity=ACTIVITY)
    made.begin()
    made.hours(1.1)
    return made


def _row(stage: Stage, **changes: object) -> OverheadRow:
    """The one operation on the page; `changes` replace fields of its view."""
    view = stage.ledger.view()
    series = replace(view.targets[0].pairs[0].series[0], **changes)  # type: ignore[arg-type]
    return landing(_with(view, series), 0.0, view.at).overhead[0]


def _with(view: View, series: SeriesView) -> View:
    target = view.targets[0]
    pair = replace(target.pairs[0], series=(series,))
    return replace(view, targets=(replace(target, pairs=(pair,)),))


def test_a_breach_is_told_with_its_onset_while_it_lasts(stage: Stage) -> None:
    stage.exceeded()
    row = _row(stage)
    assert row.word == stage.view.pairs[0].series[0].word == "over_budget"
    (note,) = [note.words for note in row.notes if "100" in note.words]
    assert note.startswith("P99 exceeds the plain twin by more than 100\u00a0% since about ")
    assert "give or take 10\u00a0min" in note

    # Whatever else can be said now.
    stage.ledger.process_up(0, False)
    row = _row(stage)
    assert row.word == "no_data"
    assert [note.about for note in row.notes] == ["breach"] * len(row.notes)
    assert row.notes


def test_the_day_of_a_breach_is_told_where_it_is_another_one() -> None:
    assert since(1_800_001_200.0, 300.0, 1_800_003_600.0) == "since about 08:20 UTC, give or take 5\u00a0min"
    assert since(1_800_001_200.0, 300.0, 1_800_090_000.0).startswith("since about 2027-01-15 08:20 UTC")
    assert since(None, None, 0.0) == ""
    assert exceeded(Name(50, "baseline", 1.2)) == "P50 exceeds the baseline by more than 20\u00a0%"


def test_the_tail_and_the_day_have_their_figures(stage: Stage) -> None:
    assert _row(stage).beneath[0].startswith("P99 +20\u00a0%")
    day = stage.view.pairs[0].series[0].day
    assert day is not None
    found = replace(day, latency_ratio={50: Ratio(1.38, 1.35, 1.41, 9)}, gap=3.6)
    row = _row(stage, day=found)
    assert "24 h +38\u00a0% (+35 … +41)" in row.beneath
    assert [note.about for note in row.notes] == ["tail"]
    assert _row(stage, day=replace(found, gap=3.4)).notes == ()


@pytest.mark.parametrize(
    ("adjusted", "raw", "words"),
    [
        (Ratio(1.5, 1.3, 1.7, 9), Ratio(1.5, 1.3, 1.7, 9), "attributable to encryption"),
        (Ratio(1.1, 1.0, 1.3, 9), Ratio(1.5, 1.3, 1.7, 9), "whether by encryption is undecided"),
        (Ratio(1.1, 1.0, 1.3, 9), Ratio(1.1, 1.0, 1.3, 9), ""),
    ],
)
def test_what_a_comparison_with_the_baseline_means_is_said(
    stage: Stage, adjusted: Ratio, raw: Ratio, words: str
) -> None:
    row = _row(stage, compared=Comparison({99: raw}, {}, {99: adjusted}))
    assert [note.words for note in row.notes] == ([f"P99 grew since the baseline: {words}"] if words else [])


def test_the_cpus_of_encryption_stand_beside_those_of_the_database(stage: Stage) -> None:
    stage.clock.advance(10.0)
    stage.read_activity(replace(ACTIVITY, decrypts=110_000, encrypts=21_000))
    cores = stage.view.cores
    assert cores is not None
    assert stage.value("tde_encryption_cpu_cores_estimate") == cores.estimate
    assert stage.value("tde_encryption_cpu_cores_estimate_lower") == cores.lower
    assert f"about {cores.estimate:.2g}" in render(landing(stage.ledger.view(), 0.0, stage.clock.wall()))

    # Of another unit than the twins' cost is nothing known.
    stage.read_activity(replace(ACTIVITY, decrypt_unit="value"))
    stage.clock.advance(10.0)
    stage.read_activity(replace(ACTIVITY, decrypts=110_000, decrypt_unit="value"))
    assert stage.view.cores is None
