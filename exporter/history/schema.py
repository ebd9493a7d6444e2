"""The tables of the history, as the list of steps that lead from an empty file to the newest schema."""

from __future__ import annotations

APPLICATION_ID = 0x54444578
"""Marks the file as ours (`TDEx`), so that a database of another program is never written to."""

# One series a row, so that its names are not repeated in every block. The index serves both what is
# asked for at start (everything since a moment, oldest first) and pruning.
_BLOCKS = (
    """
    CREATE TABLE series (
        id INTEGER PRIMARY KEY,
        target TEXT NOT NULL,
        pair TEXT NOT NULL,
        operation TEXT NOT NULL,
        UNIQUE (target, pair, operation)
    )
    """,
    """
    CREATE TABLE blocks (
        series INTEGER NOT NULL,
        start REAL NOT NULL,
        epoch TEXT NOT NULL,
        units BLOB NOT NULL,
        encrypted_samples INTEGER NOT NULL,
        encrypted_failures INTEGER NOT NULL,
        encrypted_cold INTEGER,
        encrypted_cpu_seconds REAL,
        encrypted_decrypts INTEGER,
        encrypted_encrypts INTEGER,
        encrypted_blocks_read INTEGER,
        encrypted_sketch BLOB NOT NULL,
        plain_samples INTEGER NOT NULL,
        plain_failures INTEGER NOT NULL,
        plain_cold INTEGER,
        plain_cpu_seconds REAL,
        plain_decrypts INTEGER,
        plain_encrypts INTEGER,
        plain_blocks_read INTEGER,
        plain_sketch BLOB NOT NULL,
        PRIMARY KEY (series, start)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX blocks_by_start ON blocks (start, series)",
    """
    CREATE TABLE snapshots (
        target TEXT PRIMARY KEY,
        started REAL NOT NULL,
        body BLOB NOT NULL
    )
    """,
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_BLOCKS,)
"""Step n leads from `user_version` n to n + 1, in one transaction. Published steps are never changed."""

VERSION = len(MIGRATIONS)
