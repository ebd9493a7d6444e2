"""Opening an encrypted file with a key, for the primary's process and the standby's alike.

Imports the driver and the standard library only: a standby is a process of its own and shall be small.
"""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path
from urllib.parse import quote

import apsw


def unlock(connection: apsw.Connection, cipher: str, key: str) -> None:
    """Give a connection its cipher and its key (the value of `PRAGMA key`); reads nothing yet."""
    connection.pragma("cipher", cipher)
    connection.pragma("key", key)


def readable(path: Path, cipher: str | None, key: str) -> bool:
    """Whether the file opens as a database with this cipher and key, or plain where there is no cipher.

    Opened as immutable, which leaves the write-ahead log alone: closing an ordinary connection would
    copy the log into the file with whatever key it had. Raises apsw.Error.
    """
    uri = f"file:{quote(str(path.absolute()))}?immutable=1"
    connection = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    try:
        if cipher is not None:
            unlock(connection, cipher, key)
        connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    except apsw.NotADBError:
        return False
    finally:
        connection.close()
    return True


def leave_log_alone(connection: apsw.Connection) -> None:
    """Let closing this connection neither copy nor remove the write-ahead log.

    A log goes by the name of its file. A connection whose file was exchanged meanwhile would otherwise
    remove the log of the new one.
    """
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)


def fingerprint(key: str, nonce: str) -> str:
    """Tells whether two processes use the same key, without telling the key. The nonce makes it worthless elsewhere."""
    return hmac.new(nonce.encode(), key.encode(), hashlib.sha256).hexdigest()
