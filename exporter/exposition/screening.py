"""Keeps out what cannot be true: engines and drivers hand over None, text, NaN, negative times.

One such value would poison a sum for ever, or make the whole page fail; so each is replaced by None
(unknown) and counted, and a tick that lost a duration enters no statistic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Real

from exporter.config.secrets import shown
from exporter.domain.model import Burst, Sample, Snapshot, Tick, Variant, Work

LARGEST = 1e18
"""Nothing that is measured here is larger; the sum of anything smaller stays finite."""

LONGEST_LABEL = 128
"""Characters of a label value; longer ones are cut."""

LONGEST_WORDS = 500
"""Characters of a sentence for people."""

LONGEST_LIST = 2000
"""Characters of several sentences, such as all that a collector could not read."""


def number(value: object) -> float | None:
    """The value as a finite, believable number that is not negative, else None."""
    if isinstance(value, bool) or not isinstance(value, Real | Decimal):
        return None
    try:
        converted = float(value)
    except (OverflowError, ValueError):
        return None
    return converted if 0 <= converted <= LARGEST else None


def count(value: object) -> int | None:
    """The value as a whole number that is not negative, else None."""
    converted = number(value)
    return int(converted) if converted is not None and converted.is_integer() else None


def label(value: object) -> str:
    """Text that is safe as a label value in both formats: one line, printable, valid UTF-8, bounded, no secret."""
    return words(value)[:LONGEST_LABEL]


def words(value: object, longest: int = LONGEST_WORDS) -> str:
    """Text for people, such as the message of a driver, as safe as a label and longer."""
    # A driver may repeat what it was given. The secret must be whole to be found, so it goes before the rest is cut.
    text = shown(str(value))[:longest].encode("utf-8", "replace").decode("utf-8")
    return "".join(character if character.isprintable() else " " for character in text)


@dataclass(frozen=True, slots=True)
class ScreenedTick:
    """A tick without garbage; `invalid` counts the values that were ignored.

    `whole` is False when samples were lost, or the sides differ in their number.
    """

    tick: Tick
    whole: bool
    invalid: int

    @property
    def usable(self) -> bool:
        """Whether the tick may enter statistics."""
        return self.whole and self.tick.dropped is None


class _Screen:
    """Counts what it ignores."""

    def __init__(self) -> None:
        self.invalid = 0

    def known(self, value: object) -> float | None:
        """A value of a successful sample that must be there."""
        found = number(value)
        self.invalid += found is None
        return found

    def work(self, work: Work) -> Work:
        def screened(value: object, kind: Callable[[object], float | None]) -> float | None:
            if value is None:
                return None
            found = kind(value)
            self.invalid += found is None
            return found

        return Work(
            screened(work.cpu_seconds, number),
            screened(work.server_seconds, number),
            *(
                None if found is None else int(found)
                for found in (screened(value, count) for value in (work.blocks_read, work.decrypts, work.encrypts))
            ),
        )

    def sample(self, sample: Sample) -> Sample | None:
        """The sample as it can be believed; None when its time cannot."""
        if sample.failure is not None:
            # Whatever time a failure took, it counts as infinitely slow.
            return replace(sample, duration=math.inf, work=Work())
        times = [
            self.known(value)
            for value in (sample.duration, sample.execute_seconds, sample.fetch_seconds, sample.commit_seconds)
        ]
        work = self.work(sample.work)
        duration, execute, fetch, commit = times
        if duration is None or execute is None or fetch is None or commit is None:
            return None
        return Sample(sample.position, duration, execute, fetch, commit, work)


def screened_snapshot(snapshot: Snapshot) -> tuple[Snapshot, int]:
    """The dense measurement without the ticks that lost something, and how many values were ignored."""
    results = [screened(tick) for tick in snapshot.ticks]
    kept = tuple(result.tick for result in results if result.whole)
    return replace(snapshot, ticks=kept), sum(result.invalid for result in results)


def screened(tick: Tick) -> ScreenedTick:
    """Take what can be believed of a tick. A sample with an impossible time is left out."""
    screen = _Screen()
    bursts = {
        variant: Burst(
            tuple(kept for sample in tick.burst(variant).samples if (kept := screen.sample(sample)) is not None)
        )
        for variant in Variant
    }
    encrypted, plain = bursts[Variant.ENCRYPTED], bursts[Variant.PLAIN]
    started = number(tick.started)
    screen.invalid += started is None
    complete = all(len(bursts[variant].samples) == len(tick.burst(variant).samples) for variant in Variant)
    even = len(encrypted.samples) == len(plain.samples) > 0
    believed = replace(tick, encrypted=encrypted, plain=plain, started=started or 0.0)
    return ScreenedTick(believed, complete and even and started is not None, screen.invalid)
