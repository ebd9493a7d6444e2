"""The web configuration as it is now: read at the start, and again when one of its files changes.

A file that cannot be used after a change leaves everything as it was, and is told once: certificates are renewed by
programs, which may write one file after the other.
"""

from __future__ import annotations

import logging
import ssl
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from exporter.config import web_config
from exporter.config.web_config import RateLimit, WebConfig
from exporter.domain.errors import ConfigError, ConfigErrors
from exporter.web.security.expiry import Life, Reminder, life_of
from exporter.web.security.passwords import Passwords
from exporter.web.security.tls import certificate_of, context_of

LOOK_SECONDS = 1.0
"""From one look at the files to the next."""

_Signature = tuple[tuple[str, int, int, int], ...]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds now. `context` is None where plain HTTP is spoken, `passwords` where everybody may ask."""

    context: ssl.SSLContext | None = None
    allowed_names: tuple[str, ...] = ()
    passwords: Passwords | None = None
    headers: tuple[tuple[bytes, bytes], ...] = ()
    rate_limit: RateLimit | None = None
    asks_who: bool = False
    life: Life | None = None
    """Of the certificate; None where plain HTTP is spoken."""
    certificate: Path | None = None
    """Its file, where it has one."""

    def opens(self, before: Rules) -> bool:
        """Whether less is asked of clients than before, or what they say is not hidden any more."""
        return before.asks_who > self.asks_who or (before.context is not None and self.context is None)


@dataclass
class Security:
    """`rules` may be read from any thread. Without a `path` nothing is asked of anybody, and nothing is watched."""

    path: Path | None = None
    rules: Rules = field(init=False)

    def __post_init__(self) -> None:
        """Read the files; raises ConfigErrors."""
        self._stop, self._reading = threading.Event(), threading.Lock()
        self._files: tuple[Path, ...] = ()
        self._seen: _Signature = ()
        self._opening: _Signature = ()
        self._problem: ConfigError | None = None
        self._told: ConfigError | None = None
        self._reminder = Reminder()
        self.rules = Rules() if self.path is None else self._read(self.path)
        self._watcher = threading.Thread(target=self._watch, name="web-config", daemon=True)

    def start(self) -> None:
        """Look at the files every second from now on."""
        if self.path is not None:
            self._watcher.start()

    def stop(self) -> None:
        """Look no more."""
        self._stop.set()
        if self.rules.passwords is not None:
            self.rules.passwords.close()

    def look(self) -> bool:
        """Read the files anew if one has changed since the last look; whether the rules are new."""
        try:
            return self.refresh()
        except ConfigError as error:
            if error is not self._told:
                self._told = error
                _log.error("the web configuration stays as it was: %s", error)
            return False

    def refresh(self) -> bool:
        """The same, but raises ConfigErrors as long as the files cannot be used."""
        if self.path is None:
            return False
        with self._reading:
            if _signature((self.path, *self._files)) == self._seen:
                if self._problem is not None:
                    raise self._problem
                return False
            before, self._problem = self.rules, None
            try:
                found = self._read(self.path)
            except ConfigError as error:
                self._problem = error
                raise
            if found.opens(before) and self._seen != self._opening:
                # A file that is just being written may have its end missing, and the passwords with it.
                self._opening, self._seen = self._seen, ()
                return False
            self.rules, self._opening = found, ()
        if before.passwords is not None:
            before.passwords.close()
        _log.info("the web configuration was read anew", extra={"file": str(self.path)})
        return True

    def _watch(self) -> None:
        while not self._stop.wait(LOOK_SECONDS):
            try:
                self.look()
                self._reminder.look(self.rules.life, self.rules.certificate, time.time())
            except Exception:
                _log.exception("cannot look at the web configuration")

    def _read(self, path: Path) -> Rules:
        # What is noted is what was there before the reading: a change in between is seen by the next look.
        self._seen = _signature((path, *self._files))
        config = web_config.load(path)
        if config.files != self._files:
            self._files = config.files
            self._seen = _signature((path, *self._files))
        try:
            return _rules(config)
        except ConfigErrors:
            raise
        except ConfigError as error:
            raise ConfigErrors([error]) from None


def _rules(config: WebConfig) -> Rules:
    tls = config.tls_server_config
    return Rules(
        context=None if tls is None else context_of(tls),
        life=None if tls is None else life_of(certificate_of(tls)),
        certificate=None if tls is None else tls.cert_file,
        allowed_names=() if tls is None else tls.client_allowed_sans,
        passwords=Passwords(config.basic_auth_users) if config.basic_auth_users else None,
        headers=tuple(
            (name.lower().encode(), value.encode()) for name, value in config.http_server_config.headers.pairs
        ),
        rate_limit=config.rate_limit,
        asks_who=config.asks_who,
    )


def _signature(paths: tuple[Path, ...]) -> _Signature:
    """What tells whether files have changed; a mounted secret changes by a link that points elsewhere."""
    found = []
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            found.append((str(path), 0, 0, 0))
        else:
            found.append((str(path), status.st_mtime_ns, status.st_size, status.st_ino))
    return tuple(found)
