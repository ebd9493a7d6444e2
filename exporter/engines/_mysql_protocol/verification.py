"""Finds out which twin is really encrypted, and whether both hold the same data, at a cost that suits once a minute.

Of each twin some 500 rows are read (a dozen pages), at places that are drawn anew each time and are the same in both:
so the digests of one verification can be compared with each other, and with no other's. That all rows are equal was seen
when the twins were made.
"""

from __future__ import annotations

import hashlib
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from exporter.domain.errors import KeystoreFailed, LockTimeout, PermissionMissing, QueryFailed, TargetError, Unsupported
from exporter.domain.model import PairFacts, Slot, TwinFacts
from exporter.engines._mysql_protocol import ondisk
from exporter.engines._mysql_protocol.connection import Connection
from exporter.engines._mysql_protocol.failures import TableUnreadable
from exporter.engines._mysql_protocol.inventory import TableEncryption
from exporter.engines._mysql_protocol.provisioning import TableEncryptionReader
from exporter.engines._mysql_protocol.tables import FoundTable, find_table
from exporter.engines._mysql_protocol.time_left import TimeLeft
from exporter.engines._mysql_protocol.twins import CANARY_VERSION, LEAST_ROW_BYTES, Twins, checksum, quoted

KeystoreFailure = Callable[[Connection, str, str, float], TargetError]
"""What an error of the server about a table's key means: (connection, schema, table, timeout) -> the error to raise."""

_RANGES, _RANGE_ROWS = 5, 100
_STATEMENT_SECONDS = 10.0
_LEAST_PAGES = 320
"""Of a smaller table, pages that it was given in advance are too many of those that the server counts."""
_OF_ONE_TABLE = (KeystoreFailed, LockTimeout, PermissionMissing, QueryFailed, Unsupported)
"""What makes a twin unusable; everything else means that the server cannot be asked, and is raised."""


@dataclass(slots=True)
class _Look:
    """What was found out about one twin so far; `trouble` is why its rows could not be read."""

    slot: Slot
    name: str
    encrypted: bool | None = None
    algorithm: str = ""
    identity: str = ""
    rows: int | None = None
    data_bytes: int | None = None
    digest: str | None = None
    problem: str = ""
    trouble: TargetError | None = None

    def blame(self, problem: str) -> None:
        """The first problem is the one that is told."""
        self.problem = self.problem or problem


@dataclass(frozen=True, slots=True)
class _Server:
    hostname: str
    datadir: str
    page_bytes: int


def verify_pair(
    connection: Connection,
    twins: Twins,
    table_encryption: TableEncryptionReader,
    timeout: float,
    rng: random.Random | None = None,
    tried: Callable[[bool], None] = lambda unreadable: None,
    keystore_failure: KeystoreFailure | None = None,
) -> PairFacts:
    """The facts of a pair. What is wrong with a twin is in its `problem`; its encryption is told all the same, so that a
    run on a twin whose key is lost fails as what it is. `tried` is told whether an encrypted twin is unreadable for want
    of its key, where that was tried; `keystore_failure` finds the words for it.

    Raises ConnectFailed, DeadlineExceeded and what else means that the server could not be asked.
    """
    left = TimeLeft(timeout, "verifying the twins")
    return _Verification(connection, twins, table_encryption, left, rng, tried, keystore_failure).facts()


@dataclass(frozen=True, slots=True)
class _Verification:
    connection: Connection
    twins: Twins
    table_encryption: TableEncryptionReader
    left: TimeLeft
    rng: random.Random | None
    tried: Callable[[bool], None]
    keystore_failure: KeystoreFailure | None
    places: list[tuple[int, int]] = field(default_factory=list)

    def facts(self) -> PairFacts:
        self.places.extend(_places(self.twins.rows, self.rng or random.Random()))
        looks = [self._look(slot) for slot in Slot]
        # After the tables were opened: until then MariaDB's views leave out what it has not opened since its start.
        names = tuple(self.twins.name(slot) for slot in Slot)
        states = self.table_encryption(self.connection, self.twins.schema, names, self.left(_STATEMENT_SECONDS))
        for look in looks:
            if (state := states.get(self.twins.name(look.slot))) is not None:
                look.encrypted, look.algorithm, look.identity = state.encrypted, state.algorithm, state.identity
        server = self._server()
        if ondisk.on_this_host(server.hostname):
            self._look_at_disk(looks, server)
        if _explain_troubles(looks, self._why_keyless):
            self.tried(True)
        for look in looks:
            if look.encrypted and look.digest is not None:
                self.tried(False)
            _explain_encryption(look, states.get(self.twins.name(look.slot)))
        a, b = (_twin_facts(look, server.page_bytes) for look in looks)
        facts = PairFacts(self.twins.pair.name, self.twins.pair.phase, a, b)
        return replace(facts, epoch=_epoch(facts, looks, self.connection.server_version))

    def _why_keyless(self, look: _Look) -> str:
        if self.keystore_failure is not None:
            timeout = self.left(_STATEMENT_SECONDS)
            return str(self.keystore_failure(self.connection, self.twins.schema, self.twins.name(look.slot), timeout))
        return f"the table {look.name} cannot be decrypted: its key is missing or wrong"

    # -- the server's word ----------------------------------------------------------------------

    def _look(self, slot: Slot) -> _Look:
        look = _Look(slot, f"{self.twins.schema}.{self.twins.name(slot)}")
        try:
            found = find_table(self.connection, self.twins.schema, self.twins.name(slot), self.left)
            if found is None:
                look.blame(f"the table {look.name} is missing; `tde-exporter provision` makes it")
                return look
            if found.readable:
                self._check_marker(look, found)
            self._read(look)
        except _OF_ONE_TABLE as error:
            look.trouble = error
        return look

    def _check_marker(self, look: _Look, found: FoundTable) -> None:
        look.data_bytes = found.data_bytes
        marker = found.marker
        if marker is None:
            look.blame(f"the table {look.name} is none that this exporter made")
        elif not marker.complete:
            look.blame(f"the table {look.name} is half-built; `tde-exporter provision` completes it")
        elif marker.rows != self.twins.rows:
            look.blame(_other_rows(look.name, marker.rows, self.twins.rows))

    def _read(self, look: _Look) -> None:
        """Rows, and a digest over the places of this verification."""
        if look.problem:
            return
        table = self.twins.table(look.slot)
        ends = self.connection.row(f"SELECT MIN(id), MAX(id) FROM {table}", timeout=self.left(_STATEMENT_SECONDS))
        parameters = tuple(number for place in self.places for number in place)
        sums = self.connection.row(checksum(table, len(self.places)), parameters, timeout=self.left(_STATEMENT_SECONDS))
        look.digest = hashlib.sha256(repr((ends, sums)).encode()).hexdigest()[:16]
        first, last = ends or (None, None)
        expected = sum(end - begin + 1 for begin, end in self.places)
        if first != 1 or sums is None or sums[0] != expected:
            look.blame(f"rows of the table {look.name} are missing; drop the pair, then provision it anew")
        else:
            look.rows = int(last)
            if look.rows != self.twins.rows:
                look.blame(_other_rows(look.name, look.rows, self.twins.rows))

    # -- the bytes ------------------------------------------------------------------------------

    def _server(self) -> _Server:
        row = self.connection.row(
            "SELECT @@hostname, @@datadir, @@innodb_page_size", timeout=self.left(_STATEMENT_SECONDS)
        )
        assert row is not None
        return _Server(str(row[0]), str(row[1]), int(row[2]))

    def _look_at_disk(self, looks: Sequence[_Look], server: _Server) -> None:
        """Where the files can be read, a second opinion; elsewhere nothing."""
        for look in looks:
            path = ondisk.table_file(server.datadir, self.twins.schema, self.twins.name(look.slot))
            if look.encrypted is None or not os.access(path, os.R_OK):
                continue
            try:
                name = f"{self.twins.schema}/{self.twins.name(look.slot)}"
                space = self.connection.row(self.twins.ddl.space_sql, (name,), timeout=self.left(_STATEMENT_SECONDS))
            except _OF_ONE_TABLE:
                continue
            if space is None:
                continue
            seen = ondisk.look(path, self.twins.ddl.page_format, server.page_bytes, int(space[0]), int(space[1]))
            if seen is not None and (contradiction := seen.contradiction(look.encrypted)):
                look.blame(f"the table {look.name}: {contradiction}")
                look.encrypted = None


def _twin_facts(look: _Look, page_bytes: int) -> TwinFacts:
    per_block = None
    if look.rows is not None and look.data_bytes is not None and look.data_bytes >= _LEAST_PAGES * page_bytes:
        per_block = look.rows * page_bytes / look.data_bytes
        if per_block > page_bytes / LEAST_ROW_BYTES:
            per_block = None  # statistics of when there were fewer rows
    return TwinFacts(
        look.slot, look.encrypted, look.algorithm, look.rows, per_block, look.digest, look.problem, look.name
    )


def _places(rows: int, rng: random.Random) -> list[tuple[int, int]]:
    """First and last id of some stretches that do not overlap, one in each fifth of the table."""
    share = rows // _RANGES
    width = min(_RANGE_ROWS, share)
    starts = [number * share + 1 + rng.randrange(share - width + 1) for number in range(_RANGES)]
    return [(start, start + width - 1) for start in starts]


def _other_rows(name: str, found: int, wanted: int) -> str:
    return (
        f"the table {name} has {found} rows, but {wanted} are configured; drop the pair, then provision it anew, or "
        "configure the rows that it has"
    )


def _explain_troubles(looks: Sequence[_Look], why_keyless: Callable[[_Look], str]) -> list[_Look]:
    """Puts into words why rows could not be read; those whose key is lost. An encrypted table that cannot be opened beside
    a plain one that can has lost its key: MariaDB says the same of a damaged table, and advises to drop it."""
    keyless = []
    for look, other in ((looks[0], looks[1]), (looks[1], looks[0])):
        if look.trouble is None:
            continue
        lost = isinstance(look.trouble, TableUnreadable) and look.encrypted is True and other.trouble is None
        if lost or (look.encrypted and isinstance(look.trouble, KeystoreFailed)):
            keyless.append(look)
            look.blame(why_keyless(look))
        elif isinstance(look.trouble, PermissionMissing):
            # In our words, for MySQL does not name the schema.
            schema = quoted(look.name.partition(".")[0])
            look.blame(f"the table {look.name} cannot be read; GRANT SELECT ON {schema}.* to the exporter's account")
        else:
            look.blame(f"the table {look.name}: {look.trouble}")
    return keyless


def _explain_encryption(look: _Look, state: TableEncryption | None) -> None:
    """Puts into words why it is unknown, or what the server's views say is wrong."""
    problem = state.problem if state is not None else ""
    if look.encrypted is None:
        why = problem or "the server's views do not list it"
        look.blame(f"whether the table {look.name} is encrypted is unknown: {why}")
    elif problem:
        look.blame(f"the table {look.name}: {problem}")


def _epoch(facts: PairFacts, looks: Sequence[_Look], server_version: str) -> str:
    """Short hash over everything that must not change inside one statistic."""
    attribution = sorted((variant.value, slot.value) for variant, slot in (facts.attribution or {}).items())
    twins: list[tuple[Any, ...]] = [(look.encrypted, look.algorithm, look.identity, look.rows) for look in looks]
    parts = (attribution, twins, facts.phase.value, server_version, CANARY_VERSION)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]
