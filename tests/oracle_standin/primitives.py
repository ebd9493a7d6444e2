"""The encoding of numbers, byte strings and pairs in TTC messages, as writers and as a reader.

`ub` is a length byte and the big-endian bytes of a number without leading zeros; negative numbers set the highest bit
of the length. A byte string is one length byte and the bytes, or, when longer than 252 bytes, chunks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

_SHORT = 252
_CHUNKED = 254
_NULL = 255
_CHUNK = 32767


class ProtocolError(Exception):
    """The client said something that the stand-in does not understand."""


def ub(number: int) -> bytes:
    """A number that is not negative."""
    if number == 0:
        return b"\0"
    body = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return bytes([len(body)]) + body


def sb(number: int) -> bytes:
    """A number that may be negative."""
    if number >= 0:
        return ub(number)
    body = ub(-number)
    return bytes([0x80 | body[0]]) + body[1:]


def counted(data: bytes) -> bytes:
    """Bytes with their length; in chunks when they are many. No bytes are NULL."""
    if len(data) <= _SHORT:
        return bytes([len(data)]) + data
    chunks = [data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)]
    return bytes([_CHUNKED]) + b"".join(ub(len(chunk)) + chunk for chunk in chunks) + b"\0"


def endless() -> Iterator[bytes]:
    """As `counted`, of bytes that do not end."""
    yield bytes([_CHUNKED])
    while True:
        yield ub(_CHUNK) + b"x" * _CHUNK


def sized(data: bytes | str) -> bytes:
    """Bytes with two lengths, as keys, values and names have them."""
    raw = data.encode() if isinstance(data, str) else data
    return ub(len(raw)) + (counted(raw) if raw else b"")


class Reader:
    """Reads a message that may go on in further packets, which `more` gives when they are needed."""

    def __init__(self, data: bytes, more: Callable[[], bytes]) -> None:
        self._data, self._at, self._more = data, 0, more

    def left(self) -> int:
        """How many bytes are there without another packet."""
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        while self.left() < count:
            self._data = self._data[self._at :] + self._more()
            self._at = 0
        self._at += count
        return self._data[self._at - count : self._at]

    def byte(self) -> int:
        return self.take(1)[0]

    def skip_bytes(self, count: int) -> None:
        self.take(count)

    def u16(self) -> int:
        return int.from_bytes(self.take(2), "big")

    def number(self) -> int:
        """What `ub` and `sb` write."""
        length = self.byte()
        if (length & 0x7F) > 8:
            raise ProtocolError(f"a number of {length & 0x7F} bytes")
        value = int.from_bytes(self.take(length & 0x7F), "big")
        return -value if length & 0x80 else value

    def skip_numbers(self, count: int) -> None:
        for _ in range(count):
            self.number()

    def counted(self) -> bytes | None:
        """What `counted` writes; None is NULL."""
        length = self.byte()
        if length in (0, _NULL):
            return None
        if length != _CHUNKED:
            return self.take(length)
        found = b""
        while chunk := self.number():
            found += self.take(chunk)
        return found

    def sized(self) -> bytes:
        return (self.counted() or b"") if self.number() else b""

    def text(self) -> str:
        return self.sized().decode()
