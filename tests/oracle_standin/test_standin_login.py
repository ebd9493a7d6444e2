"""Logins with the real driver, on each release, right and wrong ones."""

import asyncio
import ssl

import oracledb
import pytest

from tests.oracle_standin.model import User
from tests.oracle_standin.profiles import PROFILES
from tests.oracle_standin.server import tls_context
from tests.processes import until

VERSIONS = sorted(PROFILES)
SHOWN = {"12.2": "12.2.0.1.0", "19": "19.24.0.0.0", "21": "21.3.0.0.0", "23ai": "23.6.0.24.10"}


def code_of(raised):
    return raised.value.args[0].full_code


@pytest.mark.parametrize("version", VERSIONS)
def test_each_release_says_what_it_is(make_standin, connect, version):
    server = make_standin(version)
    connection = connect(server)

    assert connection.version == SHOWN[version]
    assert (connection.db_name, connection.instance_name) == ("ORCL", "orcl1")
    assert connection.service_name == "pdb1"
    assert connection.warning is None
    connection.ping()
    with connection.cursor() as cursor:
        assert cursor.execute("SELECT 1 FROM dual").fetchone() == (1,)


@pytest.mark.parametrize("version", VERSIONS)
def test_each_release_talks_to_asyncio(make_standin, version):
    server = make_standin(version)

    async def talk():
        async with oracledb.connect_async(user="mon", password="secret", dsn=server.dsn()) as connection:
            await connection.ping()
            return await connection.fetchone("SELECT con_id, name, open_mode, restricted FROM v$pdbs")

    assert asyncio.run(talk()) == (3, "PDB1", "READ WRITE", "NO")


@pytest.mark.parametrize("password", ["wrong", "", "secret ", "x" * 100])
def test_a_wrong_password_is_refused(standin, connect, password):
    with pytest.raises(oracledb.DatabaseError) as raised:
        connect(standin, password=password or " ")
    assert code_of(raised) == "ORA-01017"
    assert standin.logins == 1


@pytest.mark.parametrize("password", ["a", "x" * 100, "p@ss w0rd/ü", "y" * 16])
def test_passwords_of_any_kind_are_accepted(standin, connect, password):
    standin.database.users["MON"].password = password

    assert connect(standin, password=password).is_healthy()


def test_an_unknown_user_is_refused_as_a_wrong_password_is(standin, connect):
    with pytest.raises(oracledb.DatabaseError) as raised:
        connect(standin, user="nobody")
    assert code_of(raised) == "ORA-01017"


def test_wrong_passwords_lock_an_account(standin, connect):
    standin.database.users["MON"].attempts = 3
    codes = []
    for password in ("a", "b", "c", "secret"):
        with pytest.raises(oracledb.DatabaseError) as raised:
            connect(standin, password=password)
        codes.append(code_of(raised))

    assert codes == ["ORA-01017", "ORA-01017", "ORA-01017", "ORA-28000"]


@pytest.mark.parametrize(("state", "code"), [("locked", "ORA-28000"), ("expired", "ORA-28001")])
def test_accounts_that_are_locked_or_expired(standin, connect, state, code):
    setattr(standin.database.users["MON"], state, True)

    with pytest.raises(oracledb.DatabaseError) as raised:
        connect(standin)
    assert code_of(raised) == code


def test_a_password_that_will_expire_is_a_warning(standin, connect):
    standin.database.users["MON"].grace = True

    connection = connect(standin)

    assert connection.warning.full_code == "ORA-28002"
    with connection.cursor() as cursor:
        assert cursor.execute("SELECT 1 FROM dual").fetchone() == (1,)


@pytest.mark.parametrize(("mode", "user"), [("SYSDBA", "SYS"), ("SYSDG", "SYSDG"), ("SYSKM", "SYSKM")])
def test_administrative_logins(standin, connect, mode, user):
    names = {"SYSDG": "AUTH_MODE_SYSDGD", "SYSKM": "AUTH_MODE_SYSKMT"}
    connection = connect(standin, user="sys", mode=getattr(oracledb, names.get(mode, f"AUTH_MODE_{mode}")))

    assert [(each.user, each.privilege) for each in standin.database.seats.values()] == [(user, mode)]
    with pytest.raises(oracledb.DatabaseError) as raised:
        connect(standin, mode=oracledb.AUTH_MODE_SYSDBA)
    assert code_of(raised) == "ORA-01017"
    connection.close()


def test_a_mounted_database_lets_administrators_in_only(standin, connect):
    standin.database.become("PHYSICAL STANDBY", "MOUNTED")

    with pytest.raises(oracledb.OperationalError) as raised:
        connect(standin)
    assert code_of(raised) == "ORA-01033"
    assert raised.value.args[0].isrecoverable
    assert connect(standin, service="orcl", user="sys", mode=oracledb.AUTH_MODE_SYSDGD).is_healthy()


def test_services_and_sids_that_are_not_there(standin, connect):
    with pytest.raises(oracledb.DatabaseError, match="DPY-6001") as raised:
        connect(standin, service="nowhere")
    assert code_of(raised) == "DPY-6005"
    dsn = f"(DESCRIPTION=(ADDRESS=(PROTOCOL=TCP)(HOST={standin.host})(PORT={standin.port}))(CONNECT_DATA=(SID=nosid)))"
    with pytest.raises(oracledb.DatabaseError, match="DPY-6003"):
        oracledb.connect(user="mon", password="secret", dsn=dsn)
    assert standin.logins == 0


def test_connect_data_that_needs_a_packet_of_its_own(standin, connect):
    connection = connect(standin, program="p" * 200, machine="m" * 100)

    assert standin.database.seats[connection.session_id].program == "p" * 200


def test_services_lead_to_containers(standin, connect):
    sql = "SELECT con_id, name, open_mode, restricted FROM v$pdbs"
    rows = {}
    for service in ("orcl", "pdb1"):
        with connect(standin, service=service).cursor() as cursor:
            rows[service] = [row[1] for row in cursor.execute(sql)]

    assert rows == {"orcl": ["PDB$SEED", "PDB1"], "pdb1": ["PDB1"]}


def test_sessions_are_seen_with_what_they_say_of_themselves(standin, connect):
    first = connect(standin, program="tde-exporter", machine="monitor.example", osuser="tde")
    second = connect(standin)
    first.module, first.action, first.client_identifier = "tde-exporter", "canary", "prod"
    second.module = "other"

    sql = "SELECT sid, serial#, username, status, program, module, action, client_identifier FROM v$session"
    with first.cursor() as cursor:
        second.ping()
        rows = {row[0]: row for row in cursor.execute(sql)}

    assert rows[first.session_id] == (
        *(first.session_id, first.serial_num, "MON", "ACTIVE"),
        *("tde-exporter", "tde-exporter", "canary", "prod"),
    )
    assert rows[second.session_id][3] == "INACTIVE"
    assert rows[second.session_id][5] == "other"
    second.close()
    until(lambda: list(standin.database.seats) == [first.session_id], "the second session to end")
    first.action = "next"
    first.module = None
    first.ping()
    assert (standin.database.seats[first.session_id].module, standin.database.seats[first.session_id].action) == (
        "",
        "next",
    )


def test_many_sessions_at_once(standin):
    async def one(number):
        async with oracledb.connect_async(user="mon", password="secret", dsn=standin.dsn()) as connection:
            return (await connection.fetchone("SELECT 1 FROM dual"))[0]

    async def many():
        return await asyncio.gather(*(one(number) for number in range(40)))

    assert asyncio.run(many()) == [1] * 40
    assert (standin.connects, standin.logins) == (40, 40)
    until(lambda: standin.connections == 0, "all connections to end")


@pytest.fixture
def secure(make_standin, certificates):
    return make_standin(tls=tls_context(certificates.server))


def test_tcps_with_a_context(secure, connect, certificates):
    context = ssl.create_default_context(cafile=str(certificates.ca))

    connection = oracledb.connect(user="mon", password="secret", dsn=secure.dsn(host="localhost"), ssl_context=context)
    with connection, connection.cursor() as cursor:
        assert cursor.execute("SELECT 1 FROM dual").fetchone() == (1,)


def test_tcps_with_a_wallet_and_asyncio(secure, certificates, tmp_path):
    (tmp_path / "ewallet.pem").write_bytes(certificates.ca.read_bytes())
    dsn = secure.dsn(host="localhost")

    async def talk():
        connection = oracledb.connect_async(
            user="mon", password="secret", dsn=dsn, wallet_location=str(tmp_path), wallet_password="none"
        )
        async with connection as opened:
            row = await opened.fetchone("SELECT 1 FROM dual")
        # Closing is not complete when the driver says so: TLS waits for the other side's good-bye.
        await asyncio.to_thread(until, lambda: secure.connections == 0, "the session to end")
        await asyncio.sleep(0)
        return row

    assert asyncio.run(talk()) == (1,)


def test_tcps_with_a_certificate_of_another_name_or_authority(make_standin, connect, certificates):
    other = make_standin(tls=tls_context(certificates.other_name))
    for cafile, words in ((certificates.ca, "DPY-6006"), (certificates.wrong_ca, "CERTIFICATE_VERIFY_FAILED")):
        context = ssl.create_default_context(cafile=str(cafile))
        with pytest.raises(oracledb.DatabaseError, match=words):
            oracledb.connect(user="mon", password="secret", dsn=other.dsn(host="localhost"), ssl_context=context)


def test_tcps_that_demands_a_certificate(make_standin, certificates):
    server = make_standin(tls=tls_context(certificates.server, client_authority=str(certificates.ca)))
    context = ssl.create_default_context(cafile=str(certificates.ca))
    with pytest.raises(oracledb.DatabaseError):
        oracledb.connect(user="mon", password="secret", dsn=server.dsn(host="localhost"), ssl_context=context)
    context = ssl.create_default_context(cafile=str(certificates.ca))
    context.load_cert_chain(certificates.client.cert, certificates.client.key)
    with oracledb.connect(
        user="mon", password="secret", dsn=server.dsn(host="localhost"), ssl_context=context
    ) as connection:
        connection.ping()


def test_a_second_user_with_few_grants(standin, connect):
    standin.database.users["POOR"] = User("other", grants={"V_$DATABASE"})

    assert connect(standin, user="poor", password="other").is_healthy()
