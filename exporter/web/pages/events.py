"""The table of events: what happened to the targets, newest first."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from exporter.overhead import formats
from exporter.web.pages.cells import cell


@dataclass(frozen=True, slots=True)
class EventRow:
    """One event. `at` is Unix time, `kind` a word with underscores, `detected` whether nobody had to say so."""

    target: str
    at: float
    kind: str
    text: str
    detected: bool


def table(rows: tuple[EventRow, ...]) -> str:
    """The card with the table; nothing where nothing happened."""
    if not rows:
        return ""
    heads = "".join(f'<th scope="col">{name}</th>' for name in ("Target", "When", "Event", "What"))
    return (
        '<div class="card"><table><caption><b>Events</b><span>What the numbers must be read with, marked by an operator '
        "or detected; the newest ones.</span></caption>"
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(map(_row, rows))}</tbody></table></div>"
    )


def _row(row: EventRow) -> str:
    origin = "detected" if row.detected else "marked"
    cells = [
        f'<th scope="row">{escape(row.target)}</th>',
        cell("When", formats.clock(row.at)),
        cell("Event", f'{escape(row.kind.replace("_", " "))} <span class="soft">{origin}</span>'),
        cell("What", f'<span class="words soft">{escape(row.text)}</span>'),
    ]
    return f"<tr>{''.join(cells)}</tr>"
