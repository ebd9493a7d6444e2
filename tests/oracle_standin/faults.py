"""Switches for everything that goes wrong: change them at any time, they hold from the next thing that happens."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from tests.oracle_standin.tokens import canonical


class Phase(enum.StrEnum):
    """Where a connect can get stuck: nothing is said any more, and the connection stays open."""

    TLS = "tls"
    ACCEPT = "accept"
    NEGOTIATION = "negotiation"
    AUTHENTICATION = "authentication"
    PASSWORD = "password"


@dataclass(frozen=True)
class Fail:
    """The call ends in this error; the connection too, where a database ends it (28, 600, 1092 ...)."""

    code: int
    detail: str = ""


@dataclass(frozen=True)
class Hang:
    """No answer comes. A break is obeyed, unless the server is deaf to it."""


@dataclass(frozen=True)
class Slow:
    """The answer comes late by so many seconds."""

    seconds: float


@dataclass(frozen=True)
class Drip:
    """The answer comes in pieces, with a pause before each: rows one by one, or so many bytes at a time."""

    pause: float
    bytes_at_once: int = 0


@dataclass(frozen=True)
class Cut:
    """The connection ends after so many rows: closed, or reset, or in the middle of a packet."""

    after_rows: int = 0
    reset: bool = True
    half_packet: bool = False


@dataclass(frozen=True)
class Garble:
    """The answer is one that no database gives."""


class Without(enum.StrEnum):
    """What of an answer has no end: whole fetches, each as long as was asked for; the rows of one; one value."""

    FETCHES = "fetches"
    ROWS = "rows"
    VALUE = "value"


@dataclass(frozen=True)
class Endless:
    """The answer does not come to an end; breaks are ignored meanwhile."""

    what: Without


Action = Fail | Hang | Slow | Drip | Cut | Garble | Endless


@dataclass
class _Rule:
    pattern: str
    action: Action
    times: int | None


@dataclass
class Faults:
    """What is wrong now.

    Attributes:
        silent: The phase of a connect in which the server falls silent; None for no such phase.
        refuse: What the listener refuses connections with, 12514 for example; 0 for not at all.
        login: What each login ends in, 1033 for example; 0 for what the account is worth.
        wrong_answer: Whether the server fails to prove that it knows the password, as an impostor would.
        native_encryption: Whether native network encryption is demanded, which the thin driver cannot do.
        drop_logins: Whether connections are reset as soon as they are accepted.
        deaf: Whether breaks are ignored.
    """

    silent: Phase | None = None
    refuse: int = 0
    login: int = 0
    wrong_answer: bool = False
    native_encryption: bool = False
    drop_logins: bool = False
    deaf: bool = False
    _rules: list[_Rule] = field(default_factory=list)

    def on(self, pattern: str, action: Action, *, times: int | None = None) -> None:
        """Let `action` happen to calls whose text contains `pattern` ("V$ENCRYPTION_WALLET"), for the first so many
        of them or for all. A call without a text has the name of its function: PING, COMMIT, ROLLBACK, LOGOFF, LOB.
        "" is all calls."""
        self._rules.append(_Rule(canonical(pattern), action, times))

    def heal(self) -> None:
        """Nothing is wrong any more; what hangs goes on hanging."""
        self.__dict__.update(Faults().__dict__)

    def action_for(self, text: str) -> Action | None:
        """What happens to this call, if anything; the newest that fits."""
        for rule in reversed(self._rules):
            if rule.pattern in text and rule.times != 0:
                if rule.times is not None:
                    rule.times -= 1
                return rule.action
        return None


DEADLY = frozenset({22, 28, 31, 45, 378, 600, 602, 603, 609, 1012, 1041, 1043, 1089, 1092, 2396, 3113, 3114, 3135})
"""Errors after which the database ends the connection."""
