"""Histories in a fresh directory, and blocks and snapshots to fill them with."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from exporter.domain.clock import FakeClock
from exporter.domain.model import Operation, SeriesKey
from exporter.history.store import History
from exporter.overhead.sketch import LogSketch
from exporter.overhead.units import UnitPoint
from exporter.overhead.windows import Block, BlockSide

DAY = 86400.0


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "history.db"


Open = Callable[..., History]


@pytest.fixture
def open_history(path: Path, clock: FakeClock) -> Iterator[Open]:
    """Opens the history at `path`; closes all of them at the end."""
    with contextlib.ExitStack() as stack:

        def opened(*, retention: float = 14 * DAY, **more: bool) -> History:
            history = History.open(path, retention, clock, **more)
            stack.callback(history.close)
            return history

        yield opened


def _key(target: str = "embedded", operation: Operation = Operation.POINT_SELECT, pair: str = "phonebook") -> SeriesKey:
    return SeriesKey(target, pair, operation)


def _side(seed: int) -> BlockSide:
    durations = np.random.default_rng(seed).lognormal(-9, 0.3, 200)
    durations[:2] = np.inf
    sketch = LogSketch()
    sketch.add(durations)
    return BlockSide(200, 2, sketch, 7, 0.0123 + seed, 412, None, 55)


def _block(start: float, seed: int = 1, epoch: str = "e1") -> Block:
    units = (
        UnitPoint(start + 20, 0.33, 0.4),
        UnitPoint(start + 40, float("inf"), None),
        UnitPoint(start + 60, -0.1, 0.0),
    )
    return Block(start, epoch, _side(seed), _side(seed + 1), units)


@pytest.fixture(name="make_key")
def _make_key_fixture() -> Callable[..., SeriesKey]:
    return _key


@pytest.fixture(name="make_block")
def _make_block_fixture() -> Callable[..., Block]:
    """A block with timeouts, unknown values and infinite units; the seed makes it different."""
    return _block
