"""Which server is refused by which engine, and what is made of the variables; the servers themselves are in other tests."""

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.domain.errors import PermissionMissing, Unsupported
from exporter.engines._mysql_protocol.connection import Connection
from exporter.engines._mysql_protocol.deadlines import Deadline
from exporter.engines._mysql_protocol.identity import identify


class Scripted:
    """Stands for the connection of a server that is not at hand; answers by the beginning of a statement."""

    is_mariadb = False
    server_version = "8.0.0"

    def __init__(self, variables, channels=(), process=True, dumps=False):
        self.variables, self.channels, self.process, self.dumps = variables, channels, process, dumps

    def rows(self, sql, args=(), *, timeout):
        assert sql.startswith("SHOW GLOBAL VARIABLES")
        assert set(self.variables) <= set(args)
        return list(self.variables.items())

    def named(self, sql, args=(), *, timeout):
        if isinstance(self.channels, Exception):
            raise self.channels
        return list(self.channels)

    def row(self, sql, args=(), *, timeout):
        if not self.process:
            raise PermissionMissing("the privilege PROCESS is missing")
        return (1,) if self.dumps or "INNODB_METRICS" in sql else None


def of(engine="mysql", version="9.7.4", comment="MySQL Community Server", **more):
    script = {name: more.pop(name) for name in ("channels", "process", "dumps") if name in more}
    variables = {"version": version, "version_comment": comment, **more}
    return identify(cast(Connection, Scripted(variables, **script)), engine, Deadline(5.0, "looking"))


@pytest.mark.parametrize(
    ("version", "comment", "flavor", "edition"),
    [
        ("9.7.4", "MySQL Community Server - GPL", "mysql", "community"),
        ("8.4.3-commercial", "MySQL Enterprise Server - Commercial", "mysql", "enterprise"),
        ("8.0.36-28", "Percona Server (GPL), Release 28, Revision 47601f19", "percona", ""),
    ],
)
def test_flavours_of_mysql_are_told_apart(version, comment, flavor, edition):
    found = of(version=version, comment=comment)

    assert (found.flavor, found.version, found.edition) == (flavor, version, edition)


@pytest.mark.parametrize(
    ("engine", "version", "comment", "words"),
    [
        ("mysql", "11.8.2-MariaDB-deb", "Debian", "MariaDB .* write `engine: mariadb`"),
        ("mariadb", "9.7.4", "MySQL Community Server - GPL", "MySQL .* write `engine: mysql`"),
        ("mariadb", "8.0.36-28", "Percona Server (GPL)", "Percona Server .* write `engine: mysql`"),
        ("mysql", "5.7.25-OceanBase-v4.3.5.3", "OceanBase 4.3.5.3", "OceanBase .* write `engine: oceanbase`"),
        ("mysql", "8.0.11-TiDB-v8.1.0", "TiDB Server", "TiDB .* no engine"),
    ],
)
def test_other_servers_are_refused_with_the_engine_that_is_for_them(engine, version, comment, words):
    with pytest.raises(Unsupported, match=words):
        of(engine, version, comment)


@pytest.mark.parametrize(
    ("more", "role"),
    [
        ({"log_bin": "OFF"}, "standalone"),
        ({"log_bin": "ON"}, "standalone"),
        ({"log_bin": "ON", "dumps": True}, "primary"),
        ({"log_bin": "ON", "process": False}, ""),
        ({"log_bin": "ON", "channels": [{"Channel_Name": ""}]}, "replica"),
        ({"channels": PermissionMissing("no"), "read_only": "ON"}, "replica"),
        ({"channels": PermissionMissing("no")}, ""),
    ],
)
def test_a_role_is_told_only_where_it_can_be_seen(more, role):
    assert of(**more).role == role


@pytest.mark.parametrize(
    ("more", "mode"),
    [
        ({}, "read_write"),
        ({"read_only": "OFF", "super_read_only": "OFF"}, "read_write"),
        ({"read_only": "ON"}, "read_only"),
        ({"read_only": "NO_LOCK_NO_ADMIN"}, "read_only"),
        ({"innodb_read_only": "ON"}, "read_only"),
    ],
)
def test_read_only_servers_say_so(more, mode):
    assert of(**more).open_mode == mode


@pytest.mark.parametrize(
    ("more", "shared"),
    [
        ({}, ""),
        ({"innodb_encrypt_log": "ON"}, "redo"),
        (
            {"innodb_redo_log_encrypt": "ON", "binlog_encryption": "ON", "innodb_undo_log_encrypt": "ON"},
            "redo,binlog,undo",
        ),
        ({"encrypt_binlog": "ON", "innodb_encrypt_tables": "FORCE"}, "binlog,undo"),
    ],
)
def test_logs_that_are_encrypted_for_both_twins_are_named(more, shared):
    assert of(**more).shared_costs == shared


@given(version=st.text(), comment=st.text(), page=st.text() | st.integers().map(str), role=st.text())
def test_whatever_a_server_says_it_is_is_an_identity_or_refused_in_words(version, comment, page, role):
    try:
        found = of(version=version, comment=comment, innodb_page_size=page, read_only=role, log_bin=role)
    except Unsupported as refused:
        words = str(refused)
        assert "engine" in words
        return
    assert found.page_bytes in (4096, 8192, 16384, 32768, 65536)
    assert found.role in ("primary", "replica", "standalone", "")
    assert found.open_mode in ("read_only", "read_write")
    assert found.version == version
