"""What a breach is, in words that the page and the log share."""

from __future__ import annotations

from datetime import UTC, datetime

from exporter.exposition.view import BreachView
from exporter.overhead import formats
from exporter.overhead.evidence import Name


def exceeded(name: Name) -> str:
    """`P99 exceeds the plain twin by more than 20 %`."""
    than = "the plain twin" if name.reference == "plain" else f"the {name.reference}"
    return f"P{name.percentile} exceeds {than} by more than {formats.overhead(name.threshold).removeprefix('+')}"


def since(onset: float | None, uncertainty: float | None, now: float) -> str:
    """`since about 14:20 UTC, give or take 10 min` for Unix times; empty where nobody can tell."""
    if onset is None or uncertainty is None:
        return ""
    return f"since about {_clock(onset, now)}, give or take {formats.age(uncertainty)}"


def sentence(breach: BreachView, now: float) -> str:
    """The whole of it: what is exceeded, since when, and when that was found."""
    parts = (exceeded(breach.name), since(breach.onset, breach.uncertainty, now))
    return f"{' '.join(part for part in parts if part)} (found at {_clock(breach.since, now)})"


def _clock(at: float, now: float) -> str:
    """Without the day, if it is the same."""
    moment, today = datetime.fromtimestamp(at, UTC), datetime.fromtimestamp(now, UTC).date()
    return moment.strftime("%H:%M UTC" if moment.date() == today else "%Y-%m-%d %H:%M UTC")
