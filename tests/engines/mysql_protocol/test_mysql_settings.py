"""What an operator may write about a server of the MySQL family, and what is said about the rest."""

import pytest

from exporter.config.loader import load
from exporter.config.secrets import SecretSource
from exporter.domain.errors import ConfigErrors
from exporter.domain.model import Operation
from exporter.engines import registry
from exporter.engines._mysql_protocol.settings import ROW_BYTES, ServerSettings, Standby, TlsSettings, TwinPair
from exporter.engines.mariadb.settings import Target as MariaDbTarget
from exporter.engines.mysql.settings import Target as MySqlTarget

ENGINES = {"mariadb": MariaDbTarget, "mysql": MySqlTarget}


@pytest.fixture(params=sorted(ENGINES))
def engine(request):
    return request.param


@pytest.fixture
def loaded(tmp_path, engine):
    """The target that a piece of YAML describes."""

    def load_it(text):
        path = tmp_path / "c.yaml"
        path.write_text(f"targets:\n- name: x\n  engine: {engine}\n{text}")
        return load(path, target_types=registry.target_types(), environ={"HOME": "/nowhere", "DB": "s3cret"}).targets[0]

    return load_it


@pytest.fixture
def refusal(loaded):
    """The one line about what is wrong."""

    def refuse(text):
        with pytest.raises(ConfigErrors) as caught:
            loaded(text)
        (line,) = str(caught.value).splitlines()
        return line

    return refuse


def test_a_name_and_an_engine_are_enough(loaded, engine):
    target = loaded("")

    assert type(target) is ENGINES[engine]
    assert target.address == "127.0.0.1:3306"
    assert (target.user, target.password, target.schema_name) == ("tde_exporter", None, "tde_canary")
    assert target.tls.mode == "preferred"
    assert [pair.name for pair in target.pairs] == ["main"]
    assert target.standbys == ()
    assert target.canary_operations == (Operation.POINT_SELECT, Operation.RANGE_SELECT, Operation.FULL_SCAN)


def test_everything_can_be_set(loaded, engine, tmp_path):
    own = {"mariadb": "key_id: 7", "mysql": "tablespace: sealed"}[engine]
    target = loaded(
        "  socket: run/s\n  user: u\n  password: {env: DB}\n  schema: Canary_1\n"
        "  tls: {mode: verify_ca, ca: ca.pem, certificate: c.pem, key: k.pem}\n"
        f"  pairs:\n  - {{name: big, bytes: 2GiB, {own}}}\n  - {{name: small, rows: 1000}}\n"
        "  standbys:\n  - {name: near, host: replica, port: 3307}\n"
    )

    assert target.address == str(tmp_path / "run/s")
    assert target.schema_name == "Canary_1"
    assert (target.tls.ca, target.tls.key) == (tmp_path / "ca.pem", tmp_path / "k.pem")
    assert [pair.row_count for pair in target.pairs] == [2 * 2**30 // ROW_BYTES, 1000]
    server = target.standbys[0].server(target)
    assert server.address == "replica:3307"
    assert (server.user, server.password, server.tls) == ("u", target.password, target.tls)


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("  schema: a-b\n", "c.yaml:4: targets[0].schema", "other characters than letters, digits and _"),
        ("  schema: MySQL\n", "c.yaml:4: targets[0].schema", "belongs to the server. Choose one for the exporter alone"),
        (f"  schema: {'a' * 65}\n", "c.yaml:4: targets[0].schema", "more than 64"),
        ("  schema_name: x\n", "c.yaml:4: targets[0].schema_name", "unknown key 'schema_name'; did you mean 'schema'?"),
        ("  shema: x\n", "c.yaml:4: targets[0].shema", "did you mean 'schema'?"),
        ("  port: 0\n", "c.yaml:4: targets[0].port", "at least 1"),
        ("  host: ''\n", "c.yaml:4: targets[0].host", "must not be empty"),
        ("  user: ''\n", "c.yaml:4: targets[0].user", "must not be empty"),
        ("  password: secret\n", "c.yaml:4: targets[0].password", "a secret must not stand in the configuration"),
        ("  tls: {mode: on}\n", "c.yaml:4: targets[0].tls.mode", "one of: disabled, preferred, required, verify_ca"),
        ("  tls: {certificate: a}\n", "c.yaml:4: targets[0].tls", "belong together. Add 'key', or remove the other one"),
        ("  tls: {key: a}\n", "c.yaml:4: targets[0].tls", "Add 'certificate', or remove"),
        ("  tls: {mode: disabled, certificate: a, key: b}\n", "c.yaml:4: targets[0].tls", "TLS is disabled"),
        ("  tls: {mode: required, ca: a}\n", "c.yaml:4: targets[0].tls", "'ca' would check nothing. Use 'verify_ca'"),
        ("  socket: s\n  tls: {mode: verify_identity}\n", "c.yaml:2: targets[0]", "a socket has no host name"),
        ("  pairs:\n  - name: a-b\n", "c.yaml:5: targets[0].pairs[0].name", "part of the names of its tables. Use only"),
        ("  pairs:\n  - name: a.b\n", "c.yaml:5: targets[0].pairs[0].name", "part of the names of its tables"),
        (f"  pairs:\n  - name: {'a' * 41}\n", "c.yaml:5: targets[0].pairs[0].name", "at most 40 characters"),
        ("  pairs:\n  - {name: a, rows: 999}\n", "c.yaml:5: targets[0].pairs[0].rows", "at least 1000"),
        ("  pairs:\n  - {name: a, bytes: 2TiB}\n", "c.yaml:5: targets[0].pairs[0].bytes", "at most 1TiB"),
        ("  pairs:\n  - {name: a, bytes: 1GiB, rows: 5000}\n", "c.yaml:5: targets[0].pairs[0]", "remove one of them"),
        ("  standbys:\n  - name: near\n", "c.yaml:2: targets[0]", "'near' is at 127.0.0.1:3306, as the target itself"),
    ],
)  # fmt: skip
def test_a_mistake_is_located_and_explained(refusal, text, where, words):
    line = refusal(text)

    assert f"/{where}: " in line
    assert words.lower() in line.lower()


@pytest.mark.parametrize(
    ("engine", "text", "words"),
    [
        ("mariadb", "  pairs: [{name: a, key_id: 0}]\n", "at least 1"),
        ("mariadb", "  pairs: [{name: a, key_id: 4294967296}]\n", "at most 4294967295"),
        ("mariadb", "  pairs: [{name: a, tablespace: x}]\n", "unknown key 'tablespace'"),
        ("mysql", "  pairs: [{name: a, key_id: 1}]\n", "unknown key 'key_id'"),
        ("mysql", "  pairs: [{name: a, tablespace: 'a`b'}]\n", "other characters"),
    ],
    indirect=["engine"],
)
def test_the_keys_of_the_other_engine_are_unknown(refusal, text, words):
    assert words in refusal(text)


def test_the_size_of_a_pair_has_a_default():
    assert TwinPair(name="main").row_count == 256 * 2**20 // ROW_BYTES
    assert TwinPair(name="main", bytes=2**20).row_count >= 1000


def test_a_standby_takes_from_the_target_what_it_leaves_open():
    primary = ServerSettings(user="u", password=SecretSource(env="A"), tls=TlsSettings(mode="required"))
    own = Standby(name="s", socket="/s", user="v", password=SecretSource(env="B"), tls=TlsSettings(mode="disabled"))

    given = own.server(primary)
    assert (given.address, given.user, given.password, given.tls) == ("/s", "v", own.password, own.tls)
    left = Standby(name="s", host="h").server(primary)
    assert (left.address, left.user, left.password, left.tls) == ("h:3306", "u", primary.password, primary.tls)


def test_a_standby_on_a_socket_cannot_prove_a_host_name_either(refusal):
    text = "  tls: {mode: verify_identity}\n  standbys: [{name: s, socket: /s}]\n"
    assert "the standby 's' is at a socket, which has no host name" in refusal(text)
