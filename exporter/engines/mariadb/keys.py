"""MariaDB's keys: which are in use, which are missing, and what state of the keystore that makes.

The plugin says only that it is loaded. What is known of a key is its CURRENT_KEY_VERSION: NO_SUCH_KEY when the plugin has
none of that id. Whether it is the right key shows only when something is read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from exporter.domain.states import Keystore, KeystoreState
from exporter.engines._mysql_protocol.inventory import Rows

PLUGIN = (
    "SELECT plugin_name, plugin_status FROM information_schema.plugins WHERE plugin_type = 'ENCRYPTION'"
    " ORDER BY plugin_status = 'ACTIVE' DESC LIMIT 1"
)
NO_SUCH_KEY = 4294967295
LOG_KEY = 1
"""The id of the key that logs are encrypted with."""
NAMELESS = "encryption_plugin"
"""Name of the keystore while no plugin was ever seen."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """The encryption plugin; a server can have one."""

    name: str
    status: str

    @classmethod
    def of_rows(cls, rows: Rows | None) -> Plugin | None:
        return cls(str(rows[0][0]), str(rows[0][1])) if rows else None

    @property
    def active(self) -> bool:
        return self.status == "ACTIVE"

    @property
    def kind(self) -> str:
        return "file" if self.name == "file_key_management" else "external"


class Keys:
    """Remembers the plugin and the keys that were in use: after a start without them the server shows neither."""

    def __init__(self) -> None:
        self.unreadable: bool | None = None
        self._name, self._kind = NAMELESS, ""
        self._used: frozenset[int] = frozenset()

    def restarted(self) -> None:
        """The server was started anew: that a table could be read before proves nothing now."""
        self.unreadable = self.unreadable or None

    def judge(
        self, plugins: Rows | None, keys: Rows | None, missing: int | None, logs: bool, note: Callable[[str], None]
    ) -> Keystore | None:
        """The keystore; None where nothing is encrypted and no plugin is loaded.

        Args:
            plugins: (name, status) of the encryption plugin; None: unknown.
            keys: (id, whether the server lacks it, number of tablespaces); None: unknown.
            missing: Number of tablespaces that the server has not opened: with a plugin it tries that at its start.
            logs: Whether logs are encrypted.
            note: Takes a sentence about what is wrong.
        """
        plugin = Plugin.of_rows(plugins)
        if plugin is not None:
            self._name, self._kind = plugin.name, plugin.kind
        used, lost = self._in_use(keys, missing, logs)
        if missing and plugin is not None:
            note(f"tablespaces that the server could not open: {missing}; their keys or their files are missing")
        elif missing:
            note(
                f"unknown: whether {missing} tablespaces are encrypted; without a plugin they are opened at their first use"
            )
        if plugins is None:
            state = KeystoreState.UNKNOWN
        elif plugin is None:
            if not used and keys is not None and self.unreadable is not True:
                return None
            state = KeystoreState.MISSING if used or self.unreadable else KeystoreState.UNKNOWN
        else:
            state = self._of_plugin(plugin, used, lost)
        return Keystore(
            name=self._name,
            state=state,
            kind=self._kind,
            raw="not loaded" if plugins == [] else plugin.status if plugin else "",
            keys_in_use=None if used is None else len(used),
            keys_missing=None if used is None else len(lost),
        )

    def _in_use(
        self, keys: Rows | None, missing: int | None, logs: bool
    ) -> tuple[frozenset[int] | None, frozenset[int]]:
        """Keys in use (None: unknown), and those that the server lacks."""
        if keys is None:
            return None, frozenset()
        listed = frozenset(int(row[0]) for row in keys)
        lost = frozenset(int(row[0]) for row in keys if row[1])
        used = listed | ({LOG_KEY} if logs else set())
        if missing:
            # Those that were in use and are listed no more may be the keys of these.
            gone = self._used - used
            return used | gone, lost | gone
        if missing == 0:
            self._used = used
        return used, lost

    def _of_plugin(self, plugin: Plugin, used: frozenset[int] | None, lost: frozenset[int]) -> KeystoreState:
        if not plugin.active:
            return KeystoreState.CLOSED
        if lost and lost == used:
            return KeystoreState.NO_KEY
        if lost:
            return KeystoreState.DEGRADED
        if self.unreadable:
            return KeystoreState.NO_KEY
        if used is None and self.unreadable is None:
            return KeystoreState.UNKNOWN
        return KeystoreState.OPEN
