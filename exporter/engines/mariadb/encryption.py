"""What MariaDB's own views say about the encryption of a whole server; of single tables see `tables.py`.

A tablespace is encrypted when MIN_KEY_VERSION is above 0; CURRENT_KEY_VERSION alone proves nothing. Those that were never
touched by encryption are not listed in INNODB_TABLESPACES_ENCRYPTION, only in INNODB_SYS_TABLESPACES. And both list only
what the server has opened: all at its start where an encryption plugin is loaded, else each at its first use. Until then
only the list of tables (INNODB_SYS_TABLES) has it.
"""

from __future__ import annotations

from dataclasses import dataclass

from exporter.domain.clock import Clock, SystemClock
from exporter.domain.states import EncryptionState
from exporter.engines._mysql_protocol.inventory import (
    MOST_CONVERSIONS,
    Inventory,
    Questions,
    Restarts,
    Rows,
    Source,
    Standstill,
    condition,
    in_the_clear,
    spoken,
    summed,
    switched,
)
from exporter.engines.mariadb.keys import NO_SUCH_KEY, PLUGIN, Keys
from exporter.engines.mariadb.tables import ALGORITHM, PROCESS, algorithm_of
from exporter.engines.mariadb.tables import keystore_failure as keystore_failure
from exporter.engines.mariadb.tables import table_encryption as table_encryption

VARIABLES = (
    ALGORITHM,
    "encrypt_binlog",
    "encrypt_tmp_disk_tables",
    "encrypt_tmp_files",
    "innodb_encrypt_log",
    "innodb_encrypt_tables",
    "innodb_encrypt_temporary_tables",
    "innodb_encryption_threads",
    "log_bin",
)
_MOVED = ("Innodb_encryption_rotation_pages_modified", "Innodb_encryption_rotation_pages_flushed")
_KEYS = (
    "SELECT current_key_id, MAX(current_key_version = %s), COUNT(*) FROM information_schema.innodb_tablespaces_encryption"
    " WHERE encryption_scheme <> 0 GROUP BY current_key_id"
)
_MOVING = (
    "SELECT name, key_rotation_page_number, key_rotation_max_page_number"
    " FROM information_schema.innodb_tablespaces_encryption WHERE rotating_or_flushing <> 0 LIMIT %s"
)
# Grouped and not joined: the server has no index over these views, and a join of 2000 tablespaces took ten times as long.
_INVENTORY = """SELECT kind, state, COUNT(*), SUM(bytes) FROM (
 SELECT CASE WHEN MAX(present) = 0 THEN 'missing' WHEN MAX(name) = 'innodb_temporary' THEN 'temporary'
   WHEN MAX(name) LIKE 'innodb|_undo%' ESCAPE '|' THEN 'undo' WHEN space = 0 THEN 'system' ELSE 'other' END AS kind,
  CASE WHEN MAX(moving) AND (MAX(least) = 0 OR MAX(least) >= MAX(newest)) THEN 'in_progress'
   WHEN MAX(least) > 0 THEN 'encrypted'
   WHEN MAX(listed) AND MAX(scheme) = 0 AND MAX(requests) = 0 AND MAX(name) LIKE '%/%' THEN 'plain'
   ELSE 'default' END AS state, MAX(bytes) AS bytes FROM (
   SELECT space, name, 1 AS present, 0 AS listed, file_size AS bytes, 0 AS scheme, 0 AS requests, 0 AS least, 0 AS newest,
     0 AS moving FROM information_schema.innodb_sys_tablespaces
   UNION ALL SELECT space, name, 0, 1, 0, encryption_scheme, keyserver_requests, min_key_version, current_key_version,
     rotating_or_flushing FROM information_schema.innodb_tablespaces_encryption
   UNION ALL SELECT space, '', 0, 0, 0, 0, 0, 0, 0, 0 FROM information_schema.innodb_sys_tables WHERE space <> 0
  ) AS seen GROUP BY space
 ) AS spaces GROUP BY kind, state"""


@dataclass(frozen=True, slots=True)
class _Spaces:
    """The inventory of tablespaces, as `_INVENTORY` counts them."""

    rows: tuple[tuple[str, str, int, int], ...]

    def count(self, *kinds: str, state: str = "") -> int:
        return sum(row[2] for row in self.rows if row[0] in kinds and state in {"", row[1]})

    @property
    def encrypted(self) -> int:
        return self.count("system", "undo", "other", state="encrypted")

    @property
    def missing(self) -> int:
        """Tablespaces of tables that the server has not opened, or could not open."""
        return self.count("missing")


class EncryptionReader:
    """Reads `EncryptionState`, again and again; remembers keys, progress and costs. One for each target, for good."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._inventory: Inventory[_Spaces] = Inventory(self._clock)
        self._standstill = Standstill(self._clock)
        self._restarts = Restarts()
        self._keys = Keys()
        self._moved: tuple[int, ...] | None = None

    def note_unreadable(self, unreadable: bool) -> None:
        """Tell whether an encrypted twin could be read, whenever that was tried: no view proves that a key is the right
        one."""
        self._keys.unreadable = unreadable

    def read(self, connection: Source, timeout: float) -> EncryptionState:
        """Within `timeout` seconds. Raises only what means that the server cannot be asked."""
        asked = Questions(connection, timeout, "reading the state of encryption")
        variables = asked.variables(VARIABLES)
        threads = int(variables.get("innodb_encryption_threads", "0") or 0)
        counters = asked.counters(("Uptime", *_MOVED))
        if self._restarts.happened(counters.get("uptime")):
            self._inventory.forget()
            self._keys.restarted()
        plugin_rows = asked.ask(PLUGIN, what="whether an encryption plugin is loaded")
        keys = asked.ask(_KEYS, (NO_SUCH_KEY,), what="which keys are in use and which are missing", grant=PROCESS)
        moving = self._moving(asked, threads)
        spaces = self._inventory.get(asked, lambda most: self._count(asked, most))
        works = threads > 0 and (bool(moving) or self._has_moved(counters))
        policy = switched(variables.get("innodb_encrypt_tables"))
        parts = _objects(spaces, policy, works, variables)
        objects = summed((kind, state, count) for kind, state, count, _ in parts)
        keystore = self._keys.judge(
            plugin_rows, keys, spaces.missing if spaces else None, _logs_need_a_key(variables), asked.note
        )
        lost = keystore.keys_missing if keystore else 0
        encrypted = None if spaces is None else spaces.encrypted + (lost or 0)
        algorithm = algorithm_of(variables)
        return EncryptionState(
            keystores=(keystore,) if keystore else (),
            objects=objects,
            object_bytes=summed((kind, state, size) for kind, state, _, size in parts),
            algorithms=((algorithm, spaces.encrypted),) if spaces and algorithm else (),
            unprotected=in_the_clear(_beside(spaces, variables), encrypted),
            conversions=tuple((spoken(name), _share(done, most)) for name, done, most in moving or ()),
            conversion_stalled=self._stalled(spaces, objects, moving, counters),
            problems=asked.problems,
        )

    def _moving(self, asked: Questions, threads: int) -> Rows | None:
        """What the background threads work on now."""
        return asked.ask(_MOVING, (MOST_CONVERSIONS,)) if threads > 0 else []

    def _count(self, asked: Questions, most: float) -> _Spaces | None:
        rows = asked.ask(_INVENTORY, what="which tablespaces are encrypted", grant=PROCESS, most=most)
        return None if rows is None else _Spaces(tuple((k, s, int(n), int(b or 0)) for k, s, n, b in rows))

    def _has_moved(self, counters: dict[str, int]) -> bool:
        """Whether the background threads have written pages since the last call."""
        before, self._moved = self._moved, tuple(counters.get(name.lower(), 0) for name in _MOVED)
        return before is not None and before != self._moved

    def _stalled(
        self,
        spaces: _Spaces | None,
        objects: tuple[tuple[str, str, int], ...],
        moving: Rows | None,
        counters: dict[str, int],
    ) -> bool | None:
        waiting = [part for part in objects if part[1] in {"pending", "in_progress"}]
        if spaces is None or moving is None:
            return self._standstill.judge(None, None)
        mark = (tuple(waiting), tuple(moving), tuple(counters.get(name.lower()) for name in _MOVED))
        return self._standstill.judge(bool(waiting or moving), mark)


def _logs_need_a_key(variables: dict[str, str]) -> bool:
    """Logs are encrypted with the key 1."""
    return any(switched(variables.get(name)) for name in ("innodb_encrypt_log", "encrypt_binlog"))


def _objects(
    spaces: _Spaces | None, policy: bool | None, works: bool, variables: dict[str, str]
) -> list[tuple[str, str, int, int]]:
    """(kind, state, number, bytes) of everything that can be encrypted."""
    parts: list[tuple[str, str, int, int]] = []
    waiting = "plain" if not policy else "in_progress" if works else "pending"
    undo = "unknown"
    for kind, state, count, size in spaces.rows if spaces else ():
        now = waiting if state == "default" else state
        if kind == "missing":
            parts.append(("tablespace", "unknown", count, 0))
        elif kind == "temporary":
            parts.append(("temp", condition(switched(variables.get("innodb_encrypt_temporary_tables"))), count, size))
        elif kind == "undo":
            parts.append(("undo", now, count, size))
        else:
            parts.append(("tablespace", now, count, size))
            undo = now if kind == "system" else undo
    if spaces and not spaces.count("undo"):
        parts.append(("undo", undo, 1, 0))
    parts.append(("redo", condition(switched(variables.get("innodb_encrypt_log"))), 1, 0))
    if switched(variables.get("log_bin")):
        parts.append(("binlog", condition(switched(variables.get("encrypt_binlog"))), 1, 0))
    for name in ("encrypt_tmp_files", "encrypt_tmp_disk_tables"):
        if name in variables:
            parts.append(("temp", condition(switched(variables[name])), 1, 0))
    return parts


def _beside(spaces: _Spaces | None, variables: dict[str, str]) -> dict[str, list[bool | None]]:
    """What else holds data of encrypted tables, and whether it is encrypted."""
    logs = [switched(variables.get("innodb_encrypt_log"))]
    if switched(variables.get("log_bin")):
        logs.append(switched(variables.get("encrypt_binlog")))
    if spaces:
        # Without tablespaces of their own the undo logs lie in the system tablespace.
        undo = "undo" if spaces.count("undo") else "system"
        encrypted = spaces.count(undo, state="encrypted")
        logs += [True] * encrypted + [False] * (spaces.count(undo) - encrypted)
    temporary = ("innodb_encrypt_temporary_tables", "encrypt_tmp_files", "encrypt_tmp_disk_tables")
    return {"log": logs, "temp": [switched(variables.get(name)) for name in temporary]}


def _share(done: int | None, most: int | None) -> float:
    """The server may count further than to the end, while it goes over pages that were added meanwhile."""
    return min(1.0, max(0.0, (done or 0) / most)) if most else 0.0
