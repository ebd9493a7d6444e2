"""In front of the application: a password where one is wanted, a limit for all requests, headers for every answer."""

from __future__ import annotations

import base64
import binascii
import time
from collections.abc import Callable

from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from exporter.config.web_config import RateLimit
from exporter.web.security.live import Rules, Security
from exporter.web.security.passwords import TooBusy

OPEN_TO_ALL = frozenset({"/-/healthy", "/-/ready"})
"""Whoever watches over the process has no password, and learns nothing but one line here."""

_CHALLENGE = {"WWW-Authenticate": 'Basic realm="tde-exporter", charset="UTF-8"'}


class Guard:
    """Wraps an application; its rules may change while it runs."""

    def __init__(self, app: ASGIApp, security: Security, now: Callable[[], float] = time.monotonic) -> None:
        self._app, self._security, self._now = app, security, now
        self._bucket = _Bucket()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        rules = self._security.rules
        answer = None if scope["path"] in OPEN_TO_ALL else await self._refusal(scope, rules)
        await (answer or self._app)(scope, receive, _adding(rules.headers, send) if rules.headers else send)

    async def _refusal(self, scope: Scope, rules: Rules) -> Response | None:
        if rules.rate_limit is not None and not self._bucket.take(rules.rate_limit, self._now()):
            return _line(429, "too many requests")
        if rules.passwords is None:
            return None
        try:
            given = _credentials(scope)
            if given is not None and await rules.passwords.right(*given):
                return None
        except TooBusy:
            return _line(503, "too many passwords are being checked; try again", {"Retry-After": "1"})
        return _line(401, "user and password are wanted here", _CHALLENGE)


class _Bucket:
    """Full at first; one token for each request, one more with every interval."""

    def __init__(self) -> None:
        self._limit: RateLimit | None = None
        self._tokens, self._filled = 0.0, 0.0

    def take(self, limit: RateLimit, now: float) -> bool:
        if limit != self._limit:
            self._limit, self._tokens, self._filled = limit, float(limit.burst), now
        self._tokens = min(float(limit.burst), self._tokens + (now - self._filled) / limit.interval)
        self._filled = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True


def _credentials(scope: Scope) -> tuple[str, bytes] | None:
    """User and password of the request; None when there are none, or nobody can read them."""
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(given) != 1:
        return None
    scheme, _, encoded = given[0].partition(b" ")
    if scheme.lower() != b"basic":
        return None
    try:
        user, colon, password = base64.b64decode(encoded.strip(), validate=True).partition(b":")
    except binascii.Error:
        return None
    return (user.decode("utf-8", "surrogateescape"), password) if colon else None


def _adding(headers: tuple[tuple[bytes, bytes], ...], send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            held = MutableHeaders(scope=message)
            for name, value in headers:
                held[name.decode()] = value.decode()
        await send(message)

    return sent


def _line(status: int, words: str, headers: dict[str, str] | None = None) -> Response:
    common = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
    return PlainTextResponse(f"{words}\n", status_code=status, headers={**common, **(headers or {})})
