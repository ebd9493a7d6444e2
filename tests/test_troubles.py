"""Troubles in the log: said when they begin and when they are over, and never one line per second."""

import logging

import pytest

from exporter.domain.clock import FakeClock
from exporter.troubles import AT_MOST_EVERY, Troubles


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def troubles(clock, caplog):
    caplog.set_level(logging.WARNING)
    return Troubles(logging.getLogger("exporter.troubles.test"), clock)


def lines(caplog):
    return [(record.about, getattr(record, "problem", "over")) for record in caplog.records]


def test_a_lasting_trouble_is_one_line_and_its_end_another(troubles, clock, caplog):
    for _ in range(1000):
        troubles.hear("cannot connect", "orders", "canary")
        clock.advance(1.0)
    for _ in range(1000):
        troubles.hear("", "orders", "canary")
        clock.advance(1.0)

    assert lines(caplog) == [("orders/canary", "cannot connect"), ("orders/canary", "over")]


def test_health_is_no_news(troubles, clock, caplog):
    for _ in range(10):
        troubles.hear("", "orders", "canary")
        clock.advance(AT_MOST_EVERY)

    assert lines(caplog) == []


def test_what_comes_and_goes_is_said_once_a_minute_and_ends_with_the_truth(troubles, clock, caplog):
    for second in range(600):
        troubles.hear("flapping" if second % 2 else "", "orders", "canary")
        clock.advance(1.0)
    assert 2 <= len(lines(caplog)) <= 600 / AT_MOST_EVERY + 1
    for _ in range(120):
        troubles.hear("down for good", "orders", "canary")
        clock.advance(1.0)

    assert lines(caplog)[-1] == ("orders/canary", "down for good")


def test_each_thing_has_its_own_turn(troubles, caplog):
    troubles.hear("cannot connect", "orders", "canary")
    troubles.hear("cannot connect", "billing", "canary")
    troubles.hear("the disk is full", "history")

    assert [about for about, _ in lines(caplog)] == ["orders/canary", "billing/canary", "history"]
