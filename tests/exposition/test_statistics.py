from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from exporter.domain.clock import FakeClock
from exporter.domain.model import Operation, Phase, SeriesKey, Tick
from exporter.exposition.series_book import Outline, Plan
from exporter.exposition.statistics import MOST_SECONDS, MOST_WAITING, NOBODY_LOOKED, OLDEST_JUDGEMENT, Statistics
from exporter.overhead.windows import SeriesSummary
from tests.exposition.stages import Stage

OUTLINE = Outline(Phase.ENABLED, 20, 10.0)
PAIRS = tuple(f"p{number}" for number in range(5))


class SlowClock(FakeClock):
    """Every look at it takes most of what one call may spend."""

    def monotonic(self) -> float:
        self.advance(MOST_SECONDS * 0.4)
        return super().monotonic()


def _summaries(statistics: Statistics) -> dict[SeriesKey, SeriesSummary]:
    """Of those that were judged."""
    return {key: one.judgement.hour for key, one in statistics.judged({}).items() if one.judgement is not None}


def _keys() -> Iterator[SeriesKey]:
    return (SeriesKey("embedded", pair, Operation.POINT_SELECT) for pair in PAIRS)


@pytest.fixture
def ticks(stage: Stage) -> list[Tick]:
    """One tick for each pair."""
    return [stage.made(pair=pair) for pair in PAIRS]


def test_one_call_spends_a_bounded_time_and_the_next_ones_do_the_rest(ticks: list[Tick]) -> None:
    statistics = Statistics(dict.fromkeys(_keys(), OUTLINE), SlowClock())
    for tick in ticks:
        statistics.offer(tick)

    found = [len(_summaries(statistics)) for _ in range(4)]

    assert found[0] < len(PAIRS)
    assert found[-1] == len(PAIRS)
    assert found == sorted(found)


def test_a_series_without_news_keeps_its_summary_until_time_alone_changes_it(ticks: list[Tick]) -> None:
    clock = FakeClock()
    statistics = Statistics(dict.fromkeys(_keys(), OUTLINE), clock)
    statistics.offer(ticks[0])
    key = next(_keys())
    first = _summaries(statistics)[key]

    clock.advance(OLDEST_JUDGEMENT - 1)
    assert _summaries(statistics)[key] is first
    clock.advance(1)
    assert _summaries(statistics)[key] is not first
    clock.advance(2 * 3600)
    assert set(_summaries(statistics)[key].samples.values()) == {0}


def test_ticks_that_nobody_asks_for_take_bounded_memory_and_are_not_lost(ticks: list[Tick]) -> None:
    statistics = Statistics(dict.fromkeys(_keys(), OUTLINE), FakeClock())

    for _ in range(3 * MOST_WAITING):
        statistics.offer(ticks[0])
        assert len(statistics._books[next(_keys())]._waiting) <= MOST_WAITING

    assert set(_summaries(statistics)[next(_keys())].samples.values()) == {3 * MOST_WAITING * 20}


def test_a_damaged_block_is_left_out(ticks: list[Tick], caplog: pytest.LogCaptureFixture) -> None:
    clock = FakeClock()
    statistics = Statistics(dict.fromkeys(_keys(), OUTLINE), clock)
    statistics.offer(ticks[0])
    key, block = statistics.blocks()[0]
    again = Statistics(dict.fromkeys(_keys(), OUTLINE), clock)

    again.restore(key, replace(block, encrypted=replace(block.encrypted, samples=7)))
    assert again.blocks() == []
    assert "left out" in caplog.text
    again.restore(key, block)
    assert [(found, kept.plain.samples) for found, kept in again.blocks()] == [(key, 20)]


def test_what_somebody_looked_at_is_not_judged_for_nobody(ticks: list[Tick]) -> None:
    clock = FakeClock()
    statistics = Statistics(dict.fromkeys(_keys(), OUTLINE), clock)
    key = next(_keys())
    first = statistics.judged({})[key].judgement

    def judged_anew() -> bool:
        statistics.offer(ticks[0])
        statistics.judge({}, unseen_for=NOBODY_LOOKED)
        return statistics._books[key].judgement is not first

    clock.advance(NOBODY_LOOKED - 1)
    assert not judged_anew()
    clock.advance(1)
    assert judged_anew()


def test_silence_is_measured_by_the_time_from_tick_to_tick(ticks: list[Tick]) -> None:
    clock = FakeClock()
    statistics = Statistics(dict.fromkeys(_keys(), OUTLINE), clock)
    key = next(_keys())

    def word(plan: Plan) -> str:
        clock.advance(OLDEST_JUDGEMENT)
        judgement = statistics.judged({key: plan})[key].judgement
        assert judgement is not None
        return judgement.hour.word

    for _ in range(25):
        clock.advance(60.0)
        statistics.offer(ticks[0])
    assert word(Plan(60.0)) == "warming"
    assert word(Plan(10.0)) == "no_data"
    assert word(Plan(60.0, unreachable=True)) == "held"


def test_more_samples_are_wanted_while_a_decision_is_near(stage: Stage) -> None:
    stage.begin()
    stage.hours(0.2)
    assert stage.ledger.boost_wanted("embedded") == frozenset()

    stage.slowness = 2.5
    wanted: set[tuple[str, Operation]] = set()
    while not stage.ledger.lasting():
        stage.hours(0.01)
        stage.ledger.view()
        wanted |= stage.ledger.boost_wanted("embedded")
    assert wanted == {(stage.target.pairs[0].name, Operation.POINT_SELECT)}
    assert stage.ledger.boost_wanted("elsewhere") == frozenset()


def test_what_is_boosted_is_shown_as_it_was_told(stage: Stage) -> None:
    stage.begin()
    assert "tde_canary_boosted" not in stage.names()
    stage.budgets()
    stage.boost((stage.target.pairs[0].name, Operation.POINT_SELECT))
    assert stage.value("tde_canary_boosted", operation="point_select") == 1
    assert stage.value("tde_canary_boosted", operation="full_scan") is None, "one sample in a tick is never boosted"

    stage.ledger.process_up(0, False)
    assert "tde_canary_boosted" not in stage.names()
