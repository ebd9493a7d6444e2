"""Whatever a network or a server does, a call ends at its deadline, and nothing is left behind."""

import socket
import threading
from pathlib import Path

import pytest

from exporter.domain.errors import ConnectFailed, DeadlineExceeded
from exporter.engines._mysql_protocol import sockets
from exporter.engines._mysql_protocol.settings import ServerSettings
from exporter.engines.deadline import Guard
from tests.engines.mysql_protocol.connectors import PATIENCE, connector
from tests.processes import until
from tests.stopwatch import Stopwatch

TIMEOUT = 0.5
LATEST = TIMEOUT + 0.5
"""Within half a second after the deadline: the watchdog takes at most a tenth of that on a machine that is not busy."""


@pytest.fixture(autouse=True)
def nothing_is_left(certified_mariadb, certified_mysql):
    """Neither threads nor open files, once all is closed. The shared servers are started by then."""
    sockets.Line()  # starts the watchdog, the one thread that stays
    threads, files = set(threading.enumerate()), open_files()
    yield
    until(lambda: set(threading.enumerate()) <= threads, "the threads to end")
    assert open_files() <= files


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


class Peer:
    """Accepts connections and says to each what `words` are, byte by byte, `pause` seconds apart, and then nothing."""

    def __init__(self, words=b"", pause=0.0):
        self.words, self.pause = words, pause
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.host, self.port = self._listener.getsockname()[:2]
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        self._listener.settimeout(0.05)
        held = []
        while not self._stopped.is_set():
            try:
                peer, _ = self._listener.accept()
            except TimeoutError:
                continue
            held.append(peer)
            for byte in self.words:
                try:
                    peer.send(bytes([byte]))
                except OSError:
                    break
                if self._stopped.wait(self.pause):
                    break
        for peer in held:
            peer.close()

    def close(self):
        self._stopped.set()
        self._thread.join(PATIENCE)
        self._listener.close()


@pytest.fixture
def make_peer():
    peers = []

    def make(*args):
        peers.append(Peer(*args))
        return peers[-1]

    yield make
    for peer in peers:
        peer.close()


def lasted(call):
    """What was raised, and the watch that ran meanwhile."""
    watch = Stopwatch()
    with pytest.raises((DeadlineExceeded, ConnectFailed)) as caught:
        call()
    return caught.value, watch


def assert_deadline(call):
    error, watch = lasted(call)
    assert watch.seconds <= LATEST
    assert isinstance(error, DeadlineExceeded), error
    assert watch.passed >= TIMEOUT - 0.05
    return str(error)


def test_a_mute_peer(make_peer):
    peer = make_peer()
    words = assert_deadline(lambda: connector(peer, "u", "x").connect(TIMEOUT))
    assert words == f"127.0.0.1:{peer.port}: no session after 0.5 s"


def test_a_peer_that_drips_its_greeting(make_peer):
    greeting = b"\x4a\x00\x00\x00\x0a8.0.36\0" + bytes(100)
    assert_deadline(lambda: connector(make_peer(greeting, 0.2), "u", "x").connect(TIMEOUT))


@pytest.mark.parametrize("tls", ["disabled", "required"])
@pytest.mark.parametrize("bad", ["drip", "go_silent"])
def test_a_network_that_fails_in_the_middle_of_a_login(certified, make_proxy, tls, bad):
    """The peer says something for as long as the greeting and the login last, so that no read of the driver times out."""
    proxy = make_proxy(certified.address)
    if bad == "drip":
        proxy.drip(0.1)
    else:
        proxy.go_silent()
    ours = connector(proxy, "root", certified.password, tls={"mode": tls})
    assert_deadline(lambda: ours.connect(TIMEOUT))

    proxy.go_on()
    ours.connect(PATIENCE).close()


def test_a_tls_handshake_that_drips(certified_mariadb, make_proxy):
    """The greeting passes, then the network gets slow: TLS has taken the socket away from the driver by then."""
    proxy = make_proxy(certified_mariadb.address)
    greeting = 4 + 110
    proxy.drip(TIMEOUT / 2 / greeting)
    ours = connector(proxy, "root", certified_mariadb.password, tls={"mode": "required"})
    assert_deadline(lambda: ours.connect(TIMEOUT))


@pytest.mark.parametrize("tls", ["disabled", "required"])
@pytest.mark.parametrize("bad", ["drip", "go_silent"])
def test_a_network_that_fails_in_the_middle_of_a_query(certified, make_proxy, tls, bad):
    proxy = make_proxy(certified.address)
    opened = connector(proxy, "root", certified.password, tls={"mode": tls}).connect(PATIENCE)
    if bad == "drip":
        proxy.drip(0.1)
    else:
        proxy.go_silent()

    words = assert_deadline(lambda: opened.rows("SELECT REPEAT('x', 2000)", timeout=TIMEOUT))
    assert words == "not done after 0.5 s"
    assert not opened.alive
    error, watch = lasted(lambda: opened.rows("SELECT 1", timeout=TIMEOUT))
    assert isinstance(error, ConnectFailed)
    assert watch.seconds < TIMEOUT
    opened.close()


@pytest.mark.parametrize("bad", ["drip", "go_silent"])
def test_closing_does_not_wait_for_a_network_that_fails(certified_mariadb, make_proxy, bad):
    proxy = make_proxy(certified_mariadb.address)
    opened = connector(proxy, "root", certified_mariadb.password).connect(PATIENCE)
    if bad == "drip":
        proxy.drip(1.0)
    else:
        proxy.go_silent()
    watch = Stopwatch()
    opened.close()
    assert watch.seconds < 0.5


def test_a_server_that_stands_still(make_mariadb):
    server = make_mariadb()
    ours = connector(server)
    opened = ours.connect(PATIENCE)
    server.freeze()
    try:
        assert_deadline(lambda: opened.rows("SELECT 1", timeout=TIMEOUT))
        assert not opened.alive
        assert_deadline(lambda: ours.connect(TIMEOUT))
        assert_deadline(lambda: connector(server, socket=True).connect(TIMEOUT))
    finally:
        server.thaw()

    ours.connect(PATIENCE).close()
    opened.close()


def test_a_server_that_crashed_and_one_that_is_not_there(make_mariadb):
    server = make_mariadb()
    ours, local = connector(server), connector(server, socket=True)
    opened = ours.connect(PATIENCE)
    server.kill()

    error, _ = lasted(lambda: opened.rows("SELECT 1", timeout=PATIENCE))
    assert isinstance(error, ConnectFailed)
    assert not opened.alive
    error, _ = lasted(lambda: ours.connect(PATIENCE))
    assert str(error) == f"127.0.0.1:{server.port}: connection refused"
    error, _ = lasted(lambda: local.connect(PATIENCE))
    assert str(error) == f"{server.socket}: connection refused"
    Path(server.socket).unlink()
    error, _ = lasted(lambda: local.connect(PATIENCE))
    assert str(error) == f"{server.socket}: no such file or directory"


@pytest.mark.parametrize("order", ["drop", "reset"])
def test_a_connection_that_is_reset(certified_mariadb, make_proxy, order):
    proxy = make_proxy(certified_mariadb.address)
    ours = connector(proxy, "root", certified_mariadb.password)
    opened = ours.connect(PATIENCE)
    getattr(proxy, order)()

    error, _ = lasted(lambda: opened.rows("SELECT 1", timeout=PATIENCE))
    assert isinstance(error, ConnectFailed)
    if order == "reset":
        error, _ = lasted(lambda: ours.connect(PATIENCE))
        assert isinstance(error, ConnectFailed)
    else:
        ours.connect(PATIENCE).close()


@pytest.mark.parametrize(
    "words", [b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(64), b"\x01\0\0\0\x0a"]
)
def test_a_peer_that_is_no_database(make_peer, words):
    error, watch = lasted(lambda: connector(make_peer(words), "u", "x").connect(TIMEOUT))

    assert watch.seconds <= LATEST
    assert isinstance(error, (ConnectFailed, DeadlineExceeded))


def test_a_deadline_that_passes_between_two_calls_cuts_nothing(certified_mariadb):
    opened = connector(certified_mariadb).connect(PATIENCE)
    opened.rows("SELECT 1", timeout=0.3)
    probe = threading.Event()
    guard = Guard(probe.set)
    with guard.limit(0.4):
        assert probe.wait(PATIENCE)

    assert opened.alive
    assert opened.row("SELECT 2", timeout=PATIENCE) == (2,)
    opened.close()


def test_a_name_that_does_not_resolve():
    error, _ = lasted(lambda: sockets.resolved("no-such-host.invalid", 3306, PATIENCE))
    assert isinstance(error, ConnectFailed)
    assert str(error).startswith("the name cannot be resolved: ")
    error, _ = lasted(lambda: sockets.resolved("ü" * 100, 3306, PATIENCE))
    assert isinstance(error, ConnectFailed)


def test_a_resolver_that_hangs_keeps_the_deadline_and_one_thread(monkeypatch):
    """The resolver is the system's, and cannot be made to hang from here."""
    asked, answer = [], threading.Event()

    def hang(host, port, **_):
        asked.append(host)
        answer.wait(PATIENCE)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    before = threading.active_count()
    for _ in range(3):
        watch = Stopwatch()
        with pytest.raises(DeadlineExceeded, match="not resolved in time"):
            sockets.resolved("slow.example", 3306, 0.1)
        assert watch.seconds < 0.1 + 0.5
    assert threading.active_count() == before + 1
    answer.set()

    until(lambda: threading.active_count() == before, "the resolver's thread to end")
    assert asked == ["slow.example"]
    assert sockets.resolved("slow.example", 3306, PATIENCE)[0][1] == ("127.0.0.1", 3306)


def test_an_address_that_refuses_gives_way_to_the_next(certified_mariadb, monkeypatch):
    """As `localhost` does where the server listens on one of its addresses only."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        dead = taken.getsockname()[:2]
    here = (certified_mariadb.host, certified_mariadb.port)
    monkeypatch.setattr(sockets, "_addresses", lambda *_: [(socket.AF_INET, dead), (socket.AF_INET, here)])
    line = sockets.Line()
    opened = line.open(ServerSettings(host="two.example"), PATIENCE)

    assert opened.getpeername() == here
    opened.close()
    line.close()
