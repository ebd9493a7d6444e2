"""Who may write into a database is shown as long as it is known, and said where it is somebody else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from exporter.domain.states import ScratchLock
from exporter.landing import landing
from exporter.probing.messages import LockSeen
from exporter.web.pages.landing import render
from tests.exposition.stages import Stage

HELD = "tde_exporter_scratch_lock_held"
LONGEST = 120.0
"""Seconds: two intervals of the collector that runs least often."""


@pytest.fixture
def told(stage: Stage) -> Callable[[object], float | None]:
    """Tells the ledger who has the lock; what is shown then."""
    stage.begin()

    def tell(lock: object) -> float | None:
        stage.say(LockSeen("embedded", lock))  # type: ignore[arg-type]
        return stage.value(HELD, target="embedded")

    return tell


def page(stage: Stage) -> str:
    return render(landing(stage.ledger.view(), 0.0, 1.0))


def test_one_is_ours_and_nought_is_somebody_elses(told: Callable[[object], float | None]) -> None:
    assert told(ScratchLock(True)) == 1
    assert told(ScratchLock(False, "process 7")) == 0
    assert told(ScratchLock(True)) == 1


def test_unknown_is_absent(stage: Stage, told: Callable[[object], float | None]) -> None:
    assert told(ScratchLock(False, "process 7")) == 0
    assert told(None) is None
    assert stage.known("tde_exporter_invalid_values_total") == 0
    assert told(ScratchLock(True)) == 1
    stage.clock.advance(LONGEST)
    assert stage.value(HELD) == 1
    stage.clock.advance(0.1)
    assert stage.value(HELD) is None


def test_nothing_is_known_while_the_probe_process_is_down(stage: Stage, told: Callable[[object], float | None]) -> None:
    assert told(ScratchLock(True)) == 1
    stage.ledger.process_up(0, False)
    assert stage.value(HELD) is None


@pytest.mark.parametrize("odd", [1, "held", ScratchLock(1), ScratchLock(None)])  # type: ignore[arg-type]
def test_what_is_no_lock_is_ignored_and_counted(
    stage: Stage, told: Callable[[object], float | None], odd: object
) -> None:
    assert told(odd) is None
    assert stage.known("tde_exporter_invalid_values_total") == 1


def test_the_landing_page_says_who_has_it_in_one_line(stage: Stage, told: Callable[[object], float | None]) -> None:
    told(ScratchLock(True))
    assert "scratch lock" not in page(stage)
    told(ScratchLock(False, "process 7 on <web-1>"))
    assert "held by somebody else: process 7 on &lt;web-1&gt;." in page(stage)
    told(ScratchLock(False))
    assert "held by somebody else: another exporter." in page(stage)
    told(None)
    assert "scratch lock" not in page(stage)
