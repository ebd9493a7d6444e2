"""Builds the twins: each in a temporary file that gets its name only when it is complete and on disk.

Whenever the process is killed, a twin is therefore either not there or whole; what is left over are
temporary files, which the next run removes. Files that we did not make are never touched. A twin of an
earlier version that only lacks a scratch table gets it in place.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import apsw

from exporter.domain.errors import Blocked, Cancelled, DeadlineExceeded, KeystoreFailed, TargetError, VerificationFailed
from exporter.domain.model import Phase, Slot
from exporter.engines.base import Progress
from exporter.engines.deadline import Guard
from exporter.engines.sqlite import phonebook, scratch
from exporter.engines.sqlite.failures import translated
from exporter.engines.sqlite.files import SIDE_FILES, Connections, identity, twin_path
from exporter.engines.sqlite.key import KeyFile, sync_directory
from exporter.engines.sqlite.settings import Pair

_CHUNK_ROWS = 2_000
_REPORT_SECONDS = 0.05
_ROWS_SHARE = 0.85  # of the time of a build goes into rows, the rest into the index and the disk
_STEPS_BETWEEN_REPORTS = 20_000


@dataclass(frozen=True, slots=True)
class Twins:
    """The files of one pair, and what they shall be."""

    directory: Path
    pair: Pair
    cipher: str

    def path(self, slot: Slot) -> Path:
        return twin_path(self.directory, self.pair.name, slot)

    def wanted_cipher(self, slot: Slot) -> str | None:
        """The cipher that a new file in this slot gets; None: plain. In phase `aa` both are plain."""
        return self.cipher if slot is Slot.A and self.pair.phase is Phase.ENABLED else None


def slots_to_build(twins: Twins, connections: Connections) -> list[Slot]:
    """Slots whose file is missing, or was built by us for other settings. Changes nothing.

    Raises `VerificationFailed` for a database that is not ours, `KeystoreFailed`, `QueryFailed` and
    `Unavailable` for a file that cannot be read.
    """
    return [slot for slot in Slot if not twins.path(slot).exists() or _is_outdated(twins, slot, connections)]


def _is_outdated(twins: Twins, slot: Slot, connections: Connections) -> bool:
    path = twins.path(slot)
    connection, cipher = connections.open(path)
    try:
        with translated(str(path)):
            noted = phonebook.metadata(connection)
    finally:
        connections.close(connection)
    if noted is None:
        raise VerificationFailed(f"{path} is a database that this exporter did not make; move it away")
    if noted.get("schema") != phonebook.SCHEMA_VERSION or noted.get("rows") != str(twins.pair.rows):
        return True
    wanted = twins.wanted_cipher(slot)
    if cipher is not None and wanted is not None:
        return cipher != wanted
    # A file of the other kind that was built for the present phase has been put here by somebody
    # (files exchanged, a plain copy): verification reports that, and nothing is overwritten.
    return (cipher is None) != (wanted is None) and noted.get("phase") != twins.pair.phase


def slots_to_extend(twins: Twins, connections: Connections) -> list[Slot]:
    """Slots whose file is as it shall be but for the scratch table that an earlier version did not make.

    For files that `slots_to_build` does not name; raises the same, and changes nothing.
    """
    return [slot for slot in Slot if twins.path(slot).exists() and _lacks_scratch(twins.path(slot), connections)]


def _lacks_scratch(path: Path, connections: Connections) -> bool:
    connection, _ = connections.open(path)
    try:
        with translated(str(path)):
            return not scratch.is_there(connection)
    finally:
        connections.close(connection)


def leftovers(twins: Twins, keys: KeyFile) -> list[Path]:
    """Temporary files of a killed run, of this pair and of the key (of a key elsewhere: that is not our folder)."""
    found = list(twins.directory.glob(f".{twins.pair.name}.*.db.*.tmp*"))
    if keys.path.parent == twins.directory:
        found += twins.directory.glob(f".{keys.path.name}.*.tmp")
    return found


def drop(twins: Twins, connections: Connections) -> tuple[str, ...]:
    """Remove the files of a pair, both or none; the paths of what was removed. The caller holds the scratch lock.

    Raises `Blocked` for a file that we did not make or that nobody can open: it may be somebody's data.
    """
    found = [twins.path(slot) for slot in Slot if twins.path(slot).exists()]
    for path in found:
        try:
            connection, _ = connections.open(path)
        except TargetError as error:
            raise Blocked(f"{path} is not removed: whether this exporter made it cannot be seen ({error})") from error
        try:
            with translated(str(path)):
                ours = phonebook.metadata(connection) is not None
        finally:
            connections.close(connection)
        if not ours:
            raise Blocked(f"{path} is a database that this exporter did not make; it is not removed")
    for path in found:
        for suffix in ("", *SIDE_FILES):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
    return tuple(str(path) for path in found)


@dataclass(frozen=True, slots=True)
class Builder:
    """Builds the missing twins of one pair. The caller holds the scratch lock and the guard's limit.

    Ends soon after `closing` is set: an interrupt alone would have to hit one of the short moments of an insertion.
    """

    twins: Twins
    connections: Connections
    keys: KeyFile
    guard: Guard
    closing: threading.Event

    def build(self, slots: list[Slot], progress: Progress) -> None:
        for path in leftovers(self.twins, self.keys):
            path.unlink(missing_ok=True)
        if any(self.twins.wanted_cipher(slot) for slot in slots):
            self._ensure_key()
        for done, slot in enumerate(slots):
            cipher = self.twins.wanted_cipher(slot)
            what = f"building the {'encrypted' if cipher else 'plain'} twin of {self.twins.pair.name}"
            report = _Report(what, progress, done / len(slots), 1 / len(slots))
            self._build_one(slot, cipher, report)
        progress(f"twins of {self.twins.pair.name} are complete", 1.0)

    def extend(self, slots: list[Slot]) -> None:
        """Give the twins in `slots` the scratch table that they lack; killed meanwhile, the next run completes it."""
        for slot in slots:
            path = self.twins.path(slot)
            connection, _ = self.connections.open(path)
            try:
                with translated(f"cannot extend {path}"):
                    scratch.repaired(connection)
            finally:
                self.connections.close(connection)

    def _ensure_key(self) -> None:
        """Make the key if there is none; never while a file is there that only a lost key can open."""
        if self.keys.exists():
            self.keys.read()
            return
        for path in sorted(self.twins.directory.glob("*.db")):
            found = identity(path)
            if found is not None and not found.plain:
                raise KeystoreFailed(
                    f"the key file {self.keys.path} is missing, but {path} is encrypted; put the key file back, "
                    "or move the encrypted file away to build a new one"
                )
        self.keys.create()

    def _build_one(self, slot: Slot, cipher: str | None, report: _Report) -> None:
        target = self.twins.path(slot)
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
        try:
            os.close(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            with translated(f"cannot build {target}"):
                connection = self.connections.connect(temporary, cipher)
                try:
                    self._fill(connection, report)
                finally:
                    self.connections.close(connection)
                self._publish(temporary, target, report)
        finally:
            for suffix in ("", *SIDE_FILES):
                temporary.with_name(temporary.name + suffix).unlink(missing_ok=True)

    def _fill(self, connection: apsw.Connection, report: _Report) -> None:
        connection.pragma("page_size", phonebook.PAGE_SIZE)
        # Nothing needs a journal or a flush before the file has its name.
        connection.pragma("journal_mode", "off")
        connection.pragma("synchronous", "off")
        connection.set_progress_handler(report.keep_alive, _STEPS_BETWEEN_REPORTS)
        connection.execute(phonebook.TABLES)
        connection.execute("BEGIN")
        count = self.twins.pair.rows
        for first in range(1, count + 1, _CHUNK_ROWS):
            if self.closing.is_set():
                raise Cancelled("building the twins was stopped")
            if self.guard.expired:
                raise DeadlineExceeded("building the twins takes longer than it may")
            last = min(first + _CHUNK_ROWS - 1, count)
            connection.executemany(phonebook.INSERT, phonebook.rows(first, last))
            report(last / count * _ROWS_SHARE)
        connection.execute(phonebook.INDEX)
        scratch.repaired(connection)
        report(0.95)
        notes = {
            "marker": phonebook.MARKER,
            "schema": phonebook.SCHEMA_VERSION,
            "rows": str(count),
            "phase": str(self.twins.pair.phase),
            "digest": phonebook.content_digest(connection, count)[0],
        }
        connection.executemany("INSERT INTO tde_exporter (key, value) VALUES (?, ?)", notes.items())
        connection.execute("COMMIT")
        connection.pragma("journal_mode", "wal")
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def _publish(self, temporary: Path, target: Path, report: _Report) -> None:
        file = os.open(temporary, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(file)
        finally:
            os.close(file)
        # The log of an earlier file must not be taken for this one's.
        for suffix in SIDE_FILES:
            target.with_name(target.name + suffix).unlink(missing_ok=True)
        temporary.rename(target)
        sync_directory(target.parent)
        report(1.0)


class _Report:
    """Passes on the progress of one build as a share of all builds, and says again where a long step stands."""

    def __init__(self, what: str, progress: Progress, start: float, share: float) -> None:
        self._what, self._progress = what, progress
        self._start, self._share = start, share
        self._position, self._said = 0.0, 0.0

    def __call__(self, position: float) -> None:
        """`position` is the share of this build that is done, 0..1."""
        self._position = position
        self.keep_alive()

    def keep_alive(self) -> bool:
        """Called by the database during long statements; False lets it go on."""
        now = time.monotonic()
        if now - self._said >= _REPORT_SECONDS or self._position >= 1.0:
            self._said = now
            self._progress(self._what, self._start + self._share * self._position)
        return False
