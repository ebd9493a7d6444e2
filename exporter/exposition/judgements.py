"""What may be said of a series at the moment: its judgement, as far as it is about what is there now.

A breach is latched, so it is told whatever happens. Numbers and evidence are told while the pair is measured and only of
the epoch that it is in. The state is told as long as there is somebody to tell it: that a target cannot be read, or that
no samples arrive, is true knowledge about our own verdict.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from exporter.exposition.series_book import Judged
from exporter.exposition.view import SeriesView
from exporter.overhead.series import Judgement
from exporter.overhead.verdict import State

_LASTING = frozenset({State.OUTAGE, State.NO_DATA, State.HOLD_OFF, State.FIRING, State.RECOVERING})
"""States that a new epoch does not end by itself."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """`up` is that of the target, None while its probe process is down; `speaks`: the pair is valid and measured;
    `epoch` is the one that it is in, None while that is unknown."""

    up: bool | None
    speaks: bool
    epoch: str | None


def shown(series: SeriesView, judged: Judged, now: Circumstances) -> SeriesView:
    """The same series with what is known of it."""
    series = replace(series, breached=judged.breached, breaches=judged.breaches)
    judgement = judged.judgement
    if judgement is None or now.up is None:
        return series
    current = now.speaks and judged.measured and judgement.hour.epoch == now.epoch
    series = replace(series, state=_state(judgement, now, current))
    if not current:
        # What was measured before a change says nothing about what is there now.
        return series
    day = judgement.day
    return replace(
        series,
        summary=judgement.hour,
        day=day if day.hours and day.epoch == now.epoch else None,
        evidence=judged.evidence,
    )


def _state(judgement: Judgement, now: Circumstances, current: bool) -> State:
    if judgement.state is State.CERTIFYING:
        return State.CERTIFYING
    if not now.up:
        return State.OUTAGE
    if not now.speaks:
        return State.NO_DATA
    return judgement.state if current or judgement.state in _LASTING else State.WARMING
