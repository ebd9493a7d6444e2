"""What is exported is imported equal, once, whole or not at all; what is damaged or made up is refused."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
import os
import sqlite3
import tracemalloc
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from exporter.domain.clock import FakeClock
from exporter.domain.errors import HistoryError
from exporter.domain.events import Event, EventKind, Origin
from exporter.domain.model import (
    Burst,
    Operation,
    PairFacts,
    Phase,
    Sample,
    SeriesKey,
    Slot,
    Snapshot,
    Tick,
    TwinFacts,
    Variant,
)
from exporter.history import transfer
from exporter.history.departure import Departure
from exporter.history.intake import Intake, Taken
from exporter.history.records import BROUGHT, EVENT_WATCH, LEFT, OPEN_EPOCH, VERDICT, WANDERING, State, StateKey
from exporter.history.store import History
from exporter.history.transfer import Header, Reading, packed
from exporter.overhead.baseline import PairBaseline, freeze
from exporter.overhead.blocks import Block, BlockSide
from exporter.overhead.event_watch import EventWatch
from exporter.overhead.series import Series
from exporter.overhead.sketch import LogSketch
from exporter.overhead.stretches import stretch
from exporter.overhead.units import UnitPoint

DAY, RETENTION = 86400.0, 14 * 86400.0
NOW = math.floor(FakeClock().steady() / 3600) * 3600.0
SERIES = {"hours", "blocks"}


def side(samples: int, scale: float = 1.0) -> BlockSide:
    sketch = LogSketch()
    durations = scale * np.linspace(0.001, 0.002, samples)
    durations[:1] = np.inf
    sketch.add(durations)
    return BlockSide(samples, min(1, samples), sketch, 3, 0.25, 40, None, 7)


def block(start: float, samples: int = 60, epoch: str = "e1") -> Block:
    return Block(start, epoch, side(samples, 1.1), side(samples), (UnitPoint(start + 20, 0.1, None),))


def key(target: str, operation: Operation = Operation.POINT_SELECT, pair: str = "main") -> SeriesKey:
    return SeriesKey(target, pair, operation)


def snapshot(target: str, started: float) -> Snapshot:
    burst = Burst((Sample(0, 0.001), Sample(1, math.inf)))
    tick = Tick(target, "main", Operation.FULL_SCAN, "e1", started, Variant.PLAIN, burst, burst, None, 1)
    return Snapshot(target, started, 3.5, (tick,), (("main", Operation.LOB_READ, "no lob"),))


def series_states(at: float, breached: bool = False) -> dict[str, bytes]:
    state = Series(at, 20).to_state()
    if breached:
        state["verdict"]["breaches"] = [[99, "plain", 1.2, at]]
    wandering = {part: state.pop(part) for part in ("hours", "six_hours")}
    state |= {"certifying": False, "dates": [[99, "plain", 1.2, at - 60.0, 300.0]] if breached else []}
    return {VERDICT: json.dumps(state).encode(), WANDERING: json.dumps(wandering).encode()}


def states(target: str, at: float, breached: bool = False) -> dict[StateKey, State]:
    watch = EventWatch(target)
    watch.marked(Event(target, at, EventKind.REKEY, "x"))
    held = {StateKey.of(name, key(target)): State(1, body) for name, body in series_states(at, breached).items()}
    held[StateKey(EVENT_WATCH, target)] = State(1, json.dumps(watch.to_state()).encode())
    held[StateKey(OPEN_EPOCH, target)] = State(1, b"0123456789")
    return held


def baseline(target: str, frozen: float, note: str = "", event: str = "") -> PairBaseline:
    found = freeze([stretch(block(NOW - 7200.0 + 300.0 * n)) for n in range(20)])
    assert found is not None
    return PairBaseline(
        target,
        "main",
        frozen,
        NOW - 7200,
        NOW,
        "e1",
        Phase.AA,
        Slot.A,
        "d",
        {Operation.POINT_SELECT: found},
        event,
        note,
    )


def fill(history: History, target: str, hours: float = 3.0, samples: int = 60, until: float = NOW) -> None:
    """Some of everything."""
    starts = [until - 300.0 * n for n in range(1, int(hours * 12) + 1)]
    operations = (Operation.POINT_SELECT, Operation.FULL_SCAN)
    history.save_blocks((key(target, operation), block(start, samples)) for operation in operations for start in starts)
    history.save_snapshot(snapshot(target, until))
    events = [Event(target, until - n, EventKind.OTHER, f"what {n}", Origin.MARKED) for n in range(3)]
    history.records.record(
        [*events, Event(target, until, EventKind.REKEY, "k", before=until - 5)], states(target, until)
    )
    history.records.taken([events[0].id])
    a, b = (TwinFacts(slot, False, rows=10, digest="d") for slot in Slot)
    history.records.save_epoch(target, PairFacts("main", Phase.AA, a, b, "e1"), until)
    for number in range(2):
        history.baselines.save(baseline(target, until, f"note {number}"))
    history.baselines.save(baseline(target, until - 9, event=events[1].id))


Make = Callable[[str], Path]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def opened(tmp_path: Path, clock: FakeClock) -> Iterator[Callable[[str], History]]:
    """The history of that name."""
    made: list[History] = []

    def make(name: str) -> History:
        made.append(History.open(tmp_path / name / "history.db", RETENTION, clock))
        return made[-1]

    yield make
    for history in made:
        history.close()


def exported(path: Path, clock: FakeClock, *targets: str) -> bytes:
    with closing(Departure(path, clock)) as departure:
        chosen = targets or tuple(departure.targets())
        found = b"".join(packed(Header("1.0", clock.wall(), tuple(chosen)), departure.rows(chosen)))
        assert departure.damaged == 0
    return found


def imported(path: Path, content: bytes | Iterable[bytes], clock: FakeClock) -> Taken:
    with closing(Intake(path, RETENTION, clock)) as intake:
        return intake.take("it", [content] if isinstance(content, bytes) else content)


def content(path: Path) -> dict[str, list[Any]]:
    """Every row, without what only this file calls them; states under the names of their detectors."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        found: dict[str, list[Any]] = {}
        for table in ("blocks", "hours"):
            held = connection.execute(
                f"SELECT target, pair, operation, t.* FROM {table} t JOIN series ON series.id = t.series"
            )
            found[table] = sorted((*row[:3], *row[4:]) for row in held)
        for table in ("snapshots", "events", "epochs"):
            found[table] = sorted(connection.execute(f"SELECT * FROM {table}"), key=repr)
        found["baselines"] = sorted(
            row[1:]
            for row in connection.execute(
                "SELECT b.*, s.operation, s.body FROM baselines b JOIN baseline_series s ON s.baseline = b.id"
            )
        )
        found["states"] = sorted(
            (row[0].removeprefix(LEFT).removeprefix(BROUGHT), *row[1:])
            for row in connection.execute("SELECT * FROM states")
        )
        return found


def test_everything_arrives_as_it_was(opened: Callable[[str], History], clock: FakeClock) -> None:
    source = opened("a")
    for target in ("orders", "shop"):
        fill(source, target, hours=30)
    source.prune()
    into = source.path.parent.parent / "b" / "history.db"
    taken = imported(into, exported(source.path, clock), clock)
    assert taken.changed
    assert {kind: dict(found) for kind, found in taken.tally.items()} == {
        "hours": {"new": len(content(source.path)["hours"])},
        "blocks": {"new": len(content(source.path)["blocks"])},
        "snapshots": {"new": 2},
        "events": {"new": 8},
        "epochs": {"new": 2},
        "baselines": {"new": 6},
        "states": {"new": 8},
    }
    assert content(into) == content(source.path)
    assert content(into)["hours"]
    assert into.stat().st_mode & 0o777 == 0o600
    assert not imported(into, exported(source.path, clock), clock).changed
    assert content(into) == content(source.path)
    # Older baselines have smaller numbers.
    held = opened("b").baselines.all("orders")
    assert [one.id for one in held] == sorted((one.id for one in held), reverse=True)
    assert [one.frozen for one in held] == sorted((one.frozen for one in held), reverse=True)


def test_only_the_targets_that_are_named_leave(opened: Callable[[str], History], clock: FakeClock) -> None:
    source = opened("a")
    for target in ("orders", "shop"):
        fill(source, target)
    into = source.path.parent.parent / "b" / "history.db"
    imported(into, exported(source.path, clock, "shop"), clock)
    assert {row[0] for kind in SERIES for row in content(into)[kind]} == {"shop"}
    with closing(Departure(into, clock)) as departure:
        assert departure.targets() == ["shop"]


_blocks = st.lists(
    st.tuples(st.integers(1, 40 * 12), st.integers(0, 30), st.sampled_from(("e1", "e2"))),
    max_size=40,
    unique_by=lambda one: one[0],
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=_blocks, second=_blocks, joined=st.tuples(st.booleans(), st.booleans()))
@example(first=[(1, 5, "e1"), (400, 3, "e1"), (401, 7, "e2")], second=[], joined=(True, False))
def test_whatever_both_measured_nothing_is_lost_and_nothing_counts_twice(
    tmp_path_factory: pytest.TempPathFactory, first: Any, second: Any, joined: tuple[bool, bool]
) -> None:
    clock, folder = FakeClock(), tmp_path_factory.mktemp("both")
    paths = [folder / name / "history.db" for name in "ab"]
    hourly: list[dict[float, int]] = []
    for path, held, prune in zip(paths, (first, second), joined, strict=True):
        with closing(History.open(path, RETENTION, clock)) as history:
            history.save_blocks((key("orders"), block(NOW - 300.0 * n, samples, epoch)) for n, samples, epoch in held)
            if prune:
                history.prune()
        sums: dict[float, int] = {}
        for n, samples, _ in held:
            hour = (NOW - 300.0 * n) // 3600 * 3600
            sums[hour] = sums.get(hour, 0) + 2 * samples
        hourly.append(sums)
    content_of = exported(paths[0], clock)
    imported(paths[1], content_of, clock)
    merged = content(paths[1])
    if not second:
        assert merged == content(paths[0])
    assert not imported(paths[1], content_of, clock).changed
    assert content(paths[1]) == merged
    with closing(History.open(paths[1], RETENTION, clock)) as history:
        history.prune()
    found: dict[float, int] = {}
    for table, samples, other in (("hours", 8, 16), ("blocks", 6, 14)):
        for row in content(paths[1])[table]:
            hour = row[3] // 3600 * 3600
            found[hour] = found.get(hour, 0) + row[samples] + row[other]
    for hour, number in found.items():
        ours, theirs = (sums.get(hour, 0) for sums in hourly)
        assert max(ours, theirs) <= number <= ours + theirs
    assert found.keys() == hourly[0].keys() | hourly[1].keys()


def test_of_two_blocks_the_one_with_more_samples_stays(opened: Callable[[str], History], clock: FakeClock) -> None:
    a, b = opened("a"), opened("b")
    a.save_blocks((key("orders"), block(NOW - 300.0 * n, samples)) for n, samples in ((1, 10), (2, 20), (3, 30)))
    b.save_blocks((key("orders"), block(NOW - 300.0 * n, samples)) for n, samples in ((1, 20), (2, 20), (3, 10)))
    b.close()
    taken = imported(b.path, exported(a.path, clock), clock)
    assert taken.tally["blocks"] == {"kept": 1, "same": 1, "replaced": 1}
    assert [row[6] for row in content(b.path)["blocks"]] == [30, 20, 20]


def test_what_is_too_old_or_lies_ahead_is_left_out(opened: Callable[[str], History], clock: FakeClock) -> None:
    source = opened("a")
    source.save_blocks([(key("orders"), block(start)) for start in (NOW - RETENTION - 7200, NOW - 300, NOW + 3 * DAY)])
    source.save_snapshot(snapshot("orders", NOW - RETENTION - 7200))
    into = source.path.parent.parent / "b" / "history.db"
    taken = imported(into, exported(source.path, clock), clock)
    assert taken.tally["blocks"] == {"outside": 2, "new": 1}
    assert taken.tally["snapshots"] == {"outside": 1}


def test_the_newer_snapshot_stays(opened: Callable[[str], History], clock: FakeClock) -> None:
    a, b = opened("a"), opened("b")
    for history, targets in ((a, {"x": 5, "y": 9}), (b, {"x": 9, "y": 5})):
        for target, ago in targets.items():
            history.save_snapshot(snapshot(target, NOW - ago))
    b.close()
    assert imported(b.path, exported(a.path, clock), clock).tally["snapshots"] == {"replaced": 1, "kept": 1}
    again = opened("b")
    assert [again.snapshot_taken(target) for target in "xy"] == [NOW - 5, NOW - 5]


# -- whose conclusions count ---------------------------------------------------------------------------------


def verdict_of(path: Path) -> list[Any]:
    """The breaches in the one state of a series, whatever it is called."""
    (body,) = (row[5] for row in content(path)["states"] if row[0] == VERDICT)
    found: list[Any] = json.loads(body)["verdict"]["breaches"]
    return found


@pytest.mark.parametrize(
    ("theirs", "ours", "taken"),
    [
        # What each measured, as hours and when it ended (hours ago).
        pytest.param((20, 0.0), None, True, id="a new exporter has nothing"),
        pytest.param((20, 0.25), (0.25, 0.0), True, id="both measured for some minutes"),
        pytest.param((20, 2.0), (2.0, 0.0), False, id="ours went on for hours"),
        pytest.param((20, 0.0), (20, 72.0), True, id="the target comes back to one that had it days ago"),
        pytest.param((20, 72.0), (20, 0.0), False, id="an old file"),
        pytest.param((20, 0.5), (20, 0.0), False, id="the same file again, half an hour later"),
        pytest.param((20, 0.0), (20, 0.5), True, id="a younger export of the same"),
    ],
)
def test_states_are_those_of_whoever_knows_more(
    opened: Callable[[str], History],
    clock: FakeClock,
    theirs: tuple[float, float],
    ours: tuple[float, float] | None,
    taken: bool,
) -> None:
    a, b = opened("a"), opened("b")
    for history, measured, breached in ((a, theirs, True), (b, ours, False)):
        if measured is not None:
            hours, ago = measured
            fill(history, "orders", hours, until=NOW - ago * 3600)
            history.records.record(states=states("orders", NOW - ago * 3600, breached))
    b.close()
    imported(b.path, exported(a.path, clock), clock)
    assert bool(verdict_of(b.path)) is taken
    again = opened("b")
    again.records.forget_states(["orders"])
    ((_, state),) = again.records.states(VERDICT).items()
    assert bool(json.loads(state.body)["verdict"]["breaches"]) is taken


def test_imported_states_wait_for_their_target(opened: Callable[[str], History], clock: FakeClock) -> None:
    source, into = opened("a"), opened("b")
    fill(source, "orders")
    into.close()
    imported(into.path, exported(source.path, clock), clock)
    history = opened("b")
    # A daemon that does not watch it starts, prunes, and stops.
    history.records.forget_states(["shop"])
    history.prune()
    assert history.records.states(VERDICT) == {}
    history.records.forget_states(["shop", "orders"])
    assert history.records.states(VERDICT) == source.records.states(VERDICT)
    assert history.records.states(OPEN_EPOCH) == source.records.states(OPEN_EPOCH)
    assert content(history.path) == content(source.path)


def test_states_of_a_target_that_left_can_be_exported_and_do_not_come_back(
    opened: Callable[[str], History], clock: FakeClock
) -> None:
    source = opened("a")
    fill(source, "orders")
    known = source.records.states(VERDICT)
    source.records.forget_states(["shop"])
    assert source.records.states(VERDICT) == {}
    into = source.path.parent.parent / "b" / "history.db"
    imported(into, exported(source.path, clock), clock)
    history = opened("b")
    history.records.forget_states(["orders"])
    assert history.records.states(VERDICT) == known
    source.records.forget_states(["orders"])
    assert source.records.states(VERDICT) == {}, "somebody else may have watched it since"


def test_what_was_set_aside_goes_with_the_last_observation(opened: Callable[[str], History], clock: FakeClock) -> None:
    history = opened("a")
    fill(history, "orders")
    history.records.forget_states([])
    history.prune()
    assert content(history.path)["states"]
    clock.advance(RETENTION + DAY)
    history.prune()
    history.prune()
    assert content(history.path)["states"] == []


# -- what is refused -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def packet(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An export of some of everything."""
    clock = FakeClock()
    with closing(History.open(tmp_path_factory.mktemp("packet") / "history.db", RETENTION, clock)) as source:
        fill(source, "orders", hours=0.5)
        return exported(source.path, clock)


@pytest.fixture
def target(opened: Callable[[str], History]) -> Path:
    """A history that has something already."""
    history = opened("b")
    history.save_blocks([(key("shop"), block(NOW - 300))])
    history.close()
    return history.path


def test_a_cut_anywhere_is_refused_and_changes_nothing(packet: bytes, target: Path, clock: FakeClock) -> None:
    before = content(target)
    ends = {*range(30), *range(len(packet) - 30, len(packet)), *range(30, len(packet), max(1, len(packet) // 60))}
    for end in sorted(ends):
        with pytest.raises(HistoryError, match="nothing of this file was imported"):
            imported(target, packet[:end], clock)
    assert content(target) == before


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_changed_byte_is_refused_or_means_the_same(data: st.DataObject, packet: bytes) -> None:
    place = data.draw(st.integers(0, len(packet) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda value: value != packet[place]))
    changed = packet[:place] + bytes([other]) + packet[place + 1 :]
    try:
        found = list(Reading("it", [changed]).rows())
    except HistoryError:
        return
    # Of gzip's own header, some bits say when and where it was packed.
    assert place < 10
    assert found == list(Reading("it", [packet]).rows())


def test_it_is_read_in_pieces_of_any_size(packet: bytes) -> None:
    whole = list(Reading("it", [packet]).rows())
    assert list(Reading("it", [packet[n : n + 1] for n in range(len(packet))]).rows()) == whole
    assert len(whole) > 20


def lines_of(packet: bytes) -> list[Any]:
    return [json.loads(line) for line in gzip.decompress(packet).splitlines()]


def sealed(lines: list[Any]) -> bytes:
    """A file of these lines, with an end that fits: made by somebody who knows the format."""
    counts: dict[str, int] = {}
    body = b""
    for line in lines:
        body += json.dumps(line).encode() + b"\n"
        if isinstance(line, list):
            counts[str(line[0])] = counts.get(str(line[0]), 0) + 1
    end = json.dumps({"rows": counts, "sha256": hashlib.sha256(body).hexdigest()}).encode() + b"\n"
    return gzip.compress(body + end)


def first(lines: list[Any], kind: str) -> list[Any]:
    found: list[Any] = next(line for line in lines if isinstance(line, list) and line[0] == kind)
    return found


def b64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def hostile_sketch(samples: int, place: int = 0) -> bytes:
    """A sketch of one bucket."""
    body = (0).to_bytes(8, "little") + np.array([place], "<i4").tobytes() + np.array([samples], "<u8").tobytes()
    return b"\x01" + (1).to_bytes(4, "little") + zlib.compress(body)


def put(kind: str, column: str, value: Any) -> Callable[[list[Any]], None]:
    def change(lines: list[Any]) -> None:
        first(lines, kind)[1 + transfer.KINDS[kind].index(column)] = value

    change.__name__ = f"{kind}.{column}"
    return change


def state_with(path: tuple[Any, ...], value: Any, name: str = VERDICT) -> Callable[[list[Any]], None]:
    def change(lines: list[Any]) -> None:
        row = next(line for line in lines if isinstance(line, list) and line[:3] == ["states", "orders", name])
        document = part = json.loads(base64.b64decode(row[-1]))
        for step in path[:-1]:
            part = part[step]
        part[path[-1]] = value
        row[-1] = b64(json.dumps(document).encode())

    change.__name__ = f"{name} {path}"
    return change


def ratio_of_nothing(lines: list[Any]) -> None:
    """What would be divided by when it is compared with."""
    series = first(lines, "baselines")[-1]
    document = json.loads(zlib.decompress(base64.b64decode(series[0][1])))
    document["ratio"]["50"] = [0, 0, 0, 5]
    series[0][1] = b64(zlib.compress(json.dumps(document).encode()))


def huge_samples(lines: list[Any]) -> None:
    row = first(lines, "blocks")
    columns = transfer.KINDS["blocks"]
    for one in ("encrypted", "plain"):
        row[1 + columns.index(f"{one}_samples")] = 1 << 40
        row[1 + columns.index(f"{one}_sketch")] = b64(hostile_sketch(1 << 40))


def far_bucket(lines: list[Any]) -> None:
    row = first(lines, "blocks")
    row[1 + transfer.KINDS["blocks"].index("plain_sketch")] = b64(hostile_sketch(60, 2**31 - 1))


def twice(lines: list[Any]) -> None:
    lines.insert(2, lines[1])


def elsewhere(lines: list[Any]) -> None:
    lines[0]["targets"] = ["shop"]


BOMB = zlib.compress(b"[" + b" " * (64 * 2**20) + b"]")

HOSTILE = [
    put("blocks", "target", "x'; DROP TABLE blocks; --"),
    put("blocks", "target", ["orders"]),
    put("blocks", "pair", "../main"),
    put("blocks", "pair", "main\n"),
    put("blocks", "operation", "drop_table"),
    put("blocks", "start", NOW - 301.5),
    put("blocks", "start", "now"),
    put("blocks", "start", -300.0),
    put("blocks", "start", 3e20),
    put("blocks", "epoch", "e\x1b[31m"),
    put("blocks", "epoch", None),
    put("blocks", "units", b64(b"short")),
    put("blocks", "units", "no base64!"),
    put("blocks", "units", b64(np.array([np.nan, 0.1, 0.1]).tobytes())),
    put("blocks", "encrypted_samples", 61),
    put("blocks", "encrypted_samples", 60.0),
    put("blocks", "encrypted_samples", True),
    put("blocks", "plain_failures", -1),
    put("blocks", "plain_cpu_seconds", "1"),
    put("blocks", "plain_cpu_seconds", 1e300),
    put("blocks", "plain_sketch", b64(b"\x80\x04K\x01.")),
    put("blocks", "plain_decrypts", 2**63),
    ratio_of_nothing,
    huge_samples,
    far_bucket,
    twice,
    elsewhere,
    put("snapshots", "started", NOW - 1),
    put("snapshots", "body", b64(BOMB)),
    put("snapshots", "body", b64(zlib.compress(b"[" * 100_000 + b"]" * 100_000))),
    put("events", "kind", "party"),
    put("events", "text", "x\x1b]0;y\x07"),
    put("events", "text", "x" * 5000),
    put("events", "id", "a b"),
    put("events", "taken", 2),
    put("events", "at", 1e300),
    put("epochs", "phase", "full moon"),
    put("epochs", "content", 5),
    put("baselines", "series", []),
    put("baselines", "series", [["point_select", b64(b"x")]]),
    put("baselines", "series", [["point_select", b64(BOMB)]]),
    put("baselines", "frozen", None),
    put("states", "version", 2),
    put("states", "name", "left:overhead"),
    put("states", "body", b64(b"\xff")),
    state_with(("verdict", "breaches"), [[99, "plain", 1.2, 1e300]]),
    state_with(("verdict", "breaches"), [[99]]),
    state_with(("evidence", "evidence"), 5),
    state_with(("evidence", "version"), "\x1b[31m\nred"),
    state_with(("dates",), [[99, "plain", 1.2, "soon", 1]]),
    state_with(("hours",), {}, WANDERING),
    state_with(("facts",), {"algorithms": [[1, 2], 5.0]}, EVENT_WATCH),
    state_with(("facts",), {"version": ["8.0", 1e300]}, EVENT_WATCH),
]


def test_the_same_lines_unchanged_are_taken(packet: bytes, target: Path, clock: FakeClock) -> None:
    assert imported(target, sealed(lines_of(packet)[:-1]), clock).changed
    assert len(content(target)["blocks"]) == 13


@pytest.mark.parametrize("change", HOSTILE, ids=lambda change: change.__name__)
def test_what_no_daemon_would_have_written_is_refused(
    change: Callable[[list[Any]], None], packet: bytes, target: Path, clock: FakeClock
) -> None:
    before, lines = content(target), lines_of(packet)[:-1]
    change(lines)
    with pytest.raises(HistoryError, match=r"^it, line \d+: .*nothing of this file was imported$") as refused:
        imported(target, sealed(lines), clock)
    assert str(refused.value).isprintable()
    assert content(target) == before


JUNK: st.SearchStrategy[Any] = st.sampled_from(
    [
        *(None, True, -1, 2**31, 2**63, 10**30, 1e300, 0.5, "", "x", "\x1b[0m", "orders", "AAAA", "A" * 5000),
        [],
        [[]],
        {},
    ]
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_whatever_stands_in_a_row_it_is_refused_or_can_be_read(
    data: st.DataObject, packet: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    clock, lines = FakeClock(), lines_of(packet)[:-1]
    row = data.draw(st.sampled_from(lines[1:]))
    row[data.draw(st.integers(1, len(row) - 1))] = data.draw(JUNK)
    path = tmp_path_factory.mktemp("junk") / "history.db"
    with suppress(HistoryError):
        imported(path, sealed(lines), clock)
    if path.exists():
        with closing(History.open(path, RETENTION, clock)) as history:
            assert list(history.load_span(0.0, math.inf))
            assert len(history.baselines.all()) + len(history.records.events()) == 7
            history.latest_snapshot("orders")
            assert history.errors == 0


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda packet: b"", "it is empty"),
        (lambda packet: b"SQLite format 3\0" + b"x" * 100, "this is no export of a history"),
        (lambda packet: gzip.decompress(packet), "this is no export of a history"),
        (lambda packet: gzip.compress(b'{"format": "other"}\n'), "this is no export of a history"),
        (lambda packet: gzip.compress(b"\x80\x04K\x01.\n"), "this is no export of a history"),
        (lambda packet: packet + packet, "One file holds one export"),
        (lambda packet: packet + b"\0", "One file holds one export"),
        (lambda packet: gzip.compress(gzip.decompress(packet) + b"[]\n"), "something follows the end"),
        (lambda packet: gzip.compress(gzip.decompress(packet)[:-1]), "its end is missing"),
        (lambda packet: gzip.compress(b"".join(gzip.decompress(packet).splitlines(True)[:-1])), "its end is missing"),
        (
            lambda packet: _other(packet, version=2),
            "newer tde-exporter (version 2, this one knows 1). Upgrade this one",
        ),
        (
            lambda packet: _other(packet, schema=99),
            "newer tde-exporter (schema 99, this one knows 2). Upgrade this one",
        ),
        (lambda packet: _other(packet, targets=["orders", "orders"]), "its first line is damaged"),
        (lambda packet: _other(packet, targets=["\x1b[31mred"]), "a name is none"),
        (lambda packet: _other(packet, at=1e300), "its first line is damaged"),
        (lambda packet: sealed([*lines_of(packet)[:1], ["pickles", "orders"]]), "no row that this version knows"),
        (lambda packet: _without_a_row(packet), "what it holds is not what was written"),
    ],
)
def test_a_file_that_is_none_is_refused_by_name(
    made: Callable[[bytes], bytes], said: str, packet: bytes, target: Path, clock: FakeClock
) -> None:
    before = content(target)
    with pytest.raises(HistoryError) as refused:
        imported(target, made(packet), clock)
    assert said in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1
    assert content(target) == before


def _other(packet: bytes, **header: Any) -> bytes:
    head, *lines, _ = lines_of(packet)
    return sealed([head | header, *lines])


def _without_a_row(packet: bytes) -> bytes:
    lines = gzip.decompress(packet).splitlines(True)
    return gzip.compress(b"".join([*lines[:3], *lines[4:]]))


def test_a_bomb_is_refused_before_it_fills_the_memory(target: Path, clock: FakeClock) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join([packer.compress(bytes(2**20)) for _ in range(200)]) + packer.flush()
    assert len(bomb) < 300_000
    tracemalloc.start()
    try:
        with pytest.raises(HistoryError, match="this line is too long"):
            imported(target, bomb, clock)
        assert tracemalloc.get_traced_memory()[1] < 6 * transfer.LONGEST_LINE
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_what_is_transferred(opened: Callable[[str], History], clock: FakeClock) -> None:
    history = opened("a")
    fill(history, "orders", hours=1)
    peaks = []
    for hours in (24, 240):
        starts = [NOW - 3600.0 * n for n in range(1, hours + 1)]
        history.save_blocks(
            (key(f"t{hours}", operation), block(start)) for start in starts for operation in list(Operation)[:4]
        )
        with closing(Departure(history.path, clock)) as departure:
            tracemalloc.start()
            try:
                names = (f"t{hours}",)
                pieces = packed(Header("1", 1.0, names), departure.rows(names))
                taken = imported(history.path.parent / f"{hours}" / "history.db", pieces, clock)
                peaks.append(tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()
        assert taken.tally["blocks"]["new"] == 4 * hours
    assert peaks[1] < 1.5 * peaks[0] + 2**20


def test_a_history_that_was_begun_for_nothing_is_gone_again(tmp_path: Path, clock: FakeClock) -> None:
    path = tmp_path / "state" / "history.db"
    with pytest.raises(HistoryError):
        imported(path, b"nonsense", clock)
    assert not path.exists()
    assert {one.name for one in path.parent.iterdir()} <= {"history.db.lock"}


def test_while_a_daemon_has_it_nothing_is_imported(packet: bytes, tmp_path: Path, clock: FakeClock) -> None:
    path = tmp_path / "state" / "history.db"
    with closing(History.keep(path, RETENTION, clock)):
        before = content(path)
        with pytest.raises(HistoryError, match=rf"process {os.getpid()}\) keeps this history\. Stop it, import"):
            imported(path, packet, clock)
        assert content(path) == before


def test_rows_that_are_damaged_are_left_behind(opened: Callable[[str], History], clock: FakeClock) -> None:
    source = opened("a")
    fill(source, "orders", hours=1)
    with closing(sqlite3.connect(source.path, isolation_level=None)) as connection:
        connection.execute("UPDATE blocks SET plain_sketch = x'00' WHERE start = (SELECT min(start) FROM blocks)")
        connection.execute("UPDATE events SET kind = 'party' WHERE at = ?", (NOW - 1,))
        connection.execute("UPDATE states SET body = x'00' WHERE name = ?", (WANDERING,))
        connection.execute("UPDATE baseline_series SET body = x'00' WHERE baseline = 1")
    with closing(Departure(source.path, clock)) as departure:
        pieces = b"".join(packed(Header("1.0", 1.0, ("orders",)), departure.rows(["orders"])))
        # A baseline without any series is no baseline.
        assert departure.damaged == 2 + 1 + 1 + 2
    into = source.path.parent.parent / "b" / "history.db"
    taken = imported(into, pieces, clock)
    assert {kind: found["new"] for kind, found in taken.tally.items()} == {
        "blocks": 22,
        "snapshots": 1,
        "events": 3,
        "epochs": 1,
        "baselines": 2,
        "states": 3,
    }
