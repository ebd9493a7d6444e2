"""File, environment and defaults become settings, or all mistakes at once in plain words."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exporter.config.loader import load
from exporter.config.quantities import format_duration, format_size, parse_duration, parse_size
from exporter.config.schema import (
    Settings,
    TargetSettings,
    default_state_directory,
    settings_type,
)
from exporter.config.secrets import SecretSource
from exporter.domain.errors import ConfigErrors
from exporter.domain.model import Operation
from exporter.engines import registry

SQLITE = "targets: [{name: x, engine: sqlite}]\n"
HOME = {"HOME": "/users/exporter"}


class Vault(TargetSettings):
    """A target with a secret, as a server's would be."""

    engine: Literal["vault"] = "vault"
    password: SecretSource
    """Password of the user."""
    port: int = 3306
    """TCP port."""


TYPES: Mapping[str, type[TargetSettings]] = {**registry.target_types(), "vault": Vault}

Loading = Callable[..., Settings]


@pytest.fixture
def loading(tmp_path: Path) -> Loading:
    def load_text(text: str, types: Mapping[str, type[TargetSettings]] = TYPES, **environ: str) -> Settings:
        path = tmp_path / "c.yaml"
        path.write_text(text)
        return load(path, target_types=types, environ={**HOME, **environ})

    return load_text


@pytest.fixture
def refused(loading: Loading, tmp_path: Path) -> Callable[..., list[str]]:
    """The lines about a configuration, without the folder of the file."""

    def refuse(text: str, **environ: str) -> list[str]:
        with pytest.raises(ConfigErrors) as caught:
            loading(text, **environ)
        lines = str(caught.value).splitlines()
        assert len(lines) == len(caught.value.problems)
        assert all(problem.problem and problem.where and problem.remedy for problem in caught.value.problems)
        return [line.replace(f"{tmp_path}/", "") for line in lines]

    return refuse


def test_without_a_file_there_is_the_embedded_default() -> None:
    found = load(None, target_types=TYPES, environ=HOME)

    (target,) = found.targets
    state = Path("/users/exporter/.local/state/tde-exporter")
    assert (target.name, target.engine, [pair.name for pair in target.pairs]) == ("embedded", "sqlite", ["phonebook"])
    assert found.state_directory == state
    assert found.history_path == state / "history.db"
    assert target.claims == (state / "targets" / "embedded",)
    assert target.canary_operations == target.default_operations


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"STATE_DIRECTORY": "/var/lib/a:/var/lib/b", **HOME}, "/var/lib/a"),
        ({"XDG_STATE_HOME": "/s", **HOME}, "/s/tde-exporter"),
        ({"XDG_STATE_HOME": "relative", **HOME}, "/users/exporter/.local/state/tde-exporter"),
        ({"TDE_EXPORTER_STATE_DIRECTORY": "/elsewhere", **HOME}, "/elsewhere"),
    ],
)
def test_the_state_directory_is_found(environ: dict[str, str], expected: str) -> None:
    assert load(None, target_types=TYPES, environ=environ).state_directory == Path(expected)


def test_settings_can_be_sent_to_another_process() -> None:
    loaded = load(None, target_types=TYPES, environ=HOME)
    assert pickle.loads(pickle.dumps(loaded)) == loaded
    made = settings_type(TYPES)(targets=[{"name": "x", "engine": "fake"}])
    assert pickle.loads(pickle.dumps(made)).targets == made.targets
    assert loaded.model_dump()["targets"][0]["cipher"] == "aes256cbc"


def test_relative_paths_start_at_the_file_and_in_variables_at_the_working_directory(
    loading: Loading, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    text = "state_directory: st\nhistory: {path: h.db}\ntargets:\n- {name: x, engine: sqlite}\n- {name: y, engine: sqlite, directory: /abs}\n"

    found = loading(text)
    assert found.state_directory == tmp_path / "st"
    assert found.history_path == tmp_path / "h.db"
    assert [target.claims for target in found.targets] == [(tmp_path / "st" / "targets" / "x",), (Path("/abs"),)]
    assert loading(text, TDE_EXPORTER_HISTORY__PATH="e.db").history_path == Path("/e.db")


def test_variables_override_single_values(loading: Loading) -> None:
    found = loading(
        SQLITE + "web: {port: 1000, max_series: 500}\n",
        TDE_EXPORTER_WEB__PORT="2000",
        TDE_EXPORTER_INTERVALS__CANARY="5m",
        TDE_EXPORTER_OPERATIONS__FULL_SCAN__TIMEOUT="45s",
        TDE_EXPORTER_LOG__FORMAT="json",
        TDE_EXPORTER_CONFIG="/read/by/the/command/line",
        UNRELATED="x",
    )

    assert (found.web.port, found.web.max_series, found.intervals.canary, found.log.format) == (
        2000,
        500,
        300.0,
        "json",
    )
    assert found.operation(Operation.FULL_SCAN).timeout == 45.0
    assert found.operation(Operation.FULL_SCAN).samples == 1


def test_an_operation_keeps_the_defaults_that_are_not_named(loading: Loading) -> None:
    found = loading(SQLITE + "operations: {full_scan_cold: {timeout: 1m}, point_select: {samples: 5}}\n")

    assert set(found.operations) == set(Operation)
    shown = {key: (value.samples, value.timeout) for key, value in found.operations.items()}
    assert shown[Operation.POINT_SELECT] == (5, 2.0)
    assert shown[Operation.FULL_SCAN] == (1, 30.0)
    assert shown[Operation.FULL_SCAN_COLD] == (1, 60.0)
    assert shown[Operation.INSERT_BATCH] == (1, 10.0)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("TDE_EXPORTER_WEB__PROT", "1", "did you mean TDE_EXPORTER_WEB__PORT?"),
        ("TDE_EXPORTER_ZZZZ", "1", "no setting has this name"),
        ("TDE_EXPORTER_WEB_PORT", "1", "did you mean TDE_EXPORTER_WEB__PORT?"),
        ("TDE_EXPORTER_web__port", "1", "no setting has this name"),
        ("TDE_EXPORTER_WEB", "{}", "'web' is a section"),
        ("TDE_EXPORTER_OPERATIONS__FULL_SCAN", "1", "such as TDE_EXPORTER_OPERATIONS__FULL_SCAN__SAMPLES"),
        ("TDE_EXPORTER_OPERATIONS__NOTHING__SAMPLES", "1", "no setting has this name"),
        ("TDE_EXPORTER_TARGETS", "[]", "'targets' is a list"),
        ("TDE_EXPORTER_TARGETS__0__NAME", "x", "'targets' is a list"),
        ("TDE_EXPORTER_WEB__PORT", "", "the value is empty"),
        ("TDE_EXPORTER_WEB__PORT", "many", "must be a whole number"),
        ("TDE_EXPORTER_WEB__PORT", "99999", "at most 65535"),
        ("TDE_EXPORTER_INTERVALS__CANARY", "5 min", "no duration"),
        ("TDE_EXPORTER_WEB__PORT__X", "1", "no setting has this name"),
        ("TDE_EXPORTER_", "1", "no setting has this name"),
        ("TDE_EXPORTER_PORT", "10161", "did you mean TDE_EXPORTER_WEB__PORT?"),
    ],
)
def test_a_variable_that_cannot_be_used_is_named(
    refused: Callable[..., list[str]], name: str, value: str, words: str
) -> None:
    (line,) = refused(SQLITE, **{name: value})

    assert line.startswith(f"environment variable {name}: ")
    assert words in line


def test_the_variables_that_kubernetes_makes_for_a_service_are_ignored(loading: Loading) -> None:
    links = {
        "SERVICE_HOST": "10.0.0.1", "SERVICE_PORT": "10161", "SERVICE_PORT_METRICS": "10161",
        "PORT": "tcp://10.0.0.1:10161", "PORT_10161_TCP": "tcp://10.0.0.1:10161", "PORT_10161_TCP_PROTO": "tcp",
        "PORT_10161_TCP_PORT": "10161", "PORT_10161_TCP_ADDR": "10.0.0.1",
        "ORACLE_SERVICE_HOST": "10.0.0.2", "ORACLE_PORT": "tcp://10.0.0.2:10161",
    }  # fmt: skip

    assert loading(SQLITE, **{f"TDE_EXPORTER_{name}": value for name, value in links.items()}).web.port == 10161


def test_a_section_that_is_wrong_in_the_file_stays_wrong_under_a_variable(refused: Callable[..., list[str]]) -> None:
    (line,) = refused(SQLITE + "web: 5\n", TDE_EXPORTER_WEB__PORT="1")
    assert "c.yaml:2: web: this must be a section of keys, but this is a number" in line


@pytest.mark.parametrize(
    ("text", "start", "words"),
    [
        ("web: {}\n", "c.yaml: targets", "missing"),
        ("targets: []\n", "c.yaml:1: targets", "at least one entry"),
        ("targets:\n", "c.yaml:1: targets", "must be a list, but this is nothing"),
        ("targets: {name: x}\n", "c.yaml:1: targets", "must be a list, but this is a section of keys"),
        ("targets:\n- x\n", "c.yaml:2: targets[0]", "a section of keys, but this is text"),
        ("targets:\n- engine: sqlite\n", "c.yaml:2: targets[0].name", "missing. Add it: Name of the target"),
        ("targets:\n- name: x\n", "c.yaml:2: targets[0]", "'engine' is missing. Add it; known: fake, mariadb, mysql, oracle, sqlite, vault"),
        ("targets:\n- name: x\n  engine: sqllite\n", "c.yaml:3: targets[0].engine", "'sqllite'; did you mean 'sqlite'?"),
        ("targets:\n- name: x\n  engine: [a]\n", "c.yaml:3: targets[0].engine", "unknown engine. Known: fake, mariadb, mysql, oracle, sqlite"),
        ("targets:\n- {name: X y, engine: fake}\n", "c.yaml:2: targets[0].name", "a name begins with"),
        ("targets:\n- {name: 5, engine: fake}\n", "c.yaml:2: targets[0].name", "must be text, but this is a number"),
        ("targets:\n- {name: x, engine: fake}\n- engine: fake\n  name: x\n", "c.yaml:4: targets[1].name", "two targets are named 'x'"),
        (
            "targets:\n- name: x\n  engine: sqlite\n  pairs:\n  - name: p\n  - rows: 5000\n    name: p\n",
            "c.yaml:7: targets[0].pairs[1].name",
            "two pairs are named 'p'",
        ),
        (
            "targets:\n- name: x\n  engine: sqlite\n  operations: [full_scan, full_scan]\n",
            "c.yaml:4: targets[0].operations[1]",
            "two operations are named 'full_scan'",
        ),
        (
            "targets:\n- name: x\n  engine: sqlite\n  pairs:\n  - name: p\n  - name: q\n    rows: many\n",
            "c.yaml:7: targets[0].pairs[1].rows",
            "must be a whole number, but this is text",
        ),
        ("targets:\n- {name: x, engine: sqlite, pairs: [{name: p, rows: 1}]}\n", "c.yaml:2: targets[0].pairs[0].rows", "at least 1000"),
        ("targets:\n- {name: x, engine: sqlite, row: 1}\n", "c.yaml:2: targets[0].row", "unknown key 'row'"),
        ("targets:\n- {name: x, engine: sqlite, rows: 1}\n", "c.yaml:2: targets[0].rows", "Known here: budgets, cipher"),
        ("targets:\n- {name: x, engine: sqlite, directory: ''}\n", "c.yaml:2: targets[0].directory", "path must not be empty"),
        (SQLITE + "web: {prot: 1}\n", "c.yaml:2: web.prot", "unknown key 'prot'; did you mean 'port'?"),
        (SQLITE + "webb: {}\n", "c.yaml:2: webb", "did you mean 'web'?"),
        (SQLITE + "_env_file: /etc/passwd\n", "c.yaml:2: _env_file", "unknown key"),
        (SQLITE + "web:\n", "c.yaml:2: web", "this section is empty"),
        (SQLITE + "web:\n  port: true\n", "c.yaml:3: web.port", "must be a number, but this is true or false"),
        (SQLITE + "web: {max_connections: true}\n", "c.yaml:2: web.max_connections", "but this is true or false"),
        (SQLITE + "web: {5b1e9c1e-9f3c-4f6e-8a56-0f4f7d1a2b3c: 1}\n", "c.yaml:2: web.?", "unknown key. Known here"),
        (SQLITE + "web: {'a b': 1}\n", "c.yaml:2: web.?", "unknown key. Known here"),
        (SQLITE + "web:\n  port: 1.5\n", "c.yaml:3: web.port", "whole number"),
        (SQLITE + "intervals: {canary: 500ms}\n", "c.yaml:2: intervals.canary", "at least 1s"),
        (SQLITE + "intervals: {canary: 0}\n", "c.yaml:2: intervals.canary", "at least 1s"),
        (SQLITE + "intervals: {canary: 1d}\n", "c.yaml:2: intervals.canary", "at most 1h"),
        (SQLITE + "intervals: {canary: -5}\n", "c.yaml:2: intervals.canary", "at least 1s"),
        (SQLITE + "intervals: {canary: .inf}\n", "c.yaml:2: intervals.canary", "at most 1h"),
        (SQLITE + "intervals: {canary: .nan}\n", "c.yaml:2: intervals.canary", "at most 1h"),
        (SQLITE + "intervals: {canary: soon}\n", "c.yaml:2: intervals.canary", "no duration. Write it as 250ms"),
        (SQLITE + "intervals: {canary: [1]}\n", "c.yaml:2: intervals.canary", "a duration, but this is a list"),
        (SQLITE + "operations: {full_scan: {timeout: 11m}}\n", "c.yaml:2: operations.full_scan.timeout", "at most 10m"),
        (SQLITE + "operations: {full: {}}\n", "c.yaml:2: operations.full", "one of: point_select, point_select_cold"),
        (SQLITE + "budgets: {time_share_ratio: .nan}\n", "c.yaml:2: budgets.time_share_ratio", "at most 1"),
        (SQLITE + "log: {level: LOUD}\n", "c.yaml:2: log.level", "one of: debug, info, warning, error"),
    ],
)  # fmt: skip
def test_a_mistake_is_located_and_explained(
    refused: Callable[..., list[str]], text: str, start: str, words: str
) -> None:
    (line,) = refused(text)

    assert line.startswith(f"{start}: ")
    assert words in line
    for jargon in ("Input", "pydantic", "tuple", "dictionary", "validation"):
        assert jargon not in line


def test_all_mistakes_are_reported_at_once_in_the_order_of_the_file(refused: Callable[..., list[str]]) -> None:
    lines = refused(
        "targets:\n- name: x\n  engine: fake\n  seed: true\n  a: {latency: 5 sec}\n- engine: foo\nweb:\n  port: 0\nlog: {level: x}\n",
        TDE_EXPORTER_NOTHING_LIKE_THIS="1",
    )

    assert [line.split(": ")[0] for line in lines] == [
        "environment variable TDE_EXPORTER_NOTHING_LIKE_THIS", "c.yaml:4", "c.yaml:5", "c.yaml:6", "c.yaml:8", "c.yaml:9",
    ]  # fmt: skip


def test_two_targets_may_not_share_a_directory(refused: Callable[..., list[str]]) -> None:
    (line,) = refused(
        "targets:\n- {name: x, engine: sqlite, directory: d}\n- {name: y, engine: sqlite, directory: ./e/../d}\n"
    )
    assert "c.yaml:3: targets[1]: this target would use the same directory as target 'x'" in line


def test_one_engine_is_enough(loading: Loading) -> None:
    types = {"sqlite": registry.target_types()["sqlite"]}
    assert loading(SQLITE, types).targets[0].engine == "sqlite"
    with pytest.raises(ConfigErrors, match=r"targets\[0\].engine: this must be one of: sqlite"):
        loading("targets: [{name: x, engine: fake}]\n", types)


def test_a_user_without_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("os.getuid", lambda: 2**31 - 7)
    with pytest.raises(ConfigErrors, match=r"no home directory\. Set it to an absolute path"):
        load(None, target_types=TYPES, environ={})
    with pytest.raises(RuntimeError):
        default_state_directory({})


@pytest.mark.parametrize("seconds", [0.25, 1.0, 1.5, 10.0, 60.0, 90.0, 3600.0, 86400.0 * 14, 0.0012])
def test_durations_are_written_as_they_are_read(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds)


@given(st.integers(1, 2**50))
def test_sizes_are_written_as_they_are_read(size: int) -> None:
    assert parse_size(format_size(size)) == size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512MiB", 2**29),
        ("2GiB", 2**31),
        ("1.5GiB", 3 * 2**29),
        ("1TiB", 2**40),
        ("1048576", 2**20),
        ("2048KiB", 2**21),
    ],
)
def test_sizes_are_read_from_file_and_environment(loading: Loading, text: str, size: int) -> None:
    assert loading(SQLITE + f"budgets: {{bytes_read_per_hour: {text}}}\n").budgets.bytes_read_per_hour == size
    environ = {**HOME, "TDE_EXPORTER_BUDGETS__BYTES_READ_PER_HOUR": text}
    assert load(None, target_types=TYPES, environ=environ).budgets.bytes_read_per_hour == size


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("2GB", "this is no size. Write whole bytes, or 512KiB, 64MiB, 2GiB or 1TiB"),
        ("much", "this is no size"),
        ("1.3KiB", "this is no size"),
        ("-1MiB", "this is no size"),
        ("''", "this is no size"),
        (f"{'9' * 400}GiB", "this is no size"),
        ("1KiB", "this must be at least 1MiB"),
        ("2000TiB", "this must be at most 1024TiB"),
        ("-5", "this must be at least 1MiB"),
        ("0.5", "this must be a size"),
        ("true", "this must be a number"),
        ("[]", "this must be a size, but this is a list. Write it as 512KiB"),
    ],
)
def test_what_is_no_size_is_explained(loading: Loading, text: str, words: str) -> None:
    with pytest.raises(ConfigErrors, match=re.escape(words)) as caught:
        loading(SQLITE + f"budgets: {{bytes_read_per_hour: {text}}}\n")
    assert "c.yaml:2: budgets.bytes_read_per_hour" in str(caught.value)


# Secrets in the configuration


MARKER = "S3CR3T-5b1e9c1e-9f3c-4f6e-8a56-0f4f7d1a2b3c"


def vault(password: str) -> str:
    return f"targets:\n- name: x\n  engine: vault\n  password: {password}\n"


@pytest.mark.parametrize(
    ("password", "place", "words"),
    [
        (MARKER, "targets[0].password", "a secret must not stand in the configuration"),
        ("12345678", "targets[0].password", "must not stand in the configuration"),
        (f"[{MARKER}]", "targets[0].password", "must not stand in the configuration"),
        (f"{{{MARKER}: }}", "targets[0].password", "unknown key"),
        ("{hunter2: }", "targets[0].password", "unknown key"),
        (f"{{value: {MARKER}}}", "targets[0].password", "unknown key"),
        (f"{{env: {MARKER}}}", "targets[0].password.env", "not the form"),
        ("{}", "targets[0].password", "exactly one of the keys 'file' and 'env'"),
        ("{file: a, env: B}", "targets[0].password", "exactly one of the keys 'file' and 'env'"),
        ("{env: NOT_SET}", "targets[0].password", "environment variable NOT_SET is not set"),
        (f"*{MARKER}", "c.yaml:4", "alias"),
        (f"!{MARKER}", "c.yaml:4", "tags"),
        (f"'{MARKER}", "c.yaml", "quote"),
    ],
)
def test_a_secret_in_the_wrong_place_is_refused_and_not_repeated(
    refused: Callable[..., list[str]], password: str, place: str, words: str
) -> None:
    (line,) = refused(vault(password))

    assert place in line
    assert words in line
    assert MARKER not in line
    assert "hunter2" not in line


def test_a_missing_secret_file_is_named_with_its_place(refused: Callable[..., list[str]]) -> None:
    (line,) = refused(vault("{file: absent}"))
    assert line == ("c.yaml:4: targets[0].password: secret file absent does not exist. Create it, or correct the path")


def test_a_secret_of_another_shard_need_not_be_here(
    loading: Loading, refused: Callable[..., list[str]], tmp_path: Path
) -> None:
    text = "shard: {}/3\ntargets:\n  - {{name: embedded, engine: vault, password: {{file: absent}}}}\n"
    assert loading(text.format(1)).own_shard.index == 1
    assert "secret file absent does not exist" in "".join(refused(text.format(0)))


def test_a_secret_of_the_file_may_use_our_prefix(loading: Loading, tmp_path: Path) -> None:
    found = loading(vault("{env: TDE_EXPORTER_X_PASSWORD}"), TDE_EXPORTER_X_PASSWORD=MARKER)
    assert MARKER not in repr(found)
    assert MARKER not in str(found.model_dump())

    (tmp_path / "pw").write_text(f"{MARKER}\n")
    target = loading(vault("{file: pw}")).targets[0]
    assert isinstance(target, Vault)
    assert target.password.read() == MARKER


# Nothing but ConfigErrors, whatever the file holds


def _values() -> st.SearchStrategy[Any]:
    scalars = st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.just(MARKER), st.just(10**400),
        st.sampled_from(["sqlite", "fake", "vault", "x", "10s", "full_scan", "enabled", "a" * 64, "\0", "~nobody/x"]),
    )  # fmt: skip
    keys = st.sampled_from([*_known_keys(), "env", "file", "other", "_env_file", "__class__", "self", "[key]", "1", ""])
    return st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4), max_leaves=12
    )


def _known_keys() -> Iterator[str]:
    yield from Settings.model_fields
    for model in (*TYPES.values(), *(type(getattr(settings_type(TYPES)(targets=[{"name": "x", "engine": "fake"}]), name)) for name in ("web", "log", "history"))):  # fmt: skip
        yield from model.model_fields


def _mutations() -> st.SearchStrategy[dict[str, Any]]:
    """Configurations that are nearly right: a good one with something strange in one or two places."""
    targets = st.lists(
        st.fixed_dictionaries(
            {"name": st.sampled_from(["x", "y"]), "engine": st.sampled_from(["sqlite", "fake", "vault"])},
            optional={
                key: _values() for key in ("pairs", "operations", "intervals", "directory", "a", "faults", "password")
            },
        ),
        min_size=1,
        max_size=2,
    )
    return st.fixed_dictionaries(
        {"targets": targets},
        optional={key: _values() for key in ("state_directory", "web", "operations", "intervals", "history", "log")},
    )


@settings(
    deadline=None, max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    tree=_mutations() | _values(),
    variable=st.sampled_from(["WEB__PORT", "LOG", "TARGETS", "X", MARKER]),
    value=st.just(MARKER),
)
def test_any_tree_loads_or_is_refused_in_plain_words(tmp_path: Path, tree: Any, variable: str, value: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(yaml.safe_dump(tree, allow_unicode=True), encoding="utf-8")
    environ = {**HOME, f"TDE_EXPORTER_{variable}": value} if variable != MARKER else HOME
    error = None
    try:
        assert load(path, target_types=TYPES, environ=environ).state_directory.is_absolute()
    except ConfigErrors as caught:
        error = caught
    if error is not None:
        assert error.problems
        assert len(str(error).splitlines()) == len(error.problems)
        assert MARKER not in str(error)
        assert all(MARKER not in repr(vars(problem)) for problem in (error, *error.problems))
        assert error.__suppress_context__ or error.__context__ is None


@settings(
    deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(content=st.binary(max_size=60) | st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")) | st.text("ab:-[]{}&*!|>'\"%@`#?,\n \t<~0.", max_size=40).map(str.encode))  # fmt: skip
def test_any_bytes_are_refused_in_plain_words(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "c.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigErrors) as caught:
        load(path, target_types=TYPES, environ=HOME)
    assert len(str(caught.value).splitlines()) == len(caught.value.problems)
