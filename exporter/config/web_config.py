"""The web configuration file that Prometheus and its exporters share: TLS, passwords, headers, rate limit.

The form is that of Prometheus' exporter-toolkit (docs/web-configuration.md there). What Python's ssl cannot do as that
page says is refused by name, never ignored: a file that is accepted is kept to.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import PydanticCustomError

from exporter.config import document
from exporter.config.problems import Context, reword
from exporter.config.quantities import Duration
from exporter.config.schema import Location, Strict
from exporter.domain.errors import ConfigErrors

CLIENT_AUTH = Literal["NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"]
_UNVERIFIED = ("RequestClientCert", "RequireAnyClientCert", "RequireAnyClientCertIfGiven")

_HASH = re.compile(r"\$2[abxy]\$(\d\d)\$[./A-Za-z0-9]{53}")
_DEAREST_HASH = 16
"""As a power of two; 16 takes seconds of CPU for each new password that somebody tries."""

CIPHERS = {
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA": "ECDHE-ECDSA-AES128-SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA": "ECDHE-ECDSA-AES256-SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA": "ECDHE-RSA-AES128-SHA",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA": "ECDHE-RSA-AES256-SHA",
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
}
"""Names of TLS 1.2 suites as the file gives them (IANA's), and as OpenSSL does."""
ALWAYS_ON = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
"""Suites of TLS 1.3: nobody can choose among them, so they may be named and change nothing."""
CURVES = {"CurveP256": "prime256v1", "CurveP384": "secp384r1", "CurveP521": "secp521r1", "X25519": "X25519"}


def _impossible(what: str, remedy: str) -> ValueError:
    return ValueError(f"{what}; {remedy}")


class TlsServer(Strict):
    """TLS. Certificate and key come from files, or stand in the web configuration file itself."""

    cert_file: Location | None = None
    """Certificate of the server in PEM, with its chain."""
    key_file: Location | None = None
    """Its private key in PEM, without a passphrase."""
    cert: str | None = None
    """The certificate itself, in place of `cert_file`."""
    key: str | None = Field(None, repr=False)
    """The key itself, in place of `key_file`."""
    client_auth_type: CLIENT_AUTH = "NoClientCert"
    """Whether clients need a certificate."""
    client_ca_file: Location | None = None
    """Certificates of the authorities that sign those of clients, in PEM."""
    client_ca: str | None = None
    """The authorities themselves, in place of `client_ca_file`."""
    client_allowed_sans: tuple[str, ...] = ()
    """Alternative names (DNS, IP, e-mail, URI) of which the certificate of a client must have one. Empty: any."""
    min_version: Literal["TLS12", "TLS13"] = "TLS12"
    """The oldest version that is spoken."""
    max_version: Literal["TLS12", "TLS13"] = "TLS13"
    """The newest version that is spoken."""
    cipher_suites: tuple[str, ...] = ()
    """Suites of TLS 1.2, by the names that IANA gives them. Empty: OpenSSL's choice."""
    prefer_server_cipher_suites: bool = True
    """Whether the order of the server counts."""
    curve_preferences: tuple[str, ...] = ()
    """The curve of the key exchange, one at most. Empty: OpenSSL's choice."""

    @field_validator("client_auth_type", mode="before")
    @classmethod
    def _verified(cls, value: object) -> object:
        if value in _UNVERIFIED:
            raise _impossible(
                f"{value} is not possible here: every certificate of a client is verified",
                "write RequireAndVerifyClientCert or VerifyClientCertIfGiven, and client_ca_file",
            )
        return value

    @field_validator("min_version", "max_version", mode="before")
    @classmethod
    def _safe(cls, value: object) -> object:
        if value in ("TLS10", "TLS11"):
            raise _impossible(f"{value} is not spoken here: it is not safe", "write TLS12 or TLS13")
        return value

    @field_validator("cipher_suites")
    @classmethod
    def _known_suites(cls, suites: tuple[str, ...]) -> tuple[str, ...]:
        for suite in suites:
            if suite not in CIPHERS and suite not in ALWAYS_ON:
                raise _impossible("a cipher suite is not known here", f"known are {', '.join(CIPHERS)}")
        if suites and not set(suites) & CIPHERS.keys():
            raise _impossible("these are all suites of TLS 1.3, which are always on", "set min_version to TLS13")
        return suites

    @field_validator("curve_preferences")
    @classmethod
    def _one_curve(cls, curves: tuple[str, ...]) -> tuple[str, ...]:
        if len(curves) > 1:
            raise _impossible("several curve_preferences are not possible here", "name one curve, or none for all")
        for curve in curves:
            if curve not in CURVES:
                raise _impossible("this curve is not known here", f"known are {', '.join(CURVES)}")
        return curves

    @model_validator(mode="after")
    def _complete(self) -> Self:
        for what in ("cert", "key"):
            given = [name for name in (f"{what}_file", what) if getattr(self, name) is not None]
            if len(given) != 1:
                problem = f"one of {what}_file and {what} is needed" if not given else f"both {what}_file and {what}"
                raise PydanticCustomError("value_error", "{error}", {"error": f"{problem}; write one of them"})
        verifies = self.client_auth_type != "NoClientCert"
        authorities = [name for name in ("client_ca_file", "client_ca") if getattr(self, name) is not None]
        if verifies != (len(authorities) == 1):
            words = "client_auth_type needs client_ca_file" if verifies else "client_ca_file without client_auth_type"
            remedy = "write client_ca_file" if verifies else "set client_auth_type to RequireAndVerifyClientCert"
            raise PydanticCustomError("value_error", "{error}", {"error": f"{words}; {remedy}"})
        if self.client_allowed_sans and self.client_auth_type != "RequireAndVerifyClientCert":
            words = "client_allowed_sans need certificates; set client_auth_type to RequireAndVerifyClientCert"
            raise PydanticCustomError("value_error", "{error}", {"error": words})
        if self.min_version > self.max_version:
            words = "min_version is above max_version; correct one of them"
            raise PydanticCustomError("value_error", "{error}", {"error": words})
        return self


class Headers(Strict):
    """Headers of every answer; only these are known, as in the toolkit."""

    model_config = ConfigDict(validate_by_alias=True)

    csp: str | None = Field(None, alias="Content-Security-Policy")
    """Content-Security-Policy."""
    hsts: str | None = Field(None, alias="Strict-Transport-Security")
    """Strict-Transport-Security."""
    frames: Literal["deny", "sameorigin"] | None = Field(None, alias="X-Frame-Options")
    """X-Frame-Options."""
    sniffing: Literal["nosniff"] | None = Field(None, alias="X-Content-Type-Options")
    """X-Content-Type-Options."""
    xss: str | None = Field(None, alias="X-XSS-Protection")
    """X-XSS-Protection."""

    @field_validator("*")
    @classmethod
    def _one_line(cls, value: str | None) -> str | None:
        if value is not None and not (value.isascii() and value.isprintable()):
            raise ValueError("a header is one line of plain ASCII; correct it")
        return value

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Names and values that were given."""
        fields = type(self).model_fields
        return tuple((str(fields[name].alias), value) for name, value in self if value is not None)


class HttpServer(Strict):
    """HTTP."""

    http2: bool = False
    """HTTP/2 is not spoken here; `true` is refused."""
    headers: Headers = Headers()
    """Headers of every answer."""

    @field_validator("http2")
    @classmethod
    def _no_http2(cls, wanted: bool) -> bool:
        if wanted:
            raise _impossible("HTTP/2 is not spoken here", "remove http2, or set it to false")
        return wanted


class RateLimit(Strict):
    """How many requests are answered; more are refused with 429."""

    interval: Annotated[Duration, Field(ge=0.001, le=86400)] = 0.001
    """One request more is allowed after each such time."""
    burst: int = Field(1, ge=1, le=1_000_000)
    """So many are allowed at once."""


class WebConfig(Strict):
    """The whole file."""

    tls_server_config: TlsServer | None = None
    """TLS; without it, plain HTTP is spoken."""
    http_server_config: HttpServer = HttpServer()
    """HTTP."""
    basic_auth_users: dict[str, str] = Field(default_factory=dict, repr=False)
    """Users, and their passwords hashed with bcrypt."""
    rate_limit: RateLimit | None = None
    """A limit for all requests together."""

    @field_validator("basic_auth_users")
    @classmethod
    def _hashes(cls, users: dict[str, str]) -> dict[str, str]:
        for name, hashed in users.items():
            found = _HASH.fullmatch(hashed)
            if found is None:
                words, remedy = "this is no bcrypt hash", "make one with `htpasswd -nBC 10 USER`"
                raise PydanticCustomError("value_error", "{error}", {"error": f"{words}; {remedy}", "at": (name,)})
            if not 4 <= int(found[1]) <= _DEAREST_HASH:
                words, remedy = "checking this hash would take seconds", "make one of cost 10: `htpasswd -nBC 10 USER`"
                raise PydanticCustomError("value_error", "{error}", {"error": f"{words}; {remedy}", "at": (name,)})
            if ":" in name or not name.isprintable():
                words = "the name of a user holds no colon and no control characters; correct it"
                raise PydanticCustomError("value_error", "{error}", {"error": words, "at": (name,)})
        return users

    @property
    def asks_who(self) -> bool:
        """Whether a client has to prove who it is."""
        tls = self.tls_server_config
        return bool(self.basic_auth_users) or (tls is not None and tls.client_auth_type == "RequireAndVerifyClientCert")

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that this one refers to."""
        tls = self.tls_server_config
        named = (tls.cert_file, tls.key_file, tls.client_ca_file) if tls else ()
        return tuple(path for path in named if path is not None)


def load(path: Path) -> WebConfig:
    """The web configuration in a file; its paths are relative to its folder. Raises ConfigErrors with all problems."""
    found = document.read(path)
    try:
        config = WebConfig.model_validate(found.data)
    except ValidationError as error:
        context = Context(WebConfig, found, {})
        raise ConfigErrors([problem for _, problem in reword(error, context)]) from None
    tls = config.tls_server_config
    if tls is None:
        return config
    folder = path.absolute().parent
    files = ("cert_file", "key_file", "client_ca_file")
    absolute = {name: folder / given for name in files if (given := getattr(tls, name)) is not None}
    return config.model_copy(update={"tls_server_config": tls.model_copy(update=absolute)})
