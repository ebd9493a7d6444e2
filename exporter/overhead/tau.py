"""How much the ratio of a series wanders: the second level of its intervals, estimated from the last week.

Each of many windows gives an estimate and says how well it knows it. What the estimates differ by beyond that is the
wandering: tau² = max(0, Var(estimates) - mean(standard error²)), of log ratios.

What wanders within hours is partly averaged out in a longer window, so the windows must be about as long as the one
whose interval they widen. In simulations of a ratio that forgets within two hours (`benchmarks/evidence.py`), intervals
of an hour cover the ratio in the long run in 69 % of cases without a second level, in 88 % with tau from windows of
six hours, and in 95 % with tau from windows of an hour. Those of a day take it from windows of six hours: seven days
in a week are too few to learn from.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Iterator, Mapping
from statistics import fmean, variance
from typing import Any, NamedTuple

from exporter.overhead.ratio import Ratio
from exporter.overhead.student import student_quantile
from exporter.overhead.two_level import DEFAULT_TAU

HOUR, SIX_HOURS = 3600.0, 6 * 3600.0
"""Lengths of windows in seconds. They do not overlap: they begin at multiples of their length."""
WEEK = 7 * 86400.0
FEWEST_WINDOWS = 14
"""With fewer, tau is assumed to be `DEFAULT_TAU`."""

_STATE_VERSION = 1
_DIGITS = 6


class WindowEstimate(NamedTuple):
    """What one window found: `start` in steady seconds, a natural logarithm and its standard error."""

    start: float
    log_ratio: float
    error: float


def window_estimate(start: float, ratio: Ratio | None, degrees: int | None = None) -> WindowEstimate | None:
    """From a ratio with the 95 % interval of its window alone (before `two_level`); None when an end is unknown.

    `degrees` are those of the t interval (blocks less one); None for a normal one.
    """
    if ratio is None or not ratio.estimate or not ratio.lower or not ratio.upper:
        return None
    width = 2.0 * (student_quantile(0.975, degrees) if degrees else 1.959964)
    return WindowEstimate(start, math.log(ratio.estimate), math.log(ratio.upper / ratio.lower) / width)


def tau_of(windows: Collection[WindowEstimate]) -> float:
    """The standard deviation of the true log ratio between windows; 3 % as long as there are fewer than 14."""
    if len(windows) < FEWEST_WINDOWS:
        return DEFAULT_TAU
    between = variance(one.log_ratio for one in windows) - fmean(one.error**2 for one in windows)
    return math.sqrt(max(0.0, between))


class Wandering:
    """The windows of the last week of one series, for each figure that has an interval (`"50"`, `"99"`, `"cpu"`).

    One epoch at a time: `clear` when another begins. A week of hours of three figures takes 12 KiB.
    """

    def __init__(self, length: float) -> None:
        self.length = length
        self._windows: dict[str, array[float]] = {}
        # Asked for with every judgement and at every writing, and new once in a window.
        self._taus: dict[str, float] = {}
        self._state: dict[str, Any] | None = None

    def add(self, figure: str, window: WindowEstimate) -> None:
        """Takes a window; one that does not begin after the newest is known already."""
        kept = self._windows.setdefault(figure, array("d"))
        if kept and window.start <= kept[-3]:
            return
        self._forget()
        kept.extend(window)
        while kept[0] <= window.start - WEEK:
            del kept[:3]

    def tau(self, figure: str) -> float:
        if figure not in self._taus:
            self._taus[figure] = tau_of(tuple(self._of(figure)))
        return self._taus[figure]

    def newest(self) -> float:
        """Start of the newest window of any figure; -inf without any."""
        return max((kept[-3] for kept in self._windows.values()), default=-math.inf)

    def clear(self) -> None:
        self._windows.clear()
        self._forget()

    def to_state(self) -> dict[str, Any]:
        """For JSON; the same object as long as nothing changed, to be read only."""
        if self._state is None:
            self._state = self._made_state()
        return self._state

    def _made_state(self) -> dict[str, Any]:
        windows = {
            figure: [
                [round(start), round(log_ratio, _DIGITS), round(error, _DIGITS)]
                for start, log_ratio, error in self._of(figure)
            ]
            for figure in self._windows
        }
        return {"version": _STATE_VERSION, "length": self.length, "windows": windows}

    @classmethod
    def from_state(cls, length: float, state: Mapping[str, Any]) -> Wandering:
        """The inverse of `to_state`; raises ValueError when the state is damaged or of an unknown version."""
        found = cls(length)
        try:
            version, same = state["version"], state["length"] == length
            for figure, kept in state["windows"].items():
                for start, log_ratio, error in kept:
                    found.add(str(figure), _window(float(start), float(log_ratio), float(error)))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError("damaged windows") from error
        if version != _STATE_VERSION or not same:
            raise ValueError(f"windows of an unknown version {version} or length")
        return found

    def _forget(self) -> None:
        self._taus.clear()
        self._state = None

    def _of(self, figure: str) -> Iterator[WindowEstimate]:
        kept = self._windows.get(figure, ())
        return (WindowEstimate(*kept[place : place + 3]) for place in range(0, len(kept), 3))


def _window(start: float, log_ratio: float, error: float) -> WindowEstimate:
    if not all(map(math.isfinite, (start, log_ratio, error))) or error < 0:
        raise ValueError("no window looks like this")
    return WindowEstimate(start, log_ratio, error)
