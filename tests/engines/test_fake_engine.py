"""The scripted engine does what its settings say, no more and no less."""

import statistics
import threading
import time

import pytest

from exporter.domain.errors import DeadlineExceeded, KeystoreFailed, QueryFailed, Reason, TargetError
from exporter.domain.model import Operation, Phase, Slot, Variant
from exporter.domain.states import KeystoreState
from exporter.engines import registry
from exporter.engines.fake.settings import Fault, Side, Target
from tests.stopwatch import Stopwatch

POINT = Operation.POINT_SELECT


def opened(**settings):
    target = Target(name="scripted", real_time=settings.pop("real_time", False), **settings)
    return registry.make(target).open(1.0), target.pairs[0], target


def durations(session, pair, slot, count):
    return [session.run(pair, slot, POINT, key, 1.0).duration for key in range(count)]


def test_latencies_are_lognormal_around_the_median_and_the_same_for_the_same_seed():
    first, pair, _ = opened(a=Side(encrypted=True, latency=0.01, spread=0.2), seed=5)
    second, _, _ = opened(a=Side(encrypted=True, latency=0.01, spread=0.2), seed=5)
    other, _, _ = opened(a=Side(encrypted=True, latency=0.01, spread=0.2), seed=6)
    seen = durations(first, pair, Slot.A, 2000)

    assert statistics.median(seen) == pytest.approx(0.01, rel=0.03)
    assert durations(second, pair, Slot.A, 2000) == seen
    assert durations(other, pair, Slot.A, 2000) != seen


def test_the_sequence_of_one_slot_does_not_depend_on_the_runs_of_the_other():
    alone, pair, _ = opened(seed=3)
    mixed, _, _ = opened(seed=3)
    interleaved = []
    for _ in range(20):
        durations(mixed, pair, Slot.A, 2)
        interleaved += durations(mixed, pair, Slot.B, 1)

    assert interleaved == durations(alone, pair, Slot.B, 20)


def test_real_time_is_really_spent():
    session, pair, _ = opened(real_time=True, b=Side(encrypted=False, latency=0.05, spread=0.0))
    begun = time.perf_counter()
    run = session.run(pair, Slot.B, POINT, 0, 1.0)

    assert time.perf_counter() - begun >= 0.05
    assert run.duration >= 0.05


def test_a_query_slower_than_its_deadline_times_out():
    session, pair, _ = opened(b=Side(encrypted=False, latency=5.0))

    with pytest.raises(DeadlineExceeded):
        session.run(pair, Slot.B, POINT, 0, 0.1)


def test_work_is_as_scripted_and_unknown_stays_unknown():
    a = Side(encrypted=True, latency=0.01, spread=0.0, cpu_share=0.25, decrypts=7)
    session, pair, _ = opened(a=a, b=Side(encrypted=False, cpu_share=None, decrypts=None))
    known = session.run(pair, Slot.A, POINT, 0, 1.0).work
    unknown = session.run(pair, Slot.B, POINT, 0, 1.0).work

    assert (known.decrypts, known.encrypts, known.blocks_read, known.server_seconds) == (7, 0, 7, None)
    assert known.cpu_seconds == pytest.approx(0.0025)
    assert (unknown.decrypts, unknown.cpu_seconds) == (None, None)


@pytest.mark.parametrize("operation", list(Operation))
def test_each_operation_spends_its_time_on_what_it_is(operation):
    """What commits has a commit and fetches nothing; what writes encrypts; a checkpoint does it without a commit."""
    session, pair, _ = opened()
    run = session.run(pair, Slot.A, operation, 0, 1.0)
    commits = operation in (Operation.INSERT_BATCH, Operation.UPDATE_BATCH, Operation.DELETE_REPLENISH)

    assert (run.commit_seconds > 0, run.fetch_seconds > 0) == (commits, not commits)
    assert run.work.encrypts == (10 if commits or operation is Operation.CHECKPOINT else 0)


def test_nothing_countable_is_said_by_the_facts():
    nothing = Side(encrypted=True, decrypts=None)
    session, _, _ = opened(a=nothing, b=nothing)

    assert session.facts().decrypt_unit is None
    assert session.facts().decrypt_source is None
    assert session.facts().block_bytes is None


def test_different_data_gives_different_digests_and_answers():
    session, pair, _ = opened(b=Side(encrypted=False, digest="other"))
    facts = session.verify(pair, 1.0)

    assert facts.problem == "the twins do not hold the same data"
    for operation in Operation:
        answers = {session.run(pair, slot, operation, 3, 1.0).answer for slot in Slot}
        assert len(answers) == 2, operation


def test_a_pair_of_plain_twins_certifies():
    plain = Side(encrypted=False)
    session, pair, _ = opened(a=plain, b=plain)
    facts = session.verify(pair.model_copy(update={"phase": Phase.AA}), 1.0)

    assert facts.valid
    assert facts.attribution == {Variant.ENCRYPTED: Slot.A, Variant.PLAIN: Slot.B}


def test_errors_come_at_each_so_many_calls():
    session, pair, _ = opened(faults=(Fault(kind="error", first=2, last=8, every=3),))
    failed = []
    for number in range(1, 12):
        try:
            session.run(pair, Slot.A, Operation.POINT_SELECT, 1, 1.0)
        except TargetError:
            failed.append(number)
    assert failed == [2, 5, 8]


def test_errors_come_from_the_first_to_the_last_call_of_their_kind():
    fault = Fault(kind="error", slot=Slot.A, reason=Reason.KEYSTORE, first=3, last=4)
    session, pair, _ = opened(faults=(fault,))
    outcomes: list[Reason | None] = []
    for _ in range(5):
        session.run(pair, Slot.B, POINT, 0, 1.0)
        try:
            session.run(pair, Slot.A, POINT, 0, 1.0)
            outcomes.append(None)
        except KeystoreFailed as error:
            outcomes.append(error.reason)

    assert outcomes == [None, None, Reason.KEYSTORE, Reason.KEYSTORE, None]


@pytest.mark.parametrize("reason", list(Reason))
def test_every_reason_can_be_scripted(reason):
    session, pair, _ = opened(faults=(Fault(kind="error", reason=reason),))

    with pytest.raises(TargetError) as caught:
        session.run(pair, Slot.A, POINT, 0, 1.0)
    assert caught.value.reason is reason


@pytest.mark.parametrize("call", ["open", "prepare", "verify", "encryption_state", "provision"])
def test_every_call_can_go_wrong_once(call):
    target = Target(name="scripted", faults=(Fault(kind="error", call=call, last=1),))
    engine, pair = registry.make(target), target.pairs[0]

    def everything():
        session = engine.open(1.0)
        session.provision(pair, lambda _what, _share: None, 1.0)
        session.verify(pair, 1.0)
        session.prepare(pair, 1.0)
        session.encryption_state(1.0)

    with pytest.raises(QueryFailed, match=call):
        everything()
    everything()


def test_the_script_goes_on_with_a_new_engine_for_the_same_target():
    session, pair, target = opened(faults=(Fault(kind="error", first=2, last=2),))
    session.run(pair, Slot.A, POINT, 0, 1.0)
    again = registry.make(target).open(1.0)

    with pytest.raises(QueryFailed):
        again.run(pair, Slot.A, POINT, 0, 1.0)
    again.run(pair, Slot.A, POINT, 0, 1.0)


def test_an_equal_target_has_a_life_of_its_own():
    first, pair, _ = opened(faults=(Fault(kind="error", last=1),))
    second, _, _ = opened(faults=(Fault(kind="error", last=1),))

    for session in (first, second):
        with pytest.raises(QueryFailed):
            session.run(pair, Slot.A, POINT, 0, 1.0)


def test_a_wedge_ends_neither_by_its_deadline_nor_by_closing():
    session, pair, _ = opened(faults=(Fault(kind="wedge", slot=Slot.A),))
    thread = threading.Thread(target=session.run, args=(pair, Slot.A, POINT, 0, 0.01), daemon=True)
    thread.start()
    watch = Stopwatch()
    session.close()
    assert watch.seconds < 5 * 1.0

    thread.join(0.3)
    assert thread.is_alive()


def test_the_inventory_counts_what_the_sides_pretend():
    session, _, _ = opened(b=Side(encrypted=None), keystore=KeystoreState.CLOSED)
    state = session.encryption_state(1.0)

    assert [keystore.state for keystore in state.keystores] == [KeystoreState.CLOSED]
    assert set(state.objects) == {("database", "encrypted", 1), ("database", "plain", 0), ("database", "unknown", 1)}
