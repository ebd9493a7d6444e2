"""From evidence to a verdict that people are called for: latches, states, and the one word for a series.

A breach is latched: it begins when the evidence suffices and ends when the ratio of the last hour lies below the
threshold even at its upper bound. Nothing else ends it: no missing data, no outage, no restart, no time.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from exporter.domain.model import Tick
from exporter.overhead.evidence import Name
from exporter.overhead.ratio import Ratio
from exporter.overhead.words import DEFAULT_THRESHOLD, Word

WARMING_SECONDS = 3600.0
"""The first hour of an epoch: the window is not yet full."""

_STATE_VERSION = 1
_SUPPLY_SECONDS = 600.0
_FEWEST_TICKS = 4
"""Where ticks are rarer, that many of them are waited for before data are said to be missing."""
_OUTAGE_SECONDS = 60.0
_OUTAGE_TICKS = 3


class State(StrEnum):
    """What is going on in a series, in more detail than its `Word`."""

    CERTIFYING = "certifying"
    OUTAGE = "outage"
    NO_DATA = "no_data"
    BLIND = "blind"
    HOLD_OFF = "hold_off"
    FIRING = "firing"
    RECOVERING = "recovering"
    WARMING = "warming"
    SUSPECT = "suspect"
    OK = "ok"


@dataclass(frozen=True, slots=True)
class Situation:
    """What a verdict is made of, at one moment.

    `ratios` holds the published ratios of the last hour, by (percentile, reference); `blind` as in `SeriesSummary`.
    `no_data` and `outage` come from `Supply`, `held`, `suspicious` and `epoch_age` (seconds) from `SeriesEvidence`.
    """

    ratios: Mapping[tuple[int, str], Ratio]
    epoch_age: float
    certifying: bool = False
    blind: bool | None = None
    no_data: bool = False
    outage: bool = False
    held: bool = False
    suspicious: bool = False

    @property
    def frozen(self) -> bool:
        """Whether nothing may be concluded: no evidence grows, and no breach begins or ends."""
        return self.certifying or self.outage or self.no_data or bool(self.blind)


@dataclass(frozen=True, slots=True)
class Breach:
    """A latched verdict; `since` is when the evidence sufficed, in steady seconds."""

    name: Name
    since: float


class Verdict:
    """The breaches of one series, and its state. Not thread-safe; keep it beside the evidence of the same detectors."""

    def __init__(self, names: Iterable[Name]) -> None:
        self._since: dict[Name, float | None] = dict.fromkeys(names)

    def fired(self, names: Sequence[Name], at: float) -> tuple[Breach, ...]:
        """The evidence of these detectors suffices at `at`; the breaches that begin thereby."""
        begun = [Breach(name, at) for name in names if name in self._since and self._since[name] is None]
        self._since.update({breach.name: breach.since for breach in begun})
        return tuple(begun)

    def ask(self, names: Iterable[Name], anew: Iterable[Name] = ()) -> tuple[Breach, ...]:
        """From now on these are the detectors; the breaches that are gone, with their detectors or as those of `anew`."""
        kept, renewed = list(names), set(anew)
        gone = [breach for breach in self.breaches if breach.name not in kept or breach.name in renewed]
        lost = {breach.name for breach in gone}
        self._since = {name: None if name in lost else self._since.get(name) for name in kept}
        return tuple(gone)

    def update(self, situation: Situation) -> tuple[Breach, ...]:
        """Ends what is over; the breaches that ended. Call it whenever the ratios were made anew."""
        if situation.frozen or situation.held:
            return ()
        ended = []
        for breach in self.breaches:
            percentile, reference, threshold = breach.name
            ratio = situation.ratios.get((percentile, reference))
            if ratio is not None and ratio.upper is not None and ratio.upper < threshold:
                self._since[breach.name] = None
                ended.append(breach)
        return tuple(ended)

    @property
    def breaches(self) -> tuple[Breach, ...]:
        """Those that last."""
        return tuple(Breach(name, since) for name, since in self._since.items() if since is not None)

    @property
    def breached(self) -> dict[Name, bool]:
        """For every detector, whether its breach lasts."""
        return {name: since is not None for name, since in self._since.items()}

    def state(self, situation: Situation) -> State:
        """The state of the series.

        What keeps everything from being judged comes first: the state says what is known now, while a breach lasts
        unseen. A blind series has measured something other than the cost of encryption.
        """
        for state, holds in (
            (State.CERTIFYING, situation.certifying),
            (State.OUTAGE, situation.outage),
            (State.NO_DATA, situation.no_data),
            (State.BLIND, bool(situation.blind)),
            (State.HOLD_OFF, situation.held),
        ):
            if holds:
                return state
        if breaches := self.breaches:
            return State.RECOVERING if all(_recovers(one.name, situation.ratios) for one in breaches) else State.FIRING
        if not situation.ratios or situation.epoch_age < WARMING_SECONDS:
            return State.WARMING
        return State.SUSPECT if situation.suspicious else State.OK

    def to_state(self) -> dict[str, Any]:
        """What a restart of the exporter needs, for JSON."""
        return {
            "version": _STATE_VERSION,
            "breaches": [[*breach.name, breach.since] for breach in self.breaches],
        }

    @classmethod
    def from_state(cls, names: Iterable[Name], state: Mapping[str, Any]) -> Verdict:
        """The inverse of `to_state`; a breach of a detector that is no longer configured is gone with it.

        Raises ValueError when the state is damaged or of an unknown version.
        """
        found = cls(names)
        try:
            version, kept = state["version"], [tuple(entry) for entry in state["breaches"]]
            breaches = {
                Name(percentile, reference, threshold): float(since) for percentile, reference, threshold, since in kept
            }
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError("damaged verdict") from error
        if version != _STATE_VERSION:
            raise ValueError(f"unknown version {version} of a verdict")
        if not all(map(math.isfinite, breaches.values())):
            raise ValueError("damaged verdict")
        found._since.update({name: since for name, since in breaches.items() if name in found._since})
        return found


def word_of_state(state: State, ratios: Mapping[tuple[int, str], Ratio], threshold: float = DEFAULT_THRESHOLD) -> Word:
    """The word that is shown for a state; `ratios` as in `Situation`."""
    if state is State.OK:
        # Only the twin can show that the cost is small, for a baseline may be known too badly to show anything; but
        # what has surely grown since then is not within the budget.
        shown = all(
            ratio.upper is not None and ratio.upper < threshold
            if reference == "plain"
            else ratio.lower is None or ratio.lower <= threshold
            for (_, reference), ratio in ratios.items()
        )
        return Word.WITHIN_BUDGET if shown else Word.UNDECIDED
    return _WORDS[state]


_WORDS = {
    State.CERTIFYING: Word.CERTIFYING,
    State.OUTAGE: Word.HELD,
    State.NO_DATA: Word.NO_DATA,
    State.BLIND: Word.BLIND,
    State.HOLD_OFF: Word.HELD,
    State.FIRING: Word.OVER_BUDGET,
    State.RECOVERING: Word.OVER_BUDGET,
    State.WARMING: Word.WARMING,
    State.SUSPECT: Word.UNDECIDED,
}


class Supply:
    """Whether samples come as often as they should, and whether the database answers at all.

    Give it every tick that was tried, and `checked` the time of any tick that never was (no connection).
    """

    def __init__(self, began: float) -> None:
        self._began = began
        self._usable: deque[float] = deque(maxlen=10_000)
        self._recent: deque[tuple[float, bool]] = deque(maxlen=1000)

    def add(self, tick: Tick, at: float, *, usable: bool) -> None:
        """A tick that ended at `at`; `usable` when it entered the statistics."""
        if usable:
            self._usable.append(at)
        if tick.encrypted.samples and tick.plain.samples:
            self._recent.append(
                (at, all(2 * len(one.failures) > len(one.samples) for one in (tick.encrypted, tick.plain)))
            )

    def no_data(self, now: float, period: float) -> bool:
        """Whether less than half of the ticks of the last ten minutes came, one being due every `period` seconds."""
        window = max(_SUPPLY_SECONDS, _FEWEST_TICKS * period)
        while self._usable and self._usable[0] < now - window:
            self._usable.popleft()
        return now - self._began >= window and len(self._usable) < 0.5 * window / period

    def outage(self, now: float, period: float) -> bool:
        """Whether most samples of both sides failed in most of the ticks of the last minute."""
        since = now - max(_OUTAGE_SECONDS, _OUTAGE_TICKS * period)
        while self._recent and self._recent[0][0] < since:
            self._recent.popleft()
        failed = sum(both for _, both in self._recent)
        return 2 * failed > len(self._recent)


def _recovers(name: Name, ratios: Mapping[tuple[int, str], Ratio]) -> bool:
    ratio = ratios.get((name.percentile, name.reference))
    return ratio is not None and ratio.estimate is not None and ratio.estimate < name.threshold
