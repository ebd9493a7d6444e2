"""The pairs of one target as its worker knows them: built if need be, verified, and made ready to be measured."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from exporter.config.schema import PairSettings
from exporter.domain.errors import Reason, TargetError
from exporter.domain.model import PairFacts
from exporter.engines.base import Progress, Session
from exporter.probing.canary import ABORTING, SERVER_CLOCK, Canary
from exporter.probing.sessions import HeldSessions

PREPARE_TIMEOUT = 10.0
VERIFY_TIMEOUT = 30.0
PROVISION_TIMEOUT = 3600.0


class Twins:
    """What is kept is the newest verification of each pair, and which of them are warm.

    `checked` hears of every verification, `connected` of the sessions that were opened for a pair: how many, and
    the seconds that took.
    """

    def __init__(
        self,
        self_provisioning: bool,
        sessions: HeldSessions,
        canaries: Iterable[Canary],
        checked: Callable[[PairFacts], None],
        connected: Callable[[Session, int, float], None],
    ) -> None:
        self._self_provisioning, self._sessions, self._canaries = self_provisioning, sessions, tuple(canaries)
        self._checked, self._connected = checked, connected
        self._facts: dict[str, PairFacts] = {}
        self._clocks: dict[str, str] = {}
        self._warm: set[str] = set()
        self._unbuilt: dict[str, str] = {}

    def refresh(self, session: Session, pairs: Iterable[PairSettings], progress: Progress) -> TargetError | None:
        """Build and verify all pairs. What keeps one from being built hides nothing of the others: the first such
        error. Raises what ends the session, and what verification raises."""
        first: TargetError | None = None
        for pair in pairs:
            self._unbuilt.pop(pair.name, None)
            try:
                self.build(session, pair, progress)
            except TargetError as error:
                if isinstance(error, ABORTING):
                    raise
                first = first or error
                self._unbuilt[pair.name] = str(error)
            self.verify(session, pair)
        return first

    def build(self, session: Session, pair: PairSettings, progress: Progress) -> None:
        """Make or mend the twins of a pair that is not known to be valid, where that is ours to do."""
        known = self._facts.get(pair.name)
        if self._self_provisioning and (known is None or not known.valid):
            session.provision(pair, progress, PROVISION_TIMEOUT)

    def verify(self, session: Session, pair: PairSettings) -> PairFacts:
        facts = session.verify(pair, VERIFY_TIMEOUT)
        clock = session.facts().clock
        if clock == SERVER_CLOCK:
            # Times of two clocks must not meet in one statistic.
            facts = replace(facts, epoch=f"{facts.epoch}-{clock}")
        self._facts[pair.name], self._clocks[pair.name] = facts, clock
        self._checked(facts)
        return facts

    def ready(self, session: Session, pair: PairSettings) -> PairFacts | None:
        """The newest verification of a pair that can be measured now, after warm-up; None when it cannot."""
        self._sessions.prepare(pair.name)
        prepared = session.prepare(pair, PREPARE_TIMEOUT)
        if prepared.connects:
            self._connected(session, prepared.connects, prepared.connect_seconds)
        facts = self._facts.get(pair.name)
        if facts is None or prepared.changed or session.facts().clock != self._clocks[pair.name]:
            facts = self.verify(session, pair)
        if facts.attribution is None:
            return None
        if prepared.connects or pair.name not in self._warm:
            for canary in self._canaries:
                if canary.pair.name == pair.name:
                    canary.warm_up(session, facts)
            self._warm.add(pair.name)
        return facts

    def why_not(self, pair: str) -> str:
        """Why a pair cannot be measured, in words."""
        facts = self._facts.get(pair)
        # That a twin is missing is only the consequence of what kept it from being built.
        return self._unbuilt.get(pair) or (facts.problem if facts is not None else Reason.UNAVAILABLE.value)

    def forget(self) -> None:
        """The session is closed: what was found in it says nothing about the next one."""
        self._facts.clear()
        self._clocks.clear()
        self._warm.clear()
