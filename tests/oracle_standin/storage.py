"""Tablespaces, tables, encrypted columns and dependent objects of the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

Distribution = Callable[[Random], float]
"""Draws seconds."""


def free(_random: Random) -> float:
    """No time at all."""
    return 0.0


def constant(seconds: float) -> Distribution:
    """Always the same."""
    return lambda _random: seconds


def normal(mean: float, deviation: float) -> Distribution:
    """Gaussian, and never negative."""
    return lambda random: max(0.0, random.gauss(mean, deviation))


def lognormal(median: float, sigma: float) -> Distribution:
    """As times of queries often are; `sigma` is that of the logarithm."""
    return lambda random: median * random.lognormvariate(0.0, sigma)


def mixed(usual: Distribution, seldom: Distribution, share: float) -> Distribution:
    """One of two, the second with the given share."""
    return lambda random: (seldom if random.random() < share else usual)(random)


def scripted(*seconds: float) -> Distribution:
    """The given numbers one after the other, again and again."""
    turn = iter(range(1 << 62))
    return lambda _random: seconds[next(turn) % len(seconds)]


@dataclass
class Cost:
    """What an operation on a table costs, in seconds.

    `latency` and `cpu` are for each execution, `block_latency` and `block_cpu` for each block that is decrypted or
    encrypted besides, `value_latency` and `value_cpu` for each value of an encrypted column. CPU is only counted,
    latency is waited for. `blocks` replaces the number of blocks that the operation reads by itself.
    """

    latency: Distribution = free
    cpu: Distribution = free
    block_latency: float = 0.0
    block_cpu: float = 0.0
    value_latency: float = 0.0
    value_cpu: float = 0.0
    blocks: int | None = None


@dataclass
class Tablespace:
    """A tablespace; with an `algorithm` one that V$ENCRYPTED_TABLESPACES lists. `size` in blocks."""

    name: str
    number: int
    con_id: int
    algorithm: str | None = None
    encrypted: bool | None = None
    master_key: bytes = bytes(16)
    status: str = "NORMAL"
    key_version: int = 1
    contents: str = "PERMANENT"
    size: int = 12800
    block_bytes: int = 8192
    blocks_encrypted: int = 0
    blocks_decrypted: int = 0

    def __post_init__(self) -> None:
        if self.encrypted is None:
            self.encrypted = self.algorithm is not None


@dataclass
class Table:
    """A table that canaries read, with `rows` rows in `blocks` blocks, and a LOB of `lob_blocks` blocks in each row.

    `cold` blocks are not in the buffer cache; a buffered read takes them from there, `age_out` puts all back.
    `costs` are by operation, with "*" for all others. `seed` and a row's number make its content, so twins with equal
    seeds hold equal rows.
    """

    owner: str
    name: str
    tablespace: str
    con_id: int = 3
    rows: int = 10_000
    blocks: int = 256
    lob_blocks: int = 128
    encrypted_columns: int = 0
    seed: int = 1
    costs: dict[str, Cost] = field(default_factory=dict)
    cold: int = -1
    inserted: int = 0

    def __post_init__(self) -> None:
        self.owner, self.name, self.tablespace = self.owner.upper(), self.name.upper(), self.tablespace.upper()
        if self.cold < 0:
            self.cold = self.blocks

    def age_out(self) -> None:
        self.cold = self.blocks

    def cost(self, operation: str) -> Cost:
        return self.costs.get(operation) or self.costs.get("*") or Cost()


@dataclass(frozen=True)
class EncryptedColumn:
    """A row of DBA_ENCRYPTED_COLUMNS."""

    owner: str
    table: str
    column: str
    algorithm: str = "AES 192 bits key"
    salt: str = "YES"
    integrity: str = "SHA-1"
    con_id: int = 3


@dataclass(frozen=True)
class DependentObject:
    """An index, a LOB segment or a materialized view (`kind`) of a table, and the tablespace that it lies in."""

    kind: str
    owner: str
    name: str
    table_owner: str
    table: str
    tablespace: str | None
    column: str = ""
    con_id: int = 3
