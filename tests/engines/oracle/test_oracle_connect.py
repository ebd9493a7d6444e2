"""Connecting to databases that do not answer, refuse, or are not what they should be."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading

import pytest

from exporter.domain.errors import (
    AccountBarred,
    AuthenticationFailed,
    ConnectFailed,
    DeadlineExceeded,
    TargetError,
    TlsFailed,
    Unavailable,
    Unsupported,
)
from exporter.engines import registry
from tests.engines.oracle.standin_targets import opened, target_of
from tests.oracle_standin import messages
from tests.oracle_standin.faults import Hang, Phase
from tests.oracle_standin.packets import Packet
from tests.oracle_standin.server import tls_context
from tests.processes import until
from tests.stopwatch import Stopwatch

LIMIT = 0.4
WITHIN = 5 * 0.1
PHASES = [Phase.ACCEPT, Phase.NEGOTIATION, Phase.AUTHENTICATION, Phase.PASSWORD]


def refused(engine, kind, timeout=5.0):
    with pytest.raises(kind) as raised:
        engine.open(timeout)
    assert type(raised.value) is kind
    return str(raised.value)


def timed_out(engine):
    watch = Stopwatch()
    refused(engine, DeadlineExceeded, LIMIT)
    assert watch.seconds < LIMIT + WITHIN
    return watch.passed


# -- silence ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", PHASES)
def test_a_database_that_falls_silent_while_connecting_is_given_up_in_time(server, target, phase):
    server.faults.silent = phase

    assert timed_out(registry.make(target)) >= LIMIT * 0.9
    until(lambda: server.connections == 0, "the connection to be let go")


def test_a_peer_that_accepts_and_never_says_a_word_is_given_up_in_time(target):
    with socket.create_server(("127.0.0.1", 0)) as mute:
        at = target.model_copy(update={"port": mute.getsockname()[1]})
        for _ in range(3):
            timed_out(registry.make(at))


@pytest.mark.parametrize("words", [b"\x7f\xff\xff\xff\x06\0\0\0", b"\0\x20\0\0\x06\0\0\0"])
def test_a_peer_whose_words_before_the_login_do_not_end(target, words):
    """One packet that is said to have two GiB, or packets that nobody asked for."""
    sent: list[int] = []

    def flood(listener):
        peer, _ = listener.accept()
        with peer, contextlib.suppress(OSError):
            peer.recv(4096)
            while sum(sent) < 2**30:
                sent.append(peer.send(words + bytes(8192 - len(words))))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        flooding = threading.Thread(target=flood, args=(listener,))
        flooding.start()
        at = target.model_copy(update={"port": listener.getsockname()[1]})
        refused(registry.make(at), ConnectFailed, 30.0)
        flooding.join(10.0)
    assert not flooding.is_alive()
    assert sum(sent) < 96 * 2**20


@pytest.mark.parametrize("size", [0, 4, 2**32 - 1])
def test_a_peer_that_agrees_to_packets_of_an_absurd_size(target, size):
    """The driver would take four gigabytes for its buffers, or crash for want of room for a header."""
    body = bytearray(messages.accept(319))
    body[24:28] = size.to_bytes(4, "big")
    accept = struct.pack(">HHBBH", len(body) + 8, 0, Packet.ACCEPT, 0, 0) + bytes(body)

    def agree(listener):
        peer, _ = listener.accept()
        with peer, contextlib.suppress(OSError):
            peer.recv(4096)
            peer.sendall(accept)
            while peer.recv(4096):
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        agreeing = threading.Thread(target=agree, args=(listener,))
        agreeing.start()
        at = target.model_copy(update={"port": listener.getsockname()[1]})
        assert "what no database says" in refused(registry.make(at), ConnectFailed, 5.0)
        agreeing.join(10.0)
    assert not agreeing.is_alive()


def test_another_target_does_not_notice_one_that_hangs(server, make_server, target, tmp_path):
    server.faults.silent = Phase.ACCEPT
    hanging = threading.Thread(target=lambda: timed_out(registry.make(target)))
    healthy = make_server()
    hanging.start()
    until(lambda: server.connections, "the first one to hang")
    watch = Stopwatch()
    for _ in range(5):
        with opened(target_of(healthy, tmp_path)) as session:
            assert session.activity(5.0).decrypts == 0
    took = watch.seconds
    hanging.join()

    assert took < 5 * 1.0


def test_another_session_of_the_same_target_does_not_notice_one_that_hangs(server, target):
    engine = registry.make(target)
    first = engine.open(5.0)
    server.faults.silent = Phase.AUTHENTICATION
    ended = []
    hanging = threading.Thread(target=lambda: ended.append(timed_out(engine)))
    hanging.start()
    until(lambda: server.connections == 2, "the second one to hang")

    while not ended:
        assert first.activity(5.0).decrypts == 0
        hanging.join(0.01)
    first.close()


def test_a_name_that_is_not_resolved_in_time_begins_no_connect(server, target, monkeypatch):
    answer, asked = threading.Event(), []

    def slow(host, *args, **options):
        asked.append(host)
        answer.wait(20.0)
        return resolve(host, *args, **options)

    resolve = socket.getaddrinfo
    # The system's resolver is the one thing of this path that no test can make slow.
    monkeypatch.setattr(socket, "getaddrinfo", slow)
    engine = registry.make(target.model_copy(update={"host": "localhost"}))
    for _ in range(3):
        timed_out(engine)

    assert asked == ["localhost"]
    assert server.connects == 0
    answer.set()


def test_an_unknown_name_is_told_at_once(target):
    words = refused(registry.make(target.model_copy(update={"host": "nowhere.invalid"})), ConnectFailed)

    assert "nowhere.invalid" in words
    assert "cannot be resolved" in words


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "value", "kind", "words"),
    [
        ("refuse", 12514, Unavailable, "does not know the service"),
        ("refuse", 12505, Unavailable, "does not know the SID"),
        ("refuse", 12528, Unavailable, "starting or only mounted"),
        ("login", 1033, Unavailable, "SYSDG"),
        ("login", 1034, Unavailable, "not running"),
        ("login", 1035, Unavailable, "restricted"),
        ("login", 18, Unavailable, "SESSIONS"),
        ("native_encryption", True, Unsupported, "`driver: thick`"),
        ("drop_logins", True, ConnectFailed, ""),
    ],
)
def test_a_database_that_does_not_serve_is_told_in_words_and_asked_again(server, target, fault, value, kind, words):
    setattr(server.faults, fault, value)
    engine = registry.make(target)
    for _ in range(2):
        found = refused(engine, kind)
        assert words in found
        assert target.address in found
        assert "CONNECTION_ID" not in found
    assert server.connects == 2

    server.faults.heal()
    engine.open(5.0).close()


def test_both_ways_out_of_native_encryption_are_named(server, target):
    server.faults.native_encryption = True
    words = refused(registry.make(target), Unsupported)

    assert "TCPS" in words
    assert "driver: thick" in words


def test_nobody_at_the_address_is_told_at_once(server, target):
    server.deafen()

    assert "nobody listens" in refused(registry.make(target), ConnectFailed)


# -- accounts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("account", "kind", "words"),
    [
        ({"password": "another"}, AuthenticationFailed, "refused the user or the password"),
        ({"locked": True}, AccountBarred, "locked"),
        ({"expired": True}, AccountBarred, "expired"),
    ],
)
def test_an_account_that_is_refused_is_tried_once(server, target, account, kind, words):
    user = server.database.users["MON"]
    for name, value in account.items():
        setattr(user, name, value)
    engine = registry.make(target)
    assert words in refused(engine, kind)
    for _ in range(3):
        assert words in refused(engine, AuthenticationFailed)

    assert server.logins == 1


def test_a_new_secret_is_tried_at_once_and_a_session_can_go_on(server, target, tmp_path):
    user = server.database.users["MON"]
    user.attempts = 3
    with opened(target, provisioned=True) as session:
        pair = target.pairs[0]
        user.password = "changed"
        server.end_sessions()
        for _ in range(5):
            with pytest.raises(TargetError):
                session.prepare(pair, 5.0)
        assert (user.failed_logins, user.locked) == (1, False)

        (tmp_path / "mon.secret").write_text("changed")
        session.prepare(pair, 5.0)
        assert user.failed_logins == 0


def test_who_does_not_know_the_password_is_not_sent_it_again(server, target):
    server.faults.wrong_answer = True
    engine = registry.make(target)
    for _ in range(3):
        assert "not the database of this account" in refused(engine, AuthenticationFailed)

    assert server.logins == 1


def test_a_password_that_expires_soon_is_told_and_no_obstacle(server, target):
    server.database.users["MON"].grace = True
    with opened(target) as session:
        assert any("expire within 7 days" in problem for problem in session.activity(5.0).problems)


def test_a_mounted_database_admits_only_with_a_privilege(server, target):
    server.database.become("PHYSICAL STANDBY", "MOUNTED")
    server.database.users["MON"].system = {"SYSDG"}
    refused(registry.make(target), Unavailable)
    with opened(target.model_copy(update={"privilege": "sysdg", "service": "orcl"})) as session:
        facts = session.facts()
        assert (facts.role, facts.open_mode) == ("physical_standby", "mounted")
        assert session.activity(5.0).decrypts == 0


def test_a_privilege_that_the_account_does_not_have_is_a_refusal(server, target):
    refused(registry.make(target.model_copy(update={"privilege": "sysdba"})), AuthenticationFailed)


def test_a_secret_is_in_no_message(server, target, tmp_path):
    server.database.users["MON"].password = "another"
    (tmp_path / "mon.secret").write_text("very-secret-word")

    assert "very-secret-word" not in refused(registry.make(target), AuthenticationFailed)


def test_sessions_name_themselves(server, target):
    with opened(target, provisioned=True):
        seats = list(server.database.seats.values())

    assert {(seat.program, seat.module) for seat in seats} == {("tde-exporter", "tde-exporter")}
    assert {seat.action for seat in seats} == {"control db", "canary db"}


# -- TCPS ------------------------------------------------------------------------------------------


@pytest.fixture
def tls_server(make_server, certificates):
    return make_server(tls=tls_context(certificates.server))


def tls_target(server, folder, **tls):
    return target_of(server, folder, host="localhost", tls=tls)


def test_tcps_with_the_authority_in_a_file_or_in_a_wallet(tls_server, tmp_path, certificates):
    (tmp_path / "ewallet.pem").write_bytes(certificates.ca.read_bytes())
    for tls in ({"ca": str(certificates.ca)}, {"wallet": str(tmp_path)}):
        with opened(tls_target(tls_server, tmp_path, **tls)) as session:
            assert session.facts().role == "primary"


def test_tcps_with_a_certificate_of_our_own(make_server, tmp_path, certificates):
    server = make_server(tls=tls_context(certificates.server, client_authority=str(certificates.ca)))
    wallet = tmp_path / "ewallet.pem"
    wallet.write_bytes(certificates.ca.read_bytes())
    # The server's complaint comes after the handshake, so it is no more than a lost connection.
    refused(registry.make(tls_target(server, tmp_path, wallet=str(tmp_path))), ConnectFailed)
    client = certificates.client
    wallet.write_bytes(client.key.read_bytes() + client.cert.read_bytes() + certificates.ca.read_bytes())
    with opened(tls_target(server, tmp_path, wallet=str(tmp_path))):
        pass


def test_tcps_refuses_who_cannot_prove_itself(make_server, tmp_path, certificates):
    server = make_server(tls=tls_context(certificates.other_name))
    trusted = {"ca": str(certificates.ca)}
    assert "does not name the host" in refused(registry.make(tls_target(server, tmp_path, **trusted)), TlsFailed)
    other = {"ca": str(certificates.wrong_ca)}
    assert "not accepted" in refused(registry.make(tls_target(server, tmp_path, **other)), TlsFailed)
    wrong_dn = {**trusted, "server_dn": "CN=another"}
    assert "`server_dn`" in refused(registry.make(tls_target(server, tmp_path, **wrong_dn)), TlsFailed)
    assert server.logins == 0
    for tls in ({"verify_name": False}, {"server_dn": "CN=db.example"}):
        with opened(tls_target(server, tmp_path, **trusted, **tls)):
            pass


def test_tcps_that_falls_silent_is_given_up_in_time(tls_server, tmp_path, certificates):
    engine = registry.make(tls_target(tls_server, tmp_path, ca=str(certificates.ca)))
    for phase in (Phase.TLS, Phase.ACCEPT, Phase.AUTHENTICATION):
        tls_server.faults.silent = phase
        timed_out(engine)


def test_a_session_over_tcps_is_cut_like_any_other(tls_server, tmp_path, certificates):
    with opened(tls_target(tls_server, tmp_path, ca=str(certificates.ca))) as session:
        tls_server.faults.deaf = True
        tls_server.faults.on("V$SYSSTAT", Hang(), times=1)
        watch = Stopwatch()
        with pytest.raises(DeadlineExceeded):
            session.activity(LIMIT)
        assert watch.seconds < LIMIT + WITHIN
        assert session.activity(5.0).decrypts == 0


def test_certificates_that_cannot_be_read_are_named(server, tmp_path):
    (tmp_path / "broken.pem").write_text("nothing")
    for file in ("missing.pem", "broken.pem"):
        words = refused(registry.make(tls_target(server, tmp_path, ca=str(tmp_path / file))), TlsFailed)
        assert file in words


def test_a_listener_that_does_not_understand_tls_is_given_up_in_time(server, tmp_path):
    timed_out(registry.make(tls_target(server, tmp_path)))
