"""What an operator may write for an Oracle target, and what is refused by name."""

from __future__ import annotations

import re

import pytest
from pydantic import ValidationError

from exporter.domain.model import Slot
from exporter.engines.oracle.descriptors import Descriptor
from exporter.engines.oracle.settings import LONGEST_PAIR_NAME, Target
from exporter.engines.oracle.statements import Statement, define, every, quoted
from exporter.engines.oracle.twins import Twins

LEAST = {"name": "db", "service": "pdb1"}
DSN = "(DESCRIPTION=(ADDRESS_LIST=(ADDRESS=(PROTOCOL=tcps)(HOST=one.example)(PORT=2484))(ADDRESS=(PROTOCOL=tcps)(HOST=two.example)(PORT=2484)))(CONNECT_DATA=(SERVICE_NAME=pdb1)))"


def target(**more):
    values = {**LEAST, **more}
    return Target.model_validate({key: value for key, value in values.items() if value is not None})


def test_little_is_needed():
    made = target(pairs=[{"name": "main"}])

    assert (made.host, made.port, made.schema_name, made.privilege) == ("127.0.0.1", 1521, "TDE_CANARY", "normal")
    assert made.address == "127.0.0.1:1521/pdb1"
    assert made.pairs[0].row_count == 256 * 2**20 // 270


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"service": None}, "which database to connect to"),
        ({"dsn": DSN}, "remove 'host', 'port' and 'service', or 'dsn'"),
        ({"service": None, "dsn": "mon/secret@db:1521/pdb1"}, "looks as if it held a password"),
        ({"schema": "sys"}, "belongs to the database"),
        ({"schema": 'a"b'}, "pattern"),
        ({"pairs": [{"name": "1st"}]}, "begin with a letter"),
        ({"pairs": [{"name": "x" * 19}]}, "at most 18 characters"),
        ({"pairs": [{"name": "a", "rows": 1000, "bytes": "1MiB"}]}, "remove one of them"),
        ({"pairs": [{"name": "a", "plain_tablespace": "users; drop"}]}, "pattern"),
        ({"tls": {"wallet": "/w", "ca": "/c"}}, "whom to trust"),
        ({"tls": {"wallet_password": {"env": "X"}}}, "no wallet"),
        ({"tls": {"verify_name": False, "server_dn": "CN=x"}}, "would check nothing"),
        ({"client_directory": "/opt/oracle"}, "driver: thick"),
        ({"standbys": [{"name": "east"}]}, "as the target itself"),
        ({"password": "secret"}, "must not stand in the configuration"),
    ],
)
def test_what_cannot_be_meant_is_refused(more, words):
    with pytest.raises(ValidationError) as raised:
        target(**more)
    assert words in str(raised.value)
    assert "mon/secret" not in str(raised.value)


def test_all_hosts_of_a_descriptor_are_looked_up():
    assert Descriptor(target(service=None, dsn=DSN)).hosts == ("one.example", "two.example")
    assert Descriptor(target(host="db.example")).hosts == ("db.example",)
    assert Descriptor(target(service=None, dsn="db.example:1522/pdb1")).hosts == ("db.example",)


def test_a_standby_has_what_it_does_not_say_from_its_primary():
    made = target(
        user="mon",
        password={"env": "SECRET"},
        tls={"ca": "/ca.pem"},
        standbys=[
            {"name": "east", "host": "east"},
            {"name": "west", "dsn": "west:1521/orcl", "user": "dg", "privilege": "sysdg"},
        ],
    )
    east, west = (standby.server(made) for standby in made.standbys)

    assert (east.address, east.user, east.password, east.privilege) == (
        "east:1521/pdb1",
        "mon",
        made.password,
        "normal",
    )
    assert (west.dsn, west.service, west.user, west.privilege) == ("west:1521/orcl", None, "dg", "sysdg")
    assert east.tls == west.tls == made.tls


@pytest.mark.parametrize("name", ["A", "CANARY", "TDE_X$#1", "C##MON", "TDE.CANARY_PLAIN"])
def test_plain_identifiers_are_quoted(name):
    assert quoted(name).replace('"', "") == name


@pytest.mark.parametrize("name", ["", "a", "A B", 'A"B', "A;B", "1A", "A.B.C", "A..B", "A'--", "Ä", "A" * 129, "A\n"])
def test_nothing_else_gets_into_a_text(name):
    with pytest.raises(ValueError, match="plain identifier"):
        quoted(name)
    with pytest.raises(ValueError, match="plain identifier"):
        Statement("x", "SELECT 1 FROM {table}", "c").on(table=name)


def test_names_of_objects_fit_into_old_releases():
    pair = target(pairs=[{"name": "x" * LONGEST_PAIR_NAME}]).pairs[0]
    for twins in (Twins("TDE", pair),):
        for slot in Slot:
            assert len(twins.name(slot)) <= 30
            assert len(twins.key(slot)) <= 30


def test_statements_are_named_once_and_say_what_they_take():
    found = every()

    assert len(found) > 40
    assert all(name == statement.name for name, statement in found.items())
    with pytest.raises(ValueError, match="already"):
        define("canary.point_select", "SELECT 1 FROM dual", "canary")
    assert {name for name, statement in found.items() if statement.changes and not statement.needs} == {
        "session.cell_offload_off",
        "session.serial_direct_read",
    }


def test_values_go_by_their_place_and_the_example_fits():
    for statement in every().values():
        places = {int(part) for part in re.findall(r":(\d+)", statement.sql)}
        assert places == set(range(1, len(places) + 1)), statement.name
        assert not statement.example or len(statement.example) == len(places), statement.name
