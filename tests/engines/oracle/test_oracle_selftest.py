"""The self test on stand-ins: every statement is tried or says why not, grants and releases are told apart, nothing changes."""

from __future__ import annotations

import copy
from collections import Counter

import pytest

from exporter.engines import registry
from exporter.engines.base import Verdict
from exporter.engines.oracle.statements import Need, every
from exporter.selftest import SelfTest, selftest_dict, selftest_text
from tests.engines.oracle.standin_targets import VERSIONS, make_ready, opened, quiet, target_of
from tests.oracle_standin.faults import Cut, Fail, Hang
from tests.oracle_standin.model import User
from tests.oracle_standin.statements_state import heartbeats_of
from tests.oracle_standin.statements_twins import engine_database

STANDBY = [{"name": "east", "host": "127.0.0.9"}]


@pytest.fixture
def run(make_server, tmp_path):
    """Runs a self test; outcomes by statement."""

    def selftest(server, *, timeout=30.0, **target):
        with opened(target_of(server, tmp_path, **target)) as session:
            outcomes = session.selftest(quiet, timeout)
        assert [outcome.statement for outcome in outcomes] == [
            each.name for each in sorted(every().values(), key=lambda each: (each.collector, each.name))
        ]
        return {outcome.statement: outcome for outcome in outcomes}

    return selftest


def provisioned(server, folder, **more):
    target = target_of(server, folder, **more)
    with opened(target) as session:
        make_ready(session, target)
    return server


def verdicts(outcomes):
    return Counter(outcome.verdict for outcome in outcomes.values())


@pytest.mark.parametrize("version", VERSIONS)
def test_all_is_well_on_every_release(make_server, run, tmp_path, version):
    server = provisioned(make_server(version), tmp_path, standbys=STANDBY)
    before = copy.deepcopy([vars(table) for table in server.database.tables])
    outcomes = run(server, standbys=STANDBY)
    assert set(verdicts(outcomes)) == {Verdict.OK, Verdict.NOT_TRIED} | (
        {Verdict.NOT_THERE} if version == "12.2" else set()
    )
    for name, outcome in outcomes.items():
        if Need.LOGIN in every()[name].needs:
            assert outcome.verdict is Verdict.NOT_TRIED
        elif not every()[name].needs:
            wanted = (Verdict.OK, Verdict.NOT_THERE) if every()[name].since > 12 else (Verdict.OK,)
            assert outcome.verdict in wanted or name == "session.serial_direct_read"
    assert outcomes["heartbeat.write"].rows == 0
    assert (outcomes["canary.full_scan"].rows, outcomes["canary.full_scan"].code) == (1, "")
    assert heartbeats_of(server.database)[0].seq is None
    cold = {"cold"}  # what was read is cached, and nothing else is another
    assert [{k: v for k, v in vars(table).items() if k not in cold} for table in server.database.tables] == [
        {k: v for k, v in table.items() if k not in cold} for table in before
    ]
    assert not any(seat.in_transaction for seat in server.database.seats.values())


def test_each_missing_grant_is_told_with_its_number(make_server, run, tmp_path):
    database = engine_database("19", few={"V_$DATABASE", "V_$OSSTAT", "TDE.MAIN_ENCRYPTED"})
    server = provisioned(make_server(database=database), tmp_path)
    outcomes = run(server, user="few")
    missing = outcomes["keystore.wallets"]
    assert (missing.verdict, missing.code, missing.grants) == (
        Verdict.MISSING_GRANT,
        "ORA-00942",
        ("READ ON SYS.V_$ENCRYPTION_WALLET",),
    )
    assert missing.words == ""
    assert outcomes["activity.host"].verdict is outcomes["canary.point_select"].verdict is Verdict.OK


def test_what_a_release_does_not_have_is_no_fault(make_server, run, tmp_path):
    server = provisioned(make_server("12.2"), tmp_path)
    outcome = run(server)["keystore.wallets"]
    assert (outcome.verdict, outcome.words, outcome.seconds) == (Verdict.NOT_THERE, "since release 18", None)
    # A column that is not where we thought it was.
    server.faults.on("V$ARCHIVE_GAP", Fail(904, '"LOW_SEQUENCE#"'))
    found = run(server)["standby.gaps"]
    assert (found.verdict, found.code) == (Verdict.NOT_THERE, "ORA-00904")


def test_an_error_is_told_and_the_rest_goes_on(make_server, run, tmp_path):
    server = provisioned(make_server(), tmp_path)
    server.faults.on("V$ENCRYPTION_KEYS", Fail(28365))
    outcomes = run(server)
    found = outcomes["keystore.keys"]
    assert (found.verdict, found.code) == (Verdict.ERROR, "ORA-28365")
    assert "not open" in found.words
    assert verdicts(outcomes)[Verdict.ERROR] == 1


@pytest.mark.parametrize("fault", [Cut(), Fail(600), Fail(3113)], ids=repr)
def test_a_lost_session_is_opened_again(make_server, run, tmp_path, fault):
    server = provisioned(make_server(), tmp_path)
    server.faults.on("V$DATAGUARD_STATS", fault)
    outcomes = run(server)
    assert outcomes["standby.stats"].verdict is Verdict.ERROR
    assert verdicts(outcomes)[Verdict.ERROR] == 1
    assert outcomes["twins.tablespaces"].verdict is Verdict.OK


def test_a_database_that_is_gone_ends_in_words_and_names_no_host(make_server, tmp_path):
    server = provisioned(make_server(), tmp_path)
    server.faults.on("V$ARCHIVE_GAP", Fail(1092))
    with opened(target_of(server, tmp_path)) as session:

        def cut_off(what, _share):
            if what.endswith("standby.gaps"):
                server.faults.refuse = 12514  # from then on, nobody gets in

        outcomes = {each.statement: each for each in session.selftest(cut_off, 30.0)}
    found = outcomes["twins.tablespaces"]
    assert found.verdict is Verdict.NOT_TRIED
    told = " ".join(outcome.words for outcome in outcomes.values())  # not the seconds: their digits hold any number
    assert "127.0.0.1" not in told
    assert str(server.port) not in told


def test_no_time_left_is_told(make_server, run, tmp_path):
    server = provisioned(make_server(), tmp_path)
    server.faults.on("V$OSSTAT", Hang())
    server.faults.deaf = True
    outcomes = run(server, timeout=1.5)
    assert outcomes["activity.host"].verdict is Verdict.ERROR
    rest = [outcome for name, outcome in outcomes.items() if name > "activity.host" and not outcome.words]
    assert rest == []
    assert outcomes["twins.tablespaces"].words == "no time was left"


def test_a_mounted_standby(make_server, run, tmp_path):
    database = engine_database("19")
    database.become("PHYSICAL STANDBY", "MOUNTED")
    outcomes = run(make_server(database=database), user="sys", privilege="sysdg", service="orcl", pairs=())
    assert set(verdicts(outcomes)) == {Verdict.OK, Verdict.NOT_TRIED}
    assert outcomes["dependents.lobs"].words == "the database is only mounted"
    assert outcomes["standby.destinations"].words == "the database is no primary"
    assert outcomes["standby.stats"].rows == 4


def test_the_root_tries_the_views_of_all_containers(make_server, run):
    database = engine_database("19")
    database.users["C##MON"] = User("secret")
    outcomes = run(make_server(database=database), user="c##mon", service="orcl", pairs=())
    assert outcomes["inventory.tablespaces_of_all"].verdict is Verdict.OK
    assert outcomes["canary.full_scan"].words == "no pair is configured"


def test_the_hidden_parameter_is_tried_only_where_it_is_wanted(make_server, run, tmp_path):
    server = provisioned(make_server(), tmp_path)
    assert run(server)["session.serial_direct_read"].verdict is Verdict.NOT_TRIED
    assert not [each for each in server.executed if "_serial_direct_read" in each.sql]
    assert run(server, serial_direct_read=True)["session.serial_direct_read"].verdict is Verdict.OK


def test_its_text_can_be_pasted(make_server, tmp_path):
    database = engine_database("19", few={"V_$DATABASE"})
    server = provisioned(make_server(database=database), tmp_path)
    target = target_of(server, tmp_path, user="few")
    session = registry.make(target).open(10.0)
    found = SelfTest("oracle", session.facts(), (("oracledb", "3"),), session.selftest(quiet, 30.0))
    session.close()
    text = selftest_text(found)
    assert "oracle 19.24.0.0.0" in text
    assert "oracledb 3" in text
    assert not found.passed
    lines = [line for line in text.splitlines() if line.startswith("keystore.wallets ")]
    assert lines
    assert "missing grant  ORA-00942" in lines[0]
    assert lines[0].endswith("READ ON SYS.V_$ENCRYPTION_WALLET")
    for secret in ("secret", "127.0.0.1", str(server.port), "db1.example", "few"):
        assert secret not in text.lower().replace("tde-exporter", "")
    assert selftest_dict(found)["passed"] is False
