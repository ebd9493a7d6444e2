"""The lengths of packets, and the one that is agreed on, looked at before the driver sees them.

The driver (26.1.0) believes all of them, in its C code, which no deadline ends. A packet that is said to have no bytes it takes
for one that is complete, again and again, until the memory is full. One that is said to be huge it puts together by copying all
that came so far with each piece that comes. For the size that a database accepts it allocates and fills buffers, of four
gigabytes if need be; of one in which not even a header fits it crashes.
"""

from __future__ import annotations

_HEADER = 8
_ACCEPT = 2
_LONG_LENGTHS_SINCE = 315
"""The version of the protocol with which lengths have four bytes, once the connection was accepted."""
_VERSION_ENDS, _SIZE_AT, _SIZE_ENDS = 10, 32, 36
"""Where the version of an ACCEPT, and the size that it agrees to, stand in it."""
_SMALLEST, _LONGEST = 512, 2 * 2**20
"""Sizes of packets that both sides can agree on."""


class Framing:
    """Follows the packets of one connection from its first byte."""

    def __init__(self) -> None:
        self._head = b""
        self._missing = 0
        self._long = False

    def possible(self, data: bytes) -> bool:
        """Take the next bytes; False when a packet in them has a length that none can have. Nothing may follow then."""
        at = 0
        while at < len(data):
            if skipped := min(self._missing, len(data) - at):
                self._missing -= skipped
                at += skipped
                continue
            piece = data[at : at + self._wanted() - len(self._head)]
            self._head += piece
            at += len(piece)
            if len(self._head) >= _HEADER and not self._wanted() <= self._length() <= _LONGEST:
                return False
            if len(self._head) == self._wanted() and not self._end_of_head():
                return False
        return True

    def _wanted(self) -> int:
        """Bytes of the head: of an ACCEPT up to its version, and in newer ones to the size."""
        if self._long or len(self._head) < _HEADER or self._head[4] != _ACCEPT:
            return _HEADER
        return (
            _SIZE_ENDS if len(self._head) >= _VERSION_ENDS and self._version() >= _LONG_LENGTHS_SINCE else _VERSION_ENDS
        )

    def _version(self) -> int:
        return int.from_bytes(self._head[_HEADER:_VERSION_ENDS], "big")

    def _length(self) -> int:
        return int.from_bytes(self._head[: 4 if self._long else 2], "big")

    def _end_of_head(self) -> bool:
        """Whether what it agrees to is possible."""
        self._missing = self._length() - len(self._head)
        head, self._head = self._head, b""
        if len(head) < _SIZE_ENDS:
            return True
        self._long = True
        return _SMALLEST <= int.from_bytes(head[_SIZE_AT:_SIZE_ENDS], "big") <= _LONGEST
