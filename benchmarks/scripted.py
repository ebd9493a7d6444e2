"""Scripted MariaDB servers on sockets: many in one process, none of them with a database behind it.

Each listens on a port of its own and speaks the wire protocol, so that the exporter's own driver and engine are at work.
What a MariaDB 11.8 with twins answers to the statements of the exporter was looked up on a real one; here it comes from a
table. Pages that are read and decrypted are counted as such a server counts them: a point query reads one page, and the
encrypted twin decrypts what it reads. Every answer waits for a network and for the work that it stands for, on a clock
and not on a processor.

    python -m benchmarks.scripted --servers 100 [--latency 0.0005] [--speed 1]

prints one line of JSON with the ports, and serves until its standard input ends.
"""

from __future__ import annotations

import argparse
import heapq
import json
import re
import select
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from exporter.engines._mysql_protocol.marker import TwinMarker

ROWS = 100_000
PAGES = 2_000
RANGE_PAGES, RANGE_ROWS = 100, 5_000
ROWS_PER_PAGE = ROWS // PAGES
VERSION = "11.8.2-MariaDB"
WORK = {"point": 0.0001, "range": 0.002, "scan": 0.1}
"""Seconds that a query of an operation takes in the server, as on a small cloud volume; everything else takes none."""

_TEXT, _INT, _FLOAT, _DECIMAL = 253, 8, 5, 246
_VARIABLES = {
    "encrypt_binlog": "OFF", "encrypt_tmp_disk_tables": "OFF", "encrypt_tmp_files": "OFF",
    "file_key_management_encryption_algorithm": "aes_ctr", "innodb_encrypt_log": "OFF", "innodb_encrypt_tables": "OFF",
    "innodb_encrypt_temporary_tables": "OFF", "innodb_encryption_threads": "1", "innodb_page_size": "16384",
    "innodb_read_only": "OFF", "log_bin": "OFF", "performance_schema": "OFF", "read_only": "OFF",
    "thread_handling": "one-thread-per-connection", "version": VERSION, "version_comment": "scripted",
}  # fmt: skip
_PAD = "0123456789abcdef" * 12
_QUOTED = re.compile(rb"'([^']*)'")
_IDS = re.compile(rb"BETWEEN (\d+) AND (\d+)")
_KEPT = re.compile(r"@@SESSION\.(\w+)")
_SETTING = re.compile(r"(\w+) = (?:'([^']*)'|([\d.]+))")
_DATABASE = "tde_canary/"


def packet(payload: bytes, number: int) -> bytes:
    """One packet of the protocol; none here is longer than 16 MiB."""
    return struct.pack("<I", len(payload))[:3] + bytes((number & 255,)) + payload


def text(value: object) -> bytes:
    """A value of a row in the text protocol; at most 65535 bytes."""
    if value is None:
        return b"\xfb"
    raw = str(value).encode()
    return (bytes((len(raw),)) if len(raw) < 251 else b"\xfc" + struct.pack("<H", len(raw))) + raw


def result(columns: Sequence[tuple[str, int]], rows: Iterable[Sequence[object]]) -> bytes:
    """A whole result set; columns are (name, number of the type)."""
    parts, number = [packet(bytes((len(columns),)), 1)], 2
    for name, kind in columns:
        charset, length = (63, 20) if kind != _TEXT else (45, 1024)
        fixed = struct.pack("<BHIBHBH", 12, charset, length, kind, 0, 0, 0)
        head = b"".join(map(text, ("def", "", "", "", name, "")))
        parts.append(packet(head + fixed, number))
        number += 1
    end = b"\xfe\x00\x00\x02\x00"
    parts.append(packet(end, number))
    for row in rows:
        number += 1
        parts.append(packet(b"".join(map(text, row)), number))
    parts.append(packet(end, number + 1))
    return b"".join(parts)


def columns(names: str, kinds: str) -> list[tuple[str, int]]:
    """Columns by their names and one letter each: text, int, float, decimal."""
    by_letter = {"t": _TEXT, "i": _INT, "f": _FLOAT, "d": _DECIMAL}
    return [(name, by_letter[kind]) for name, kind in zip(names.split(), kinds, strict=True)]


OK = packet(b"\x00\x00\x00\x02\x00\x00\x00", 1)
_NAMED = columns("Variable_name Value", "tt")
_COUNTED = columns("source a b c", "iiii")
_SUMS = result(columns("count length area", "idd"), [(RANGE_ROWS, RANGE_ROWS * 192, RANGE_ROWS * 5000)])
_SCANNED = result(columns("count length area", "idd"), [(ROWS, ROWS * 192, ROWS * 5000)])
_ONE = result(columns("1", "i"), [(1,)])
_ALL = columns("id area name pad", "iitt")
_NOTHING = result(columns("nothing", "t"), [])
_INVENTORY = result(
    columns("kind state count bytes", "tttt"),
    [("other", "encrypted", 1, PAGES << 14), ("other", "plain", 1, PAGES << 14), ("system", "default", 1, 12 << 20),
     ("temporary", "default", 1, 12 << 20)],
)  # fmt: skip
_TABLES = result(
    columns(
        "name space encryption_scheme min_key_version current_key_version current_key_id rotating folded", "tiiiiiii"
    ),
    [(f"{_DATABASE}main_encrypted", 5, 1, 1, 1, 1, 0, 0), (f"{_DATABASE}main_plain", 6, 0, 0, 0, 1, 0, 0)],
)
_CONSTANT: dict[bytes, bytes] = {
    b"SELECT 1 FROM": _NOTHING,
    b"SELECT 1": _ONE,
    b"SELECT @@GLOBAL.userstat": result(columns("userstat performance_schema", "ii"), [(0, 0)]),
    b"SELECT @@GLOBAL.innodb_buffer_pool_size": result(columns("size", "i"), [(128 << 20,)]),
    b"SELECT @@hostname": result(columns("hostname datadir page", "tti"), [("scripted", "/nowhere/", 16384)]),
    b"SELECT MIN(id), MAX(id)": result(columns("first last", "ii"), [(1, ROWS)]),
    b"SELECT table_type, engine": result(
        columns("table_type engine table_comment data_length", "ttti"),
        [("BASE TABLE", "InnoDB", TwinMarker(ROWS, True), PAGES << 14)],
    ),
    b"SELECT name, space, encryption_scheme": _TABLES,
    b"SELECT plugin_name": result(columns("plugin_name plugin_status", "tt"), [("file_key_management", "ACTIVE")]),
    b"SELECT current_key_id": result(columns("current_key_id lost count", "iii"), [(1, 0, 1)]),
    b"SELECT kind, state": _INVENTORY,
    b"SELECT name, key_rotation_page_number": _NOTHING,
    b"SELECT TID": _NOTHING,
    b"SELECT COUNT_READ": _NOTHING,
    b"SELECT THREAD_ID": _NOTHING,
    b"SHOW ALL SLAVES STATUS": _NOTHING,
    b"SET NAMES": OK,
    b"SET AUTOCOMMIT": OK,
}
"""Answers by the beginning of a statement; the first that fits."""


class Scripted:
    """What one server counts, and how it answers."""

    def __init__(self) -> None:
        self.started = time.monotonic()
        self.read = self.decrypted = 0

    def answer(self, sql: bytes, session: Session) -> tuple[bytes, float]:
        """The answer to a statement without its comment, and the seconds of work that it stands for."""
        if sql.startswith(b"SELECT CASE"):
            return result(_COUNTED, [(4, self.read, None, None), (3, self.decrypted, None, None)]), 0.0
        if sql.startswith((b"SELECT id,", b"SELECT COUNT(*), SUM")):
            return self._canary(sql)
        if sql.startswith(b"SELECT COUNT(*), COALESCE"):
            rows = sum(int(last) - int(first) + 1 for first, last in _IDS.findall(sql))
            return result(columns("count sum", "id"), [(rows, 4711)]), 0.0
        if sql.startswith(b"SET SESSION"):
            session.settings |= {name: said or number for name, said, number in _SETTING.findall(sql.decode())}
            return OK, 0.0
        if sql.startswith(b"SELECT VERSION()"):
            return session.told(sql), 0.0
        if sql.startswith(b"SHOW SESSION VARIABLES"):
            return result(_NAMED, [("max_statement_time", "0.000000")]), 0.0
        if sql.startswith((b"SHOW GLOBAL VARIABLES", b"SHOW GLOBAL STATUS")):
            return result(_NAMED, self._asked(sql)), 0.0
        found = next((answer for begin, answer in _CONSTANT.items() if sql.startswith(begin)), None)
        if found is None:
            session.unknown(sql)
            return packet(b"\xff" + struct.pack("<H", 1064) + b"#42000it is not in the script", 1), 0.0
        return found, 0.0

    def _canary(self, sql: bytes) -> tuple[bytes, float]:
        pages, kind, found = PAGES, "scan", _SCANNED
        if sql.startswith(b"SELECT id,"):
            row = int(sql.rpartition(b" ")[2])
            pages, kind = 1, "point"
            found = result(_ALL, [(row, row % 10_000, f"KnownSubscriberName{row:010}", _PAD)])
        elif b"BETWEEN" in sql:
            pages, kind, found = RANGE_PAGES, "range", _SUMS
        self.read += pages
        if b"_encrypted`" in sql:
            self.decrypted += pages
        return found, WORK[kind]

    def _asked(self, sql: bytes) -> list[tuple[str, object]]:
        counters: dict[str, object] = {
            "Innodb_num_pages_decrypted": self.decrypted, "Innodb_num_pages_encrypted": 0, "Innodb_data_reads": self.read,
            "Innodb_buffer_pool_read_requests": 100 * self.read + 1, "Innodb_buffer_pool_reads": self.read,
            "Innodb_encryption_rotation_pages_modified": 0, "Innodb_encryption_rotation_pages_flushed": 0,
            "Uptime": int(time.monotonic() - self.started) + 1000,
        }  # fmt: skip
        known = counters if b"STATUS" in sql else _VARIABLES
        return [(name, known[name]) for name in map(bytes.decode, _QUOTED.findall(sql)) if name in known]


class Session:
    """One connection to a scripted server."""

    def __init__(self, sock: socket.socket, server: Scripted, number: int, unknown: Callable[[bytes], None]) -> None:
        self.sock, self.server, self.number, self.unknown = sock, server, number, unknown
        self.settings: dict[str, str] = {}
        self.greeted = False
        self._buffer = b""
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.sendall(self._greeting())

    def _greeting(self) -> bytes:
        scramble = b"abcdefghijklmnopqrst"
        able = 0x000FA68D  # protocol 4.1, plugins, secure connections, attributes; no TLS, no deprecated EOF
        return packet(
            b"\x0a" + VERSION.encode() + b"\0" + struct.pack("<I", self.number) + scramble[:8] + b"\0"
            + struct.pack("<HBHHB", able & 0xFFFF, 45, 2, able >> 16, 21) + bytes(10) + scramble[8:] + b"\0"
            + b"mysql_native_password\0", 0,
        )  # fmt: skip

    def requests(self) -> list[bytes] | None:
        """Whole packets that have arrived, without their heads; None: the peer is gone."""
        try:
            more = self.sock.recv(65536)
        except OSError:
            return None
        if not more:
            return None
        self._buffer += more
        found = []
        while len(self._buffer) >= 4 and len(self._buffer) >= (end := 4 + int.from_bytes(self._buffer[:3], "little")):
            found.append(self._buffer[4:end])
            self._buffer = self._buffer[end:]
        return found

    def reply(self, request: bytes) -> tuple[bytes, float] | None:
        """The answer to a packet and the seconds of work before it; None: the peer says goodbye."""
        if not self.greeted:
            self.greeted = True
            return packet(b"\x00\x00\x00\x02\x00\x00\x00", 2), 0.0
        if request[0] == 1:
            return None
        if request[0] != 3:
            return OK, 0.0
        sql = request[1:]
        return self.server.answer(sql.partition(b"*/ ")[2] if sql.startswith(b"/*") else sql, self)

    def told(self, sql: bytes) -> bytes:
        """What `SELECT VERSION(), CONNECTION_ID(), @@SESSION.…` gives: the settings, as they were set."""
        names = _KEPT.findall(sql.decode())
        kinds = ["f" if n == "max_statement_time" else "i" if n.endswith("timeout") else "t" for n in names]
        row = [VERSION, self.number, *(self.settings[name] for name in names)]
        return result(columns(" ".join(["version", "id", *names]), "ti" + "".join(kinds)), [row])


class Room:
    """All servers of this process, in one loop. `latency` is the way there and back, in seconds."""

    def __init__(self, servers: int, latency: float, speed: float) -> None:
        self._latency, self._speed = latency, speed
        self._poll = select.epoll()
        self._listeners: dict[int, tuple[socket.socket, Scripted]] = {}
        self._sessions: dict[int, Session] = {}
        self._due: list[tuple[float, int, Session, bytes]] = []
        self._number = self.statements = 0
        self.unknown: dict[str, None] = {}
        for _ in range(servers):
            listener = socket.create_server(("127.0.0.1", 0), backlog=16)
            self._listeners[listener.fileno()] = (listener, Scripted())
            self._poll.register(listener, select.EPOLLIN)

    @property
    def ports(self) -> list[int]:
        return [listener.getsockname()[1] for listener, _ in self._listeners.values()]

    def serve(self, until: socket.socket | Any) -> None:
        """Answer until something can be read from `until`."""
        while True:
            wait = max(0.0, self._due[0][0] - time.monotonic()) if self._due else 1.0
            # The poll itself waits for whole milliseconds only.
            ready, _, _ = select.select([self._poll, until], [], [], wait)
            if until in ready:
                return
            if ready:
                for number, _ in self._poll.poll(0):
                    self._hear(number)
            while self._due and self._due[0][0] <= time.monotonic():
                _, _, session, answer = heapq.heappop(self._due)
                self._send(session, answer)

    def _hear(self, number: int) -> None:
        if number in self._listeners:
            listener, server = self._listeners[number]
            self._number += 1
            sock, _ = listener.accept()
            self._sessions[sock.fileno()] = Session(sock, server, self._number, self._note)
            self._poll.register(sock, select.EPOLLIN)
            return
        session = self._sessions[number]
        requests = session.requests()
        for request in requests or ():
            self.statements += 1
            if (reply := session.reply(request)) is None:
                requests = None
                break
            answer, work = reply
            self._number += 1
            wait = self._latency + work / self._speed
            heapq.heappush(self._due, (time.monotonic() + wait, self._number, session, answer))
        if requests is None:
            self._forget(session)

    def _send(self, session: Session, answer: bytes) -> None:
        try:
            session.sock.sendall(answer)
        except OSError:
            self._forget(session)

    def _forget(self, session: Session) -> None:
        if self._sessions.pop(session.sock.fileno(), None) is not None:
            self._poll.unregister(session.sock)
            session.sock.close()

    def _note(self, sql: bytes) -> None:
        self.unknown.setdefault(sql.decode(errors="replace"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--servers", type=int, default=100)
    parser.add_argument("--latency", type=float, default=0.0005, help="seconds that the network takes, both ways")
    parser.add_argument("--speed", type=float, default=1.0, help="how many times as fast as usual the work is done")
    arguments = parser.parse_args()
    room = Room(arguments.servers, arguments.latency, arguments.speed)
    print(json.dumps({"ports": room.ports}), flush=True)
    room.serve(sys.stdin)
    print(json.dumps({"statements": room.statements, "unknown": list(room.unknown)}), flush=True)


if __name__ == "__main__":
    main()
