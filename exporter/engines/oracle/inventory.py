"""Tablespaces and columns by their encryption, conversions under way, and with the keystores the whole state.

The views of tablespaces tell whether one is encrypted, the dictionary which others there are and what for. In the root of a
container database all open containers are counted; their dictionaries are slow there, so they are read seldom.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from exporter.domain.clock import Clock, SystemClock
from exporter.domain.errors import DeadlineExceeded
from exporter.domain.states import EncryptionState
from exporter.engines.oracle.conversions import MOST_CONVERSIONS, Conversions, Place, Space
from exporter.engines.oracle.dependents import DEPENDENTS
from exporter.engines.oracle.keystore import CONTAINERS, KEYS, WALLETS, WALLETS_12, Keys, keystores, yes_no
from exporter.engines.oracle.questions import ROOT, SEED, Questions, Rows, Source, Vantage, vantage
from exporter.engines.oracle.statements import Need, Statement, define, view
from exporter.engines.pace import LONGEST_PAUSE_SECONDS, Pace, Standstill, condition, summed

SPACES = define(
    "inventory.encrypted_tablespaces",
    "SELECT e.con_id, t.name, e.encryptionalg, e.encryptedts, e.status, e.masterkeyid, e.blocks_encrypted,"
    " e.blocks_decrypted FROM v$encrypted_tablespaces e JOIN v$tablespace t ON t.ts# = e.ts# AND t.con_id = e.con_id",
    "encryption_state",
    view("V$ENCRYPTED_TABLESPACES", "V$TABLESPACE"),
)
NAMES = define(
    "inventory.tablespace_names",
    "SELECT con_id, name FROM v$tablespace",
    "encryption_state",
    view("V$TABLESPACE"),
)
_OPEN, _ROOT = (Need.OPEN,), (Need.OPEN, Need.CDB)
TABLESPACES = define(
    "inventory.tablespaces",
    "SELECT tablespace_name, contents, encrypted FROM dba_tablespaces",
    "encryption_state",
    view("DBA_TABLESPACES"),
    needs=_OPEN,
)
TABLESPACES_OF_ALL = define(
    "inventory.tablespaces_of_all",
    "SELECT tablespace_name, contents, encrypted, con_id FROM cdb_tablespaces",
    "encryption_state",
    view("CDB_TABLESPACES"),
    needs=_ROOT,
)
FILES = define(
    "inventory.data_files",
    "SELECT tablespace_name, SUM(bytes) AS bytes, SUM(blocks) AS blocks FROM dba_data_files GROUP BY tablespace_name",
    "encryption_state",
    view("DBA_DATA_FILES"),
    needs=_OPEN,
)
FILES_OF_ALL = define(
    "inventory.data_files_of_all",
    "SELECT tablespace_name, SUM(bytes) AS bytes, SUM(blocks) AS blocks, con_id FROM cdb_data_files"
    " GROUP BY tablespace_name, con_id",
    "encryption_state",
    view("CDB_DATA_FILES"),
    needs=_ROOT,
)
COLUMNS = define(
    "inventory.encrypted_columns",
    "SELECT encryption_alg, salt, COUNT(*) AS n FROM dba_encrypted_columns GROUP BY encryption_alg, salt",
    "encryption_state",
    view("DBA_ENCRYPTED_COLUMNS"),
    needs=_OPEN,
)
COLUMNS_OF_ALL = define(
    "inventory.encrypted_columns_of_all",
    "SELECT encryption_alg, salt, COUNT(*) AS n, con_id FROM cdb_encrypted_columns"
    " GROUP BY encryption_alg, salt, con_id",
    "encryption_state",
    view("CDB_ENCRYPTED_COLUMNS"),
    needs=_ROOT,
)

Counted = TypeVar("Counted")

_KINDS = {"UNDO": "undo", "TEMPORARY": "temp"}


@dataclass(frozen=True, slots=True)
class _Dictionary:
    """What the dictionary says; None is unknown. By place: (contents, encrypted or not) and (bytes, blocks). `columns`
    by container, algorithm and salt."""

    spaces: Mapping[Place, tuple[str, bool | None]] | None = None
    files: Mapping[Place, tuple[int, int]] | None = None
    columns: Mapping[tuple[int, str, str], int] | None = None


class EncryptionReader:
    """Reads `EncryptionState`, again and again; remembers progress and costs. One for each target, for good."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._standstill = Standstill(self._clock)
        self._dictionary: _Kept[_Dictionary] = _Kept(self._clock)
        self._dependents: _Kept[dict[str, int]] = _Kept(self._clock)
        self._conversions = Conversions()
        self._seen_from: Vantage | None = None

    def read(self, connection: Source, timeout: float) -> EncryptionState:
        """Within `timeout` seconds. Raises only what means that the database cannot be asked."""
        asked = Questions(connection, timeout, "reading the state of encryption")
        here = vantage(asked)
        if here != self._seen_from:
            self._dictionary.forget()
            self._dependents.forget()
            self._seen_from = here
        names = self._containers(asked, here)
        wallets = asked.ask(WALLETS if connection.release >= 18 else WALLETS_12, what="the keystores")
        found = asked.ask(KEYS, what="the master keys, their age and backup")
        keys = None if found is None else Keys.of(found)
        spaces = self._spaces(asked)
        dictionary = self._dictionary.get(asked, lambda most: _dictionary(asked, here, most)) if here.is_open else None
        _note_gaps(asked, here, names, wallets)
        known = dictionary or _Dictionary()
        parts = _objects(spaces, known, self._all_names(asked, known), here)
        shares, mark = self._conversions.look(spaces or {}, known.files or {})
        return EncryptionState(
            keystores=keystores(wallets, keys, _used(spaces, here), _encrypts(spaces, known, names, here), names),
            objects=summed((kind, state, count) for kind, state, count, _ in parts),
            object_bytes=summed((kind, state, size) for kind, state, _, size in parts),
            algorithms=_algorithms(spaces, known),
            unprotected=tuple(self._unprotected(asked, here).items()),
            conversions=tuple((_spoken(place, names, here), share) for place, share in shares[:MOST_CONVERSIONS]),
            conversion_stalled=self._standstill.judge(None if spaces is None else bool(mark), mark),
            problems=asked.problems,
        )

    def _containers(self, asked: Questions, here: Vantage) -> dict[int, str]:
        """Names of the containers that are seen, the seed left out."""
        if here.con_id == 0:
            return {0: "database"}
        rows = asked.ask(CONTAINERS, what="the names of the containers") or []
        seen = {int(con_id): str(name) for con_id, name, *_ in rows}
        if here.is_root and rows and SEED not in seen:
            asked.note(
                "the account does not see other containers than the root; ALTER USER ... SET CONTAINER_DATA=ALL"
                " CONTAINER=CURRENT makes them known"
            )
        shut = sorted(
            str(name)
            for con_id, name, mode, restricted in rows
            if con_id not in (ROOT, SEED) and (mode == "MOUNTED" or restricted == "YES")
        )
        if here.is_root and here.is_open and shut:
            asked.note(f"unknown: tablespaces and columns of containers that are not open to all: {', '.join(shut)}")
        seen.setdefault(here.con_id, here.container or f"container {here.con_id}")
        return {con_id: name for con_id, name in seen.items() if con_id != SEED}

    def _spaces(self, asked: Questions) -> dict[Place, Space] | None:
        rows = asked.ask(SPACES, what="which tablespaces are encrypted")
        if rows is None:
            return None
        return {
            (int(con_id or 0), str(name)): Space(
                str(algorithm or ""),
                encrypted == "YES",
                str(status or ""),
                bytes(key or b""),
                int(enc or 0),
                int(dec or 0),
            )
            for con_id, name, algorithm, encrypted, status, key, enc, dec in rows
        }

    def _all_names(self, asked: Questions, known: _Dictionary) -> list[Place] | None:
        """Names of all tablespaces, where the dictionary tells none."""
        if known.spaces is not None:
            return None
        rows = asked.ask(NAMES, what="how many tablespaces there are")
        return None if rows is None else [(int(con_id or 0), str(name)) for con_id, name in rows]

    def _unprotected(self, asked: Questions, here: Vantage) -> dict[str, int]:
        if not here.is_open or here.is_root:
            return {}
        return self._dependents.get(asked, lambda most: _dependents(asked, most)) or {}


class _Kept(Generic[Counted]):
    """What is expensive to find out, kept until it is time to look anew (see `Pace`), and what was unknown of it."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._pace = clock, Pace(clock)
        self._found: Counted | None = None
        self._problems: tuple[str, ...] = ()

    def get(self, asked: Questions, find: Callable[[float], Counted]) -> Counted | None:
        """What `find` gives now, or gave last. It is given its own limit in seconds for each of its statements."""
        if self._pace.due():
            before = set(asked.problems)
            begun = self._clock.monotonic()
            self._found = None
            try:
                self._found = find(asked.left / 4)
                self._pace.took(self._clock.monotonic() - begun)
            except DeadlineExceeded:
                self._pace.took(LONGEST_PAUSE_SECONDS)
                raise
            self._problems = tuple(problem for problem in asked.problems if problem not in before)
        for problem in self._problems:
            asked.note(problem)
        return self._found

    def forget(self) -> None:
        """Look at the next call."""
        self._pace.forget()


def _dictionary(asked: Questions, here: Vantage, most: float) -> _Dictionary:
    """Ask the dictionary of this container, or in the root those of all."""

    def rows(own: Statement, of_all: Statement, what: str) -> Rows | None:
        found = asked.ask(of_all if here.is_root else own, what=what, most=most)
        if found is None or here.is_root:
            return found
        return [(*row, here.con_id) for row in found]

    spaces = rows(TABLESPACES, TABLESPACES_OF_ALL, "which tablespaces there are, and what for")
    files = rows(FILES, FILES_OF_ALL, "how large the tablespaces are")
    columns = rows(COLUMNS, COLUMNS_OF_ALL, "which columns are encrypted")
    return _Dictionary(
        None
        if spaces is None
        else {
            (int(con_id), str(name)): (str(contents or ""), yes_no(encrypted))
            for name, contents, encrypted, con_id in spaces
        },
        None
        if files is None
        else {(int(con_id), str(name)): (int(size or 0), int(blocks or 0)) for name, size, blocks, con_id in files},
        None
        if columns is None
        else {(int(con_id), str(algorithm), str(salt)): int(n) for algorithm, salt, n, con_id in columns},
    )


def _dependents(asked: Questions, most: float) -> dict[str, int]:
    """What lies in the clear, by kind; a kind that is unknown is left out."""
    found = {
        kind: asked.ask(statement, what=f"what lies in the clear ({kind})", most=most)
        for kind, statement in DEPENDENTS.items()
    }
    return {kind: int(rows[0][0]) for kind, rows in found.items() if rows}


def _note_gaps(asked: Questions, here: Vantage, names: Mapping[int, str], wallets: Rows | None) -> None:
    """Containers that are seen and whose keystores are not: the account is kept from the rows of single views."""
    if wallets is None or not here.is_root:
        return
    hidden = names.keys() - {int(row[0] or 0) for row in wallets}
    if hidden:
        listed = ", ".join(sorted(names[con_id] for con_id in hidden))
        asked.note(f"unknown: the keystores of {listed}; CONTAINER_DATA of the account leaves them out")


def _objects(
    spaces: Mapping[Place, Space] | None, known: _Dictionary, listed: Iterable[Place] | None, here: Vantage
) -> list[tuple[str, str, int, int]]:
    """(kind, state, number, bytes) of everything that is known to be there."""
    parts: list[tuple[str, str, int, int]] = []
    if known.spaces is not None:
        for place, (contents, encrypted) in known.spaces.items():
            space = (spaces or {}).get(place)
            state = "in_progress" if space and space.is_moving else condition(encrypted)
            size = (known.files or {}).get(place, (0, 0))[0]
            parts.append((_KINDS.get(contents, "tablespace"), state, 1, size))
    elif spaces is not None:
        # In a database that is only mounted, those that are not listed may be encrypted as well.
        others = "plain" if here.is_open else "unknown"
        for place in listed if listed is not None else spaces:
            space = spaces.get(place)
            if space is None or not space.encrypted:
                parts.append(("tablespace", others, 1, 0))
            else:
                parts.append(("tablespace", "in_progress" if space.is_moving else "encrypted", 1, 0))
    for (_, _, _), count in (known.columns or {}).items():
        parts.append(("column", "encrypted", count, 0))
    return parts


def _algorithms(spaces: Mapping[Place, Space] | None, known: _Dictionary) -> tuple[tuple[str, int], ...]:
    """Of tablespaces by their name (`AES256`), of columns with whether they have salt (`AES192 salt`)."""
    found = Counter(space.algorithm for space in (spaces or {}).values() if space.encrypted)
    for (_, algorithm, salt), count in (known.columns or {}).items():
        found[f"{_short(algorithm)} {'salt' if salt == 'YES' else 'no salt'}"] += count
    return tuple(sorted(found.items()))


def _short(algorithm: str) -> str:
    """`AES256` for `AES 256 bits key`."""
    words = algorithm.replace("3 Key Triple DES", "3DES").split()
    return "".join(words[:2])


def _used(spaces: Mapping[Place, Space] | None, here: Vantage) -> dict[int, frozenset[bytes]] | None:
    """Ids of the master keys that tablespaces are encrypted with, by container."""
    if spaces is None or not here.is_open:
        return None
    found: dict[int, set[bytes]] = {}
    for (con_id, _), space in spaces.items():
        if space.encrypted and any(space.master_key):
            found.setdefault(con_id, set()).add(space.master_key)
    return {con_id: frozenset(ids) for con_id, ids in found.items()}


def _encrypts(
    spaces: Mapping[Place, Space] | None, known: _Dictionary, names: Mapping[int, str], here: Vantage
) -> dict[int, bool | None]:
    """Whether anything is encrypted, by container; None where that is unknown."""
    some = {con_id for (con_id, _), space in (spaces or {}).items() if space.encrypted}
    some |= {con_id for con_id, _, _ in known.columns or {}}
    sure = spaces is not None and known.columns is not None and here.is_open
    # A container that is shut shows nothing, whatever it has.
    told = {con_id for con_id, _ in known.spaces or {}}
    return {con_id: True if con_id in some else False if sure and con_id in told else None for con_id in names}


def _spoken(place: Place, names: Mapping[int, str], here: Vantage) -> str:
    """A tablespace's name for people; in the root with its container."""
    return f"{names.get(place[0], place[0])}.{place[1]}" if here.is_root else place[1]
