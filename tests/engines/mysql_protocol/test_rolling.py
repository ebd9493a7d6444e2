import math
import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.engines._mysql_protocol.rolling import (
    GOLDEN,
    REMEMBERED_KEYS,
    Rolling,
    RollingRows,
    RollingSlices,
    coprime_step,
)

seeds = st.integers(0, 2**32)


def positions(rolling, keys):
    return [rolling.at(key)[0] for key in keys]


@given(st.integers(1, 5000), seeds)
def test_every_position_has_its_turn_before_any_comes_again(count, seed):
    rolling = Rolling(count, random.Random(seed))
    first, second = positions(rolling, range(count)), positions(rolling, range(count, 2 * count))

    assert sorted(first) == list(range(count))
    assert first == second


@given(st.integers(1, 5000), seeds, st.lists(st.integers(0, 2**31 - 1), unique=True, max_size=100))
def test_the_same_key_gets_the_same_position_again(count, seed, keys):
    rolling = Rolling(count, random.Random(seed))

    assert [rolling.at(key) for key in keys] == [rolling.at(key) for key in keys]


def test_repeated_keys_use_up_no_turns():
    often, once = Rolling(1000, random.Random(1)), Rolling(1000, random.Random(1))
    for key in range(50):
        assert {often.at(key) for _ in range(7)} == {once.at(key)}


def test_old_keys_are_forgotten_so_that_memory_does_not_grow():
    rolling = Rolling(10**6, random.Random(2))
    before = rolling.at(0)
    positions(rolling, range(1, 1 + REMEMBERED_KEYS))

    assert rolling.at(0) != before


@given(st.integers(1, 10**9))
def test_the_step_reaches_everything_and_is_near_the_golden_ratio(count):
    step = coprime_step(count)

    assert math.gcd(step, count) == 1
    assert abs(step - max(1, round(count * GOLDEN))) <= 64


@pytest.mark.parametrize("count", [1000, 2299, 16384, 100_003])
def test_turns_that_follow_each_other_lie_far_apart(count):
    """Nothing that a server could read ahead of: among 30 turns no two positions are in one extent of 64 pages."""
    found = positions(Rolling(count, random.Random(3)), range(30))
    apart = [abs(a - b) for place, a in enumerate(found) for b in found[:place]]

    assert min(apart) >= count / 100
    assert min(abs(a - b) for a, b in pairwise(found)) > count / 3


def test_sessions_start_anywhere():
    starts = {Rolling(1000, random.Random(seed)).at(5)[0] for seed in range(40)}

    assert len(starts) > 30


@given(st.integers(1, 3000), st.floats(0.5, 200.0), seeds)
def test_rows_are_within_the_table_and_all_different_until_all_were_read_once(rows, per_page, seed):
    """A whole table: each cycle takes another row of every page."""
    rolling = RollingRows(rows, per_page, random.Random(seed))
    stride = max(1, min(rows, int(per_page)))
    pages = -(-rows // stride)
    first = [rolling.id(key) for key in range(pages)]

    assert all(1 <= row <= rows for row in first)
    assert len({(row - 1) // stride for row in first}) == pages
    if rows % stride == 0:
        everything = first + [rolling.id(key) for key in range(pages, rows)]
        assert sorted(everything) == list(range(1, rows + 1))


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(-(10**9), 10**9), seeds)
def test_slices_are_of_one_width_and_inside(count, width, first, seed):
    rolling = RollingSlices(first, count, width, random.Random(seed))
    for key in range(20):
        low, high = rolling.bounds(key)
        assert first <= low <= high <= first + count - 1
        assert high - low + 1 == min(count, width)


@given(st.integers(1, 2000), st.integers(1, 300), seeds)
def test_the_slices_of_a_cycle_cover_everything(count, width, seed):
    rolling = RollingSlices(1, count, width, random.Random(seed))
    covered: set[int] = set()
    for key in range(-(-count // width)):
        low, high = rolling.bounds(key)
        covered.update(range(low, high + 1))

    assert covered == set(range(1, count + 1))
