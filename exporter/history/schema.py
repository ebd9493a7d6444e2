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

# Blocks that grew old, joined to hours; an hour in which the epoch changed has a row for each. Events and epochs name
# their target in full: there are few, and they outlive the series.
_HOURS_AND_EVENTS = (
    """
    CREATE TABLE hours (
        series INTEGER NOT NULL,
        start REAL NOT NULL,
        epoch TEXT NOT NULL,
        measured REAL NOT NULL,
        in_bursts INTEGER NOT NULL,
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
        PRIMARY KEY (series, start, epoch)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX hours_by_start ON hours (start, series)",
    """
    CREATE TABLE events (
        id TEXT PRIMARY KEY,
        target TEXT NOT NULL,
        pair TEXT NOT NULL,
        at REAL NOT NULL,
        not_before REAL,
        kind TEXT NOT NULL,
        origin TEXT NOT NULL,
        text TEXT NOT NULL,
        taken INTEGER NOT NULL DEFAULT 0
    )
    """,
    "CREATE INDEX events_by_target ON events (target, at)",
    """
    CREATE TABLE epochs (
        target TEXT NOT NULL,
        pair TEXT NOT NULL,
        epoch TEXT NOT NULL,
        seen REAL NOT NULL,
        phase TEXT NOT NULL,
        slot TEXT NOT NULL,
        content TEXT NOT NULL,
        PRIMARY KEY (target, pair, epoch)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE baselines (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        target TEXT NOT NULL,
        pair TEXT NOT NULL,
        frozen REAL NOT NULL,
        since REAL NOT NULL,
        until REAL NOT NULL,
        epoch TEXT NOT NULL,
        phase TEXT NOT NULL,
        slot TEXT NOT NULL,
        content TEXT NOT NULL,
        event TEXT NOT NULL,
        note TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE baseline_series (
        baseline INTEGER NOT NULL REFERENCES baselines (id),
        operation TEXT NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (baseline, operation)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE states (
        name TEXT NOT NULL,
        target TEXT NOT NULL,
        pair TEXT NOT NULL,
        operation TEXT NOT NULL,
        version INTEGER NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (name, target, pair, operation)
    ) WITHOUT ROWID
    """,
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (_BLOCKS, _HOURS_AND_EVENTS)
"""Step n leads from `user_version` n to n + 1, in one transaction. Published steps are never changed."""

VERSION = len(MIGRATIONS)
