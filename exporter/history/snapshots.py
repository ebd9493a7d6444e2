"""Snapshots as compressed JSON and back.

::

    {"schema": 1, "target": …, "started": …, "seconds": …,
     "failures": [[pair, operation, words], …],
     "ticks": [{"pair": …, "operation": …, "epoch": …, "started": …, "first": "encrypted" | "plain",
                "dropped": null | …, "unit": …, "encrypted": [sample, …], "plain": [sample, …]}, …]}

A sample is [position, duration, execute, fetch, commit, work, failure]. The duration is null where it
is infinite: JSON has no infinity. Work is null where nothing is known, else [cpu_seconds,
server_seconds, blocks_read, decrypts, encrypts].
"""

from __future__ import annotations

import json
import math
import zlib
from typing import Any

from exporter.domain.errors import Reason
from exporter.domain.model import Burst, Operation, Sample, Snapshot, Tick, Variant, Work

SCHEMA = 1
_NOTHING_KNOWN = Work()


def to_bytes(snapshot: Snapshot) -> bytes:
    """Raises ValueError or TypeError for what JSON cannot hold, such as NaN."""
    document = {
        "schema": SCHEMA,
        "target": snapshot.target,
        "started": snapshot.started,
        "seconds": snapshot.seconds,
        "failures": [list(failure) for failure in snapshot.failures],
        "ticks": [_tick_to_json(tick) for tick in snapshot.ticks],
    }
    return zlib.compress(json.dumps(document, separators=(",", ":"), allow_nan=False).encode(), 1)


def from_bytes(data: bytes) -> Snapshot:
    """The inverse of `to_bytes`; raises ValueError when the bytes are not a snapshot of this schema."""
    try:
        document = json.loads(zlib.decompress(data))
        if document["schema"] != SCHEMA:
            raise ValueError(f"unknown schema {document['schema']} of a snapshot")
        target = document["target"]
        return Snapshot(
            target,
            document["started"],
            document["seconds"],
            tuple(_tick_from_json(target, tick) for tick in document["ticks"]),
            tuple((pair, Operation(operation), words) for pair, operation, words in document["failures"]),
        )
    except (zlib.error, KeyError, TypeError) as error:
        raise ValueError("damaged snapshot") from error


def _tick_to_json(tick: Tick) -> dict[str, Any]:
    return {
        "pair": tick.pair,
        "operation": tick.operation,
        "epoch": tick.epoch,
        "started": tick.started,
        "first": tick.first,
        "dropped": tick.dropped,
        "unit": tick.unit,
        "encrypted": [_sample_to_json(sample) for sample in tick.encrypted.samples],
        "plain": [_sample_to_json(sample) for sample in tick.plain.samples],
    }


def _tick_from_json(target: str, tick: dict[str, Any]) -> Tick:
    return Tick(
        target=target,
        pair=tick["pair"],
        operation=Operation(tick["operation"]),
        epoch=tick["epoch"],
        started=tick["started"],
        first=Variant(tick["first"]),
        encrypted=Burst(tuple(map(_sample_from_json, tick["encrypted"]))),
        plain=Burst(tuple(map(_sample_from_json, tick["plain"]))),
        dropped=tick["dropped"],
        unit=tick["unit"],
    )


def _sample_to_json(sample: Sample) -> list[Any]:
    duration = None if math.isinf(sample.duration) else sample.duration
    times = (sample.execute_seconds, sample.fetch_seconds, sample.commit_seconds)
    return [sample.position, duration, *times, _work_to_json(sample.work), sample.failure]


def _work_to_json(work: Work) -> list[Any] | None:
    if work == _NOTHING_KNOWN:
        return None
    return [work.cpu_seconds, work.server_seconds, work.blocks_read, work.decrypts, work.encrypts]


def _sample_from_json(sample: list[Any]) -> Sample:
    position, duration, execute, fetch, commit, work, failure = sample
    return Sample(
        position,
        math.inf if duration is None else duration,
        execute,
        fetch,
        commit,
        _NOTHING_KNOWN if work is None else Work(*work),
        None if failure is None else Reason(failure),
    )
