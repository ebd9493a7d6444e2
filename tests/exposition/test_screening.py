from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.domain.errors import Reason
from exporter.domain.model import Burst, Snapshot
from exporter.exposition.screening import count, label, number, screened, screened_snapshot
from tests.exposition.stages import Stage, burst


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0.0),
        (1.5, 1.5),
        (Decimal("0.25"), 0.25),
        (Fraction(1, 2), 0.5),
        (True, None),
        (-0.1, None),
        (math.nan, None),
        (Decimal("NaN"), None),
        (Decimal("sNaN"), None),
        (math.inf, None),
        (10**400, None),
        (1e19, None),
        ("1", None),
        (b"1", None),
        (None, None),
        (1j, None),
    ],
    ids=repr,
)
def test_a_number_is_finite_and_not_negative(value: object, expected: float | None) -> None:
    assert number(value) == expected


@pytest.mark.parametrize(("value", "expected"), [(3, 3), (3.0, 3), (Decimal(3), 3), (3.5, None), (-1, None)], ids=repr)
def test_a_count_is_whole(value: object, expected: int | None) -> None:
    assert count(value) == expected


@given(st.text(alphabet=st.characters(exclude_categories=()), max_size=300))
def test_a_label_is_one_printable_line_of_valid_text(text: str) -> None:
    safe = label(text)

    assert safe.isprintable()
    assert len(safe) <= 128
    assert safe.encode("utf-8").decode("utf-8") == safe


def test_a_good_tick_is_left_as_it_is(stage: Stage) -> None:
    tick = stage.made()

    result = screened(tick)

    assert (result.tick, result.usable, result.invalid) == (tick, True, 0)


def test_whatever_time_a_failure_claims_it_counts_as_infinite(stage: Stage) -> None:
    failed = replace(burst(0.001, failure=Reason.TIMEOUT).samples[0], duration=math.nan)

    result = screened(stage.made(encrypted=Burst((failed,)), plain=burst(0.001, 1)))

    assert result.tick.encrypted.durations == (math.inf,)
    assert (result.usable, result.invalid) == (True, 0)


@pytest.mark.parametrize(
    "changes",
    [
        {"encrypted": burst(0.001, 19)},
        {"encrypted": Burst(()), "plain": Burst(())},
        {"started": math.nan},
        {"dropped": "contended"},
    ],
    ids=["uneven", "empty", "timeless", "dropped"],
)
def test_what_biases_a_comparison_is_not_usable(stage: Stage, changes: dict[str, Any]) -> None:
    assert not screened(stage.made(**changes)).usable


def test_a_snapshot_loses_only_the_ticks_that_lost_something(stage: Stage) -> None:
    bad = Burst((replace(burst(0.001, 1).samples[0], duration=-1.0), *burst(0.001, 19).samples))
    snapshot = Snapshot("embedded", 0.0, 1.0, (stage.made(unit=1), stage.made(unit=2, plain=bad)))

    believed, invalid = screened_snapshot(snapshot)

    assert ([tick.unit for tick in believed.ticks], invalid) == ([1], 1)
