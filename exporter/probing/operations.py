"""The catalogue of canary operations: what each does, what it proves, and when it proves nothing."""

from __future__ import annotations

from dataclasses import dataclass

from exporter.domain.model import Operation


@dataclass(frozen=True, slots=True)
class OperationFacts:
    """One canary operation, engine-neutral.

    `short` operations are bursts of quick queries: they take turns with those of other targets, so
    that our own process does not disturb them. Long ones are bound by the engine and may overlap.
    `warm_ups` runs for each twin after a connect are discarded.
    """

    does: str
    proves: str
    proves_nothing_when: str
    short: bool
    writes: bool = False
    warm_ups: int = 1


CATALOGUE: dict[Operation, OperationFacts] = {
    Operation.POINT_SELECT: OperationFacts(
        does="reads one row by its primary key, the same key on both twins",
        proves="what a single lookup pays, including the reads that miss the cache",
        proves_nothing_when="every page it needs is in the cache: nothing is decrypted then, and it is blind",
        short=True,
        warm_ups=3,
    ),
    Operation.FULL_SCAN: OperationFacts(
        does="aggregates the whole table, answered as one row",
        proves="what a scan pays as the cache happens to be",
        proves_nothing_when="the table stays in the cache: nothing is decrypted then, and it is blind",
        short=False,
    ),
    Operation.FULL_SCAN_COLD: OperationFacts(
        does="drops the cache of its own session, then aggregates the whole table",
        proves="what decrypting every page of the table costs",
        proves_nothing_when="the engine cannot drop the cache without harm to others; it is not offered there",
        short=False,
    ),
    Operation.INSERT_BATCH: OperationFacts(
        does="inserts 500 rows into an emptied scratch table and commits, the commit timed apart",
        proves="what encrypting new pages and their log costs",
        proves_nothing_when="the log of both twins is encrypted alike by the server",
        short=False,
        writes=True,
    ),
}
