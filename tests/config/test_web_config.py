"""The web configuration file: what is accepted, and what is refused, by name, with line and remedy."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exporter.config.web_config import load
from exporter.domain.errors import ConfigErrors

HASH = "$2y$10$0slfrjQlw97//IqKyuCx/umpMjkvhxk95Q3lRsuM4U8vShlskzXTS"

GOOD = {
    "empty": "{}\n",
    "tls from files": "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n",
    "inline": "tls_server_config:\n  cert: |\n    PEM\n  key: |\n    PEM\n",
    "all of tls": """tls_server_config:
  cert_file: server.pem
  key_file: server.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: ca.pem
  client_allowed_sans: [prometheus.example]
  min_version: TLS12
  max_version: TLS13
  cipher_suites: [TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_AES_128_GCM_SHA256]
  curve_preferences: [CurveP256]
  prefer_server_cipher_suites: true
""",
    "users": f"basic_auth_users:\n  prometheus: {HASH}\n  'a b': '{HASH}'\n",
    "headers": """http_server_config:
  http2: false
  headers:
    Strict-Transport-Security: max-age=31536000
    X-Frame-Options: deny
    X-Content-Type-Options: nosniff
    Content-Security-Policy: default-src 'none'
    X-XSS-Protection: '0'
""",
    "rate limit": "rate_limit:\n  interval: 1s\n  burst: 20\n",
}

CERTIFICATE = "tls_server_config:\n  cert_file: a\n  key_file: b\n"
BAD = {
    "unknown section": ("tls_config: {}\n", "unknown key 'tls_config'; did you mean 'tls_server_config'?"),
    "unknown key": (CERTIFICATE + "  cert_fle: c\n", "unknown key 'cert_fle'; did you mean 'cert_file'?"),
    "no key": ("tls_server_config:\n  cert_file: a\n", "one of key_file and key is needed"),
    "no certificate": ("tls_server_config:\n  key_file: a\n", "one of cert_file and cert is needed"),
    "both": (CERTIFICATE + "  cert: x\n", "both cert_file and cert"),
    "empty tls": ("tls_server_config: {}\n", "one of cert_file and cert is needed"),
    "unverified clients": (
        CERTIFICATE + "  client_auth_type: RequireAnyClientCert\n",
        "RequireAnyClientCert is not possible",
    ),
    "requested clients": (CERTIFICATE + "  client_auth_type: RequestClientCert\n", "RequestClientCert is not possible"),
    "bad client type": (CERTIFICATE + "  client_auth_type: Sometimes\n", "this must be one of: NoClientCert"),
    "clients without authority": (
        CERTIFICATE + "  client_auth_type: RequireAndVerifyClientCert\n",
        "client_auth_type needs client_ca_file",
    ),
    "authority for nothing": (CERTIFICATE + "  client_ca_file: c\n", "client_ca_file without client_auth_type"),
    "names for nothing": (CERTIFICATE + "  client_allowed_sans: [x]\n", "client_allowed_sans need certificates"),
    "old version": (CERTIFICATE + "  min_version: TLS10\n", "TLS10 is not spoken here"),
    "no version": (CERTIFICATE + "  max_version: SSL3\n", "this must be one of: TLS12, TLS13"),
    "versions upside down": (CERTIFICATE + "  min_version: TLS13\n  max_version: TLS12\n", "min_version is above"),
    "unknown suite": (CERTIFICATE + "  cipher_suites: [TLS_RSA_WITH_RC4_128_SHA]\n", "a cipher suite is not known"),
    "only suites of 1.3": (CERTIFICATE + "  cipher_suites: [TLS_AES_128_GCM_SHA256]\n", "which are always on"),
    "two curves": (CERTIFICATE + "  curve_preferences: [CurveP256, X25519]\n", "several curve_preferences"),
    "unknown curve": (CERTIFICATE + "  curve_preferences: [P256]\n", "this curve is not known"),
    "http2": ("http_server_config:\n  http2: true\n", "HTTP/2 is not spoken here"),
    "unknown header": ("http_server_config:\n  headers:\n    X-Powered-By: us\n", "unknown key"),
    "bad header value": ("http_server_config:\n  headers:\n    X-Frame-Options: maybe\n", "this must be one of: deny"),
    "header of two lines": (
        'http_server_config:\n  headers:\n    X-XSS-Protection: "0\\r\\nSet-Cookie: a"\n',
        "a header is one line",
    ),
    "plain password": ("basic_auth_users:\n  prometheus: hunter2hunter2\n", "this is no bcrypt hash"),
    "apache hash": (
        "basic_auth_users:\n  prometheus: $apr1$abcdefgh$0123456789012345678901\n",
        "this is no bcrypt hash",
    ),
    "dear hash": (f"basic_auth_users:\n  prometheus: {HASH.replace('$10$', '$31$')}\n", "would take seconds"),
    "users as list": (f"basic_auth_users:\n  - {HASH}\n", "this must be a section of keys"),
    "colon in a name": (f"basic_auth_users:\n  'a:b': {HASH}\n", "holds no colon"),
    "no burst": ("rate_limit:\n  interval: 1s\n  burst: 0\n", "this must be at least 1"),
    "negative interval": ("rate_limit:\n  interval: -1s\n", ""),
    "twice": ("rate_limit: {}\nrate_limit: {}\n", "rate_limit"),
    "a list": ("- a\n", ""),
}


@pytest.mark.parametrize("text", GOOD.values(), ids=GOOD.keys())
def test_good_files_are_accepted(text: str, tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(text)
    load(file)


@pytest.mark.parametrize(("text", "words"), BAD.values(), ids=BAD.keys())
def test_bad_files_are_refused_with_place_and_words(text: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(text)
    with pytest.raises(ConfigErrors) as refused:
        load(file)
    assert words in str(refused.value)
    assert str(file) in str(refused.value)


def test_paths_are_relative_to_the_folder_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text("tls_server_config:\n  cert_file: a/server.pem\n  key_file: /etc/key\n")
    assert load(tmp_path / "web.yaml").files == (tmp_path / "a/server.pem", Path("/etc/key"))


def test_a_secret_in_the_wrong_place_is_not_repeated(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text("basic_auth_users:\n  prometheus: S3CR3T-marker\ntls_server_config:\n  key: [S3CR3T-marker]\n")
    with pytest.raises(ConfigErrors) as refused:
        load(file)
    assert "S3CR3T" not in str(refused.value)


def test_a_configuration_shows_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(GOOD["inline"].replace("PEM", "S3CR3T") + GOOD["users"])
    config = load(file)
    assert config.tls_server_config is not None
    assert HASH not in repr(config)
    assert "S3CR3T" not in repr(config.tls_server_config).replace("cert='S3CR3T\\n'", "")


@settings(deadline=None)
@given(st.text(max_size=200))
def test_any_text_is_accepted_or_refused_in_words(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.getbasetemp() / "any-web.yaml"
    file.write_text(text, encoding="utf-8", errors="surrogatepass")
    with suppress(ConfigErrors):
        load(file)
