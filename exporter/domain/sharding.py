"""Which of several exporters with one configuration watches a target: rendezvous hashing of the target's name.

Every exporter that knows the number of shards gives the same answer, whatever other targets there are. With one shard more, a
target stays where it is or goes to the new one; of n targets about n/(number of shards) go there.

Rendezvous hashing: D. Thaler, C. Ravishankar, "Using Name-Based Mappings to Increase Hit Rates", IEEE/ACM Transactions on
Networking 6(1), 1998.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

FORMS = "0/3, 1/3 and 2/3 for three of them, counted from 0"
MOST_SHARDS = 1000
_WRITTEN = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9.-]*-)?([0-9]{1,9})/([0-9]{1,9})")


@dataclass(frozen=True, slots=True)
class Shard:
    """One of `count` exporters, from 0 on."""

    index: int
    count: int

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def has(self, target: str) -> bool:
        """Whether that target is its own."""
        return shard_of(target, self.count) == self.index


WHOLE = Shard(0, 1)
"""An exporter that watches everything."""


def shard_of(target: str, count: int) -> int:
    """The shard, of `count`, that watches the target of that name. It never changes from one release to the next."""
    return max(range(count), key=lambda index: (_weight(target, index), index))


def _weight(target: str, index: int) -> bytes:
    return hashlib.sha256(f"{index}/{target}".encode()).digest()


def parse_shard(text: str) -> Shard:
    """The shard in a text such as `1/3`. Before its number may stand a name with a dash, as that of a pod: `tde-exporter-1/3`.

    Raises ValueError.
    """
    match = _WRITTEN.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"this is no shard; write {FORMS}")
    index, count = int(match[1]), int(match[2])
    if not 1 <= count <= MOST_SHARDS:
        raise ValueError(f"there are 1 to {MOST_SHARDS} shards; write {FORMS}")
    if index >= count:
        raise ValueError(f"of {count} shards the last is {count - 1}/{count}; they are counted from 0")
    return Shard(index, count)
