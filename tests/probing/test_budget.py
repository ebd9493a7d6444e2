import sys
import threading

import pytest

from exporter.probing.budget import TimeBudget


def test_a_full_bucket_allows_and_an_empty_one_waits_until_it_is_repaid():
    budget = TimeBudget(ratio=0.01, now=0.0, reserve=600.0)
    assert budget.allows(0.0)

    budget.spend(7.0, now=7.0)  # the bucket held 6 seconds

    assert not budget.allows(8.0)
    assert not budget.allows(100.0)
    assert budget.allows(7.0 + 101.0)


def test_over_a_day_the_share_stays_below_the_limit_however_slow_the_queries_are():
    budget = TimeBudget(ratio=0.01, now=0.0)
    now, spent = 0.0, 0.0
    while now < 86_400.0:
        if budget.allows(now):
            budget.spend(4.0, now + 4.0)
            spent += 4.0
        now += 10.0

    assert spent / now <= 0.01 * 1.01
    assert budget.load_ratio(now) <= 0.0125


def test_the_load_ratio_forgets_what_is_older_than_an_hour():
    budget = TimeBudget(ratio=0.5, now=0.0)
    budget.spend(36.0, now=10.0)

    assert budget.load_ratio(3600.0) == 0.01
    assert budget.load_ratio(3700.0) == 0.0


def test_the_share_can_be_asked_for_while_another_thread_spends():
    budget = TimeBudget(ratio=0.5, now=0.0)
    spending = threading.Event()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def spend():
        for minute in range(20_000):
            budget.spend(0.001, now=61.0 * minute)
        spending.set()

    spender = threading.Thread(target=spend)
    spender.start()
    try:
        while not spending.is_set():
            budget.load_ratio(0.0)
            budget.load_ratio(61.0 * 20_000)
    finally:
        sys.setswitchinterval(before)
        spender.join()
    assert budget.load_ratio(61.0 * 20_000) == pytest.approx(59 * 0.001 / 3600.0, rel=0.05)
