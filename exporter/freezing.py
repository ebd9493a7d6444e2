"""From the history to a baseline: for the command, and for the daemon when something is about to be different."""

from __future__ import annotations

from collections import defaultdict

from exporter.domain.errors import TdeExporterError
from exporter.domain.model import Operation
from exporter.history.store import History
from exporter.overhead.baseline import NEEDED, PairBaseline, freeze
from exporter.overhead.epochs import found_part
from exporter.overhead.stretches import Stretch

USUAL_SECONDS = 86400.0
"""A day has all the hours that a workload has."""


def freeze_pair(
    history: History, target: str, pair: str, since: float, until: float, frozen: float, event: str = "", note: str = ""
) -> PairBaseline:
    """The baseline of what was measured from `since` to `until` (steady seconds), of the last epoch in it; not stored.

    Raises HistoryError, and TdeExporterError when there is not enough to freeze, or nobody knows of what it was.
    """
    by_operation: dict[Operation, list[Stretch]] = defaultdict(list)
    for key, part in history.load_span(since, until, target, pair):
        if part.block.plain.samples:
            by_operation[key.operation].append(part)
    where = f"target {target}, pair {pair}"
    if not by_operation:
        raise TdeExporterError(f"{where}: nothing was measured in that time")
    last = max((part for parts in by_operation.values() for part in parts), key=lambda part: part.block.start)
    epoch = last.block.epoch
    was = history.records.epoch(target, pair, found_part(epoch))
    if was is None:
        raise TdeExporterError(f"{where}: which twin was encrypted then was not written down; freeze again in a minute")
    kept = {
        operation: same
        for operation, parts in sorted(by_operation.items())
        if (same := [part for part in parts if part.block.epoch == epoch])
    }
    series = {operation: found for operation, parts in kept.items() if (found := freeze(parts)) is not None}
    if not series:
        raise TdeExporterError(f"{where}: too little was measured since the last change; needed are {NEEDED}")
    used = [part for operation in series for part in kept[operation]]
    return PairBaseline(
        target=target,
        pair=pair,
        frozen=frozen,
        since=min(part.block.start for part in used),
        until=max(part.block.start + part.seconds for part in used),
        epoch=epoch,
        phase=was.phase,
        slot=was.slot,
        content=was.content,
        series=series,
        event=event,
        note=note,
    )
