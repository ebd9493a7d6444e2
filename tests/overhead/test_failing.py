"""The encrypted side fails and the plain one works: five times, or once for want of a key."""

from __future__ import annotations

from collections.abc import Sequence

from exporter.domain.errors import Reason
from exporter.domain.model import Burst, Operation, Sample, Tick, Variant
from exporter.overhead.failing import FailingSide

OK = None


def side(outcomes: Sequence[Reason | None]) -> Burst:
    return Burst(tuple(Sample(0, 0.1 if one is None else float("inf"), failure=one) for one in outcomes))


def tick(encrypted: Sequence[Reason | None], plain: Sequence[Reason | None]) -> Tick:
    dropped = None if len(encrypted) == len(plain) else "query"
    return Tick("t", "p", Operation.FULL_SCAN, "e", 0.0, Variant.PLAIN, side(encrypted), side(plain), dropped=dropped)


def after(ticks: Sequence[Tick]) -> list[bool]:
    watched = FailingSide()
    return [watched.add(one) for one in ticks]


def test_the_fifth_failure_in_a_row_tells_and_the_first_answer_ends_it() -> None:
    bad, good = tick([Reason.QUERY], [OK]), tick([OK], [OK])
    assert after([bad] * 6 + [good, bad]) == [False] * 4 + [True] * 2 + [False] * 2
    assert after([bad] * 4 + [good] + [bad] * 4) == [False] * 9
    assert after([tick([Reason.TIMEOUT] * 5, [OK] * 5)]) == [True]


def test_an_outage_is_no_failing_side() -> None:
    down = tick([Reason.UNAVAILABLE], [Reason.UNAVAILABLE])
    assert after([down] * 50) == [False] * 50
    assert after([tick([OK], [OK])] + [down] * 50) == [False] * 51
    # Ticks that end at the first failure know nothing about the plain side.
    assert after([tick([Reason.CONNECT], [])] * 50) == [False] * 50


def test_an_outage_ends_nothing() -> None:
    bad, down = tick([Reason.QUERY], [OK]), tick([Reason.CONNECT], [Reason.CONNECT])
    assert after([bad] * 5 + [down] * 3 + [bad])[-4:] == [True] * 4
    assert after([bad] * 5 + [down, tick([OK], [OK])])[-1] is False


def test_ticks_that_end_at_the_first_failure_count_while_the_plain_side_is_known_to_work() -> None:
    aborted = tick([Reason.QUERY], [])
    assert after([tick([], [OK])] + [aborted] * 5) == [False] * 5 + [True]


def test_a_missing_key_tells_at_once() -> None:
    watched = FailingSide()
    assert watched.add(tick([Reason.KEYSTORE], []))
    assert watched.keystore
    assert not watched.add(tick([OK], [OK]))
    assert not watched.keystore


def test_what_we_stopped_ourselves_is_no_failure() -> None:
    ours = tick([Reason.CANCELLED, Reason.BLOCKED], [OK, OK])
    assert after([ours] * 20) == [False] * 20
