"""Stages for the tests of this room."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from exporter.config.schema import PairSettings, Settings
from exporter.domain.model import Operation
from exporter.engines.fake.settings import Standby
from exporter.engines.fake.settings import Target as FakeTarget
from exporter.engines.sqlite.settings import Target as SqliteTarget
from tests.exposition.stages import ACTIVITY, SERVER_FACTS, SERVER_STATE, WORK, Stage, standby_state


@pytest.fixture
def stage() -> Stage:
    """The embedded default, nothing said yet."""
    return Stage(Settings(targets=(SqliteTarget(name="embedded"),)))


@pytest.fixture
def server() -> Stage:
    """A server with a replica, as the engines of the MySQL family are by default; nothing said yet."""
    operations = (Operation.POINT_SELECT, Operation.RANGE_SELECT, Operation.FULL_SCAN)
    target = FakeTarget(
        name="orders", operations=operations, pairs=(PairSettings(name="main"),), standbys=(Standby(name="replica"),)
    )
    return Stage(
        Settings(targets=(target,)),
        facts=SERVER_FACTS,
        state=SERVER_STATE,
        activity=ACTIVITY,
        standbys=(
            standby_state("replica", configured_delay=1800.0, clock_skew=-0.25, gap_sequences=2, destination_up=True),
        ),
        work=replace(WORK, server_seconds=0.0008),
    )


@pytest.fixture
def make_stage() -> Callable[..., Stage]:
    """Makes stages with the scripted engine, for targets by name."""

    def make(*names: str, **settings: object) -> Stage:
        pairs = (PairSettings(name="scripted"),)
        targets = tuple(FakeTarget(name=name, pairs=pairs) for name in names)
        return Stage(Settings(targets=targets, **settings))  # type: ignore[arg-type]

    return make
