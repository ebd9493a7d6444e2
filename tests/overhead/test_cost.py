from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.domain.model import Operation, Snapshot, Tick, Variant, Work
from exporter.overhead.blocks import Block, BlockSide
from exporter.overhead.cost import TIME, CostPoint, DecryptCost, Interval, cores, of_blocks, of_points, point, tightest
from exporter.overhead.hodges_lehmann import location, slope
from exporter.overhead.sketch import LogSketch
from exporter.overhead.snapshot import summarise
from exporter.overhead.windows import SeriesWindow
from tests.exposition.stages import burst

COST, DECRYPTS = 2e-6, 1306


def works(base: float, cost: float = COST, decrypts: int = DECRYPTS, runs: int = 1) -> tuple[Work, Work]:
    """Sums over `runs` of both sides."""
    encrypted = Work(runs * (base + cost * decrypts), None, decrypts, runs * decrypts, 0)
    return encrypted, Work(runs * base, None, decrypts, 0, 0)


def block(number: int, encrypted: Work, plain: Work, runs: int, failures: int = 0) -> Block:
    def side(work: Work, failed: int) -> BlockSide:
        return BlockSide(
            samples=runs + failed,
            failures=failed,
            cpu_seconds=work.cpu_seconds,
            decrypts=work.decrypts,
            encrypts=work.encrypts,
            blocks_read=work.blocks_read,
        )

    return Block(300.0 * number, "one", side(encrypted, failures), side(plain, 0))


def test_blocks_give_the_cost_of_a_decrypt_with_its_interval() -> None:
    rng = random.Random(1)
    blocks = [block(number, *works(0.009 * rng.gauss(1, 0.01), runs=30), 30) for number in range(12)]

    found = of_blocks(blocks)

    assert found is not None
    assert found.units == 12
    assert found.seconds == pytest.approx(COST, rel=1e-6)
    # Whatever the window knows, starts differ by 3 % of what the encrypted side takes.
    assert found.upper - found.seconds == pytest.approx(1.96 * 0.03 * (0.009 / DECRYPTS + COST), rel=0.05)
    assert found.seconds - found.lower == pytest.approx(found.upper - found.seconds, rel=0.05)


def test_noise_of_one_side_widens_the_interval_and_does_not_move_the_estimate_much() -> None:
    rng = random.Random(2)
    points = []
    for _ in range(40):
        encrypted, plain = works(0.009)
        points.append(
            point(replace(encrypted, cpu_seconds=(encrypted.cpu_seconds or 0) * rng.gauss(1, 0.1)), 1, plain, 1)
        )

    found = of_points(points)

    assert found is not None
    assert found.seconds == pytest.approx(COST, rel=0.25)
    assert found.lower < COST < found.upper
    assert found.upper - found.lower > 2 * 1.96 * 0.1 * (0.009 / DECRYPTS + COST) / math.sqrt(40)


@pytest.mark.parametrize(
    ("encrypted", "plain"),
    [
        (Work(0.01, None, 0, 0, 0), Work(0.01, None, 0, 0, 0)),
        (Work(0.01, None, 9, 9, 1), Work(0.01, None, 9, 0, 0)),
        (Work(0.01, None, 9, None, 0), Work(0.01, None, 9, 0, 0)),
        (Work(None, None, 9, 9, 0), Work(0.01, None, 9, 0, 0)),
        (Work(0.01, None, 9, 9, 0), Work(None, None, 9, 0, 0)),
    ],
)
def test_what_decrypts_nothing_or_encrypts_or_has_no_cpu_time_says_nothing(encrypted: Work, plain: Work) -> None:
    assert point(encrypted, 1, plain, 1) is None


def test_failed_runs_are_no_runs() -> None:
    encrypted, plain = works(0.009, runs=10)

    assert point(encrypted, 0, plain, 10) is None
    blocks = [block(number, *works(0.009, runs=10), 10, failures=number) for number in range(6)]
    assert of_blocks(blocks) == of_blocks([block(number, encrypted, plain, 10) for number in range(6)])


def test_engines_that_count_no_encrypts_have_a_cost_all_the_same() -> None:
    encrypted, plain = works(0.009)

    assert point(replace(encrypted, encrypts=None), 1, plain, 1) is not None


def test_five_units_give_no_cost() -> None:
    assert of_points([CostPoint(1.0, 1e-6, 3e-6)] * 5 + [None] * 5) is None
    assert of_points([CostPoint(1.0, 1e-6, 3e-6)] * 6) is not None


def test_the_operation_that_knows_best_is_chosen() -> None:
    vague, sharp = DecryptCost(2e-6, 0.0, 4e-6, 12), DecryptCost(2.1e-6, 1.9e-6, 2.3e-6, 6)

    assert tightest([None, vague, sharp]) is sharp
    assert tightest([None]) is None
    assert tightest([]) is None


@given(st.lists(st.floats(-1e3, 1e3), min_size=6, max_size=40), st.floats(-1e3, 1e3))
def test_a_location_moves_with_its_values_and_lies_between_its_bounds(values: list[float], shift: float) -> None:
    found, moved = location(values), location([value + shift for value in values])

    assert found is not None
    assert moved is not None
    estimate, lower, upper = found
    assert min(values) <= lower <= estimate <= upper <= max(values)
    assert moved == pytest.approx([bound + shift for bound in found], abs=1e-9, rel=1e-9)


def test_six_units_reach_from_the_smallest_to_the_largest() -> None:
    assert location([3.0, 1.0, 2.0, 6.0, 5.0, 4.0]) == (3.5, 1.0, 6.0)
    assert location([1.0] * 5) is None
    assert location([]) is None
    with pytest.raises(ValueError, match="finite"):
        location([1.0, math.inf, *[1.0] * 8])


@given(st.lists(st.tuples(st.floats(1, 1e3), st.floats(-1, 1)), min_size=6, max_size=30), st.floats(-1e3, 1e3))
def test_a_slope_follows_what_every_unit_adds_for_each_of_its_own(
    units: list[tuple[float, float]], more: float
) -> None:
    per, values = [one[0] for one in units], [one[1] for one in units]
    found = slope(values, per)
    grown = slope([value + more * size for value, size in zip(values, per, strict=True)], per)

    assert found is not None
    assert grown is not None
    assert grown == pytest.approx([bound + more for bound in found], abs=1e-6)
    assert found[1] <= found[0] <= found[2]


def test_a_slope_needs_something_to_grow_with() -> None:
    assert slope([1.0] * 5, [1.0] * 5) is None
    with pytest.raises(ValueError, match="finite"):
        slope([1.0] * 6, [1.0] * 5 + [0.0])


def test_units_with_few_decrypts_do_not_spoil_those_with_many() -> None:
    rng, together, apart, covered = random.Random(5), [], [], 0
    for _ in range(200):
        points = []
        for _ in range(12):
            decrypts = 1306 * min(3.0, max(0.01, math.exp(rng.gauss(0, 1))))
            noise = 0.009 * (rng.gauss(0, 0.02) - rng.gauss(0, 0.02))
            points.append(CostPoint(decrypts, COST * decrypts + noise, 0.0))
        found = of_points(points, tau=0.0)
        assert found is not None
        covered += found.lower <= COST <= found.upper
        together.append((found.seconds - COST) ** 2)
        quotients = location([one.difference / one.decrypts for one in points])
        assert quotients is not None
        apart.append((quotients[0] - COST) ** 2)
    assert sum(together) < 0.7 * sum(apart)
    assert 0.92 <= covered / 200 <= 1.0


def test_where_cpu_is_not_known_time_is_the_cost() -> None:
    rng = random.Random(6)
    blocks, unknown = [], Work(None, None, DECRYPTS, 30 * DECRYPTS, 0)
    for number in range(12):
        sketches = []
        for more in (COST * DECRYPTS, 0.0):
            sketch = LogSketch()
            sketch.add(np.array([0.009 * rng.gauss(1, 0.02) + more for _ in range(30)]))
            sketches.append(sketch)
        made = block(number, unknown, unknown, 30)
        blocks.append(
            replace(
                made,
                encrypted=replace(made.encrypted, sketch=sketches[0]),
                plain=replace(made.plain, sketch=sketches[1], decrypts=0),
            )
        )
    found = of_blocks(blocks)

    assert found is not None
    assert found.source == TIME
    assert found.seconds == pytest.approx(COST, rel=0.05)
    assert "of time" in found.words("block", None)
    # Runs that failed would have been the longest.
    failing = [replace(one, plain=replace(one.plain, samples=31, failures=1)) for one in blocks]
    assert of_blocks(failing) is None
    assert of_blocks(failing[:6] + blocks[6:]) is not None


def test_cpu_is_preferred_to_time() -> None:
    by_cpu, by_time = [CostPoint(1.0, 1e-6, 3e-6)] * 6, [CostPoint(1.0, 9e-6, 3e-6, TIME)] * 60
    found = of_points(by_time + by_cpu)
    assert found is not None
    assert (found.units, found.source) == (6, "cpu")
    found = of_points(by_time + by_cpu[1:])
    assert found is not None
    assert (found.units, found.source) == (60, TIME)
    vague, sharp = DecryptCost(2e-6, 0.0, 4e-6, 12), DecryptCost(2.1e-6, 1.9e-6, 2.3e-6, 6, TIME)
    assert tightest([sharp, vague]) is vague


def test_a_snapshot_without_cpu_takes_its_times() -> None:
    def tick(number: int, first: Variant, seconds: float) -> Tick:
        encrypted, plain = (replace(work, cpu_seconds=None) for work in works(0.009))
        sides = burst(0.009 + COST * DECRYPTS, 1, encrypted), burst(seconds, 1, plain)
        return Tick("t", "p", Operation.FULL_SCAN_COLD, "one", 0.0, first, *sides, unit=number)

    ticks = [tick(unit, first, 0.009) for unit in range(8) for first in Variant]
    (row,) = summarise(Snapshot("t", 0.0, 1.0, tuple(ticks)))
    assert row.decrypt_cost is not None
    assert row.decrypt_cost.seconds == pytest.approx(COST)
    assert row.decrypt_cost.source == TIME
    ticks = [tick(unit, first, math.inf if unit < 3 else 0.009) for unit in range(8) for first in Variant]
    (row,) = summarise(Snapshot("t", 0.0, 1.0, tuple(ticks)))
    assert row.decrypt_cost is None


def test_cores_are_rates_times_cost() -> None:
    cost = DecryptCost(2e-6, 1e-6, 3e-6, 12)
    assert cores(400_000.0, 100_000.0, cost) == pytest.approx((1.0, 0.5, 1.5))
    assert cores(0.0, 0.0, cost) == (0.0, 0.0, 0.0)
    # What is not counted may be anything: the rest is a lower bound.
    assert cores(500_000.0, None, cost) == Interval(1.0, 0.5, None)
    assert cores(None, 100.0, cost) is None
    assert cores(100.0, 100.0, None) is None
    assert cores(100.0, 100.0, replace(cost, source=TIME)) is None
    nothing_shown = cores(1e6, 0.0, DecryptCost(-1e-7, -2e-6, 2e-6, 12))
    assert nothing_shown == pytest.approx((0.0, 0.0, 2.0))


def made(number: int, first: Variant, operation: Operation = Operation.FULL_SCAN_COLD) -> Tick:
    encrypted, plain = works(0.009)
    return Tick("t", "p", operation, "one", 0.0, first, burst(0.012, 1, encrypted), burst(0.009, 1, plain), unit=number)


def test_a_snapshot_tells_the_cost_by_its_complete_units() -> None:
    ticks = [made(unit, first) for unit in range(8) for first in Variant][:-1]

    (row,) = summarise(Snapshot("t", 0.0, 1.0, tuple(ticks)))

    assert row.decrypt_cost is not None
    assert row.decrypt_cost.units == 7
    assert row.decrypt_cost.seconds == pytest.approx(COST)
    assert row.to_dict()["decrypt_cost"]["seconds"] == pytest.approx(COST)
    (row,) = summarise(Snapshot("t", 0.0, 1.0, tuple(ticks)), ["p"])
    assert row.decrypt_cost is None
    assert row.to_dict()["decrypt_cost"] is None


def test_a_window_tells_the_cost_after_six_blocks_and_none_under_certification() -> None:
    window = SeriesWindow()
    for number in range(12):
        assert (window.summary(150.0 * number).decrypt_cost is None) == (number <= 10)
        window.add(made(number, list(Variant)[number % 2]), 150.0 * number)

    found = window.summary(1800.0).decrypt_cost
    assert found is not None
    assert found.seconds == pytest.approx(COST)
    assert window.summary(1800.0, certifying=True).decrypt_cost is None


@pytest.mark.parametrize(
    ("unit", "size", "words"),
    [
        ("block", 8192, "a page decrypted costs 1.91 µs (1.82 … 2.01) of CPU, 239 ns per KiB"),
        ("block", None, "a page decrypted costs 1.91 µs (1.82 … 2.01) of CPU"),
        ("value", 8192, "a value decrypted costs 1.91 µs (1.82 … 2.01) of CPU"),
    ],
)
def test_the_cost_in_words(unit: str, size: int | None, words: str) -> None:
    found = DecryptCost(1.91e-6, 1.82e-6, 2.01e-6, 12).words(unit, size)

    assert found.replace("\u00a0", " ") == words


def test_a_cost_that_is_not_shown_has_a_negative_bound() -> None:
    found = DecryptCost(1.2e-7, -3.4e-7, 5.8e-7, 12).words("block", None)

    assert found.replace("\u00a0", " ") == "a page decrypted costs 120 ns (−340 … 580) of CPU"
