"""TLS, passwords, headers and limits on a real server, asked by real clients."""

from __future__ import annotations

import base64
import http.client
import logging
import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import bcrypt
import pytest

from exporter.domain.errors import ConfigErrors
from exporter.web.security.live import Security
from tests.servers.certificates import Certificates, Pair, make_certificates

PASSWORD = "p@ss:wörd"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def secured(serve, tmp_path: Path) -> Callable[..., tuple]:
    """Starts a server with a web configuration; gives it, its security, and the file."""

    def start(text: str, **settings: float) -> tuple:
        file = tmp_path / "web.yaml"
        file.write_text(text)
        security = Security(file)
        return serve(security=security, **settings), security, file

    return start


def tls_section(pair: Pair, more: str = "") -> str:
    return f"tls_server_config:\n  cert_file: {pair.cert}\n  key_file: {pair.key}\n{more}"


def hashed(password: str) -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()


def basic(user: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def client_context(ca: Path, pair: Pair | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(ca))
    if pair is not None:
        context.load_cert_chain(pair.cert, pair.key)
    return context


def ask_tls(served, context: ssl.SSLContext, path: str = "/metrics", headers: dict[str, str] | None = None) -> int:
    connection = http.client.HTTPSConnection("localhost", served.address[1], timeout=50, context=context)
    try:
        connection.request("GET", path, headers=headers or {})
        return connection.getresponse().status
    finally:
        connection.close()


# -- TLS -----------------------------------------------------------------------------------------------------


def test_tls_is_spoken_and_nothing_else(secured, certificates: Certificates) -> None:
    served, _, _ = secured(tls_section(certificates.server))
    assert served.server.url.startswith("https://")
    assert ask_tls(served, client_context(certificates.ca)) == 200
    with pytest.raises((http.client.HTTPException, OSError)):
        served.ask("GET", "/metrics")
    with pytest.raises(ssl.SSLCertVerificationError):
        ask_tls(served, client_context(certificates.wrong_ca))


def test_a_client_in_another_language_is_served_too(secured, certificates: Certificates) -> None:
    served, _, _ = secured(tls_section(certificates.server))
    openssl = shutil.which("openssl")
    assert openssl, "openssl is needed for this test"
    ran = subprocess.run(
        [
            openssl,
            "s_client",
            "-connect",
            f"127.0.0.1:{served.address[1]}",
            "-CAfile",
            certificates.ca,
            "-quiet",
            "-verify_return_error",
        ],
        input=b"GET /-/healthy HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert b"200 OK" in ran.stdout


def test_a_renewed_certificate_is_served_at_once_and_open_connections_stay(
    secured, certificates: Certificates, tmp_path: Path, eventually
) -> None:
    mine = Pair(tmp_path / "now.pem", tmp_path / "now.key")
    shutil.copy(certificates.other_name.cert, mine.cert)
    shutil.copy(certificates.other_name.key, mine.key)
    served, _, _ = secured(tls_section(mine))
    trusting = client_context(certificates.ca)
    with pytest.raises(ssl.SSLCertVerificationError):
        ask_tls(served, trusting)
    lenient = client_context(certificates.ca)
    lenient.check_hostname = False
    before = http.client.HTTPSConnection("localhost", served.address[1], timeout=50, context=lenient)
    before.request("GET", "/-/healthy")
    assert before.getresponse().read()
    # As a program that renews certificates does it: first one file, then the other.
    shutil.copy(certificates.server.cert, mine.cert)
    shutil.copy(certificates.server.key, mine.key)

    def renewed() -> bool:
        try:
            return ask_tls(served, trusting) == 200
        except ssl.SSLError:
            return False

    eventually(renewed, within=15)
    before.request("GET", "/-/healthy")
    assert before.getresponse().status == 200
    before.close()


def test_half_a_renewal_changes_nothing_and_is_told_once(
    secured, certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mine = Pair(tmp_path / "now.pem", tmp_path / "now.key")
    shutil.copy(certificates.server.cert, mine.cert)
    shutil.copy(certificates.server.key, mine.key)
    file = tmp_path / "web.yaml"
    file.write_text(tls_section(mine))
    security = Security(file)
    before = security.rules
    shutil.copy(certificates.other_name.key, mine.key)
    with caplog.at_level(logging.ERROR):
        assert [security.look() for _ in range(3)] == [False] * 3
    assert security.rules is before
    assert len(caplog.records) == 1
    assert "does not belong to the certificate" in caplog.text
    security.stop()


def test_clients_need_a_certificate_of_the_right_authority(secured, certificates: Certificates) -> None:
    more = f"  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: {certificates.ca}\n"
    served, security, _ = secured(tls_section(certificates.server, more))
    assert security.rules.asks_who
    assert ask_tls(served, client_context(certificates.ca, certificates.client)) == 200
    for wrong in (None, certificates.wrong_client):
        with pytest.raises((OSError, http.client.HTTPException)):
            ask_tls(served, client_context(certificates.ca, wrong))


def test_clients_need_one_of_the_allowed_names(secured, certificates: Certificates) -> None:
    more = f"  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: {certificates.ca}\n"
    served, _, _ = secured(tls_section(certificates.server, f"{more}  client_allowed_sans: [prometheus.example]\n"))
    assert ask_tls(served, client_context(certificates.ca, certificates.named_client)) == 200
    with pytest.raises((OSError, http.client.HTTPException)):
        ask_tls(served, client_context(certificates.ca, certificates.client))


def test_versions_and_suites_are_kept_to(secured, certificates: Certificates) -> None:
    more = "  min_version: TLS12\n  max_version: TLS12\n  cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384]\n"
    served, _, _ = secured(tls_section(certificates.server, more + "  curve_preferences: [CurveP256]\n"))
    with (
        socket.create_connection(served.address) as sock,
        client_context(certificates.ca).wrap_socket(sock, server_hostname="localhost") as secure,
    ):
        assert secure.version() == "TLSv1.2"
        assert (secure.cipher() or ("none",))[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"
    modern = client_context(certificates.ca)
    modern.minimum_version = ssl.TLSVersion.TLSv1_3
    with pytest.raises(ssl.SSLError):
        ask_tls(served, modern)


def test_silent_clients_do_not_stay_and_keep_nobody_waiting(secured, certificates: Certificates, eventually) -> None:
    served, _, _ = secured(tls_section(certificates.server), header_timeout=0.5, max_connections=50)
    silent = [served.dial() for _ in range(20)]
    try:
        assert ask_tls(served, client_context(certificates.ca)) == 200
        eventually(lambda: served.server.open_connections == 0)
    finally:
        for sock in silent:
            sock.close()


def test_there_are_never_more_connections_than_allowed(secured, certificates: Certificates, eventually) -> None:
    served, _, _ = secured(tls_section(certificates.server), header_timeout=5, max_connections=4)
    silent = [served.dial() for _ in range(8)]
    try:
        eventually(lambda: served.server.refused_connections == 4)
        assert served.server.open_connections == 4
    finally:
        for sock in silent:
            sock.close()
    eventually(lambda: served.server.open_connections == 0)
    assert ask_tls(served, client_context(certificates.ca)) == 200


def test_the_server_stops_while_hands_are_shaken(serve, tmp_path: Path, certificates: Certificates) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(tls_section(certificates.server))
    served = serve(security=Security(file), header_timeout=60)
    with served.dial():
        assert served.server.stop(timeout=25.0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda pair, _: tls_section(Pair(Path("/nowhere.pem"), pair.key)), "/nowhere.pem: no such file or directory"),
        (lambda pair, _: tls_section(Pair(pair.key, pair.key)), "certificate or key cannot be used"),
        (lambda pair, other: tls_section(Pair(pair.cert, other.key)), "does not belong to the certificate"),
        (lambda pair, _: tls_section(Pair(pair.cert, Path("/proc/self/mem"))), "cannot be used"),
    ],
)
def test_unusable_certificates_are_refused_at_the_start(
    make, words, tmp_path: Path, certificates: Certificates
) -> None:
    file = tmp_path / "web.yaml"
    file.write_text(make(certificates.server, certificates.other_name))
    with pytest.raises(ConfigErrors, match=words):
        Security(file)


def test_a_key_with_a_passphrase_is_refused_and_nobody_is_asked(tmp_path: Path, certificates: Certificates) -> None:
    locked = tmp_path / "locked.key"
    openssl = shutil.which("openssl")
    assert openssl, "openssl is needed for this test"
    command = [openssl, "pkey", "-in", certificates.server.key, "-aes256", "-passout", "pass:secret", "-out", locked]
    subprocess.run(list(map(str, command)), check=True, capture_output=True)
    file = tmp_path / "web.yaml"
    file.write_text(tls_section(Pair(certificates.server.cert, locked)))
    with pytest.raises(ConfigErrors, match="protected by a passphrase"):
        Security(file)


def test_certificate_and_key_may_stand_in_the_file(secured, certificates: Certificates) -> None:
    def indented(path: Path) -> str:
        return path.read_text().replace("\n", "\n    ")

    text = f"tls_server_config:\n  cert: |\n    {indented(certificates.server.cert)}\n  key: |\n    {indented(certificates.server.key)}\n"
    served, _, _ = secured(text)
    assert ask_tls(served, client_context(certificates.ca)) == 200
    assert not [entry for entry in Path("/proc/self/fd").iterdir() if _is_memory(entry)]


def _is_memory(descriptor: Path) -> bool:
    try:
        return "memfd:pem" in str(descriptor.readlink())
    except OSError:
        return False


# -- passwords -----------------------------------------------------------------------------------------------


def test_only_users_with_their_password_are_served(secured) -> None:
    served, _, _ = secured(f"basic_auth_users:\n  prometheus: {hashed(PASSWORD)}\n")
    for path in ("/metrics", "/", "/nothing"):
        status, headers, body = served.ask("GET", path)
        assert (status, headers["www-authenticate"]) == (401, 'Basic realm="tde-exporter", charset="UTF-8"')
        assert b"tde_" not in body
    for wrong in (
        basic("prometheus", "wrong"),
        basic("nobody", PASSWORD),
        basic("prometheus", ""),
        {"Authorization": "Basic !!!"},
        {"Authorization": "Basic " + base64.b64encode(b"nocolon").decode()},
        {"Authorization": "Bearer abc"},
        {"Authorization": ""},
    ):
        assert served.ask("GET", "/metrics", wrong)[0] == 401
    for _ in range(3):
        assert served.ask("GET", "/metrics", basic("prometheus", PASSWORD))[0] == 200


def test_health_is_open_to_all(secured) -> None:
    served, _, _ = secured(f"basic_auth_users:\n  prometheus: {hashed(PASSWORD)}\n")
    assert [served.ask("GET", path)[0] for path in ("/-/healthy", "/-/ready")] == [200, 200]


def test_users_change_without_a_restart(secured, eventually) -> None:
    served, _, file = secured(f"basic_auth_users:\n  prometheus: {hashed('old')}\n")
    assert served.ask("GET", "/metrics", basic("prometheus", "old"))[0] == 200
    file.write_text(f"basic_auth_users:\n  prometheus: {hashed('new')}\n")
    eventually(lambda: served.ask("GET", "/metrics", basic("prometheus", "new"))[0] == 200, within=15)
    assert served.ask("GET", "/metrics", basic("prometheus", "old"))[0] == 401


def test_a_file_that_becomes_bad_or_vanishes_opens_nothing(secured, caplog: pytest.LogCaptureFixture) -> None:
    served, security, file = secured(f"basic_auth_users:\n  prometheus: {hashed('old')}\n")
    for change in (lambda: file.write_text("basic_auth_users: 7\n"), lambda: file.unlink()):
        change()
        security.look()
        assert served.ask("GET", "/metrics")[0] == 401
        assert served.ask("GET", "/metrics", basic("prometheus", "old"))[0] == 200
    assert "stays as it was" in caplog.text


def test_a_file_that_is_just_being_written_opens_nothing(secured) -> None:
    """The part that is there already may be a whole configuration, without the passwords."""
    headers, users = (
        "http_server_config:\n  headers:\n    X-Frame-Options: deny\n",
        f"basic_auth_users:\n  a: {hashed('b')}\n",
    )
    served, security, file = secured(users)
    for part in (headers, headers + "rate_limit:\n  interval: 1s\n  burst: 1000\n", headers):
        file.write_text(part)
        assert not security.refresh()
        assert served.ask("GET", "/metrics")[0] == 401
    file.write_text(headers + users)
    assert security.refresh()
    assert served.ask("GET", "/metrics")[0] == 401
    assert served.ask("GET", "/metrics", basic("a", "b"))[0] == 200


def test_a_file_that_stays_without_passwords_is_taken_at_the_second_look(secured, eventually) -> None:
    served, _, file = secured(f"basic_auth_users:\n  a: {hashed('b')}\n")
    file.write_text("http_server_config: {}\n")
    eventually(lambda: served.ask("GET", "/metrics")[0] == 200, within=15)


@pytest.mark.parametrize("what", ["cert_file", "key_file", "client_ca_file", "web.yaml"])
def test_pipes_in_the_place_of_files_are_refused_and_nobody_waits(
    tmp_path: Path, certificates: Certificates, what: str
) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    files = {
        "cert_file": certificates.server.cert,
        "key_file": certificates.server.key,
        "client_ca_file": certificates.ca,
    }
    files |= {what: pipe} if what in files else {}
    lines = [f"  {name}: {path}" for name, path in files.items()]
    file = tmp_path / "web.yaml"
    file.write_text("\n".join(["tls_server_config:", "  client_auth_type: RequireAndVerifyClientCert", *lines]))
    with pytest.raises(ConfigErrors, match="pipe"):
        Security(pipe if what == "web.yaml" else file)


def test_long_passwords_are_cut_where_bcrypt_cuts_them(secured) -> None:
    served, _, _ = secured(f"basic_auth_users:\n  prometheus: {hashed('x' * 72)}\n")
    assert served.ask("GET", "/metrics", basic("prometheus", "x" * 100))[0] == 200
    assert served.ask("GET", "/metrics", basic("prometheus", "x" * 71))[0] == 401


# -- headers and limits --------------------------------------------------------------------------------------


def test_configured_headers_are_on_every_answer(secured) -> None:
    text = (
        "http_server_config:\n  headers:\n    X-Frame-Options: sameorigin\n    Strict-Transport-Security: max-age=1\n"
    )
    served, _, _ = secured(text)
    for path in ("/", "/metrics", "/-/healthy", "/nothing"):
        _, headers, _ = served.ask("GET", path)
        assert (headers["x-frame-options"], headers["strict-transport-security"]) == ("sameorigin", "max-age=1")


def test_requests_beyond_the_limit_are_refused_but_health_is_told(secured) -> None:
    served, _, _ = secured("rate_limit:\n  interval: 1h\n  burst: 3\n")
    assert [served.ask("GET", "/metrics")[0] for _ in range(5)] == [200, 200, 200, 429, 429]
    assert served.ask("GET", "/-/healthy")[0] == 200
