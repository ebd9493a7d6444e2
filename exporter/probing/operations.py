"""The catalogue of canary operations: what each does, what it proves, and when it proves nothing."""

from __future__ import annotations

from collections.abc import Mapping
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


_CACHED = "every page it needs is in the cache: nothing is decrypted then, and it is blind"
_NO_COLD = "the engine cannot drop the cache without harm to others; it is not offered there"


def _read(does: str, proves: str, *, short: bool, warm_ups: int = 1) -> OperationFacts:
    return OperationFacts(does, proves, _CACHED, short, warm_ups=warm_ups)


def _cold(warm: OperationFacts, proves: str) -> OperationFacts:
    return OperationFacts(f"drops the cache of its own session, then {warm.does}", proves, _NO_COLD, warm.short)


_POINT = _read(
    "reads one row by its primary key, the same key on both twins",
    "what a single lookup pays, including the reads that miss the cache",
    short=True,
    warm_ups=3,
)
_RANGE = _read(
    "aggregates 5 000 neighbouring rows by primary key, answered as one row",
    "what a range read pays",
    short=True,
)
_INDEX = _read(
    "counts about one row in ten by the index, answered as one row",
    "what reading an index pays, whose pages are encrypted as well",
    short=True,
)
_SORTED = _read(
    "sorts about one row in a hundred, found by the index, and answers with one row",
    "what scattered reads of the table behind an index pay, and sorting, which touches no encrypted page",
    short=False,
)
_SCAN = _read(
    "aggregates the whole table, answered as one row", "what a scan pays as the cache happens to be", short=False
)


def _write(does: str, proves: str) -> OperationFacts:
    return OperationFacts(
        does, proves, "the log of both twins is encrypted alike by the server", short=False, writes=True
    )


CATALOGUE: dict[Operation, OperationFacts] = {
    Operation.POINT_SELECT: _POINT,
    Operation.POINT_SELECT_COLD: _cold(_POINT, "what decrypting the few pages of one lookup costs"),
    Operation.RANGE_SELECT: _RANGE,
    Operation.RANGE_SELECT_COLD: _cold(_RANGE, "what decrypting neighbouring pages costs"),
    Operation.INDEX_COUNT: _INDEX,
    Operation.INDEX_COUNT_COLD: _cold(_INDEX, "what decrypting the pages of an index costs"),
    Operation.SORTED_SELECT: _SORTED,
    Operation.SORTED_SELECT_COLD: _cold(_SORTED, "what decrypting scattered pages costs"),
    Operation.FULL_SCAN: _SCAN,
    Operation.FULL_SCAN_COLD: _cold(_SCAN, "what decrypting every page of the table costs"),
    Operation.LOB_READ: OperationFacts(
        does="reads large objects that the engine does not keep in its cache",
        proves="what decrypting costs without dropping anybody's cache",
        proves_nothing_when="the engine caches large objects; it is not offered there",
        short=False,
    ),
    Operation.INSERT_BATCH: _write(
        "inserts 500 rows into an emptied scratch table and commits, the commit timed apart",
        "what encrypting new pages and their log costs",
    ),
    Operation.UPDATE_BATCH: _write(
        "gives 500 rows of the scratch table new values and commits, the commit timed apart",
        "what decrypting, changing and encrypting pages costs; equal values would change nothing and encrypt nothing",
    ),
    Operation.DELETE_REPLENISH: _write(
        "deletes 1 000 rows of the scratch table, inserts them again and commits, the commit timed apart",
        "what a changing table of constant size pays",
    ),
    Operation.CHECKPOINT: OperationFacts(
        does="writes the pages back that 500 changed rows have left in the log",
        proves="what the deferred part of writing costs, which is hidden in no other operation",
        proves_nothing_when="the engine cannot write back one table's pages alone; it is not offered there",
        short=False,
        writes=True,
    ),
}


def markdown(offered: Mapping[str, frozenset[Operation]]) -> str:
    """The reference of all operations for operators; `offered` tells which engine can do which."""
    lines = [
        "# Canary operations",
        "",
        "*Generated from the catalogue.* What each operation does on both twins, what it proves, and when it proves",
        "nothing. `operations` of a target chooses among those that its engine offers. Short operations are bursts that",
        "take turns with those of other targets; writing ones use scratch tables of constant size beside the twins' data.",
        "",
        "| operation | does | proves | proves nothing when | kind | engines |",
        "|---|---|---|---|---|---|",
    ]
    for operation, facts in CATALOGUE.items():
        kind = ", ".join(["short" if facts.short else "long", *(["writes"] if facts.writes else [])])
        engines = ", ".join(f"`{name}`" for name, able in sorted(offered.items()) if operation in able) or "none yet"
        cells = (f"`{operation}`", facts.does, facts.proves, facts.proves_nothing_when, kind, engines)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"
