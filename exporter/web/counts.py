"""What the server turned away, and what it answered; written on the server's loop only, read from anywhere."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Refusal(StrEnum):
    """Why a connection ended without an answer of the application."""

    TOO_MANY = "too_many"
    """`web.max_connections` were open."""
    DEADLINE = "deadline"
    """The client kept us waiting for its request, or did not take its answer."""
    TLS = "tls"
    """No TLS came about, in time or at all."""
    CERTIFICATE = "certificate"
    """The client's certificate has none of the names that are allowed."""
    MALFORMED = "malformed"
    """What came is no HTTP, or the head of a request is larger than any can be."""


CODES = (200, 400, 401, 403, 404, 405, 413, 429, 431, 500, 501, 503)
"""What is answered here; each begins at 0."""


class Counts:
    """Since the start of the server."""

    def __init__(self) -> None:
        self._refused = dict.fromkeys(Refusal, 0)
        self._answered = dict.fromkeys(CODES, 0)

    def refuse(self, why: Refusal) -> None:
        """One connection was turned away."""
        self._refused[why] += 1

    def answer(self, code: int) -> None:
        """One request was answered."""
        self._answered[code] = self._answered.get(code, 0) + 1

    @property
    def refused(self) -> Mapping[str, int]:
        """By reason."""
        return MappingProxyType({why.value: number for why, number in self._refused.items()})

    @property
    def answered(self) -> Mapping[int, int]:
        """By status code."""
        return MappingProxyType(dict(self._answered))


def counting(app: ASGIApp, counts: Counts) -> ASGIApp:
    """The application, with each of its answers counted."""

    async def counted(scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                counts.answer(message["status"])
            await send(message)

        await app(scope, receive, sent)

    return counted
