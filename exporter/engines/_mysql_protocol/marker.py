"""The words in a table's COMMENT by which we know our own tables again, and how far they are built.

A comment travels with its table: through ALTER TABLE, dumps and replication. A table without our words is
somebody else's, and is neither filled nor dropped, whatever its name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

HEARTBEAT_COMMENT = "tde-exporter heartbeat v1"
"""Of the table with the row that standbys are measured by."""

_TWIN = re.compile(r"tde-exporter twin v1 rows=(?P<rows>[0-9]{1,10}) (?P<state>building|complete)(?: .*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TwinMarker:
    """What the comment of a twin says: the rows it shall have, and whether they are all there and checked."""

    rows: int
    complete: bool

    def __str__(self) -> str:
        """The comment; a DBA may add words behind it."""
        return f"tde-exporter twin v1 rows={self.rows} {'complete' if self.complete else 'building'}"


def twin_marker(comment: str | None) -> TwinMarker | None:
    """What a comment says; None when the table is not one of our twins (of this version)."""
    found = _TWIN.fullmatch(comment or "")
    return TwinMarker(int(found["rows"]), found["state"] == "complete") if found else None


def is_heartbeat(comment: str | None) -> bool:
    """Whether a comment is that of our heartbeat table."""
    return f"{comment or ''} ".startswith(f"{HEARTBEAT_COMMENT} ")
