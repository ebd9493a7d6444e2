"""What the instance says of itself: its sums as they are, its gauges while they are true, and nothing invented."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import Any

import pytest

from exporter.domain.errors import Reason
from exporter.domain.states import Activity
from exporter.exposition.activity import screened_activity
from exporter.landing import landing
from exporter.probing.messages import ActivityRead, CollectorDone
from exporter.web.pages.landing import KeystoreRow
from tests.exposition.stages import ACTIVITY, NO_ACTIVITY, Stage

CIPHER = {"unit": "block", "source": "counter"}
NAMES = {
    "decrypts": "tde_instance_decrypts_total",
    "encrypts": "tde_instance_encrypts_total",
    "cpu_seconds": "tde_instance_cpu_seconds_total",
    "reads": "tde_instance_reads_total",
    "read_seconds": "tde_instance_read_seconds_total",
    "buffer_hit_ratio": "tde_instance_buffer_hit_ratio",
    "host_cpu_ratio": "tde_host_cpu_utilization_ratio",
    "host_cpus": "tde_host_cpus",
    "host_aes": "tde_host_aes_acceleration",
}
SUMS = ("decrypts", "encrypts", "cpu_seconds", "reads", "read_seconds")
GAUGES = tuple(name for name in NAMES if name not in SUMS)


def shown(stage: Stage) -> dict[str, float | None]:
    return {field: stage.value(name) for field, name in NAMES.items()}


def test_every_value_has_a_metric() -> None:
    # Of the size of the cache, changes are shown as events.
    without = {"decrypt_unit", "decrypt_source", "buffer_bytes", "problems"}
    assert {field.name for field in fields(Activity)} - without == set(NAMES)


def test_the_instance_is_shown_as_it_tells(server: Stage) -> None:
    server.begin()
    assert set(shown(server).values()) == {None}
    server.read_activity()

    assert shown(server) == {field: float(getattr(ACTIVITY, field)) for field in NAMES}
    assert server.value("tde_instance_decrypts_total", **CIPHER) == 100_000
    assert server.value("tde_instance_encrypts_total", **CIPHER) == 20_000
    assert server.value("tde_exporter_collector_success", collector="activity") == 1


def test_of_an_engine_without_an_instance_there_is_no_series(stage: Stage) -> None:
    stage.begin()
    stage.read_activity(NO_ACTIVITY)

    assert set(shown(stage).values()) == {None}
    assert stage.value("tde_exporter_invalid_values_total") == 0


@pytest.mark.parametrize("field", NAMES)
def test_what_is_unknown_has_no_series_and_hides_nothing_else(server: Stage, field: str) -> None:
    server.begin()
    unknown: dict[str, Any] = {field: None}
    server.read_activity(replace(ACTIVITY, **unknown))

    assert {name for name, value in shown(server).items() if value is None} == {field}
    assert server.value("tde_exporter_invalid_values_total") == 0


def test_decrypts_from_nowhere_are_not_shown(server: Stage) -> None:
    server.begin()
    server.read_activity(replace(ACTIVITY, decrypt_source=None))

    assert {name for name, value in shown(server).items() if value is None} == {"decrypts", "encrypts"}


def test_when_the_source_changes_the_old_series_is_gone(server: Stage) -> None:
    server.begin()
    server.read_activity()
    server.read_activity(replace(ACTIVITY, decrypts=7, decrypt_source="proxy"))

    assert server.value("tde_instance_decrypts_total") == 7
    assert server.value("tde_instance_decrypts_total", source="proxy") == 7


def test_a_restart_of_the_server_is_a_reset_of_its_counters(server: Stage) -> None:
    server.begin()
    server.read_activity()
    server.clock.advance(15.0)
    server.read_activity(replace(ACTIVITY, decrypts=3, cpu_seconds=0.5))

    assert server.value("tde_instance_decrypts_total") == 3
    assert server.value("tde_instance_cpu_seconds_total") == 0.5
    activity = server.view.activity
    assert activity is not None
    assert (activity.decrypts_per_second, activity.cpus_used) == (None, None)
    assert activity.reads_per_second == 0


def test_gauges_expire_after_two_intervals_and_sums_stay(server: Stage) -> None:
    server.begin()
    server.read_activity()
    server.clock.advance(30.0)
    assert server.value("tde_host_cpu_utilization_ratio") == 0.375

    server.clock.advance(0.1)
    assert {name for name, value in shown(server).items() if value is None} == set(GAUGES)
    assert server.value("tde_instance_reads_total") == 90_000
    assert server.value("tde_exporter_collector_success", collector="activity") == 0


def test_while_the_probe_process_is_down_only_sums_are_shown(server: Stage) -> None:
    server.begin()
    server.read_activity()
    server.ledger.process_up(0, False)

    assert {name for name, value in shown(server).items() if value is None} == set(GAUGES)


GARBAGE = [math.nan, math.inf, -math.inf, -1.0, 1e300, "0.5", b"1"]


@pytest.mark.parametrize("value", GARBAGE, ids=repr)
@pytest.mark.parametrize("field", NAMES)
def test_what_cannot_be_true_is_unknown_and_counted(server: Stage, field: str, value: Any) -> None:
    server.begin()
    server.read_activity(replace(ACTIVITY, **{field: value}))

    assert {name for name, found in shown(server).items() if found is None} == {field}
    assert server.value("tde_exporter_invalid_values_total") == 1


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("host_cpu_ratio", 1.0 + 1e-9, 1.0),
        ("host_cpu_ratio", 1.1, None),
        ("buffer_hit_ratio", 1.0, 1.0),
        ("buffer_hit_ratio", 99.5, None),
        ("buffer_hit_ratio", 0.0, 0.0),
        ("host_cpus", 0, None),
        ("host_cpus", True, None),
        ("host_aes", False, 0.0),
        ("host_aes", 1, None),
        ("reads", 0.5, None),
        ("decrypt_source", "guess", None),
    ],
)
def test_the_bounds_of_what_can_be_true(server: Stage, field: str, value: Any, expected: float | None) -> None:
    server.begin()
    server.read_activity(replace(ACTIVITY, **{field: value}))

    assert server.value(NAMES.get(field, NAMES["decrypts"])) == expected
    assert server.value("tde_exporter_invalid_values_total") == (expected is None)


def test_the_size_of_a_cache_that_cannot_be_true_is_unknown() -> None:
    for value, expected in ((2**24, 2**24), (0, None), (-1, None), ("16M", None), (None, None)):
        found, invalid = screened_activity(replace(ACTIVITY, buffer_bytes=value))  # type: ignore[arg-type]
        assert (found.buffer_bytes, invalid) == (expected, int(value is not None and expected is None))


def test_rates_are_those_between_the_last_two_readings(server: Stage) -> None:
    server.begin()
    server.read_activity()
    first = server.view.activity
    assert first is not None
    assert first.decrypts_per_second is None

    server.clock.advance(10.0)
    grown: dict[str, Any] = {
        "decrypts": 100_500,
        "encrypts": 20_010,
        "cpu_seconds": 520.0,
        "reads": 90_100,
        "read_seconds": 45.02,
    }
    server.read_activity(replace(ACTIVITY, **grown))
    activity = server.view.activity

    assert activity is not None
    assert (activity.decrypts_per_second, activity.encrypts_per_second) == (50.0, 1.0)
    assert (activity.cpus_used, activity.reads_per_second) == (2.0, 10.0)
    assert activity.seconds_per_read == pytest.approx(0.0002)
    server.clock.advance(30.1)
    server.read_activity(ACTIVITY)
    after_a_gap = server.view.activity
    assert after_a_gap is not None
    assert after_a_gap.reads_per_second is None


def test_readings_at_the_same_moment_tell_no_rate(server: Stage) -> None:
    server.begin()
    for _ in range(2):
        server.say(ActivityRead("orders", ACTIVITY))

    activity = server.view.activity
    assert activity is not None
    assert activity.decrypts_per_second is None


# -- the landing page ------------------------------------------------------------------------------------------


def test_the_landing_page_has_a_row_where_anything_is_known(server: Stage) -> None:
    server.begin()
    assert landing(server.ledger.view(), 0.0, 0.0).instances == ()
    server.read_activity(NO_ACTIVITY)
    assert landing(server.ledger.view(), 0.0, 0.0).instances == ()

    server.read_activity()
    server.clock.advance(10.0)
    server.read_activity(replace(ACTIVITY, decrypts=100_050, decrypt_source="counter"))
    (row,) = landing(server.ledger.view(), 0.0, 0.0).instances
    assert (row.target, row.unit, row.derived) == ("orders", "block", False)
    assert (row.decrypts, row.encrypts, row.host_cpus, row.hits) == (5.0, 0.0, 8, 0.995)
    server.clock.advance(60.0)
    assert landing(server.ledger.view(), 0.0, 0.0).instances == ()


def test_a_collector_that_could_not_read_everything_succeeds_and_says_so(server: Stage) -> None:
    words = "reads are unknown: GRANT SELECT ON performance_schema.file_summary_by_event_name; " * 8
    server.begin()
    server.say(CollectorDone("orders", "activity", 0.1, server.clock.wall(), None, words))

    assert server.value("tde_exporter_collector_success", collector="activity") == 1
    assert server.value("tde_target_up") == 1
    assert server.view.problem == ""
    (row,) = landing(server.ledger.view(), 0.0, 0.0).targets
    assert row.words == "mysql 9.4.0 primary"
    assert row.notes == (("activity", words),)

    server.collected("activity")
    assert landing(server.ledger.view(), 0.0, 0.0).targets[0].notes == ()


def test_what_failed_or_is_too_long_ago_is_no_note(server: Stage) -> None:
    server.begin()
    server.say(CollectorDone("orders", "activity", 0.1, server.clock.wall(), None, "narrowed"))
    server.clock.advance(30.1)
    assert landing(server.ledger.view(), 0.0, 0.0).targets[0].notes == ()

    server.say(CollectorDone("orders", "activity", 0.1, server.clock.wall(), Reason.QUERY, "refused"))
    server.say(CollectorDone("orders", "canary", 0.1, server.clock.wall(), None, "point_select on main: refused"))
    assert landing(server.ledger.view(), 0.0, 0.0).targets[0].notes == ()
    assert server.view.problem in ("refused", "point_select on main: refused")


def test_the_keystores_of_the_landing_page_are_those_of_the_state(server: Stage) -> None:
    server.begin()

    (row,) = landing(server.ledger.view(), 0.0, 0.0).targets
    assert row.keystores == (KeystoreRow("component_keyring_file", "open", 3, 0),)
