"""The end of the daemon: one budget of time, of which each part gets what is left, and never more than its share.

Parts that each had a time of their own would add up, and on a busy machine all of them use what they may.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from exporter.domain.clock import Clock

STOP_WITHIN = 4.0
"""Seconds for everything. Five are promised; the last one is for a machine so busy that nothing happens when it should."""
WEB_SHARE, PROBES_SHARE, RENDERER_SHARE = 0.6, 2.2, 0.1
KEPT_FOR_HISTORY = 1.0
"""Seconds that nobody else can use up."""

log = logging.getLogger(__name__)


class Budget:
    """So many seconds from now on."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._end = clock.monotonic() + seconds

    def left(self, most: float = float("inf"), kept: float = 0.0) -> float:
        """The seconds that are left beside the `kept` ones, `most` at most; never negative."""
        return max(0.0, min(most, self._end - kept - self._clock.monotonic()))


class Ending(Protocol):
    """A part that can be told to end, and given seconds for it."""

    def stop(self, timeout: float) -> object: ...


class Probing(Ending, Protocol):
    """Probe processes: they are told first, and work on their end while others are stopped."""

    def ask_to_stop(self) -> None: ...


def take_down(
    clock: Clock,
    web: Ending,
    probes: Probing,
    renderer: Ending,
    keep: Callable[[float], bool],
    seconds: float = STOP_WITHIN,
) -> None:
    """End all parts within `seconds`, in the order in which they feed each other; what hangs is left behind.

    `keep` has the last observations written, within the seconds that it is given, and says whether that was done.
    """
    budget = Budget(clock, seconds)
    probes.ask_to_stop()
    web.stop(budget.left(WEB_SHARE, KEPT_FOR_HISTORY))
    probes.stop(budget.left(PROBES_SHARE, KEPT_FOR_HISTORY))
    renderer.stop(budget.left(RENDERER_SHARE, KEPT_FOR_HISTORY))
    if not keep(budget.left()):
        log.error("the last observations are not in the history: it does not answer")
