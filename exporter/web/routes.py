"""What is served: paths, methods, formats, and the words of every refusal.

A scrape does no work besides picking bytes. No answer ever holds a traceback or a version.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from exporter.web.discovery import discovered
from exporter.web.negotiation import accepts_gzip, wants_openmetrics
from exporter.web.pages.landing import FAVICON, Landing, render
from exporter.web.security.guard import Guard
from exporter.web.security.live import Security

MAX_HEADER_BYTES = 16 * 1024
"""Of the request line and all headers. Browsers and Prometheus send less than 2 KiB."""

MAX_BODY_BYTES = 16 * 1024
"""Of a request. Nothing here wants a body; a small one is read and ignored, so that the client sees our answer."""

LANDING_SECONDS = 1.0
"""A landing page is rendered at most this often, however many people look at it."""

RELOAD = "/-/reload"
RELOAD_SECONDS = 30.0
"""How long a client waits for its answer; a reload takes a second or two."""

NOBODY_ASKED = (
    "anybody could reload the configuration here, for nobody is asked who he is: let web.config_file ask for passwords or "
    "client certificates, listen on a loopback address, or send SIGHUP to the process"
)

_FORWARDED = frozenset({"forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"})
"""Who comes through a proxy on this machine is not on this machine."""

PAGE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; img-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
TEXT_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}

_log = logging.getLogger(__name__)


class Page(Protocol):
    """One rendering of all metrics, in the four forms in which it can be asked for."""

    @property
    def text(self) -> bytes: ...
    @property
    def text_gzip(self) -> bytes: ...
    @property
    def openmetrics(self) -> bytes: ...
    @property
    def openmetrics_gzip(self) -> bytes: ...
    @property
    def text_type(self) -> str: ...
    @property
    def openmetrics_type(self) -> str: ...


class PageSource(Protocol):
    """Who renders; both methods return at once and never raise."""

    def current(self) -> Page | None:
        """The newest page; None before the first."""

    def part(self, target: str) -> Page | None:
        """What the newest page says of one target, or with an empty name of the exporter itself."""

    def fresh(self) -> bool:
        """False when the newest page is too old to be believed."""


Health = Callable[[], tuple[bool, str]]
"""Whether all is well, and that in words (one line). Called on the server's loop: must return at once."""


@dataclass(frozen=True, slots=True)
class AppState:
    """Everything that is served comes from here. What is called is called on the server's loop: must return at once.

    `targets` gives the names of the targets that are measured here with the engine of each, `elsewhere` says in words who
    else measures one (empty: nobody). `reload` has the configuration read anew: whether that was done, and that or why not in
    words (one line or more).
    """

    pages: PageSource
    healthy: Health
    ready: Health
    landing: Callable[[], Landing]
    targets: Callable[[], Mapping[str, str]] = dict
    elsewhere: Callable[[str], str] = lambda _target: ""
    reload: Callable[[], Future[tuple[bool, str]]] | None = None


def build_app(state: AppState, security: Security, loopback: bool = True) -> ASGIApp:
    """The whole web application: GET and HEAD on seven paths, POST on one, everything else refused.

    `loopback`: only this machine reaches it.
    """
    view = _LandingView(state.landing)

    async def metrics(request: Request) -> Response:
        only = request.query_params.get("only")
        if only not in (None, "exporter"):
            return _line(400, "the only value of `only` is exporter")
        return _metrics(state.pages, request, None if only is None else "")

    async def probe(request: Request) -> Response:
        names = request.query_params.getlist("target")
        if len(names) == 1 and names[0] in state.targets():
            return _metrics(state.pages, request, names[0])
        return _not_measured(state, names)

    async def discovery(request: Request) -> Response:
        groups = discovered(request.headers.get("host", ""), state.targets())
        return JSONResponse(groups, headers=TEXT_HEADERS)

    async def healthy(request: Request) -> Response:
        return _health(state.healthy)

    async def ready(request: Request) -> Response:
        return _health(state.ready)

    async def reload(request: Request) -> Response:
        # A page that somebody on this machine looks at could else have their browser ask for it.
        if "origin" in request.headers:
            return _line(403, "no web page may reload the configuration; use curl -X POST, or send SIGHUP")
        if not security.rules.asks_who and (not loopback or _FORWARDED & set(request.headers.keys())):
            return _line(403, NOBODY_ASKED)
        return _line(501, "nothing can be reloaded here") if state.reload is None else await _reload(state.reload)

    async def landing(request: Request) -> Response:
        return Response(view.html(), media_type="text/html", headers=PAGE_HEADERS)

    async def favicon(request: Request) -> Response:
        headers = {**TEXT_HEADERS, "Cache-Control": "max-age=86400"}
        return Response(FAVICON, media_type="image/svg+xml", headers=headers)

    app = Starlette(
        routes=[
            Route("/metrics", metrics),
            Route("/probe", probe),
            Route("/sd", discovery),
            Route("/-/healthy", healthy),
            Route("/-/ready", ready),
            Route(RELOAD, reload, methods=["POST"]),
            Route("/", landing),
            Route("/favicon.ico", favicon),
        ],
        exception_handlers={HTTPException: _refuse, Exception: _fail},
    )
    # A redirect would repeat the client's own Host header to it; an unknown path is simply unknown.
    app.router.redirect_slashes = False
    return _Limits(Guard(app, security))


def _not_measured(state: AppState, names: list[str]) -> Response:
    if len(names) == 1 and (words := state.elsewhere(names[0])):
        return _line(404, words)
    return _line(400, "name one configured target: /probe?target=NAME; /sd lists them")


def _metrics(pages: PageSource, request: Request, part: str | None) -> Response:
    """The page, or the part of it that is about a target (empty: about none)."""
    page = pages.current() if part is None else pages.part(part)
    if page is None:
        return _line(503, "no metrics yet: the first page is still being rendered")
    if not pages.fresh():
        return _line(503, "the newest metrics are too old to be believed; /-/healthy says more")
    headers = {**TEXT_HEADERS, "Vary": "Accept, Accept-Encoding"}
    gzip = accepts_gzip(",".join(request.headers.getlist("accept-encoding")))
    if gzip:
        headers["Content-Encoding"] = "gzip"
    if wants_openmetrics(",".join(request.headers.getlist("accept"))):
        body, headers["Content-Type"] = page.openmetrics_gzip if gzip else page.openmetrics, page.openmetrics_type
    else:
        body, headers["Content-Type"] = page.text_gzip if gzip else page.text, page.text_type
    return Response(body, headers=headers)


async def _reload(ask: Callable[[], Future[tuple[bool, str]]]) -> Response:
    try:
        # Shielded: others may wait for the same reload.
        done, words = await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(ask())), RELOAD_SECONDS)
    except TimeoutError:
        return _line(503, "the reload is still under way; the log and /metrics will say what became of it")
    return _line(200 if done else 500, words)


def _health(ask: Health) -> Response:
    ok, words = ask()
    return _line(200 if ok else 503, words)


def _line(status: int, words: str, **headers: str) -> Response:
    return PlainTextResponse(f"{words}\n", status_code=status, headers={**TEXT_HEADERS, **headers})


async def _refuse(request: Request, error: Exception) -> Response:
    if not isinstance(error, HTTPException):
        raise error
    only = "POST is" if request.url.path == RELOAD else "GET and HEAD are"
    words = {404: "not found; the page at / lists what there is", 405: f"only {only} served here"}
    return _line(error.status_code, words.get(error.status_code, "refused"), **(error.headers or {}))


async def _fail(request: Request, error: Exception) -> Response:
    return _line(500, "internal error; the log says more")


class _LandingView:
    """The rendered landing page, kept for `LANDING_SECONDS`."""

    def __init__(self, landing: Callable[[], Landing]) -> None:
        self._landing, self._html, self._until = landing, b"", 0.0

    def html(self) -> bytes:
        if time.monotonic() >= self._until:
            self._html = render(self._landing()).encode("utf-8", "backslashreplace")
            self._until = time.monotonic() + LANDING_SECONDS
        return self._html


class _Limits:
    """Refuses large headers and large bodies, and keeps errors of the application away from the client."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        line = len(scope["raw_path"]) + len(scope["query_string"])
        if line + sum(len(name) + len(value) + 4 for name, value in scope["headers"]) > MAX_HEADER_BYTES:
            answer: ASGIApp = _line(431, "this request line and its headers are too large", Connection="close")
        elif not await _small_body(scope, receive):
            answer = _line(413, "no request body is wanted here", Connection="close")
        else:
            answer = self._app
        try:
            await answer(scope, receive, send)
        except Exception:  # Starlette has answered with 500 already, and hands the error on to be logged.
            _log.exception("failed to serve %r", scope["path"])


async def _small_body(scope: Scope, receive: Receive) -> bool:
    """Read the request's body to its end; False when it is larger than `MAX_BODY_BYTES` (the rest stays unread)."""
    headers = dict(scope["headers"])
    announced = headers.get(b"content-length", b"0")
    if b"transfer-encoding" not in headers and announced == b"0":
        return True
    if not announced.isdigit() or int(announced) > MAX_BODY_BYTES:
        return False
    size, more = 0, True
    while more and size <= MAX_BODY_BYTES:
        message = await receive()
        if message["type"] == "http.disconnect":
            return True
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    return size <= MAX_BODY_BYTES
