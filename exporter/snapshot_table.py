"""A dense snapshot as a person reads it at a terminal, and as a program reads it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from exporter import __version__
from exporter.console import table
from exporter.domain.model import Snapshot, TargetFacts
from exporter.overhead import formats
from exporter.overhead.cost import tightest
from exporter.overhead.snapshot import SnapshotRow
from exporter.overhead.words import Word

HEADER = ("operation", "encrypted", "plain", "overhead", "CPU overhead", "through the cipher", "samples", "")
LEGEND = """\
Overhead is encrypted / plain - 1 of the median time, CPU overhead that of the CPU time, each with its 95 %
interval (Hodges-Lehmann over units, each measured once in either order). Through the cipher went so many
pages (values, where columns are encrypted) in one sample on the encrypted side."""
BLIND = """\
blind: nothing passed the cipher, because all pages were in the cache. The figure shows that the twins are
alike; it says nothing about encryption."""


def snapshot_text(snapshot: Snapshot, rows: Sequence[SnapshotRow], facts: TargetFacts | None = None) -> str:
    """The table with its heading, its legend, and what could not be measured; `facts` tell what was decrypted."""
    taken = datetime.fromtimestamp(snapshot.started, UTC).strftime("%Y-%m-%d %H:%M UTC")
    parts = [f"{snapshot.target}: snapshot of {taken}, measured in {formats.duration(snapshot.seconds)}"]
    for pair in dict.fromkeys(row.pair for row in rows):
        parts.append(f"pair {pair}")
        parts.append(table(HEADER, [_line(row) for row in rows if row.pair == pair]))
        if facts is not None and (cost := tightest(row.decrypt_cost for row in rows if row.pair == pair)):
            words = cost.words(facts.decrypt_unit, facts.block_bytes)
            parts.append(f"{words[0].upper()}{words[1:]} ({cost.units} units).")
    for pair, operation, words in snapshot.failures:
        parts.append(f"{operation} on {pair} was not measured: {words}")
    if rows:
        parts.append(LEGEND)
    if any(row.blind for row in rows):
        parts.append(BLIND)
    return "\n\n".join(parts)


def snapshot_dict(snapshot: Snapshot, rows: Sequence[SnapshotRow]) -> dict[str, Any]:
    """The same for `--json`; unknown is null."""
    return {
        "version": __version__,
        "kind": "snapshot",
        "target": snapshot.target,
        "started": datetime.fromtimestamp(snapshot.started, UTC).isoformat(),
        "seconds": round(snapshot.seconds, 3),
        "rows": [row.to_dict() for row in rows],
        "failures": [
            {"pair": pair, "operation": operation.value, "problem": words}
            for pair, operation, words in snapshot.failures
        ],
    }


def _line(row: SnapshotRow) -> tuple[str, ...]:
    return (
        row.operation.value,
        formats.duration(row.encrypted_seconds),
        formats.duration(row.plain_seconds),
        formats.with_interval(row.latency),
        formats.with_interval(row.cpu),
        formats.through_cipher(row.decrypts_per_sample, row.encrypts_per_sample),
        f"2 × {row.samples}{'' if row.latency is None else f', {row.latency.samples} units'}",
        row.word.value if row.word in (Word.BLIND, Word.CERTIFYING) else "",
    )
