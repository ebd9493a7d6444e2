"""A session of a client: its thread, its calls and their answers."""

from __future__ import annotations

import contextlib
import itertools
import socket
import ssl
import threading
from collections.abc import Callable
from typing import NoReturn

from tests.oracle_standin import messages, requests
from tests.oracle_standin.conversation import FOREVER_S, Broken, Conversation, Doomed, Executed, Shared
from tests.oracle_standin.cursors import Cursor, Cursors, Lobs
from tests.oracle_standin.datatypes import Kind, Value, encode
from tests.oracle_standin.errors import OraError
from tests.oracle_standin.faults import DEADLY, Action, Cut, Drip, Endless, Fail, Garble, Hang, Phase, Slow, Without
from tests.oracle_standin.login import Login
from tests.oracle_standin.model import Seat
from tests.oracle_standin.packets import Channel, Gone
from tests.oracle_standin.primitives import ProtocolError, Reader, endless, sb
from tests.oracle_standin.requests import Function, Option
from tests.oracle_standin.statements import Answer, Call, UnknownStatement
from tests.oracle_standin.tokens import canonical

_NONSENSE = b"\xee" + b"nonsense" * 4


class Session(threading.Thread):
    """One connection from its first byte to its last."""

    def __init__(self, sock: socket.socket, shared: Shared, tls: ssl.SSLContext | None) -> None:
        super().__init__(name="oracle-standin-session", daemon=True)
        self._shared, self._tls = shared, tls
        self._channel = Channel(sock)
        self.conversation = Conversation(self._channel, shared)
        self.seat: Seat | None = None
        self._cursors, self._lobs = Cursors(), Lobs()
        self._calls: dict[int, Callable[[Reader], None]] = {
            Function.EXECUTE: self._execute,
            Function.REEXECUTE: self._reexecute,
            Function.REEXECUTE_AND_FETCH: self._reexecute_and_fetch,
            Function.FETCH: self._fetch,
            Function.LOB: self._lob,
            Function.PING: lambda _reader: self._simple("PING"),
            Function.COMMIT: lambda _reader: self._simple("COMMIT"),
            Function.ROLLBACK: lambda _reader: self._simple("ROLLBACK"),
            Function.LOGOFF: lambda _reader: self._simple("LOGOFF"),
        }

    # -- life -----------------------------------------------------------------------------------

    def run(self) -> None:
        try:
            with contextlib.suppress(Gone):
                self._live()
        except Exception as error:  # a fault of the stand-in or of a test's function, which `Standin.close` raises
            self._shared.failures.append(error)
            with contextlib.suppress(Gone):
                self._fail(OraError(600, f"{error!r}"))
        finally:
            if self.seat is not None:
                with self._shared.database.lock:
                    self._shared.database.seats.pop(self.seat.sid, None)
            self._channel.close()

    def end(self, code: int = 0) -> None:
        """From another thread: let it end, by this error at its next or current call, or at once by nothing."""
        self.conversation.doom = code
        if not code:
            self._channel.wake()

    def _live(self) -> None:
        faults = self._shared.faults
        if faults.drop_logins:
            self._channel.reset()
            return
        if self._tls is not None:
            if faults.silent is Phase.TLS:
                self._channel.discard(FOREVER_S)
            self._channel.secure(self._tls)
        Login(self.conversation).run(self._sit)
        assert self.seat
        while True:
            try:
                self._message(self.conversation.receive())
            except Broken:
                self.conversation.obey_break()
                self._fail(OraError(1013))
            except Doomed as doomed:
                self._fail(OraError(doomed.code))
            except OraError as error:
                self._fail(error)

    def _sit(self, seat: Seat) -> None:
        with self._shared.database.lock:
            self._shared.database.seats[seat.sid] = self.seat = seat

    def _fail(self, error: OraError, cursor: int = 0) -> None:
        end = messages.end(
            self.conversation.field_version,
            code=error.code,
            text=error.text,
            cursor=cursor,
            position=error.position,
            call_status=self._call_status(),
        )
        self._send_last(end)
        if error.code in DEADLY:
            self._channel.discard(1.0)  # the client closes; closing first could reset what it has not read yet
            raise Gone(str(error))

    def _call_status(self) -> int:
        return messages.IN_TRANSACTION if self.seat and self.seat.in_transaction else 0

    # -- messages -------------------------------------------------------------------------------

    def _message(self, reader: Reader) -> None:
        assert self.seat
        self.seat.in_call = True
        if self.conversation.doom is not None:
            raise Doomed(self.conversation.doom)
        while True:
            kind, function = reader.byte(), reader.byte()
            reader.byte()
            if self.conversation.field_version >= 18:
                reader.number()
            if kind == messages.FUNCTION:
                break
            if kind != messages.PIGGYBACK:
                raise ProtocolError(f"message {kind}")
            self._piggyback(function, reader)
        if function not in self._calls:
            raise ProtocolError(f"function {function}")
        self._calls[function](reader)

    def _piggyback(self, function: int, reader: Reader) -> None:
        assert self.seat
        if function == Function.CLOSE_CURSORS:
            self._cursors.close(requests.closed_cursors(reader))
        elif function == Function.END_TO_END:
            for name, value in requests.end_to_end(reader).items():
                setattr(self.seat, name, value)
        elif function == Function.SET_SCHEMA:
            reader.byte()
            self.seat.settings["CURRENT_SCHEMA"] = reader.text().upper()
        else:
            raise ProtocolError(f"piggyback {function}")

    def _simple(self, name: str) -> None:
        """A call without a text."""
        assert self.seat
        action = self._act(name)
        if name in ("COMMIT", "ROLLBACK", "LOGOFF"):
            self.seat.in_transaction = False
        self._reply(messages.status(self._call_status()), action)

    def _lob(self, reader: Reader) -> None:
        request = requests.lob_request(reader)
        action = self._act("LOB")
        self._reply(self._lobs.answer(request) + self._end(), action)

    def _act(self, text: str) -> Action | None:
        """Do what is to go wrong before the answer; gives what goes wrong with it."""
        action = self._shared.faults.action_for(text)
        if isinstance(action, Fail):
            raise OraError(action.code, action.detail)
        if isinstance(action, Hang):
            self.conversation.hang()
        if isinstance(action, Slow):
            self.conversation.wait(action.seconds)
        return action

    # -- executing ------------------------------------------------------------------------------

    def _execute(self, reader: Reader) -> None:
        request = requests.execution(reader, self.conversation.field_version)
        cursor = self._cursors.get(request.cursor)
        fetch = request.rows if request.options & Option.FETCH else 0
        if request.sql is not None:
            cursor.sql, cursor.defines = request.sql, []
        if request.options & Option.DEFINE:
            cursor.defines = request.kinds
            if not request.options & Option.EXECUTE:
                self._rows(cursor, fetch, b"")
                return
        elif request.kinds:
            cursor.kinds = request.kinds
        cursor.plsql = cursor.plsql or bool(request.options & Option.PLSQL_BIND)
        describe = request.sql is not None or cursor.columns is None
        self._run(cursor, request.binds, fetch, describe=describe, commit=bool(request.options & Option.COMMIT))

    def _reexecute(self, reader: Reader) -> None:
        again = requests.again(reader)
        cursor = self._cursors.get(again.cursor)
        binds = requests.bind_rows(reader, cursor.kinds, cursor.outs, again.rows) if cursor.kinds else []
        self._run(cursor, binds, 0, describe=False, commit=again.commit)

    def _reexecute_and_fetch(self, reader: Reader) -> None:
        again = requests.again(reader)
        cursor = self._cursors.get(again.cursor)
        binds = requests.bind_rows(reader, cursor.kinds, (), 1) if cursor.kinds else []
        self._run(cursor, binds, again.rows, describe=False, commit=False)

    def _run(self, cursor: Cursor, binds: list[list[Value]], fetch: int, *, describe: bool, commit: bool) -> None:
        assert self.seat
        database = self._shared.database
        self._shared.executed.append(Executed(self.seat.sid, self.seat.user, cursor.sql, binds[0] if binds else ()))
        try:
            cursor.action = self._act(canonical(cursor.sql))
            with database.lock:
                answer = self._answer(Call(database, self.seat, cursor.sql, binds or [[]]))
                rows = [list(row) for row in answer.rows]
                cursor.rows = itertools.cycle(rows) if isinstance(cursor.action, Endless) else iter(rows)
        except OraError as error:
            self._fail(error, cursor.number)
            return
        self.conversation.wait(answer.work.elapsed)
        database.count(self.seat, cursor.sql, answer.work, answer.tablespace)
        cursor.columns, cursor.sent = answer.columns, 0
        if answer.columns is None:
            self._done(cursor, answer, commit)
            return
        prefix = messages.describe(answer.columns, self.conversation.field_version) if describe else b""
        lobs = any(column.kind.is_lob for column in answer.columns)
        self._rows(cursor, 0 if lobs and describe else fetch, prefix)

    def _answer(self, call: Call) -> Answer:
        try:
            statement, call.names = self._shared.statements.find(call.sql)
        except UnknownStatement:
            self._shared.unknown.append(call.sql)
            raise
        return statement.answer(call, self._shared.statements.views)

    def _done(self, cursor: Cursor, answer: Answer, commit: bool) -> None:
        assert self.seat
        self.seat.in_transaction = (self.seat.in_transaction or answer.changes) and not (commit or answer.commits)
        message = b""
        if cursor.plsql:
            cursor.outs = set(answer.outs)
            directions = ["out" if place in answer.outs else "in" for place in range(len(cursor.kinds))]
            message = messages.bind_directions(directions)
            values = [encode(Kind(cursor.kinds[place]), value) + sb(0) for place, value in answer.outs.items()]
            message += messages.row(values) if values else b""
        self._reply(message + self._end(cursor=cursor.number, rows=answer.affected), cursor.action)

    # -- answering ------------------------------------------------------------------------------

    def _fetch(self, reader: Reader) -> None:
        cursor = self._cursors.get(reader.number())
        self._rows(cursor, reader.number(), b"")

    def _rows(self, cursor: Cursor, count: int, prefix: bytes) -> None:
        """Send the next rows of a cursor, behind what describes them."""
        if isinstance(cursor.action, Endless) and cursor.action.what is not Without.FETCHES and count:
            self._flood(cursor, prefix + messages.row_header(count), cursor.action.what)
        pieces = [prefix + messages.row_header(count)]
        code = 0
        for _ in range(count):
            row = next(cursor.rows, None)
            if row is None:
                code = messages.END_OF_FETCH
                break
            cursor.sent += 1
            pieces.append(messages.row([self._lobs.cell(cursor, place, value) for place, value in enumerate(row)]))
            if isinstance(cursor.action, Cut) and cursor.sent >= cursor.action.after_rows > 0:
                self._cut(b"".join(pieces), cursor.action)
        end = self._end(code=code, cursor=cursor.number, rows=cursor.sent)
        if isinstance(cursor.action, Drip) and not cursor.action.bytes_at_once:
            for piece in pieces:
                self._channel.send_data(piece)
                self.conversation.wait(cursor.action.pause)
            self._send_last(end)
        else:
            self._reply(b"".join(pieces) + end, cursor.action)

    def _flood(self, cursor: Cursor, begin: bytes, what: Without) -> NoReturn:
        """Send until the client has gone."""
        cells = [self._lobs.cell(cursor, place, value) for place, value in enumerate(next(cursor.rows))]
        if what is Without.VALUE:
            pieces = endless()
            begin += messages.row([next(pieces)])
        else:
            pieces = itertools.repeat(messages.row(cells) * 200)
        self._channel.send_data(begin)
        for piece in pieces:
            self._channel.send_data(piece)
            self._shared.flooded += len(piece)
        raise AssertionError("it has no end")

    def _end(self, *, code: int = 0, cursor: int = 0, rows: int = 0) -> bytes:
        text = "no data found" if code else ""
        status = self._call_status()
        version = self.conversation.field_version
        return messages.end(version, code=code, text=text, cursor=cursor, rows=rows, call_status=status)

    def _reply(self, message: bytes, action: Action | None) -> None:
        if isinstance(action, Cut) and not action.after_rows:
            self._cut(message, action)
        if isinstance(action, Garble):
            message = _NONSENSE
        if isinstance(action, Drip) and action.bytes_at_once:
            self._drip(b"".join(self._channel.data(message)), action)
        else:
            self._send_last(message)

    def _send_last(self, message: bytes) -> None:
        """Send what ends a call; the client finds the session at rest, however fast it looks."""
        if self.seat:
            self.seat.in_call = False
        self._channel.send_data(message)

    def _drip(self, raw: bytes, action: Drip) -> None:
        at = 0
        try:
            while at < len(raw):
                self.conversation.wait(action.pause)
                self._channel.write(raw[at : at + action.bytes_at_once])
                at += action.bytes_at_once
        except Broken:
            self._channel.write(raw[at:])  # a marker may stand between packets only
            raise

    def _cut(self, message: bytes, action: Cut) -> None:
        raw = b"".join(self._channel.data(message))
        if action.half_packet:
            raw = raw[: len(raw) // 2]
        if action.after_rows or action.half_packet:
            self._channel.write(raw)
        if action.reset:
            self._channel.reset()
        raise Gone("cut")
