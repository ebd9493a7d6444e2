"""From the first packet to a session: the listener's answer, negotiation, and the check of the password."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import NoReturn

from tests.oracle_standin import messages
from tests.oracle_standin.authentication import Challenge
from tests.oracle_standin.conversation import FOREVER_S, Conversation
from tests.oracle_standin.errors import TEXTS, OraError
from tests.oracle_standin.faults import Phase
from tests.oracle_standin.model import SYSTEM_PRIVILEGES, Seat, User
from tests.oracle_standin.packets import PATIENCE_S, Gone, Packet
from tests.oracle_standin.primitives import ProtocolError, Reader
from tests.oracle_standin.requests import Authentication, Function, authentication, connect_data, skip_data_types


class Login:
    """One attempt to get a session."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._channel = conversation.channel
        self._shared = conversation.shared
        self._database = conversation.shared.database
        self._con_id = 0
        self._service = ""

    def run(self, seated: Callable[[Seat], None]) -> None:
        """Calls `seated` with the session of a client that logged in, before the client knows that it has one.

        Raises `Gone` when there is to be none.
        """
        self._listen()
        self._negotiate()
        first = self._authentication(Function.AUTH_ONE)
        self._silence(Phase.AUTHENTICATION)
        account = self._database.users.get(first.user.upper())
        challenge = Challenge(account.password if account else secrets.token_hex())
        self._channel.send_data(messages.parameters(challenge.parameters()) + messages.status())
        second = self._authentication(Function.AUTH_TWO)
        self._silence(Phase.PASSWORD)
        self._shared.logins += 1
        try:
            seat = self._seat(first, second, challenge, account)
        except OraError as error:
            self._refuse(error)
        seated(seat)
        self._welcome(seat, challenge)

    def _silence(self, phase: Phase) -> None:
        if self._shared.faults.silent is phase:
            self._channel.discard(FOREVER_S)
            raise Gone("it was silent for too long")

    def _listen(self) -> None:
        """The listener's part: which container is asked for?"""
        kind, body = self._channel.receive(PATIENCE_S)
        if kind != Packet.CONNECT:
            raise ProtocolError(f"a packet of type {kind} instead of CONNECT")
        asked = connect_data(body, lambda: self._channel.receive(PATIENCE_S)[1])
        self._silence(Phase.ACCEPT)
        self._service = asked.get("SERVICE_NAME", asked.get("SID", "")).lower()
        found = self._database.services.get(self._service)
        code = self._shared.faults.refuse or (0 if found else 12514 if "SERVICE_NAME" in asked else 12505)
        if code or found is None:
            self._channel.send(Packet.REFUSE, messages.refuse(code))
            raise Gone(f"refused with {code}")
        self._con_id = found
        native = self._shared.faults.native_encryption
        answer = messages.accept(self._database.profile.protocol_version, native_encryption=native)
        self._channel.send(Packet.ACCEPT, answer)
        self._channel.accepted = True

    def _negotiate(self) -> None:
        reader = self._conversation.receive(PATIENCE_S)
        _expect(reader, messages.PROTOCOL)
        self._silence(Phase.NEGOTIATION)
        self._channel.send_data(messages.protocol(self._conversation.field_version))
        reader = self._conversation.receive(PATIENCE_S)
        _expect(reader, messages.DATA_TYPES)
        skip_data_types(reader)
        self._channel.send_data(messages.data_types())

    def _authentication(self, function: int) -> Authentication:
        reader = self._conversation.receive(PATIENCE_S)
        _expect(reader, messages.FUNCTION)
        _expect(reader, function)
        reader.byte()
        if self._conversation.field_version >= 18:
            reader.number()
        return authentication(reader)

    def _seat(self, first: Authentication, second: Authentication, challenge: Challenge, account: User | None) -> Seat:
        """Raises what the database answers to a login that it does not allow."""
        if self._shared.faults.login:
            raise OraError(self._shared.faults.login)
        privilege = next((name for bit, name in SYSTEM_PRIVILEGES.items() if second.mode & bit), "")
        closed = self._database.mounted or self._database.container(self._con_id).open_mode == "MOUNTED"
        if closed and not privilege:
            raise OraError(1033)
        right = challenge.accepts(second.pairs)
        if account is None:
            raise OraError(1017)
        with self._database.lock:
            if account.locked:
                raise OraError(28000)
            if not right:
                account.failed_logins += 1
                account.locked = account.failed_logins >= account.attempts
                raise OraError(1017)
            account.failed_logins = 0
        if privilege and privilege not in account.system:
            raise OraError(1017)
        if account.expired:
            raise OraError(28001)
        sid = next(self._shared.sids)
        user = {"": first.user.upper(), "SYSDBA": "SYS"}.get(privilege, privilege)
        seat = Seat(sid, sid % 97 + 1, user, account, self._con_id, privilege, service=self._service)
        seat.program = first.pairs.get("AUTH_PROGRAM_NM", "")
        seat.machine = first.pairs.get("AUTH_MACHINE", "")
        seat.osuser = first.pairs.get("AUTH_SID", "")
        return seat

    def _refuse(self, error: OraError) -> NoReturn:
        self._channel.send_data(messages.end(self._conversation.field_version, code=error.code, text=error.text))
        self._channel.discard(1.0)  # the client closes; closing first could reset what it has not read yet
        raise Gone(str(error))

    def _welcome(self, seat: Seat, challenge: Challenge) -> None:
        database = self._database
        pairs = {
            "AUTH_VERSION_NO": (str(database.profile.number), 0),
            "AUTH_SESSION_ID": (str(seat.sid), 0),
            "AUTH_SERIAL_NUM": (str(seat.serial), 0),
            "AUTH_SC_DBUNIQUE_NAME": (database.name, 0),
            "AUTH_SC_REAL_DBUNIQUE_NAME": (database.unique_name, 0),
            "AUTH_SC_SERVICE_NAME": (seat.service, 0),
            "AUTH_INSTANCENAME": (database.instance, 0),
            "AUTH_MAX_OPEN_CURSORS": ("300", 0),
            "AUTH_MAX_IDEN_LENGTH": ("128", 0),
            **challenge.answer(right=not self._shared.faults.wrong_answer),
        }
        message = messages.parameters(pairs)
        if seat.account.grace:
            message += messages.warning(28002, TEXTS[28002])
        self._channel.send_data(message + messages.status())


def _expect(reader: Reader, code: int) -> None:
    found = reader.byte()
    if found != code:
        raise ProtocolError(f"message {found} instead of {code}")
