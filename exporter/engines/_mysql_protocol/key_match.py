"""Whether a standby has the keys that its primary's objects are encrypted with, as far as a server tells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from exporter.domain.errors import PermissionMissing, QueryFailed
from exporter.engines._mysql_protocol.connection import Connection

NO_SUCH_KEY = 4294967295
"""MariaDB's CURRENT_KEY_VERSION of a key that it does not have (ENCRYPTION_KEY_VERSION_INVALID)."""
MASTER = "the master key"


@dataclass(frozen=True, slots=True)
class KeysSeen:
    """The keys that the encrypted objects of a server refer to, and those of them that it cannot get.

    `problem` says why that is not known, and then both are empty.
    """

    in_use: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    problem: str = ""


KeyLook = Callable[[Connection, float], KeysSeen]
"""Asks a server, with a timeout in seconds. Raises `TargetError` when the session is lost or the time over."""


def compared(primary: KeysSeen, standby: KeysSeen) -> tuple[bool | None, str]:
    """Whether the standby has all keys in use on the primary, and why that is not known or not so."""
    if standby.missing:
        return False, f"it lacks {_listed(standby.missing)}"
    if standby.problem or primary.problem:
        return None, f"its keys are not known: {standby.problem or f'on the primary, {primary.problem}'}"
    if not primary.in_use:
        return None, ""
    if unused := primary.in_use - standby.in_use:
        return None, f"it has no object that shows whether it has {_listed(unused)}"
    return True, ""


def _listed(keys: frozenset[str]) -> str:
    return " and ".join(sorted(keys))


def mariadb_keys(connection: Connection, timeout: float) -> KeysSeen:
    """Keys by their numbers; each server has a key of its own under it. Not seen is one with the wrong bytes."""
    sql = (
        "SELECT current_key_id, MAX(current_key_version = %s) FROM information_schema.innodb_tablespaces_encryption"
        " WHERE encryption_scheme <> 0 AND name IS NOT NULL GROUP BY current_key_id"
    )
    try:
        rows = connection.rows(sql, (NO_SUCH_KEY,), timeout=timeout)
    except PermissionMissing:
        return KeysSeen(problem="GRANT PROCESS ON *.* to our account there")
    except QueryFailed as error:
        return KeysSeen(problem=str(error))
    names = {f"key {number}": bool(missing) for number, missing in rows}
    return KeysSeen(frozenset(names), frozenset(name for name, missing in names.items() if missing))


def mysql_keys(connection: Connection, timeout: float) -> KeysSeen:
    """Each server has a master key of its own, named by its uuid; a copied server keeps that of its origin."""
    needed = ""
    try:
        needed = "PROCESS ON *.*"
        spaces = "SELECT COUNT(*) FROM information_schema.innodb_tablespaces WHERE encryption = 'Y'"
        (encrypted,) = connection.row(spaces, timeout=timeout) or (0,)
        if not encrypted:
            return KeysSeen()
        needed = "SELECT ON performance_schema.keyring_keys"
        sql = (
            "SELECT COUNT(*), SUM(key_id LIKE CONCAT('INNODBKey-', @@server_uuid, '-%%'))"
            " FROM performance_schema.keyring_keys WHERE key_id LIKE %s"
        )
        keys, own = connection.row(sql, ("INNODBKey-%",), timeout=timeout) or (0, 0)
    except PermissionMissing:
        return KeysSeen(problem=f"GRANT {needed} to our account there")
    except QueryFailed as error:
        return KeysSeen(problem=str(error))
    if not keys:
        return KeysSeen(frozenset({MASTER}), frozenset({MASTER}))
    if not own:
        return KeysSeen(problem="its keyring has only master keys of other servers, as that of a copied server may")
    return KeysSeen(frozenset({MASTER}))
