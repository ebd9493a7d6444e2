"""From what arrives to events, epochs and baselines, across restarts and with an operator beside."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from exporter.chronicle import Chronicle
from exporter.config.schema import HistorySettings, PairSettings, Settings
from exporter.domain.clock import FakeClock
from exporter.domain.errors import HistoryError
from exporter.domain.events import Event, EventKind, Origin
from exporter.domain.model import Operation, PairFacts, Phase, Slot, TwinFacts
from exporter.domain.states import Activity
from exporter.engines.fake.settings import Target
from exporter.history.store import History
from exporter.probing.messages import ActivityRead, PairChecked, StateRead, TargetReached, TickDone, ToParent
from tests.exposition.stages import ACTIVITY, FACTS, Stage, burst

PAIR = "main"


def twins(a: bool = False, b: bool = False, epoch: str = "", digest: str = "same") -> PairFacts:
    def twin(slot: Slot, encrypted: bool) -> TwinFacts:
        return TwinFacts(slot, encrypted, "AES" if encrypted else "", 10, 5.0, digest, name=f"main_{slot}")

    return PairFacts(PAIR, Phase.AA, twin(Slot.A, a), twin(Slot.B, b), epoch or f"{a}-{b}-{digest}")


class Run:
    """One life of the daemon's part that keeps events and baselines."""

    def __init__(self, settings: Settings, clock: FakeClock) -> None:
        self.clock, self.failures = clock, list[HistoryError]()
        self.history = History.open(settings.history_path, 14 * 86400.0, clock)
        self.stage = Stage(settings, clock)
        self.ledger = self.stage.ledger
        self.chronicle = Chronicle(settings, self.history, self.ledger, clock, self.failures.append)
        self.chronicle.restore()
        for key, block in self.history.load_blocks(clock.steady() - 3600):
            self.ledger.restore(key, block)
        self.ledger.process_up(0, True)
        self.hear(TargetReached("orders", FACTS, 1, 0.1))
        self.facts = twins()

    def hear(self, message: ToParent) -> None:
        self.chronicle.hear(message)
        self.ledger.apply(message, 0)

    def check(self, facts: PairFacts) -> None:
        self.facts = facts
        self.hear(PairChecked("orders", facts))

    def measure(self, minutes: int, ratio: float = 1.0, slower: float = 1.0) -> None:
        """Ticks every ten seconds; the encrypted side takes `ratio` times as long."""
        for second in range(0, minutes * 60, 10):
            if second % 60 == 0:
                self.check(self.facts)
            wobble = slower * (1 + 0.01 * (second % 70) / 10)
            encrypted, plain = burst(0.001 * ratio * wobble), burst(0.001 * wobble)
            tick = self.stage.made(Operation.POINT_SELECT, epoch=self.facts.epoch, encrypted=encrypted, plain=plain)
            self.hear(TickDone(replace(tick, pair=PAIR)))
            self.clock.advance(10.0)
            if second % 60 == 0:
                self.save()
        self.stage.collected()

    def save(self) -> None:
        self.history.save_blocks(self.ledger.blocks())
        self.chronicle.step()

    def value(self, name: str, **labels: str) -> float | None:
        return self.stage.value(name, **labels)

    def events(self) -> list[Event]:
        return self.history.records.events("orders")

    @property
    def baselines(self) -> list[str]:
        return [baseline.event for baseline in self.history.baselines.all("orders")]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    pairs = (PairSettings(name=PAIR, phase=Phase.AA),)
    target = Target(name="orders", pairs=pairs, operations=(Operation.POINT_SELECT,))
    return Settings(state_directory=tmp_path, targets=(target,), history=HistorySettings(path=tmp_path / "history.db"))


class Lives:
    """One daemon after the other on the same history."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.clock = settings, FakeClock()
        self._open = contextlib.ExitStack()

    def __call__(self) -> Run:
        run = Run(self.settings, self.clock)
        self._open.callback(run.history.close)
        return run

    def close(self) -> None:
        self._open.close()


@pytest.fixture
def live(settings: Settings) -> Iterator[Lives]:
    lives = Lives(settings)
    with closing(lives):
        yield lives


def test_from_plain_twins_to_what_encryption_costs(live: Lives) -> None:
    run = live()
    run.measure(90, ratio=1.05)
    assert run.value("tde_pair_info", phase="aa") == 1
    assert run.value("tde_baseline_timestamp_seconds") is None
    assert run.stage.view.pairs[0].baseline_words == "no baseline"
    assert run.stage.view.pairs[0].series[0].summary.word == "certifying"  # type: ignore[union-attr]

    run.check(twins(a=True))
    assert run.value("tde_event_timestamp_seconds", kind="enablement") == run.clock.wall()
    assert run.value("tde_overhead_samples", variant="plain") is None, "nothing from before is shown as if it were now"
    assert run.chronicle.freezes
    run.save()
    assert run.value("tde_baseline_timestamp_seconds") == run.clock.wall()

    run.measure(60, ratio=1.05 * 1.3, slower=1.5)
    assert run.value("tde_pair_info", phase="enabled", algorithm="AES") == 1
    assert run.value("tde_overhead_ratio", percentile="50") == pytest.approx(1.365, rel=0.02)
    adjusted = run.stage.known("tde_baseline_overhead_ratio", percentile="50", window="1h")
    assert adjusted == pytest.approx(1.3, rel=0.02)
    lower, upper = (
        run.stage.known(f"tde_baseline_overhead_ratio_{end}", percentile="50") for end in ("lower", "upper")
    )
    assert 1.15 < lower < 1.3 < upper < 1.45
    assert run.value("tde_baseline_raw_ratio", percentile="50") == pytest.approx(1.3 * 1.5, rel=0.02)
    assert run.stage.known("tde_baseline_latency_seconds", variant="plain", percentile="50") == pytest.approx(
        0.00103, rel=0.02
    )
    assert run.failures == []


def test_what_the_twins_hide_by_themselves_is_a_breach_against_their_baseline(live: Lives) -> None:
    run = live()
    run.measure(60, ratio=0.9)
    run.check(twins(a=True))
    run.save()
    run.measure(100, ratio=1.18)
    breach = {"percentile": "50", "threshold": "1.2"}
    assert run.value("tde_overhead_breach", reference="baseline", **breach) == 1
    assert run.value("tde_overhead_breach", reference="plain", **breach) == 0
    assert run.value("tde_overhead_state", state="over_budget") == 1
    # The baseline is dropped by another process, and with it goes what was held against it.
    (frozen,) = run.history.baselines.all()
    with closing(History.open(live.settings.history_path, 1e9, live.clock, set_aside=False)) as other:
        assert other.baselines.drop(frozen.id)
    run.chronicle.step()
    assert run.value("tde_overhead_breach", reference="baseline", **breach) is None
    assert run.value("tde_overhead_state", state="over_budget") == 0


def test_either_twin_may_become_the_encrypted_one(live: Lives) -> None:
    run = live()
    run.measure(60, ratio=1.05)
    run.check(twins(b=True))
    run.save()
    # Slot b is the encrypted side now: without encryption it was 5 % faster than a.
    run.measure(60, ratio=1.3 / 1.05)
    assert run.stage.known("tde_baseline_overhead_ratio", percentile="50") == pytest.approx(1.3, rel=0.02)
    assert run.stage.known("tde_baseline_latency_seconds", variant="plain", percentile="50") == pytest.approx(
        0.00108, rel=0.03
    )


def test_a_killed_daemon_knows_everything_again(live: Lives) -> None:
    first = live()
    first.measure(60, ratio=1.05)
    first.check(twins(a=True))
    first.save()
    first.measure(30, ratio=1.3)
    shown = first.stage.samples()["tde_event_timestamp_seconds"]
    assert len(shown) == 1

    # Nobody said goodbye: the file is as the last step left it.
    second = live()
    second.check(twins(a=True))
    second.measure(31, ratio=1.3)
    assert second.stage.samples()["tde_event_timestamp_seconds"] == shown
    assert second.baselines == first.baselines == [first.events()[0].id]
    assert second.stage.known("tde_overhead_samples", variant="plain", window="1h") > 7000, "what was restored counts"
    assert second.stage.known("tde_baseline_overhead_ratio", percentile="50") == pytest.approx(1.3 / 1.05, rel=0.03)


def test_what_changed_while_the_exporter_was_down_is_found(live: Lives) -> None:
    first = live()
    first.measure(60)
    first.chronicle.close()
    last_seen = first.clock.wall() - 60.0
    live.clock.advance(7200.0)
    second = live()
    second.check(twins(a=True))
    second.save()
    (event,) = second.events()
    assert (event.kind, event.at, event.before) == (EventKind.ENABLEMENT, second.clock.wall(), last_seen)
    assert second.baselines == [event.id]


def test_an_event_that_could_not_be_written_is_written_later(live: Lives, settings: Settings) -> None:
    run = live()
    run.measure(60)
    with closing(sqlite3.connect(settings.history_path, isolation_level=None)) as other:
        other.execute("CREATE TRIGGER refuse BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, 'no'); END")
        run.check(twins(a=True))
        run.save()
        assert (len(run.failures), run.events(), run.baselines) == (1, [], [])
        assert run.value("tde_event_timestamp_seconds", kind="enablement") is not None, "shown all the same"
        other.execute("DROP TRIGGER refuse")
    run.save()
    assert [event.kind for event in run.events()] == [EventKind.ENABLEMENT]
    assert run.baselines == [run.events()[0].id]


def test_killed_between_event_and_baseline_the_next_one_freezes_it(live: Lives) -> None:
    first = live()
    first.measure(60)
    first.check(twins(a=True))
    first.history.records.record([*first.chronicle._unsaved.values()])
    assert first.baselines == []
    second = live()
    second.check(twins(a=True))
    second.chronicle.step()
    assert second.baselines == [second.events()[0].id]


def mark(live: Lives, kind: EventKind, at: float | None = None) -> Event:
    """What an operator does in another process."""
    event = Event("orders", live.clock.wall() if at is None else at, kind, "by hand", Origin.MARKED)
    with closing(History.open(live.settings.history_path, 1e9, live.clock, set_aside=False)) as other:
        other.records.record([event])
    return event


def test_a_mark_is_seen_at_the_next_step_and_begins_anew(live: Lives) -> None:
    run = live()
    run.measure(60)
    event = mark(live, EventKind.UPGRADE)
    run.chronicle.step()
    assert run.value("tde_event_timestamp_seconds", event=event.id, kind="upgrade") == event.at
    assert run.value("tde_overhead_samples", variant="plain") is None
    assert run.baselines == [event.id]
    run.measure(10)
    assert run.value("tde_overhead_samples", variant="plain", window="1h") == 1200
    epochs = {part.block.epoch for _, part in run.history.load_span(0.0, 2e9)}
    assert epochs == {"False-False-same", f"False-False-same/{event.id}"}


def test_another_size_of_the_buffer_pool_begins_anew_and_freezes_nothing(live: Lives) -> None:
    run = live()
    run.measure(60)
    for mebibytes in (128, 256, 256):
        run.hear(ActivityRead("orders", Activity(buffer_bytes=mebibytes * 2**20)))
        run.chronicle.step()
    (event,) = run.events()
    assert (event.kind, event.text) == (EventKind.RESIZE, "buffer pool 128 MiB → 256 MiB")
    assert run.value("tde_event_timestamp_seconds", kind="resize") == event.at
    assert run.value("tde_overhead_samples", variant="plain") is None
    assert run.baselines == []


@pytest.mark.parametrize("kind", [EventKind.RESTART, EventKind.OTHER])
def test_a_mark_that_changes_nothing_of_the_measurement_only_shows(live: Lives, kind: EventKind) -> None:
    run = live()
    run.measure(60)
    event = mark(live, kind)
    run.chronicle.step()
    assert run.value("tde_event_timestamp_seconds", event=event.id) == event.at
    assert run.stage.known("tde_overhead_samples", variant="plain", window="1h") == 7200
    assert run.baselines == []


def test_a_mark_of_long_ago_freezes_what_was_before_it_and_disturbs_nothing_now(live: Lives) -> None:
    run = live()
    run.measure(180)
    event = mark(live, EventKind.ENABLEMENT, live.clock.wall() - 5400.0)
    run.chronicle.step()
    (baseline,) = run.history.baselines.all()
    assert baseline.until <= event.at < baseline.until + 300
    assert run.stage.known("tde_overhead_samples", variant="plain", window="1h") > 7000


def test_a_mark_made_while_nobody_listened_is_heard_at_the_start(live: Lives) -> None:
    live().measure(60)
    event = mark(live, EventKind.REKEY)
    second = live()
    second.check(twins())
    second.chronicle.step()
    assert second.baselines == [event.id]
    second.measure(10)
    assert second.stage.known("tde_overhead_samples", variant="plain", window="1h") == 1200
    second.save()
    # And only once.
    third = live()
    third.check(twins())
    third.chronicle.step()
    third.measure(1)
    assert third.stage.known("tde_overhead_samples", variant="plain", window="1h") == 1320


def test_a_baseline_is_held_against_twins_with_the_same_data_only(live: Lives) -> None:
    run = live()
    run.measure(60)
    run.check(twins(a=True, digest="other"))
    run.save()
    run.measure(60, ratio=1.3)
    assert run.baselines != []
    assert run.value("tde_baseline_overhead_ratio", percentile="50") is None
    assert "other data" in run.stage.view.pairs[0].baseline_words
    assert run.value("tde_overhead_ratio", percentile="50") == pytest.approx(1.3, rel=0.02)


def test_too_little_before_an_event_is_no_baseline(live: Lives) -> None:
    run = live()
    run.measure(40)
    run.check(twins(a=True))
    run.save()
    assert [event.kind for event in run.events()] == [EventKind.ENABLEMENT]
    assert run.baselines == []
    assert not run.chronicle.freezes


def test_a_dropped_baseline_is_gone_within_a_step(live: Lives) -> None:
    run = live()
    run.measure(60)
    mark(live, EventKind.UPGRADE)
    run.chronicle.step()
    assert run.value("tde_baseline_timestamp_seconds") is not None
    with closing(History.open(live.settings.history_path, 1e9, live.clock, set_aside=False)) as other:
        assert other.baselines.drop(1)
    run.chronicle.step()
    assert run.value("tde_baseline_timestamp_seconds") is None


def test_a_history_that_is_begun_anew_gets_the_events_again(live: Lives, settings: Settings) -> None:
    run = live()
    run.measure(60)
    event = mark(live, EventKind.UPGRADE)
    run.chronicle.step()
    settings.history_path.unlink()
    assert run.history.begin_anew_if_gone()
    run.chronicle.write_anew()
    run.chronicle.step()
    assert [found.id for found in run.events()] == [event.id]
    assert run.history.records.untaken() == set()
    assert run.history.records.epoch("orders", PAIR, "False-False-same") is not None


def test_garbage_of_a_driver_makes_no_event(live: Lives) -> None:
    run = live()
    state = run.stage.state
    broken = replace(state, keystores=(replace(state.keystores[0], key_activated=float("nan")),))
    for found in (state, broken, state, broken):
        run.hear(StateRead("orders", found))
    run.hear(StateRead("nobody", state))
    run.chronicle.step()
    assert run.events() == []
    assert run.failures == []


def test_after_a_restart_of_the_database_its_caches_are_cold(live: Lives) -> None:
    run = live()
    run.check(twins(a=True))
    run.facts = twins(a=True)
    run.measure(5)
    run.hear(ActivityRead("orders", ACTIVITY))
    run.hear(ActivityRead("orders", replace(ACTIVITY, reads=1, cpu_seconds=0.1, decrypts=1, encrypts=1)))
    assert [event.kind for event in run.stage.view.events] == [EventKind.RESTART]
    run.measure(1)
    assert run.value("tde_overhead_state", state="held") == 1

    run.save()
    second = live()
    for key, state in run.ledger.states():
        second.ledger.restore_state(key, state)
    second.facts = twins(a=True)
    second.measure(20)
    assert second.value("tde_overhead_state", state="held") == 1
    second.measure(15)
    assert second.value("tde_overhead_state", state="warming") == 1
