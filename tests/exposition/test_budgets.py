"""Budgets, tiers and the cost of a decrypt as they are exported."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from exporter.config.schema import Settings
from exporter.domain.model import Operation, Phase
from exporter.engines.sqlite.settings import Target
from exporter.exposition.noise import NoiseHour
from exporter.probing.messages import BUDGETS, BoostedNow, BudgetsUsed, PairChecked
from tests.exposition.stages import Stage, pair_facts


def test_every_budget_shows_its_share_in_use(stage: Stage) -> None:
    stage.begin()
    assert "tde_canary_budget_used_ratio" not in stage.samples()

    stage.budgets()

    shares = {
        dict(labels)["budget"]: value for labels, value in stage.samples()["tde_canary_budget_used_ratio"].items()
    }
    assert shares == {"time": 0.4, "bytes_read": 0.2, "bytes_written": 0.1, "sessions": 0.5, "boost_time": 0.3}
    assert set(shares) == set(BUDGETS)
    assert stage.value("tde_canary_load_ratio") == 0.004
    assert stage.value("tde_canary_load_limit_ratio") == 0.01 + 0.02


def test_bytes_add_up_and_what_was_never_known_does_not_exist(stage: Stage) -> None:
    stage.begin()
    stage.budgets(written=None)
    assert "tde_canary_bytes_written_total" not in stage.samples()

    stage.budgets()
    stage.budgets(read=None)

    assert stage.value("tde_canary_bytes_read_total") == 2 * 8192
    assert stage.value("tde_canary_bytes_written_total") == 2 * 4096


def test_shares_and_tiers_expire_and_sums_stay(stage: Stage) -> None:
    stage.begin()
    stage.budgets()
    stage.clock.advance(20.1)
    samples = stage.samples()

    assert "tde_canary_budget_used_ratio" not in samples
    assert "tde_canary_tier" not in samples
    assert stage.value("tde_canary_bytes_read_total") == 8192
    stage.budgets()
    stage.ledger.process_up(0, False)
    assert "tde_canary_tier" not in stage.samples()
    assert stage.value("tde_canary_bytes_read_total") == 16384


@pytest.mark.parametrize(("period", "bursts"), [(10.0, 1), (121.0, 2), (400.0, 3)])
def test_the_tier_follows_the_rate_that_the_budgets_allow(stage: Stage, period: float, bursts: int) -> None:
    stage.begin()
    stage.budgets(period)

    tiers = {dict(labels)["operation"]: value for labels, value in stage.samples()["tde_canary_tier"].items()}
    assert tiers == {"point_select": bursts, "full_scan": 3, "full_scan_cold": 3, "insert_batch": 3}
    point = stage.view.pairs[0].series[0]
    assert (point.operation, point.period, point.thinned) == (Operation.POINT_SELECT, period, period > 10.0)


def boosted(stage: Stage) -> dict[str, float]:
    found = stage.samples().get("tde_canary_boosted", {})
    return {dict(labels)["operation"]: value for labels, value in found.items()}


def test_boosted_is_what_the_probe_process_says_of_operations_with_several_samples(stage: Stage) -> None:
    stage.begin()
    assert boosted(stage) == {}
    stage.budgets()
    assert boosted(stage) == {"point_select": 0}

    point = ("phonebook", Operation.POINT_SELECT)
    stage.say(BoostedNow("embedded", frozenset({point, ("stranger", Operation.FULL_SCAN)})))
    assert boosted(stage) == {"point_select": 1}

    stage.clock.advance(20.1)
    assert boosted(stage) == {}


def test_what_was_boosted_is_unknown_while_the_process_is_down_and_until_its_successor_says(stage: Stage) -> None:
    stage.begin()
    stage.budgets()
    stage.say(BoostedNow("embedded", frozenset({("phonebook", Operation.POINT_SELECT)})))
    stage.ledger.process_up(0, False)
    assert boosted(stage) == {}

    stage.ledger.process_up(0, True)
    stage.say(BudgetsUsed("embedded", {}, 1, 1, {("phonebook", Operation.POINT_SELECT): 10.0}))
    assert boosted(stage) == {}
    stage.say(BoostedNow("embedded", frozenset()))
    assert boosted(stage) == {"point_select": 0}


def test_twins_that_are_both_plain_are_never_boosted(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage("one")
    stage.begin()
    stage.budgets()
    assert boosted(stage) == {"point_select": 0}
    plain = replace(pair_facts("scripted", encrypted=False), phase=Phase.AA)
    stage.say(PairChecked("one", plain))
    assert boosted(stage) == {}


def test_what_cannot_be_true_is_left_out_and_counted(stage: Stage) -> None:
    stage.begin()
    before = stage.known("tde_exporter_invalid_values_total")
    strange = {("phonebook", Operation.POINT_SELECT): math.nan, ("stranger", Operation.FULL_SCAN): 10.0}
    stage.say(BudgetsUsed("embedded", {"time": -1.0, "bytes_read": 0.5, "magic": 0.1}, -5, 3, strange))

    assert stage.value("tde_canary_budget_used_ratio", budget="bytes_read") == 0.5
    assert len(stage.samples()["tde_canary_budget_used_ratio"]) == 1
    assert "tde_canary_bytes_read_total" not in stage.samples()
    assert stage.value("tde_canary_bytes_written_total") == 3
    assert "tde_canary_tier" not in stage.samples()
    # A negative share, a budget that does not exist, negative bytes, a period that is no number.
    assert stage.known("tde_exporter_invalid_values_total") == before + 4


def test_a_target_has_the_interval_and_the_samples_of_its_own_configuration() -> None:
    settings = Settings(
        targets=(Target(name="embedded", intervals={"canary": 60.0}),), operations={"full_scan": {"samples": 7}}
    )
    stage = Stage(settings)
    stage.begin()
    stage.budgets(60.0)

    assert stage.value("tde_canary_tier", operation="full_scan") == 2
    assert not any(series.thinned for series in stage.view.pairs[0].series)


def test_the_cost_of_a_decrypt_comes_with_unit_and_interval(stage: Stage) -> None:
    stage.begin()
    assert "tde_decrypt_cost_seconds" not in stage.samples()
    stage.hours(1.0)

    cost = stage.known("tde_decrypt_cost_seconds", pair="phonebook", unit="block")
    assert stage.known("tde_decrypt_cost_seconds_lower") <= cost <= stage.known("tde_decrypt_cost_seconds_upper")
    stage.clock.advance(3600.0)
    assert "tde_decrypt_cost_seconds" not in stage.samples()


def test_ticks_are_counted_with_those_that_were_dropped(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage("one")
    stage.begin()
    stage.tick()
    stage.tick(dropped="contended")

    assert (stage.view.ticks, stage.view.contended) == (2, 1)


def test_the_noise_of_the_last_hour_is_known_to_a_percent_and_older_noise_forgotten() -> None:
    hour = NoiseHour()
    assert hour.view(0.0) is None
    hour.observe([1.0] * 100, 0.0)
    hour.observe([math.nan, None, -1.0, 0.0, "x"], 0.0)
    for second in range(4000, 7600):
        hour.observe([1e-6] * 97 + [5e-5] * 3, float(second))

    view = hour.view(7600.0)

    assert view is not None
    assert view.median == pytest.approx(1e-6, rel=0.012)
    assert view.p99 == pytest.approx(5e-5, rel=0.012)
    assert view.samples == 360_000
    assert hour.view(7600.0 + 2 * 3600.0) is None
