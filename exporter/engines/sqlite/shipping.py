"""What a primary and its standby say to each other over a socket pair, and how: whole messages, never waiting.

A change carries its sequence and the changeset of one transaction, which is plaintext. It exists in the
memory of two processes and in the socket between them, and is never written to a file.
Imports the standard library only, for the standby's process uses it too.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import struct
from dataclasses import asdict, dataclass
from typing import NamedTuple

HELLO, SEED, CHANGE, REPORT = b"HSCR"
"""To the standby: where it lives and its key; all that the primary holds; one transaction. Back: how far it is."""

_HEAD = struct.Struct("!IB")
_SEQUENCE = struct.Struct("!Q")
_LONGEST = 16 * 2**20
_READ_AT_ONCE = 2**20
_CHUNK = 2**16


class Frame(NamedTuple):
    """One message."""

    kind: int
    body: bytes


class Wire:
    """One end of the socket pair. Nothing here waits; what does not fit is kept, so look at `pending` before adding."""

    def __init__(self, ours: socket.socket) -> None:
        ours.setblocking(False)
        self._socket = ours
        self._out, self._in = bytearray(), bytearray()

    @property
    def pending(self) -> int:
        """Bytes that the other side has not taken."""
        return len(self._out)

    def put(self, kind: int, body: bytes) -> None:
        self._out += _HEAD.pack(len(body), kind) + body

    def flush(self) -> None:
        """Send what the other side takes now. Raises EOFError when it is gone."""
        try:
            while self._out:
                del self._out[: self._socket.send(self._out[:_CHUNK])]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            raise EOFError from None

    def take(self) -> list[Frame]:
        """The messages that have arrived, at most about a mebibyte of them. Raises EOFError when no more can come."""
        gone = False
        most = len(self._in) + _READ_AT_ONCE
        while len(self._in) < most:
            try:
                arrived = self._socket.recv(_CHUNK)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                arrived = b""
            if not arrived:
                gone = True
                break
            self._in += arrived
        frames = self._frames()
        if gone and not frames:
            raise EOFError
        return frames

    def wait(self, timeout: float | None) -> None:
        """Until something arrives, or can be sent if something is pending, or `timeout` seconds have passed."""
        # Not `select`, which knows no descriptor above 1023: a process that probes hundreds of targets has more.
        poll = select.poll()
        poll.register(self._socket, select.POLLIN | (select.POLLOUT if self._out else 0))
        poll.poll(None if timeout is None else 1000.0 * timeout)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.close()

    def _frames(self) -> list[Frame]:
        found, start = [], 0
        while len(self._in) - start >= _HEAD.size:
            length, kind = _HEAD.unpack_from(self._in, start)
            if length > _LONGEST:
                raise EOFError
            end = start + _HEAD.size + length
            if end > len(self._in):
                break
            found.append(Frame(kind, bytes(self._in[start + _HEAD.size : end])))
            start = end
        del self._in[:start]
        return found


class Change(NamedTuple):
    """The changeset of the transaction that wrote heartbeat number `sequence`."""

    sequence: int
    changeset: bytes

    def encode(self) -> bytes:
        return _SEQUENCE.pack(self.sequence) + self.changeset

    @classmethod
    def decode(cls, body: bytes) -> Change:
        return cls(_SEQUENCE.unpack_from(body)[0], body[_SEQUENCE.size :])


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message to a standby: its file, the ciphers it may be encrypted with (the first for a new one), the
    key as the value of `PRAGMA key`, and the nonce of the key's fingerprint."""

    path: str
    ciphers: tuple[str, ...]
    key: str
    nonce: str

    def __repr__(self) -> str:
        return f"Hello({self.path})"

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, body: bytes) -> Hello:
        found = json.loads(body)
        return cls(found["path"], tuple(found["ciphers"]), found["key"], found["nonce"])


@dataclass(frozen=True, slots=True)
class Report:
    """How far a standby is. `fingerprint` is that of the key with which its file is open, empty while it is not.

    `received` and `applied` are sequences, `applied` in the history `generation`. `seeds` counts the seeds
    it has applied since it started. `lost` asks for a seed: what arrived does not continue what it holds.
    `refused` means that the key does not open its file; `problem` says what keeps it from applying.
    """

    fingerprint: str = ""
    generation: str = ""
    received: int | None = None
    applied: int | None = None
    seeds: int = 0
    lost: bool = False
    refused: bool = False
    problem: str = ""

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, body: bytes) -> Report:
        return cls(**json.loads(body))
