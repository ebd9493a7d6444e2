"""Who may have the configuration reloaded, and what he is told."""

from concurrent.futures import Future

import bcrypt
import pytest

from exporter.config.schema import WebSettings
from exporter.web.routes import AppState
from exporter.web.security.live import Security
from exporter.web.server import WebServer, bind

RELOAD = "/-/reload"


def answered(done, words):
    future: Future[tuple[bool, str]] = Future()
    future.set_result((done, words))
    return future


@pytest.fixture
def reloading(serve):
    """A server, and what reloads answer; `asked` counts them."""
    made = serve()
    made.server.stop()

    class Reloading:
        asked = 0
        outcome = (True, "the configuration was taken up")

        def __init__(self):
            self.servers: list[WebServer] = []

        def ask(self):
            self.asked += 1
            return answered(*self.outcome)

        def serve(self, address="127.0.0.1", security=None):
            state = AppState(
                made, lambda: made.health, lambda: made.readiness, made.landing, lambda: made.targets, reload=self.ask
            )
            made.server = WebServer(state, WebSettings(), bind(address, 0), security)
            made.server.start()
            self.servers.append(made.server)
            return made

    found = Reloading()
    yield found
    assert all(server.stop(timeout=25.0) for server in found.servers)


def test_a_reload_is_answered_with_what_became_of_it(reloading):
    served = reloading.serve()
    assert served.ask("POST", RELOAD)[::2] == (200, b"the configuration was taken up\n")

    reloading.outcome = (False, "line 3: no\nline 4: neither")
    status, headers, body = served.ask("POST", RELOAD, body=b"a=1")
    assert (status, body) == (500, b"line 3: no\nline 4: neither\n")
    assert headers["content-type"].startswith("text/plain")
    assert reloading.asked == 2


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS"])
def test_only_post_reloads(reloading, method):
    status, headers, body = reloading.serve().ask(method, RELOAD)
    assert status == 405
    assert headers["allow"] == "POST"
    assert body in (b"only POST is served here\n", b"")
    assert reloading.asked == 0


def test_where_everybody_reaches_it_and_nobody_is_asked_who_he_is_it_is_refused(reloading):
    status, _, body = reloading.serve("0.0.0.0").ask("POST", RELOAD)
    assert status == 403
    for way_out in (b"web.config_file", b"loopback", b"SIGHUP"):
        assert way_out in body
    assert reloading.asked == 0


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"])
def test_who_comes_through_a_proxy_on_this_machine_is_not_on_it(reloading, header):
    served = reloading.serve()
    status, _, body = served.ask("POST", RELOAD, {header: "198.51.100.7"})
    assert status == 403
    assert b"nobody is asked who he is" in body
    assert reloading.asked == 0


def test_with_a_password_it_is_served_on_every_address(reloading, tmp_path):
    hashed = bcrypt.hashpw(b"open sesame", bcrypt.gensalt(4)).decode()
    (tmp_path / "web.yaml").write_text(f"basic_auth_users:\n  prometheus: {hashed}\n")
    served = reloading.serve("0.0.0.0", Security(tmp_path / "web.yaml"))

    assert served.ask("POST", RELOAD)[0] == 401
    assert reloading.asked == 0
    right = {"Authorization": "Basic cHJvbWV0aGV1czpvcGVuIHNlc2FtZQ=="}
    assert served.ask("POST", RELOAD, right)[0] == 200


def test_no_web_page_can_have_a_browser_ask_for_it(reloading):
    served = reloading.serve()
    for origin in ("https://evil.example", "null", served.server.url):
        status, _, body = served.ask("POST", RELOAD, {"Origin": origin})
        assert status == 403
        assert b"SIGHUP" in body
    assert reloading.asked == 0


def test_a_server_that_cannot_reload_says_so(serve):
    assert serve().ask("POST", RELOAD)[0] == 501
