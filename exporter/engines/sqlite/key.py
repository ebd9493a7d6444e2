"""The key file: 32 random bytes in 64 hexadecimal digits, made once and never overwritten."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from pathlib import Path

from exporter.domain.errors import KeystoreFailed
from exporter.domain.states import Keystore, KeystoreState

_FORMAT = re.compile(r"[0-9a-f]{64}")
_LONGEST = 1024


class Key:
    """A key that cannot be printed by accident."""

    __slots__ = ("_digits",)

    def __init__(self, digits: str) -> None:
        self._digits = digits

    def __repr__(self) -> str:
        return "Key(hidden)"

    @property
    def pragma(self) -> str:
        """Value for `PRAGMA key`: a raw key, so no time is spent on deriving one. (`hexkey` would be a passphrase.)"""
        return f"raw:{self._digits}"


class KeyFile:
    """The keystore of the embedded engine."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def exists(self) -> bool:
        return os.path.lexists(self.path)

    def read(self) -> Key:
        """The key. Raises `KeystoreFailed`, which names the file and never shows its content."""
        try:
            if not stat.S_ISREG(self.path.stat().st_mode):
                # Whoever reads a pipe waits for its writer.
                raise KeystoreFailed(f"the key file {self.path} is not a file")
            with self.path.open("rb") as file:
                text = file.read(_LONGEST).decode("ascii", "replace").strip().lower()
        except FileNotFoundError:
            raise KeystoreFailed(f"the key file {self.path} is missing; put it back from a backup") from None
        except OSError as error:
            raise KeystoreFailed(f"the key file {self.path} cannot be read: {error.strerror}") from None
        if not _FORMAT.fullmatch(text):
            raise KeystoreFailed(f"the key file {self.path} does not hold 64 hexadecimal digits")
        return Key(text)

    def create(self) -> None:
        """Make a new random key, on disk before this returns. An existing file wins. Raises OSError."""
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        written = self.path.with_name(f".{self.path.name}.{secrets.token_hex(6)}.tmp")
        try:
            file = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                os.write(file, f"{secrets.token_hex(32)}\n".encode())
                os.fsync(file)
            finally:
                os.close(file)
            self._publish(written)
        finally:
            written.unlink(missing_ok=True)
        sync_directory(self.path.parent)

    def _publish(self, written: Path) -> None:
        """Give the new file its name. A link, unlike a rename, never replaces a key that somebody else has just put there."""
        try:
            os.link(written, self.path)
        except FileExistsError:
            return
        except OSError as error:
            # Some file systems have no links; the scratch lock keeps other exporters away.
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS) or self.exists():
                raise
            written.rename(self.path)

    def state(self) -> Keystore:
        """The keystore as it is on disk now, without opening any database."""
        name = self.path.name
        try:
            activated = self.path.stat().st_mtime
        except FileNotFoundError:
            return Keystore(name, KeystoreState.MISSING, kind="file", raw="file not found", seen_from="files")
        except OSError as error:
            raw = error.strerror or "unreadable"
            return Keystore(name, KeystoreState.NO_KEY, kind="file", raw=raw, seen_from="files")
        try:
            self.read()
        except KeystoreFailed:
            raw = "no readable key in the file"
            return Keystore(
                name, KeystoreState.NO_KEY, kind="file", raw=raw, seen_from="files", key_activated=activated
            )
        return Keystore(
            name, KeystoreState.OPEN, kind="file", raw="readable", seen_from="files", key_activated=activated
        )


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable. Raises OSError."""
    file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)
