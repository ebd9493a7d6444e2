"""What is known about the standbys of one target: read, screened, kept until it is too old.

A lag that cannot be true is unknown. The one exception is a small negative one that the standby's own clock explains:
then there is no lag.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from exporter.config.schema import StandbySettings
from exporter.domain.states import LagKind, StandbyState
from exporter.exposition.screening import LARGEST, count, label, number, words
from exporter.exposition.view import StandbyView

MOST_CHANNELS = 16
"""Replication channels of one standby that are shown; each costs a dozen series."""


class StandbyBook:
    """The standbys of one target, by their configured names, and the replication channels of each."""

    def __init__(self, configured: Iterable[StandbySettings], expiry: float) -> None:
        """`expiry` is how long a state is shown, in seconds."""
        self._expiry = expiry
        self._states: dict[str, dict[str, StandbyState]] = {standby.name: {} for standby in configured}
        self._configured: dict[str, bool] = {}
        self._read: float | None = None

    def read(self, states: Iterable[StandbyState], now: float) -> int:
        """Take what was read at the monotonic time `now`; the number of values that cannot be true."""
        invalid = 0
        found: dict[str, dict[str, StandbyState]] = {name: {} for name in self._states}
        for state in states:
            channels = found.get(state.standby)
            channel = label(state.channel)
            if channels is None or channel in channels or len(channels) >= MOST_CHANNELS:
                invalid += 1
                continue
            channels[channel], ignored = _screened(state)
            invalid += ignored
        self._states, self._read = found, now
        for name, channels in found.items():
            if channels:
                self._configured[name] = any(state.configured for state in channels.values())
        return invalid

    def lost(self) -> None:
        """The probe process is down."""
        self._states, self._read = {name: {} for name in self._states}, None

    def view(self, now: float) -> tuple[StandbyView, ...]:
        """All standbys as they can be shown now."""
        recent = self._read is not None and now - self._read <= self._expiry
        return tuple(
            StandbyView(
                name,
                self._configured.get(name),
                # A channel that was there at the last reading stays, so that it can be said to be unknown.
                {channel: state if recent else None for channel, state in channels.items()} or {"": None},
            )
            for name, channels in self._states.items()
        )


def _screened(state: StandbyState) -> tuple[StandbyState, int]:
    screen = _Screen()
    skew = screen.signed(state.clock_skew)
    lags = dict(state.lags)
    result = replace(
        state,
        configured=bool(state.configured),
        transport_running=screen.flag(state.transport_running),
        apply_running=screen.flag(state.apply_running),
        lags=tuple((kind, screen.lag(lags.get(kind), skew)) for kind in LagKind),
        received_sequence=screen.whole(state.received_sequence),
        applied_sequence=screen.whole(state.applied_sequence),
        key_match=screen.flag(state.key_match),
        configured_delay=screen.lag(state.configured_delay, None),
        clock_skew=skew,
        problem=words(state.problem),
        channel=label(state.channel),
        gap_sequences=screen.whole(state.gap_sequences),
        destination_up=screen.flag(state.destination_up),
    )
    return result, screen.invalid


class _Screen:
    """Turns what cannot be true into None, and counts it."""

    def __init__(self) -> None:
        self.invalid = 0

    def lag(self, value: object, skew: float | None) -> float | None:
        if value is None:
            return None
        found = number(value)
        if found is None and skew is not None:
            early = self._finite(value)
            if early is not None and -abs(skew) <= early < 0:
                return 0.0
        self.invalid += found is None
        return found

    def whole(self, value: object) -> int | None:
        found = None if value is None else count(value)
        self.invalid += value is not None and found is None
        return found

    def signed(self, value: object) -> float | None:
        found = None if value is None else self._finite(value)
        self.invalid += value is not None and found is None
        return found

    def flag(self, value: object) -> bool | None:
        known = value is None or isinstance(value, bool)
        self.invalid += not known
        return value if isinstance(value, bool) else None

    @staticmethod
    def _finite(value: object) -> float | None:
        size = number(-value if isinstance(value, int | float) and value < 0 else value)
        return None if size is None or size > LARGEST else math.copysign(size, float(value))  # type: ignore[arg-type]
