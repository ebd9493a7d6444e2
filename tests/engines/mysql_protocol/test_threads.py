"""Whether a server runs on this machine is tried out, not believed."""

import os
import threading

import pytest

from exporter.engines._mysql_protocol.threads import CpuOfRuns, ServerThread, find_out
from exporter.engines.host import Host
from tests.engines.mysql_protocol.connectors import connector
from tests.narrowing import known
from tests.processes import until


@pytest.fixture
def session(mariadb):
    connection = connector(mariadb, socket=True).connect(10.0)
    yield connection
    connection.close()


def tid_of(connection):
    sql = "SELECT TID FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()"
    return connection.row(sql, timeout=10.0)[0]


def test_the_thread_of_a_server_on_this_machine_is_found(mariadb, session):
    found = find_out(Host(), session, tid_of(session), 10.0)

    assert found == ServerThread(tid_of(session), mariadb.pid)


def test_a_server_that_tells_no_thread_is_not_looked_for(session):
    assert find_out(Host(), session, None, 10.0) is None


def test_a_thread_that_rests_while_the_session_works_is_somebody_elses(session):
    """As in a container, whose numbers mean other threads outside."""
    assert find_out(Host(), session, os.getpid(), 10.0) is None


def test_a_thread_that_always_works_is_somebody_elses(session):
    stop, tid = threading.Event(), []

    def burn():
        tid.append(threading.get_native_id())
        while not stop.is_set():
            pass

    thread = threading.Thread(target=burn)
    thread.start()
    try:
        until(lambda: tid, "the thread to begin")
        assert find_out(Host(), session, tid[0], 10.0) is None
    finally:
        stop.set()
        thread.join()


def test_times_that_stand_still_prove_nothing(session, tmp_path):
    tid = tid_of(session)
    (tmp_path / str(tid)).mkdir()
    for name, text in {"schedstat": "1000 0 5", "stat": f"{tid} (x) S 1", "status": "Tgid:\t1"}.items():
        (tmp_path / str(tid) / name).write_text(text)

    assert find_out(Host(tmp_path), session, tid, 10.0) is None


def test_cpu_of_a_run_is_that_of_its_thread_and_with_reading_ahead_of_the_servers_other_threads_too(mariadb, session):
    """The other sessions of the server, ours and not ours, are left out where threads have names."""
    thread = known(find_out(Host(), session, tid_of(session), 10.0))
    other = connector(mariadb, socket=True).connect(10.0)
    cpu = CpuOfRuns(Host(), thread, ())
    alone, everything = cpu.mark(False), cpu.mark(True)
    other.row("SELECT BENCHMARK(3000000, CRC32('x'))", timeout=10.0)

    assert known(cpu.between(alone, cpu.mark(False))) < 0.001
    assert known(cpu.between(everything, cpu.mark(True))) < 0.01

    session.row("SELECT BENCHMARK(3000000, CRC32('x'))", timeout=10.0)

    assert known(cpu.between(alone, cpu.mark(False))) > 0.01
    assert known(cpu.between(everything, cpu.mark(True))) > 0.01
    assert cpu.between(alone, everything) is None
    other.close()
