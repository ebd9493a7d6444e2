"""Logging in without harm: a secret that the server refused is not tried again and again.

Repeated failed logins lock accounts and block hosts. So all sessions of a target share one
`Credentials`, and a refused secret is tried again when it has changed, or after an hour.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from exporter.config.secrets import SecretSource
from exporter.domain.clock import Clock, SystemClock
from exporter.domain.errors import (
    AuthenticationFailed,
    ConnectFailed,
    DeadlineExceeded,
    SecretError,
    SecretOutOfReach,
)

REFUSED_SECONDS = 3600.0
"""How long a refused secret is not tried again. The account may have been mended meanwhile, the secret being right."""
PATIENCE_SECONDS = 1.0
"""How long a login with a secret that worked before waits for another one to end."""


class Credentials:
    """The secret of one login, read anew for each attempt and never kept; any number of threads.

    `source` None stands for logging in without a secret, which may be refused as well.
    """

    def __init__(self, source: SecretSource | None, clock: Clock | None = None) -> None:
        self._source, self._clock = source, clock or SystemClock()
        self._salt = secrets.token_bytes(16)
        self._state = threading.Lock()
        self._trying = threading.Lock()
        self._proven = b""
        self._refused: dict[bytes, tuple[float, str]] = {}

    def follow(self, former: Credentials) -> None:
        """Know of refused secrets what others knew of the same login; before the first attempt."""
        with former._state:
            salt, refused = former._salt, dict(former._refused)
        with self._state:
            self._salt, self._refused = salt, refused

    @contextmanager
    def attempt(self, timeout: float = 30.0) -> Iterator[str]:
        """The secret as it is now, for one login inside the `with` block; empty where none is configured.

        What the block raises decides: AuthenticationFailed marks the secret as refused, an end without an
        error as right, any other error says nothing about it. Until it is known to be right, attempts take
        turns; afterwards they do so where it costs at most a second, so that a password that was changed
        on the server is tried once and not by every session at the same time.

        Raises AuthenticationFailed without an attempt when the secret cannot be read, or is one that was
        refused; ConnectFailed when there are no means to read it now; DeadlineExceeded when other attempts last longer than `timeout` seconds.
        """
        deadline = time.monotonic() + timeout
        mark = self._mark(self._read())
        self._refuse_again(mark)
        alone = self._trying.acquire(
            timeout=max(0.0, min(timeout, PATIENCE_SECONDS) if self._is_proven(mark) else timeout)
        )
        try:
            # It may have changed while we waited, or the attempt we waited for may have been refused.
            secret = self._read()
            mark = self._mark(secret)
            self._refuse_again(mark)
            if not alone and not self._is_proven(mark):
                raise DeadlineExceeded("another login to the same server has not ended in time")
            if time.monotonic() > deadline:
                raise DeadlineExceeded("other logins to the same server took too long")
            try:
                yield secret
            except AuthenticationFailed as error:
                self._remember_refused(mark, str(error))
                raise
            self._remember_proven(mark)
        finally:
            if alone:
                self._trying.release()

    def _read(self) -> str:
        if self._source is None:
            return ""
        try:
            return self._source.read()
        except SecretOutOfReach as error:
            # It was not refused, and will be read when there are open files again.
            raise ConnectFailed(str(error)) from None
        except SecretError as error:
            raise AuthenticationFailed(str(error)) from None

    def _mark(self, secret: str) -> bytes:
        """Tells secrets apart without keeping them; the salt makes it useless outside this process."""
        return hashlib.blake2b(secret.encode(), key=self._salt).digest()

    def _is_proven(self, mark: bytes) -> bool:
        with self._state:
            return mark == self._proven

    def _refuse_again(self, mark: bytes) -> None:
        with self._state:
            now = self._clock.monotonic()
            self._refused = {old: found for old, found in self._refused.items() if now - found[0] < REFUSED_SECONDS}
            if mark in self._refused:
                # No countdown: words that change with each call fill a log.
                raise AuthenticationFailed(
                    f"{self._refused[mark][1]}; tried again when the secret has changed, or an hour after that attempt"
                )

    def _remember_refused(self, mark: bytes, words: str) -> None:
        with self._state:
            self._refused[mark] = self._clock.monotonic(), words
            if self._proven == mark:
                self._proven = b""

    def _remember_proven(self, mark: bytes) -> None:
        with self._state:
            self._proven = mark
            self._refused.pop(mark, None)
