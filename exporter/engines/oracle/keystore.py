"""Keystores and master keys as the database shows them: of all containers in the root, else of the session's own.

Since 23ai, reading these views may make the database check its whole configuration and write warnings to its alert log,
and with an external key manager they may be slow: so they are read seldom, and never in a scrape.
"""

from __future__ import annotations

import base64
import binascii
import datetime
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from exporter.domain.states import Keystore, KeystoreState
from exporter.engines.oracle.questions import SEED, Rows
from exporter.engines.oracle.statements import define, view

MOST_KEYS = 20_000
"""Master keys that are looked at; a key manager that serves many databases may show all of theirs."""

WALLETS = define(
    "keystore.wallets",
    "SELECT con_id, wrl_type, status, wallet_type, wallet_order, fully_backed_up, keystore_mode FROM v$encryption_wallet",
    "encryption_state",
    view("V$ENCRYPTION_WALLET"),
    since=18,
)
WALLETS_12 = define(
    "keystore.wallets_12",
    "SELECT con_id, wrl_type, status, wallet_type, wallet_order, fully_backed_up FROM v$encryption_wallet",
    "encryption_state",
    view("V$ENCRYPTION_WALLET"),
)
KEYS = define(
    "keystore.keys",
    # In UTC, for a time with the name of a zone cannot be fetched. Never the keys, only their names.
    "SELECT con_id, key_id, SYS_EXTRACT_UTC(activation_time) AS activated, keystore_type, backed_up"
    f" FROM v$encryption_keys FETCH FIRST {MOST_KEYS} ROWS ONLY",
    "encryption_state",
    view("V$ENCRYPTION_KEYS"),
)
CONTAINERS = define(
    "keystore.containers",
    "SELECT con_id, name, open_mode, restricted FROM v$containers",
    "encryption_state",
    view("V$CONTAINERS"),
)

_STATES = {
    "OPEN": KeystoreState.OPEN,
    "OPEN_NO_MASTER_KEY": KeystoreState.NO_KEY,
    "CLOSED": KeystoreState.CLOSED,
    "NOT_AVAILABLE": KeystoreState.MISSING,
}
"""All others are unknown; OPEN_UNKNOWN_MASTER_KEY_STATUS is what a mounted database says of an external keystore."""
_KINDS = {
    "AUTOLOGIN": "auto_login",
    "LOCAL_AUTOLOGIN": "local_auto_login",
    "PASSWORD": "password",
    "HSM": "hsm",
    "OKV": "okv",
}
"""WALLET_TYPE in our words. Of other words, some only repeat WRL_TYPE, which then stands for them."""


@dataclass(frozen=True, slots=True)
class Wallet:
    """A row of V$ENCRYPTION_WALLET, its words in upper case."""

    con_id: int
    place: str
    status: str
    kind: str
    order: str
    backed_up: str
    mode: str

    @classmethod
    def of(cls, row: tuple[object, ...]) -> Wallet:
        con_id, place, status, kind, order, backed_up, *mode = (str(part or "").upper() for part in row)
        return cls(int(con_id or 0), place, status, kind, order, backed_up, mode[0] if mode else "")

    @property
    def is_open(self) -> bool:
        return self.status.startswith("OPEN")

    @property
    def is_external(self) -> bool:
        return self.place not in ("FILE", "")


@dataclass(frozen=True, slots=True)
class MasterKey:
    """A row of V$ENCRYPTION_KEYS. `activated` is Unix time, None for a key that was never used."""

    con_id: int
    name: str
    activated: float | None
    external: bool
    backed_up: bool | None


@dataclass(frozen=True, slots=True)
class Keys:
    """The master keys that the keystores show; `complete` unless there were more than are looked at."""

    keys: tuple[MasterKey, ...]
    complete: bool = True

    @classmethod
    def of(cls, rows: Rows) -> Keys:
        found = tuple(
            MasterKey(int(con_id or 0), str(name), _unix(activated), kind in ("HSM", "OKV"), yes_no(backed_up))
            for con_id, name, activated, kind, backed_up in rows
        )
        return cls(found, len(found) < MOST_KEYS)

    def active(self, con_id: int, external: bool | None = None) -> MasterKey | None:
        """The key that a container uses now: of those that were activated, the last. `external`: only such keys."""
        own = [key for key in self.keys if key.con_id == con_id and key.activated is not None]
        fitting = [key for key in own if external is None or key.external is external]
        return max(fitting, key=lambda key: key.activated or 0.0, default=None)

    def active_names(self) -> frozenset[str]:
        """Names of the keys that containers use now."""
        found = (self.active(con_id) for con_id in {key.con_id for key in self.keys})
        return frozenset(key.name for key in found if key is not None)

    def lacks(self, used: Iterable[bytes]) -> int | None:
        """How many of the master keys with these ids are not among those shown; None when that cannot be told.

        The name of a key holds its id, in base64 behind a byte 01, or in hexadecimal digits. This is not documented, so it
        is only believed where it leads to at least one key.
        """
        wanted = set(used)
        if not wanted:
            return 0
        if not self.complete:
            return None
        shown = [(key.name.upper(), _decoded(key.name)) for key in self.keys]
        met = {one for one in wanted if any(one.hex().upper() in name or one in data for name, data in shown)}
        return len(wanted - met) if met else None


def keystores(
    rows: Rows | None,
    keys: Keys | None,
    used: Mapping[int, frozenset[bytes]] | None,
    encrypts: Mapping[int, bool | None],
    names: Mapping[int, str],
) -> tuple[Keystore, ...]:
    """What is known of each keystore, those of the seed left out.

    `used` are the ids of the master keys in use by container (None: unknown), `encrypts` tells whether anything is
    encrypted there (missing or None: unknown), `names` are those of the containers.
    """
    wallets = [wallet for wallet in map(Wallet.of, rows or ()) if wallet.con_id != SEED]
    found: dict[str, Keystore] = {}
    for wallet in wallets:
        if wallet.status == "NOT_AVAILABLE" and encrypts.get(wallet.con_id) is False:
            continue  # nobody has set up encryption there
        several = sum(other.con_id == wallet.con_id for other in wallets) > 1
        name = f"{names.get(wallet.con_id, f'container {wallet.con_id}')}/{wallet.place.lower() or 'unknown'}"
        if name in found:
            name = f"{name}/{wallet.order.lower()}"
        found[name] = _judged(name, wallet, several, keys, used, encrypts.get(wallet.con_id))
    return tuple(found.values())


def _judged(
    name: str,
    wallet: Wallet,
    several: bool,
    keys: Keys | None,
    used: Mapping[int, frozenset[bytes]] | None,
    encrypts: bool | None,
) -> Keystore:
    state = _STATES.get(wallet.status, KeystoreState.UNKNOWN)
    if state in (KeystoreState.MISSING, KeystoreState.NO_KEY) and encrypts is None:
        state = KeystoreState.UNKNOWN
    if state is KeystoreState.NO_KEY and encrypts is False:
        # As in each container that encrypts nothing, below the root's keystore.
        state = KeystoreState.OPEN
    in_use = missing = None
    # Of two keystores one serves; the other would count the same keys again.
    if used is not None and encrypts is not None and not (several and wallet.order == "SECONDARY"):
        ids = used.get(wallet.con_id, frozenset())
        in_use = len(ids) if ids or not encrypts else None
        if in_use is not None:
            missing = keys.lacks(ids) if keys is not None and wallet.is_open else 0 if not ids else None
    if state is KeystoreState.OPEN and missing:
        state = KeystoreState.DEGRADED
    active = keys.active(wallet.con_id, wallet.is_external if several else None) if keys and keys.complete else None
    return Keystore(
        name=name,
        state=state,
        kind=_KINDS.get(wallet.kind, wallet.place.lower() or "unknown"),
        mode=" ".join(word.lower() for word in (wallet.mode, wallet.order) if word not in ("", "NONE", "SINGLE")),
        raw=wallet.status,
        key_activated=active.activated if active else None,
        keys_in_use=in_use,
        keys_missing=missing,
        backed_up=active.backed_up if active else yes_no(wallet.backed_up),
    )


def yes_no(word: object) -> bool | None:
    """YES or NO; everything else is unknown."""
    return {"YES": True, "NO": False}.get(str(word or "").upper())


def _unix(moment: object) -> float | None:
    """A time of UTC, without a zone."""
    return moment.replace(tzinfo=datetime.UTC).timestamp() if isinstance(moment, datetime.datetime) else None


def _decoded(name: str) -> bytes:
    try:
        return base64.b64decode(name + "=" * (-len(name) % 4))
    except (binascii.Error, ValueError):
        return b""
