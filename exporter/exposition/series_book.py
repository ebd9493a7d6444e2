"""One series as the ledger keeps it: what waits to be counted, what it says, and what of it survives a restart.

Ticks are queued by whoever delivers messages, without waiting, together with what else must happen in the same order;
everything else belongs to one thread at a time.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from exporter.domain.clock import Clock
from exporter.domain.model import Phase, SeriesKey, Tick, Variant
from exporter.exposition.view import BreachView
from exporter.overhead.baseline import Level, levels
from exporter.overhead.evidence import Evidence, Name
from exporter.overhead.ratio import Ratio
from exporter.overhead.series import Judgement, Series
from exporter.overhead.verdict import Breach
from exporter.overhead.windows import Block

log = logging.getLogger(__name__)

BLOCK = 300.0
WINDOWS = ("hours", "six_hours")
"""The parts of the state that change once an hour, and are most of it."""

Levels = Mapping[Variant, Mapping[int, Level]]
"""Percentiles of either side with their errors."""


class Outline(NamedTuple):
    """A series as it is configured: `samples` of each side in a tick, the seconds from tick to tick, and percentiles that are
    shown besides those that are judged."""

    phase: Phase
    samples: int
    period: float
    shown_besides: tuple[int, ...] = ()


class Plan(NamedTuple):
    """A series as it is measured at present: seconds from tick to tick, and whether its database cannot be reached."""

    period: float
    unreachable: bool = False


class Change(NamedTuple):
    """A breach that began or ended at `at` (steady seconds); `ratio` is the one that its evidence is about.

    One that ended is `dropped` when nobody asks any more: another baseline, or twins that are both plain.
    """

    key: SeriesKey
    name: Name
    at: float
    begun: bool
    ratio: float
    dropped: bool = False


class Dated(NamedTuple):
    """When what led to a breach began, steady seconds, and by how many seconds that may be wrong to either side."""

    onset: float
    uncertainty: float


@dataclass(frozen=True, slots=True)
class Judged:
    """What is known of one series. `judgement` is None before the first one; `measured`: there ever was a sample."""

    judgement: Judgement | None = None
    measured: bool = False
    evidence: tuple[Evidence, ...] = ()
    breached: Mapping[Name, bool] = field(default_factory=dict)
    breaches: tuple[BreachView, ...] = ()


class _HoldOff(NamedTuple):
    at: float


class _Certify(NamedTuple):
    certifying: bool
    at: float


class _Refer(NamedTuple):
    before: Mapping[int, Ratio] | None
    at: float


class SeriesBook:
    """Not thread-safe, but for `offer`, `hold_off`, `certify`, `refer` and `boost_wanted`, which never wait. `began` is when the
    exporter started to measure; all times are steady seconds."""

    def __init__(self, key: SeriesKey, outline: Outline, began: float) -> None:
        self.key, self.outline, self._began = key, outline, began
        self._certifying = self._told = outline.phase is Phase.AA
        self.series = self._anew(began)
        self._waiting: deque[tuple[Tick, float] | _HoldOff | _Certify | _Refer] = deque()
        self.judgement: Judgement | None = None
        self.changed = self.measured = False
        self.judged = float("-inf")
        """When it was judged last, paced seconds."""
        self.changes: list[Change] = []
        self.boost_wanted = False
        self._referred: _Refer | None = None
        self._dates: dict[Name, Dated] = {}
        self._levels: tuple[tuple[tuple[str, float], ...], Levels] = ((), {})

    # -- what comes in -----------------------------------------------------------------------------------

    def offer(self, tick: Tick, at: float) -> int:
        """Queue a tick; how many entries wait now."""
        self._waiting.append((tick, at))
        return len(self._waiting)

    def hold_off(self, at: float) -> None:
        """From `at` on the caches of the database are cold."""
        self._waiting.append(_HoldOff(at))

    def certify(self, certifying: bool, at: float) -> None:
        """Whether both twins are found plain, and meant to be: then there is nothing to judge."""
        if certifying is not self._told:
            self._told = certifying
            self._waiting.append(_Certify(certifying, at))

    def refer(self, ratios: Mapping[int, Ratio] | None, at: float) -> None:
        """What the twins differed by in the baseline, by percentile; None where there is none."""
        if self._referred is None or ratios != self._referred.before:
            self._referred = _Refer(ratios, at)
            self._waiting.append(self._referred)

    def drain(self) -> None:
        """Count what waits."""
        while self._waiting:
            match self._waiting.popleft():
                case _HoldOff(at):
                    self.series.hold_off(at)
                    self.changed = True
                case _Certify(certifying, at):
                    self._begin_anew(certifying, at)
                case _Refer(before, at):
                    self._compare_with(before, at)
                case tick, at:
                    begun = self.series.add(tick, at)
                    self._note(begun, at, begun=True)
                    self.changed = True
                    self.measured |= tick.dropped is None
        self.boost_wanted = self.series.boost_wanted

    def restore(self, block: Block, now: float) -> None:
        """Take a block of the last day from the history. Raises ValueError when it cannot be true."""
        self.series.restore(block, now)
        self.changed = self.measured = True

    # -- what comes out ----------------------------------------------------------------------------------

    def judge(self, now: float, plan: Plan, paced: float) -> None:
        """Everything anew at `now`."""
        self.judgement = self.series.judge(now, plan.period, unreachable=plan.unreachable)
        self._note(self.judgement.ended, now, begun=False)
        self.boost_wanted = self.series.boost_wanted
        self.changed, self.judged = False, paced

    def known(self, clock: Clock) -> Judged:
        """As of the last judgement; the clock turns steady seconds into Unix time."""
        breaches = self.series.breaches
        return Judged(
            self.judgement,
            self.measured,
            self.series.evidence,
            self.series.breached,
            tuple(self._shown(breach, clock) for breach in breaches) if breaches else (),
        )

    def lasting(self) -> list[Change]:
        """The breaches that last, as when they began."""
        return [self._change(breach, breach.since, begun=True) for breach in self.series.breaches]

    def level(self, now: float) -> Levels:
        """The levels of the closed blocks, made anew when another one closed."""
        closed = [block for block in self.series.window.blocks() if block.start + BLOCK <= now]
        of = tuple((block.epoch, block.start) for block in closed)
        if self._levels[0] != of:
            self._levels = (of, levels(closed))
        return self._levels[1]

    def date(self, name: Name, dated: Dated) -> None:
        """When what led to a breach began; of one that does not last any more nobody asks."""
        if self.series.breached.get(name):
            self._dates[name] = dated

    def to_state(self) -> dict[str, Any]:
        """What a restart needs beside the blocks, for JSON."""
        return {
            **self.series.to_state(),
            "certifying": self._certifying,
            "dates": [[*name, *dated] for name, dated in self._dates.items()],
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """The inverse of `to_state`, before anything else. Raises ValueError when it is damaged, and changes nothing.

        How much the ratio wanders (`WINDOWS`) may be missing: it is learned anew.
        """
        before = self._certifying, self.series
        # What the pair is configured as says nothing where it was found to be encrypted by now.
        self._certifying = self.outline.phase is Phase.AA and bool(state.get("certifying", True))
        try:
            series = self._anew(self._began)
            fresh = series.to_state()
            series.restore_state({**{part: fresh[part] for part in WINDOWS}, **state})
            dates = _dates(state)
        except ValueError:
            self._certifying = before[0]
            raise
        self.series, self._told = series, self._certifying
        self._dates = {name: dated for name, dated in dates.items() if series.breached.get(name)}

    def take_over(self, old: SeriesBook, now: float) -> None:
        """Go on from the same series under another outline, before anything else."""
        old.drain()
        self.changes = old.changes
        try:
            self.restore_state(old.to_state())
            for block in old.series.window.blocks():
                self.restore(block, now)
        except ValueError as error:
            log.warning("what was known of a series is left out: %s", error)

    # -- steps -------------------------------------------------------------------------------------------

    def _anew(self, began: float) -> Series:
        outline = self.outline
        return Series(began, outline.samples, certifying=self._certifying, shown_besides=outline.shown_besides)

    def _begin_anew(self, certifying: bool, at: float) -> None:
        if certifying is self._certifying:
            return
        old, self._certifying = self.series, certifying
        self._note(old.breaches, at, begun=False, dropped=True)
        self.series = self._anew(at)
        self.series.compare_with(old.before)
        # What the window holds shows until there is something of the new epoch.
        for block in old.window.blocks():
            self.series.restore(block, at)
        self.changed = True

    def _compare_with(self, before: Mapping[int, Ratio] | None, at: float) -> None:
        # A breach that ends with its detector was about the ratio that this one had.
        asked = {one.detector.name: one.detector.ratio for one in self.series.evidence}
        for breach in self.series.compare_with(before):
            self.changes.append(Change(self.key, breach.name, at, False, asked[breach.name], dropped=True))
            self._dates.pop(breach.name, None)
        self.changed = True

    def _note(self, breaches: tuple[Breach, ...], at: float, *, begun: bool, dropped: bool = False) -> None:
        for breach in breaches:
            self.changes.append(self._change(breach, at, begun=begun)._replace(dropped=dropped))
            self._dates.pop(breach.name, None)

    def _change(self, breach: Breach, at: float, *, begun: bool) -> Change:
        ratio = next(one.detector.ratio for one in self.series.evidence if one.detector.name == breach.name)
        return Change(self.key, breach.name, at, begun, ratio)

    def _shown(self, breach: Breach, clock: Clock) -> BreachView:
        since = clock.wall_at(breach.since)
        dated = self._dates.get(breach.name)
        if dated is None:
            return BreachView(breach.name, since)
        # In whole seconds: the two clocks drift apart, and a time that is known to minutes should not tremble.
        onset, uncertainty = float(round(clock.wall_at(dated.onset))), clock.real(dated.uncertainty)
        return BreachView(breach.name, since, onset, uncertainty)


def _dates(state: Mapping[str, Any]) -> dict[Name, Dated]:
    try:
        return {
            Name(percentile, reference, threshold): Dated(float(onset), float(uncertainty))
            for percentile, reference, threshold, onset, uncertainty in state.get("dates", ())
        }
    except (TypeError, ValueError) as error:
        raise ValueError("damaged times of breaches") from error
