"""What is an event, and above all what is none."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from exporter.domain.events import Event, EventKind, Origin
from exporter.domain.model import PairFacts, Phase, Slot, TargetFacts, TwinFacts
from exporter.domain.states import Activity, EncryptionState, Keystore, KeystoreState
from exporter.overhead.event_watch import EventWatch, newest_of

FACTS = TargetFacts("mysql", "8.4.0", role="primary")
KEYSTORE = Keystore("wallet", KeystoreState.OPEN, kind="file", key_activated=500.0)
STATE = EncryptionState((KEYSTORE,), (("table", "encrypted", 3), ("table", "plain", 7)), algorithms=(("AES256", 3),))
ACTIVITY = Activity(1000, 50, "block", "counter", 20.0, 3000, 4.0)


def twins(
    a: bool | None = False, b: bool | None = False, phase: Phase = Phase.AA, algorithm: str = "AES256"
) -> PairFacts:
    def twin(slot: Slot, encrypted: bool | None) -> TwinFacts:
        return TwinFacts(slot, encrypted, algorithm if encrypted else "", 10, digest="same", name=f"main_{slot}")

    return PairFacts("main", phase, twin(Slot.A, a), twin(Slot.B, b))


def kinds(events: list[Event]) -> list[EventKind]:
    return [event.kind for event in events]


class Watched:
    """A watch with a clock: each reading is a minute after the last."""

    def __init__(self) -> None:
        self.watch, self.now = EventWatch("orders"), 10_000.0

    def __call__(self, *readings: TargetFacts | PairFacts | EncryptionState | Activity) -> list[Event]:
        found: list[Event] = []
        for reading in readings:
            self.now += 60.0
            match reading:
                case TargetFacts():
                    found += self.watch.facts(reading, self.now)
                case PairFacts():
                    found += self.watch.pair(reading, self.now)
                case EncryptionState():
                    found += self.watch.state(reading, self.now)
                case Activity():
                    found += self.watch.activity(reading, self.now)
        return found

    def restarted(self) -> None:
        self.watch = EventWatch.from_state("orders", json.loads(json.dumps(self.watch.to_state())))


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_the_first_look_and_the_same_again_are_no_events(watched: Watched) -> None:
    for _ in range(3):
        assert watched(FACTS, twins(), STATE, ACTIVITY) == []


def test_an_encrypted_twin_is_the_enablement(watched: Watched) -> None:
    watched(twins(), twins())
    last_plain = watched.now
    (event,) = watched(twins(a=True))
    assert (event.kind, event.pair, event.at, event.before) == (EventKind.ENABLEMENT, "main", watched.now, last_plain)
    assert event.text == "main_a of pair main is now encrypted (AES256)"
    assert watched(twins(a=True), twins(a=True)) == []


def test_the_other_twin_may_become_the_encrypted_one(watched: Watched) -> None:
    watched(twins())
    assert "main_b" in watched(twins(b=True))[0].text


def test_what_is_unknown_or_unfit_in_between_is_no_event(watched: Watched) -> None:
    watched(twins(a=True, phase=Phase.ENABLED))
    unfit = twins(a=True, phase=Phase.ENABLED)
    assert watched(twins(a=None), replace(unfit, a=replace(unfit.a, problem="the key is missing")), unfit) == []
    assert watched(twins(a=False, phase=Phase.ENABLED)) == []


def test_the_enablement_is_found_after_a_restart_of_the_exporter(watched: Watched) -> None:
    watched(twins())
    watched.restarted()
    assert kinds(watched(twins(a=True))) == [EventKind.ENABLEMENT]


def test_twin_and_inventory_tell_of_one_enablement(watched: Watched) -> None:
    plain = replace(STATE, objects=(("table", "encrypted", 0), ("table", "plain", 10)), algorithms=())
    watched(plain, twins())
    found = watched(twins(a=True), STATE, STATE, STATE, STATE)
    assert kinds(found) == [EventKind.ENABLEMENT]


def test_the_inventory_alone_tells_of_the_enablement(watched: Watched) -> None:
    plain = replace(STATE, objects=(("table", "encrypted", 0), ("redo", "encrypted", 1)), algorithms=())
    watched(plain)
    (event,) = watched(STATE, STATE, STATE)
    assert (event.kind, event.text) == (EventKind.ENABLEMENT, "encrypted objects: table 0 → 3")


def test_a_conversion_of_many_tables_is_one_event_when_it_is_done(watched: Watched) -> None:
    watched(STATE)
    rising = [replace(STATE, objects=(("table", "encrypted", number),)) for number in (*range(4, 40), 40, 40, 40)]
    (event,) = watched(*rising)
    assert (event.kind, event.text) == (EventKind.OTHER, "encrypted objects: table 3 → 40")
    # Tables come and go: not each of them is worth a line.
    assert watched(*[replace(STATE, objects=(("table", "encrypted", 41),))] * 4) == []


def test_a_new_master_key_dates_from_when_the_keystore_says(watched: Watched) -> None:
    watched(STATE)
    activated = watched.now + 20.0
    (event,) = watched(replace(STATE, keystores=(replace(KEYSTORE, key_activated=activated),)))
    assert (event.kind, event.at) == (EventKind.REKEY, activated)
    (event,) = watched(replace(STATE, keystores=(replace(KEYSTORE, key_activated=7.0),)))
    assert event.at == watched.now, "a moment before the last look cannot be"


def test_a_master_key_that_cannot_be_read_for_a_while_is_no_event(watched: Watched) -> None:
    watched(STATE)
    unknown = replace(KEYSTORE, key_activated=None)
    closed = replace(KEYSTORE, state=KeystoreState.UNKNOWN, kind="", key_activated=None)
    assert watched(*(replace(STATE, keystores=(one,)) for one in (unknown, closed)), EncryptionState(), STATE) == []


def test_a_keystore_that_flickers_is_no_event_and_one_that_stays_closed_is(watched: Watched) -> None:
    closed = replace(STATE, keystores=(replace(KEYSTORE, state=KeystoreState.CLOSED),))
    watched(STATE)
    assert watched(closed, STATE, closed, STATE) == []
    watched(closed)
    first_seen = watched.now
    (event,) = watched(closed)
    assert (event.kind, event.text, event.at) == (EventKind.OTHER, "keystore wallet: open → closed", first_seen)


def test_another_kind_of_keystore_is_a_migration(watched: Watched) -> None:
    moved = replace(STATE, keystores=(replace(KEYSTORE, kind="external"),))
    watched(STATE)
    found = watched(moved, moved, moved)
    assert kinds(found) == [EventKind.KEYSTORE_MIGRATION]
    assert found[0].text == "keystores: file → external"


def test_another_algorithm_is_told_once_by_twin_and_inventory(watched: Watched) -> None:
    watched(STATE, twins(a=True, phase=Phase.ENABLED))
    other = replace(STATE, algorithms=(("AES128", 3),))
    found = watched(twins(a=True, phase=Phase.ENABLED, algorithm="AES128"), other, other, other)
    assert kinds(found) == [EventKind.ALGORITHM_CHANGE]
    assert "AES256 → AES128" in found[0].text


def test_another_version_is_an_upgrade_and_another_role_a_switchover(watched: Watched) -> None:
    watched(FACTS)
    assert watched(replace(FACTS, version="", role="")) == []
    (event,) = watched(replace(FACTS, version="8.4.1"))
    assert (event.kind, event.text) == (EventKind.UPGRADE, "mysql 8.4.0 → 8.4.1")
    (event,) = watched(replace(FACTS, version="8.4.1", role="standby"))
    assert (event.kind, event.text) == (EventKind.SWITCHOVER, "role primary → standby")


def test_sums_that_fell_are_a_restart(watched: Watched) -> None:
    watched(ACTIVITY, Activity(1100, 60, "block", "counter", 21.0, 3100, 4.1))
    watched.restarted()
    (event,) = watched(Activity(0, 0, "block", "counter", 0.1, 12, 0.0))
    assert event.kind is EventKind.RESTART


def test_a_young_instance_may_have_used_more_to_start_than_the_one_before(watched: Watched) -> None:
    watched(Activity(0, 0, "block", "counter", 0.3, 400))
    assert kinds(watched(Activity(0, 0, "block", "counter", 0.8, 300))) == [EventKind.RESTART]


def test_where_nothing_else_is_known_all_sums_must_have_fallen(watched: Watched) -> None:
    watched(Activity(reads=1000, read_seconds=3.0, decrypts=40, decrypt_source="proxy"))
    assert watched(Activity(reads=900, read_seconds=3.1, decrypts=30, decrypt_source="proxy")) == []
    found = watched(Activity(reads=9, read_seconds=0.1, decrypts=0, decrypt_source="proxy"))
    assert kinds(found) == [EventKind.RESTART]


@pytest.mark.parametrize(
    "later",
    [
        Activity(),
        Activity(5, 5, "value", "proxy"),
        # One statistic was reset by somebody; the instance ran on.
        Activity(1100, 60, "block", "counter", 21.0, 0, 0.0),
        # The time of reads can be read no more: the number of reads comes from elsewhere now.
        Activity(1000, 50, "block", "counter", 20.0, 5),
        ACTIVITY,
    ],
)
def test_sums_that_are_unknown_or_of_another_kind_or_reset_are_no_restart(watched: Watched, later: Activity) -> None:
    watched(ACTIVITY)
    assert watched(later) == []


def test_another_size_of_the_buffer_pool_is_an_event_once_it_was_read_twice(watched: Watched) -> None:
    small, large = (replace(ACTIVITY, buffer_bytes=size * 2**20) for size in (128, 6144))
    watched(small, ACTIVITY, small)
    last_small = watched.now
    assert watched(large, ACTIVITY, small, large) == []
    first_large = watched.now
    watched.restarted()
    assert watched(ACTIVITY) == []
    (event,) = watched(large, large)
    assert (event.kind, event.text) == (EventKind.RESIZE, "buffer pool 128 MiB → 6 144 MiB")
    assert last_small < (event.before or 0.0) < event.at
    assert event.at > first_large
    assert watched(large, large, ACTIVITY) == []
    # Also where nothing else is known of an instance.
    assert kinds(watched(*[Activity(buffer_bytes=2**30)] * 2)) == [EventKind.RESIZE]


def test_what_an_operator_said_is_not_said_again(watched: Watched) -> None:
    watched(twins())
    watched.watch.marked(Event("orders", watched.now, EventKind.ENABLEMENT, "now", Origin.MARKED))
    assert watched(twins(a=True)) == []


def test_two_pairs_that_are_enabled_one_after_the_other_are_two_events(watched: Watched) -> None:
    def both(one: bool, other: bool) -> list[PairFacts]:
        return [twins(a=one), replace(twins(a=other), pair="other")]

    watched(*both(False, False))
    assert [event.pair for event in watched(*both(True, False), *both(True, True))] == ["main", "other"]


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"version": 2, "facts": {}, "newest": {}},
        {"version": 1, "facts": {"version": ["8", "soon"]}, "newest": {}},
        {"version": 1, "facts": {"version": 5}, "newest": {}},
        {"version": 1, "facts": {"sums": [{"reads": "many"}, 1.0]}, "newest": {}},
        {"version": 1, "facts": {"buffer bytes": ["large", 1.0]}, "newest": {}},
        {"version": 1, "facts": [], "newest": {}},
    ],
)
def test_a_damaged_state_is_refused(state: dict) -> None:
    with pytest.raises(ValueError, match=r"damaged|version|float"):
        EventWatch.from_state("orders", state)


def test_an_event_has_the_same_id_wherever_it_is_written_down() -> None:
    event = Event("orders", 1.5, EventKind.REKEY, "x")
    assert event.id == replace(event, before=1.0).id
    assert len({event.id, replace(event, at=1.6).id, replace(event, target="o").id, replace(event, text="y").id}) == 4


def test_many_restarts_do_not_push_out_the_enablement() -> None:
    restarts = [Event("orders", 1000.0 + n, EventKind.RESTART, "") for n in range(50)]
    enablement = Event("orders", 1.0, EventKind.ENABLEMENT, "")
    upgrades = [Event("orders", 500.0 + n, EventKind.UPGRADE, "") for n in range(30)]
    assert newest_of([*restarts, enablement])[:6] == (*reversed(restarts[-5:]), enablement)
    assert len(newest_of([*restarts, *upgrades])) == 20
