"""Lag is known and true, or it is not there; unknown is never zero, and nothing negative is ever shown."""

from __future__ import annotations

import math
import random
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics

from exporter.config.schema import Settings
from exporter.domain.clock import FakeClock
from exporter.domain.errors import Reason
from exporter.domain.states import LagKind
from exporter.engines.fake.settings import Standby
from exporter.engines.fake.settings import Target as FakeTarget
from exporter.landing import landing
from exporter.probing.messages import CollectorDone, StandbysRead, ToParent
from exporter.probing.rounds import Rounds
from exporter.probing.turnstile import Turnstile
from tests.exposition.stages import Stage, standby_state

KINDS = [kind.value for kind in LagKind]
HEARTBEAT = {"kind": "heartbeat"}
GARBAGE = [math.nan, math.inf, -math.inf, -1.0, 1e300, "0.5", b"1", True]


def scripted(folder: Path, standby: Standby) -> Stage:
    """A scripted standby, read through rounds, ledger and page as a daemon does it."""
    target = FakeTarget(name="orders", real_time=False, standbys=(standby,))
    stage = Stage(Settings(state_directory=folder, targets=(target,)))
    stage.begin()

    def say(message: ToParent) -> None:
        stage.say(message)

    rounds = Rounds(stage.settings, target, Turnstile(), say, FakeClock(), random.Random(1))
    rounds.standby()
    rounds.heartbeat()
    return stage


# What a standby says in `heartbeat_lag` and beside it, and what must be on the page: lag, known, running.
TABLE = [
    ({"heartbeat_lag": 12.0}, 12.0, 1, 1),
    ({"heartbeat_lag": 0.0}, 0.0, 1, 1),
    ({"heartbeat_lag": 93_784.0}, 93_784.0, 1, 1),
    ({"heartbeat_lag": None}, None, 0, 1),
    ({"heartbeat_lag": -1.0}, None, 0, 1),
    ({"heartbeat_lag": -0.4}, None, 0, 1),
    ({"heartbeat_lag": -0.4, "clock_skew": 0.5}, 0.0, 1, 1),
    ({"heartbeat_lag": -0.4, "clock_skew": -0.5}, 0.0, 1, 1),
    ({"heartbeat_lag": -744.0, "clock_skew": 0.5}, None, 0, 1),
    ({"heartbeat_lag": -math.inf, "clock_skew": 0.5}, None, 0, 1),
    ({"heartbeat_lag": None, "apply_running": False}, None, 0, 0),
    ({"heartbeat_lag": 5.0, "apply_running": False}, 5.0, 1, 0),
    ({"heartbeat_lag": None, "apply_running": None}, None, 0, None),
]


@pytest.mark.parametrize(("says", "lag", "known", "running"), TABLE, ids=lambda value: str(value))
def test_what_a_standby_says_and_what_is_shown(
    tmp_path: Path, says: dict[str, Any], lag: float | None, known: int, running: int | None
) -> None:
    stage = scripted(tmp_path, Standby(name="dr", **says))

    assert stage.value("tde_standby_lag_seconds", **HEARTBEAT) == lag
    assert stage.value("tde_standby_lag_known", **HEARTBEAT) == known
    assert stage.value("tde_standby_apply_running") == running
    assert stage.value("tde_standby_lag_seconds", kind="transport") == 0
    assert stage.value("tde_standby_configured") == 1
    assert stage.value("tde_exporter_collector_success", collector="standby") == 1
    assert stage.value("tde_exporter_collector_success", collector="heartbeat") == 1


def test_all_that_is_known_of_a_standby_is_shown(tmp_path: Path) -> None:
    says = {"received_sequence": 12, "applied_sequence": 9, "configured_delay": 1800.0, "clock_skew": -0.25}
    stage = scripted(tmp_path, Standby(name="dr", key_match=False, transport_lag=1.5, apply_lag=2.5, **says))
    dr = {"standby": "dr", "target": "orders", "engine": "fake"}

    assert stage.value("tde_standby_lag_seconds", kind="transport", **dr) == 1.5
    assert stage.value("tde_standby_lag_seconds", kind="apply", **dr) == 2.5
    assert stage.value("tde_standby_sequence", stage="received", thread="1", **dr) == 12
    assert stage.value("tde_standby_sequence", stage="applied", thread="1", **dr) == 9
    assert stage.value("tde_standby_master_key_match", **dr) == 0
    assert stage.value("tde_standby_transport_running", **dr) == 1
    assert stage.value("tde_standby_configured_delay_seconds", **dr) == 1800
    assert stage.value("tde_standby_clock_skew_seconds", **dr) == -0.25


def test_a_standby_that_the_primary_does_not_know_is_configured_nowhere(tmp_path: Path) -> None:
    nothing = dict.fromkeys(("transport_lag", "apply_lag", "heartbeat_lag", "transport_running", "key_match"))
    stage = scripted(tmp_path, Standby(name="dr", configured=False, received_sequence=None, **nothing))

    assert stage.value("tde_standby_configured") == 0
    assert [stage.value("tde_standby_lag_known", kind=kind) for kind in KINDS] == [0, 0, 0]
    assert "tde_standby_lag_seconds" not in stage.names()
    assert "tde_standby_transport_running" not in stage.names()
    assert stage.value("tde_standby_sequence") == 7


def test_before_the_first_reading_nothing_is_known(stage: Stage) -> None:
    stage.begin()

    assert [stage.value("tde_standby_lag_known", kind=kind) for kind in KINDS] == [0, 0, 0]
    standbys = {name for name in stage.names() if name.startswith("tde_standby_")}
    assert standbys == {"tde_standby_lag_known"}


def test_a_target_without_standbys_shows_none(make_stage: Callable[..., Stage]) -> None:
    stage = make_stage("orders")
    stage.begin()
    stage.round()

    assert not [name for name in stage.names() if name.startswith("tde_standby_")]
    assert stage.value("tde_exporter_collector_success", collector="standby") is None


def test_what_was_read_too_long_ago_is_unknown_but_stays_configured(stage: Stage) -> None:
    stage.begin()
    stage.read_standbys()
    stage.clock.advance(30.0)
    assert stage.value("tde_standby_lag_seconds", **HEARTBEAT) == 0

    stage.clock.advance(0.1)
    standbys = {name for name in stage.names() if name.startswith("tde_standby_")}
    assert standbys == {"tde_standby_configured", "tde_standby_lag_known"}
    assert stage.value("tde_standby_configured") == 1
    assert stage.value("tde_standby_lag_known", **HEARTBEAT) == 0
    assert stage.value("tde_exporter_collector_success", collector="standby") == 0
    assert stage.value("tde_exporter_collector_success", collector="heartbeat") == 0


def test_while_the_probe_process_is_down_nothing_is_said_of_standbys(stage: Stage) -> None:
    stage.begin()
    stage.read_standbys()
    stage.ledger.process_up(0, False)
    assert not [name for name in stage.names() if name.startswith("tde_standby_")]

    stage.begin()
    assert stage.value("tde_standby_lag_known", **HEARTBEAT) == 0
    assert stage.value("tde_standby_lag_seconds", **HEARTBEAT) is None


@pytest.mark.parametrize("value", GARBAGE, ids=repr)
@pytest.mark.parametrize("field", ["heartbeat", "received_sequence", "clock_skew", "configured_delay"])
def test_what_cannot_be_true_is_ignored_and_counted(stage: Stage, field: str, value: Any) -> None:
    stage.begin()
    stage.read_standbys(standby_state(**{field: value}))
    names = {
        "heartbeat": "tde_standby_lag_seconds",
        "received_sequence": "tde_standby_sequence",
        "clock_skew": "tde_standby_clock_skew_seconds",
        "configured_delay": "tde_standby_configured_delay_seconds",
    }
    labels = {"heartbeat": HEARTBEAT, "received_sequence": {"stage": "received"}}.get(field, {})

    believed = field == "clock_skew" and value == -1.0
    assert stage.value(names[field], **labels) == (-1.0 if believed else None)
    assert stage.value("tde_exporter_invalid_values_total") == (0 if believed else 1)


def test_flags_that_are_no_flags_and_strangers_are_ignored_and_counted(stage: Stage) -> None:
    stage.begin()
    odd: Any = "yes"
    stage.read_standbys(
        standby_state(transport_running=odd, apply_running=odd, key_match=odd),
        standby_state("local"),
        standby_state("stranger"),
    )

    assert stage.value("tde_standby_transport_running") is None
    assert stage.value("tde_standby_master_key_match") is None
    assert stage.value("tde_standby_lag_seconds", **HEARTBEAT) == 0
    assert stage.value("tde_exporter_invalid_values_total") == 5


# -- replication channels ------------------------------------------------------------------------------------


def channels(stage: Stage, name: str = "tde_standby_lag_seconds") -> dict[str | None, float]:
    """Values of the heartbeat lag, or of another metric without kinds, by channel; None where there is no such label."""
    samples = stage.samples().get(name, {})
    return {
        dict(labels).get("channel"): value
        for labels, value in samples.items()
        if dict(labels).get("kind", "heartbeat") == "heartbeat"
    }


def test_channels_are_told_apart_and_the_nameless_one_has_no_label(stage: Stage) -> None:
    stage.begin()
    stage.read_standbys(
        standby_state(heartbeat=1.0, configured=False),
        standby_state(heartbeat=2.0, channel="east", apply_running=False),
        standby_state(heartbeat=None, channel="west", received_sequence=9),
    )

    assert channels(stage) == {None: 1.0, "east": 2.0}
    assert channels(stage, "tde_standby_lag_known") == {None: 1, "east": 1, "west": 0}
    assert channels(stage, "tde_standby_apply_running") == {None: 1, "east": 0, "west": 1}
    assert stage.value("tde_standby_sequence", channel="west", stage="received") == 9
    # One of them is fed by the primary, so the standby is.
    assert channels(stage, "tde_standby_configured") == {None: 1}
    assert b'channel=""' not in stage.renderer.render_once().text
    modern = stage.renderer.render_once().openmetrics.decode()
    (family,) = (found for found in parse_openmetrics(modern) if found.name == "tde_standby_apply_running")
    assert sorted("channel" in sample.labels for sample in family.samples) == [False, True, True]


def test_promtool_takes_samples_with_and_without_a_channel(stage: Stage, promtool: Path) -> None:
    stage.begin()
    stage.read_standbys(standby_state(), standby_state(channel="east"))
    page = stage.renderer.render_once().text

    result = subprocess.run([promtool, "check", "metrics"], input=page, capture_output=True, timeout=100)

    assert b'channel="east"' in page
    assert (result.returncode, result.stdout + result.stderr) == (0, b"")


def test_a_channel_that_disappears_vanishes(stage: Stage) -> None:
    stage.begin()
    stage.read_standbys(standby_state(channel="east"), standby_state(channel="west"))
    stage.read_standbys(standby_state(channel="west"))
    assert channels(stage, "tde_standby_lag_known") == {"west": 1}

    nothing: dict[str, Any] = dict.fromkeys(("transport", "apply", "heartbeat", "transport_running", "apply_running"))
    stage.read_standbys(standby_state(configured=False, **nothing))
    assert channels(stage, "tde_standby_lag_known") == {None: 0}
    assert channels(stage, "tde_standby_apply_running") == {}
    assert channels(stage, "tde_standby_configured") == {None: 0}


def test_channels_that_were_read_too_long_ago_are_unknown_and_not_gone(stage: Stage) -> None:
    stage.begin()
    stage.read_standbys(standby_state(channel="east"), standby_state(channel="west"))
    stage.clock.advance(30.1)

    assert channels(stage, "tde_standby_lag_known") == {"east": 0, "west": 0}
    assert channels(stage) == {}


def test_channels_have_a_bound_and_are_unique(stage: Stage) -> None:
    stage.begin()
    many = [standby_state(channel=f"c{number}") for number in range(20)]
    stage.read_standbys(standby_state(channel="c0", heartbeat=5.0), *many, standby_state(channel="c1"))

    assert len(channels(stage)) == 16
    assert channels(stage)["c0"] == 5.0
    assert stage.value("tde_exporter_invalid_values_total") == 1 + 4 + 1


def test_every_channel_is_a_row_on_the_landing_page(stage: Stage) -> None:
    stage.begin()
    stage.read_standbys(standby_state(heartbeat=1.0), standby_state(heartbeat=2.0, channel="east"))

    rows = landing(stage.ledger.view(), 0.0, 0.0).standbys
    assert [(row.name, row.lag) for row in rows] == [("local", 1.0), ("local, channel east", 2.0)]


def test_standbys_that_cannot_be_read_do_not_put_their_target_down(stage: Stage) -> None:
    stage.begin()
    stage.round()
    for collector in ("standby", "heartbeat"):
        stage.say(CollectorDone("embedded", collector, 5.0, stage.clock.wall(), Reason.TIMEOUT, "not done after 5 s"))

    assert stage.value("tde_target_up") == 1
    assert stage.value("tde_exporter_collector_success", collector="standby") == 0
    assert stage.view.problem == "not done after 5 s"


def test_the_landing_page_is_told_the_heartbeat_lag_else_the_longer_of_the_others(stage: Stage) -> None:
    stage.begin()
    said = (
        (),
        (standby_state(heartbeat=2.1, transport=9.0),),
        (standby_state(heartbeat=None, transport=1.0, apply=3.0),),
        (standby_state(heartbeat=None, transport=None, apply=None, problem="the applier is not running"),),
    )
    lags = []
    for states in said:
        if states:
            stage.say(StandbysRead("embedded", states))
        (row,) = landing(stage.ledger.view(), 0.0, 0.0).standbys
        lags.append((row.lag, row.problem))

    assert lags == [
        (None, "not read yet, or too long ago"),
        (2.1, ""),
        (3.0, ""),
        (None, "the applier is not running"),
    ]


def test_gaps_and_the_primarys_opinion(stage: Stage) -> None:
    stage.begin()
    stage.read_standbys(standby_state(gap_sequences=3, destination_up=False))
    assert stage.value("tde_standby_gap_sequences") == 3
    assert stage.value("tde_standby_destination_up") == 0

    odd: Any = "yes"
    stage.read_standbys(standby_state(gap_sequences=-1, destination_up=odd))
    assert stage.value("tde_standby_gap_sequences") is None
    assert stage.value("tde_standby_destination_up") is None
    assert stage.value("tde_exporter_invalid_values_total") == 2
