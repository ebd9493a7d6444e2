"""Colours and words of the dashboards, so that a state is never told by colour alone.

Blue and orange are told apart with every common colour blindness, red and green are not. Each colour has at least three
times the contrast that it needs as a line, on Grafana's dark and on its light panels. Those of `SOLID` carry words, white or
black as Grafana chooses; doubt is light and wrong is dark, for with some colour blindness their hues are one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

BLUE = "#3D8BD4"
ORANGE = "#D97A00"
GREY = "#8A929C"
VERMILION = "#C8451B"
PURPLE = "#9B6BC9"
TEAL = "#2F9E9E"
PINK = "#C0679B"

GOOD = "#1F6FB5"
DOUBT = "#EBAF4C"
BAD = "#B8400E"
SILENT = "#5B6572"

ENCRYPTED, PLAIN = ORANGE, BLUE
LIMIT = VERMILION

LINES = (BLUE, ORANGE, GREY, VERMILION, PURPLE, TEAL, PINK)
"""Colours of lines and of text."""

SOLID = (GOOD, DOUBT, BAD, SILENT)
"""Colours behind words: all is well, not decided, something is wrong, nothing can be said."""

TRANSPARENT = "transparent"


@dataclass(frozen=True, slots=True)
class Word:
    """A state as dashboards show it. `code` is the number that a query yields for it, `state` the label value it has."""

    state: str
    code: int
    text: str
    colour: str


VERDICTS = (
    Word("over_budget", 8, "OVER BUDGET", BAD),
    Word("undecided", 7, "UNDECIDED", DOUBT),
    Word("no_data", 6, "NO DATA", SILENT),
    Word("held", 5, "HELD", SILENT),
    Word("within_budget", 4, "WITHIN BUDGET", GOOD),
    Word("warming", 3, "WARMING", SILENT),
    Word("blind", 2, "BLIND", SILENT),
    Word("certifying", 1, "CERTIFYING", SILENT),
)
"""The words of `tde_overhead_state`, the one to look at first on top: of several operations it is the one that is shown.

Operations that are blind or still warming up say nothing about the others; one that was measured and is not any more does.
"""

KEYSTORES = (
    Word("missing", 6, "MISSING", BAD),
    Word("no_key", 5, "NO KEY", BAD),
    Word("closed", 4, "CLOSED", BAD),
    Word("degraded", 3, "DEGRADED", DOUBT),
    Word("unknown", 2, "UNKNOWN", SILENT),
    Word("open", 1, "OPEN", GOOD),
)
"""The words of `tde_keystore_state`, the worst on top."""

OBJECTS = {"encrypted": ORANGE, "plain": BLUE, "pending": PINK, "in_progress": PURPLE, "unknown": GREY}
"""Colours of the states of `tde_objects`."""

YES_OR_NO = (Word("", 1, "YES", GOOD), Word("", 0, "NO", BAD))


def quiet(words: Iterable[Word]) -> tuple[Word, ...]:
    """The same words for tables: what is well has no colour, so that the eye finds what is not."""
    return tuple(replace(word, colour=TRANSPARENT) if word.colour == GOOD else word for word in words)


_READS = {
    "point_select": BLUE,
    "range_select": TEAL,
    "index_count": PURPLE,
    "sorted_select": PINK,
    "full_scan": ORANGE,
}
_WRITES = {"insert_batch": BLUE, "update_batch": TEAL, "delete_replenish": PURPLE, "checkpoint": ORANGE}

REASONS = {
    "timeout": ORANGE,
    "keystore": VERMILION,
    "query": BLUE,
    "permission": PURPLE,
    "unavailable": GREY,
    "connect": TEAL,
    "auth": VERMILION,
    "tls": PURPLE,
    "lock_timeout": PINK,
}
"""Colours of the reasons why something failed; rarer ones are blue."""

SOLID_LINE: dict[str, Any] = {"fill": "solid"}
DASHED: dict[str, Any] = {"fill": "dash", "dash": [8, 6]}
DOTTED: dict[str, Any] = {"fill": "dot", "dash": [2, 5]}

OPERATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (colour, SOLID_LINE) for name, colour in _READS.items()},
    **{f"{name}_cold": (colour, DASHED) for name, colour in _READS.items()},
    "lob_read": (GREY, SOLID_LINE),
    **{name: (colour, DOTTED) for name, colour in _WRITES.items()},
}
"""Colour and line of each operation: a cold read has the colour of its warm one and is dashed, writes are dotted."""


def mapped(words: Iterable[Word]) -> list[dict[str, Any]]:
    """Value mappings of Grafana: each code as its word, in its colour."""
    options = {
        str(word.code): {"text": word.text, "color": word.colour, "index": index} for index, word in enumerate(words)
    }
    return [{"type": "value", "options": options}]


def steps(first: str, *later: tuple[float, str]) -> dict[str, Any]:
    """Thresholds of Grafana: the colour below all of them, then (value, colour from there on)."""
    return {
        "mode": "absolute",
        "steps": [{"color": first, "value": None}, *({"color": colour, "value": value} for value, colour in later)],
    }
