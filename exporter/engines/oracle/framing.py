"""The lengths of packets, looked at before the driver sees them.

The driver takes a packet that is said to have no bytes for one that is complete, again and again, in its C code: no deadline
ends that, and it fills the memory (seen with 26.1.0). One that is said to be huge, it puts together by copying all that came
so far with each piece that comes.
"""

from __future__ import annotations

_HEADER = 8
_ACCEPT = 2
_LONG_LENGTHS_SINCE = 315
"""The version of the protocol with which lengths have four bytes, once the connection was accepted."""
_LONGEST = 2 * 2**20
"""The largest packet that both sides can agree on."""


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
            wanted = self._wanted()
            piece = data[at : at + wanted - len(self._head)]
            self._head += piece
            at += len(piece)
            if len(self._head) == _HEADER and not wanted <= self._length() <= _LONGEST:
                return False
            if len(self._head) == self._wanted():
                self._end_of_head()
        return True

    def _wanted(self) -> int:
        """Bytes of the head; the version of an ACCEPT, which says how lengths are written, stands right behind it."""
        accept = len(self._head) >= _HEADER and self._head[4] == _ACCEPT and not self._long
        return _HEADER + 2 if accept else _HEADER

    def _length(self) -> int:
        return int.from_bytes(self._head[: 4 if self._long else 2], "big")

    def _end_of_head(self) -> None:
        self._missing = max(0, self._length() - len(self._head))
        if len(self._head) > _HEADER:
            self._long = int.from_bytes(self._head[_HEADER:], "big") >= _LONG_LENGTHS_SINCE
        self._head = b""
