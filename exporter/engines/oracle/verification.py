"""Finds out which twin is really encrypted, and whether both hold the same data, at a cost that suits once a minute.

Of each twin some 500 rows are read, at places that are drawn anew each time and are the same in both: so the digests of one
verification can be compared with each other, and with no other's. That all rows are equal was seen when they were made.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from exporter.domain.errors import KeystoreFailed, LockTimeout, PermissionMissing, QueryFailed, Unavailable
from exporter.domain.model import PairFacts, Slot, TwinFacts
from exporter.engines.oracle.connection import Connection
from exporter.engines.oracle.deadlines import Deadline
from exporter.engines.oracle.identity import Identity
from exporter.engines.oracle.statements import Need, define
from exporter.engines.oracle.tables import FoundTable, Tablespaces, find_table, tablespaces
from exporter.engines.oracle.twins import CANARY_VERSION, COLUMN, Twins

_RANGES, _RANGE_ROWS = 5, 100
_TWIN = ("READ ON {table}",)
_NEEDS = (Need.OPEN, Need.TWINS)

ENDS = define("twins.ends", "SELECT MIN(id) AS low, MAX(id) AS high FROM {table}", "twins", _TWIN, needs=_NEEDS)
SUMS = define(
    "twins.sums",
    "SELECT COUNT(*) AS n, SUM(ORA_HASH(id || '|' || payload)) AS digest FROM {table} WHERE id BETWEEN :1 AND :2"
    " OR id BETWEEN :3 AND :4 OR id BETWEEN :5 AND :6 OR id BETWEEN :7 AND :8 OR id BETWEEN :9 AND :10",
    "twins",
    _TWIN,
    needs=_NEEDS,
    example=tuple(range(1, 11)),
)
LOB_BYTES = define(
    "twins.lob_bytes",
    "SELECT COUNT(*) AS n, SUM(DBMS_LOB.GETLENGTH(data)) AS bytes FROM {table} WHERE id <= :1",
    "twins",
    (*_TWIN, "EXECUTE ON SYS.DBMS_LOB"),
    needs=_NEEDS,
    example=(1,),
)
_OF_ONE_TABLE = (KeystoreFailed, LockTimeout, PermissionMissing, QueryFailed, Unavailable)
"""What makes a twin unusable; everything else means that the database cannot be asked, and is raised."""


@dataclass(slots=True)
class _Look:
    """What was found out about one twin so far."""

    slot: Slot
    name: str
    table: FoundTable | None = None
    encrypted: bool | None = None
    algorithm: str = ""
    rows: int | None = None
    digest: str | None = None
    problem: str = ""

    def blame(self, problem: str) -> None:
        """The first problem is the one that is told."""
        self.problem = self.problem or problem

    def facts(self) -> TwinFacts:
        per_block = self.table.rows_per_block if self.table is not None and self.rows is not None else None
        return TwinFacts(
            self.slot, self.encrypted, self.algorithm, self.rows, per_block, self.digest, self.problem, self.name
        )


def verify_pair(
    connection: Connection,
    twins: Twins,
    identity: Identity,
    deadline: Deadline,
    rng: random.Random | None = None,
) -> PairFacts:
    """The facts of a pair. What is wrong with a twin is in its `problem`; its encryption is told all the same, so that a
    run on a twin whose key is lost fails as what it is.

    Raises ConnectFailed, DeadlineExceeded and what else means that the database could not be asked.
    """
    if not identity.is_open:
        raise Unavailable("the database is mounted and not open, so there are no tables to read")
    spaces = tablespaces(connection, deadline)
    places = _places(twins.rows, rng or random.Random())
    looks = [_looked(connection, twins, slot, spaces, places, deadline) for slot in Slot]
    a, b = (look.facts() for look in looks)
    facts = PairFacts(twins.pair.name, twins.pair.phase, a, b)
    return replace(facts, epoch=_epoch(facts, looks, twins, identity))


def _looked(
    connection: Connection,
    twins: Twins,
    slot: Slot,
    spaces: Tablespaces,
    places: Sequence[tuple[int, int]],
    deadline: Deadline,
) -> _Look:
    look = _Look(slot, twins.table(slot))
    look.table = find_table(connection, twins.schema, twins.name(slot), deadline)
    if look.table is None:
        look.blame(
            f"the table {look.name} is missing, or READ on it is not granted; `tde-exporter provision --print` tells how"
        )
        return look
    _look_at_encryption(look, spaces)
    if not look.table.marked:
        look.blame(f"the table {look.name} is none that this exporter made")
    elif not look.table.complete:
        look.blame(f"the table {look.name} is half-built; `tde-exporter provision` completes it")
    if not look.problem or look.encrypted is None:
        try:
            _read(connection, look, twins, places, deadline)
        except _OF_ONE_TABLE as error:
            look.blame(f"the table {look.name}: {error}")
    return look


def _look_at_encryption(look: _Look, spaces: Tablespaces) -> None:
    """By the dictionary's word: there is no other, for the files are not ours to read."""
    assert look.table is not None
    by_space = spaces.state(look.table.tablespaces)
    if by_space is None:
        why = spaces.problem or "its parts lie in tablespaces of both kinds, or in none that is listed"
        look.blame(f"whether the table {look.name} is encrypted is unknown: {why}")
        return
    look.encrypted = by_space or COLUMN in look.table.columns
    look.algorithm = spaces.algorithm(look.table.tablespaces) if by_space else look.table.columns.get(COLUMN, "")
    if look.table.columns.keys() - {COLUMN, "DATA"}:
        look.blame(f"the table {look.name} has encrypted columns that this exporter did not make")
    if look.table.caches_lobs:
        look.blame(f"the large objects of the table {look.name} are cached, so reading them proves nothing")


def _read(
    connection: Connection, look: _Look, twins: Twins, places: Sequence[tuple[int, int]], deadline: Deadline
) -> None:
    """Rows, and a digest over the places of this verification."""
    table = twins.table(look.slot)
    ends = connection.row(ENDS.on(table=table), timeout=deadline.step())
    numbers = tuple(number for place in places for number in place)
    sums = connection.row(SUMS.on(table=table), numbers, timeout=deadline.step())
    lobs = connection.row(LOB_BYTES.on(table=table), (twins.lobs,), timeout=deadline.step())
    look.digest = hashlib.sha256(repr((ends, sums, lobs)).encode()).hexdigest()[:16]
    first, last = ends or (None, None)
    if first == 1 and last != twins.rows:
        look.rows = int(last)
        look.blame(
            f"the table {look.name} has {look.rows} rows, but {twins.rows} are configured; drop the pair, then provision"
            " it anew, or configure the rows that it has"
        )
    elif first != 1 or sums is None or sums[0] != sum(end - begin + 1 for begin, end in places):
        look.blame(f"rows of the table {look.name} are missing; drop the pair, then provision it anew")
    else:
        look.rows = int(last)


def _places(rows: int, rng: random.Random) -> list[tuple[int, int]]:
    """First and last id of some stretches that do not overlap, one in each fifth of the table."""
    share = rows // _RANGES
    width = min(_RANGE_ROWS, share)
    starts = [number * share + 1 + rng.randrange(share - width + 1) for number in range(_RANGES)]
    return [(start, start + width - 1) for start in starts]


def _epoch(facts: PairFacts, looks: Sequence[_Look], twins: Twins, identity: Identity) -> str:
    """Short hash over everything that must not change inside one statistic."""
    attribution = sorted((variant.value, slot.value) for variant, slot in (facts.attribution or {}).items())
    objects = [
        (look.encrypted, look.algorithm, look.rows, look.table.object_id if look.table is not None else None)
        for look in looks
    ]
    # After a switchover another machine answers.
    server = identity.version, identity.role, identity.open_mode
    parts = (attribution, objects, facts.phase.value, twins.pair.encryption, server, CANARY_VERSION)
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:12]
