"""Verdicts in the history: written when they change, taken up again, dated, and told in the log."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from exporter.config.schema import HistorySettings, Settings
from exporter.domain.clock import FakeClock
from exporter.domain.errors import HistoryError
from exporter.domain.events import Event, EventKind
from exporter.domain.model import Operation, SeriesKey
from exporter.engines.sqlite.settings import Target
from exporter.history.records import VERDICT, WANDERING, State, StateKey
from exporter.history.store import History
from exporter.overhead.evidence import Name
from exporter.verdicts import REVISED_SECONDS, SAVE_SECONDS, Verdicts
from tests.exposition.stages import Stage

CRITICAL = Name(99, "plain", 2.0)
KEY = SeriesKey("embedded", "phonebook", Operation.POINT_SELECT)
PLACE = StateKey.of(VERDICT, KEY)


class Life:
    """One life of a process: everything that it keeps is in the history, and it may end without a word."""

    def __init__(self, settings: Settings, clock: FakeClock) -> None:
        self.settings, self.clock, self.failures = settings, clock, list[HistoryError]()
        self.history = History.open(settings.history_path, 14 * 86400.0, clock)
        self.stage = Stage(settings, clock)
        self.verdicts = Verdicts(self.history, self.stage.ledger, clock, self.failures.append)
        self.verdicts.restore()
        self.stage.begin()

    def step(self) -> None:
        self.history.save_blocks(self.stage.ledger.blocks())
        self.verdicts.step()

    def live(self, hours: float, slowness: float = 1.0, interval: float = 20.0) -> None:
        """Rounds as they come; what a daemon does every second is done once in a minute or so."""
        self.stage.slowness = slowness
        for _ in range(round(hours * 3600 / interval / 5)):
            self.stage.hours(5 * interval / 3600, interval)
            self.step()

    def until_breach(self) -> None:
        while not self.breached():
            self.live(0.05, 2.5)

    def breached(self) -> bool:
        return self.stage.view.pairs[0].series[0].breached[CRITICAL]

    @property
    def onset(self) -> float | None:
        found = [breach.onset for breach in self.stage.view.pairs[0].series[0].breaches if breach.name == CRITICAL]
        return found[0] if found else None

    def states(self) -> dict[str, bytes]:
        return {
            name: state.body
            for name in (VERDICT, WANDERING)
            for place, state in self.history.records.states(name).items()
            if place.operation == KEY.operation
        }

    def again(self) -> Life:
        """As after kill -9: nothing was said to the history any more."""
        self.history.close()
        return Life(self.settings, self.clock)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    target = Target(name="embedded", operations=(Operation.POINT_SELECT, Operation.FULL_SCAN))
    return Settings(targets=(target,), history=HistorySettings(path=tmp_path / "history.db"))


@pytest.fixture
def begin(settings: Settings) -> Iterator[Callable[[], Life]]:
    lives: list[Life] = []

    def make() -> Life:
        lives.append(Life(settings, FakeClock()))
        return lives[-1]

    yield make
    for life in lives:
        life.history.close()


@pytest.fixture
def life(begin: Callable[[], Life]) -> Life:
    return begin()


def test_a_breach_is_in_the_history_at_once_and_survives_a_kill(life: Life) -> None:
    life.live(0.3)
    life.until_breach()
    assert json.loads(life.states()[VERDICT])["verdict"]["breaches"]

    life.clock.advance(30 * 3600.0)
    life = life.again()
    assert life.breached()
    assert life.failures == []

    life.live(1.2)
    assert not life.breached()
    life = life.again()
    assert not life.breached()


def test_what_does_not_change_is_not_written(life: Life) -> None:
    life.live(0.1)
    before = life.history._connection.total_changes
    life.clock.advance(SAVE_SECONDS + 1)
    life.verdicts.step()
    assert life.history._connection.total_changes == before

    # One tick changes the evidence of its series; what it wanders by changes once an hour.
    life.stage.tick()
    life.stage.tick()
    life.clock.advance(SAVE_SECONDS + 1)
    wandering = life.states()[WANDERING]
    life.verdicts.step()
    assert life.history._connection.total_changes - before <= 2
    assert life.states()[WANDERING] == wandering


def test_a_history_that_was_begun_anew_gets_everything_again(life: Life) -> None:
    life.live(0.1)
    with life.history._access.transaction() as connection:
        connection.execute("DELETE FROM states")
    life.verdicts.write_anew()
    life.verdicts.close()
    assert set(life.states()) == {VERDICT, WANDERING}


def test_what_could_not_be_written_is_written_later(life: Life, settings: Settings) -> None:
    life.live(0.3)
    with closing(sqlite3.connect(settings.history_path, isolation_level=None)) as other:
        other.execute("CREATE TRIGGER refuse BEFORE INSERT ON states BEGIN SELECT RAISE(ABORT, 'no'); END")
        life.until_breach()
        assert life.failures
        other.execute("DROP TRIGGER refuse")
    life.clock.advance(SAVE_SECONDS + 1)
    life.verdicts.step()

    assert life.again().breached()


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"version": 1}', b"\xff"])
def test_a_damaged_state_is_left_out_with_a_warning(life: Life, body: bytes, caplog: pytest.LogCaptureFixture) -> None:
    life.live(0.3)
    life.until_breach()
    life.history.records.record(states={PLACE: State(1, body)})

    life = life.again()
    assert not life.breached()
    (warning,) = [record for record in caplog.records if "left out" in record.getMessage()]
    assert warning.levelno == logging.WARNING
    assert [key for key, _ in life.stage.ledger.blocks() if key == KEY]


def test_a_state_of_an_unknown_version_is_left_out(life: Life, caplog: pytest.LogCaptureFixture) -> None:
    life.live(0.1)
    life.history.records.record(states={PLACE: State(99, life.states()[VERDICT])})

    life.again()
    assert "unknown version 99" in caplog.text


def test_a_breach_survives_damage_to_what_can_be_learned_anew(life: Life, caplog: pytest.LogCaptureFixture) -> None:
    life.live(0.3)
    life.until_breach()
    life.history.records.record(states={PLACE._replace(name=WANDERING): State(1, b'{"hours": 7}')})

    assert life.again().breached()
    assert "left out" in caplog.text


def test_the_day_is_there_again_after_a_restart(life: Life) -> None:
    life.live(11.2, 1.05, interval=60.0)
    life.stage.read_state()
    day = life.stage.view.pairs[0].series[0].day
    assert day is not None
    assert day.latency_ratio

    life = life.again()
    life.live(0.02, 1.05)
    again = life.stage.view.pairs[0].series[0].day
    assert again is not None
    assert again.samples == day.samples
    assert set(again.latency_ratio) == set(day.latency_ratio)


def test_a_breach_is_dated_near_what_happened_and_told_in_the_log(life: Life, caplog: pytest.LogCaptureFixture) -> None:
    life.live(1.5)
    began = life.clock.wall()
    with caplog.at_level(logging.INFO):
        life.until_breach()
        life.live(REVISED_SECONDS / 3600 + 0.1, 2.5)
    assert life.onset == pytest.approx(began, abs=600.0)
    warnings = [record for record in caplog.records if "over budget" in record.getMessage()]
    critical = [one for one in warnings if "100" in one.getMessage()]
    assert len(critical) == 1
    assert critical[0].levelno == logging.WARNING
    assert critical[0].__dict__["operation"] == "point_select"

    onset = life.onset
    life = life.again()
    assert life.onset == onset

    with caplog.at_level(logging.INFO):
        life.live(1.3)
    assert any("no longer over budget" in record.getMessage() for record in caplog.records)


def test_the_onset_is_an_event_that_lies_near(life: Life) -> None:
    life.live(1.5)
    at = life.clock.wall() + 7.0
    life.stage.ledger.set_events("embedded", [Event("embedded", at, EventKind.UPGRADE, "to version 2")])
    life.until_breach()
    life.live(REVISED_SECONDS / 3600 + 0.1, 2.5)

    assert life.onset == pytest.approx(at, abs=1.0)


def test_what_costs_more_since_an_event_that_opened_an_epoch_is_dated_by_it(life: Life) -> None:
    life.live(1.5)
    enabled = Event("embedded", life.clock.wall(), EventKind.ENABLEMENT, "one twin is encrypted now")
    life.stage.ledger.set_events("embedded", [enabled])
    life.stage.ledger.open_epoch("embedded", enabled.id)
    life.until_breach()
    life.live(REVISED_SECONDS / 3600 + 0.1, 2.5)

    assert life.onset == pytest.approx(enabled.at, abs=1.0)


def test_states_of_what_is_not_configured_any_more_are_ignored(life: Life) -> None:
    life.live(0.1)
    state = State(1, life.states()[VERDICT])
    gone = SeriesKey("embedded", "phonebook", Operation.LOB_READ)
    life.history.records.record(states={StateKey.of(VERDICT, gone): state, StateKey(VERDICT, "embedded"): state})

    assert life.again().failures == []
