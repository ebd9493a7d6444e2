"""Whether a target can be used, without a ledger around it. What the page says of it is in test_expiry and test_ledger."""

from __future__ import annotations

import pytest

from exporter.domain.errors import Reason
from exporter.domain.model import Burst, Sample, TargetFacts
from exporter.exposition.reach import Reach
from exporter.probing.messages import CANARY, ENCRYPTION_STATE, STANDBY, CollectorDone, TargetFailed, TargetReached

FACTS = TargetFacts("scripted", "9")


def reached() -> Reach:
    reach = Reach(20.0, 60.0)
    reach.connected(TargetReached("shop", FACTS, 1, 0.1), 0.0)
    return reach


def answered(*failures: Reason | None) -> Burst:
    return Burst(tuple(Sample(place, 0.001, failure=failure) for place, failure in enumerate(failures)))


def done(collector: str, reason: Reason | None = None) -> CollectorDone:
    return CollectorDone("shop", collector, 0.1, 0.0, reason, "")


def one_round(reach: Reach, now: float, *bursts: Burst) -> None:
    reach.tick()
    for burst in bursts:
        reach.burst(burst, now)
    reach.collector_done(done(CANARY), now)


def test_before_anybody_tried_and_without_a_probe_process() -> None:
    reach = Reach(20.0, 60.0)
    assert reach.up(0.0) is False
    reach.lost()
    assert reach.up(0.0) is None
    assert reach.unknown


@pytest.mark.parametrize(
    ("bursts", "up"),
    [
        ([answered(None, None), answered(None, None)], True),
        ([answered(Reason.QUERY, None), answered(Reason.QUERY, Reason.QUERY)], True),
        ([answered(Reason.QUERY), answered(Reason.QUERY)], False),
        ([answered(Reason.LOCK_TIMEOUT), answered(Reason.LOCK_TIMEOUT)], True),
        ([answered(Reason.BLOCKED), answered(Reason.QUERY)], True),
        ([answered(Reason.TIMEOUT), answered(Reason.TIMEOUT)], False),
    ],
)
def test_a_round_of_canaries(bursts: list[Burst], up: bool) -> None:
    reach = reached()
    one_round(reach, 1.0, *bursts)
    assert reach.up(1.0) is up


def test_only_what_succeeded_was_measured() -> None:
    reach = reached()
    one_round(reach, 1.0, answered(Reason.LOCK_TIMEOUT), answered(Reason.LOCK_TIMEOUT))
    assert not reach.measured(1.0)
    one_round(reach, 2.0, answered(None), answered(Reason.LOCK_TIMEOUT))
    assert reach.measured(22.0)
    assert not reach.measured(22.1)


def test_a_round_without_canaries_says_nothing_new() -> None:
    reach = reached()
    one_round(reach, 1.0, answered(Reason.QUERY), answered(Reason.QUERY))
    reach.collector_done(done(CANARY), 2.0)
    assert reach.up(2.0) is False


def test_a_standby_that_is_not_reached_is_not_the_target() -> None:
    reach = reached()
    reach.collector_done(done(STANDBY, Reason.TIMEOUT), 1.0)
    assert reach.up(1.0) is True
    reach.collector_done(done(ENCRYPTION_STATE, Reason.TIMEOUT), 2.0)
    assert reach.up(2.0) is False


def test_where_canaries_get_no_session_others_that_work_do_not_help() -> None:
    reach = reached()
    reach.collector_done(done(CANARY, Reason.AUTH), 1.0)
    reach.collector_done(done(ENCRYPTION_STATE), 2.0)
    assert reach.up(2.0) is False
    reach.connected(TargetReached("shop", FACTS, 1, 0.1), 3.0)
    assert reach.up(3.0) is True


def test_what_a_failure_means() -> None:
    reach = reached()
    assert not reach.failed(TargetFailed("shop", Reason.PERMISSION, "", connecting=False))
    assert reach.up(1.0) is True
    assert reach.failed(TargetFailed("shop", Reason.PERMISSION, "", connecting=True))
    assert reach.up(1.0) is False


def test_a_target_that_is_not_heard_of_is_not_up() -> None:
    reach = reached()
    assert reach.up(60.0) is True
    assert reach.up(60.1) is False
