"""How far the conversions of tablespaces have come. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MOST_CONVERSIONS = 10
COARSENESS = 1000
"""Parts of a tablespace of which one must be converted within an hour, for a conversion not to stand still: what others
write to it is counted as well, but is seldom that much."""

_MOVING = ("ENCRYPTING", "DECRYPTING", "REKEYING")

Place = tuple[int, str]
"""CON_ID and name of a tablespace."""


@dataclass(frozen=True, slots=True)
class Space:
    """A row of V$ENCRYPTED_TABLESPACES; the blocks are those since the instance was started."""

    algorithm: str
    encrypted: bool
    status: str
    master_key: bytes
    blocks_encrypted: int
    blocks_decrypted: int

    @property
    def is_moving(self) -> bool:
        """Whether it is being converted, or was when somebody interrupted that."""
        return self.status in _MOVING

    @property
    def moved(self) -> int:
        """Blocks of the kind that its conversion makes."""
        return self.blocks_decrypted if self.status == "DECRYPTING" else self.blocks_encrypted


class Conversions:
    """Remembers what each tablespace had before its conversion."""

    def __init__(self) -> None:
        self._at_rest: dict[Place, tuple[int, int]] = {}

    def look(
        self, spaces: Mapping[Place, Space], files: Mapping[Place, tuple[int, int]]
    ) -> tuple[list[tuple[Place, float]], tuple[tuple[Place, str, int], ...]]:
        """The share that is done (0..1) of each tablespace that is being converted, where its size is known; and a mark,
        empty when there is none, that differs from the last whenever one of them has moved.

        `files` are (bytes, blocks). What a tablespace had while it rested is taken off. One that was being encrypted
        already when it was first seen was plain before, so it has all of it from there; of others only what comes
        after is known, which is less than what is done.
        """
        at_rest: dict[Place, tuple[int, int]] = {}
        shares, marks = [], []
        for place, space in sorted(spaces.items()):
            now = space.blocks_encrypted, space.blocks_decrypted
            if not space.is_moving:
                at_rest[place] = now
                continue
            before = self._at_rest.get(place, (0, 0) if space.status == "ENCRYPTING" else now)
            if before[0] > now[0] or before[1] > now[1]:
                before = (0, 0)  # the instance was started anew
            at_rest[place] = before
            moved = max(0, space.moved - (before[1] if space.status == "DECRYPTING" else before[0]))
            blocks = files.get(place, (0, 0))[1]
            if blocks:
                shares.append((place, min(1.0, moved / blocks)))
            marks.append((place, space.status, moved * COARSENESS // blocks if blocks else moved))
        self._at_rest = at_rest
        return shares, tuple(marks)
