"""Ticks for the statistics, built from plain numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest

from exporter.domain.errors import Reason
from exporter.domain.model import Burst, Operation, Sample, Tick, Variant, Work

TickMaker = Callable[..., Tick]


def burst(durations: Sequence[float], work: Work, offset: int) -> Burst:
    return Burst(
        tuple(
            Sample(2 * place + offset, duration, work=work)
            if math.isfinite(duration)
            else Sample(2 * place + offset, duration, failure=Reason.TIMEOUT)
            for place, duration in enumerate(durations)
        )
    )


@pytest.fixture
def make_tick() -> TickMaker:
    def make(
        encrypted: Sequence[float],
        plain: Sequence[float],
        *,
        first: Variant = Variant.ENCRYPTED,
        work: Work | None = None,
        plain_work: Work | None = None,
        epoch: str = "e1",
        dropped: str | None = None,
        unit: int = 0,
        pair: str = "p",
        operation: Operation = Operation.POINT_SELECT,
    ) -> Tick:
        work = Work(0.002, None, 0, 8, 0) if work is None else work
        plain_work = Work(0.001, None, 0, 0, 0) if plain_work is None else plain_work
        lead = int(first is Variant.PLAIN)
        return Tick(
            target="t",
            pair=pair,
            operation=operation,
            epoch=epoch,
            started=1_800_000_000.0,
            first=first,
            encrypted=burst(encrypted, work, lead),
            plain=burst(plain, plain_work, 1 - lead),
            dropped=dropped,
            unit=unit,
        )

    return make
