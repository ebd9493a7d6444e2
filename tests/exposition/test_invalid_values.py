"""Drivers return None, text, NaN, negative times: nobody crashes, no sum is poisoned, each is counted."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from exporter.config.secrets import SecretSource
from exporter.domain.errors import Reason
from exporter.domain.model import Burst, Snapshot, Work
from exporter.landing import landing
from exporter.probing.messages import Building, PairChecked, SnapshotDone, TargetReached
from exporter.web.pages.landing import render
from tests.exposition.stages import FACTS, Stage, burst, pair_facts

ENCRYPTED = {"operation": "point_select", "variant": "encrypted"}
WORKLESS = Work.nothing()


GARBAGE = [math.nan, math.inf, -math.inf, -1.0, 1e300, "0.5", b"1", None, True]


@pytest.mark.parametrize("value", GARBAGE, ids=repr)
def test_a_duration_that_cannot_be_true_is_ignored_and_counted(stage: Stage, value: Any) -> None:
    stage.begin()
    good = burst(0.001)
    bad = Burst((replace(good.samples[0], duration=value), *good.samples[1:]))
    stage.tick(encrypted=bad)
    stage.collected()

    assert stage.value("tde_exporter_invalid_values_total") == 1
    assert stage.value("tde_canary_runs_total", **ENCRYPTED) == 20
    assert stage.value("tde_canary_phase_seconds_total", phase="execute", **ENCRYPTED) == pytest.approx(19 * 0.0008)
    assert stage.value("tde_overhead_samples", **ENCRYPTED) is None


@pytest.mark.parametrize("value", [item for item in GARBAGE if item is not None], ids=repr)
@pytest.mark.parametrize("field", ["cpu_seconds", "server_seconds", "blocks_read", "decrypts", "encrypts"])
def test_work_that_cannot_be_true_is_unknown_and_counted(stage: Stage, field: str, value: Any) -> None:
    stage.begin()
    stage.tick(encrypted=burst(0.001, 1, replace(WORKLESS, **{field: value})), plain=burst(0.001, 1, WORKLESS))
    stage.collected()

    assert stage.value("tde_exporter_invalid_values_total") == 1
    assert stage.value(f"tde_canary_{field}_total", **ENCRYPTED) is None
    assert stage.value("tde_overhead_samples", **ENCRYPTED) == 1


def test_garbage_elsewhere_is_counted_and_harms_nobody(stage: Stage) -> None:
    stage.begin()
    stage.say(TargetReached("embedded", replace(FACTS, version='1\n"\ud800' + "x" * 500), 1, math.nan))
    facts = replace(pair_facts(), a=replace(pair_facts().a, rows=-5, rows_per_block=math.inf))
    stage.say(PairChecked("embedded", facts))
    stage.say(Building("embedded", "twins", math.nan))
    stage.tick(pair="stranger")
    stage.say(PairChecked("embedded", pair_facts("stranger")))

    assert stage.value("tde_target_connect_seconds_total") == 0.05
    assert stage.value("tde_pair_rows", variant="encrypted") is None
    assert stage.value("tde_exporter_invalid_values_total") == 6
    versions = [dict(labels)["version"] for labels in stage.samples()["tde_target_info"]]
    assert len(versions[0]) == 128


def test_what_concerns_nobody_configured_is_ignored(stage: Stage) -> None:
    stage.say(TargetReached("stranger", FACTS, 1, 0.1))
    stage.say(SnapshotDone(Snapshot("stranger", 0.0, 1.0, ())))

    assert stage.ledger.snapshot_rows("stranger") == ()
    assert stage.value("tde_target_connects_total") == 0


def test_a_secret_that_a_driver_repeats_is_shown_nowhere(stage: Stage, tmp_path: Path, no_secrets_known: None) -> None:
    (tmp_path / "secret").write_text("S3CR3T-4711\n")
    marker = SecretSource(file=tmp_path / "secret").read()
    said = f"{'x' * 120} login failed for {marker}"
    facts = pair_facts()

    stage.begin()
    stage.say(TargetReached("embedded", replace(FACTS, flavor=marker, version=said), 1, 0.1))
    stage.say(PairChecked("embedded", replace(facts, a=replace(facts.a, algorithm=marker, problem=said))))
    stage.say(Building("embedded", said, 0.5))
    stage.collected("encryption_state", Reason.AUTH)
    stage.failed(Reason.AUTH, said)

    view = stage.ledger.view()
    page = stage.renderer.render_once().text.decode()
    for shown in (page, render(landing(view, 0.0, 0.0)), repr(view)):
        assert "S3CR3T" not in shown
    assert "login failed for ***" in stage.view.problem
