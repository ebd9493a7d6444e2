"""Snapshots as bytes: nothing is lost, and nothing else is taken for one."""

from __future__ import annotations

import json
import math
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.domain.errors import Reason
from exporter.domain.model import Burst, Operation, Sample, Snapshot, Tick, Variant, Work
from exporter.history import snapshots

SECONDS = st.floats(min_value=0, max_value=1e6)
COUNT = st.none() | st.integers(0, 2**60)
WORK = st.builds(Work, st.none() | SECONDS, st.none() | SECONDS, COUNT, COUNT, COUNT)
SAMPLE = st.builds(
    Sample,
    st.integers(0, 400),
    SECONDS | st.just(math.inf),
    SECONDS,
    SECONDS,
    SECONDS,
    WORK,
    st.none() | st.sampled_from(Reason),
)
BURST = st.builds(Burst, st.lists(SAMPLE, max_size=4).map(tuple))
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
OPERATION = st.sampled_from(Operation)
TICK = st.builds(
    Tick,
    st.just("target"),
    TEXT,
    OPERATION,
    TEXT,
    SECONDS,
    st.sampled_from(Variant),
    BURST,
    BURST,
    st.none() | TEXT,
    st.integers(0, 100),
)
SNAPSHOT = st.builds(
    Snapshot,
    st.just("target"),
    SECONDS,
    SECONDS,
    st.lists(TICK, max_size=3).map(tuple),
    st.lists(st.tuples(TEXT, OPERATION, TEXT), max_size=3).map(tuple),
)


@given(SNAPSHOT)
def test_any_snapshot_comes_back_equal(snapshot: Snapshot) -> None:
    assert snapshots.from_bytes(snapshots.to_bytes(snapshot)) == snapshot


@given(SNAPSHOT)
def test_the_words_come_back_as_words_of_the_vocabulary(snapshot: Snapshot) -> None:
    found = snapshots.from_bytes(snapshots.to_bytes(snapshot))
    for tick in found.ticks:
        assert isinstance(tick.operation, Operation)
        assert isinstance(tick.first, Variant)
        assert all(isinstance(failure, Reason) for failure in tick.encrypted.failures)


@pytest.mark.parametrize(
    "document",
    [
        {},
        [],
        7,
        None,
        {"schema": 2},
        {"schema": 1},
        {"schema": 1, "target": "t", "started": 1.0, "seconds": 1.0, "failures": [["p", "levitate", "w"]], "ticks": []},
        {"schema": 1, "target": "t", "started": 1.0, "seconds": 1.0, "failures": [["p"]], "ticks": []},
        {"schema": 1, "target": "t", "started": 1.0, "seconds": 1.0, "failures": [], "ticks": ["x", 1]},
    ],
)
def test_what_is_no_snapshot_is_refused(document: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        snapshots.from_bytes(zlib.compress(json.dumps(document).encode()))


@pytest.mark.parametrize(
    "data", [b"", b"noise", zlib.compress(b"{"), zlib.compress(b"\xff\xfe"), zlib.compress(b"{}")[:-3]]
)
def test_damaged_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        snapshots.from_bytes(data)
