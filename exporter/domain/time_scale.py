"""The one factor by which tests make the time of the program run faster, so that an hour passes in seconds.

What takes place every so many seconds, or is kept, judged or shown for so long (intervals, windows, blocks, expiries,
budgets of an hour, back-offs) is counted in *paced* seconds, of which `factor` pass in one real second. What bounds or
measures a piece of work (deadlines, timeouts, heartbeats of processes, times of queries, lags of standbys) is counted
in real seconds, and so is Unix time: whatever is exported as a timestamp can be compared with the `time()` of Prometheus.

An operator never sees this: it takes two environment variables, the second of which says what is being done.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import NamedTuple

from exporter.domain.errors import ConfigError

SCALE_VARIABLE = "TDE_EXPORTER_TEST_TIME_SCALE"
"""FACTOR@ANCHOR: steady time is Unix time at the Unix time ANCHOR, and runs FACTOR times as fast. All processes that share
a history are given the same."""
CONSENT_VARIABLE = "TDE_EXPORTER_TEST_ONLY"
CONSENT = "the numbers are worthless"
FASTEST = 10_000.0


class TimeScale(NamedTuple):
    """`factor` paced seconds pass in one real second; both times agree at the Unix time `anchor`."""

    factor: float = 1.0
    anchor: float = 0.0

    def steady(self, real: float) -> float:
        """The paced Unix time at a real one."""
        return self.anchor + (real - self.anchor) * self.factor


REAL = TimeScale()


def time_scale(environ: Mapping[str, str] = os.environ) -> TimeScale:
    """What the environment asks for; raises ConfigError where nobody said that this is a test, or it is no scale."""
    text = environ.get(SCALE_VARIABLE)
    if text is None:
        return REAL
    where = f"environment variable {SCALE_VARIABLE}"
    if environ.get(CONSENT_VARIABLE) != CONSENT:
        raise ConfigError(
            "it makes the time run faster, which only the tests of this program may do", where=where, remedy="Unset it"
        )
    try:
        factor, anchor = (float(part) for part in text.split("@"))
    except ValueError:
        factor = anchor = math.nan
    if not (1.0 <= factor <= FASTEST and 0.0 <= anchor < math.inf):
        problem = f"'{text}' is not FACTOR@ANCHOR with a factor from 1 to {FASTEST:.0f} and a Unix time"
        raise ConfigError(problem, where=where, remedy="Correct it, or unset it")
    return TimeScale(factor, anchor)
