"""What the twins hold: one phonebook, the same on every machine, and an empty scratch table.

Rows are made from a hash of their number, so that both twins can be built alone and come out equal.
Every 64th row carries one of a few well-known names: whoever reads raw bytes of a plain file, wherever
in the table, finds some of them, and never finds one in an encrypted file.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator

import apsw

SCHEMA_VERSION = "1"
CANARY_VERSION = "1"
"""Changes when an operation or the data changes, so that old and new samples are never mixed."""

PAGE_SIZE = 8192
MARKER = "tde-exporter twin"
KNOWN_NAMES = tuple(
    f"KnownSubscriberName{end}" for end in ("Alpha", "Bravo", "Delta", "Hotel", "India", "Oscar", "Romeo", "Tango")
)
BATCH_ROWS = 500
FIRST_AREA, AREAS = 1000, 9000
"""Areas are numbered from the first, all with about as many rows."""

REGIONS = ("north", "east", "south", "west", "centre", "islands")
_LETTERS = bytes(65 + byte % 26 for byte in range(256))
_KNOWN_EVERY = 64

TABLES = """
CREATE TABLE phonebook (id INTEGER PRIMARY KEY, name TEXT NOT NULL, region TEXT NOT NULL, area INTEGER NOT NULL, number TEXT NOT NULL);
CREATE TABLE scratch (id INTEGER PRIMARY KEY, name TEXT NOT NULL, area INTEGER NOT NULL);
CREATE TABLE tde_exporter (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
"""
INDEX = "CREATE INDEX phonebook_area ON phonebook (area)"
INSERT = "INSERT INTO phonebook (id, name, region, area, number) VALUES (?, ?, ?, ?, ?)"

_DIGEST_CHUNK = 10_000
_DIGEST_CHUNKS = 50
_CHUNK = (
    "SELECT group_concat(id || name || region || area || '/' || number, ';') FROM phonebook WHERE id > ? AND id <= ?"
)
_NOTES = "SELECT key, value FROM tde_exporter LIMIT 100"  # they are four; whose file it is, is not known yet

Row = tuple[int, str, str, int, str]


def row(number: int) -> Row:
    """Row `number` (from 1): id, name of 24 letters, region, area of four digits, telephone number."""
    digest = hashlib.blake2b(b"%d" % number, digest_size=40, person=b"tde phonebook").digest()
    if number % _KNOWN_EVERY == 0:
        name = KNOWN_NAMES[number // _KNOWN_EVERY % len(KNOWN_NAMES)]
    else:
        name = digest[:24].translate(_LETTERS).decode("ascii")
    telephone = f"{int.from_bytes(digest[32:40], 'big') % 10**10:010d}"
    return (
        number,
        name,
        REGIONS[digest[24] % len(REGIONS)],
        FIRST_AREA + int.from_bytes(digest[25:29], "big") % AREAS,
        telephone,
    )


def rows(first: int, last: int) -> Iterator[Row]:
    """The rows from `first` to `last`, both included."""
    return map(row, range(first, last + 1))


def batch(key: int) -> list[tuple[int, str, int]]:
    """What the writing canary inserts into the scratch table: always as many rows of the same size."""
    return [(index, made[1], made[3]) for index, made in enumerate(rows(key + 1, key + BATCH_ROWS), start=1)]


def checksum(values: object) -> int:
    """Identifies a result; the same in every process, unlike `hash`."""
    return zlib.crc32(repr(values).encode())


def content_digest(connection: apsw.Connection, count: int) -> tuple[str, int]:
    """Hash over the phonebook of `count` rows as stored, and how many rows were read for it.

    Every row is read up to half a million; of a larger table 50 evenly spaced stretches of 10 000 rows,
    so that verification stays affordable.
    """
    digest = hashlib.blake2b(b"%d" % count, digest_size=8)
    chunks = -(-count // _DIGEST_CHUNK)
    step = max(1, chunks // _DIGEST_CHUNKS)
    read = 0
    for chunk in range(0, chunks, step):
        start = chunk * _DIGEST_CHUNK
        text = connection.execute(_CHUNK, (start, start + _DIGEST_CHUNK)).get
        digest.update(str(text).encode())
        read += min(_DIGEST_CHUNK, count - start)
    return digest.hexdigest(), read


def metadata(connection: apsw.Connection) -> dict[str, str] | None:
    """What we noted in a twin when we built it; None when the database is not one of ours."""
    if not connection.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'tde_exporter'").get:
        return None
    noted = {str(key): str(value) for key, value in connection.execute(_NOTES)}
    return noted if noted.get("marker") == MARKER else None
