"""How much the ratio of a series wanders: the second level of its intervals, estimated from the last week.

Each window of six hours gives an estimate and says how well it knows it. What the estimates differ by beyond that is
the wandering: tau² = max(0, Var(estimates) - mean(standard error²)), of log ratios.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Mapping
from statistics import fmean, variance
from typing import Any, NamedTuple

from exporter.overhead.ratio import Ratio
from exporter.overhead.student import student_quantile
from exporter.overhead.two_level import DEFAULT_TAU

WINDOW = 6 * 3600.0
"""Seconds. The windows do not overlap: they begin at multiples of it."""
MOST_WINDOWS = 28
"""A week of them."""
FEWEST_WINDOWS = 14
"""With fewer, tau is assumed to be `DEFAULT_TAU`."""

_STATE_VERSION = 1


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

    One epoch at a time: `clear` when another begins.
    """

    def __init__(self) -> None:
        self._windows: dict[str, deque[WindowEstimate]] = {}

    def add(self, figure: str, window: WindowEstimate) -> None:
        """Takes a window; one that does not begin after the newest is known already."""
        kept = self._windows.setdefault(figure, deque(maxlen=MOST_WINDOWS))
        if kept and window.start <= kept[-1].start:
            return
        kept.append(window)
        while kept[0].start <= window.start - MOST_WINDOWS * WINDOW:
            kept.popleft()

    def tau(self, figure: str) -> float:
        return tau_of(self._windows.get(figure, ()))

    def newest(self) -> float:
        """Start of the newest window of any figure; -inf without any."""
        return max((kept[-1].start for kept in self._windows.values() if kept), default=-math.inf)

    def clear(self) -> None:
        self._windows.clear()

    def to_state(self) -> dict[str, Any]:
        """For JSON."""
        windows = {figure: [list(window) for window in kept] for figure, kept in self._windows.items()}
        return {"version": _STATE_VERSION, "windows": windows}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Wandering:
        """The inverse of `to_state`; raises ValueError when the state is damaged or of an unknown version."""
        found = cls()
        try:
            version = state["version"]
            for figure, kept in state["windows"].items():
                for start, log_ratio, error in kept:
                    found.add(str(figure), _window(float(start), float(log_ratio), float(error)))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ValueError("damaged windows") from error
        if version != _STATE_VERSION:
            raise ValueError(f"unknown version {version} of windows")
        return found


def _window(start: float, log_ratio: float, error: float) -> WindowEstimate:
    if not all(map(math.isfinite, (start, log_ratio, error))) or error < 0:
        raise ValueError("no window looks like this")
    return WindowEstimate(start, log_ratio, error)
