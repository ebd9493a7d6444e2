"""When our own certificate ends, and saying so in time: whoever scrapes us refuses an expired one, and then nobody watches."""

from __future__ import annotations

import logging
import re
import ssl
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from exporter.domain.errors import ConfigError

NOTICE_SECONDS = 14 * 86400.0
"""So long before its end a certificate is spoken of, or for the last third of its life where that is less."""
SAID_EVERY = 86400.0

_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
_SEQUENCE, _VERSION, _UTC_TIME = 0x30, 0xA0, 0x17
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Life:
    """From when to when a certificate with its chain is valid; Unix times."""

    begins: float
    ends: float

    @property
    def notice(self) -> float:
        """Seconds before the end from which on it is spoken of."""
        return min(NOTICE_SECONDS, (self.ends - self.begins) / 3)


def life_of(pem: str) -> Life:
    """The life of the certificates in a text: of the one that ends first. Raises ConfigError where there is none."""
    try:
        lives = [_life(ssl.PEM_cert_to_DER_cert(found)) for found in _PEM.findall(pem)]
        return min(lives, key=lambda life: life.ends)
    except (ValueError, IndexError):
        raise ConfigError(
            "nobody can read when this certificate ends", where="cert_file", remedy="It must be in PEM form"
        ) from None


class Reminder:
    """Says that a certificate ends: once a day, at once when there is another one."""

    def __init__(self) -> None:
        self._life: Life | None = None
        self._said = -SAID_EVERY

    def look(self, life: Life | None, file: Path | None, now: float) -> None:
        """Whatever is to be said about the certificate of now, at the Unix time `now`."""
        if life != self._life:
            self._life, self._said = life, -SAID_EVERY
        if life is None or life.ends - now > life.notice or time.monotonic() - self._said < SAID_EVERY:
            return
        self._said = time.monotonic()
        fields = {"ends": datetime.fromtimestamp(life.ends, UTC).isoformat(timespec="minutes"), "file": str(file or "")}
        if life.ends <= now:
            _log.error(
                "the certificate of the page has expired; a renewed one is taken without a restart", extra=fields
            )
        else:
            _log.warning(
                "the certificate of the page expires soon; a renewed one is taken without a restart", extra=fields
            )


def _life(der: bytes) -> Life:
    """Certificate, its signed part; there the version, which may be missing, number, algorithm, issuer, then the times."""
    _, certificate, _ = _element(der)
    _, signed, _ = _element(certificate)
    kind, _, rest = _element(signed)
    for _ in range(3 if kind == _VERSION else 2):
        _, _, rest = _element(rest)
    kind, times, _ = _element(rest)
    if kind != _SEQUENCE:
        raise ValueError("no times")
    kind, begins, rest = _element(times)
    of_end, ends, _ = _element(rest)
    return Life(_moment(kind, begins), _moment(of_end, ends))


def _element(data: bytes) -> tuple[int, bytes, bytes]:
    """Kind and content of the first element of DER, and what comes behind it. Raises IndexError, ValueError."""
    kind, length, at = data[0], data[1], 2
    if length & 0x80:
        at += length & 0x7F
        length = int.from_bytes(data[2:at], "big")
    if len(data) < at + length:
        raise ValueError("cut off")
    return kind, data[at : at + length], data[at + length :]


def _moment(kind: int, text: bytes) -> float:
    digits = text.decode("ascii")
    if kind == _UTC_TIME:
        digits = ("20" if int(digits[:2]) < 50 else "19") + digits
    return datetime.strptime(digits, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()
