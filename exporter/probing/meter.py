"""What canary queries read and wrote, in bytes, as far as the engine can tell."""

from __future__ import annotations

from exporter.domain.model import TargetFacts, Work

BLOCK = "block"


class Meter:
    """Adds up the queries of one target, discarded ones included. Unknown stays unknown and is never 0."""

    def __init__(self) -> None:
        self._block_bytes: int | None = None
        self._counts_blocks = False
        self._read: int | None = None
        self._written: int | None = None

    def connected(self, facts: TargetFacts) -> None:
        """What the blocks of this target are."""
        self._block_bytes = facts.block_bytes
        self._counts_blocks = facts.decrypt_unit == BLOCK

    def add(self, work: Work, encrypted: bool) -> None:
        """One successful query, on an encrypted object or on a plain one.

        Engines count what they encrypt, not what they write; so what the encrypted twin encrypts stands for as much
        written to the plain twin, which does the same work. Encrypted values are no blocks and tell nothing.
        """
        if self._block_bytes is None:
            return
        if work.blocks_read is not None:
            self._read = (self._read or 0) + work.blocks_read * self._block_bytes
        if encrypted and self._counts_blocks and work.encrypts is not None:
            self._written = (self._written or 0) + 2 * work.encrypts * self._block_bytes

    def take(self) -> tuple[int | None, int | None]:
        """Bytes read and written since the last call; None where nothing was known of them."""
        taken = self._read, self._written
        self._read = self._written = None
        return taken
