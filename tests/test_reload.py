"""Another configuration, taken up by what the daemon is made of: the page, the history, and the probe processes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as tried
from hypothesis import strategies as st

from exporter.app import App
from exporter.config.changes import between
from exporter.config.schema import HistorySettings, PairSettings, Settings, WebSettings
from exporter.domain.clock import FakeClock
from exporter.domain.events import Event, EventKind
from exporter.domain.model import Operation, SeriesKey, Snapshot
from exporter.engines.fake.settings import Target
from exporter.exposition.families import families
from exporter.exposition.ledger import Ledger
from exporter.exposition.series_book import WINDOWS
from exporter.history.records import BROUGHT, OPEN_EPOCH, VERDICT, State, StateKey
from exporter.probing.messages import PairChecked, SnapshotDone, TargetReached, TickDone
from tests.exposition.stages import FACTS, Stage, pair_facts
from tests.servers.room import free_port

POINT, SCAN = Operation.POINT_SELECT, Operation.FULL_SCAN
PAIR = "phonebook"


def target(name: str, **more: object) -> Target:
    values: dict[str, object] = {"pairs": (PairSettings(name=PAIR),), "operations": (POINT,)}
    return Target(name=name, **(values | more))


class Daemon:
    """An app that does not run, whose targets are spoken for."""

    def __init__(self, folder: Path, *targets: Target) -> None:
        self._port = free_port()
        self._folder = folder
        self.clock = FakeClock()
        self.wanted = self.settings(*targets)
        self.app = App(self.wanted, self.clock, load=lambda: self.wanted)
        for process in self.app.supervisor.shares:
            self.app.ledger.process_up(process, True)

    def settings(self, *targets: Target, **more: Any) -> Settings:
        return Settings(
            state_directory=self._folder,
            targets=targets,
            web=WebSettings(port=self._port),
            history=HistorySettings(path=self._folder / "history.db"),
            **more,
        )

    def reload(self, *targets: Target, **more: object) -> None:
        self.wanted = self.settings(*targets, **more)
        outcome = self.app._reload()
        assert outcome.done, outcome.words

    def measure(self, name: str, ticks: int = 1, operation: Operation = POINT) -> None:
        """Reach a target, find its twins alike, and measure it."""
        stage = Stage(self.app.settings, self.clock)
        self.app.ledger.apply(TargetReached(name, FACTS, 1, 0.1), 0)
        self.app.ledger.apply(PairChecked(name, pair_facts(PAIR)), 0)
        for _ in range(ticks):
            self.clock.advance(1.0)
            self.app.ledger.apply(TickDone(replace(stage.made(operation), target=name, pair=PAIR)), 0)

    def runs(self, name: str, operation: Operation = POINT) -> int | None:
        for one in self.app.ledger.view().targets:
            for pair in one.pairs:
                for series in pair.series:
                    if (one.name, series.operation) == (name, operation):
                        return sum(side.runs for side in series.sides.values())
        return None

    def samples(self, name: str) -> int | None:
        (found,) = [one for one in self.app.ledger.view().targets if one.name == name]
        summary = found.pairs[0].series[0].summary
        return None if summary is None else sum(summary.samples.values())


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    made = Daemon(tmp_path, target("a"), target("b"))
    with closing(made.app.history):
        yield made
        made.app.web.stop()


def test_kept_targets_go_on_and_removed_ones_are_gone(daemon: Daemon) -> None:
    daemon.measure("a", 3)
    daemon.measure("b", 3)
    before = daemon.runs("a")
    daemon.reload(target("a"), target("c"))

    assert daemon.runs("a") == before
    assert daemon.samples("a") is not None
    assert daemon.runs("b") is None
    assert daemon.runs("c") == 0
    # What nobody has tried yet is not said to be down.
    assert [one.up for one in daemon.app.ledger.view().targets] == [True, None]
    # What a process says that has not heard of it yet.
    daemon.app._deliver(0, TickDone(replace(Stage(daemon.app.settings, daemon.clock).made(POINT), target="b")))
    assert daemon.runs("b") is None


def test_a_changed_target_counts_on_but_is_to_be_found_out_anew(daemon: Daemon) -> None:
    daemon.measure("a", 3)
    before = daemon.runs("a")
    daemon.reload(target("a", operations=(POINT, SCAN)), target("b"))

    (view, _) = daemon.app.ledger.view().targets
    assert (view.up, view.connects, daemon.runs("a"), daemon.runs("a", SCAN)) == (None, 1, before, 0)
    assert daemon.samples("a") is None
    daemon.measure("a", 1)
    assert daemon.samples("a") == before * 4 // 3 if before else False
    assert [one.connects for one in daemon.app.ledger.view().targets] == [2, 0]


def test_a_series_that_is_measured_otherwise_keeps_its_window_and_its_verdict(daemon: Daemon) -> None:
    daemon.measure("a", 3)
    key = SeriesKey("a", PAIR, POINT)
    state = dict(daemon.app.ledger.states())[key]
    samples = daemon.samples("a")
    daemon.reload(target("a"), target("b"), operations={POINT: {"samples": 7}})

    after = dict(daemon.app.ledger.states())[key]
    assert after["evidence"] == state["evidence"]
    daemon.app.ledger.apply(PairChecked("a", pair_facts(PAIR)), 0)
    daemon.measure("a", 1)
    assert samples is not None
    assert (daemon.samples("a") or 0) > samples


def test_an_added_target_begins_with_what_the_history_has_of_it(daemon: Daemon) -> None:
    daemon.measure("b", 5)
    samples = daemon.samples("b")
    mark = Event("b", daemon.clock.wall() - 10, EventKind.OTHER, "something")
    daemon.app.history.records.record([mark])
    taken = Snapshot("b", daemon.clock.wall(), 0.1, (Stage(daemon.app.settings, daemon.clock).made(POINT),), ())
    daemon.app._deliver(0, SnapshotDone(taken))
    daemon.app.chronicle.step()
    daemon.reload(target("a"))
    daemon.reload(target("a"), target("b"))

    daemon.app.ledger.apply(TargetReached("b", FACTS, 1, 0.1), 0)
    daemon.app.ledger.apply(PairChecked("b", pair_facts(PAIR)), 0)
    daemon.measure("b", 1)
    assert daemon.samples("b") == (samples or 0) * 6 // 5
    (_, view) = daemon.app.ledger.view().targets
    assert [event.text for event in view.events] == ["something"]
    assert view.snapshot_taken == taken.started
    assert daemon.app._wants_snapshot("b") is False
    assert daemon.app._ready()[1] == "first pass not done: a"


def test_of_a_removed_target_nothing_is_remembered_but_what_was_measured(daemon: Daemon) -> None:
    """As after a restart: a verdict from before is not latched for ever on a target that comes back."""
    daemon.measure("b", 3)
    daemon.app._save_blocks()
    daemon.app.verdicts.close()
    place = StateKey(VERDICT, "b", PAIR, POINT.value)
    assert place in daemon.app.history.records.states(VERDICT)
    daemon.app.history.records.record(states={place: State(1, b"{}")})
    daemon.reload(target("a"))

    assert place not in daemon.app.history.records.states(VERDICT)
    assert [key.target for key, _ in daemon.app.history.load_blocks(0.0)] == ["b"]
    daemon.reload(target("a"), target("b"))
    daemon.app.verdicts.close()
    assert place in daemon.app.history.records.states(VERDICT)


def test_an_imported_verdict_counts_from_the_reload_on_that_brings_its_target(daemon: Daemon) -> None:
    daemon.measure("b", 3)
    key = SeriesKey("b", PAIR, POINT)
    state = dict(daemon.app.ledger.states())[key]
    state["verdict"]["breaches"] = [[50, "plain", 1.2, daemon.clock.steady()]]
    body = {name: part for name, part in state.items() if name not in WINDOWS}
    daemon.reload(target("a"))
    records = daemon.app.history.records
    brought = State(1, json.dumps(body).encode())
    records.record(
        states={
            StateKey(BROUGHT + VERDICT, "b", PAIR, POINT.value): brought,
            StateKey(BROUGHT + OPEN_EPOCH, "b"): State(1, b"0123456789"),
        }
    )
    daemon.reload(target("a"), target("c"))
    assert not daemon.app.ledger.lasting()
    daemon.reload(target("a"), target("b"))
    (lasting,) = daemon.app.ledger.lasting()
    assert (lasting.key, lasting.name.percentile) == (key, 50)
    assert records.states(VERDICT)[StateKey.of(VERDICT, key)] == brought
    assert daemon.app.chronicle._epochs == {"b": "0123456789"}


def test_common_settings_apply(daemon: Daemon) -> None:
    daemon.wanted = daemon.settings(target("a")).model_copy(
        update={
            "web": WebSettings(port=daemon.wanted.web.port, max_series=500),
            "history": HistorySettings(path=daemon.wanted.history.path, retention=7200),
        }
    )
    assert daemon.app._reload().done
    assert (daemon.app.renderer.max_series, daemon.app.history.retention) == (500, 7200)


def test_what_needs_a_restart_leaves_everything_as_it_was(daemon: Daemon) -> None:
    daemon.measure("b", 1)
    before = daemon.app.settings
    daemon.wanted = daemon.settings(target("c"), probes={"processes": 63})
    outcome = daemon.app._reload()

    assert (outcome.done, daemon.app.settings) == (False, before)
    assert "probes.processes" in outcome.words
    config = daemon.app.ledger.view().exporter.config
    assert config is not None
    assert config.reloaded is False
    assert daemon.runs("b")


def test_a_history_that_cannot_be_read_keeps_no_target_from_being_probed(daemon: Daemon) -> None:
    daemon.app.history.close()
    daemon.reload(target("a"), target("c"))

    assert [one.name for one in daemon.app.ledger.view().targets] == ["a", "c"]
    assert daemon.app.ledger.view().exporter.state_errors > 0
    assert {name for share in daemon.app.supervisor.shares.values() for name in share.targets} == {"a", "c"}


# -- whatever came before --------------------------------------------------------------------------------

NAMES = "abcd"
VARIANTS = st.fixed_dictionaries(
    {
        "operations": st.sampled_from([(POINT,), (POINT, SCAN)]),
        "pairs": st.sampled_from([(PairSettings(name=PAIR),), (PairSettings(name=PAIR), PairSettings(name="more"))]),
        "seed": st.integers(1, 2),
    }
)
SETS = st.dictionaries(st.sampled_from(NAMES), VARIANTS, min_size=1)


def exposed(ledger: Ledger) -> set[tuple[str, frozenset[tuple[str, str]]]]:
    """The counters on the page, by name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items()))
        for family in families(ledger.view())
        for sample in family.samples
        if "target" in sample.labels and sample.name.endswith("_total")
    }


@tried(deadline=None, max_examples=60)
@given(st.lists(SETS, min_size=1, max_size=5))
def test_the_page_shows_what_a_fresh_start_with_the_last_configuration_would(history: list[dict]) -> None:
    clock = FakeClock()
    configured = [Settings(targets=tuple(target(name, **more) for name, more in one.items())) for one in history]
    ledger = Ledger(configured[0], clock)
    counted: dict[str, int] = {}
    for before, now in zip([configured[0], *configured], configured, strict=False):
        changes = between(before, now)
        ledger.change(now, changes)
        counted = {name: runs for name, runs in counted.items() if name in changes.kept | changes.changed}
        for one in now.targets:
            ledger.apply(TargetReached(one.name, FACTS, 1, 0.1), 0)
            counted[one.name] = counted.get(one.name, 0) + 1
        assert {one.name: one.connects for one in ledger.view().targets} == counted
    fresh = Ledger(configured[-1], clock)
    for one in configured[-1].targets:
        fresh.apply(TargetReached(one.name, FACTS, 1, 0.1), 0)

    assert exposed(ledger) == exposed(fresh)
    assert [one.name for one in ledger.view().targets] == [one.name for one in configured[-1].targets]
    assert {key for key, _ in ledger.states()} == {key for key, _ in fresh.states()}
    assert ledger.view().exporter.config == fresh.view().exporter.config
