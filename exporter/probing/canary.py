"""One paired, interleaved, verified measurement of one operation on the twins of a pair.

Protocol: samples of both twins alternate in pairs; the order inside each pair is a coin, the side that
starts a tick is balanced over every four ticks (a fixed order was seen to report a P99 ratio of 0.16
where 1 is true); both members of a pair use the same key; what a connect warms up is discarded.
A failed or timed-out sample is an observation of infinite duration. It ends its tick after both sides
have the same number of samples, so that a struggling database is not pressed further. One clock times a whole
tick; a query that this clock did not time makes the tick worth nothing.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import chain

from exporter.config.schema import OperationSettings, PairSettings
from exporter.domain.clock import Clock
from exporter.domain.errors import Cancelled, ConnectFailed, Reason, TargetError
from exporter.domain.model import CONTENDED, Burst, Execution, Operation, PairFacts, Sample, Slot, Tick, Variant
from exporter.engines.base import Session
from exporter.probing.meter import Meter
from exporter.probing.operations import CATALOGUE
from exporter.probing.turnstile import Turnstile

KEYS = 2**31

SERVER_CLOCK = "server"
"""What `TargetFacts.clock` says where the server's own time of a query decides, and not the client's."""

ABORTING = (ConnectFailed, Cancelled)
"""Errors after which the tick says nothing about either side: the session is gone."""


class StartingSides:
    """Which side starts each tick: random, but equally often over every four ticks."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._waiting: list[Variant] = []

    def next(self) -> Variant:
        if not self._waiting:
            self._waiting = [Variant.ENCRYPTED, Variant.PLAIN] * 2
            self._rng.shuffle(self._waiting)
        return self._waiting.pop()


class Canary:
    """Measures one operation on one pair of one target; keeps the balance of starting sides."""

    def __init__(
        self,
        target: str,
        pair: PairSettings,
        operation: Operation,
        settings: OperationSettings,
        turnstile: Turnstile,
        rng: random.Random,
        clock: Clock,
        meter: Meter | None = None,
    ) -> None:
        self.target, self.pair, self.operation, self.settings = target, pair, operation, settings
        self._meter = meter or Meter()
        self._turnstile, self._rng, self._clock = turnstile, rng, clock
        self._sides = StartingSides(rng)
        self._facts = CATALOGUE[operation]
        self.problem = ""
        """What went wrong in the newest tick, in the words of the error; empty: nothing."""

    def warm_up(self, session: Session, facts: PairFacts) -> None:
        """Run the first queries after a connect on both twins and discard them; failures show later."""
        self._discard(session, facts, self._facts.warm_ups)

    def bout(self) -> AbstractContextManager[object]:
        """The place of a tick among those of other targets, if its queries are short; to be entered before it."""
        return self._turnstile.bout() if self._facts.short else nullcontext()

    def tick(
        self,
        session: Session,
        facts: PairFacts,
        *,
        first: Variant | None = None,
        unit: int = 0,
        more: Iterable[object] = (),
    ) -> Tick:
        """Measure once. `facts` is the newest verification of the pair and tells which slot is which side.

        When all samples that are configured have succeeded, another pair is measured for each item of `more`. Raises nothing but what is not a `TargetError`; failures are in the tick.
        """
        if self._facts.short:
            self._discard(session, facts, 1)
        self.problem = ""
        started, first = self._clock.wall(), first or self._sides.next()
        measurement = _Measurement(self, session, facts)
        side = first
        for _ in chain(range(self.settings.samples), more):
            if not measurement.pair_of_samples(side, self._rng.randrange(KEYS)):
                break
            side = self._rng.choice((Variant.ENCRYPTED, Variant.PLAIN))
        return Tick(
            target=self.target,
            pair=self.pair.name,
            operation=self.operation,
            epoch=facts.epoch,
            started=started,
            first=first,
            encrypted=Burst(tuple(measurement.samples[Variant.ENCRYPTED])),
            plain=Burst(tuple(measurement.samples[Variant.PLAIN])),
            dropped=measurement.dropped,
            unit=unit,
        )

    def units(self, session: Session, facts: PairFacts, most: int, seconds: float) -> Iterator[Tick]:
        """A dense measurement: up to `most` AB+BA units back to back, ending early after `seconds`.

        At least six units are measured whatever they take, for fewer give no interval; a unit in
        which something failed is the last one.
        """
        begun = self._clock.monotonic()
        for unit in range(most):
            if unit >= 6 and self._clock.monotonic() - begun > seconds:
                return
            first = self._sides.next()
            for side in (first, first.other):
                tick = self.tick(session, facts, first=side, unit=unit)
                yield tick
                if tick.dropped not in (None, CONTENDED) or tick.encrypted.failures or tick.plain.failures:
                    return

    def execute(self, session: Session, facts: PairFacts, variant: Variant, key: int) -> tuple[Execution, bool]:
        """One timed query on one side, and whether our own process was in its way."""
        slot = _slot(facts, variant)
        timeout, contended = self.settings.timeout, False
        if self._facts.short:
            with self._turnstile.turn() as turn:
                execution, contended = session.run(self.pair, slot, self.operation, key, timeout), turn.contended
        else:
            execution = session.run(self.pair, slot, self.operation, key, timeout)
        self._meter.add(execution.work, facts.twin(slot).encrypted is True)
        return execution, contended

    def _discard(self, session: Session, facts: PairFacts, runs: int) -> None:
        sides = [Variant.ENCRYPTED, Variant.PLAIN]
        self._rng.shuffle(sides)
        for side in sides:
            with _ignored():
                for _ in range(runs):
                    self.execute(session, facts, side, self._rng.randrange(KEYS))


class _Measurement:
    """The samples of one tick while it is being measured."""

    def __init__(self, canary: Canary, session: Session, facts: PairFacts) -> None:
        self._canary, self._session, self._facts = canary, session, facts
        self._by_server = session.facts().clock == SERVER_CLOCK
        self._position = 0
        self.samples: dict[Variant, list[Sample]] = {Variant.ENCRYPTED: [], Variant.PLAIN: []}
        self.dropped: str | None = None

    def pair_of_samples(self, first: Variant, key: int) -> bool:
        """Measure both sides with one key; False ends the tick."""
        answers = []
        for side in (first, first.other):
            try:
                execution, contended = self._canary.execute(self._session, self._facts, side, key)
            except TargetError as error:
                self._add(side, Sample(self._position, math.inf, failure=error.reason))
                self._canary.problem = str(error)
                if isinstance(error, ABORTING):
                    self.dropped = error.reason.value
                    return False
                continue
            if contended:
                self.dropped = CONTENDED
            answers.append(execution.answer)
            self._add(side, self._sample(execution))
        if len(answers) == 2 and answers[0] != answers[1]:
            self._fail_verification()
        return len(answers) == 2 and self.dropped is None

    def _add(self, side: Variant, sample: Sample) -> None:
        self.samples[side].append(sample)
        self._position += 1

    def _sample(self, execution: Execution) -> Sample:
        duration = execution.duration
        if self._by_server:
            said = execution.work.server_seconds
            if not isinstance(said, int | float) or not 0 <= said < math.inf:
                return self._untimed()
            duration = said
        return Sample(
            position=self._position,
            duration=duration,
            execute_seconds=execution.execute_seconds,
            fetch_seconds=execution.fetch_seconds,
            commit_seconds=execution.commit_seconds,
            work=execution.work,
        )

    def _untimed(self) -> Sample:
        # The client's time in its place would be compared with the server's.
        self.dropped = Reason.UNAVAILABLE.value
        self._canary.problem = "the server did not say how long the query took"
        return Sample(self._position, math.inf, failure=Reason.UNAVAILABLE)

    def _fail_verification(self) -> None:
        # Nobody can tell which of two different answers is the wrong one: the tick counts for neither side.
        self.dropped = Reason.VERIFICATION.value
        self._canary.problem = "the twins gave different answers"
        for samples in self.samples.values():
            failed = samples.pop()
            samples.append(Sample(failed.position, math.inf, failure=Reason.VERIFICATION))


def _slot(facts: PairFacts, variant: Variant) -> Slot:
    attribution = facts.attribution
    if attribution is None:
        raise ValueError(f"pair {facts.pair}: nobody knows which twin is encrypted")
    return attribution[variant]


@contextmanager
def _ignored() -> Iterator[None]:
    try:
        yield
    except TargetError:
        return
