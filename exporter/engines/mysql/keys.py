"""MySQL's keyring: the component or plugin, the keys that it holds, and what state of the keystore that makes.

That a component is active proves nothing: it stays so with a file that is missing, empty or of another server. The keys
are called `INNODBKey-<id of the server that made it>-<number>`, and the header of a tablespace names the one it needs,
which no view shows. A copy of a data directory runs under a new id and still needs the keys of the old one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from exporter.domain.states import Keystore, KeystoreState
from exporter.engines._mysql_protocol.inventory import Questions, Rows, switched

STATUS_VIEW = "performance_schema.keyring_component_status"
KEYS_VIEW = "performance_schema.keyring_keys"
NAMELESS = "keyring"
"""Name of the keystore while neither a component nor a plugin was ever seen."""
_MASTER = re.compile(r"INNODBKey-(.+)-(\d+)")
_BINLOG = "MySQLReplicationKey_"
_PLUGINS = (
    "SELECT plugin_name, plugin_status FROM information_schema.plugins"
    " WHERE plugin_name LIKE 'keyring|_%' ESCAPE '|' AND plugin_name <> 'keyring_udf' LIMIT 1"
)
_FILES = ("component_keyring_file", "component_keyring_encrypted_file", "component_percona_keyring_encrypted_file")
_FILE_PLUGINS = ("keyring_file", "keyring_encrypted_file")


@dataclass(frozen=True, slots=True)
class Keyring:
    """What the server tells of its keyring.

    Attributes:
        server: The server's id (`server_uuid`).
        name: Of the component or plugin; empty where none is loaded; None: unknown.
        status: The server's own word.
        masters: The highest number of InnoDB's master keys by server id; None: unknown.
        binlog: Whether there is a key for binary logs; None: unknown.
    """

    server: str
    name: str | None
    status: str
    masters: dict[str, int] | None
    binlog: bool | None

    @classmethod
    def ask(cls, asked: Questions) -> Keyring:
        """Ask for all of it; what is not granted is unknown."""
        status = asked.ask(
            f"SELECT status_key, status_value FROM {STATUS_VIEW}",
            what="whether a keyring component is loaded",
            grant=f"SELECT ON {STATUS_VIEW}",
        )
        plugins = asked.ask(_PLUGINS, what="whether a keyring plugin is loaded")
        settings = asked.variables(["server_uuid", "performance_schema"])
        if switched(settings.get("performance_schema")) is False:
            # Its view of the keys is empty then, whatever the keyring holds.
            asked.note("unknown: which keys the keyring holds; performance_schema is off")
            keys = None
        else:
            grant = f"SELECT ON {KEYS_VIEW}"
            keys = asked.ask(f"SELECT key_id FROM {KEYS_VIEW}", what="which keys the keyring holds", grant=grant)
        server = settings.get("server_uuid", "")
        name, word = _loaded(status, plugins)
        masters = None if keys is None else _masters(str(row[0]) for row in keys)
        binlog = None if keys is None else any(str(row[0]).startswith(_BINLOG) for row in keys)
        return cls(server, name, word, masters, binlog)

    @property
    def active(self) -> bool:
        return self.status.upper() == "ACTIVE"

    @property
    def kind(self) -> str:
        if not self.name:
            return ""
        return "file" if self.name in (*_FILES, *_FILE_PLUGINS) else "external"

    def why_not(self) -> str:
        """Why an encrypted table cannot be read, in words."""
        if self.name == "":
            return "the server has no keyring: no component is in its manifest, and no plugin is loaded"
        if self.name is None:
            return f"its key is missing or wrong; to know more takes GRANT SELECT ON {STATUS_VIEW}"
        if not self.active:
            return f"the keyring {self.name} is {self.status.lower()}; its file or its key server cannot be used"
        if self.masters is None:
            return f"its key is missing or wrong; to know more takes GRANT SELECT ON {KEYS_VIEW}"
        if not self.masters:
            return (
                f"the keyring {self.name} holds no master key; a lost key file is replaced by an empty one at a start"
            )
        if self.server not in self.masters:
            return f"the keyring {self.name} holds master keys of another server only"
        return f"the keyring {self.name} does not hold the master key that it needs, or another one under its name"


def _loaded(status: Rows | None, plugins: Rows | None) -> tuple[str | None, str]:
    """Name and status of what is loaded; a component wins, for a plugin beside it is not asked."""
    values = {str(key).lower(): str(value) for key, value in status or ()}
    if values:
        name = values.get("component_name") or values.get("implementation_name") or NAMELESS
        return name, values.get("component_status", "")
    if plugins:
        return str(plugins[0][0]), str(plugins[0][1])
    return (None, "") if status is None else ("", "")


def _masters(keys: Iterable[str]) -> dict[str, int]:
    highest: dict[str, int] = {}
    for key in keys:
        if found := _MASTER.fullmatch(key):
            highest[found[1]] = max(highest.get(found[1], 0), int(found[2]))
    return highest


class Keys:
    """Remembers the keyring and the keys it held: a server with an emptied one looks like a new one."""

    def __init__(self) -> None:
        self.unreadable: bool | None = None
        self._name, self._kind = NAMELESS, ""
        self._masters: dict[str, int] = {}

    def restarted(self) -> None:
        """The server was started anew: that a table could be read before proves nothing now."""
        self.unreadable = self.unreadable or None

    def judge(self, keyring: Keyring, spaces: int | None, binlog: bool, note: Callable[[str], None]) -> Keystore | None:
        """The keystore; None where nothing is encrypted and no keyring is loaded.

        Args:
            keyring: As it is now.
            spaces: Number of encrypted tablespaces; None: unknown.
            binlog: Whether binary logs are encrypted.
            note: Takes a sentence about what is wrong.
        """
        if keyring.name:
            self._name, self._kind = keyring.name, keyring.kind
        if keyring.name == "" and spaces == 0 and not self.unreadable:
            return None
        lost = self._lost(keyring, spaces)
        self._remember(keyring, spaces)
        missing = None if lost is None else int(lost) + (1 if binlog and keyring.binlog is False else 0)
        state = self._state(keyring, spaces, lost, missing)
        if (
            state is KeystoreState.UNKNOWN
            and keyring.active
            and lost is None
            and keyring.masters
            and spaces is not None
        ):
            note(
                "unknown: whether the keyring opens the encrypted tables; it holds master keys of another server only, "
                "as after a copy of a data directory, and no encrypted twin tells"
            )
        return Keystore(
            name=self._name,
            state=state,
            kind=self._kind,
            raw=keyring.status or ("not loaded" if keyring.name == "" else ""),
            keys_in_use=None if spaces is None else int(spaces > 0) + int(binlog),
            keys_missing=missing,
        )

    def _lost(self, keyring: Keyring, spaces: int | None) -> bool | None:
        """Whether the master key is not there that encrypted tablespaces need; None: unknown.

        A server has one in use at a time, for a rotation gives it to all of them.
        """
        if spaces == 0:
            return False
        if keyring.masters is None or spaces is None:
            return True if keyring.name == "" and spaces else None
        if not keyring.masters:
            return True
        if any(keyring.masters.get(server, 0) < number for server, number in self._masters.items()):
            return True
        if self.unreadable is not None:
            return self.unreadable
        return False if keyring.server in keyring.masters else None

    def _remember(self, keyring: Keyring, spaces: int | None) -> None:
        """Keys vanish from the list only when they are lost; they count until nothing is encrypted, or the twin reads."""
        if spaces == 0 or self.unreadable is False:
            self._masters = {}
        for server, number in (keyring.masters or {}).items():
            self._masters[server] = max(number, self._masters.get(server, 0))

    def _state(self, keyring: Keyring, spaces: int | None, lost: bool | None, missing: int | None) -> KeystoreState:
        if keyring.name == "":
            return KeystoreState.MISSING if spaces or self.unreadable else KeystoreState.UNKNOWN
        if keyring.name is None:
            return KeystoreState.UNKNOWN
        if not keyring.active:
            return KeystoreState.CLOSED
        if lost or self.unreadable:
            return KeystoreState.NO_KEY
        if missing:
            return KeystoreState.DEGRADED
        if lost is None and self.unreadable is None:
            return KeystoreState.UNKNOWN
        return KeystoreState.OPEN
