"""Stages for the tests of this room."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from exporter.config.schema import PairSettings, Settings
from exporter.engines.fake.settings import Target as FakeTarget
from exporter.engines.sqlite.settings import Target as SqliteTarget
from tests.exposition.stages import Stage


@pytest.fixture
def stage() -> Stage:
    """The embedded default, nothing said yet."""
    return Stage(Settings(targets=(SqliteTarget(name="embedded"),)))


@pytest.fixture
def make_stage() -> Callable[..., Stage]:
    """Makes stages with the scripted engine, for targets by name."""

    def make(*names: str, **settings: object) -> Stage:
        pairs = (PairSettings(name="scripted"),)
        targets = tuple(FakeTarget(name=name, pairs=pairs) for name in names)
        return Stage(Settings(targets=targets, **settings))  # type: ignore[arg-type]

    return make
