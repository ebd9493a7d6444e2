"""One series, whole: its windows, its evidence, its verdict, and all of it that must survive a restart.

One operation on one pair of one target is a series. Ticks and blocks of the history go in, a `Judgement` comes out; who
keeps the series calls `judge` at least once a minute, and writes `to_state` down whenever it writes blocks down, and at
once when `judge`, `add` or `compare_with` report a breach that begins or ends.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from exporter.domain.model import Tick
from exporter.overhead.baseline import divided, upper_reference
from exporter.overhead.blocks import Block
from exporter.overhead.evidence import CRITICAL_THRESHOLD, Detector, Evidence, Name, for_bursts, for_units
from exporter.overhead.ratio import Ratio
from exporter.overhead.series_evidence import SeriesEvidence
from exporter.overhead.tau import HOUR, SIX_HOURS, Wandering, window_estimate
from exporter.overhead.verdict import Breach, Situation, State, Supply, Verdict, word_of_state
from exporter.overhead.window_day import DaySummary, DayWindow
from exporter.overhead.windows import PERCENTILES, SeriesSummary, SeriesWindow
from exporter.overhead.words import DEFAULT_THRESHOLD

_STATE_VERSION = 1
_BLOCK = 300.0
_BASELINE = "baseline"


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is known of a series at one moment. `hour.word` is the word of `state`; `ended` are breaches that just did.

    `evidence` has one entry for each detector, with its name and what is shown; `breaches` those that last.
    """

    hour: SeriesSummary
    day: DaySummary
    state: State
    evidence: tuple[Evidence, ...]
    breaches: tuple[Breach, ...]
    ended: tuple[Breach, ...]


class Series:
    """Not thread-safe; call it from one thread. All times are steady seconds.

    `samples` are those of each side in a tick: with one there is no 99th percentile, and the units are judged.
    Percentiles that are `shown_besides` the median and the 99th are not judged.
    A series that is `certifying` has no evidence and no breach. `began` is when the exporter started to measure.
    """

    def __init__(
        self,
        began: float,
        samples: int,
        *,
        certifying: bool = False,
        shown_besides: Sequence[int] = (),
        threshold: float = DEFAULT_THRESHOLD,
        critical: float | None = CRITICAL_THRESHOLD,
    ) -> None:
        chosen = for_bursts(PERCENTILES, threshold, critical) if samples > 1 else for_units(threshold, critical)
        self._plain = () if certifying else chosen
        self._detectors = self._plain
        self._certifying, self._threshold, self._samples = certifying, threshold, samples
        self._before: dict[int, Ratio] = {}
        self._told = False
        self._hours, self._six_hours = Wandering(HOUR), Wandering(SIX_HOURS)
        percentiles = (*PERCENTILES, *shown_besides) if samples > 1 else (50,)
        self.window = SeriesWindow(percentiles=percentiles, tau=lambda figure: self._hours.tau(figure))
        self._day = DayWindow(percentiles)
        self._evidence = SeriesEvidence(self._detectors)
        self._verdict = Verdict(_names(self._detectors))
        self._supply = Supply(began)
        self._epoch: str | None = None
        self._frozen = False

    # -- what comes in -----------------------------------------------------------------------------------

    def add(self, tick: Tick, at: float) -> tuple[Breach, ...]:
        """Takes any tick that was tried and ended at `at`, dropped ones as well; the breaches that it began."""
        usable = self.window.add(tick, at)
        self._supply.add(tick, at, usable=usable)
        if not usable:
            return ()
        self._enter(tick.epoch)
        fired = list(self._evidence.add(tick, at, self.window.pool, frozen=self._frozen))
        if (unit := self.window.newest_unit) is not None:
            fired += self._evidence.add_unit(unit, frozen=self._frozen)
        return self._verdict.fired(fired, at)

    def restore(self, block: Block, now: float) -> None:
        """Takes a block of the last day from the history, oldest first, before any tick.

        Raises ValueError when the block cannot be true.
        """
        if block.start >= now - HOUR - _BLOCK:
            self.window.restore(block)
        if block.start + _BLOCK <= now:
            self._day.add(block)

    def hold_off(self, at: float) -> None:
        """The database was restarted, or another one took over: its caches are cold."""
        self._evidence.hold_off(at)

    def compare_with(self, before: Mapping[int, Ratio] | None) -> tuple[Breach, ...]:
        """Asks as well whether encrypted / plain grew beyond what it was `before`, by percentile; None: nothing is known.

        Only at the lower threshold: who is twice as slow as the twin is found by the twin. Where the ratio is the one that
        is compared with already, evidence and breach go on; where it is another one, or none, they are gone: the breaches
        that are returned.
        """
        self._told = True
        chosen = {} if before is None else dict(before)
        if chosen == self._before:
            return ()
        renewed = {percent for percent in {*self._before, *chosen} if self._before.get(percent) != chosen.get(percent)}
        self._before, self._detectors = chosen, (*self._plain, *self._against(chosen))
        self._evidence.ask(self._detectors)
        gone = [name for name in self._verdict.breached if name.reference == _BASELINE and name.percentile in renewed]
        return self._verdict.ask(_names(self._detectors), anew=gone)

    @property
    def before(self) -> Mapping[int, Ratio]:
        """What it is compared with: a baseline's encrypted / plain by percentile."""
        return self._before

    # -- what comes out ----------------------------------------------------------------------------------

    def judge(self, now: float, period: float, *, unreachable: bool = False) -> Judgement:
        """Everything at `now`. `period` is the time from tick to tick as it is planned at present, in seconds.

        `unreachable`: there is no connection to the database, so that no tick can be tried.
        """
        self._day.add_closed(self.window.blocks(), now, _BLOCK)
        self._teach(now)
        hour = self.window.summary(now, certifying=self._certifying)
        situation = Situation(
            ratios=_by_reference(hour.latency_ratio, self._before),
            epoch_age=self._evidence.epoch_age(now),
            certifying=self._certifying,
            blind=hour.blind,
            no_data=self._supply.no_data(now, period),
            outage=unreachable or self._supply.outage(now, period),
            held=self._evidence.held(now),
            suspicious=self._evidence.suspicious,
        )
        self._frozen = situation.frozen
        ended = self._verdict.update(situation)
        state = self._verdict.state(situation)
        word = word_of_state(state, situation.ratios, self._threshold)
        return Judgement(
            hour=replace(hour, word=word.value),
            day=self._day.summary(now, self._six_hours),
            state=state,
            evidence=self._evidence.all,
            breaches=self._verdict.breaches,
            ended=ended,
        )

    @property
    def boost_wanted(self) -> bool:
        """Whether more samples in a tick would bring a decision nearer. While its breach lasts, a detector has decided."""
        lasting = self._verdict.breached
        return not self._frozen and any(
            evidence.boost_wanted and not lasting[evidence.detector.name] for evidence in self._evidence.all
        )

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """Every detector's, to be read only."""
        return self._evidence.all

    @property
    def breached(self) -> dict[Name, bool]:
        """For every detector, whether its breach lasts."""
        return self._verdict.breached

    @property
    def breaches(self) -> tuple[Breach, ...]:
        """Those that last."""
        return self._verdict.breaches

    def to_state(self) -> dict[str, Any]:
        """What a restart needs beside the blocks, for JSON, in parts that change at different times.

        `evidence` and `verdict` are a KiB and change every minute, `hours` and `six_hours` are up to 15 KiB and change
        once in an hour.
        """
        return {
            "version": _STATE_VERSION,
            "epoch": self._epoch,
            "evidence": self._evidence.to_state(),
            "verdict": self._verdict.to_state(),
            "hours": self._hours.to_state(),
            "six_hours": self._six_hours.to_state(),
            "before": {str(percent): ratio.to_dict() for percent, ratio in self._before.items()},
        }

    def restore_state(self, state: Mapping[str, Any]) -> None:
        """The inverse of `to_state`, before any tick. Raises ValueError when the state is damaged, and changes nothing.

        A detector whose threshold is no longer the one that is configured begins anew, without its breach. What was
        compared with goes on being so until `compare_with` says otherwise; if it did already, it prevails.
        """
        try:
            version, epoch = state["version"], state["epoch"]
            kept = {int(percent): _ratio(ratio) for percent, ratio in state.get("before", {}).items()}
            before = self._before if self._told else kept
            detectors = (*self._plain, *self._against(before))
            same = [
                one
                for one in detectors
                if one.reference != _BASELINE or kept.get(one.percentile) == before[one.percentile]
            ]
            evidence = SeriesEvidence.from_state(detectors, state["evidence"])
            verdict = Verdict.from_state(_names(same), state["verdict"])
            verdict.ask(_names(detectors))
            hours = Wandering.from_state(HOUR, state["hours"])
            six_hours = Wandering.from_state(SIX_HOURS, state["six_hours"])
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError("damaged state of a series") from error
        if version != _STATE_VERSION or not isinstance(epoch, str | None):
            raise ValueError("damaged state of a series, or one of an unknown version")
        self._epoch, self._evidence, self._verdict = epoch, evidence, verdict
        self._before, self._detectors = before, detectors
        self._hours, self._six_hours = hours, six_hours

    def _against(self, before: Mapping[int, Ratio]) -> tuple[Detector, ...]:
        """The detectors that ask whether the ratio is above that of a baseline, where its upper end is known."""
        found: list[Detector] = []
        for detector in self._plain:
            limit = upper_reference(before[detector.percentile]) if detector.percentile in before else None
            if limit is not None and detector.threshold == self._threshold:
                found.append(replace(detector, reference=_BASELINE, reference_ratio=limit))
        return tuple(found)

    def _enter(self, epoch: str) -> None:
        if self._epoch == epoch:
            return
        # How much the ratio wanders is learned anew; a breach lasts until the new epoch shows that it is over.
        if self._epoch is not None:
            self._hours.clear()
            self._six_hours.clear()
        self._epoch = epoch

    def _teach(self, now: float) -> None:
        self._day.teach(self._six_hours, now)
        ended = now // HOUR * HOUR
        # Later, the window would no longer be that hour.
        if now < ended + _BLOCK and self._hours.newest() < ended - HOUR:
            degrees = round(HOUR / _BLOCK) - 1
            for figure, ratio in self.window.window_ratios(now).items():
                by_units = figure == "cpu" or self._samples == 1
                window = window_estimate(ended - HOUR, ratio, None if by_units else degrees)
                if window is not None:
                    self._hours.add(figure, window)


def _by_reference(ratios: Mapping[int, Ratio], before: Mapping[int, Ratio]) -> dict[tuple[int, str], Ratio]:
    found = {(percent, "plain"): ratio for percent, ratio in ratios.items()}
    for percent, ratio in ratios.items():
        if percent in before and (adjusted := divided(ratio, before[percent])) is not None:
            found[percent, _BASELINE] = adjusted
    return found


def _names(detectors: Sequence[Detector]) -> list[Name]:
    return [detector.name for detector in detectors]


def _ratio(state: Mapping[str, Any]) -> Ratio:
    """The inverse of `Ratio.to_dict`. Raises ValueError and what a damaged mapping raises."""
    ends = [None if state[name] is None else float(state[name]) for name in ("estimate", "lower", "upper")]
    if not all(value is None or (0.0 < value < math.inf) for value in ends):
        raise ValueError("a damaged ratio")
    return Ratio(ends[0], ends[1], ends[2], int(state["samples"]))
