"""The parent's side of all probe processes: start, notice death and silence, start again, exchange targets, stop."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping

from exporter.config.changes import Changes, only
from exporter.config.schema import Settings
from exporter.domain.clock import Clock
from exporter.domain.model import Operation
from exporter.probing.dealing import Share, deal, processes_for
from exporter.probing.messages import Assignment, BoostWanted, Reassignment
from exporter.probing.probe import Deliver, Probe, UpChanged

CHECK_SECONDS = 0.5
FROZEN_SECONDS = 1.5
"""A check that comes this much later than the last one shows that this process did not run in between."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
HEALTHY_AFTER = 60.0
KILL_SECONDS = 0.4
"""Of the time for the end: what is left for processes that do not end by themselves."""
RETIRE_SECONDS = 5.0
"""What a process may take to its end when nothing is left to it."""

log = logging.getLogger(__name__)


class Supervisor:
    """Keeps one probe process per share of the targets alive. `gone` hears of processes that there will be no more."""

    def __init__(
        self,
        settings: Settings,
        clock: Clock,
        deliver: Deliver,
        up_changed: UpChanged,
        wants_snapshot: Callable[[str], bool],
        gone: Callable[[int], None] = lambda _: None,
    ) -> None:
        self._settings, self._clock = settings, clock
        self._deliver, self._up_changed, self._wants_snapshot = deliver, up_changed, wants_snapshot
        self._gone = gone
        self.shares: Mapping[int, Share] = deal(settings.targets, processes_for(settings))
        self._changing = threading.RLock()
        self._number = 0
        self._probes: dict[int, Probe] = {}
        self._boosts: dict[str, BoostWanted] = {}
        self._pauses: dict[int, float] = {}
        self._not_before: dict[int, float] = {}
        self._stopping = threading.Event()
        self._ticked = clock.monotonic()
        self._thread = threading.Thread(target=self._watch, name="supervisor", daemon=True)

    def start(self) -> None:
        with self._changing:
            for process in self.shares:
                self._start(process)
        self._thread.start()

    def pids(self) -> dict[int, int]:
        return {process: probe.pid for process, probe in self._probes.copy().items()}

    def loop_age(self) -> float:
        """Seconds since the supervising loop last went round; large when it hangs."""
        return self._clock.monotonic() - self._ticked

    def want_boost(self, target: str, keys: frozenset[tuple[str, Operation]]) -> None:
        """More samples of these (pair, operation) of a target are wanted, and of no others. The process that has it is told
        within a second, and so is every successor of that process. Never blocks."""
        self._boosts[target] = BoostWanted(target, keys)

    def hush(self, targets: frozenset[str]) -> int:
        """Hear nothing about these targets until `reassign` was called with the number that this gives, and has reached
        their processes: what is under way is about targets as they were."""
        with self._changing:
            self._number += 1
            for process, share in self.shares.items():
                if (probe := self._probes.get(process)) is not None and not targets.isdisjoint(share.targets):
                    probe.hush([name for name in share.targets if name in targets], self._number)
            return self._number

    def reassign(self, settings: Settings, changes: Changes, number: int) -> None:
        """Probe the targets of other settings from now on. Those that are kept stay where they are, and go on.

        Waits for nobody: lanes and processes that are not needed any more end by themselves, or are ended in time.
        """
        with self._changing:
            before, relog = self.shares, settings.log != self._settings.log
            self._settings = settings
            self.shares = deal(settings.targets, processes_for(settings), before)
            for name in changes.removed:
                self._boosts.pop(name, None)
            if self._stopping.is_set():
                return
            for process, probe in self._probes.items():
                if probe.retired:
                    continue
                share, was = self.shares.get(process), before[process]
                if share is None or share.company != was.company:
                    probe.retire(self._clock.monotonic())
                    continue
                joining = {name for name in share.targets if name not in was.targets or name in changes.joining}
                leaving = {name for name in was.targets if name not in share.targets or name in changes.leaving}
                if joining or leaving or relog:
                    message = Reassignment(
                        number, frozenset(leaving), only(settings, joining), self._snapshots(joining)
                    )
                    probe.reassign(message)
            for process in before.keys() - self.shares.keys() - self._probes.keys():
                # It was down, and need not come up again.
                self._pauses.pop(process, None)
                self._not_before.pop(process, None)
                self._gone(process)
            for process in self.shares.keys() - before.keys() - self._probes.keys():
                self._start(process)

    def ask_to_stop(self) -> None:
        """Have all processes end by themselves, and start no more; does not wait."""
        self._stopping.set()
        for probe in list(self._probes.values()):
            probe.ask_to_stop()

    def stop(self, timeout: float) -> None:
        """End all processes within `timeout` seconds in all, by force if they do not listen; there may be none yet."""
        end = self._clock.monotonic() + timeout

        def left(kept: float = 0.0) -> float:
            return max(0.0, end - kept - self._clock.monotonic())

        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(left(timeout / 2))
        # Whoever was started in the meantime is told now.
        self.ask_to_stop()
        probes = list(self._probes.values())
        for probe in probes:
            probe.wait(left(min(KILL_SECONDS, timeout / 4)))
        for probe in probes:
            probe.kill()
        for probe in probes:
            probe.end(left())

    def _watch(self) -> None:
        slept = self._clock.monotonic()
        while not self._stopping.wait(CHECK_SECONDS):
            self._ticked = self._clock.monotonic()
            with self._changing:
                if self._ticked - slept > FROZEN_SECONDS:
                    # We were stopped ourselves (a signal, a frozen container) and heard nobody meanwhile.
                    for probe in self._probes.values():
                        probe.excuse()
                for process in sorted(self.shares.keys() | self._probes.keys()):
                    self._check(process)
                    self._pass_on_boosts(process)
            slept = self._clock.monotonic()

    def _check(self, process: int) -> None:
        if self._stopping.is_set():
            return
        now = self._clock.monotonic()
        probe = self._probes.get(process)
        if probe is None:
            if now >= self._not_before.get(process, 0.0):
                self._start(process)
            return
        if probe.retired:
            if not probe.running() or now - probe.retired_at > RETIRE_SECONDS:
                self._bury(process, probe)
            return
        if not probe.running():
            words = probe.exit_words()
        elif probe.silence() > probe.patience(self._settings.probes.heartbeat_timeout):
            words = f"was silent for {probe.silence():.0f} s and is killed"
        else:
            return
        del self._probes[process]
        probe.end()
        if now - probe.started > HEALTHY_AFTER:
            self._pauses.pop(process, None)
        pause = self._next_pause(process, now)
        log.warning(f"a probe process {words}; it is started again", extra={"probe": process, "pause_seconds": pause})

    def _bury(self, process: int, probe: Probe) -> None:
        """The end of a process that was told to end; its number may be wanted again meanwhile."""
        del self._probes[process]
        probe.end()
        self._pauses.pop(process, None)
        self._not_before.pop(process, None)
        self._gone(process)
        if process in self.shares:
            self._start(process)

    def _pass_on_boosts(self, process: int) -> None:
        probe, share = self._probes.get(process), self.shares.get(process)
        if probe is not None and share is not None and not probe.retired:
            probe.want_boost([self._boosts[name] for name in share.targets if name in self._boosts])

    def _next_pause(self, process: int, now: float) -> float:
        pause = self._pauses.get(process, FIRST_PAUSE)
        self._pauses[process] = min(LONGEST_PAUSE, 2 * pause)
        self._not_before[process] = now + pause
        return pause

    def _snapshots(self, targets: Collection[str]) -> frozenset[str]:
        return frozenset(name for name in targets if self._wants_snapshot(name))

    def _start(self, process: int) -> None:
        targets = self.shares[process].targets
        assignment = Assignment(process, only(self._settings, targets), targets, self._snapshots(targets))
        try:
            self._probes[process] = Probe(assignment, self._clock, self._deliver, self._up_changed)
        except (OSError, RuntimeError) as error:
            # No file descriptors, processes or threads left: that may pass.
            pause = self._next_pause(process, self._clock.monotonic())
            fields = {"probe": process, "pause_seconds": pause, "error": str(error)}
            log.error("a probe process cannot be started; it is tried again", extra=fields)
