"""What MySQL's own views say about the encryption of a whole server; of single tables see `tables.py`.

Encrypted tablespaces are those with ENCRYPTION = 'Y' in INNODB_TABLESPACES, also while their key is lost. One that is
being encrypted is shown as plain until that is done; the statement that does it is in the list of threads. The server has
no background work, and no setting that existing tables should follow: nothing is ever pending.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from exporter.domain.clock import Clock, SystemClock
from exporter.domain.states import EncryptionState
from exporter.engines._mysql_protocol.inventory import (
    MOST_CONVERSIONS,
    Inventory,
    Questions,
    Restarts,
    Source,
    Standstill,
    condition,
    in_the_clear,
    summed,
    switched,
)
from exporter.engines.mysql.keys import Keyring, Keys
from exporter.engines.mysql.tables import ALGORITHM, PROCESS
from exporter.engines.mysql.tables import keystore_failure as keystore_failure
from exporter.engines.mysql.tables import table_encryption as table_encryption

VARIABLES = (
    "binlog_encryption",
    "encrypt_tmp_files",
    "innodb_redo_log_encrypt",
    "innodb_undo_log_encrypt",
    "log_bin",
    "performance_schema",
)
_INVENTORY = (
    "SELECT CASE WHEN space_type = 'Undo' THEN 'undo' WHEN name = 'innodb_temporary' THEN 'temp' ELSE 'tablespace' END AS kind,"
    " encryption, COUNT(*), SUM(file_size) FROM information_schema.innodb_tablespaces GROUP BY kind, encryption"
)
_THREADS, _STAGES = "performance_schema.threads", "performance_schema.events_stages_current"
_STATEMENTS = (
    f"SELECT thread_id, processlist_db, LEFT(processlist_info, 2000) FROM {_THREADS}"
    " WHERE processlist_info LIKE 'alter%encryption%'"
)
_WORK = f"SELECT thread_id, work_completed, work_estimated FROM {_STAGES} WHERE work_estimated > 0"
_NAME = r"(?:`(?:[^`]|``)+`|[\w$]+)"
_ALTER = re.compile(
    rf"\s*ALTER\s+(?P<kind>TABLESPACE|TABLE)\s+(?P<name>{_NAME}(?:\s*\.\s*{_NAME})?)\s.*\bENCRYPTION\s*=?\s*['\"](?P<wanted>[YN])",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class _Spaces:
    """The inventory: (kind, whether encrypted, number, bytes) of tablespaces, and whether all binary logs are encrypted."""

    rows: tuple[tuple[str, bool, int, int], ...]
    logs: bool | None

    def encrypted(self, kind: str = "") -> int:
        return sum(count for of, yes, count, _ in self.rows if yes and kind in {"", of})


@dataclass(frozen=True, slots=True)
class _Conversion:
    """A statement under way: whether it encrypts (else decrypts), its object, the share that is done (None: unknown)."""

    encrypts: bool
    name: str
    done: float | None


class EncryptionReader:
    """Reads `EncryptionState`, again and again; remembers keys, progress and costs. One for each target, for good."""

    def __init__(self, clock: Clock | None = None) -> None:
        clock = clock or SystemClock()
        self._inventory: Inventory[_Spaces] = Inventory(clock)
        self._standstill = Standstill(clock)
        self._restarts = Restarts()
        self._keys = Keys()

    def note_unreadable(self, unreadable: bool) -> None:
        """Tell whether an encrypted twin could be read, whenever that was tried: no view proves that a key is the right
        one."""
        self._keys.unreadable = unreadable

    def read(self, connection: Source, timeout: float) -> EncryptionState:
        """Within `timeout` seconds. Raises only what means that the server cannot be asked."""
        asked = Questions(connection, timeout, "reading the state of encryption")
        variables = asked.variables(VARIABLES)
        if self._restarts.happened(asked.counters(["Uptime"]).get("uptime")):
            self._inventory.forget()
            self._keys.restarted()
        keyring = Keyring.ask(asked)
        conversions = _conversions(asked, variables)
        spaces = self._inventory.get(asked, lambda most: _count(asked, variables, most))
        redo = bool(switched(variables.get("innodb_redo_log_encrypt")))
        binlog = bool(switched(variables.get("log_bin")) and switched(variables.get("binlog_encryption")))
        keystore = self._keys.judge(keyring, None if spaces is None else spaces.encrypted() + redo, binlog, asked.note)
        parts = _objects(spaces, variables, conversions or [])
        tables = None if spaces is None else spaces.encrypted("tablespace")
        return EncryptionState(
            keystores=(keystore,) if keystore else (),
            objects=summed((kind, state, count) for kind, state, count, _ in parts),
            object_bytes=summed((kind, state, size) for kind, state, _, size in parts),
            algorithms=((ALGORITHM, tables),) if tables else (),
            unprotected=in_the_clear(_beside(spaces, variables), tables),
            conversions=tuple((work.name, work.done) for work in conversions or () if work.done is not None),
            conversion_stalled=self._standstill.judge(
                None if conversions is None else bool(conversions), tuple(conversions or ())
            ),
            problems=asked.problems,
        )


def _count(asked: Questions, variables: dict[str, str], most: float) -> _Spaces | None:
    rows = asked.ask(_INVENTORY, what="which tablespaces are encrypted", grant=PROCESS, most=most)
    logs = _logs_encrypted(asked, variables)
    return (
        None if rows is None else _Spaces(tuple((str(k), e == "Y", int(n), int(b or 0)) for k, e, n, b in rows), logs)
    )


def _objects(
    spaces: _Spaces | None, variables: dict[str, str], conversions: list[_Conversion]
) -> list[tuple[str, str, int, int]]:
    """(kind, state, number, bytes) of everything that can be encrypted."""
    parts = [(kind, condition(yes), count, size) for kind, yes, count, size in spaces.rows] if spaces else []
    for work in conversions if spaces else ():
        # Until it is done the view shows what it was before.
        parts += [("tablespace", "in_progress", 1, 0), ("tablespace", condition(not work.encrypts), -1, 0)]
    parts.append(("redo", condition(switched(variables.get("innodb_redo_log_encrypt"))), 1, 0))
    if spaces is None:
        parts.append(("undo", "unknown", 1, 0))
    if switched(variables.get("log_bin")):
        parts.append(("binlog", condition(spaces.logs if spaces else None), 1, 0))
    if "encrypt_tmp_files" in variables:
        parts.append(("temp", condition(switched(variables["encrypt_tmp_files"])), 1, 0))
    return parts


def _beside(spaces: _Spaces | None, variables: dict[str, str]) -> dict[str, list[bool | None]]:
    """What else holds data of encrypted tables, and whether it is encrypted."""
    logs = [switched(variables.get("innodb_redo_log_encrypt"))]
    if switched(variables.get("log_bin")):
        logs.append(spaces.logs if spaces else None)
    temporary: list[bool | None] = []
    for kind, yes, count, _ in spaces.rows if spaces else ():
        if kind in {"undo", "temp"}:
            (logs if kind == "undo" else temporary).extend([yes] * count)
    if "encrypt_tmp_files" in variables:
        temporary.append(switched(variables["encrypt_tmp_files"]))
    return {"log": logs, "temp": temporary}


def _logs_encrypted(asked: Questions, variables: dict[str, str]) -> bool | None:
    """Whether all binary logs are encrypted: those that were written before the setting was changed are not."""
    if not switched(variables.get("log_bin")):
        return None
    if not switched(variables.get("binlog_encryption")):
        return switched(variables.get("binlog_encryption"))
    rows = asked.ask(
        "SHOW BINARY LOGS", what="whether all binary logs are encrypted", grant="REPLICATION CLIENT ON *.*"
    )
    return None if rows is None else all(str(row[-1]).upper() == "YES" for row in rows)


def _conversions(asked: Questions, variables: dict[str, str]) -> list[_Conversion] | None:
    """Statements under way that encrypt or decrypt; None: unknown whether there are any.

    How far they are is known only where the consumer events_stages_current is on.
    """
    if switched(variables.get("performance_schema")) is False:
        asked.note("unknown: whether something is being encrypted; performance_schema is off")
        return None
    rows = asked.ask(_STATEMENTS, what="whether something is being encrypted", grant=f"SELECT ON {_THREADS}")
    if rows is None:
        return None
    found = {thread: work for thread, *statement in rows if (work := conversion(*statement)) is not None}
    if not found:
        return []
    done = asked.ask(_WORK, what="how far an encryption is", grant=f"SELECT ON {_STAGES}")
    shares = {row[0]: min(1.0, max(0.0, float(row[1] or 0) / float(row[2]))) for row in done or ()}
    works = [replace(work, done=shares.get(thread)) for thread, work in found.items()]
    return works[:MOST_CONVERSIONS]


def conversion(schema: str | None, statement: str) -> _Conversion | None:
    """What a statement encrypts or decrypts: nothing of its text is told but the object's name, as a tablespace's."""
    match = _ALTER.match(statement)
    if match is None:
        return None
    name = re.sub(r"[`\s]", "", match["name"])
    if match["kind"].upper() == "TABLE":
        name = name.replace(".", "/", 1) if "." in name else f"{schema}/{name}"
    return _Conversion(match["wanted"].upper() == "Y", name, None)
