import math
import random
from collections import Counter

import pytest

from exporter.config.schema import OperationSettings, PairSettings
from exporter.domain.clock import FakeClock
from exporter.domain.errors import ConnectFailed, DeadlineExceeded, KeystoreFailed, Reason
from exporter.domain.model import Execution, Operation, PairFacts, Phase, Slot, TargetFacts, TwinFacts, Variant, Work
from exporter.engines.base import Prepared
from exporter.probing.canary import Canary, StartingSides
from exporter.probing.turnstile import Turnstile

PAIR = PairSettings(name="phonebook")


def facts(encrypted=Slot.A):
    def twin(slot):
        return TwinFacts(slot, encrypted=slot is encrypted, digest="same")

    return PairFacts("phonebook", Phase.ENABLED, twin(Slot.A), twin(Slot.B), epoch="e1")


class ScriptedSession:
    """Notes every run; `behave(slot, number)` may raise or change the answer, `server(slot, number)` tells its time."""

    def __init__(self, behave=lambda slot, number: 1, clock="client", server=lambda slot, number: None):
        self.runs = []
        self._behave, self._clock, self._server = behave, clock, server

    def facts(self):
        return TargetFacts("scripted", "1", clock=self._clock)

    def prepare(self, pair, timeout):
        return Prepared()

    def run(self, pair, slot, operation, key, timeout):
        self.runs.append((slot, key, timeout))
        answer = self._behave(slot, len(self.runs))
        server = self._server(slot, len(self.runs))
        work = Work(
            cpu_seconds=0.5, server_seconds=server, blocks_read=1, decrypts=3 if slot is Slot.A else 0, encrypts=0
        )
        return Execution(0.001, 0.0005, work, (answer, key))


def canary(operation=Operation.FULL_SCAN, samples=1, turnstile=None, seed=1):
    settings = OperationSettings(samples=samples, timeout=2.0)
    return Canary("orders", PAIR, operation, settings, turnstile or Turnstile(), random.Random(seed), FakeClock())


def test_both_sides_have_the_same_number_of_samples_and_the_same_keys():
    session = ScriptedSession()
    tick = canary(Operation.POINT_SELECT, samples=20).tick(session, facts())

    assert len(tick.encrypted.samples) == len(tick.plain.samples) == 20
    measured = session.runs[2:]  # one warm-up on each side comes first
    assert [key for slot, key, _ in measured if slot is Slot.A] == [key for slot, key, _ in measured if slot is Slot.B]
    assert {timeout for _, _, timeout in measured} == {2.0}
    positions = sorted(sample.position for burst in (tick.encrypted, tick.plain) for sample in burst.samples)
    assert positions == list(range(40))


def test_more_pairs_follow_those_that_are_configured_and_keep_to_the_protocol():
    begun = []

    def more():
        begun.append(len(session.runs))
        yield from range(130)

    session = ScriptedSession()
    tick = canary(Operation.POINT_SELECT, samples=20).tick(session, facts(), more=more())

    assert begun == [2 + 40]
    assert len(tick.encrypted.samples) == len(tick.plain.samples) == 150
    measured = session.runs[2:]
    assert [key for slot, key, _ in measured if slot is Slot.A] == [key for slot, key, _ in measured if slot is Slot.B]
    firsts = Counter(slot for slot, _, _ in measured[40::2])
    assert 30 < firsts[Slot.A] < 100


def test_a_failure_ends_the_tick_before_or_among_what_is_more():
    for last, expected in ((11, 5), (100, 50)):

        def behave(slot, number, last=last):
            if number > last:
                raise DeadlineExceeded("too slow")
            return 1

        asked = iter(range(130))
        tick = canary(Operation.POINT_SELECT, samples=20).tick(ScriptedSession(behave), facts(), more=asked)

        assert len(tick.encrypted.samples) == len(tick.plain.samples) == expected
        assert next(asked) == max(0, expected - 20)


def test_the_order_inside_a_pair_is_random():
    session = ScriptedSession()
    canary(Operation.POINT_SELECT, samples=200).tick(session, facts())

    firsts = Counter(slot for slot, _, _ in session.runs[2::2])
    assert 60 < firsts[Slot.A] < 140


def test_every_four_ticks_hold_equal_numbers_of_starts():
    sides = StartingSides(random.Random(7))
    drawn = [sides.next() for _ in range(400)]

    for start in range(0, 400, 4):
        assert Counter(drawn[start : start + 4]) == {Variant.ENCRYPTED: 2, Variant.PLAIN: 2}
    assert len({tuple(drawn[start : start + 4]) for start in range(0, 400, 4)}) == 6


def test_the_side_is_what_verification_found_and_not_the_slot():
    tick = canary().tick(ScriptedSession(), facts(encrypted=Slot.B))

    assert tick.encrypted.work.decrypts == 0
    assert tick.plain.work.decrypts == 3


def test_a_timeout_is_an_infinitely_slow_observation_and_ends_the_tick_evenly():
    def behave(slot, number):
        if slot is Slot.A and number > 10:
            raise DeadlineExceeded("too slow")
        return 1

    session = ScriptedSession(behave)
    tick = canary(Operation.POINT_SELECT, samples=20).tick(session, facts())

    assert tick.dropped is None
    assert len(tick.encrypted.samples) == len(tick.plain.samples) < 20
    assert tick.encrypted.durations[-1] == math.inf
    assert tick.encrypted.failures == (Reason.TIMEOUT,)
    assert tick.plain.failures == ()
    assert math.isfinite(tick.plain.durations[-1])


def test_a_lost_key_fails_the_encrypted_side_alone():
    def behave(slot, number):
        if slot is Slot.A:
            raise KeystoreFailed("no key")
        return 1

    tick = canary().tick(ScriptedSession(behave), facts())

    assert tick.dropped is None
    assert tick.encrypted.failures == (Reason.KEYSTORE,)
    assert tick.plain.failures == ()


def test_a_lost_session_drops_the_tick_on_both_sides():
    def behave(slot, number):
        if number == 11:
            raise ConnectFailed("gone")
        return 1

    tick = canary(Operation.POINT_SELECT, samples=20).tick(ScriptedSession(behave), facts())

    assert tick.dropped == "connect"


def test_different_answers_fail_verification_and_the_tick_counts_for_neither_side():
    tick = canary().tick(ScriptedSession(lambda slot, number: 1 if slot is Slot.A else 2), facts())

    assert tick.dropped == "verification"
    assert tick.encrypted.failures == tick.plain.failures == (Reason.VERIFICATION,)


def test_a_contended_tick_is_marked_and_stops():
    turnstile = Turnstile(longest_wait=0.001)
    with turnstile.turn():
        tick = canary(Operation.POINT_SELECT, samples=20, turnstile=turnstile).tick(ScriptedSession(), facts())

    assert tick.dropped == "contended"
    assert len(tick.encrypted.samples) == len(tick.plain.samples) == 1


def test_long_operations_do_not_wait_for_a_turn():
    turnstile = Turnstile(longest_wait=30.0)
    with turnstile.turn():
        tick = canary(Operation.FULL_SCAN, turnstile=turnstile).tick(ScriptedSession(), facts())

    assert tick.dropped is None


def test_a_dense_measurement_is_made_of_units_with_each_side_first_once():
    ticks = list(canary().units(ScriptedSession(), facts(), most=8, seconds=1e9))

    assert [tick.unit for tick in ticks] == [unit for unit in range(8) for _ in range(2)]
    for unit in range(8):
        assert {tick.first for tick in ticks if tick.unit == unit} == set(Variant)


def test_a_dense_measurement_has_six_units_at_least_and_then_obeys_its_time():
    ticks = list(canary().units(ScriptedSession(), facts(), most=50, seconds=-1.0))

    assert len(ticks) == 12


def test_a_dense_measurement_ends_with_the_first_failure():
    def behave(slot, number):
        if number > 4:
            raise DeadlineExceeded("too slow")
        return 1

    ticks = list(canary().units(ScriptedSession(behave), facts(), most=50, seconds=1e9))

    assert len(ticks) == 3


def test_an_unattributed_pair_is_never_measured():
    unknown = PairFacts("phonebook", Phase.ENABLED, TwinFacts(Slot.A, None), TwinFacts(Slot.B, False))
    with pytest.raises(ValueError, match="nobody knows"):
        canary().tick(ScriptedSession(), unknown)


# -- the clock that decides --------------------------------------------------------------------------------


def by_server(slot, number):
    return 0.0007 if slot is Slot.A else 0.0004


def test_where_the_clock_of_the_server_decides_both_sides_go_by_it_and_phases_stay_the_clients():
    session = ScriptedSession(clock="server", server=by_server)
    tick = canary(Operation.POINT_SELECT, samples=20).tick(session, facts())

    assert tick.dropped is None
    assert set(tick.encrypted.durations) == {0.0007}
    assert set(tick.plain.durations) == {0.0004}
    assert {(sample.execute_seconds, sample.fetch_seconds) for sample in tick.plain.samples} == {(0.001, 0.0005)}


def test_where_the_clock_of_the_client_decides_the_servers_is_only_a_sum():
    tick = canary().tick(ScriptedSession(server=by_server), facts())

    assert set(tick.encrypted.durations) == set(tick.plain.durations) == {0.0015}
    assert tick.encrypted.work.server_seconds == 0.0007


@pytest.mark.parametrize("said", [None, math.nan, math.inf, -1e-9, "0.1"], ids=repr)
def test_a_query_that_the_server_did_not_time_drops_the_tick_on_both_sides(said):
    measured = canary(Operation.POINT_SELECT, samples=20)
    session = ScriptedSession(
        clock="server", server=lambda slot, number: said if number > 12 and slot is Slot.B else 0.0004
    )
    tick = measured.tick(session, facts())

    assert tick.dropped == "unavailable"
    assert tick.plain.failures == (Reason.UNAVAILABLE,)
    assert tick.encrypted.failures == ()
    assert len(tick.encrypted.samples) == len(tick.plain.samples) < 20
    assert measured.problem == "the server did not say how long the query took"


def test_no_time_is_a_time_for_a_clock_that_ticks_coarsely():
    tick = canary().tick(ScriptedSession(clock="server", server=lambda slot, number: 0.0), facts())

    assert (tick.dropped, tick.plain.durations) == (None, (0.0,))


def test_a_dense_measurement_goes_by_the_same_clock_and_ends_where_it_fails():
    session = ScriptedSession(clock="server", server=lambda slot, number: None if number > 8 else 0.0004)
    ticks = list(canary().units(session, facts(), most=8, seconds=1e9))

    assert [tick.dropped for tick in ticks] == [None] * 4 + ["unavailable"]
    assert {duration for tick in ticks[:4] for duration in tick.plain.durations} == {0.0004}
