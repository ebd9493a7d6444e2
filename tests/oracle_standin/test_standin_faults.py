"""Everything that goes wrong, as the real driver sees it: these are facts that an engine must live with."""

import asyncio
import threading
import time

import oracledb
import pytest

from tests.oracle_standin.conversation import Executed
from tests.oracle_standin.faults import Cut, Drip, Fail, Garble, Hang, Phase, Slow
from tests.oracle_standin.server import tls_context
from tests.processes import until

ONE = "SELECT 1 FROM dual"
ROWS = "SELECT n FROM numbers"


# The synchronous driver forgets a socket that was reset, without closing it.
forgotten_socket = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


def code_of(raised):
    return raised.value.args[0].full_code


@pytest.fixture(autouse=True)
def _numbers(standin):
    standin.statements.add(ROWS, spec="N N")(lambda call: [(number,) for number in range(10)])


def asynchronously(server, talk, *, call_timeout=10_000):
    """Run `talk(connection)` on a connection of asyncio."""

    async def run():
        async with oracledb.connect_async(user="mon", password="secret", dsn=server.dsn()) as connection:
            connection.call_timeout = call_timeout
            return await talk(connection)

    return asyncio.run(run())


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.TLS])
def test_a_connect_that_gets_stuck_is_ended_by_the_clients_own_deadline(standin, phase):
    standin.faults.silent = phase

    async def connect():
        await asyncio.wait_for(oracledb.connect_async(user="mon", password="secret", dsn=standin.dsn()), 0.2)

    with pytest.raises(TimeoutError):
        asyncio.run(connect())
    assert standin.connects == 1
    until(lambda: standin.connections == 0, "the stuck session to end")


def test_a_stuck_handshake_of_tls(make_standin, certificates):
    server = make_standin(tls=tls_context(certificates.server))
    server.faults.silent = Phase.TLS

    async def connect():
        await asyncio.wait_for(oracledb.connect_async(user="mon", password="secret", dsn=server.dsn()), 0.2)

    with pytest.raises(TimeoutError):
        asyncio.run(connect())


def test_others_are_not_disturbed_by_one_that_is_stuck(make_standin, connect):
    stuck, healthy = make_standin(), make_standin()
    stuck.faults.silent = Phase.AUTHENTICATION

    def get_stuck():
        with pytest.raises(oracledb.Error):
            connect(stuck)

    thread = threading.Thread(target=get_stuck)
    thread.start()
    until(lambda: stuck.connects == 1, "the first to be stuck")

    with connect(healthy).cursor() as cursor:
        assert cursor.execute(ONE).fetchone() == (1,)
    assert thread.is_alive()
    stuck.end_sessions()
    thread.join(10)
    assert not thread.is_alive()


@pytest.mark.parametrize(("refused", "words"), [(12514, "DPY-6001"), (12505, "DPY-6003"), (12516, "DPY-6000.*12516")])
def test_refusals_of_the_listener(standin, connect, refused, words):
    standin.faults.refuse = refused
    with pytest.raises(oracledb.DatabaseError, match=words):
        connect(standin)


@pytest.mark.parametrize("code", [1033, 1034, 1089, 12528, 28000])
def test_logins_that_end_in_an_error(standin, connect, code):
    standin.faults.login = code
    with pytest.raises(oracledb.DatabaseError, match=f"ORA-{code:05}"):
        connect(standin)
    standin.faults.heal()
    assert connect(standin).is_healthy()


def test_a_server_that_does_not_know_the_password(standin, connect):
    standin.faults.wrong_answer = True
    with pytest.raises(oracledb.DatabaseError) as raised:
        connect(standin)
    assert code_of(raised) == "DPY-4035"


def test_a_server_that_demands_native_encryption(standin, connect):
    standin.faults.native_encryption = True
    with pytest.raises(oracledb.Error) as raised:
        connect(standin)
    assert code_of(raised) in ("DPY-3001", "DPY-6005")
    assert "Native Network Encryption" in str(raised.value)


@forgotten_socket
def test_connections_that_are_reset_at_once(standin, connect):
    standin.faults.drop_logins = True
    with pytest.raises(oracledb.DatabaseError):
        connect(standin)


def test_a_server_that_does_not_listen(standin, connect):
    standin.deafen()
    with pytest.raises(oracledb.DatabaseError):
        connect(standin)
    standin.listen()
    assert connect(standin).is_healthy()


def test_a_call_that_hangs_is_broken_off_and_the_connection_goes_on(standin, connection, cursor):
    standin.faults.on(ONE, Hang(), times=2)
    connection.call_timeout = 400
    for _ in range(2):
        with pytest.raises(oracledb.DatabaseError) as raised:
            cursor.execute(ONE)
        assert code_of(raised) == "DPY-4024"
    connection.call_timeout = 10_000
    assert cursor.execute(ONE).fetchone() == (1,)
    assert standin.connects == 1


def test_the_same_with_asyncio(standin):
    standin.faults.on(ONE, Hang(), times=2)

    async def talk(connection):
        for _ in range(2):
            with pytest.raises(oracledb.DatabaseError) as raised:
                await connection.fetchone(ONE)
            assert code_of(raised) == "DPY-4024"
        connection.call_timeout = 10_000
        return await connection.fetchone(ONE)

    assert asynchronously(standin, talk, call_timeout=400) == (1,)


def test_a_task_that_is_cancelled_breaks_its_call(standin):
    standin.faults.on(ONE, Hang(), times=1)

    async def talk(connection):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(connection.fetchone(ONE), 0.1)
        return await connection.fetchone(ONE)

    assert asynchronously(standin, talk) == (1,)


def test_a_call_that_another_thread_cancels(standin, connection, cursor):
    standin.faults.on(ONE, Hang(), times=1)

    def cancel():
        until(lambda: standin.executed, "the call")
        connection.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    with pytest.raises(oracledb.DatabaseError) as raised:
        cursor.execute(ONE)
    thread.join(10)
    assert code_of(raised) == "ORA-01013"
    assert cursor.execute(ONE).fetchone() == (1,)


def test_a_server_that_is_deaf_to_breaks_costs_the_connection(standin, connection, cursor):
    standin.faults.deaf = True
    standin.faults.on(ONE, Hang())
    connection.call_timeout = 100
    with pytest.raises(oracledb.DatabaseError) as raised:
        cursor.execute(ONE)
    assert code_of(raised) == "DPY-4011"
    assert not connection.is_healthy()


def test_the_same_deafness_with_asyncio(standin):
    standin.faults.deaf = True
    standin.faults.on(ONE, Hang())

    async def talk(connection):
        with pytest.raises(oracledb.DatabaseError) as raised:
            await connection.fetchone(ONE)
        return code_of(raised)

    assert asynchronously(standin, talk, call_timeout=100) == "DPY-4011"


def test_a_ping_that_hangs(standin, connection):
    standin.faults.on("PING", Hang(), times=1)
    connection.call_timeout = 400
    with pytest.raises(oracledb.DatabaseError) as raised:
        connection.ping()
    assert code_of(raised) == "DPY-4024"
    connection.ping()


def test_a_slow_answer(standin, cursor):
    standin.faults.on(ONE, Slow(0.2))
    began = time.monotonic()
    cursor.execute(ONE)
    assert time.monotonic() - began >= 0.2


def test_rows_that_drip_have_no_time_limit_in_the_synchronous_driver(standin, connection, cursor):
    standin.faults.on(ROWS, Drip(0.06))
    connection.call_timeout = 300
    cursor.prefetchrows = 20
    assert len(cursor.execute(ROWS).fetchall()) == 10


def test_rows_that_drip_are_limited_with_asyncio(standin):
    standin.faults.on(ROWS, Drip(0.1), times=1)

    async def talk(connection):
        cursor = connection.cursor()
        cursor.prefetchrows = 20
        with pytest.raises(oracledb.DatabaseError) as raised:
            await cursor.execute(ROWS)
        cursor.close()
        assert code_of(raised) == "DPY-4024"
        return await connection.fetchone(ONE)

    assert asynchronously(standin, talk, call_timeout=450) == (1,)


def test_a_break_that_meets_a_complete_answer_hits_the_next_call(standin):
    """So a connection whose call timed out is not to be trusted, even if the server obeys."""
    standin.faults.on(ROWS, Drip(0.01, bytes_at_once=1), times=1)

    async def talk(connection):
        with pytest.raises(oracledb.DatabaseError) as raised, connection.cursor() as cursor:
            await cursor.execute(ROWS)
        assert code_of(raised) == "DPY-4024"
        with pytest.raises(oracledb.DatabaseError) as late:
            await connection.fetchone(ONE)
        return code_of(late)  # by whether the server's marker comes before or after this call begins

    assert asynchronously(standin, talk, call_timeout=200) in ("ORA-01013", "DPY-4011")


@forgotten_socket
@pytest.mark.parametrize(
    "cut",
    [
        Cut(),
        Cut(reset=False),
        Cut(after_rows=1),
        Cut(after_rows=5),
        Cut(after_rows=5, reset=False),
        Cut(half_packet=True),
        Cut(after_rows=5, half_packet=True, reset=False),
    ],
)
def test_connections_that_end_in_the_middle(standin, connect, cut):
    standin.faults.on(ROWS, cut)
    connection = connect(standin)
    with pytest.raises(oracledb.DatabaseError) as raised, connection.cursor() as cursor:
        cursor.execute(ROWS).fetchall()
    assert code_of(raised) == "DPY-4011"
    assert raised.value.args[0].isrecoverable

    async def talk(other):
        with pytest.raises(oracledb.DatabaseError) as also:
            await other.fetchall(ROWS)
        return code_of(also)

    assert asynchronously(standin, talk) == "DPY-4011"


def test_an_answer_that_is_nonsense(standin, connection, cursor):
    standin.faults.on(ONE, Garble(), times=1)
    with pytest.raises(oracledb.Error, match="DPY-5"):
        cursor.execute(ONE)

    async def talk(other):
        standin.faults.on(ONE, Garble(), times=1)
        with pytest.raises(oracledb.Error, match="DPY-5"):
            await other.fetchone(ONE)
        return await other.fetchone(ONE)

    assert asynchronously(standin, talk) == (1,)
    assert cursor.execute(ONE).fetchone() == (1,)


@pytest.mark.parametrize("code", [28, 600, 1012, 1092, 2396, 3113])
def test_errors_that_end_the_session(standin, connection, cursor, code):
    standin.faults.on(ONE, Fail(code))
    with pytest.raises(oracledb.DatabaseError, match=f"ORA-{code:05}") as raised:
        cursor.execute(ONE)
    assert code_of(raised) == "DPY-4011"
    until(lambda: standin.connections == 0, "the session to end")


@pytest.mark.parametrize("code", [942, 1031, 1219, 4036, 28365, 28374])
def test_errors_that_do_not(standin, cursor, code):
    standin.faults.on(ONE, Fail(code), times=1)
    with pytest.raises(oracledb.DatabaseError) as raised:
        cursor.execute(ONE)
    assert code_of(raised) == f"ORA-{code:05}"
    assert cursor.execute(ONE).fetchone() == (1,)


def test_sessions_that_are_killed_while_idle_and_while_they_work(standin, connect):
    idle, busy = connect(standin), connect(standin)
    standin.end_sessions(28, sid=idle.session_id)
    with pytest.raises(oracledb.DatabaseError, match="ORA-00028"):
        idle.ping()
    standin.faults.on(ONE, Hang())

    def kill():
        until(lambda: standin.executed, "the call")
        standin.end_sessions(1092, sid=busy.session_id)

    thread = threading.Thread(target=kill)
    thread.start()
    with pytest.raises(oracledb.DatabaseError, match="ORA-01092"), busy.cursor() as cursor:
        cursor.execute(ONE)
    thread.join(10)


def test_sessions_that_are_dropped(standin, connection):
    standin.end_sessions()
    with pytest.raises(oracledb.DatabaseError) as raised:
        connection.ping()
    assert code_of(raised) == "DPY-4011"


def test_an_end_of_the_server_ends_what_hangs(make_standin, connect):
    server = make_standin()
    server.faults.on(ONE, Hang())
    failures = []

    def ask(cursor):
        with pytest.raises(oracledb.DatabaseError) as raised:
            cursor.execute(ONE)
        failures.append(code_of(raised))

    connection = connect(server)
    connection.call_timeout = 0
    with connection.cursor() as cursor:
        thread = threading.Thread(target=ask, args=(cursor,))
        thread.start()
        until(lambda: server.executed, "the call")
        server.close()
        thread.join(10)
    assert failures == ["DPY-4011"]
    assert server.executed == [Executed(101, "MON", ONE, ())]
