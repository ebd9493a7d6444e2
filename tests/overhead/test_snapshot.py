"""Dense measurements: rows, units, dropped ticks, what is unknown."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from exporter.domain.model import Operation, Snapshot, Tick, Variant, Work
from exporter.overhead.snapshot import SnapshotRow, summarise
from exporter.overhead.two_level import DEFAULT_TAU
from exporter.overhead.words import Word

approx: Any = pytest.approx  # Stands for the number that it is near to.

E, P = Variant.ENCRYPTED, Variant.PLAIN


def snapshot(*ticks: Tick) -> Snapshot:
    return Snapshot("t", 1_800_000_000.0, 3.0, ticks)


def only(*ticks: Tick) -> SnapshotRow:
    (row,) = summarise(snapshot(*ticks))
    return row


def units(make_tick: Any, count: int, encrypted: float = 0.14, plain: float = 0.1, **more: Any) -> list[Tick]:
    """`count` complete units; the side that runs second is 30 % faster."""
    ticks = []
    for unit in range(count):
        ticks.append(make_tick([encrypted] * 3, [plain * 0.7] * 3, first=E, unit=unit, **more))
        ticks.append(make_tick([encrypted * 0.7] * 3, [plain] * 3, first=P, unit=unit, **more))
    return ticks


def test_a_row_holds_what_the_units_say(make_tick: Any) -> None:
    row = only(*units(make_tick, 8, work=Work(0.003, None, 5, 100, 7), plain_work=Work(0.002, None, 5, 0, 0)))
    assert (row.pair, row.operation, row.samples, row.failures) == ("p", Operation.POINT_SELECT, 48, 0)
    assert row.latency is not None
    # Every unit says the same: the order cancels, and only the second level of the interval is left.
    between = math.exp(1.959964 * DEFAULT_TAU)
    assert (row.latency.estimate, row.latency.lower, row.latency.upper) == approx((1.4, 1.4 / between, 1.4 * between))
    assert row.latency.samples == 8
    assert row.cpu is not None
    assert row.cpu.estimate == approx(1.5)
    assert (row.decrypts_per_sample, row.encrypts_per_sample, row.blind) == (100.0, 7.0, False)
    assert row.encrypted_seconds in (0.14, approx(0.098))
    assert row.plain_seconds in (0.1, approx(0.07))


def test_rows_come_by_pair_and_operation_in_the_order_of_measuring(make_tick: Any) -> None:
    rows = summarise(
        snapshot(
            make_tick([1.0], [1.0], pair="b", operation=Operation.FULL_SCAN),
            make_tick([1.0], [1.0], pair="a"),
            make_tick([1.0], [1.0], pair="b"),
            make_tick([1.0], [1.0], pair="b", operation=Operation.FULL_SCAN, first=P),
        )
    )
    assert [(row.pair, row.operation.value, row.samples) for row in rows] == [
        ("b", "full_scan", 2),
        ("a", "point_select", 1),
        ("b", "point_select", 1),
    ]
    assert summarise(snapshot()) == ()


def test_a_dropped_tick_takes_its_unit_along(make_tick: Any) -> None:
    good = units(make_tick, 6)
    spoilt = make_tick([99.0], [0.1], first=E, unit=6, dropped="contended")
    partner = make_tick([99.0], [0.1], first=P, unit=6)
    uneven = make_tick([99.0, 99.0], [0.1], first=E, unit=7)
    assert only(*good, spoilt, partner, uneven) == only(*good)
    nothing = SnapshotRow("p", Operation.POINT_SELECT, None, None, None, None, None, None, 0, 0, None, Word.NO_DATA)
    assert only(spoilt) == nothing


def test_an_incomplete_unit_counts_for_the_medians_only(make_tick: Any) -> None:
    row = only(make_tick([0.2], [0.1], first=E))
    assert (row.encrypted_seconds, row.plain_seconds, row.latency, row.cpu) == (0.2, 0.1, None, None)
    # Two ticks with the same side first, or of two units, do not make a unit either.
    assert only(make_tick([0.2], [0.1], first=E), make_tick([0.2], [0.1], first=E)).latency is None
    assert only(make_tick([0.2], [0.1], first=E), make_tick([0.2], [0.1], first=P, unit=1)).latency is None


def test_below_six_units_there_is_no_interval(make_tick: Any) -> None:
    row = only(*units(make_tick, 5))
    assert row.latency is not None
    assert row.latency.estimate == approx(1.4)
    assert (row.latency.lower, row.latency.upper, row.latency.samples) == (None, None, 5)


def test_nothing_decrypted_is_blind_and_unknown_is_not(make_tick: Any) -> None:
    def blind(work: Work) -> bool | None:
        return only(*units(make_tick, 1, work=work)).blind

    assert blind(Work(0.1, None, 0, 0, 0)) is True
    assert blind(Work(0.1, None, 0, 3, 0)) is False
    assert blind(Work(0.1, None, 0, 0, 2)) is False
    assert blind(Work(0.1, None, 0, 3, None)) is False
    assert blind(Work(0.1, None, 0, None, 0)) is None
    assert blind(Work()) is None
    row = only(make_tick([math.inf], [0.1], work=Work(0.1, None, 0, 0, 0)))
    assert (row.blind, row.decrypts_per_sample) == (None, None)


def test_failures_are_counted_and_never_leak_into_json(make_tick: Any) -> None:
    dead = [
        make_tick([math.inf, math.inf, 0.1], [0.1, math.inf, 0.1], first=(E, P)[place % 2], unit=place // 2)
        for place in range(16)
    ]
    row = only(*dead)
    assert (row.samples, row.failures) == (48, 48)
    assert row.encrypted_seconds is None
    assert row.plain_seconds == 0.1
    assert row.latency is not None
    assert (row.latency.estimate, row.latency.lower, row.latency.upper) == (None, None, None)
    # CPU is that of the successful samples and still known.
    assert row.cpu is not None
    assert row.cpu.estimate == approx(2.0)
    read = json.loads(json.dumps(row.to_dict(), allow_nan=False))
    assert read["encrypted_seconds"] is None
    assert read["latency"] == {"estimate": None, "lower": None, "upper": None, "samples": 8}
    assert read["operation"] == "point_select"
    empty = json.dumps(only(make_tick([1.0], [1.0], dropped="timeout")).to_dict(), allow_nan=False)
    assert json.loads(empty)["latency"] is None
