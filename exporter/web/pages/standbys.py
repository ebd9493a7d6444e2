"""The table of standbys: how far behind each of them is, in words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

from exporter.overhead import formats
from exporter.overhead.formats import UNKNOWN
from exporter.web.pages.cells import cell, chip

UP_TO_DATE_SECONDS = 0.5
"""Less than this is what shipping a change takes, or a look between two of them."""


@dataclass(frozen=True, slots=True)
class StandbyRow:
    """A standby now; None is unknown.

    `lag` is in seconds: of the heartbeat where it is known, else of receiving or applying, whichever is longer.
    `delay` is the part of it that is meant. `keys` tells whether it has the primary's keys, `problem` what is wrong.
    """

    target: str
    name: str
    lag: float | None = None
    delay: float | None = None
    receives: bool | None = None
    applies: bool | None = None
    keys: bool | None = None
    problem: str = ""


def table(rows: tuple[StandbyRow, ...]) -> str:
    """The card with the table; nothing where there is no standby."""
    if not rows:
        return ""
    heads = "".join(
        f'<th scope="col">{name}</th>' for name in ("Target", "Standby", "Behind", "Receives", "Applies", "Keys")
    )
    return (
        '<div class="card"><table><caption><b>Standbys</b><span>How long the oldest change has been waiting that a '
        "reader cannot see there yet.</span></caption>"
        f"<thead><tr>{heads}</tr></thead><tbody>{''.join(map(_row, rows))}</tbody></table></div>"
    )


def _row(row: StandbyRow) -> str:
    words, tone = behind(row)
    meant = f"{formats.age(row.delay)} of it on purpose" if row.delay and row.lag is not None else ""
    notes = "; ".join(escape(note) for note in (meant, row.problem) if note)
    said = f' <span class="words soft">{notes}</span>' if notes else ""
    keys = {True: "the primary's", False: "lacks one of the primary's", None: "unknown"}[row.keys]
    cells = [
        f'<th scope="row">{escape(row.target)}</th>',
        cell("Standby", escape(row.name)),
        cell("Behind", f"<span>{chip(words, tone)}{said}</span>"),
        cell("Receives", _flag(row.receives)),
        cell("Applies", _flag(row.applies)),
        cell("Keys", chip(keys, "bad") if row.keys is False else keys, "soft" if row.keys is None else ""),
    ]
    return f"<tr>{''.join(cells)}</tr>"


def behind(row: StandbyRow) -> tuple[str, str]:
    """How far behind it is in words, and the tone in which to say it."""
    if row.lag is None or not math.isfinite(row.lag):
        return "unknown", "bad" if row.receives is False else "mute"
    late = row.lag - (row.delay or 0.0)
    if row.lag < UP_TO_DATE_SECONDS:
        return "up to date", "good"
    span = f"{row.lag:.1f}\u00a0s" if row.lag < 60 else formats.age(row.lag)
    return f"{span} behind", "good" if late < UP_TO_DATE_SECONDS else "open"


def _flag(value: bool | None) -> str:
    return {True: "yes", False: "no", None: UNKNOWN}[value]
