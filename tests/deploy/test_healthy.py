"""The image's health check, asking the exporter's own web server: healthy, not healthy, behind TLS, not there."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exporter.config.schema import WebSettings
from exporter.web.pages.landing import Landing
from exporter.web.routes import AppState
from exporter.web.security.live import Security
from exporter.web.server import WebServer, bind
from tests.daemons import free_port
from tests.deploy.kit import ROOT
from tests.servers.certificates import Certificates, make_certificates

SCRIPT = ROOT / "deploy" / "image" / "healthy.py"


def ask(port: int, **environ: str) -> tuple[int, str]:
    """Exit code and words; started as in the image, without this environment's packages."""
    ran = subprocess.run(
        [sys.executable, "-IS", str(SCRIPT)],
        env={"PATH": os.environ["PATH"], "TDE_EXPORTER_WEB__PORT": str(port), **environ},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.stderr == ""
    return ran.returncode, ran.stdout.strip()


class _NoPages:
    """Health is told without a page."""

    def page(self, *_: object) -> None:
        raise AssertionError("nobody asked for a page")


Start = Callable[..., int]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a web server that is in such health; gives its port. `web` is the text of a web configuration."""
    running: list[WebServer] = []

    def begin(health: tuple[bool, str] = (True, "lives"), web: str = "", address: str = "127.0.0.1") -> int:
        security = None
        if web:
            (tmp_path / "web.yaml").write_text(web)
            security = Security(tmp_path / "web.yaml")
        state = AppState(
            pages=_NoPages(),  # type: ignore[arg-type]
            healthy=lambda: health,
            ready=lambda: (False, "never"),
            landing=lambda: Landing("0.0.0", 0.0, 60.0),
            targets=dict,
        )
        sock = bind(address, 0)
        running.append(WebServer(state, WebSettings(), sock, security))
        running[-1].start()
        return int(sock.getsockname()[1])

    yield begin
    for server in running:
        server.stop(timeout=5.0)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def section(certificates: Certificates, more: str = "") -> str:
    pair = certificates.server
    return f"tls_server_config:\n  cert_file: {pair.cert}\n  key_file: {pair.key}\n{more}"


def test_health_is_told_in_the_exporters_words(start: Start) -> None:
    assert ask(start()) == (0, "lives")
    code, words = ask(start((False, "the loop stands still")))
    assert code == 1
    assert "the loop stands still" in words


def test_the_address_that_is_configured_is_asked(start: Start) -> None:
    port = start(address="127.0.0.2")
    assert ask(port, TDE_EXPORTER_WEB__LISTEN_ADDRESS="127.0.0.2") == (0, "lives")
    assert ask(port, TDE_EXPORTER_WEB__LISTEN_ADDRESS="0.0.0.0")[0] == 1


def test_tls_and_passwords_are_no_obstacle(start: Start, certificates: Certificates) -> None:
    users = "basic_auth_users:\n  somebody: $2y$10$0slfrjQlw97//IqKyuCx/umpMjkvhxk95Q3lRsuM4U8vShlskzXTS\n"
    assert ask(start(web=section(certificates) + users)) == (0, "lives")


def test_who_asks_for_a_certificate_lives(start: Start, certificates: Certificates) -> None:
    more = f"  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: {certificates.ca}\n"
    assert ask(start(web=section(certificates, more))) == (0, "lives; asks for a client's certificate")


def test_nobody_there_is_not_healthy() -> None:
    code, words = ask(free_port())
    assert code == 1
    assert words.startswith("not healthy: ")


def test_what_speaks_neither_is_not_healthy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def close_at_once() -> None:
            for _ in range(2):
                other.accept()[0].close()

        threading.Thread(target=close_at_once, daemon=True).start()
        code, words = ask(other.getsockname()[1])
    assert code == 1
    assert words.startswith("not healthy: ")


def test_who_does_not_answer_is_given_up_before_docker_does() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begun = time.monotonic()
        code, words = ask(silent.getsockname()[1])
        assert code == 1
        assert "timed out" in words
        assert time.monotonic() - begun < 25.0
