"""What is found out about a database beside its canaries: encryption, activity, standbys. All frozen; seconds.

None is unknown, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class LagKind(StrEnum):
    """What a standby can be behind in: receiving, applying, or both as seen by a heartbeat row."""

    TRANSPORT = "transport"
    APPLY = "apply"
    HEARTBEAT = "heartbeat"


class KeystoreState(StrEnum):
    """One vocabulary for the keystores of all engines."""

    OPEN = "open"
    CLOSED = "closed"
    NO_KEY = "no_key"
    MISSING = "missing"
    DEGRADED = "degraded"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Keystore:
    """One keystore as seen now; `raw` is the engine's own word, `seen_from` the vantage.

    `keys_in_use` counts the keys that encrypted objects refer to, `keys_missing` those of them that the keystore
    cannot give. `key_activated` (Unix time) and `backed_up` are those of the master key that is used now.
    """

    name: str
    state: KeystoreState
    kind: str = ""
    mode: str = ""
    raw: str = ""
    seen_from: str = "server"
    key_activated: float | None = None
    keys_in_use: int | None = None
    keys_missing: int | None = None
    backed_up: bool | None = None


@dataclass(frozen=True, slots=True)
class StandbyState:
    """One standby as seen now; None is unknown, never 0.

    `channel` names the replication channel where an engine has several, with one state for each; else it is empty.

    Lags are seconds and never negative. `transport` is how long the oldest change that the standby has
    not received has been waiting, `apply` the same for the oldest that it received and has not applied,
    `heartbeat` for the oldest heartbeat row that cannot be read there; 0 when there is none.
    Sequences count changes (or log sequence numbers) since the standby was made. `key_match` is False
    when the standby lacks one of the keys that the primary's objects use. `gap_sequences` counts the log sequence
    numbers that the standby lacks between others; `destination_up` is whether the primary can send to it, as the primary
    sees it. `problem` says in words why something is unknown.
    """

    standby: str
    configured: bool = True
    transport_running: bool | None = None
    apply_running: bool | None = None
    lags: tuple[tuple[LagKind, float | None], ...] = ()
    received_sequence: int | None = None
    applied_sequence: int | None = None
    key_match: bool | None = None
    configured_delay: float | None = None
    clock_skew: float | None = None
    problem: str = ""
    channel: str = ""
    gap_sequences: int | None = None
    destination_up: bool | None = None

    def lag(self, kind: LagKind) -> float | None:
        return dict(self.lags).get(kind)


@dataclass(frozen=True, slots=True)
class EncryptionState:
    """Keystores, and the inventory: number of objects (and bytes) per (kind, state).

    States of objects: `encrypted`, `plain`, `pending` (should be encrypted and is not, and nothing works on it),
    `in_progress`, `unknown`. `unprotected` counts per kind what lies in the clear although it holds data of encrypted
    objects (logs, temporary files). `conversions` holds (object, share that is done, 0..1) of what is being encrypted
    or given a new key. `conversion_stalled`: something is pending or in progress and has not moved for an hour.
    `problems` says in words what could not be read and which grant is missing; the rest holds all the same.
    """

    keystores: tuple[Keystore, ...] = ()
    objects: tuple[tuple[str, str, int], ...] = ()
    object_bytes: tuple[tuple[str, str, int], ...] = ()
    algorithms: tuple[tuple[str, int], ...] = ()
    unprotected: tuple[tuple[str, int], ...] = ()
    conversions: tuple[tuple[str, float], ...] = ()
    conversion_stalled: bool | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Activity:
    """What the whole instance has done since it was started, and how busy its host is; None is unknown.

    Sums (`decrypts`, `encrypts` in units of `decrypt_unit`, `cpu_seconds`, physical `reads` and `read_seconds`) only
    grow, except when the instance was restarted. `decrypt_source` is `counter` or `proxy`. `host_cpu_ratio` is the
    share of the host's processors in use since the last reading, 0..1; host values are None where the exporter does
    not run on that host and the engine does not tell. `buffer_bytes` is how large the cache of blocks was set to be, or
    the memory that it is part of. `problems` as in `EncryptionState`.
    """

    decrypts: int | None = None
    encrypts: int | None = None
    decrypt_unit: str = "block"
    decrypt_source: str | None = None
    cpu_seconds: float | None = None
    reads: int | None = None
    read_seconds: float | None = None
    buffer_hit_ratio: float | None = None
    host_cpu_ratio: float | None = None
    host_cpus: int | None = None
    host_aes: bool | None = None
    buffer_bytes: int | None = None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScratchLock:
    """Who has the advisory lock that guards what an exporter writes into a database, as of the last time it mattered.

    `held`: this exporter has it; otherwise `holder` says in words who has, as far as the database tells.
    """

    held: bool
    holder: str = ""
