"""Events, epochs, states and baselines come back as they were, and only what may grow old is removed."""

from __future__ import annotations

import logging
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from exporter.domain.clock import FakeClock
from exporter.domain.events import Event, EventKind, Origin
from exporter.domain.model import Operation, PairFacts, Phase, Slot, TwinFacts, Variant
from exporter.history.baselines import MOST_AUTOMATIC, from_bytes, to_bytes
from exporter.history.records import MOST_EVENTS, Epoch, State, StateKey
from exporter.overhead.baseline import BaselineSide, Level, PairBaseline, SeriesBaseline
from exporter.overhead.ratio import Ratio
from exporter.overhead.sketch import LogSketch

AT = 1_799_999_000.0
YEAR = 365 * 86400.0


def event(n: int = 0, target: str = "orders", kind: EventKind = EventKind.REKEY) -> Event:
    return Event(target, AT + n, kind, f"number {n} — 'x'", Origin.MARKED, "main", None if n % 2 else AT)


def facts(b: bool | None = True, epoch: str = "e1", digest: str = "d1") -> PairFacts:
    plain, other = TwinFacts(Slot.A, False, digest=digest), TwinFacts(Slot.B, b, digest=digest)
    return PairFacts("main", Phase.ENABLED, plain, other, epoch=epoch)


def series(seed: int = 1) -> SeriesBaseline:
    def side(n: int) -> BaselineSide:
        sketch = LogSketch()
        sketch.add(np.append(np.random.default_rng(n).lognormal(-7, 0.3, 500), np.inf))
        return BaselineSide(501, 1, sketch, {50: Level(-7.0, 0.01), 99: Level(-6.1, None)})

    sides = {variant: side(seed + n) for n, variant in enumerate(Variant)}
    return SeriesBaseline(sides, {50: Ratio(1.1, 1.0, None, 501), 99: Ratio(None, 20.0, None, 501)}, 24, 7200.0)


def baseline(target: str = "orders", event: str = "", frozen: float = AT) -> PairBaseline:
    held = {Operation.FULL_SCAN: series(), Operation.POINT_SELECT: series(5)}
    return PairBaseline(target, "main", frozen, AT - 7200, AT, "e1", Phase.AA, Slot.B, "d", held, event, "before 'it'")


def test_events_come_back_newest_first_and_the_same_one_is_kept_once(open_history: Any) -> None:
    history = open_history()
    events = [event(n) for n in range(5)]
    history.records.record(events[:3])
    history.records.record([*events, event(9, "other")])
    history.close()
    again = open_history().records
    assert again.events("orders") == events[::-1]
    assert again.events()[0] == event(9, "other")
    assert again.events("orders", most=2) == [events[4], events[3]]
    assert again.events("nobody") == []


def test_the_daemon_finds_what_it_has_not_drawn_conclusions_from(open_history: Any) -> None:
    daemon, operator = open_history(), open_history(set_aside=False)
    assert daemon.changed_elsewhere()
    assert not daemon.changed_elsewhere()
    daemon.records.record([event(1)])
    daemon.records.taken([event(1).id])
    assert not daemon.changed_elsewhere(), "what it writes itself is no news"
    operator.records.record([event(2)])
    assert daemon.changed_elsewhere()
    assert daemon.records.untaken() == {event(2).id}
    # Written again, it stays as it was.
    daemon.records.record([event(1)])
    assert daemon.records.untaken() == {event(2).id}


def test_states_are_kept_by_name_and_replaced(open_history: Any, make_key: Any) -> None:
    history = open_history()
    mine, other = StateKey.of("evidence", make_key()), StateKey("watch", "orders")
    history.records.record(states={mine: State(1, b"one"), other: State(7, b"\0")})
    history.records.record(states={mine: State(2, b"two")})
    history.close()
    again = open_history().records
    assert again.states("evidence") == {mine: State(2, b"two")}
    assert again.states("watch") == {other: State(7, b"\0")}
    again.forget_states(["embedded"])
    assert (again.states("evidence"), again.states("watch")) == ({mine: State(2, b"two")}, {})
    again.forget_states([])
    assert again.states("evidence") == {}


def test_events_and_states_are_stored_together_or_not_at_all(open_history: Any, path: Path) -> None:
    history = open_history()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("CREATE TRIGGER refuse BEFORE INSERT ON states BEGIN SELECT RAISE(ABORT, 'no'); END")
    with pytest.raises(Exception, match="no"):
        history.records.record([event()], {StateKey("watch", "orders"): State(1, b"")})
    assert history.records.events() == []


def test_an_epoch_is_what_verification_found_in_it(open_history: Any) -> None:
    records = open_history().records
    records.save_epoch("orders", facts(), AT)
    records.save_epoch("orders", replace(facts(b=False, epoch="e0"), phase=Phase.AA), AT - 10)
    records.save_epoch("orders", facts(b=None, epoch="e2"), AT)
    assert records.epoch("orders", "main", "e1") == Epoch(Phase.ENABLED, Slot.B, "d1")
    assert records.epoch("orders", "main", "e0") == Epoch(Phase.AA, Slot.A, "d1")
    assert records.epoch("orders", "main", "e2") is None
    assert records.epoch("other", "main", "e1") is None


def test_a_baseline_comes_back_equal_and_can_be_dropped(open_history: Any) -> None:
    history = open_history()
    first = history.baselines.save(baseline())
    second = history.baselines.save(baseline("other", frozen=AT + 1))
    assert (first.id, second.id) == (1, 2)
    history.close()
    again = open_history().baselines
    assert again.all() == [second, first]
    assert again.all("orders") == [replace(baseline(), id=1)]
    assert again.drop(1)
    assert not again.drop(1)
    assert again.all() == [second]
    assert again.save(baseline()).id == 3, "a number means one baseline for ever"


def test_for_one_event_a_baseline_is_frozen_once(open_history: Any) -> None:
    kept = open_history().baselines
    first = kept.save(baseline(event="abc"))
    assert kept.save(baseline(event="abc", frozen=AT + 5)).id == first.id
    assert kept.all() == [first]


def test_time_removes_neither_events_nor_baselines_nor_states(open_history: Any, clock: FakeClock) -> None:
    history = open_history()
    history.records.record([event()], {StateKey("watch", "orders"): State(1, b"")})
    history.records.save_epoch("orders", facts(), AT)
    history.baselines.save(baseline())
    clock.advance(3 * YEAR)
    history.prune()
    assert history.records.events() == [event()]
    assert len(history.baselines.all()) == len(history.records.states("watch")) == 1
    assert history.records.epoch("orders", "main", "e1") is not None


def test_what_comes_on_its_own_does_not_grow_for_ever(open_history: Any) -> None:
    history = open_history()
    history.records.record([event(n) for n in range(MOST_EVENTS + 50)] + [event(1, "other")])
    by_hand = history.baselines.save(baseline(frozen=1.0))
    for n in range(MOST_AUTOMATIC + 3):
        history.baselines.save(baseline(event=f"e{n}", frozen=AT + n))
    history.prune()
    kept = history.records.events("orders", most=10_000)
    assert (len(kept), kept[0]) == (MOST_EVENTS, event(MOST_EVENTS + 49))
    assert history.records.events("other") == [event(1, "other")]
    left = history.baselines.all()
    assert [held.event for held in left] == [f"e{n}" for n in reversed(range(3, MOST_AUTOMATIC + 3))] + [""]
    assert left[-1] == by_hand
    ((rows,),) = history._connection.execute("SELECT count(*) FROM baseline_series").fetchall()
    assert rows == 2 * len(left)


def test_damaged_ones_are_left_out_and_counted(open_history: Any, path: Path, caplog: pytest.LogCaptureFixture) -> None:
    history = open_history()
    history.records.record([event(1), event(2)])
    history.records.save_epoch("orders", facts(), AT)
    history.baselines.save(baseline())
    history.baselines.save(baseline(frozen=AT + 1))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("UPDATE events SET kind = 'earthquake' WHERE at = ?", (AT + 1,))
        other.execute("UPDATE epochs SET phase = 'never'")
        other.execute("UPDATE baseline_series SET body = x'00' WHERE baseline = 1 AND operation = 'full_scan'")
        other.execute("UPDATE baselines SET slot = 'c' WHERE id = 2")
    with caplog.at_level(logging.WARNING):
        assert history.records.events() == [event(2)]
        assert history.records.epoch("orders", "main", "e1") is None
        (left,) = history.baselines.all()
    assert set(left.series) == {Operation.POINT_SELECT}
    assert history.errors == len(caplog.records) == 4


def test_any_byte_of_a_baseline_may_be_wrong_and_nothing_but_a_value_error_comes_of_it() -> None:
    good = to_bytes(series())
    assert from_bytes(good) == series()
    random = np.random.default_rng(1)
    for _ in range(300):
        bad = bytearray(good)
        bad[random.integers(len(bad))] ^= 1 << random.integers(8)
        with pytest.raises((ValueError, TypeError)):
            from_bytes(bytes(bad))


MARKS = """
import sys
from pathlib import Path
from exporter.domain.clock import SystemClock
from exporter.domain.events import Event, EventKind
from exporter.history.store import History
history = History.open(Path(sys.argv[1]), 1e10, SystemClock(), set_aside=False)
for n in range(100):
    history.records.record([Event(sys.argv[2], 1.0 + n, EventKind.OTHER, "x")])
"""


def test_operators_mark_while_the_daemon_writes(open_history: Any, path: Path, make_key: Any, make_block: Any) -> None:
    daemon = open_history()
    others = [subprocess.Popen([sys.executable, "-c", MARKS, str(path), name]) for name in ("a", "b")]
    number = 0
    while any(other.poll() is None for other in others):
        daemon.save_blocks([(make_key(f"t{n}"), make_block(AT + 300 * number)) for n in range(20)])
        daemon.prune()
        number += 1
    assert [other.returncode for other in others] == [0, 0]
    assert number > 0
    assert {name: len(daemon.records.events(name)) for name in "ab"} == {"a": 100, "b": 100}
    assert daemon.errors == 0
