"""Rows of SHOW REPLICA STATUS and its kin, and which of them a server understands."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.domain.errors import ConnectFailed, PermissionMissing, QueryFailed
from exporter.engines._mysql_protocol.replica_status import STATEMENTS, StatusReader, not_permitted, parsed
from exporter.engines.beats import Position

MARIADB = {
    "Connection_name": "east",
    "Slave_SQL_State": "Slave has read all relay log; waiting for more updates",
    "Master_Host": "10.0.0.1",
    "Master_User": "replicator",
    "Master_Port": 3306,
    "Master_Log_File": "bin.000003",
    "Read_Master_Log_Pos": 900,
    "Relay_Master_Log_File": "bin.000002",
    "Slave_IO_Running": "Yes",
    "Slave_SQL_Running": "Yes",
    "Last_Errno": 0,
    "Exec_Master_Log_Pos": 582,
    "Seconds_Behind_Master": 3,
    "Last_IO_Errno": 0,
    "Last_SQL_Errno": 0,
    "Master_Server_Id": 7,
    "SQL_Delay": 0,
}
MYSQL = {
    "Source_Host": "10.0.0.1",
    "Source_Port": 3306,
    "Source_Log_File": "bin.000003",
    "Read_Source_Log_Pos": 900,
    "Relay_Source_Log_File": "bin.000002",
    "Replica_IO_Running": "Yes",
    "Replica_SQL_Running": "Yes",
    "Last_Errno": 0,
    "Exec_Source_Log_Pos": 582,
    "Seconds_Behind_Source": 3,
    "Last_IO_Errno": 0,
    "Last_SQL_Errno": 0,
    "Source_Server_Id": 7,
    "Source_UUID": "f10bd421-ece4-11f1-b155-02fc00000001",
    "SQL_Delay": 4,
    "Channel_Name": "east",
}
ROWS = {"mariadb": MARIADB, "mysql": MYSQL}


@pytest.fixture(params=ROWS)
def changed(request):
    """A row of each flavour, with columns changed that are named as in MariaDB."""
    row = ROWS[request.param]

    def change(**values):
        names = values
        if request.param == "mysql":
            names = {
                key.replace("Master", "Source").replace("Slave", "Replica"): value for key, value in values.items()
            }
        assert row.keys() >= names.keys()
        return parsed(row | names)

    return change


def test_a_channel_that_runs(changed):
    channel = changed()
    assert channel.name == "east"
    assert channel.runs
    assert channel.receives
    assert channel.applies
    assert channel.received == Position("bin", (3, 900))
    assert channel.applied == Position("bin", (2, 582))
    assert channel.source == 7
    assert channel.address == ("10.0.0.1", 3306)
    assert channel.behind == 3.0
    assert channel.problem == ""


def test_what_only_one_flavour_has():
    assert parsed(MYSQL).source_uuid == MYSQL["Source_UUID"]
    assert parsed(MARIADB).source_uuid == ""
    assert parsed(MYSQL).delay == 4.0
    assert parsed(MARIADB).delay == 0.0


@pytest.mark.parametrize(
    ("word", "receives"),
    [
        ("Yes", True),
        ("No", False),
        ("Connecting", False),
        ("Preparing", False),
        ("", None),
        (None, None),
        ("Oui", None),
    ],
)
def test_connecting_is_not_receiving(changed, word, receives):
    channel = changed(Slave_IO_Running=word, Seconds_Behind_Master=0)
    assert channel.receives is receives
    assert channel.behind == (0.0 if receives else None)
    assert bool(channel.problem) is not bool(receives)


@pytest.mark.parametrize(("word", "applies"), [("Yes", True), ("No", False), (None, None)])
def test_what_is_left_of_a_lag_when_the_applier_is_stopped_is_none(changed, word, applies):
    channel = changed(Slave_SQL_Running=word, Seconds_Behind_Master=0)
    assert channel.applies is applies
    assert channel.behind == (0.0 if applies else None)


@pytest.mark.parametrize(
    ("told", "behind"),
    [
        (None, None),
        (-1, None),
        (Decimal(-1), None),
        ("-1", None),
        (-0.4, None),
        ("+00 00:00:12", 12.0),
        ("+01 02:03:04", 93784.0),
        (Decimal("12.5"), 12.5),
        ("NULL", None),
        (b"3", 3.0),
        (0, 0.0),
    ],
)
def test_a_lag_that_cannot_be_one_is_unknown(changed, told, behind):
    assert changed(Seconds_Behind_Master=told).behind == behind


def test_a_delay_that_is_none_is_unknown(changed):
    assert changed(SQL_Delay=None).delay is None
    assert changed(SQL_Delay=3600).delay == 3600.0


def test_a_channel_that_never_connected():
    """MySQL shows a lag of 0 for it."""
    channel = parsed(
        MYSQL
        | {
            "Replica_IO_Running": "Connecting",
            "Source_Log_File": "",
            "Read_Source_Log_Pos": 4,
            "Relay_Source_Log_File": "",
            "Exec_Source_Log_Pos": 0,
            "Seconds_Behind_Source": 0,
            "Source_Server_Id": 0,
            "Source_UUID": "",
            "Last_IO_Errno": 1045,
        }
    )
    assert (channel.received, channel.applied, channel.behind) == (None, None, None)
    assert channel.problem == "the receiver is connecting: the source refuses the replication account (error 1045)"


def test_errors_are_told_in_our_words_and_show_no_rows_hosts_or_accounts():
    channel = parsed(
        MARIADB
        | {
            "Slave_SQL_Running": "No",
            "Last_SQL_Errno": 1062,
            "Last_SQL_Error": "Error 'Duplicate entry 'alice@example.org' for key 'PRIMARY'' on query 'INSERT ...'",
            "Slave_IO_Running": "No",
            "Last_IO_Errno": 9876,
            "Last_IO_Error": "error connecting to master 'replicator@10.0.0.1:3306'",
        }
    )
    assert channel.problem == (
        "the receiver is stopped: see the log of the replica (error 9876); "
        "the applier is stopped: a row is there already (duplicate key) (error 1062)"
    )


def test_a_fault_that_is_over_is_told_until_the_server_forgets_it(changed):
    assert "runs again" in changed(Last_IO_Errno=2003).problem


@pytest.mark.parametrize("row", [{}, dict.fromkeys(MARIADB), dict.fromkeys(MYSQL, object()), {"Rubbish": b"\xff"}])
def test_a_row_without_anything_known_leaves_all_unknown(row):
    channel = parsed(row)
    assert (channel.receives, channel.applies, channel.received, channel.applied) == (None, None, None, None)
    assert (channel.behind, channel.delay, channel.source, channel.name) == (None, None, 0, "")


class Peer:
    """A server that understands some of the statements."""

    def __init__(self, **answers):
        self.answers = {key.replace("_", " "): value for key, value in answers.items()}
        self.asked = []

    def ask(self, statement):
        self.asked.append(statement)
        answer = self.answers.get(statement, QueryFailed("You have an error in your SQL syntax (error 1064)"))
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.mark.parametrize("statement", STATEMENTS)
def test_the_statement_that_a_server_understands_is_found_and_kept(statement):
    reader, peer = StatusReader(), Peer(**{statement.replace(" ", "_"): [MYSQL]})
    assert reader.read(peer.ask)[0].name == "east"
    asked = len(peer.asked)
    assert reader.read(peer.ask)[0].name == "east"
    assert peer.asked[asked:] == [statement]


def test_after_an_upgrade_the_statement_is_looked_for_anew():
    reader = StatusReader()
    reader.read(Peer(SHOW_SLAVE_STATUS=[]).ask)
    newer = Peer(SHOW_REPLICA_STATUS=[MYSQL])
    with pytest.raises(QueryFailed):
        reader.read(newer.ask)
    assert len(reader.read(newer.ask)) == 1


def test_no_row_is_no_channel():
    assert StatusReader().read(Peer(SHOW_REPLICA_STATUS=[]).ask) == ()


def test_all_channels_are_read():
    rows = [MARIADB | {"Connection_name": name} for name in ("", "east", "west")]
    assert [channel.name for channel in StatusReader().read(Peer(SHOW_ALL_SLAVES_STATUS=rows).ask)] == [
        "",
        "east",
        "west",
    ]


def test_a_missing_grant_is_told_and_other_statements_are_not_tried():
    peer = Peer(SHOW_ALL_SLAVES_STATUS=PermissionMissing("the privilege SLAVE MONITOR is missing"))
    with pytest.raises(PermissionMissing):
        StatusReader().read(peer.ask)
    assert "GRANT SLAVE MONITOR ON *.*" in not_permitted(mariadb=True)
    assert "GRANT REPLICATION CLIENT ON *.*" in not_permitted(mariadb=False)
    assert peer.asked == ["SHOW ALL SLAVES STATUS"]


def test_a_server_that_understands_none_says_so_and_a_lost_one_is_lost():
    with pytest.raises(QueryFailed, match="1064"):
        StatusReader().read(Peer().ask)
    with pytest.raises(ConnectFailed):
        StatusReader().read(Peer(SHOW_ALL_SLAVES_STATUS=ConnectFailed("gone")).ask)


ANYTHING = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.decimals(), st.text(), st.binary())


@given(st.dictionaries(st.sampled_from([*MARIADB, *MYSQL]), ANYTHING))
def test_any_row_is_a_channel_that_says_nothing_impossible(row):
    found = parsed(row)
    assert found.receives in (True, False, None)
    assert found.behind is None or found.behind >= 0
    assert found.delay is None or found.delay >= 0
    assert found.problem.isprintable()


def test_a_number_that_python_does_not_read_is_none():
    assert parsed(MARIADB | {"Last_IO_Errno": "9" * 5000}).receiver_fault == 0
