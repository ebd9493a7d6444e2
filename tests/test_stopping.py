"""The end takes one budget, whatever its parts do with theirs; counted by what they are given, not by the clock."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from exporter.app import LAST_RESORT
from exporter.domain.clock import FakeClock
from exporter.stopping import KEPT_FOR_HISTORY, STOP_WITHIN, Budget, take_down

PROMISED = 5.0


@dataclass
class Part:
    """Uses all the time that it is given, and `more`."""

    name: str
    clock: FakeClock
    calls: list[tuple[str, float]]
    more: float = 0.0
    asked: list[str] = field(default_factory=list)

    def ask_to_stop(self) -> None:
        self.asked.append(self.name)

    def stop(self, timeout: float) -> bool:
        self.calls.append((self.name, timeout))
        self.clock.advance(timeout + self.more)
        return False


def ended(more: float = 0.0) -> tuple[list[tuple[str, float]], float, Part]:
    """What each part was given, the time that all took, the probes."""
    clock, calls = FakeClock(), list[tuple[str, float]]()

    def make(name: str) -> Part:
        return Part(name, clock, calls, more)

    begun, probes = clock.monotonic(), make("probes")
    take_down(clock, make("web"), probes, make("renderer"), make("history").stop)
    return calls, clock.monotonic() - begun, probes


def test_parts_that_use_all_they_are_given_stay_within_one_budget() -> None:
    calls, took, probes = ended()
    assert [name for name, _ in calls] == ["web", "probes", "renderer", "history"]
    assert probes.asked == ["probes"]
    assert took <= STOP_WITHIN + 1e-6
    assert calls[-1][1] >= KEPT_FOR_HISTORY


@pytest.mark.parametrize("more", [0.2, 1.0, 5.0])
def test_what_one_part_uses_beyond_its_own_is_taken_from_the_others(more: float) -> None:
    calls, _, _ = ended(more)
    clock = FakeClock()
    budget, used = Budget(clock, STOP_WITHIN), 0.0
    for _, given in calls:
        assert given <= max(0.0, STOP_WITHIN - used) + 1e-6
        used += given + more
    assert budget.left() == STOP_WITHIN


def test_even_the_last_resort_is_in_time() -> None:
    assert STOP_WITHIN + LAST_RESORT < PROMISED
