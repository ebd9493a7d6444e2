"""The lanes of a probe process: who is here, who leaves, and who waits until its predecessor has left.

A target whose settings changed gets a new lane. It starts when the old one has closed its session, or that was given up:
two lanes on one target would open more sessions than allowed, and refuse each other the lock on its twins.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import NamedTuple

from exporter.config.changes import only
from exporter.config.schema import Settings, TargetSettings
from exporter.domain.clock import Clock
from exporter.probing.budget import Key
from exporter.probing.lane import NO_LEGACY, Lane, Legacy
from exporter.probing.messages import collector_intervals
from exporter.probing.schedule import Schedule

Make = Callable[[Settings, TargetSettings, bool, Legacy], Lane]
"""Settings of one target, that target, whether it begins with a snapshot, and what its predecessor leaves to it."""
MOST_REMEMBERED = 100
"""Targets that left, and may come back: what is known of refused secrets, and what they were charged, is kept for them."""


class _Waiting(NamedTuple):
    settings: Settings
    target: TargetSettings
    snapshot: bool


class Roster:
    """Thread-safe. `lanes` may be read at any time: it is never changed, but replaced."""

    def __init__(self, make: Make, schedule: Schedule, clock: Clock) -> None:
        self._make, self._schedule, self._clock = make, schedule, clock
        self._lock = threading.RLock()
        self.lanes: Mapping[str, Lane] = {}
        self._waiting: dict[str, _Waiting] = {}
        self._boosts: dict[str, frozenset[Key]] = {}
        self._former: list[Lane] = []
        self._legacies: dict[str, Legacy] = {}
        self._litter = False

    def join(self, settings: Settings, snapshots: frozenset[str]) -> None:
        """Take the targets of `settings`; their lanes begin as soon as they can."""
        with self._lock:
            for target in settings.targets:
                name = target.name
                self._waiting[name] = _Waiting(only(settings, (name,)), target, name in snapshots)
            self._admit()

    def leave(self, names: Collection[str]) -> None:
        """Give targets up. When this returns, nothing more is said about them."""
        with self._lock:
            for name in names:
                self._waiting.pop(name, None)
                self._boosts.pop(name, None)
                if (lane := self.lanes.get(name)) is not None:
                    self._schedule.drop(name)
                    lane.leave()
                    self._former.append(lane)
                    self._remember(name, lane.legacy())
            self.lanes = {name: lane for name, lane in self.lanes.items() if name not in names}

    def want_boost(self, name: str, keys: frozenset[Key]) -> None:
        """More samples of these operations of a target are wanted, and of no others."""
        with self._lock:
            if (lane := self.lanes.get(name)) is not None:
                lane.want_boost(keys)
            elif name in self._waiting:
                self._boosts[name] = keys

    def step(self) -> int:
        """Give up calls that never end, let those begin who can; how many lanes were given up. Once a second."""
        given_up = sum(lane.abandon_if_stuck() for lane in self.lanes.values())
        with self._lock:
            given_up += sum(lane.give_up_if_stuck() for lane in self._former)
            before = len(self._former)
            self._former = [lane for lane in self._former if not lane.ended() or lane.hanging()]
            self._litter |= len(self._former) < before
            self._admit()
        return given_up

    def take_litter(self) -> bool:
        """Whether lanes have left since the last call, and their memory can be had back."""
        with self._lock:
            litter, self._litter = self._litter, False
            return litter

    def hanging(self) -> int:
        """Calls of former lanes that have still not ended."""
        with self._lock:
            return sum(lane.hanging() for lane in self._former)

    def stop(self) -> tuple[Lane, ...]:
        """Ask all lanes to end; those that have to be waited for."""
        with self._lock:
            self._waiting.clear()
            for lane in self.lanes.values():
                lane.stop()
            return (*self.lanes.values(), *self._former)

    def _admit(self) -> None:
        for name in list(self._waiting):
            former = [lane for lane in self._former if lane.target.name == name]
            if all(lane.ended() for lane in former):
                # What hangs may still be open on the server.
                held = next((lane.legacy().sessions for lane in reversed(former) if lane.hanging()), None)
                legacy = self._legacies.pop(name, NO_LEGACY)._replace(sessions=held)
                self._begin(self._waiting.pop(name), legacy)

    def _remember(self, name: str, legacy: Legacy) -> None:
        self._legacies.pop(name, None)
        # Its sessions count as long as it has not ended, which its lane knows.
        self._legacies[name] = legacy._replace(sessions=None)
        if len(self._legacies) > MOST_REMEMBERED:
            del self._legacies[next(iter(self._legacies))]

    def _begin(self, one: _Waiting, legacy: Legacy) -> None:
        lane = self._make(one.settings, one.target, one.snapshot, legacy)
        lane.start()
        for collector, interval in collector_intervals(one.settings, one.target).items():
            self._schedule.every(
                self._clock.real(interval),
                one.target.name,
                collector,
                partial(lane.offer, collector),
                lane.count_missed,
            )
        lane.want_boost(self._boosts.pop(one.target.name, ()))
        self.lanes = {**self.lanes, one.target.name: lane}
