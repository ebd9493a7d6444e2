"""T2: a client that says nothing costs nobody anything; what is not served is refused, and HEAD works like GET.

client_python#139 #340 #761 #930
"""

import base64
import contextlib
import socket
import ssl
from pathlib import Path

import bcrypt
import httpx

from exporter.config.schema import WebSettings
from tests.daemons import Daemon
from tests.servers.certificates import make_certificates

SILENT = 200
HEADER_TIMEOUT = 2.0


def threads(exporter: Daemon) -> int:
    assert exporter.process is not None
    return len(list(Path(f"/proc/{exporter.process.pid}/task").iterdir()))


def silent(exporter: Daemon, number: int) -> list[socket.socket]:
    return [socket.create_connection(("127.0.0.1", exporter.port), timeout=10) for _ in range(number)]


def waiting(sock: socket.socket) -> bool:
    """Whether the server has not closed its end yet."""
    sock.setblocking(False)
    try:
        sock.recv(1)
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False
    return False


def gone(sock: socket.socket) -> bool:
    """Whether the server has closed its end; waits long enough to know."""
    sock.settimeout(5 * HEADER_TIMEOUT)
    with contextlib.suppress(ConnectionResetError):
        return sock.recv(1) == b""
    return True


def test_two_hundred_silent_clients_keep_nobody_waiting_and_do_not_stay(daemon):
    exporter = daemon({"targets": [{"name": "here", "engine": "sqlite"}], "web": {"header_timeout": HEADER_TIMEOUT}})
    exporter.start().ready()
    assert WebSettings().max_connections > SILENT + 10
    before = threads(exporter)
    clients = silent(exporter, SILENT)
    try:
        assert exporter.get("/metrics").status_code == 200
        # Whoever had to wait for them would be served when all of them had been thrown out.
        assert waiting(clients[-1])
        assert threads(exporter) <= before + 2
        assert all(map(gone, clients))
    finally:
        for client in clients:
            client.close()
    assert threads(exporter) <= before + 2


def test_a_silent_client_on_the_tls_port_keeps_nobody_waiting(daemon, tmp_path):
    made = make_certificates(tmp_path)
    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
    (tmp_path / "web.yaml").write_text(
        f"tls_server_config:\n  cert_file: {made.server.cert}\n  key_file: {made.server.key}\n"
        f"basic_auth_users:\n  prometheus: {hashed}\n"
    )
    web = {"header_timeout": HEADER_TIMEOUT, "config_file": str(tmp_path / "web.yaml")}
    exporter = daemon({"targets": [{"name": "here", "engine": "sqlite"}], "web": web}).start()
    trusting = ssl.create_default_context(cafile=str(made.ca))
    url = f"https://localhost:{exporter.port}"
    with httpx.Client(verify=trusting, base_url=url, timeout=10) as client:

        def served() -> bool:
            with contextlib.suppress(httpx.TransportError):
                return client.get("/-/healthy").status_code == 200
            return False

        exporter.until(served, "TLS to be spoken")
        headers = {"Authorization": "Basic " + base64.b64encode(b"prometheus:secret").decode()}
        exporter.until(lambda: client.get("/metrics", headers=headers).status_code == 200, "a page")
        (mute,) = silent(exporter, 1)
        with httpx.Client(verify=trusting, base_url=url, timeout=10) as another:
            assert another.get("/metrics", headers=headers).status_code == 200
        assert waiting(mute)
        assert client.get("/metrics").status_code == 401
        assert client.get("/").status_code == 401
        assert gone(mute)
        mute.close()


def test_what_is_not_served_is_refused_and_head_works_like_get(daemon):
    exporter = daemon({"targets": [{"name": "here", "engine": "sqlite"}]}).start().serving()
    assert httpx.post(f"{exporter.url}/metrics").status_code == 405
    assert httpx.get(f"{exporter.url}/metrics/").status_code == 404
    assert httpx.get(f"{exporter.url}/probe/../../etc/passwd").status_code == 404
    for path in ("/", "/metrics", "/-/healthy", "/-/ready"):
        got, head = httpx.get(f"{exporter.url}{path}"), httpx.head(f"{exporter.url}{path}")
        assert (head.status_code, head.headers["content-type"]) == (got.status_code, got.headers["content-type"])
        assert head.content == b""
