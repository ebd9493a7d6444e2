"""What the bytes of a tablespace file say about encryption: a look that does not ask the server.

Sources: InnoDB's `fil0fil.h`, `fil0types.h` and `fsp0types.h` of MySQL 9 and MariaDB 10.11 and 11.8; tried on files of
all three. Page 0 is never encrypted, and on no page are its type and the number of its tablespace.

MySQL gives encrypted pages a type of their own. MariaDB leaves the type and writes the version of the key, 0 for
none: into the first four bytes of the page where the file has the format full_crc32 (the default since 10.5), else at
offset 26.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from dataclasses import dataclass
from pathlib import Path

from exporter.engines._mysql_protocol.twins import KNOWN_TEXT

PAGES = 48
"""Pages that are looked at, spread evenly over the file: 768 KiB of the usual 16 KiB pages. The same in both twins,
so that what this brings into the system's cache favours neither."""

_TYPE_AT, _SPACE_AT, _FLAGS_AT = 24, 34, 54
_KEY_VERSION_AT, _OLD_KEY_VERSION_AT = 0, 26
_FULL_CRC32 = 1 << 4
_INDEX_PAGE = 17855
_MYSQL_ENCRYPTED = frozenset({15, 16, 17})
_KNOWN = KNOWN_TEXT.encode("ascii")


@dataclass(frozen=True, slots=True)
class Look:
    """Pages with rows or index entries, by what their headers say, and how many pages hold the known text."""

    encrypted_pages: int = 0
    plain_pages: int = 0
    known_text: int = 0

    @property
    def encrypted(self) -> bool | None:
        """True or False where headers and contents agree on all pages; else None, as for a file with nothing in it yet."""
        if self.encrypted_pages and not self.plain_pages and not self.known_text:
            return True
        if self.plain_pages and not self.encrypted_pages and self.known_text:
            return False
        return None

    def contradiction(self, encrypted: bool | None) -> str:
        """Why the file is not what the server says of it, in words; empty when it may be."""
        if encrypted is True and self.known_text:
            return f"the server says that it is encrypted, but {self.known_text} of its pages on disk are readable"
        if encrypted is False and self.encrypted is True:
            return "the server says that it is plain, but its pages on disk are encrypted"
        return ""


def on_this_host(hostname: str) -> bool:
    """Whether a server that calls itself so runs here: the same path on another host may hold another server's files."""
    return bool(hostname) and hostname == socket.gethostname()


def table_file(datadir: str, schema: str, table: str) -> Path:
    """Where a table with a file of its own lies."""
    return Path(datadir) / schema / f"{table}.ibd"


def look(path: Path, page_format: str, page_bytes: int, space: int, file_bytes: int) -> Look | None:
    """Look at pages of a file; None when it cannot be read, or is not the one that the server means.

    `space` and `file_bytes` are what the server says of the file; `page_format` is `mariadb` or `mysql`.
    """
    with contextlib.suppress(OSError, struct.error):
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            header = os.pread(handle, page_bytes, 0)
            if os.fstat(handle).st_size == file_bytes and _number(header, _SPACE_AT) == space:
                return _look_at(handle, page_format, page_bytes, file_bytes, _number(header, _FLAGS_AT))
        finally:
            os.close(handle)
    return None


def _look_at(handle: int, page_format: str, page_bytes: int, file_bytes: int, flags: int) -> Look:
    count = file_bytes // page_bytes
    encrypted = plain = known = 0
    for number in range(0, count, max(1, -(-count // PAGES))):
        page = os.pread(handle, page_bytes, number * page_bytes)
        if len(page) < page_bytes:
            break  # it was made shorter meanwhile
        known += _KNOWN in page
        state = _mysql_page(page) if page_format == "mysql" else _mariadb_page(page, flags)
        encrypted += state is True
        plain += state is False
    return Look(encrypted, plain, known)


def _mysql_page(page: bytes) -> bool | None:
    kind = _type(page)
    if kind in _MYSQL_ENCRYPTED:
        return True
    return False if kind == _INDEX_PAGE else None


def _mariadb_page(page: bytes, flags: int) -> bool | None:
    if _type(page) != _INDEX_PAGE:
        return None
    return _number(page, _KEY_VERSION_AT if flags & _FULL_CRC32 else _OLD_KEY_VERSION_AT) > 0


def _type(page: bytes) -> int:
    return int(struct.unpack_from(">H", page, _TYPE_AT)[0])


def _number(page: bytes, offset: int) -> int:
    return int(struct.unpack_from(">I", page, offset)[0])
