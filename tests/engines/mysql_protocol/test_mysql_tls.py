"""TLS on real servers: each mode with right and wrong certificates, and what a peer gets to see."""

import socket
import struct
import threading

import pytest

from exporter.domain.errors import AuthenticationFailed, ConnectFailed, TlsFailed
from exporter.engines._mysql_protocol.wire import REVEALING
from tests.engines.mysql_protocol.connectors import PATIENCE, connector

SECRET = "a secret of forty characters, more or less"


def cipher(opened):
    return opened.row("SHOW SESSION STATUS LIKE 'Ssl_cipher'", timeout=PATIENCE)[1]


def connected(server, tls, user="root", password=None, **address):
    """Whether TLS is in use, by the server's own word."""
    opened = connector(server, user, password, tls=tls, **address).connect(PATIENCE)
    try:
        return opened.secure, bool(cipher(opened))
    finally:
        opened.close()


def refusal(server, tls, user="root", password=None, **address):
    with pytest.raises(TlsFailed) as caught:
        connected(server, tls, user, password, **address)
    return str(caught.value)


def test_without_certificates_to_check_it_is_encrypted_where_asked_for(certified):
    assert connected(certified, {"mode": "disabled"}) == (False, False)
    assert connected(certified, {"mode": "preferred"}) == (True, True)
    assert connected(certified, {"mode": "required"}) == (True, True)


def test_the_right_authority_is_accepted(certified, certificates):
    assert connected(certified, {"mode": "verify_ca", "ca": certificates.ca}) == (True, True)
    assert connected(certified, {"mode": "verify_identity", "ca": certificates.ca}) == (True, True)
    assert connected(certified, {"mode": "verify_identity", "ca": certificates.ca}, host="localhost") == (True, True)


@pytest.mark.parametrize("mode", ["verify_ca", "verify_identity"])
def test_a_wrong_authority_is_refused(certified, certificates, mode):
    for tls in ({"mode": mode, "ca": certificates.wrong_ca}, {"mode": mode}):
        words = refusal(certified, tls)
        assert "the server's certificate is refused" in words
        assert "unable to get local issuer certificate" in words or "self-signed" in words


def test_a_certificate_of_another_host_is_refused_only_by_verify_identity(make_mariadb, certificates):
    server = make_mariadb(tls=certificates, options=_certificate(certificates.other_name))

    assert connected(server, {"mode": "verify_ca", "ca": certificates.ca}) == (True, True)
    words = refusal(server, {"mode": "verify_identity", "ca": certificates.ca})
    assert "not valid for '127.0.0.1'" in words


def _certificate(pair):
    return {"ssl-cert": str(pair.cert), "ssl-key": str(pair.key)}


def test_a_client_certificate_is_shown_where_the_account_wants_one(certified, certificates):
    password = certified.create_user("certified", require="X509")
    own = {"certificate": certificates.client.cert, "key": certificates.client.key}

    for tls in ({"mode": "verify_identity", "ca": certificates.ca}, {"mode": "preferred"}, {"mode": "required"}):
        assert connected(certified, tls | own, "certified", password) == (True, True)
        with pytest.raises(AuthenticationFailed):
            connected(certified, tls, "certified", password)


def test_a_client_certificate_of_a_wrong_authority_is_refused(certified, certificates):
    password = certified.create_user("certified", require="X509")
    own = {"certificate": certificates.wrong_client.cert, "key": certificates.wrong_client.key}
    with pytest.raises((TlsFailed, AuthenticationFailed, ConnectFailed)) as caught:
        connected(certified, {"mode": "required"} | own, "certified", password)
    assert password not in str(caught.value)


def test_a_server_without_tls_is_refused_where_it_is_demanded(mariadb_old, certificates):
    for tls in ({"mode": "required"}, {"mode": "verify_ca", "ca": certificates.ca}):
        assert "the server offers no TLS" in refusal(mariadb_old, tls)
    assert connected(mariadb_old, {"mode": "preferred"}) == (False, False)


def test_a_server_that_admits_encrypted_connections_only_is_told_so(make_mariadb, certificates):
    server = make_mariadb(tls=certificates, options={"require-secure-transport": "ON"})

    assert "encrypted connections only" in refusal(server, {"mode": "disabled"})
    assert connected(server, {"mode": "preferred"}) == (True, True)
    assert connected(server, {"mode": "disabled"}, socket=server.socket) == (True, False)


def test_a_socket_is_not_encrypted_unless_demanded(certified, certificates):
    where = {"socket": certified.socket}
    assert connected(certified, {"mode": "preferred"}, **where) == (True, False)
    assert connected(certified, {"mode": "required"}, **where) == (True, True)
    assert connected(certified, {"mode": "verify_ca", "ca": certificates.ca}, **where) == (True, True)
    assert "is refused" in refusal(certified, {"mode": "verify_ca", "ca": certificates.wrong_ca}, **where)


def test_certificates_that_cannot_be_used_are_named(certified, certificates, tmp_path):
    (tmp_path / "empty").write_text("nothing")
    for ca in (tmp_path / "missing", tmp_path / "empty", tmp_path):
        assert f"the certificates in {ca} cannot be used" in refusal(certified, {"mode": "verify_ca", "ca": ca})
    own = {"mode": "required", "certificate": certificates.client.cert, "key": certificates.server.key}
    assert "cannot be used: key values mismatch" in refusal(certified, own)


def test_a_key_with_a_passphrase_asks_nobody(certified, certificates, tmp_path):
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(certificates.client.key.read_bytes(), None)
    locked = serialization.BestAvailableEncryption(b"pass")
    file = tmp_path / "locked.key"
    file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, locked)
    )

    words = refusal(certified, {"mode": "required", "certificate": certificates.client.cert, "key": file})
    assert f"with its key {file} cannot be used" in words


def test_renewed_certificates_are_used_by_the_next_connect(certified, certificates, tmp_path):
    file = tmp_path / "ca.pem"
    file.write_bytes(certificates.wrong_ca.read_bytes())
    ours = connector(certified, tls={"mode": "verify_ca", "ca": file})
    with pytest.raises(TlsFailed):
        ours.connect(PATIENCE)

    file.write_bytes(certificates.ca.read_bytes())
    ours.connect(PATIENCE).close()


def test_a_failed_handshake_does_not_count_against_the_secret(certified, certificates):
    ours = connector(certified, tls={"mode": "verify_ca", "ca": certificates.wrong_ca})
    for _ in range(2):
        with pytest.raises(TlsFailed, match="refused"):
            ours.connect(PATIENCE)


class Impostor:
    """A peer that greets as a server does, and asks for the password in a way of its own choice."""

    def __init__(self, method):
        self.method = method
        self.host, self.heard = "127.0.0.1", b""
        self._listener = socket.create_server((self.host, 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        peer, _ = self._listener.accept()
        peer.settimeout(PATIENCE)
        capabilities = 0x00080000 | 0x8000 | 0x0200 | 0x01  # plugins, SECURE_CONNECTION, protocol 4.1
        greeting = b"\x0a8.0.36\0" + struct.pack("<I", 7) + b"12345678\0" + struct.pack("<H", capabilities & 0xFFFF)
        greeting += b"\x21\x02\x00" + struct.pack("<H", capabilities >> 16) + b"\x15" + bytes(10) + b"123456789012\0"
        self._send(peer, 0, greeting + b"mysql_native_password\0")
        self._hear(peer)
        self._send(peer, 2, b"\xfe" + self.method.encode() + b"\0" + b"12345678901234567890\0")
        self._hear(peer)
        peer.close()

    def _send(self, peer, number, payload):
        peer.sendall(struct.pack("<I", len(payload))[:3] + bytes([number]) + payload)

    def _hear(self, peer):
        self.heard += peer.recv(65536)

    def close(self):
        self._thread.join(PATIENCE)
        self._listener.close()


@pytest.mark.parametrize("method", REVEALING)
def test_a_peer_that_asks_for_the_password_in_clear_text_does_not_get_it(method):
    impostor = Impostor(method)
    with pytest.raises(TlsFailed, match="in clear text"):
        connector(impostor, "u", SECRET).connect(PATIENCE)
    impostor.close()

    assert b"u\0" in impostor.heard
    assert SECRET.encode() not in impostor.heard


def test_who_pretends_to_have_no_tls_gets_no_login_where_tls_is_demanded():
    impostor = Impostor("mysql_native_password")
    with pytest.raises(TlsFailed, match="offers no TLS"):
        connector(impostor, "u", SECRET, tls={"mode": "required"}).connect(PATIENCE)
    impostor.close()

    assert impostor.heard == b""
