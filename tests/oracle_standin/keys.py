"""Keystores and master keys of the model."""

from __future__ import annotations

import datetime
import hashlib
from dataclasses import dataclass, field

_ACTIVATED = datetime.datetime(2026, 1, 15, 8, 30, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))


@dataclass
class Keystore:
    """A row of V$ENCRYPTION_WALLET. `kind` is WRL_TYPE (FILE, HSM, OKV), `mode` NONE, UNITED or ISOLATED."""

    con_id: int
    status: str = "OPEN"
    kind: str = "FILE"
    wallet_type: str = "AUTOLOGIN"
    location: str = "/opt/oracle/wallet/tde/"
    order: str = "SINGLE"
    mode: str = "NONE"
    backed_up: str = "YES"

    @property
    def is_open(self) -> bool:
        return self.status.startswith("OPEN")

    @property
    def error(self) -> int:
        """What reading encrypted blocks ends in: 28365 when it is closed, 28361 without a key, else 0."""
        if not self.is_open:
            return 28365
        return 28361 if self.status == "OPEN_NO_MASTER_KEY" else 0


@dataclass
class MasterKey:
    """A row of V$ENCRYPTION_KEYS; without `activated`, one that was made and never used. `number` makes its id.

    A `missing` key is one that encrypted objects use and that the keystore does not have: reading ends in ORA-28374.
    """

    con_id: int
    number: int = 0
    tag: str | None = None
    created: datetime.datetime = _ACTIVATED
    activated: datetime.datetime | None = _ACTIVATED
    creator: str = "SYS"
    keystore_type: str = "SOFTWARE KEYSTORE"
    origin: str = "LOCAL"
    backed_up: str = "YES"
    missing: bool = False
    key_id: bytes = field(init=False)

    def __post_init__(self) -> None:
        self.key_id = hashlib.md5(f"{self.con_id}:{self.number}".encode()).digest()

    @property
    def name(self) -> str:
        """KEY_ID as text."""
        return "06" + self.key_id.hex().upper() + "00000000"
