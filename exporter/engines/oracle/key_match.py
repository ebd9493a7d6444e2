"""Whether a standby has the master keys that its primary uses, as far as both tell. Only digests of names are kept."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from exporter.engines.oracle.keystore import KEYS, WALLETS_12, Keys, Wallet
from exporter.engines.oracle.questions import SEED, Questions
from exporter.engines.oracle.statements import define, view

MASTERS = define(
    "standby.master_keys",
    # Of the control file, so it can be read where the database is only mounted.
    "SELECT con_id, masterkeyid FROM v$database_key_info",
    "standby",
    view("V$DATABASE_KEY_INFO"),
)

SHARE = 0.25
"""Of the time that is left, what each look at a keystore may take: external ones may be slow."""

LACKS = "it lacks a master key that the primary uses"
SHUT = "its keystore is not open"
BEHIND = "its control file names another master key than the primary's, and nothing is applied"
NOT_YET = "its control file names another master key than the primary's; whether it has that key is not known"
UNKNOWN = "whether it has the primary's master keys is not known"


@dataclass(frozen=True, slots=True)
class KeysSeen:
    """What one database tells of its master keys; None is unknown. `in_use` and `shown` are digests of names in the
    keystores, `masters` of the ids in the control file. `is_open`: at least one keystore is."""

    in_use: frozenset[str] | None = None
    shown: frozenset[str] | None = None
    masters: frozenset[str] | None = None
    is_open: bool | None = None
    problems: tuple[str, ...] = field(default=(), compare=False)


def seen(asked: Questions) -> KeysSeen:
    """Ask a database. What it does not tell is unknown, and in the problems of `asked`."""
    most = SHARE * asked.left
    wallets = asked.ask(WALLETS_12, what="its keystores", most=most)
    found = asked.ask(KEYS, what="its master keys", most=most)
    keys = None if found is None else Keys.of(found)
    ids = asked.ask(MASTERS, what="the master keys that its control file names", most=most)
    states = [wallet for wallet in map(Wallet.of, wallets or ()) if wallet.con_id != SEED]
    return KeysSeen(
        in_use=None if keys is None or not keys.complete else frozenset(map(_digest, keys.active_names())),
        shown=None if keys is None or not keys.complete else frozenset(_digest(key.name) for key in keys.keys),
        masters=None if ids is None else frozenset(_digest(bytes(each).hex()) for _, each in ids if each and any(each)),
        is_open=any(wallet.is_open for wallet in states) if states else None,
    )


def compared(primary: KeysSeen, standby: KeysSeen, applies: bool | None) -> tuple[bool | None, str]:
    """Whether the standby has the keys in use on the primary, and why that is not so or not known.

    `applies`: its apply runs. Redo that follows a new key cannot be applied without that key, which stops the apply.
    """
    if not primary.in_use and not primary.masters:
        # Nothing is known of the primary's keys, or it has none.
        return None, "" if primary.in_use is not None else UNKNOWN
    if standby.is_open is False:
        return False, SHUT
    if primary.in_use and standby.shown:
        return (True, "") if primary.in_use <= standby.shown else (False, LACKS)
    if primary.masters and standby.masters:
        if primary.masters <= standby.masters:
            return True, ""
        return (False, BEHIND) if applies is False else (None, NOT_YET)
    return None, UNKNOWN


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()
