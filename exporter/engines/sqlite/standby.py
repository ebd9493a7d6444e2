"""The standbys of the embedded engine, seen from the primary: heartbeats, lags, and what keeps a standby from applying.

A standby is a process of its own that applies the primary's transactions to its own encrypted file. Lags are told by
the monotonic clock of this process: how long ago the oldest change was written that the standby has not received,
not applied, or does not show to a reader. A heartbeat that was not written leaves no lag behind.
"""

from __future__ import annotations

import time
from pathlib import Path

import apsw

from exporter.config.schema import StandbySettings
from exporter.domain.errors import TargetError
from exporter.domain.states import LagKind, StandbyState
from exporter.engines.sqlite import replica
from exporter.engines.sqlite.files import Connections
from exporter.engines.sqlite.heartbeat import Primary
from exporter.engines.sqlite.key import KeyFile
from exporter.engines.sqlite.link import Link
from exporter.engines.sqlite.settings import standby_name
from exporter.engines.sqlite.unlocking import leave_log_alone


def heartbeat_path(directory: Path) -> Path:
    """Where the primary of the standbys lives."""
    return directory / "heartbeat.db"


def standby_path(directory: Path, name: str) -> Path:
    """Where the file of a standby lives."""
    return directory / standby_name(name)


class Standbys:
    """All standbys of one target. Used by the session's thread; opens and starts nothing before the first heartbeat."""

    def __init__(
        self,
        directory: Path,
        settings: tuple[StandbySettings, ...],
        connections: Connections,
        keys: KeyFile,
        cipher: str,
    ) -> None:
        self._connections = connections
        self._primary = Primary(heartbeat_path(directory), connections, keys, cipher)
        self._links = [Link(one.name, standby_path(directory, one.name)) for one in settings]

    def heartbeat(self) -> None:
        """Write a heartbeat, ship it, and start the standbys that do not run.

        Raises `KeystoreFailed`, `VerificationFailed`, apsw.Error, OSError.
        """
        change = self._primary.beat()
        for link in self._links:
            link.keep(change)
        for link in self._links:
            link.tend(self._primary, start=True)

    def states(self) -> tuple[StandbyState, ...]:
        """How far the standbys are. Raises apsw.InterruptError when the deadline passes."""
        return tuple(self._state(link) for link in self._links)

    def close(self) -> None:
        for link in self._links:
            link.close()
        self._primary.close()

    def _state(self, link: Link) -> StandbyState:
        if self._primary.key is None:
            return _unknown(link, "no heartbeat could be written yet")
        problem = ""
        try:
            link.tend(self._primary, start=False)
        except apsw.InterruptError:
            raise
        except (TargetError, apsw.Error, OSError) as error:
            problem = f"the heartbeat database cannot be read: {error}"
        report = link.report
        if not link.running or report is None:
            return _unknown(link, link.problem)
        seen, unseen = self._visible(link.path) if report.fingerprint else (None, "")
        timeline, now = self._primary.timeline, time.monotonic()
        lags: dict[LagKind, float | None] = dict.fromkeys(LagKind)
        if link.in_step and report.fingerprint:
            received, applied = report.received or 0, report.applied or 0
            lags[LagKind.TRANSPORT] = timeline.waiting(received, now)
            lags[LagKind.APPLY] = timeline.waiting(applied, now) if applied < received else 0.0
        if seen is not None and seen.generation == self._primary.at.generation:
            lags[LagKind.HEARTBEAT] = timeline.waiting(seen.sequence, now)
        self._forget()
        if not problem and None in lags.values():
            problem = link.problem or unseen or "the standby is being seeded"
        return StandbyState(
            link.name,
            transport_running=True,
            apply_running=bool(report.fingerprint),
            lags=tuple(lags.items()),
            received_sequence=report.received if link.in_step else None,
            applied_sequence=report.applied if link.in_step else None,
            key_match=self._key_match(link),
            problem=problem or link.problem,
        )

    def _key_match(self, link: Link) -> bool | None:
        """Whether the standby has its file open with the key that the primary has; None when it has it not open."""
        report = link.report
        if report is None or not (report.fingerprint or report.refused):
            return None
        return report.fingerprint == self._primary.fingerprint

    def _visible(self, path: Path) -> tuple[replica.Position | None, str]:
        """What a reader sees in the standby's file, or why it sees nothing. Raises apsw.InterruptError."""
        try:
            # The key in use, not that of the key file: a running database does not close when its key file is lost.
            connection = self._connections.connect(path, self._primary.cipher, self._primary.key)
            try:
                leave_log_alone(connection)
                return replica.position(connection), ""
            finally:
                self._connections.close(connection)
        except apsw.InterruptError:
            raise
        except apsw.NotADBError:
            return None, "the primary's key does not open the standby's file"
        except apsw.Error as error:
            return None, f"the standby's file cannot be read: {error}"

    def _forget(self) -> None:
        """Drop the times of what every standby has; one that has not said anything yet may be anywhere."""
        generation = self._primary.at.generation
        known = [link.position for link in self._links if link.position and link.position.generation == generation]
        if known and len(known) == len(self._links):
            self._primary.timeline.forget(min(position.sequence for position in known))


def _unknown(link: Link, problem: str) -> StandbyState:
    """A standby that nothing is known of but that it does not run."""
    return StandbyState(
        link.name,
        transport_running=False,
        apply_running=False,
        lags=tuple((kind, None) for kind in LagKind),
        problem=problem,
    )
