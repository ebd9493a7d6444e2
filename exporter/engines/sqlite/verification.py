"""Finds out from the files themselves which twin is encrypted, and whether both hold the same data."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import apsw

from exporter.domain.errors import TargetError
from exporter.domain.model import PairFacts, Slot, TwinFacts
from exporter.engines.sqlite import phonebook
from exporter.engines.sqlite.failures import translated
from exporter.engines.sqlite.files import ENGINE_VERSION, MAGIC, Connections, RawFile
from exporter.engines.sqlite.provisioning import Twins

_STRETCH_BYTES = 65_536
_STRETCHES = 32


@dataclass(frozen=True, slots=True)
class Evidence:
    """Three independent looks at one file: its header, well-known names in its bytes, opening it without a key."""

    header: bool
    plaintext: bool
    opens: bool

    @property
    def encrypted(self) -> bool | None:
        """True or False when all three agree, else None."""
        found = {self.header, self.plaintext, self.opens}
        return None if len(found) > 1 else not self.header

    @property
    def contradiction(self) -> str:
        if self.encrypted is not None:
            return ""
        return (
            f"{'a plain' if self.header else 'no plain'} header, "
            f"{'known names' if self.plaintext else 'no known name'} in its bytes, and it "
            f"{'opens' if self.opens else 'does not open'} without a key: neither encrypted nor plain"
        )


def gather(path: Path, connections: Connections) -> Evidence:
    """Looks at a file; reads at most 2 MiB of it. Raises apsw.Error."""
    with RawFile(path) as raw:
        header = raw.read(len(MAGIC)) == MAGIC
        plaintext = any(_holds_known_name(raw.read(_STRETCH_BYTES, offset)) for offset in _offsets(raw.size))
    return Evidence(header, plaintext, connections.readable(path, None))


def _offsets(size: int) -> list[int]:
    """Where to look: everywhere in a small file, evenly spread in a large one."""
    step = max(_STRETCH_BYTES, -(-size // _STRETCHES))
    return list(range(0, size, step))


def _holds_known_name(data: bytes) -> bool:
    return any(name.encode("ascii") in data for name in phonebook.KNOWN_NAMES)


def verify_pair(twins: Twins, connections: Connections) -> PairFacts:
    """The facts of a pair. Raises only `apsw.InterruptError`; other troubles are in the twins' `problem`."""
    a, b = (replace(_twin(twins, slot, connections), name=str(twins.path(slot))) for slot in Slot)
    facts = PairFacts(twins.pair.name, twins.pair.phase, a, b)
    return PairFacts(facts.pair, facts.phase, a, b, epoch=_epoch(facts))


def _twin(twins: Twins, slot: Slot, connections: Connections) -> TwinFacts:
    path = twins.path(slot)
    encrypted: bool | None = None
    try:
        with translated(str(path)):
            if not path.exists():
                return TwinFacts(slot, None, problem=f"{path} is missing")
            evidence = gather(path, connections)
            encrypted = evidence.encrypted
            if evidence.contradiction:
                return TwinFacts(slot, None, problem=f"{path}: {evidence.contradiction}")
            return _content(twins, slot, connections, encrypted)
    except TargetError as error:
        # Bytes that look encrypted from outside stay attributed when the key is lost: the runs on them
        # then fail as what they are.
        return TwinFacts(slot, encrypted, problem=str(error))


def _content(twins: Twins, slot: Slot, connections: Connections, encrypted: bool | None) -> TwinFacts:
    """Reads the table over a connection of its own, which leaves the caches of the measuring ones alone."""
    path = twins.path(slot)
    connection, cipher = connections.open(path)
    try:
        if phonebook.metadata(connection) is None:
            return TwinFacts(slot, encrypted, cipher or "", problem=f"{path} is not a twin that this exporter made")
        count = int(connection.execute("SELECT count(*) FROM phonebook").get)
        before = connection.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0]
        digest, read = phonebook.content_digest(connection, count)
        pages = connection.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0] - before
    finally:
        connections.close(connection)
    problem = ""
    if count != twins.pair.rows:
        problem = f"{path} holds {count} rows, but {twins.pair.rows} are configured"
    return TwinFacts(slot, encrypted, cipher or "", count, read / pages if pages else None, digest, problem)


def _epoch(facts: PairFacts) -> str:
    """Short hash over everything that must not change inside one statistic."""
    attribution = sorted((variant.value, slot.value) for variant, slot in (facts.attribution or {}).items())
    twins = [(twin.encrypted, twin.algorithm, twin.rows, twin.digest) for twin in (facts.a, facts.b)]
    parts = (attribution, twins, facts.phase.value, ENGINE_VERSION, phonebook.CANARY_VERSION)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]
